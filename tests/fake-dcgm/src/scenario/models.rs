//! Ready-made devices. The H200 answers what a real one answered to DCGM 4.6.0 under load.

use dcgm_sys::FieldId as F;
use dcgm_sys::error::DcgmError;
use dcgm_sys::nvlink::LinkState;

use super::{Device, FieldName, Fields, Name, Reading};

/// Fields about the host.
pub(super) fn host_fields() -> Fields {
    Fields::from([
        (FieldName(F::DRIVER_VERSION), "580.159.04".into()),
        (FieldName(F::NVML_VERSION), "13.580.159.04".into()),
        (FieldName(F::CUDA_DRIVER_VERSION), 13_000_i64.into()),
    ])
}

impl Device {
    /// The ready-made device of this name.
    pub fn model(name: &str, index: u32) -> Option<Self> {
        match name {
            "h200" => Some(Self::h200(index)),
            "v100" => Some(Self::v100(index)),
            _ => None,
        }
    }

    /// An H200 at its power limit.
    pub fn h200(index: u32) -> Self {
        let mut device = Self { gpm: true, nvlinks: vec![Name(LinkState::UP); 18], ..named("NVIDIA H200", index) };
        for (field, value) in H200_NUMBERS {
            device.set(*field, *value);
        }
        for (field, value) in H200_DOUBLES {
            device.set(*field, *value);
        }
        device.set(F::DEV_NVLINK_BANDWIDTH_TOTAL, Reading::status(DcgmError::NOT_SUPPORTED));
        device.set(F::DEV_VBIOS_VERSION, "96.00.A5.00.1A");
        device
    }

    /// A V100: it has no profiling fields without the profiling module, and pages instead of rows.
    pub fn v100(index: u32) -> Self {
        let mut device = Self { nvlinks: vec![Name(LinkState::UP); 6], ..named("Tesla V100-SXM2-32GB", index) };
        for (field, value) in V100_NUMBERS {
            device.set(*field, *value);
        }
        device.set(F::DEV_POWER_USAGE, 42.5);
        device.set(F::DEV_ENFORCED_POWER_LIMIT, 300.0);
        device
    }
}

fn named(name: &str, index: u32) -> Device {
    let mut device = Device::default();
    device.set(F::DEV_NAME, name);
    device.set(F::DEV_NVML_INDEX, i64::from(index));
    device.set(F::DEV_MINOR_NUMBER, i64::from(index));
    device.set(F::DEV_UUID, format!("GPU-00000000-1111-2222-3333-{index:012}").as_str());
    device.set(F::DEV_PCI_BUSID, format!("00000000:{:02X}:00.0", index + 6).as_str());
    device.set(F::DEV_SERIAL, format!("165{index:010}").as_str());
    device
}

const H200_NUMBERS: &[(F, i64)] = &[
    (F::DEV_CUDA_COMPUTE_CAPABILITY, 589_824),
    (F::DEV_PERSISTENCE_MODE, 1),
    (F::DEV_MIG_MODE, 0),
    (F::DEV_GPM_SUPPORT, 1),
    (F::DEV_SM_CLOCK, 1470),
    (F::DEV_MEM_CLOCK, 3201),
    (F::DEV_CLOCK_THROTTLE_REASONS, 4),
    (F::DEV_MEMORY_TEMP, 52),
    (F::DEV_GPU_TEMP, 62),
    (F::DEV_GPU_TEMP_LIMIT, 25),
    (F::DEV_TOTAL_ENERGY_CONSUMPTION, 12_709_394),
    (F::DEV_SLOWDOWN_TEMP, 89),
    (F::DEV_FABRIC_MANAGER_STATUS, 0),
    (F::DEV_PSTATE, 0),
    (F::DEV_PCIE_REPLAY_COUNTER, 0),
    (F::DEV_GPU_UTIL, 98),
    (F::DEV_MEM_COPY_UTIL, 22),
    (F::DEV_PCIE_LINK_GEN, 5),
    (F::DEV_PCIE_LINK_WIDTH, 16),
    (F::DEV_POWER_VIOLATION, 14_208_672_672),
    (F::DEV_THERMAL_VIOLATION, 0),
    (F::DEV_FB_TOTAL, 143_771),
    (F::DEV_FB_FREE, 135_347),
    (F::DEV_FB_USED, 7808),
    (F::DEV_ECC_CURRENT, 1),
    (F::DEV_ECC_SBE_VOL_TOTAL, 0),
    (F::DEV_ECC_DBE_VOL_TOTAL, 0),
    (F::DEV_ECC_SBE_AGG_TOTAL, 0),
    (F::DEV_ECC_DBE_AGG_TOTAL, 0),
    (F::DEV_UNCORRECTABLE_REMAPPED_ROWS, 0),
    (F::DEV_CORRECTABLE_REMAPPED_ROWS, 0),
    (F::DEV_ROW_REMAP_FAILURE, 0),
    (F::DEV_ROW_REMAP_PENDING, 0),
    (F::DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS, 14_208_672_672),
    (F::DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS, 0),
    (F::DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS, 0),
    (F::DEV_GET_GPU_RECOVERY_ACTION, 0),
    (F::PROF_PCIE_TX_BYTES, 1_025_226),
    (F::PROF_PCIE_RX_BYTES, 2_674_709),
    (F::PROF_NVLINK_TX_BYTES, 0),
    (F::PROF_NVLINK_RX_BYTES, 0),
    (F::PROF_NVLINK_L0_TX_BYTES, 0),
];

const H200_DOUBLES: &[(F, f64)] = &[
    (F::DEV_POWER_USAGE, 692.065),
    (F::DEV_POWER_USAGE_INSTANT, 718.237),
    (F::DEV_ENFORCED_POWER_LIMIT, 700.0),
    (F::DEV_FB_USED_PERCENT, 0.054_545),
    (F::PROF_GR_ENGINE_ACTIVE, 0.985_829),
    (F::PROF_SM_ACTIVE, 0.950_479),
    (F::PROF_SM_OCCUPANCY, 0.140_464),
    (F::PROF_PIPE_TENSOR_ACTIVE, 0.922_885),
    (F::PROF_DRAM_ACTIVE, 0.157_807),
    (F::PROF_PIPE_FP64_ACTIVE, 0.0),
    (F::PROF_PIPE_FP32_ACTIVE, 0.0),
    (F::PROF_PIPE_FP16_ACTIVE, 0.0),
    (F::PROF_PIPE_TENSOR_IMMA_ACTIVE, 0.0),
    (F::PROF_PIPE_TENSOR_HMMA_ACTIVE, 0.922_885),
    (F::PROF_PIPE_TENSOR_DFMA_ACTIVE, 0.0),
    (F::PROF_PIPE_INT_ACTIVE, 0.013_398_4),
    (F::PROF_NVDEC0_ACTIVE, 0.0),
    (F::PROF_NVJPG0_ACTIVE, 0.0),
    (F::PROF_NVOFA0_ACTIVE, 0.0),
];

const V100_NUMBERS: &[(F, i64)] = &[
    (F::DEV_CUDA_COMPUTE_CAPABILITY, 458_752),
    (F::DEV_GPM_SUPPORT, 0),
    (F::DEV_SM_CLOCK, 135),
    (F::DEV_MEM_CLOCK, 877),
    (F::DEV_CLOCK_THROTTLE_REASONS, 1),
    (F::DEV_MEMORY_TEMP, 30),
    (F::DEV_GPU_TEMP, 32),
    (F::DEV_SLOWDOWN_TEMP, 87),
    (F::DEV_PSTATE, 0),
    (F::DEV_PCIE_REPLAY_COUNTER, 0),
    (F::DEV_GPU_UTIL, 0),
    (F::DEV_FB_TOTAL, 32_768),
    (F::DEV_FB_FREE, 32_500),
    (F::DEV_FB_USED, 0),
    (F::DEV_RETIRED_SBE, 0),
    (F::DEV_RETIRED_DBE, 0),
    (F::DEV_RETIRED_PENDING, 0),
];
