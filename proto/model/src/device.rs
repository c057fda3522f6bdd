//! Devices: physical GPUs and MIG instances.

use std::sync::Arc;

use crate::fields::DeviceReadings;

/// Names a device within one run of one agent. Stable while the agent runs, unlike an index; never reused in that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceKey(pub u32);

/// Where a device's readings come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// One that this version does not know: the agent is newer.
    Unknown,
    /// NVIDIA, through NVML.
    Nvml,
    /// Moore Threads, through `mthreads-gmi`.
    Gmi,
    /// Not hardware: generated, for tests and demonstrations.
    Simulated,
}

impl Backend {
    /// The name used in JSON, tables and configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Nvml => "nvml",
            Self::Gmi => "gmi",
            Self::Simulated => "simulated",
        }
    }
}

/// Whether a device answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceStatus {
    /// It answers.
    Ok,
    /// A driver call about it has passed its deadline and has not returned.
    Unresponsive,
    /// It fell off the bus, or the driver no longer lists it.
    Lost,
}

impl DeviceStatus {
    /// The name used in JSON and tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unresponsive => "unresponsive",
            Self::Lost => "lost",
        }
    }
}

/// The place of a MIG instance within its parent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MigInstance {
    /// UUID of the physical device.
    pub parent_uuid: String,
    /// GPU instance id.
    pub gpu_instance_id: u32,
    /// Compute instance id.
    pub compute_instance_id: u32,
}

/// The device's own limits, as its firmware states them. `None` where it states none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeviceLimits {
    /// Temperature at which the device shuts down.
    pub shutdown_temperature_celsius: Option<i32>,
    /// Temperature at which hardware slows the clocks down.
    pub slowdown_temperature_celsius: Option<i32>,
    /// Highest temperature the core is made to run at.
    pub max_operating_temperature_celsius: Option<i32>,
    /// Highest temperature the memory is made to run at.
    pub max_memory_temperature_celsius: Option<i32>,
    /// Lowest power limit that can be set.
    pub min_power_limit_watts: Option<f64>,
    /// Highest power limit that can be set.
    pub max_power_limit_watts: Option<f64>,
    /// Power limit after a reset.
    pub default_power_limit_watts: Option<f64>,
    /// Highest graphics clock.
    pub max_graphics_clock_mhz: Option<u32>,
    /// Highest SM clock.
    pub max_sm_clock_mhz: Option<u32>,
    /// Highest memory clock.
    pub max_memory_clock_mhz: Option<u32>,
    /// Highest video clock.
    pub max_video_clock_mhz: Option<u32>,
    /// Highest PCIe generation of device and slot.
    pub max_pcie_generation: Option<u32>,
    /// Widest PCIe link of device and slot, in lanes.
    pub max_pcie_width: Option<u32>,
}

/// What does not change while a device is present. Sent once, in the snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceInfo {
    /// Where its readings come from.
    pub backend: Backend,
    /// The driver's index: for display, may change at a restart. A MIG instance has its parent's.
    pub index: u32,
    /// The driver's UUID; for a device without one, `pci:` and its bus id.
    pub uuid: String,
    /// Product name; empty when the driver gives none.
    pub name: String,
    /// PCI bus id as `DDDDDDDD:BB:DD.F`, upper case.
    pub pci_bus_id: Option<String>,
    /// Minor number of `/dev/nvidiaN`.
    pub minor_number: Option<u32>,
    /// Serial number of the board.
    pub serial: Option<String>,
    /// Part number of the board.
    pub part_number: Option<String>,
    /// VBIOS version.
    pub vbios_version: Option<String>,
    /// CUDA compute capability, major and minor.
    pub cuda_capability: Option<(u32, u32)>,
    /// SM count or core count is not given by every driver.
    pub core_count: Option<u32>,
    /// Set when this is a MIG instance.
    pub mig: Option<MigInstance>,
    /// The device's own limits.
    pub limits: DeviceLimits,
}

/// One device at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// Its name within this run of the agent.
    pub key: DeviceKey,
    /// What does not change.
    pub info: Arc<DeviceInfo>,
    /// Whether it answers.
    pub status: DeviceStatus,
    /// What is measured.
    pub readings: DeviceReadings,
}
