//! What the simulated devices are modelled on.

use gpufleet_model::DeviceLimits;
use rand::RngExt;

/// One product, as far as the simulation needs it.
#[derive(Debug)]
pub(crate) struct Hardware {
    /// The name it goes by.
    pub(crate) name: &'static str,
    /// Memory in all.
    pub(crate) memory_total: u64,
    /// Memory the driver keeps.
    pub(crate) memory_reserved: u64,
    /// BAR1 aperture.
    pub(crate) bar1_total: u64,
    /// Power limit, W.
    pub(crate) power_limit: f64,
    /// Power draw when idle, W.
    pub(crate) power_idle: f64,
    /// Highest SM clock.
    pub(crate) sm_clock: u32,
    /// SM clock when idle.
    pub(crate) sm_clock_idle: u32,
    /// Memory clock.
    pub(crate) memory_clock: u32,
    /// Highest video clock.
    pub(crate) video_clock: u32,
    /// PCIe generation.
    pub(crate) pcie_generation: u32,
    /// CUDA compute capability.
    pub(crate) cuda_capability: (u32, u32),
    /// CUDA cores.
    pub(crate) core_count: u32,
    /// NVLink links; none on some products.
    pub(crate) nvlink_links: Option<u32>,
    /// Cooled by its own fan.
    pub(crate) has_fan: bool,
    /// Highest CUDA version of its driver.
    pub(crate) cuda_version: &'static str,
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

static PRODUCTS: [Hardware; 4] = [
    Hardware {
        name: "Simulated NVIDIA H200",
        memory_total: 150_754_820_096,
        memory_reserved: 644_939_776,
        bar1_total: 256 * GIB,
        power_limit: 700.0,
        power_idle: 76.0,
        sm_clock: 1980,
        sm_clock_idle: 345,
        memory_clock: 3201,
        video_clock: 1545,
        pcie_generation: 5,
        cuda_capability: (9, 0),
        core_count: 16_896,
        nvlink_links: Some(18),
        has_fan: false,
        cuda_version: "13.0",
    },
    Hardware {
        name: "Simulated NVIDIA H100 80GB HBM3",
        memory_total: 81_559 * MIB,
        memory_reserved: 551 * MIB,
        bar1_total: 128 * GIB,
        power_limit: 700.0,
        power_idle: 70.0,
        sm_clock: 1980,
        sm_clock_idle: 345,
        memory_clock: 2619,
        video_clock: 1545,
        pcie_generation: 5,
        cuda_capability: (9, 0),
        core_count: 16_896,
        nvlink_links: Some(18),
        has_fan: false,
        cuda_version: "13.0",
    },
    Hardware {
        name: "Simulated NVIDIA A100-SXM4-80GB",
        memory_total: 81_920 * MIB,
        memory_reserved: 595 * MIB,
        bar1_total: 128 * GIB,
        power_limit: 400.0,
        power_idle: 62.0,
        sm_clock: 1410,
        sm_clock_idle: 210,
        memory_clock: 1593,
        video_clock: 1290,
        pcie_generation: 4,
        cuda_capability: (8, 0),
        core_count: 6_912,
        nvlink_links: Some(12),
        has_fan: false,
        cuda_version: "12.8",
    },
    Hardware {
        name: "Simulated NVIDIA RTX 6000 Ada Generation",
        memory_total: 49_140 * MIB,
        memory_reserved: 624 * MIB,
        bar1_total: 64 * GIB,
        power_limit: 300.0,
        power_idle: 22.0,
        sm_clock: 3105,
        sm_clock_idle: 210,
        memory_clock: 10_001,
        video_clock: 2415,
        pcie_generation: 4,
        cuda_capability: (8, 9),
        core_count: 18_176,
        nvlink_links: None,
        has_fan: true,
        cuda_version: "12.8",
    },
];

impl Hardware {
    /// The product a host is equipped with.
    pub(crate) fn pick(rng: &mut impl RngExt) -> &'static Self {
        let [first, ..] = &PRODUCTS;
        PRODUCTS.get(rng.random_range(0..PRODUCTS.len())).unwrap_or(first)
    }

    /// The limits its firmware would state.
    pub(crate) fn limits(&self) -> DeviceLimits {
        DeviceLimits {
            shutdown_temperature_celsius: Some(95),
            slowdown_temperature_celsius: Some(89),
            max_operating_temperature_celsius: Some(87),
            max_memory_temperature_celsius: Some(95),
            min_power_limit_watts: Some((self.power_limit * 0.3).round()),
            max_power_limit_watts: Some(self.power_limit),
            default_power_limit_watts: Some(self.power_limit),
            max_graphics_clock_mhz: Some(self.sm_clock),
            max_sm_clock_mhz: Some(self.sm_clock),
            max_memory_clock_mhz: Some(self.memory_clock),
            max_video_clock_mhz: Some(self.video_clock),
            max_pcie_generation: Some(self.pcie_generation),
            max_pcie_width: Some(16),
        }
    }
}
