//! Memory. What the listed processes hold is counted in; it is free again when they are gone.

use nvml_wrapper_sys::bindings::{nvmlBAR1Memory_t, nvmlMemory_t, nvmlMemory_v2_t};

use super::device_calls;
use super::readings::version_word;
use crate::Code;
use crate::gate::DeviceCall;
use crate::output::{get, put};

/// Memory of the device or MIG instance in bytes.
struct Bytes {
    total: u64,
    reserved: u64,
    used: u64,
}

fn bytes(call: &DeviceCall) -> Result<Option<Bytes>, Code> {
    let device = call.device()?;
    let (total, base, reserved) = match call.mig()? {
        Some(mig) => (mig.memory_total, mig.memory_base_used, mig.memory_reserved),
        None => (device.memory_total, device.memory_base_used, device.memory_reserved),
    };
    let held = call.held_bytes()?;
    Ok(total.zip(base).map(|(total, base)| Bytes { total, reserved: reserved.unwrap_or(0), used: base + held }))
}

device_calls! { on_any_device:
    fn nvmlDeviceGetMemoryInfo(call, memory: *mut nvmlMemory_t) {
        put(memory, bytes(call)?.map(|bytes| {
            let used = bytes.used.saturating_add(bytes.reserved);
            nvmlMemory_t { total: bytes.total, free: bytes.total.saturating_sub(used), used }
        }))
    }
    fn nvmlDeviceGetMemoryInfo_v2(call, memory: *mut nvmlMemory_v2_t) {
        let asked = get(memory)?;
        if !call.device()?.memory_v2 { return Err(Code::NOT_SUPPORTED); }
        if asked.version != version_word::<nvmlMemory_v2_t>(2) { return Err(Code::ARGUMENT_VERSION_MISMATCH); }
        put(memory, bytes(call)?.map(|Bytes { total, reserved, used }| nvmlMemory_v2_t {
            total, reserved, used, free: total.saturating_sub(used).saturating_sub(reserved), ..asked
        }))
    }
    fn nvmlDeviceGetBAR1MemoryInfo(call, memory: *mut nvmlBAR1Memory_t) {
        let device = call.device()?;
        put(memory, device.bar1_total.zip(device.bar1_used).map(|(total, used)| nvmlBAR1Memory_t {
            bar1Total: total, bar1Free: total.saturating_sub(used), bar1Used: used
        }))
    }
}
