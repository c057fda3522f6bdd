//! What does not change about a device, read once per session of the library.

use gpufleet_model::{Backend, DeviceInfo, DeviceLimits, MigInstance};
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureThreshold};
use nvml_wrapper::error::NvmlError;

use super::ffi;
use super::readings::Reader;

/// Static facts of the physical device with this index. Each that the driver does not give is left out.
pub(crate) fn physical(reader: &Reader<'_>, index: u32) -> DeviceInfo {
    let pci_bus_id = fact(reader, Device::pci_info).and_then(|pci| bus_id(&pci.bus_id));
    let uuid = fact(reader, Device::uuid).filter(|uuid| !uuid.is_empty()).unwrap_or_else(|| match &pci_bus_id {
        Some(bus_id) => format!("pci:{bus_id}"),
        None => format!("index:{index}"),
    });
    DeviceInfo {
        backend: Backend::Nvml,
        index,
        uuid,
        name: fact(reader, Device::name).unwrap_or_default(),
        pci_bus_id,
        minor_number: fact(reader, Device::minor_number),
        serial: fact(reader, Device::serial).filter(|serial| !serial.is_empty()),
        part_number: fact(reader, Device::board_part_number).filter(|part| !part.is_empty()),
        vbios_version: fact(reader, Device::vbios_version).filter(|version| !version.is_empty()),
        cuda_capability: fact(reader, Device::cuda_compute_capability).and_then(|capability| {
            Some((u32::try_from(capability.major).ok()?, u32::try_from(capability.minor).ok()?))
        }),
        core_count: fact(reader, Device::num_cores),
        mig: None,
        limits: limits(reader),
    }
}

/// Static facts of a MIG instance of `parent`. `None` when the driver does not say which instance it is.
pub(crate) fn instance(reader: &Reader<'_>, parent: &DeviceInfo) -> Option<DeviceInfo> {
    let uuid = fact(reader, Device::uuid).filter(|uuid| !uuid.is_empty())?;
    let (gpu_instance_id, compute_instance_id) = reader.call(|_, nvml, handle| ffi::instance_ids(nvml, handle)).ok()?;
    Some(DeviceInfo {
        uuid,
        name: fact(reader, Device::name).unwrap_or_else(|| parent.name.clone()),
        core_count: None,
        mig: Some(MigInstance { parent_uuid: parent.uuid.clone(), gpu_instance_id, compute_instance_id }),
        limits: DeviceLimits::default(),
        ..parent.clone()
    })
}

/// A bus id as `DDDDDDDD:BB:DD.F`; older drivers write four digits of the domain.
fn bus_id(text: &str) -> Option<String> {
    let (domain, rest) = text.split_once(':')?;
    Some(format!("{domain:0>8}:{rest}").to_uppercase())
}

fn limits(reader: &Reader<'_>) -> DeviceLimits {
    let threshold = |which| {
        let degrees = fact(reader, |device| device.temperature_threshold(which))?;
        // 0 is how some drivers say that there is no such limit.
        i32::try_from(degrees).ok().filter(|degrees| *degrees > 0)
    };
    let clock = |which| fact(reader, |device| device.max_clock_info(which));
    let watts = |milliwatts: u32| f64::from(milliwatts) / 1000.0;
    let power = fact(reader, Device::power_management_limit_constraints);
    DeviceLimits {
        shutdown_temperature_celsius: threshold(TemperatureThreshold::Shutdown),
        slowdown_temperature_celsius: threshold(TemperatureThreshold::Slowdown),
        max_operating_temperature_celsius: threshold(TemperatureThreshold::GpuMax),
        max_memory_temperature_celsius: threshold(TemperatureThreshold::MemoryMax),
        min_power_limit_watts: power.as_ref().map(|power| watts(power.min_limit)),
        max_power_limit_watts: power.as_ref().map(|power| watts(power.max_limit)),
        default_power_limit_watts: fact(reader, Device::power_management_limit_default).map(watts),
        max_graphics_clock_mhz: clock(Clock::Graphics),
        max_sm_clock_mhz: clock(Clock::SM),
        max_memory_clock_mhz: clock(Clock::Memory),
        max_video_clock_mhz: clock(Clock::Video),
        max_pcie_generation: fact(reader, Device::max_pcie_link_gen),
        max_pcie_width: fact(reader, Device::max_pcie_link_width),
    }
}

fn fact<'a, T>(reader: &Reader<'a>, call: impl FnOnce(&Device<'a>) -> Result<T, NvmlError>) -> Option<T> {
    reader.call(|device, _, _| call(device)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_ids_have_eight_digits_of_domain_in_upper_case() {
        assert_eq!(bus_id("0000:1a:00.0").as_deref(), Some("00000000:1A:00.0"));
        assert_eq!(bus_id("00000001:CA:00.0").as_deref(), Some("00000001:CA:00.0"));
        assert_eq!(bus_id(""), None);
    }
}
