//! Ready-made devices. The H200 gives what a real one gave; the others are narrowed to what sets them apart.

use nvml_wrapper_sys::bindings as nvml;

use super::{Clocks, Device, Ecc, MigInstance, RemappedRows, RetiredPages, Thresholds, Violations};

const MIB: u64 = 1024 * 1024;

impl Device {
    /// The ready-made device of a model's name, or `None` when there is none. `index` makes UUID, serial number and bus
    /// id its own.
    pub fn model(name: &str, index: u32) -> Option<Self> {
        match name {
            "h200" => Some(Self::h200(index)),
            "a100" => Some(Self::a100(index)),
            "a100-mig" => Some(Self::a100_mig(index)),
            "k80" => Some(Self::k80(index)),
            _ => None,
        }
    }

    fn identity(index: u32, name: &str, prefix: u32) -> Self {
        Self {
            uuid: format!("GPU-{prefix:08x}-0000-4000-8000-{index:012x}"),
            name: name.to_owned(),
            pci_bus_id: format!("0000:{:02x}:00.0", 0x17_u32.saturating_add(index)),
            serial: Some(format!("16541{:08}", prefix.wrapping_add(index) % 100_000_000)),
            minor_number: Some(index),
            ..Self::default()
        }
    }

    /// An H200 under load: no fans, no NVLink (passed through), memory with the driver's reserve apart.
    pub fn h200(index: u32) -> Self {
        Self {
            part_number: Some("692-2G520-0280-501".to_owned()),
            vbios: Some("96.00.BC.00.01".to_owned()),
            pci_device_id: 0x2335_10de,
            pci_subsystem_id: 0x18be_10de,
            cuda_capability: Some([9, 0]),
            core_count: Some(16_896),
            architecture: Some(nvml::NVML_DEVICE_ARCH_HOPPER),
            brand: Some(nvml::nvmlBrandType_enum_NVML_BRAND_NVIDIA),
            memory_v2: true,
            memory_total: Some(150_754_820_096),
            memory_base_used: Some(15_138_816),
            memory_reserved: Some(644_939_776),
            bar1_total: Some(262_144 * MIB),
            bar1_used: Some(2 * MIB),
            utilization: Some(95),
            memory_utilization: Some(22),
            encoder: Some(0),
            decoder: Some(0),
            jpeg: Some(0),
            ofa: Some(0),
            temperature: Some(59),
            memory_temperature: Some(47),
            thresholds: Thresholds { shutdown: Some(95), slowdown: Some(89), memory_max: Some(95), gpu_max: Some(87) },
            power_mw: Some(690_855),
            power_limit_mw: Some(700_000),
            power_min_mw: Some(200_000),
            power_max_mw: Some(700_000),
            power_default_mw: Some(700_000),
            energy_mj: Some(1_234_567_890),
            performance_state: Some(0),
            clock_event_reasons: Some(4),
            clocks: clocks([1500, 1500, 3201, 1530]),
            max_clocks: clocks([1980, 1980, 3201, 1545]),
            pcie_generation: Some(5),
            pcie_width: Some(16),
            pcie_max_generation: Some(5),
            pcie_max_width: Some(16),
            pcie_tx_kib: Some(24_650),
            pcie_rx_kib: Some(12_300),
            pcie_replays: Some(0),
            ecc: ecc([0, 0, 0, 1]),
            remapped_rows: RemappedRows {
                corrected: Some(0),
                uncorrected: Some(0),
                pending: Some(false),
                failed: Some(false),
            },
            violations: Violations { power_ns: Some(21_500_000_000), thermal_ns: Some(0) },
            persistence: Some(true),
            display_active: Some(false),
            compute_mode: Some(0),
            event_types: Some(u64::from(nvml::nvmlEventTypeAll)),
            mig_capacity: Some(7),
            ..Self::identity(index, "NVIDIA H200", 0x6820_0000)
        }
    }

    /// An idle A100 with MIG off.
    pub fn a100(index: u32) -> Self {
        let identity = Self::identity(index, "NVIDIA A100-SXM4-40GB", 0xa100_0000);
        Self {
            uuid: identity.uuid,
            name: identity.name,
            pci_bus_id: identity.pci_bus_id,
            serial: identity.serial,
            part_number: Some("692-2G506-0200-002".to_owned()),
            vbios: Some("92.00.45.00.03".to_owned()),
            pci_device_id: 0x20b0_10de,
            pci_subsystem_id: 0x144e_10de,
            cuda_capability: Some([8, 0]),
            core_count: Some(6912),
            architecture: Some(nvml::NVML_DEVICE_ARCH_AMPERE),
            memory_total: Some(40_960 * MIB),
            memory_base_used: Some(4 * MIB),
            memory_reserved: Some(571 * MIB),
            bar1_total: Some(65_536 * MIB),
            utilization: Some(0),
            memory_utilization: Some(0),
            temperature: Some(34),
            memory_temperature: Some(33),
            thresholds: Thresholds { shutdown: Some(92), slowdown: Some(89), memory_max: Some(95), gpu_max: Some(85) },
            power_mw: Some(52_310),
            power_limit_mw: Some(400_000),
            power_min_mw: Some(100_000),
            power_max_mw: Some(400_000),
            power_default_mw: Some(400_000),
            clock_event_reasons: Some(1),
            clocks: clocks([210, 210, 1215, 585]),
            max_clocks: clocks([1410, 1410, 1215, 1290]),
            pcie_generation: Some(4),
            pcie_max_generation: Some(4),
            nvlinks: vec![true; 12],
            ecc: ecc([0; 4]),
            ..Self::h200(index)
        }
    }

    /// An A100 split into a 1g.5gb, a 2g.10gb and a 3g.20gb instance. Utilisation is not supported while MIG is on.
    pub fn a100_mig(index: u32) -> Self {
        let instance = |number: u32, profile: &str, gibibytes: u64, slices: u32| MigInstance {
            uuid: format!("MIG-{number:08x}-0000-5000-8000-{index:012x}"),
            profile: profile.to_owned(),
            gpu_instance: number,
            compute_instance: 0,
            multiprocessors: 14 * slices,
            memory_total: Some(gibibytes * 1024 * MIB - 128 * MIB),
            memory_base_used: Some(12 * MIB),
            memory_reserved: Some(0),
        };
        Self {
            mig_enabled: true,
            mig: vec![instance(9, "1g.5gb", 5, 1), instance(5, "2g.10gb", 10, 2), instance(2, "3g.20gb", 20, 3)],
            utilization: None,
            memory_utilization: None,
            encoder: None,
            decoder: None,
            jpeg: None,
            ofa: None,
            ..Self::a100(index)
        }
    }

    /// An old card: first memory call only, one fan, retired pages, no MIG, no remapped rows, no energy counter.
    pub fn k80(index: u32) -> Self {
        Self {
            part_number: Some("900-22080-0000-000".to_owned()),
            vbios: Some("80.21.25.00.01".to_owned()),
            pci_device_id: 0x102d_10de,
            pci_subsystem_id: 0x106c_10de,
            cuda_capability: Some([3, 7]),
            architecture: Some(nvml::NVML_DEVICE_ARCH_KEPLER),
            brand: Some(nvml::nvmlBrandType_enum_NVML_BRAND_TESLA),
            memory_total: Some(11_441 * MIB),
            memory_base_used: Some(3 * MIB),
            bar1_total: Some(16_384 * MIB),
            bar1_used: Some(2 * MIB),
            utilization: Some(0),
            memory_utilization: Some(0),
            encoder: Some(0),
            decoder: Some(0),
            temperature: Some(41),
            thresholds: Thresholds { shutdown: Some(93), slowdown: Some(88), ..Thresholds::default() },
            fans: vec![34],
            power_mw: Some(26_880),
            power_limit_mw: Some(149_000),
            performance_state: Some(8),
            clock_event_reasons: Some(1),
            clocks: Clocks { graphics: Some(324), sm: Some(324), memory: Some(324), video: Some(405) },
            max_clocks: Clocks { graphics: Some(875), sm: Some(875), memory: Some(2505), video: Some(540) },
            pcie_generation: Some(3),
            pcie_width: Some(16),
            pcie_max_generation: Some(3),
            pcie_max_width: Some(16),
            pcie_replays: Some(0),
            ecc: ecc([0, 0, 2, 0]),
            retired_pages: RetiredPages { single_bit: Some(2), double_bit: Some(0), pending: Some(false) },
            persistence: Some(false),
            display_active: Some(false),
            compute_mode: Some(0),
            event_types: Some(u64::from(nvml::nvmlEventTypeXidCriticalError)),
            ..Self::identity(index, "Tesla K80", 0x0000_0080)
        }
    }
}

fn clocks([graphics, sm, memory, video]: [u32; 4]) -> Clocks {
    Clocks { graphics: Some(graphics), sm: Some(sm), memory: Some(memory), video: Some(video) }
}

fn ecc([corrected_volatile, uncorrected_volatile, corrected_aggregate, uncorrected_aggregate]: [u64; 4]) -> Ecc {
    Ecc {
        enabled: Some(true),
        corrected_volatile: Some(corrected_volatile),
        uncorrected_volatile: Some(uncorrected_volatile),
        corrected_aggregate: Some(corrected_aggregate),
        uncorrected_aggregate: Some(uncorrected_aggregate),
    }
}
