//! ECC, retired pages, remapped rows, violations, and the field values that repeat these and others.

use std::ffi::{c_int, c_uint, c_ulonglong};
use std::time::{SystemTime, UNIX_EPOCH};

use nvml_wrapper_sys::bindings as nvml;
use nvml_wrapper_sys::bindings::field_id;
use nvml_wrapper_sys::bindings::{
    nvmlEccCounterType_t, nvmlEnableState_t, nvmlFieldValue_t, nvmlMemoryErrorType_t, nvmlMemoryLocation_t,
    nvmlPageRetirementCause_t, nvmlPerfPolicyType_t, nvmlValue_t, nvmlViolationTime_t,
};

use super::device_calls;
use super::readings::enabled;
use crate::Code;
use crate::gate::{Answer, Call, DeviceCall};
use crate::output::{get, put, put_if_wanted, put_list};
use crate::scenario::{Device, Ecc, RetiredPages};

/// Microseconds since 1970: the driver's time stamps.
pub(super) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

fn errors(ecc: &Ecc, kind: nvmlMemoryErrorType_t, counter: nvmlEccCounterType_t) -> Result<Option<u64>, Code> {
    if ecc.enabled != Some(true) {
        return Ok(None);
    }
    match (kind, counter) {
        (0, 0) => Ok(ecc.corrected_volatile),
        (1, 0) => Ok(ecc.uncorrected_volatile),
        (0, 1) => Ok(ecc.corrected_aggregate),
        (1, 1) => Ok(ecc.uncorrected_aggregate),
        _ => Err(Code::INVALID_ARGUMENT),
    }
}

fn pages(retired: &RetiredPages, cause: nvmlPageRetirementCause_t) -> Result<Vec<u64>, Code> {
    let count = match cause {
        nvml::nvmlPageRetirementCause_enum_NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS => {
            retired.single_bit
        }
        nvml::nvmlPageRetirementCause_enum_NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR => retired.double_bit,
        _ => return Err(Code::INVALID_ARGUMENT),
    };
    Ok((0..u64::from(count.ok_or(Code::NOT_SUPPORTED)?)).map(|page| 0x1000 * (page + 1)).collect())
}

fn put_pages(
    call: &Call,
    count: *mut c_uint,
    addresses: *mut c_ulonglong,
    stamps: *mut c_ulonglong,
    pages: &[u64],
) -> Answer {
    let capacity = get(count)?;
    put_list(call, count, addresses, pages)?;
    if !stamps.is_null() && !pages.is_empty() {
        put_if_wanted(count, capacity);
        let times: Vec<u64> = pages.iter().map(|page| 1_700_000_000_000_000 + page).collect();
        put_list(call, count, stamps, &times)?;
    }
    Ok(())
}

device_calls! { on_device:
    fn nvmlDeviceGetEccMode(call, current: *mut nvmlEnableState_t, pending: *mut nvmlEnableState_t) {
        let mode = enabled(call.device()?.ecc.enabled);
        put(current, mode)?;
        put(pending, mode)
    }
    fn nvmlDeviceGetTotalEccErrors(call, kind: nvmlMemoryErrorType_t, counter: nvmlEccCounterType_t, count: *mut c_ulonglong) {
        put(count, errors(&call.device()?.ecc, kind, counter)?)
    }
    fn nvmlDeviceGetMemoryErrorCounter(
        call, kind: nvmlMemoryErrorType_t, counter: nvmlEccCounterType_t, location: nvmlMemoryLocation_t, count: *mut c_ulonglong,
    ) {
        let all = errors(&call.device()?.ecc, kind, counter)?;
        put(count, match location {
            nvml::nvmlMemoryLocation_enum_NVML_MEMORY_LOCATION_DRAM => all,
            nvml::nvmlMemoryLocation_enum_NVML_MEMORY_LOCATION_SRAM => all.map(|_| 0),
            0..=6 => None,
            _ => return Err(Code::INVALID_ARGUMENT),
        })
    }
    fn nvmlDeviceGetRetiredPages(call, cause: nvmlPageRetirementCause_t, count: *mut c_uint, addresses: *mut c_ulonglong) {
        put_pages(&call.call, count, addresses, std::ptr::null_mut(), &pages(&call.device()?.retired_pages, cause)?)
    }
    fn nvmlDeviceGetRetiredPages_v2(
        call, cause: nvmlPageRetirementCause_t, count: *mut c_uint, addresses: *mut c_ulonglong, stamps: *mut c_ulonglong,
    ) {
        put_pages(&call.call, count, addresses, stamps, &pages(&call.device()?.retired_pages, cause)?)
    }
    fn nvmlDeviceGetRetiredPagesPendingStatus(call, pending: *mut nvmlEnableState_t) {
        put(pending, enabled(call.device()?.retired_pages.pending))
    }
    fn nvmlDeviceGetRemappedRows(
        call, corrected: *mut c_uint, uncorrected: *mut c_uint, pending: *mut c_uint, failed: *mut c_uint,
    ) {
        let rows = &call.device()?.remapped_rows;
        put(corrected, rows.corrected)?;
        put(uncorrected, rows.uncorrected)?;
        put(pending, rows.pending.map(u32::from))?;
        put(failed, rows.failed.map(u32::from))
    }
    fn nvmlDeviceGetViolationStatus(call, policy: nvmlPerfPolicyType_t, time: *mut nvmlViolationTime_t) {
        let violations = &call.device()?.violations;
        let spent = match policy {
            nvml::nvmlPerfPolicyType_enum_NVML_PERF_POLICY_POWER => violations.power_ns,
            nvml::nvmlPerfPolicyType_enum_NVML_PERF_POLICY_THERMAL => violations.thermal_ns,
            2..=5 | 10 | 11 => violations.power_ns.map(|_| 0),
            _ => return Err(Code::INVALID_ARGUMENT),
        };
        put(time, spent.map(|spent| nvmlViolationTime_t { referenceTime: now_us(), violationTime: spent }))
    }
    fn nvmlDeviceGetFieldValues(call, count: c_int, values: *mut nvmlFieldValue_t) {
        field_values(call, count, values)
    }
}

fn field_values(call: &DeviceCall, count: c_int, values: *mut nvmlFieldValue_t) -> Answer {
    let count = usize::try_from(count).map_err(|_| Code::INVALID_ARGUMENT)?;
    if count == 0 || values.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    // SAFETY: NVML's contract: `values` points to `count` initialised structures that are the caller's for the call.
    let values = unsafe { std::slice::from_raw_parts_mut(values, count) };
    let device = call.device()?;
    for value in values {
        value.timestamp = now_us().cast_signed();
        value.latencyUsec = 400;
        match field(device, value.fieldId) {
            Some(Number::Small(number)) => {
                value.valueType = nvml::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT;
                value.value = nvmlValue_t { uiVal: number };
                value.nvmlReturn = Code::SUCCESS.0;
            }
            Some(Number::Large(number)) => {
                value.valueType = nvml::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
                value.value = nvmlValue_t { ullVal: number };
                value.nvmlReturn = Code::SUCCESS.0;
            }
            None => value.nvmlReturn = Code::NOT_SUPPORTED.0,
        }
    }
    Ok(())
}

enum Number {
    Small(u32),
    Large(u64),
}

fn field(device: &Device, id: u32) -> Option<Number> {
    if let Some(value) = device.fields.get(&id.to_string()) {
        return Some(Number::Large(*value));
    }
    match id {
        field_id::NVML_FI_DEV_MEMORY_TEMP => device.memory_temperature.map(Number::Small),
        field_id::NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION => device.energy_mj.map(Number::Large),
        field_id::NVML_FI_DEV_POWER_AVERAGE | field_id::NVML_FI_DEV_POWER_INSTANT => device.power_mw.map(Number::Small),
        field_id::NVML_FI_DEV_POWER_MIN_LIMIT => device.power_min_mw.map(Number::Small),
        field_id::NVML_FI_DEV_POWER_MAX_LIMIT => device.power_max_mw.map(Number::Small),
        field_id::NVML_FI_DEV_POWER_DEFAULT_LIMIT => device.power_default_mw.map(Number::Small),
        field_id::NVML_FI_DEV_POWER_CURRENT_LIMIT => device.power_limit_mw.map(Number::Small),
        field_id::NVML_FI_DEV_PERF_POLICY_POWER => device.violations.power_ns.map(Number::Large),
        field_id::NVML_FI_DEV_PERF_POLICY_THERMAL => device.violations.thermal_ns.map(Number::Large),
        field_id::NVML_FI_DEV_PCIE_REPLAY_COUNTER => device.pcie_replays.map(Number::Small),
        field_id::NVML_FI_DEV_ECC_SBE_VOL_TOTAL => device.ecc.corrected_volatile.map(Number::Large),
        field_id::NVML_FI_DEV_ECC_DBE_VOL_TOTAL => device.ecc.uncorrected_volatile.map(Number::Large),
        field_id::NVML_FI_DEV_ECC_SBE_AGG_TOTAL => device.ecc.corrected_aggregate.map(Number::Large),
        field_id::NVML_FI_DEV_ECC_DBE_AGG_TOTAL => device.ecc.uncorrected_aggregate.map(Number::Large),
        field_id::NVML_FI_DEV_NVLINK_LINK_COUNT => {
            u32::try_from(device.nvlinks.len()).ok().filter(|links| *links > 0).map(Number::Small)
        }
        _ => None,
    }
}
