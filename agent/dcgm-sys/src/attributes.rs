//! What a device is and what it is set to. Single members are blank when the engine does not know them: judge each with
//! [`blank`](crate::blank). DCGM 3 without a driver can put an error text where a string is blank.

use crate::code::{layout, versioned};
use crate::entity::Entity;
use crate::version::Zeroable;

/// Clocks that can be set together.
#[doc(alias = "dcgmClockSet_v1")]
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ClockSet {
    /// The version word.
    pub version: i32,
    /// Memory clock in MHz.
    pub memory_clock: u32,
    /// SM clock in MHz.
    pub sm_clock: u32,
}

/// Every set of clocks that can be chosen.
#[doc(alias = "dcgmDeviceSupportedClockSets_v1")]
#[repr(C)]
pub struct ClockSets {
    /// The version word.
    pub version: u32,
    /// How many are filled.
    pub count: u32,
    /// The sets.
    pub sets: [ClockSet; 256],
}

/// Temperature limits.
#[doc(alias = "dcgmDeviceThermals_v1")]
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Thermals {
    /// The version word.
    pub version: u32,
    /// °C at which clocks are lowered.
    pub slowdown: u32,
    /// °C at which the device switches itself off.
    pub shutdown: u32,
}

/// Power limits in watts.
#[doc(alias = "dcgmDevicePowerLimits_v1")]
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct PowerLimits {
    /// The version word.
    pub version: u32,
    /// As set.
    pub current: u32,
    /// As delivered.
    pub default: u32,
    /// After all limiters.
    pub enforced: u32,
    /// Lowest that can be set.
    pub min: u32,
    /// Highest that can be set.
    pub max: u32,
}

/// Names and numbers.
#[doc(alias = "dcgmDeviceIdentifiers_v1")]
#[repr(C)]
pub struct Identifiers {
    /// The version word.
    pub version: u32,
    /// Brand.
    pub brand: [u8; 256],
    /// Marketing name.
    pub name: [u8; 256],
    /// PCI bus id.
    pub pci_bus_id: [u8; 256],
    /// Serial number of the board.
    pub serial: [u8; 256],
    /// UUID.
    pub uuid: [u8; 256],
    /// VBIOS version.
    pub vbios: [u8; 256],
    /// InfoROM image version.
    pub inforom: [u8; 256],
    /// PCI device and vendor id.
    pub pci_device_id: u32,
    /// PCI subsystem id.
    pub pci_subsystem_id: u32,
    /// Driver version.
    pub driver: [u8; 256],
    /// Virtualisation: 0 none, 1 passed through, 2 virtual GPU, 3 host of virtual GPUs, 4 host of shared graphics.
    pub virtualization: u32,
}

/// Memory in MiB.
#[doc(alias = "dcgmDeviceMemoryUsage_v1")]
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct MemoryUsage {
    /// The version word.
    pub version: u32,
    /// BAR1.
    pub bar1_total: u32,
    /// Frame buffer.
    pub total: u32,
    /// Used of it.
    pub used: u32,
    /// Free of it.
    pub free: u32,
}

/// Modes, each 0 or 1.
#[doc(alias = "dcgmDeviceSettings_v2")]
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Settings {
    /// The version word.
    pub version: u32,
    /// Persistence mode.
    pub persistence: u32,
    /// MIG mode.
    pub mig: u32,
    /// Confidential compute mode.
    pub confidential_compute: u32,
}

/// All of it.
#[doc(alias = "dcgmDeviceAttributes_v3")]
#[repr(C)]
pub struct DeviceAttributesV3 {
    /// The version word.
    pub version: u32,
    /// Clocks.
    pub clock_sets: ClockSets,
    /// Temperature limits.
    pub thermals: Thermals,
    /// Power limits.
    pub power_limits: PowerLimits,
    /// Names and numbers.
    pub identifiers: Identifiers,
    /// Memory.
    pub memory: MemoryUsage,
    /// Modes.
    pub settings: Settings,
}

/// What a MIG instance is.
#[doc(alias = "dcgmMigEntityInfo_t")]
#[derive(Clone, Copy)]
#[repr(C)]
pub struct MigInfo {
    /// UUID of the GPU.
    pub gpu_uuid: [u8; 128],
    /// NVML's index of the GPU.
    pub nvml_index: u32,
    /// NVML's id of the GPU instance.
    pub gpu_instance: u32,
    /// NVML's id of the compute instance.
    pub compute_instance: u32,
    /// The profile.
    pub profile: u32,
    /// Slices it has.
    pub slices: u32,
}

/// A MIG instance and where it hangs.
#[doc(alias = "dcgmMigHierarchyInfo_v2")]
#[derive(Clone, Copy)]
#[repr(C)]
pub struct MigNode {
    /// The instance.
    pub entity: Entity,
    /// The GPU or GPU instance it is part of.
    pub parent: Entity,
    /// What it is.
    pub info: MigInfo,
}

/// Every MIG instance of the host.
#[doc(alias = "dcgmMigHierarchy_v2")]
#[repr(C)]
pub struct MigHierarchyV2 {
    /// The version word.
    pub version: u32,
    /// How many are filled.
    pub count: u32,
    /// The instances.
    pub nodes: [MigNode; 448],
}

layout!(ClockSet: size 12, align 4; version @ 0, 4; memory_clock @ 4, 4; sm_clock @ 8, 4;);
layout!(ClockSets: size 3080, align 4; version @ 0, 4; count @ 4, 4; sets @ 8, 3072;);
layout!(Thermals: size 12, align 4; version @ 0, 4; slowdown @ 4, 4; shutdown @ 8, 4;);
layout!(PowerLimits: size 24, align 4;
    version @ 0, 4; current @ 4, 4; default @ 8, 4; enforced @ 12, 4; min @ 16, 4; max @ 20, 4;
);
layout!(Identifiers: size 2064, align 4;
    version @ 0, 4; brand @ 4, 256; name @ 260, 256; pci_bus_id @ 516, 256; serial @ 772, 256; uuid @ 1028, 256;
    vbios @ 1284, 256; inforom @ 1540, 256; pci_device_id @ 1796, 4; pci_subsystem_id @ 1800, 4; driver @ 1804, 256;
    virtualization @ 2060, 4;
);
layout!(MemoryUsage: size 20, align 4; version @ 0, 4; bar1_total @ 4, 4; total @ 8, 4; used @ 12, 4; free @ 16, 4;);
layout!(Settings: size 16, align 4; version @ 0, 4; persistence @ 4, 4; mig @ 8, 4; confidential_compute @ 12, 4;);
layout!(DeviceAttributesV3: size 5220, align 4;
    version @ 0, 4; clock_sets @ 4, 3080; thermals @ 3084, 12; power_limits @ 3096, 24; identifiers @ 3120, 2064;
    memory @ 5184, 20; settings @ 5204, 16;
);
layout!(MigInfo: size 148, align 4;
    gpu_uuid @ 0, 128; nvml_index @ 128, 4; gpu_instance @ 132, 4; compute_instance @ 136, 4; profile @ 140, 4;
    slices @ 144, 4;
);
layout!(MigNode: size 164, align 4; entity @ 0, 8; parent @ 8, 8; info @ 16, 148;);
layout!(MigHierarchyV2: size 73480, align 4; version @ 0, 4; count @ 4, 4; nodes @ 8, 73472;);
// SAFETY: numbers and arrays of them.
unsafe impl Zeroable for DeviceAttributesV3 {}
// SAFETY: numbers and arrays of them.
unsafe impl Zeroable for MigHierarchyV2 {}
versioned! {
    DeviceAttributesV3 = 3 => 0x0300_1464;
    MigHierarchyV2 = 2 => 0x0201_1f08;
}
