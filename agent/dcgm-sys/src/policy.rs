//! Policies: conditions that the engine watches and reports by calling back.

use crate::code::{c_enum, c_mask, layout, versioned};
use crate::field::FieldId;
use crate::version::Zeroable;

c_mask! {
    /// Conditions of a policy. The parameters of condition 2^n stand at place n of [`PolicyV1::parameters`].
    #[doc(alias = "dcgmPolicyCondition_t")]
    pub struct Conditions(i32) {
        /// An uncorrectable memory error.
        #[doc(alias = "DCGM_POLICY_COND_DBE")]
        DOUBLE_BIT_ERROR = 0x1;
        /// PCIe replays.
        #[doc(alias = "DCGM_POLICY_COND_PCI")]
        PCI_REPLAY = 0x2;
        /// More retired pages than allowed.
        #[doc(alias = "DCGM_POLICY_COND_MAX_PAGES_RETIRED")]
        RETIRED_PAGES = 0x4;
        /// Hotter than allowed, in °C.
        #[doc(alias = "DCGM_POLICY_COND_THERMAL")]
        THERMAL = 0x8;
        /// More power than allowed, in watts.
        #[doc(alias = "DCGM_POLICY_COND_POWER")]
        POWER = 0x10;
        /// NVLink errors.
        #[doc(alias = "DCGM_POLICY_COND_NVLINK")]
        NVLINK = 0x20;
        /// An XID.
        #[doc(alias = "DCGM_POLICY_COND_XID")]
        XID = 0x40;
    }
}

c_enum! {
    /// Where an uncorrectable memory error was.
    pub struct ErrorLocation(i32) {
        /// L1 cache.
        L1 = 0;
        /// L2 cache.
        L2 = 1;
        /// Device memory.
        DEVICE = 2;
        /// Register file.
        REGISTER = 3;
        /// Texture memory.
        TEXTURE = 4;
    }
}

/// The parameter of one condition.
#[doc(alias = "dcgmPolicyConditionParams_t")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct PolicyParameter {
    /// 0: a switch; 1: a limit.
    pub tag: i32,
    /// 1 for a switch that is on, or the limit. A switch is 32 bits wide there; its upper half is 0.
    pub value: u64,
}

impl PolicyParameter {
    /// For double-bit errors, PCIe, NVLink and XID.
    pub const ON: Self = Self { tag: 0, value: 1 };

    /// For retired pages, thermal (°C) and power (W).
    pub const fn limit(limit: u64) -> Self {
        Self { tag: 1, value: limit }
    }
}

/// A policy.
#[doc(alias = "dcgmPolicy_v1")]
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct PolicyV1 {
    /// The version word.
    pub version: u32,
    /// The conditions that are watched.
    pub conditions: Conditions,
    /// 0 automated, 1 manual.
    pub mode: i32,
    /// Not used.
    pub isolation: i32,
    /// 0 none, 1 reset the GPU.
    pub action: i32,
    /// 0 none, then ever longer diagnostics.
    pub validation: i32,
    /// Not used.
    pub response: i32,
    /// Parameters by the condition's bit number.
    pub parameters: [PolicyParameter; 7],
}

/// An uncorrectable memory error.
#[doc(alias = "dcgmPolicyConditionDbe_t")]
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct RawDoubleBitError {
    /// When, in microseconds since 1970.
    pub timestamp: i64,
    /// Where.
    pub location: ErrorLocation,
    /// How many.
    pub count: u32,
}

/// PCIe replays.
#[doc(alias = "dcgmPolicyConditionPci_t")]
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct RawPciReplay {
    /// When, in microseconds since 1970.
    pub timestamp: i64,
    /// The counter.
    pub counter: u32,
}

/// Retired pages.
#[doc(alias = "dcgmPolicyConditionMpr_t")]
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct RawRetiredPages {
    /// When, in microseconds since 1970.
    pub timestamp: i64,
    /// Retired for correctable errors.
    pub single_bit: u32,
    /// Retired for uncorrectable errors.
    pub double_bit: u32,
}

/// A temperature, power draw or XID.
#[doc(alias = "dcgmPolicyConditionThermal_t")]
#[doc(alias = "dcgmPolicyConditionPower_t")]
#[doc(alias = "dcgmPolicyConditionXID_t")]
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct RawNumber {
    /// When, in microseconds since 1970.
    pub timestamp: i64,
    /// °C, watts, or the XID.
    pub number: u32,
}

/// NVLink errors.
#[doc(alias = "dcgmPolicyConditionNvlink_t")]
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct RawNvlinkErrors {
    /// When, in microseconds since 1970.
    pub timestamp: i64,
    /// The field that counts them.
    pub field: FieldId,
    /// The counter.
    pub counter: u32,
}

/// What happened, to be read by the condition.
#[derive(Clone, Copy)]
#[repr(C)]
pub union RawViolation {
    /// For [`Conditions::DOUBLE_BIT_ERROR`].
    pub double_bit_error: RawDoubleBitError,
    /// For [`Conditions::PCI_REPLAY`].
    pub pci_replay: RawPciReplay,
    /// For [`Conditions::RETIRED_PAGES`].
    pub retired_pages: RawRetiredPages,
    /// For [`Conditions::THERMAL`], [`Conditions::POWER`] and [`Conditions::XID`].
    pub number: RawNumber,
    /// For [`Conditions::NVLINK`].
    pub nvlink: RawNvlinkErrors,
    /// Every byte.
    pub bytes: [u8; 16],
}

/// What a callback gets in 3.x. It does not say which GPU it is.
#[doc(alias = "dcgmPolicyCallbackResponse_v1")]
#[derive(Clone, Copy)]
#[repr(C)]
pub struct PolicyCallbackV1 {
    /// The version word.
    pub version: u32,
    /// The condition.
    pub condition: Conditions,
    /// What happened.
    pub violation: RawViolation,
}

/// What a callback gets in 4.x.
#[doc(alias = "dcgmPolicyCallbackResponse_v2")]
#[derive(Clone, Copy)]
#[repr(C)]
pub struct PolicyCallbackV2 {
    /// The version word.
    pub version: u32,
    /// The condition.
    pub condition: Conditions,
    /// What happened.
    pub violation: RawViolation,
    /// The GPU.
    pub gpu: u32,
}

layout!(PolicyParameter: size 16, align 8; tag @ 0, 4; value @ 8, 8;);
layout!(PolicyV1: size 144, align 8;
    version @ 0, 4; conditions @ 4, 4; mode @ 8, 4; isolation @ 12, 4; action @ 16, 4; validation @ 20, 4;
    response @ 24, 4; parameters @ 32, 112;
);
layout!(RawDoubleBitError: size 16, align 8; timestamp @ 0, 8; location @ 8, 4; count @ 12, 4;);
layout!(RawPciReplay: size 16, align 8; timestamp @ 0, 8; counter @ 8, 4;);
layout!(RawRetiredPages: size 16, align 8; timestamp @ 0, 8; single_bit @ 8, 4; double_bit @ 12, 4;);
layout!(RawNumber: size 16, align 8; timestamp @ 0, 8; number @ 8, 4;);
layout!(RawNvlinkErrors: size 16, align 8; timestamp @ 0, 8; field @ 8, 2; counter @ 12, 4;);
layout!(RawViolation: size 16, align 8;
    double_bit_error @ 0, 16; pci_replay @ 0, 16; retired_pages @ 0, 16; number @ 0, 16; nvlink @ 0, 16; bytes @ 0, 16;
);
layout!(PolicyCallbackV1: size 24, align 8; version @ 0, 4; condition @ 4, 4; violation @ 8, 16;);
layout!(PolicyCallbackV2: size 32, align 8; version @ 0, 4; condition @ 4, 4; violation @ 8, 16; gpu @ 24, 4;);
// SAFETY: numbers and arrays of them.
unsafe impl Zeroable for PolicyV1 {}
// SAFETY: numbers and unions of them.
unsafe impl Zeroable for PolicyCallbackV1 {}
// SAFETY: numbers and unions of them.
unsafe impl Zeroable for PolicyCallbackV2 {}
versioned! {
    PolicyV1 = 1 => 0x0100_0090;
    PolicyCallbackV1 = 1 => 0x0100_0018;
    PolicyCallbackV2 = 2 => 0x0200_0020;
}
