//! Finding devices, and what does not change about them.

use std::ffi::{c_char, c_int, c_uint};

use nvml_wrapper_sys::bindings::{
    NVML_BUS_TYPE_PCIE, nvmlTemperatureThresholds_enum_NVML_TEMPERATURE_THRESHOLD_GPU_MAX as GPU_MAX,
    nvmlTemperatureThresholds_enum_NVML_TEMPERATURE_THRESHOLD_MEM_MAX as MEM_MAX,
    nvmlTemperatureThresholds_enum_NVML_TEMPERATURE_THRESHOLD_SHUTDOWN as SHUTDOWN,
    nvmlTemperatureThresholds_enum_NVML_TEMPERATURE_THRESHOLD_SLOWDOWN as SLOWDOWN,
};
use nvml_wrapper_sys::bindings::{
    nvmlBrandType_t, nvmlBusType_t, nvmlClockType_t, nvmlDevice_t, nvmlDeviceArchitecture_t, nvmlPciInfo_t,
    nvmlTemperatureThresholds_t,
};

use super::readings::clock;
use super::{device_calls, system_calls};
use crate::Code;
use crate::gate::{Answer, Call, DeviceCall};
use crate::output::{get_text, put, put_text, text_array};
use crate::registry::{Named, registry};
use crate::scenario::{Device, Scenario};

/// Gives out the handle of a device found by one of the lookups.
fn give(out: *mut nvmlDevice_t, device: Option<&Device>, none: Code) -> Answer {
    let device = device.ok_or(none)?;
    if device.lost {
        return Err(Code::GPU_IS_LOST);
    }
    give_named(out, &Named::Device(device.uuid.clone()))
}

pub(super) fn give_named(out: *mut nvmlDevice_t, named: &Named) -> Answer {
    put(out, Some(registry().handle_of(named) as nvmlDevice_t))
}

fn by_index(call: &Call, index: c_uint, device: *mut nvmlDevice_t) -> Answer {
    give(device, call.scenario.devices.get(index as usize), Code::INVALID_ARGUMENT)
}

fn by_bus_id(call: &Call, bus_id: *const c_char, device: *mut nvmlDevice_t) -> Answer {
    let wanted = bus_address(get_text(bus_id)?).ok_or(Code::INVALID_ARGUMENT)?;
    let found = call.scenario.devices.iter().find(|device| bus_address(&device.pci_bus_id) == Some(wanted));
    give(device, found, Code::NOT_FOUND)
}

fn count(scenario: &Scenario, count: *mut c_uint) -> Answer {
    put(count, u32::try_from(scenario.devices.len()).ok())
}

/// Domain, bus and device of `DDDD:BB:DD.F` or `BB:DD.F`.
fn bus_address(text: &str) -> Option<(u32, u32, u32)> {
    let mut parts = text.rsplit(':');
    let device = parts.next()?.split('.').next()?;
    let bus = parts.next()?;
    let domain = parts.next().unwrap_or("0");
    let number = |text| u32::from_str_radix(text, 16).ok();
    Some((number(domain)?, number(bus)?, number(device)?))
}

fn pci_info(call: &DeviceCall, pci: *mut nvmlPciInfo_t) -> Answer {
    let device = call.device()?;
    let (domain, bus, slot) = bus_address(&device.pci_bus_id).ok_or(Code::UNKNOWN)?;
    put(
        pci,
        Some(nvmlPciInfo_t {
            busIdLegacy: text_array(&format!("{domain:04X}:{bus:02X}:{slot:02X}.0")),
            domain,
            bus,
            device: slot,
            pciDeviceId: device.pci_device_id,
            pciSubSystemId: device.pci_subsystem_id,
            busId: text_array(&format!("{domain:08X}:{bus:02X}:{slot:02X}.0")),
        }),
    )
}

system_calls! {
    fn nvmlDeviceGetCount_v2(call, device_count: *mut c_uint) { count(&call.scenario, device_count) }
    fn nvmlDeviceGetCount(call, device_count: *mut c_uint) { count(&call.scenario, device_count) }
    fn nvmlDeviceGetHandleByIndex_v2(call, index: c_uint, device: *mut nvmlDevice_t) { by_index(call, index, device) }
    fn nvmlDeviceGetHandleByIndex(call, index: c_uint, device: *mut nvmlDevice_t) { by_index(call, index, device) }
    fn nvmlDeviceGetHandleByPciBusId_v2(call, bus_id: *const c_char, device: *mut nvmlDevice_t) {
        by_bus_id(call, bus_id, device)
    }
    fn nvmlDeviceGetHandleByPciBusId(call, bus_id: *const c_char, device: *mut nvmlDevice_t) {
        by_bus_id(call, bus_id, device)
    }
    fn nvmlDeviceGetHandleBySerial(call, serial: *const c_char, device: *mut nvmlDevice_t) {
        let wanted = get_text(serial)?;
        give(device, call.scenario.devices.iter().find(|device| device.serial.as_deref() == Some(wanted)), Code::NOT_FOUND)
    }
    fn nvmlDeviceGetHandleByUUID(call, uuid: *const c_char, device: *mut nvmlDevice_t) {
        let wanted = get_text(uuid)?;
        let holder = call.scenario.devices.iter().find(|device| device.mig.iter().any(|mig| mig.uuid == wanted));
        match holder {
            Some(holder) if holder.lost => Err(Code::GPU_IS_LOST),
            Some(holder) => {
                give_named(device, &Named::Mig { parent: holder.uuid.clone(), instance: wanted.to_owned() })
            }
            None => give(device, call.scenario.devices.iter().find(|device| device.uuid == wanted), Code::NOT_FOUND),
        }
    }
}

device_calls! { on_any_device:
    fn nvmlDeviceGetName(call, name: *mut c_char, length: c_uint) {
        let device = &call.device()?.name;
        match call.mig()? {
            Some(mig) => put_text(name, length, Some(&format!("{device} MIG {}", mig.profile))),
            None => put_text(name, length, Some(device)),
        }
    }
    fn nvmlDeviceGetUUID(call, uuid: *mut c_char, length: c_uint) {
        let device = call.device()?;
        put_text(uuid, length, Some(call.mig()?.map_or(&device.uuid, |mig| &mig.uuid)))
    }
    fn nvmlDeviceGetPciInfo_v3(call, pci: *mut nvmlPciInfo_t) { pci_info(call, pci) }
    fn nvmlDeviceGetPciInfo_v2(call, pci: *mut nvmlPciInfo_t) { pci_info(call, pci) }
    fn nvmlDeviceGetPciInfo(call, pci: *mut nvmlPciInfo_t) { pci_info(call, pci) }
    fn nvmlDeviceGetSerial(call, serial: *mut c_char, length: c_uint) {
        put_text(serial, length, call.device()?.serial.as_deref())
    }
    fn nvmlDeviceGetVbiosVersion(call, version: *mut c_char, length: c_uint) {
        put_text(version, length, call.device()?.vbios.as_deref())
    }
    fn nvmlDeviceGetCudaComputeCapability(call, major: *mut c_int, minor: *mut c_int) {
        let capability = call.device()?.cuda_capability;
        put(major, capability.map(|[major, _]| major))?;
        put(minor, capability.map(|[_, minor]| minor))
    }
    fn nvmlDeviceGetArchitecture(call, architecture: *mut nvmlDeviceArchitecture_t) {
        put(architecture, call.device()?.architecture)
    }
    fn nvmlDeviceGetBrand(call, brand: *mut nvmlBrandType_t) { put(brand, call.device()?.brand) }
}

device_calls! { on_device:
    fn nvmlDeviceGetIndex(call, index: *mut c_uint) { put(index, Some(call.index()?)) }
    fn nvmlDeviceGetBoardPartNumber(call, number: *mut c_char, length: c_uint) {
        put_text(number, length, call.device()?.part_number.as_deref())
    }
    fn nvmlDeviceGetMinorNumber(call, number: *mut c_uint) { put(number, call.device()?.minor_number) }
    fn nvmlDeviceGetNumGpuCores(call, cores: *mut c_uint) { put(cores, call.device()?.core_count) }
    fn nvmlDeviceGetBusType(_call, kind: *mut nvmlBusType_t) { put(kind, Some(NVML_BUS_TYPE_PCIE)) }
    fn nvmlDeviceGetMaxClockInfo(call, kind: nvmlClockType_t, mhz: *mut c_uint) {
        put(mhz, clock(&call.device()?.max_clocks, kind)?)
    }
    fn nvmlDeviceGetMaxPcieLinkGeneration(call, generation: *mut c_uint) {
        put(generation, call.device()?.pcie_max_generation)
    }
    fn nvmlDeviceGetGpuMaxPcieLinkGeneration(call, generation: *mut c_uint) {
        put(generation, call.device()?.pcie_max_generation)
    }
    fn nvmlDeviceGetMaxPcieLinkWidth(call, width: *mut c_uint) { put(width, call.device()?.pcie_max_width) }
    fn nvmlDeviceGetPowerManagementLimitConstraints(call, minimum: *mut c_uint, maximum: *mut c_uint) {
        put(minimum, call.device()?.power_min_mw)?;
        put(maximum, call.device()?.power_max_mw)
    }
    fn nvmlDeviceGetPowerManagementDefaultLimit(call, limit: *mut c_uint) { put(limit, call.device()?.power_default_mw) }
    fn nvmlDeviceGetTemperatureThreshold(call, kind: nvmlTemperatureThresholds_t, celsius: *mut c_uint) {
        let thresholds = &call.device()?.thresholds;
        put(celsius, match kind {
            SHUTDOWN => thresholds.shutdown,
            SLOWDOWN => thresholds.slowdown,
            MEM_MAX => thresholds.memory_max,
            GPU_MAX => thresholds.gpu_max,
            4..=7 => None,
            _ => return Err(Code::INVALID_ARGUMENT),
        })
    }
    fn nvmlDeviceGetSupportedEventTypes(call, types: *mut std::ffi::c_ulonglong) { put(types, call.device()?.event_types) }
}
