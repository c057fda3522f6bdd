//! Devices: static facts and status.

use gpufleet_model::{Backend, DeviceInfo, DeviceLimits, DeviceStatus, MigInstance};

use super::DecodeError;
use crate::v1;

/// A backend for the wire.
pub(super) fn backend_to_wire(backend: Backend) -> v1::Backend {
    match backend {
        Backend::Nvml => v1::Backend::Nvml,
        Backend::Gmi => v1::Backend::Gmi,
        Backend::Simulated => v1::Backend::Simulated,
        _ => v1::Backend::Unspecified,
    }
}

/// A backend from the wire. One that only a newer agent knows must not cost us the whole host.
pub(super) fn backend_from_wire(backend: i32) -> Backend {
    match v1::Backend::try_from(backend) {
        Ok(v1::Backend::Nvml) => Backend::Nvml,
        Ok(v1::Backend::Gmi) => Backend::Gmi,
        Ok(v1::Backend::Simulated) => Backend::Simulated,
        _ => Backend::Unknown,
    }
}

pub(super) fn status_to_wire(status: DeviceStatus) -> v1::DeviceStatus {
    match status {
        DeviceStatus::Ok => v1::DeviceStatus::Ok,
        DeviceStatus::Lost => v1::DeviceStatus::Lost,
        _ => v1::DeviceStatus::Unresponsive,
    }
}

/// `None` when the status has not changed. A status that we do not know is not "ok".
pub(super) fn status_from_wire(status: i32) -> Option<DeviceStatus> {
    match v1::DeviceStatus::try_from(status) {
        Ok(v1::DeviceStatus::Unspecified) => None,
        Ok(v1::DeviceStatus::Ok) => Some(DeviceStatus::Ok),
        Ok(v1::DeviceStatus::Lost) => Some(DeviceStatus::Lost),
        _ => Some(DeviceStatus::Unresponsive),
    }
}

impl From<&DeviceLimits> for v1::DeviceLimits {
    fn from(limits: &DeviceLimits) -> Self {
        Self {
            shutdown_temperature_celsius: limits.shutdown_temperature_celsius,
            slowdown_temperature_celsius: limits.slowdown_temperature_celsius,
            max_operating_temperature_celsius: limits.max_operating_temperature_celsius,
            max_memory_temperature_celsius: limits.max_memory_temperature_celsius,
            min_power_limit_watts: limits.min_power_limit_watts,
            max_power_limit_watts: limits.max_power_limit_watts,
            default_power_limit_watts: limits.default_power_limit_watts,
            max_graphics_clock_mhz: limits.max_graphics_clock_mhz,
            max_sm_clock_mhz: limits.max_sm_clock_mhz,
            max_memory_clock_mhz: limits.max_memory_clock_mhz,
            max_video_clock_mhz: limits.max_video_clock_mhz,
            max_pcie_generation: limits.max_pcie_generation,
            max_pcie_width: limits.max_pcie_width,
        }
    }
}

impl From<v1::DeviceLimits> for DeviceLimits {
    fn from(wire: v1::DeviceLimits) -> Self {
        let watts = |value: Option<f64>| value.filter(|watts| watts.is_finite() && *watts >= 0.0);
        Self {
            shutdown_temperature_celsius: wire.shutdown_temperature_celsius,
            slowdown_temperature_celsius: wire.slowdown_temperature_celsius,
            max_operating_temperature_celsius: wire.max_operating_temperature_celsius,
            max_memory_temperature_celsius: wire.max_memory_temperature_celsius,
            min_power_limit_watts: watts(wire.min_power_limit_watts),
            max_power_limit_watts: watts(wire.max_power_limit_watts),
            default_power_limit_watts: watts(wire.default_power_limit_watts),
            max_graphics_clock_mhz: wire.max_graphics_clock_mhz,
            max_sm_clock_mhz: wire.max_sm_clock_mhz,
            max_memory_clock_mhz: wire.max_memory_clock_mhz,
            max_video_clock_mhz: wire.max_video_clock_mhz,
            max_pcie_generation: wire.max_pcie_generation,
            max_pcie_width: wire.max_pcie_width,
        }
    }
}

impl From<&DeviceInfo> for v1::DeviceInfo {
    fn from(info: &DeviceInfo) -> Self {
        Self {
            backend: backend_to_wire(info.backend).into(),
            index: info.index,
            uuid: info.uuid.clone(),
            name: info.name.clone(),
            pci_bus_id: info.pci_bus_id.clone(),
            minor_number: info.minor_number,
            serial: info.serial.clone(),
            part_number: info.part_number.clone(),
            vbios_version: info.vbios_version.clone(),
            cuda_capability: info.cuda_capability.map(|(major, minor)| v1::CudaCapability { major, minor }),
            core_count: info.core_count,
            mig: info.mig.as_ref().map(|mig| v1::MigInstance {
                parent_uuid: mig.parent_uuid.clone(),
                gpu_instance_id: mig.gpu_instance_id,
                compute_instance_id: mig.compute_instance_id,
            }),
            limits: Some((&info.limits).into()),
        }
    }
}

impl TryFrom<v1::DeviceInfo> for DeviceInfo {
    type Error = DecodeError;

    fn try_from(wire: v1::DeviceInfo) -> Result<Self, DecodeError> {
        if wire.uuid.is_empty() {
            return Err(DecodeError::Missing("uuid"));
        }
        Ok(Self {
            backend: backend_from_wire(wire.backend),
            index: wire.index,
            uuid: wire.uuid,
            name: wire.name,
            pci_bus_id: wire.pci_bus_id,
            minor_number: wire.minor_number,
            serial: wire.serial,
            part_number: wire.part_number,
            vbios_version: wire.vbios_version,
            cuda_capability: wire.cuda_capability.map(|capability| (capability.major, capability.minor)),
            core_count: wire.core_count,
            mig: wire.mig.map(|mig| MigInstance {
                parent_uuid: mig.parent_uuid,
                gpu_instance_id: mig.gpu_instance_id,
                compute_instance_id: mig.compute_instance_id,
            }),
            limits: wire.limits.map(DeviceLimits::from).unwrap_or_default(),
        })
    }
}
