//! MIG: modes, instances, and the way between an instance and its device.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlDeviceAttributes_t};

use super::device_calls;
use super::statics::give_named;
use crate::Code;
use crate::gate::{Answer, DeviceCall};
use crate::output::put;
use crate::registry::Named;

/// An instance is asked for what only an instance has.
fn instance_id(call: &DeviceCall, id: *mut c_uint, of: impl Fn(&crate::scenario::MigInstance) -> u32) -> Answer {
    put(id, Some(of(call.mig()?.ok_or(Code::INVALID_ARGUMENT)?)))
}

fn attributes(call: &DeviceCall, attributes: *mut nvmlDeviceAttributes_t) -> Answer {
    let mig = call.mig()?.ok_or(Code::NOT_SUPPORTED)?;
    put(
        attributes,
        Some(nvmlDeviceAttributes_t {
            multiprocessorCount: mig.multiprocessors,
            sharedCopyEngineCount: 1,
            sharedDecoderCount: 0,
            sharedEncoderCount: 0,
            sharedJpegCount: 0,
            sharedOfaCount: 0,
            gpuInstanceSliceCount: mig.multiprocessors / 14,
            computeInstanceSliceCount: mig.multiprocessors / 14,
            memorySizeMB: mig.memory_total.unwrap_or(0) / (1024 * 1024),
        }),
    )
}

device_calls! { on_any_device:
    fn nvmlDeviceIsMigDeviceHandle(call, is: *mut c_uint) { put(is, Some(u32::from(call.mig()?.is_some()))) }
    fn nvmlDeviceGetGpuInstanceId(call, id: *mut c_uint) { instance_id(call, id, |mig| mig.gpu_instance) }
    fn nvmlDeviceGetComputeInstanceId(call, id: *mut c_uint) { instance_id(call, id, |mig| mig.compute_instance) }
    fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(call, device: *mut nvmlDevice_t) {
        if call.mig()?.is_none() { return Err(Code::INVALID_ARGUMENT); }
        give_named(device, &Named::Device(call.device()?.uuid.clone()))
    }
    fn nvmlDeviceGetAttributes_v2(call, out: *mut nvmlDeviceAttributes_t) { attributes(call, out) }
    fn nvmlDeviceGetAttributes(call, out: *mut nvmlDeviceAttributes_t) { attributes(call, out) }
}

device_calls! { on_device:
    fn nvmlDeviceGetMigMode(call, current: *mut c_uint, pending: *mut c_uint) {
        let device = call.device()?;
        let mode = device.mig_capacity.map(|_| u32::from(device.mig_enabled));
        put(current, mode)?;
        put(pending, mode)
    }
    fn nvmlDeviceGetMaxMigDeviceCount(call, count: *mut c_uint) { put(count, Some(call.device()?.mig_capacity.unwrap_or(0))) }
    fn nvmlDeviceGetMigDeviceHandleByIndex(call, index: c_uint, instance: *mut nvmlDevice_t) {
        let device = call.device()?;
        if device.mig_capacity.is_none() || !device.mig_enabled { return Err(Code::NOT_SUPPORTED); }
        if index >= device.mig_capacity.unwrap_or(0) { return Err(Code::INVALID_ARGUMENT); }
        let mig = device.mig.get(index as usize).ok_or(Code::NOT_FOUND)?;
        give_named(instance, &Named::Mig { parent: device.uuid.clone(), instance: mig.uuid.clone() })
    }
}
