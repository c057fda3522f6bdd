//! Which processes are on a device, and how much of it they use.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{
    nvmlProcessInfo_t, nvmlProcessInfo_v1_t, nvmlProcessInfo_v2_t, nvmlProcessUtilizationInfo_v1_t,
    nvmlProcessUtilizationSample_t, nvmlProcessesUtilizationInfo_t,
};

use super::device_calls;
use super::readings::version_word;
use super::reliability::now_us;
use crate::Code;
use crate::gate::{Answer, DeviceCall};
use crate::output::{get, put, put_list};
use crate::scenario::{Kind, Process};

/// NVML's "not available" for memory, and its "none" for instance ids.
const UNKNOWN_MEMORY: u64 = u64::MAX;
const NO_INSTANCE: u32 = u32::MAX;
/// How often the driver takes a utilisation sample, in microseconds.
const SAMPLE_EVERY_US: u64 = 167_000;

fn list<T: Copy>(
    call: &DeviceCall,
    kind: Kind,
    count: *mut c_uint,
    infos: *mut T,
    info: impl Fn(&Process) -> T,
) -> Answer {
    let processes = call.processes()?;
    let listed: Vec<T> = processes.into_iter().filter(|process| process.kinds.contains(&kind)).map(info).collect();
    put_list(&call.call, count, infos, &listed)
}

fn first(process: &Process) -> nvmlProcessInfo_v1_t {
    nvmlProcessInfo_v1_t { pid: process.pid, usedGpuMemory: process.memory_bytes.unwrap_or(UNKNOWN_MEMORY) }
}

fn newest(process: &Process) -> nvmlProcessInfo_v2_t {
    nvmlProcessInfo_v2_t {
        pid: process.pid,
        usedGpuMemory: process.memory_bytes.unwrap_or(UNKNOWN_MEMORY),
        gpuInstanceId: process.gpu_instance.unwrap_or(NO_INSTANCE),
        computeInstanceId: process.compute_instance.unwrap_or(NO_INSTANCE),
    }
}

device_calls! { on_any_device:
    fn nvmlDeviceGetComputeRunningProcesses_v3(call, count: *mut c_uint, infos: *mut nvmlProcessInfo_t) {
        list(call, Kind::C, count, infos, newest)
    }
    fn nvmlDeviceGetGraphicsRunningProcesses_v3(call, count: *mut c_uint, infos: *mut nvmlProcessInfo_t) {
        list(call, Kind::G, count, infos, newest)
    }
    fn nvmlDeviceGetMPSComputeRunningProcesses_v3(call, count: *mut c_uint, infos: *mut nvmlProcessInfo_t) {
        list(call, Kind::M, count, infos, newest)
    }
    fn nvmlDeviceGetComputeRunningProcesses_v2(call, count: *mut c_uint, infos: *mut nvmlProcessInfo_v2_t) {
        list(call, Kind::C, count, infos, newest)
    }
    fn nvmlDeviceGetGraphicsRunningProcesses_v2(call, count: *mut c_uint, infos: *mut nvmlProcessInfo_v2_t) {
        list(call, Kind::G, count, infos, newest)
    }
    fn nvmlDeviceGetMPSComputeRunningProcesses_v2(call, count: *mut c_uint, infos: *mut nvmlProcessInfo_v2_t) {
        list(call, Kind::M, count, infos, newest)
    }
    fn nvmlDeviceGetComputeRunningProcesses(call, count: *mut c_uint, infos: *mut nvmlProcessInfo_v1_t) {
        list(call, Kind::C, count, infos, first)
    }
    fn nvmlDeviceGetGraphicsRunningProcesses(call, count: *mut c_uint, infos: *mut nvmlProcessInfo_v1_t) {
        list(call, Kind::G, count, infos, first)
    }
    fn nvmlDeviceGetMPSComputeRunningProcesses(call, count: *mut c_uint, infos: *mut nvmlProcessInfo_v1_t) {
        list(call, Kind::M, count, infos, first)
    }
}

device_calls! { on_device:
    fn nvmlDeviceGetProcessUtilization(
        call, samples: *mut nvmlProcessUtilizationSample_t, count: *mut c_uint, last_seen: c_ulonglong,
    ) {
        let listed: Vec<_> = sampled(call, last_seen)?
            .into_iter()
            .map(|sample| nvmlProcessUtilizationSample_t {
                pid: sample.pid, timeStamp: sample.timeStamp, smUtil: sample.smUtil, memUtil: sample.memUtil,
                encUtil: sample.encUtil, decUtil: sample.decUtil,
            })
            .collect();
        put_list(&call.call, count, samples, &listed)
    }
    fn nvmlDeviceGetProcessesUtilizationInfo(call, info: *mut nvmlProcessesUtilizationInfo_t) {
        processes_utilization(call, info)
    }
}

fn processes_utilization(call: &DeviceCall, info: *mut nvmlProcessesUtilizationInfo_t) -> Answer {
    let mut asked = get(info)?;
    if asked.version != version_word::<nvmlProcessesUtilizationInfo_t>(1) {
        return Err(Code::ARGUMENT_VERSION_MISMATCH);
    }
    let listed = sampled(call, asked.lastSeenTimeStamp)?;
    let answer = put_list(&call.call, &raw mut asked.processSamplesCount, asked.procUtilArray, &listed);
    if let Some(newest) = listed.iter().map(|sample| sample.timeStamp).max()
        && answer.is_ok()
    {
        asked.lastSeenTimeStamp = newest;
    }
    put(info, Some(asked))?;
    answer
}

/// One sample of each process that has used the device since `last_seen`; NOT_FOUND when there is none.
fn sampled(call: &DeviceCall, last_seen: u64) -> Result<Vec<nvmlProcessUtilizationInfo_v1_t>, Code> {
    if call.device()?.utilization.is_none() {
        return Err(Code::NOT_SUPPORTED);
    }
    let taken = now_us() / SAMPLE_EVERY_US * SAMPLE_EVERY_US;
    if taken <= last_seen {
        return Err(Code::NOT_FOUND);
    }
    let samples: Vec<_> = call
        .processes()?
        .into_iter()
        .filter(|process| {
            [process.sm, process.memory_bandwidth, process.encoder, process.decoder].iter().any(Option::is_some)
        })
        .map(|process| nvmlProcessUtilizationInfo_v1_t {
            timeStamp: taken,
            pid: process.pid,
            smUtil: process.sm.unwrap_or(0),
            memUtil: process.memory_bandwidth.unwrap_or(0),
            encUtil: process.encoder.unwrap_or(0),
            decUtil: process.decoder.unwrap_or(0),
            jpgUtil: 0,
            ofaUtil: 0,
        })
        .collect();
    if samples.is_empty() { Err(Code::NOT_FOUND) } else { Ok(samples) }
}
