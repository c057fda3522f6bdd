//! The calls of NVML that `nvml-wrapper` lacks, or makes in a way that does not fit.
//!
//! The one place of this crate with `unsafe`. Each function takes plain Rust values, gives plain Rust values, and
//! keeps NVML's code in the error. Lists are read into a buffer that grows a bounded number of times, since their
//! length may change between two calls.

#![expect(unsafe_code, reason = "calls of a C library")]

use std::mem::size_of;
use std::os::raw::{c_uint, c_ulonglong};
use std::ptr;

use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings as sys;

/// How many times a list may outgrow its buffer within one read.
const MAX_GROWTHS: u32 = 5;
/// No driver lists more entries than this.
const MAX_ENTRIES: usize = 1 << 16;

/// NVML's name of a device within one session of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle(sys::nvmlDevice_t);

// SAFETY: the pointer is an opaque name; NVML's device functions may be called from any thread.
unsafe impl Send for Handle {}

/// One entry of a process list, as NVML gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListedProcess {
    pub(crate) pid: u32,
    /// All ones when not available.
    pub(crate) used_memory: u64,
    /// All ones without MIG.
    pub(crate) gpu_instance_id: u32,
    /// All ones without MIG.
    pub(crate) compute_instance_id: u32,
}

/// One sample of a process's utilisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UtilizationSample {
    pub(crate) pid: u32,
    /// Microseconds, by the driver's clock.
    pub(crate) time_stamp: u64,
    pub(crate) sm: u32,
    pub(crate) memory: u32,
    pub(crate) encoder: u32,
    pub(crate) decoder: u32,
}

/// Which processes to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessList {
    Compute,
    Graphics,
    Mps,
}

/// Why pages were retired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retirement {
    Corrected,
    Uncorrected,
}

/// Remapped rows of a device's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RemappedRows {
    pub(crate) corrected: u32,
    pub(crate) uncorrected: u32,
    pub(crate) pending: bool,
    pub(crate) failed: bool,
}

/// The process entry of drivers 535.43 to 535.86, which had one more member than any driver before or after.
#[repr(C)]
#[derive(Clone, Copy)]
struct WideProcessInfo {
    narrow: sys::nvmlProcessInfo_v2_t,
    protected_memory: c_ulonglong,
}

type ListFn<T> = unsafe extern "C" fn(sys::nvmlDevice_t, *mut c_uint, *mut T) -> sys::nvmlReturn_t;

impl Handle {
    pub(crate) fn of(device: &Device<'_>) -> Self {
        // SAFETY: the handle is only kept as a name; it is used again through `Handle::device` alone.
        Self(unsafe { device.handle() })
    }

    /// The device this handle names. NVML answers "invalid argument" to a handle of an earlier session.
    pub(crate) fn device(self, nvml: &Nvml) -> Device<'_> {
        // SAFETY: the handle came from a `Device`; NVML checks handles against its own table before use.
        unsafe { Device::new(self.0, nvml) }
    }
}

/// True when the library has what tearing down calls without looking; those calls panic otherwise.
pub(crate) fn can_shut_down(nvml: &Nvml) -> bool {
    nvml.lib().nvmlShutdown.is_ok()
}

/// True when the library has everything that waiting for events needs.
pub(crate) fn has_events(nvml: &Nvml) -> bool {
    let lib = nvml.lib();
    lib.nvmlEventSetCreate.is_ok()
        && lib.nvmlEventSetFree.is_ok()
        && lib.nvmlEventSetWait_v2.is_ok()
        && lib.nvmlDeviceRegisterEvents.is_ok()
        && lib.nvmlDeviceGetSupportedEventTypes.is_ok()
}

/// Processes of one kind, by the newest call the library has.
pub(crate) fn processes(
    nvml: &Nvml,
    handle: Handle,
    which: ProcessList,
    capacity: usize,
) -> Result<Vec<ListedProcess>, NvmlError> {
    let lib = nvml.lib();
    let (newest, older, oldest) = match which {
        ProcessList::Compute => (
            &lib.nvmlDeviceGetComputeRunningProcesses_v3,
            &lib.nvmlDeviceGetComputeRunningProcesses_v2,
            Some(&lib.nvmlDeviceGetComputeRunningProcesses),
        ),
        ProcessList::Graphics => (
            &lib.nvmlDeviceGetGraphicsRunningProcesses_v3,
            &lib.nvmlDeviceGetGraphicsRunningProcesses_v2,
            Some(&lib.nvmlDeviceGetGraphicsRunningProcesses),
        ),
        ProcessList::Mps => {
            (&lib.nvmlDeviceGetMPSComputeRunningProcesses_v3, &lib.nvmlDeviceGetMPSComputeRunningProcesses_v2, None)
        }
    };
    if let Ok(call) = newest {
        if has_wide_processes(nvml) {
            // SAFETY: these drivers fill this call's buffer with the wider entry, so the pointer type is theirs.
            let call = unsafe { std::mem::transmute::<ListFn<sys::nvmlProcessInfo_t>, ListFn<WideProcessInfo>>(*call) };
            return list(call, handle, capacity).map(|all| all.iter().map(|one| from_v2(&one.narrow)).collect());
        }
        return list(*call, handle, capacity).map(|all| all.iter().map(from_v2).collect());
    }
    if let Ok(call) = older {
        return list(*call, handle, capacity).map(|all| all.iter().map(from_v2).collect());
    }
    match oldest {
        Some(Ok(call)) => list(*call, handle, capacity).map(|all| all.iter().map(from_v1).collect()),
        _ => Err(NvmlError::FunctionNotFound),
    }
}

/// The wider entry came with confidential computing and went when the detail list took its place.
fn has_wide_processes(nvml: &Nvml) -> bool {
    nvml.lib().nvmlDeviceGetConfComputeMemSizeInfo.is_ok() && nvml.lib().nvmlDeviceGetRunningProcessDetailList.is_err()
}

fn from_v2(entry: &sys::nvmlProcessInfo_v2_t) -> ListedProcess {
    ListedProcess {
        pid: entry.pid,
        used_memory: entry.usedGpuMemory,
        gpu_instance_id: entry.gpuInstanceId,
        compute_instance_id: entry.computeInstanceId,
    }
}

fn from_v1(entry: &sys::nvmlProcessInfo_v1_t) -> ListedProcess {
    ListedProcess {
        pid: entry.pid,
        used_memory: entry.usedGpuMemory,
        gpu_instance_id: u32::MAX,
        compute_instance_id: u32::MAX,
    }
}

/// Calls with buffers that grow until the list fits. `call` gets the buffer and its length, and gives NVML's code and
/// the length of the list.
fn grow<T: Copy>(
    empty: T,
    capacity: usize,
    mut call: impl FnMut(&mut [T]) -> (sys::nvmlReturn_t, usize),
) -> Result<Vec<T>, NvmlError> {
    let mut capacity = capacity.clamp(1, MAX_ENTRIES);
    for _ in 0..=MAX_GROWTHS {
        let mut buffer = vec![empty; capacity];
        let (code, length) = call(&mut buffer);
        if code == sys::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE {
            // Room for those that start meanwhile.
            capacity = (length + length / 4 + 8).max(capacity * 2).min(MAX_ENTRIES);
            continue;
        }
        nvml_try(code)?;
        buffer.truncate(length);
        return Ok(buffer);
    }
    Err(NvmlError::InsufficientSize(None))
}

fn list<T: Copy>(call: ListFn<T>, handle: Handle, capacity: usize) -> Result<Vec<T>, NvmlError> {
    // SAFETY: the entries are plain integers, for which zero is a value.
    let empty: T = unsafe { std::mem::zeroed() };
    grow(empty, capacity, |buffer| {
        let mut length = c_uint::try_from(buffer.len()).unwrap_or(c_uint::MAX);
        // SAFETY: the buffer has room for `length` entries and outlives the call.
        let code = unsafe { call(handle.0, &raw mut length, buffer.as_mut_ptr()) };
        (code, length as usize)
    })
}

/// Utilisation of processes since a time stamp of the driver's clock, by the newer call.
pub(crate) fn processes_utilization(
    nvml: &Nvml,
    handle: Handle,
    since: u64,
    capacity: usize,
) -> Result<Vec<UtilizationSample>, NvmlError> {
    type Entry = sys::nvmlProcessUtilizationInfo_v1_t;
    let call = nvml_sym(nvml.lib().nvmlDeviceGetProcessesUtilizationInfo.as_ref())?;
    // SAFETY: the entry is plain integers, for which zero is a value.
    let empty: Entry = unsafe { std::mem::zeroed() };
    let entries = grow(empty, capacity, |buffer| {
        let mut request = sys::nvmlProcessesUtilizationInfo_t {
            version: struct_version::<sys::nvmlProcessesUtilizationInfo_t>(1),
            processSamplesCount: c_uint::try_from(buffer.len()).unwrap_or(c_uint::MAX),
            lastSeenTimeStamp: since,
            procUtilArray: buffer.as_mut_ptr(),
        };
        // SAFETY: the request names a buffer with room for that many entries; both outlive the call.
        let code = unsafe { call(handle.0, &raw mut request) };
        (code, request.processSamplesCount as usize)
    })?;
    Ok(entries
        .into_iter()
        .map(|entry| UtilizationSample {
            pid: entry.pid,
            time_stamp: entry.timeStamp,
            sm: entry.smUtil,
            memory: entry.memUtil,
            encoder: entry.encUtil,
            decoder: entry.decUtil,
        })
        .collect())
}

/// Utilisation of processes since a time stamp of the driver's clock, by the older call.
pub(crate) fn process_utilization(
    nvml: &Nvml,
    handle: Handle,
    since: u64,
    capacity: usize,
) -> Result<Vec<UtilizationSample>, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetProcessUtilization.as_ref())?;
    // SAFETY: the entry is plain integers, for which zero is a value.
    let empty: sys::nvmlProcessUtilizationSample_t = unsafe { std::mem::zeroed() };
    let entries = grow(empty, capacity, |buffer| {
        let mut length = c_uint::try_from(buffer.len()).unwrap_or(c_uint::MAX);
        // SAFETY: the buffer has room for `length` entries and outlives the call.
        let code = unsafe { call(handle.0, buffer.as_mut_ptr(), &raw mut length, since) };
        (code, length as usize)
    })?;
    Ok(entries
        .into_iter()
        .map(|entry| UtilizationSample {
            pid: entry.pid,
            time_stamp: entry.timeStamp,
            sm: entry.smUtil,
            memory: entry.memUtil,
            encoder: entry.encUtil,
            decoder: entry.decUtil,
        })
        .collect())
}

/// Memory used and in all by the call of old drivers, which counts the driver's reserve as used.
pub(crate) fn memory_v1(nvml: &Nvml, handle: Handle) -> Result<sys::nvmlMemory_t, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetMemoryInfo.as_ref())?;
    let mut memory = sys::nvmlMemory_t { total: 0, free: 0, used: 0 };
    // SAFETY: `memory` outlives the call.
    nvml_try(unsafe { call(handle.0, &raw mut memory) })?;
    Ok(memory)
}

/// Remapped rows.
pub(crate) fn remapped_rows(nvml: &Nvml, handle: Handle) -> Result<RemappedRows, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetRemappedRows.as_ref())?;
    let (mut corrected, mut uncorrected, mut pending, mut failed) = (0, 0, 0, 0);
    // SAFETY: the four integers outlive the call.
    nvml_try(unsafe { call(handle.0, &raw mut corrected, &raw mut uncorrected, &raw mut pending, &raw mut failed) })?;
    Ok(RemappedRows { corrected, uncorrected, pending: pending != 0, failed: failed != 0 })
}

/// How many pages were retired for a cause.
pub(crate) fn retired_pages(nvml: &Nvml, handle: Handle, cause: Retirement) -> Result<u32, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetRetiredPages.as_ref())?;
    let cause = match cause {
        Retirement::Corrected => {
            sys::nvmlPageRetirementCause_enum_NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS
        }
        Retirement::Uncorrected => sys::nvmlPageRetirementCause_enum_NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR,
    };
    let mut count: c_uint = 0;
    // SAFETY: with a count of 0 NVML writes no address and tells the count.
    let code = unsafe { call(handle.0, cause, &raw mut count, ptr::null_mut()) };
    if code != sys::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE {
        nvml_try(code)?;
    }
    Ok(count)
}

/// Clock event reasons, every bit as the driver gives it.
pub(crate) fn clock_event_reasons(nvml: &Nvml, handle: Handle) -> Result<u64, NvmlError> {
    let lib = nvml.lib();
    let call = match lib.nvmlDeviceGetCurrentClocksEventReasons.as_ref() {
        Ok(call) => call,
        Err(_) => nvml_sym(lib.nvmlDeviceGetCurrentClocksThrottleReasons.as_ref())?,
    };
    let mut reasons: c_ulonglong = 0;
    // SAFETY: `reasons` outlives the call.
    nvml_try(unsafe { call(handle.0, &raw mut reasons) })?;
    Ok(reasons)
}

/// JPEG engine utilisation.
pub(crate) fn jpeg_utilization(nvml: &Nvml, handle: Handle) -> Result<u32, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetJpgUtilization.as_ref())?;
    let (mut percent, mut period) = (0, 0);
    // SAFETY: both integers outlive the call.
    nvml_try(unsafe { call(handle.0, &raw mut percent, &raw mut period) })?;
    Ok(percent)
}

/// Optical-flow engine utilisation.
pub(crate) fn ofa_utilization(nvml: &Nvml, handle: Handle) -> Result<u32, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetOfaUtilization.as_ref())?;
    let (mut percent, mut period) = (0, 0);
    // SAFETY: both integers outlive the call.
    nvml_try(unsafe { call(handle.0, &raw mut percent, &raw mut period) })?;
    Ok(percent)
}

/// GPU instance id and compute instance id of a MIG device.
pub(crate) fn instance_ids(nvml: &Nvml, handle: Handle) -> Result<(u32, u32), NvmlError> {
    let gpu_instance = nvml_sym(nvml.lib().nvmlDeviceGetGpuInstanceId.as_ref())?;
    let compute_instance = nvml_sym(nvml.lib().nvmlDeviceGetComputeInstanceId.as_ref())?;
    let (mut gpu, mut compute) = (0, 0);
    // SAFETY: both integers outlive the calls.
    unsafe {
        nvml_try(gpu_instance(handle.0, &raw mut gpu))?;
        nvml_try(compute_instance(handle.0, &raw mut compute))?;
    }
    Ok((gpu, compute))
}

/// NVML's way to name the version of a structure.
fn struct_version<T>(version: u32) -> c_uint {
    c_uint::try_from(size_of::<T>()).unwrap_or(0) | (version << 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOO_SMALL: sys::nvmlReturn_t = sys::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE;

    #[test]
    fn a_list_that_outgrows_its_buffer_is_read_again() {
        // It has grown again between the first answer and the second.
        let mut lengths = [3, 20, 21].into_iter();
        let read = grow(0_u32, 1, |buffer| {
            let length = lengths.next().unwrap();
            if buffer.len() < length { (TOO_SMALL, length) } else { (0, length) }
        });
        assert_eq!(read.unwrap().len(), 21);
    }

    #[test]
    fn a_list_that_always_outgrows_its_buffer_fails_in_the_end() {
        let mut calls = 0;
        let read = grow(0_u32, 4, |buffer| {
            calls += 1;
            (TOO_SMALL, buffer.len() + 1)
        });
        assert!(matches!(read, Err(NvmlError::InsufficientSize(None))));
        assert_eq!(calls, MAX_GROWTHS + 1);
    }

    #[test]
    fn a_length_beyond_the_buffer_is_not_believed() {
        assert_eq!(grow(7_u32, 2, |_| (0, 1000)).unwrap(), vec![7, 7]);
    }

    #[test]
    fn structure_versions_are_those_of_the_header() {
        // NVML_STRUCT_VERSION(ProcessesUtilizationInfo, 1) on 64-bit machines.
        assert_eq!(struct_version::<sys::nvmlProcessesUtilizationInfo_t>(1), 0x0100_0018);
        assert_eq!(size_of::<sys::nvmlProcessInfo_t>(), 24);
        assert_eq!(size_of::<WideProcessInfo>(), 32);
    }
}
