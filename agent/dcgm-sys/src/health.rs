//! DCGM's own health watches: what they cover, how they are set, what they answer.

use crate::code::{c_enum, c_mask, layout, versioned};
use crate::entity::{Entity, Group};
use crate::version::Zeroable;

c_mask! {
    /// Parts of a device that are watched. An incident can name [`ALL`](Self::ALL), so treat it as a mask there too.
    #[doc(alias = "dcgmHealthSystems_t")]
    pub struct HealthSystems(u32) {
        /// PCIe.
        #[doc(alias = "DCGM_HEALTH_WATCH_PCIE")]
        PCIE = 0x1;
        /// NVLink.
        #[doc(alias = "DCGM_HEALTH_WATCH_NVLINK")]
        NVLINK = 0x2;
        /// The power management unit.
        #[doc(alias = "DCGM_HEALTH_WATCH_PMU")]
        PMU = 0x4;
        /// The micro-controller unit.
        #[doc(alias = "DCGM_HEALTH_WATCH_MCU")]
        MCU = 0x8;
        /// Memory.
        #[doc(alias = "DCGM_HEALTH_WATCH_MEM")]
        MEMORY = 0x10;
        /// The multiprocessors.
        #[doc(alias = "DCGM_HEALTH_WATCH_SM")]
        SM = 0x20;
        /// The InfoROM.
        #[doc(alias = "DCGM_HEALTH_WATCH_INFOROM")]
        INFOROM = 0x40;
        /// Temperature.
        #[doc(alias = "DCGM_HEALTH_WATCH_THERMAL")]
        THERMAL = 0x80;
        /// Power.
        #[doc(alias = "DCGM_HEALTH_WATCH_POWER")]
        POWER = 0x100;
        /// The driver.
        #[doc(alias = "DCGM_HEALTH_WATCH_DRIVER")]
        DRIVER = 0x200;
        /// Errors of an NVSwitch that it survives.
        #[doc(alias = "DCGM_HEALTH_WATCH_NVSWITCH_NONFATAL")]
        NVSWITCH_NONFATAL = 0x400;
        /// Errors of an NVSwitch that it does not survive.
        #[doc(alias = "DCGM_HEALTH_WATCH_NVSWITCH_FATAL")]
        NVSWITCH_FATAL = 0x800;
        /// Network adapters; from 4.0.
        #[doc(alias = "DCGM_HEALTH_WATCH_CONNECTX")]
        CONNECTX = 0x1000;
        /// Everything.
        #[doc(alias = "DCGM_HEALTH_WATCH_ALL")]
        ALL = 0xffff_ffff;
    }
}

c_enum! {
    /// What a health check found.
    #[doc(alias = "dcgmHealthWatchResults_t")]
    pub struct HealthResult(i32) {
        /// Nothing.
        #[doc(alias = "DCGM_HEALTH_RESULT_PASS")]
        PASS = 0;
        /// Something that calls for attention.
        #[doc(alias = "DCGM_HEALTH_RESULT_WARN")]
        WARN = 10;
        /// A failure.
        #[doc(alias = "DCGM_HEALTH_RESULT_FAIL")]
        FAIL = 20;
    }
}

/// How to set the health watches of a group.
#[doc(alias = "dcgmHealthSetParams_v2")]
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct HealthSetV2 {
    /// The version word.
    pub version: u32,
    /// The group.
    pub group: Group,
    /// What is watched.
    pub systems: HealthSystems,
    /// How often, in microseconds.
    pub update_interval: i64,
    /// How long samples are kept, in seconds.
    pub keep_age: f64,
}

/// The text and number of an error.
#[doc(alias = "dcgmDiagErrorDetail_t")]
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ErrorDetail {
    /// A text for people. The GPU number in it can be nonsense: use the incident's entity.
    pub message: [u8; 1024],
    /// The error's number.
    pub code: u32,
}

/// One finding of a health check.
#[doc(alias = "dcgmIncidentInfo_t")]
#[derive(Clone, Copy)]
#[repr(C)]
pub struct RawIncident {
    /// The part of the device.
    pub system: HealthSystems,
    /// How bad it is.
    pub health: HealthResult,
    /// What it is.
    pub error: ErrorDetail,
    /// Where it is.
    pub entity: Entity,
}

/// What a health check answers in 3.x.
#[doc(alias = "dcgmHealthResponse_v4")]
#[repr(C)]
pub struct HealthResponseV4 {
    /// The version word.
    pub version: u32,
    /// The worst finding.
    pub overall: HealthResult,
    /// How many incidents are filled.
    pub count: u32,
    /// The incidents.
    pub incidents: [RawIncident; 64],
}

/// What a health check answers in 4.x. It has a megabyte: never put it on the stack.
#[doc(alias = "dcgmHealthResponse_v5")]
#[repr(C)]
pub struct HealthResponseV5 {
    /// The version word.
    pub version: u32,
    /// The worst finding.
    pub overall: HealthResult,
    /// How many incidents are filled.
    pub count: u32,
    /// The incidents.
    pub incidents: [RawIncident; 1024],
}

layout!(HealthSetV2: size 40, align 8;
    version @ 0, 4; group @ 8, 8; systems @ 16, 4; update_interval @ 24, 8; keep_age @ 32, 8;
);
layout!(ErrorDetail: size 1028, align 4; message @ 0, 1024; code @ 1024, 4;);
layout!(RawIncident: size 1044, align 4; system @ 0, 4; health @ 4, 4; error @ 8, 1028; entity @ 1036, 8;);
layout!(HealthResponseV4: size 66828, align 4; version @ 0, 4; overall @ 4, 4; count @ 8, 4; incidents @ 12, 66816;);
layout!(HealthResponseV5: size 1_069_068, align 4;
    version @ 0, 4; overall @ 4, 4; count @ 8, 4; incidents @ 12, 1_069_056;
);
// SAFETY: numbers.
unsafe impl Zeroable for HealthSetV2 {}
// SAFETY: numbers and arrays of them.
unsafe impl Zeroable for RawIncident {}
// SAFETY: numbers and arrays of them.
unsafe impl Zeroable for HealthResponseV4 {}
// SAFETY: numbers and arrays of them.
unsafe impl Zeroable for HealthResponseV5 {}
versioned! {
    HealthSetV2 = 2 => 0x0200_0028;
    HealthResponseV4 = 4 => 0x0401_050c;
    HealthResponseV5 = 5 => 0x0510_500c;
}
