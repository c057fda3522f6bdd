//! One device of a scenario. An optional field that is unset answers NOT_SUPPORTED.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A structure with fields that are always there, and readings that may be missing.
macro_rules! readings {
    (
        $(#[$meta:meta])* pub struct $name:ident {
            $(@always { $($(#[$always_meta:meta])* $always:ident: $always_ty:ty,)* })?
            $($(#[$field_meta:meta])* $field:ident: $ty:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[$field_meta])* #[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<$ty>,)*
            $($($(#[$always_meta])* pub $always: $always_ty,)*)?
        }
    };
}

readings! {
    /// One physical device.
    pub struct Device {
        @always {
            /// Fell off the bus: every call about it answers GPU_IS_LOST.
            lost: bool,
            /// UUID. Names the device in rules and events.
            uuid: String,
            /// Product name.
            name: String,
            /// PCI bus id such as `0000:17:00.0`.
            pci_bus_id: String,
            /// PCI device and vendor id.
            pci_device_id: u32,
            /// PCI subsystem id.
            pci_subsystem_id: u32,
            /// Speeds of the fans in percent; empty: none.
            fans: Vec<u32>,
            /// Whether each NVLink is up; empty: not supported.
            nvlinks: Vec<bool>,
            /// `nvmlDeviceGetMemoryInfo_v2` works.
            memory_v2: bool,
            /// MIG mode is on.
            mig_enabled: bool,
            /// Raw values for `nvmlDeviceGetFieldValues` by field id; they override what other fields imply.
            fields: BTreeMap<String, u64>,
            /// Clocks now, in MHz.
            clocks: Clocks,
            /// Highest clocks, in MHz.
            max_clocks: Clocks,
            /// Temperature limits.
            thresholds: Thresholds,
            /// ECC.
            ecc: Ecc,
            /// Retired pages.
            retired_pages: RetiredPages,
            /// Remapped rows.
            remapped_rows: RemappedRows,
            /// Time below requested clocks.
            violations: Violations,
            /// The MIG instances, by index.
            mig: Vec<MigInstance>,
            /// The processes on the device, those in MIG instances included.
            processes: Vec<Process>,
        }
        /// Serial number of the board.
        serial: String,
        /// Part number of the board.
        part_number: String,
        /// VBIOS version.
        vbios: String,
        /// N of /dev/nvidiaN.
        minor_number: u32,
        /// Compute capability.
        cuda_capability: [i32; 2],
        /// Cores.
        core_count: u32,
        /// NVML's architecture number.
        architecture: u32,
        /// NVML's brand number.
        brand: u32,
        /// Memory in all, in bytes.
        memory_total: u64,
        /// Memory in use beside that of the listed processes, in bytes.
        memory_base_used: u64,
        /// Memory the driver keeps, in bytes.
        memory_reserved: u64,
        /// BAR1 aperture in all, in bytes.
        bar1_total: u64,
        /// BAR1 aperture in use, in bytes.
        bar1_used: u64,
        /// GPU utilisation in percent.
        utilization: u32,
        /// Memory-controller utilisation in percent.
        memory_utilization: u32,
        /// Encoder utilisation in percent.
        encoder: u32,
        /// Decoder utilisation in percent.
        decoder: u32,
        /// JPEG engine utilisation in percent.
        jpeg: u32,
        /// Optical-flow engine utilisation in percent.
        ofa: u32,
        /// Core temperature in °C.
        temperature: u32,
        /// Memory temperature in °C.
        memory_temperature: u32,
        /// Power draw in milliwatts.
        power_mw: u32,
        /// Limit in force in milliwatts.
        power_limit_mw: u32,
        /// Lowest limit in milliwatts.
        power_min_mw: u32,
        /// Highest limit in milliwatts.
        power_max_mw: u32,
        /// Limit after reset in milliwatts.
        power_default_mw: u32,
        /// Energy since the driver was loaded, in millijoules.
        energy_mj: u64,
        /// Performance state.
        performance_state: u32,
        /// Clock event reasons, NVML's bits.
        clock_event_reasons: u64,
        /// PCIe generation now.
        pcie_generation: u32,
        /// PCIe lanes now.
        pcie_width: u32,
        /// Highest PCIe generation.
        pcie_max_generation: u32,
        /// Most PCIe lanes.
        pcie_max_width: u32,
        /// KiB/s sent.
        pcie_tx_kib: u32,
        /// KiB/s received.
        pcie_rx_kib: u32,
        /// PCIe replays.
        pcie_replays: u32,
        /// Persistence mode is on.
        persistence: bool,
        /// A display is active.
        display_active: bool,
        /// Compute mode.
        compute_mode: u32,
        /// Event types that can be registered, NVML's bits.
        event_types: u64,
        /// Most MIG instances; unset: the device cannot do MIG.
        mig_capacity: u32,
    }
}

readings! {
    /// Clocks in MHz.
    pub struct Clocks {
        /// Graphics clock.
        graphics: u32,
        /// SM clock.
        sm: u32,
        /// Memory clock.
        memory: u32,
        /// Video clock.
        video: u32,
    }
}

readings! {
    /// Temperature limits in °C.
    pub struct Thresholds {
        /// Shuts down.
        shutdown: u32,
        /// Slows down.
        slowdown: u32,
        /// Highest for memory.
        memory_max: u32,
        /// Highest for the core.
        gpu_max: u32,
    }
}

readings! {
    /// ECC mode and counters.
    pub struct Ecc {
        /// ECC is on.
        enabled: bool,
        /// Corrected since the driver was loaded.
        corrected_volatile: u64,
        /// Uncorrected since the driver was loaded.
        uncorrected_volatile: u64,
        /// Corrected over the card's life.
        corrected_aggregate: u64,
        /// Uncorrected over the card's life.
        uncorrected_aggregate: u64,
    }
}

readings! {
    /// Retired pages.
    pub struct RetiredPages {
        /// How many for many single-bit errors.
        single_bit: u32,
        /// How many for a double-bit error.
        double_bit: u32,
        /// A retirement waits for a reset.
        pending: bool,
    }
}

readings! {
    /// Remapped rows; the device supports them when `corrected` is set.
    pub struct RemappedRows {
        /// How many for corrected errors.
        corrected: u32,
        /// How many for uncorrected errors.
        uncorrected: u32,
        /// A remap waits for a reset.
        pending: bool,
        /// A remap has failed.
        failed: bool,
    }
}

readings! {
    /// Time below requested clocks, in nanoseconds.
    pub struct Violations {
        /// For the power limit.
        power_ns: u64,
        /// For heat.
        thermal_ns: u64,
    }
}

readings! {
    /// One MIG instance.
    pub struct MigInstance {
        @always {
            /// UUID, `MIG-…`.
            uuid: String,
            /// Profile such as `1g.5gb`; ends the name.
            profile: String,
            /// GPU instance id.
            gpu_instance: u32,
            /// Compute instance id.
            compute_instance: u32,
            /// Multiprocessors.
            multiprocessors: u32,
        }
        /// Memory in all, in bytes.
        memory_total: u64,
        /// Memory in use beside that of the listed processes, in bytes.
        memory_base_used: u64,
        /// Memory the driver keeps, in bytes.
        memory_reserved: u64,
    }
}

/// What kind of context a process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Compute.
    C,
    /// Graphics.
    G,
    /// Compute through MPS.
    M,
}

/// One process on a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Memory it holds. Unset: the driver does not say (all ones in the ABI).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// In which lists it stands.
    pub kinds: Vec<Kind>,
    /// SM utilisation. With none of the four set, the process has no utilisation sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sm: Option<u32>,
    /// Memory-bandwidth utilisation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bandwidth: Option<u32>,
    /// Encoder utilisation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoder: Option<u32>,
    /// Decoder utilisation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decoder: Option<u32>,
    /// GPU instance it runs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_instance: Option<u32>,
    /// Compute instance it runs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_instance: Option<u32>,
}

impl Default for Process {
    fn default() -> Self {
        Self {
            pid: 0,
            memory_bytes: None,
            kinds: vec![Kind::C],
            sm: None,
            memory_bandwidth: None,
            encoder: None,
            decoder: None,
            gpu_instance: None,
            compute_instance: None,
        }
    }
}

impl Process {
    /// A compute process that holds memory and keeps the device busy.
    pub fn busy(pid: u32, memory_bytes: u64, sm: u32) -> Self {
        Self { pid, memory_bytes: Some(memory_bytes), sm: Some(sm), memory_bandwidth: Some(sm / 4), ..Self::default() }
    }

    /// A compute process that holds memory and does nothing: it has no utilisation sample.
    pub fn idle(pid: u32, memory_bytes: u64) -> Self {
        Self { pid, memory_bytes: Some(memory_bytes), ..Self::default() }
    }
}
