//! The XID table: NVIDIA's codes for errors the driver reports, and how each is judged.
//!
//! Codes, mnemonics and immediate actions follow NVIDIA's XID catalogue (codes it marks unused are left out); the class is
//! this project's own judgement.

use super::{SuggestedAction, Verdict};

use SuggestedAction::{Drain, Monitor, Reboot, Replace, Reset};
use XidClass::{Application, Critical, Degraded, Note};

/// How an XID bears on the device's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum XidClass {
    /// Nearly always the application's own fault; says nothing of the device.
    Application,
    /// Worth knowing; says nothing of the device by itself.
    Note,
    /// The device works below what it should give.
    Degraded,
    /// The device is not fit for work.
    Critical,
}

impl XidClass {
    /// The severity of the incident it raises; `None` when it raises none.
    pub const fn severity(self) -> Option<Verdict> {
        match self {
            Self::Application | Self::Note => None,
            Self::Degraded => Some(Verdict::Degraded),
            Self::Critical => Some(Verdict::Critical),
        }
    }

    /// The name used in JSON and tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::Note => "note",
            Self::Degraded => "degraded",
            Self::Critical => "critical",
        }
    }
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Xid {
    /// The code.
    pub code: u32,
    /// NVIDIA's mnemonic; `UNLISTED` for a code that is not in the table.
    pub mnemonic: &'static str,
    /// How it bears on health.
    pub class: XidClass,
    /// What to do at once.
    pub action: SuggestedAction,
}

impl Xid {
    /// Looks a code up. A code that is not in the table is a note: new drivers bring new codes.
    pub fn of(code: u32) -> Self {
        let row = TABLE.binary_search_by_key(&code, |row| row.0).ok().and_then(|at| TABLE.get(at));
        let &(_, mnemonic, class, action) = row.unwrap_or(&(0, "UNLISTED", Note, Monitor));
        Self { code, mnemonic, class, action }
    }
}

const TABLE: &[(u32, &str, XidClass, SuggestedAction)] = &[
    (8, "FIFO_ERROR_IDLE_TIMEOUT", Application, Monitor),
    (11, "GR_ERROR_MISSING_HW", Application, Monitor),
    (13, "GR_EXCEPTION", Application, Monitor),
    (25, "GR_ILLEGAL_NOTIFY", Application, Monitor),
    (31, "FIFO_ERROR_MMU_ERR_FLT", Application, Monitor),
    (32, "PBDMA_ERROR", Application, Monitor),
    (37, "FECS_ERR_UNIMP_FIRMWARE_METHOD", Note, Monitor),
    (38, "FECS_ERR_WATCHDOG_TIMEOUT", Note, Monitor),
    (39, "CE0_ERROR", Application, Monitor),
    (40, "CE1_ERROR", Application, Monitor),
    (41, "CE2_ERROR", Application, Monitor),
    (43, "RESETCHANNEL_VERIF_ERROR", Note, Monitor),
    (44, "GR_FAULT_DURING_CTXSW", Note, Monitor),
    (45, "PREEMPTIVE_REMOVAL", Note, Monitor),
    (46, "GPU_TIMEOUT_ERROR", Degraded, Reset),
    (48, "GPU_ECC_DBE", Critical, Reset),
    (54, "SILENT_RUNNING_PWR_REDUCED_CLOCKING", Critical, Replace),
    (60, "SEC2_ERROR", Application, Monitor),
    (62, "PMU_HALT_ERROR", Critical, Reset),
    (63, "INFOROM_DRAM_RETIREMENT_EVENT", Degraded, Monitor),
    (64, "INFOROM_DRAM_RETIREMENT_FAILURE", Critical, Reset),
    (66, "FECS_ERR_REG_ACCESS_VIOLATION", Note, Monitor),
    (67, "FECS_ERR_VERIF_VIOLATION", Note, Monitor),
    (68, "NVDEC0_ERROR", Application, Monitor),
    (69, "GR_CLASS_ERROR", Application, Monitor),
    (70, "CE3_ERROR", Application, Monitor),
    (71, "CE4_ERROR", Application, Monitor),
    (72, "CE5_ERROR", Application, Monitor),
    (74, "NVLINK_ERROR", Critical, Reset),
    (75, "CE6_ERROR", Application, Monitor),
    (76, "CE7_ERROR", Application, Monitor),
    (77, "CE8_ERROR", Application, Monitor),
    (78, "VGPU_START_ERROR", Note, Drain),
    (79, "GPU_HAS_FALLEN_OFF_THE_BUS", Critical, Reboot),
    (80, "PBDMA_PUSHBUFFER_CRC_MISMATCH", Application, Monitor),
    (82, "NVJPG0_ERROR", Application, Monitor),
    (83, "NVDEC1_ERROR", Application, Monitor),
    (84, "NVDEC2_ERROR", Application, Monitor),
    (85, "CE9_ERROR", Application, Monitor),
    (86, "OFA0_ERROR", Application, Monitor),
    (88, "NVDEC3_ERROR", Application, Monitor),
    (89, "NVDEC4_ERROR", Application, Monitor),
    (92, "EXCESSIVE_SBE_INTERRUPTS", Degraded, Monitor),
    (93, "INFOROM_ERASE_LIMIT_EXCEEDED", Note, Monitor),
    (94, "CONTAINED_ERROR", Degraded, Monitor),
    (95, "UNCONTAINED_ERROR", Critical, Reset),
    (96, "NVDEC5_ERROR", Application, Monitor),
    (97, "NVDEC6_ERROR", Application, Monitor),
    (98, "NVDEC7_ERROR", Application, Monitor),
    (99, "NVJPG1_ERROR", Application, Monitor),
    (100, "NVJPG2_ERROR", Application, Monitor),
    (101, "NVJPG3_ERROR", Application, Monitor),
    (102, "NVJPG4_ERROR", Application, Monitor),
    (103, "NVJPG5_ERROR", Application, Monitor),
    (104, "NVJPG6_ERROR", Application, Monitor),
    (105, "NVJPG7_ERROR", Application, Monitor),
    (106, "SMBPBI_TEST_MESSAGE", Note, Monitor),
    (107, "SMBPBI_TEST_MESSAGE_SILENT", Note, Monitor),
    (109, "CTXSW_TIMEOUT_ERROR", Critical, Reset),
    (110, "SEC_FAULT_ERROR", Critical, Reset),
    (119, "GSP_RPC_TIMEOUT", Critical, Reset),
    (120, "GSP_ERROR", Critical, Reset),
    (121, "C2C_ERROR", Degraded, Monitor),
    (126, "CE10_ERROR", Application, Monitor),
    (127, "CE11_ERROR", Application, Monitor),
    (128, "CE12_ERROR", Application, Monitor),
    (129, "CE13_ERROR", Application, Monitor),
    (130, "CE14_ERROR", Application, Monitor),
    (131, "CE15_ERROR", Application, Monitor),
    (132, "CE16_ERROR", Application, Monitor),
    (133, "CE17_ERROR", Application, Monitor),
    (134, "CE18_ERROR", Application, Monitor),
    (135, "CE19_ERROR", Application, Monitor),
    (136, "ALI_TRAINING_FAIL", Critical, Reset),
    (137, "NVLINK_PRIV_ERR", Note, Monitor),
    (139, "OFA1_ERROR", Application, Monitor),
    (140, "UNRECOVERABLE_ECC_ERROR_ESCAPE", Critical, Reset),
    (141, "FAST_PATH_ERROR", Note, Monitor),
    (142, "NVENC3_ERROR", Note, Drain),
    (143, "GPU_INIT_ERROR", Critical, Reset),
    (144, "NVLINK_SAW_ERROR", Degraded, Drain),
    (145, "NVLINK_RLW_ERROR", Degraded, Drain),
    (146, "NVLINK_TLW_ERROR", Degraded, Drain),
    (147, "NVLINK_TREX_ERROR", Degraded, Drain),
    (148, "NVLINK_NVLPW_CTRL_ERROR", Degraded, Drain),
    (149, "NVLINK_NETIR_ERROR", Degraded, Drain),
    (150, "NVLINK_MSE_ERROR", Degraded, Drain),
    (151, "KEY_ROTATION_ERROR", Degraded, Reboot),
    (152, "DLA_SMMU_ERROR", Note, Monitor),
    (153, "DLA_TIMEOUT", Note, Monitor),
    (154, "GPU_RECOVERY_ACTION_CHANGED", Note, Monitor),
    (155, "NVLINK_SW_DEFINED_ERROR", Critical, Reset),
    (156, "RESOURCE_RETIREMENT_EVENT", Degraded, Reset),
    (157, "RESOURCE_RETIREMENT_FAILURE", Degraded, Monitor),
    (158, "GPU_FATAL_TIMEOUT", Critical, Reset),
    (159, "CHI_NON_DATA_ERROR", Note, Monitor),
    (160, "CHANNEL_RETIREMENT_EVENT", Note, Monitor),
    (161, "CHANNEL_RETIREMENT_FAILURE", Note, Monitor),
    (162, "PSHC_REENGAGED", Note, Monitor),
    (163, "PSHC_DISENGAGED", Note, Monitor),
    (164, "PSHC_LOW_LIFETIME", Degraded, Drain),
    (165, "PSHC_ZERO_LIFETIME", Degraded, Drain),
    (166, "NVLINK_SECURE_CRYPTO_ERR", Degraded, Drain),
    (167, "PCIE_FATAL_TIMEOUT", Critical, Reset),
    (168, "REDUCED_GPU_MEMORY_CAPACITY", Critical, Reset),
    (169, "SEC2_HALT_ERROR", Critical, Reset),
    (170, "NVLINK_SECURE_OTHER", Degraded, Drain),
    (171, "UNCORRECTABLE_DRAM_ERROR", Critical, Reset),
    (172, "UNCORRECTABLE_SRAM_ERROR", Critical, Reset),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_has_no_code_twice() {
        assert!(TABLE.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn well_known_codes_are_judged_as_the_catalogue_says() {
        assert_eq!(Xid::of(79).class, Critical);
        assert_eq!(Xid::of(79).action, Reboot);
        assert_eq!(Xid::of(48).class, Critical);
        assert_eq!(Xid::of(63).class, Degraded);
        assert_eq!(Xid::of(31).class.severity(), None);
        assert_eq!(Xid::of(94).class.severity(), Some(Verdict::Degraded));
    }

    #[test]
    fn a_code_from_a_newer_driver_is_a_note() {
        let xid = Xid::of(9_999);
        assert_eq!((xid.code, xid.mnemonic, xid.class), (9_999, "UNLISTED", Note));
    }
}
