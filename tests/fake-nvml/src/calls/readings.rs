//! What is measured: utilisation, temperature, power, clocks, fans, PCIe, NVLink, modes.

use std::ffi::{c_uint, c_ulonglong};
use std::time::Duration;

use nvml_wrapper_sys::bindings as nvml;
use nvml_wrapper_sys::bindings::{
    nvmlClockType_t, nvmlComputeMode_t, nvmlEnableState_t, nvmlPcieUtilCounter_t, nvmlPstates_t, nvmlTemperature_t,
    nvmlTemperatureSensors_t, nvmlUtilization_t,
};

use super::device_calls;
use crate::Code;
use crate::gate::{Answer, DeviceCall};
use crate::output::{get, put};
use crate::scenario::Clocks;

/// The driver's sampling period, in microseconds, that utilisation calls report.
const SAMPLING_PERIOD_US: u32 = 167_000;

/// Version word of a versioned structure.
pub(super) fn version_word<T>(version: u32) -> u32 {
    u32::try_from(size_of::<T>()).unwrap_or(0) | (version << 24)
}

/// The clock of a kind. The answer is `None` when the device does not have it.
pub(super) fn clock(clocks: &Clocks, kind: nvmlClockType_t) -> Result<Option<u32>, Code> {
    match kind {
        nvml::nvmlClockType_enum_NVML_CLOCK_GRAPHICS => Ok(clocks.graphics),
        nvml::nvmlClockType_enum_NVML_CLOCK_SM => Ok(clocks.sm),
        nvml::nvmlClockType_enum_NVML_CLOCK_MEM => Ok(clocks.memory),
        nvml::nvmlClockType_enum_NVML_CLOCK_VIDEO => Ok(clocks.video),
        _ => Err(Code::INVALID_ARGUMENT),
    }
}

/// NVML's way to say on or off.
pub(super) fn enabled(on: Option<bool>) -> Option<nvmlEnableState_t> {
    on.map(nvmlEnableState_t::from)
}

fn engine(value: Option<u32>, utilization: *mut c_uint, period: *mut c_uint) -> Answer {
    put(utilization, value)?;
    put(period, Some(SAMPLING_PERIOD_US))
}

fn fan(call: &DeviceCall, fan: c_uint, speed: *mut c_uint) -> Answer {
    let fans = &call.device()?.fans;
    if fans.is_empty() {
        return Err(Code::NOT_SUPPORTED);
    }
    put(speed, Some(*fans.get(fan as usize).ok_or(Code::INVALID_ARGUMENT)?))
}

device_calls! { on_device:
    fn nvmlDeviceGetUtilizationRates(call, utilization: *mut nvmlUtilization_t) {
        let device = call.device()?;
        put(utilization, device.utilization.zip(device.memory_utilization).map(|(gpu, memory)| nvmlUtilization_t { gpu, memory }))
    }
    fn nvmlDeviceGetEncoderUtilization(call, utilization: *mut c_uint, period: *mut c_uint) {
        engine(call.device()?.encoder, utilization, period)
    }
    fn nvmlDeviceGetDecoderUtilization(call, utilization: *mut c_uint, period: *mut c_uint) {
        engine(call.device()?.decoder, utilization, period)
    }
    fn nvmlDeviceGetJpgUtilization(call, utilization: *mut c_uint, period: *mut c_uint) {
        engine(call.device()?.jpeg, utilization, period)
    }
    fn nvmlDeviceGetOfaUtilization(call, utilization: *mut c_uint, period: *mut c_uint) {
        engine(call.device()?.ofa, utilization, period)
    }
    fn nvmlDeviceGetTemperature(call, sensor: nvmlTemperatureSensors_t, celsius: *mut c_uint) {
        if sensor != nvml::nvmlTemperatureSensors_enum_NVML_TEMPERATURE_GPU { return Err(Code::INVALID_ARGUMENT); }
        put(celsius, call.device()?.temperature)
    }
    fn nvmlDeviceGetTemperatureV(call, temperature: *mut nvmlTemperature_t) {
        let asked = get(temperature)?;
        if asked.version != version_word::<nvmlTemperature_t>(1) { return Err(Code::ARGUMENT_VERSION_MISMATCH); }
        let celsius = call.device()?.temperature.and_then(|celsius| i32::try_from(celsius).ok());
        put(temperature, celsius.map(|celsius| nvmlTemperature_t { temperature: celsius, ..asked }))
    }
    fn nvmlDeviceGetPowerUsage(call, milliwatts: *mut c_uint) { put(milliwatts, call.device()?.power_mw) }
    fn nvmlDeviceGetEnforcedPowerLimit(call, milliwatts: *mut c_uint) { put(milliwatts, call.device()?.power_limit_mw) }
    fn nvmlDeviceGetPowerManagementLimit(call, milliwatts: *mut c_uint) { put(milliwatts, call.device()?.power_limit_mw) }
    fn nvmlDeviceGetPowerManagementMode(call, mode: *mut nvmlEnableState_t) {
        put(mode, enabled(Some(call.device()?.power_limit_mw.is_some())))
    }
    fn nvmlDeviceGetTotalEnergyConsumption(call, millijoules: *mut c_ulonglong) { put(millijoules, call.device()?.energy_mj) }
    fn nvmlDeviceGetNumFans(call, fans: *mut c_uint) { put(fans, u32::try_from(call.device()?.fans.len()).ok()) }
    fn nvmlDeviceGetFanSpeed(call, speed: *mut c_uint) { fan(call, 0, speed) }
    fn nvmlDeviceGetFanSpeed_v2(call, number: c_uint, speed: *mut c_uint) { fan(call, number, speed) }
    fn nvmlDeviceGetPerformanceState(call, state: *mut nvmlPstates_t) { put(state, call.device()?.performance_state) }
    fn nvmlDeviceGetPowerState(call, state: *mut nvmlPstates_t) { put(state, call.device()?.performance_state) }
    fn nvmlDeviceGetCurrentClocksEventReasons(call, reasons: *mut c_ulonglong) {
        put(reasons, call.device()?.clock_event_reasons)
    }
    fn nvmlDeviceGetCurrentClocksThrottleReasons(call, reasons: *mut c_ulonglong) {
        put(reasons, call.device()?.clock_event_reasons)
    }
    fn nvmlDeviceGetClockInfo(call, kind: nvmlClockType_t, mhz: *mut c_uint) {
        put(mhz, clock(&call.device()?.clocks, kind)?)
    }
    fn nvmlDeviceGetCurrPcieLinkGeneration(call, generation: *mut c_uint) { put(generation, call.device()?.pcie_generation) }
    fn nvmlDeviceGetCurrPcieLinkWidth(call, width: *mut c_uint) { put(width, call.device()?.pcie_width) }
    fn nvmlDeviceGetPcieThroughput(call, counter: nvmlPcieUtilCounter_t, kib: *mut c_uint) {
        let device = call.device()?;
        let value = match counter {
            nvml::nvmlPcieUtilCounter_enum_NVML_PCIE_UTIL_TX_BYTES => device.pcie_tx_kib,
            nvml::nvmlPcieUtilCounter_enum_NVML_PCIE_UTIL_RX_BYTES => device.pcie_rx_kib,
            _ => return Err(Code::INVALID_ARGUMENT),
        };
        if value.is_some() {
            // The driver measures over 20 ms and blocks the caller meanwhile.
            std::thread::sleep(Duration::from_millis(20));
        }
        put(kib, value)
    }
    fn nvmlDeviceGetPcieReplayCounter(call, replays: *mut c_uint) { put(replays, call.device()?.pcie_replays) }
    fn nvmlDeviceGetNvLinkState(call, link: c_uint, active: *mut nvmlEnableState_t) {
        let links = &call.device()?.nvlinks;
        if links.is_empty() { return Err(Code::NOT_SUPPORTED); }
        put(active, enabled(Some(*links.get(link as usize).ok_or(Code::INVALID_ARGUMENT)?)))
    }
    fn nvmlDeviceGetPersistenceMode(call, mode: *mut nvmlEnableState_t) { put(mode, enabled(call.device()?.persistence)) }
    fn nvmlDeviceGetDisplayActive(call, active: *mut nvmlEnableState_t) { put(active, enabled(call.device()?.display_active)) }
    fn nvmlDeviceGetDisplayMode(call, mode: *mut nvmlEnableState_t) { put(mode, enabled(call.device()?.display_active)) }
    fn nvmlDeviceGetComputeMode(call, mode: *mut nvmlComputeMode_t) { put(mode, call.device()?.compute_mode) }
}
