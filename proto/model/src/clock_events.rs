//! tmp
#![allow(missing_docs, reason = "tmp")]
pub const SW_POWER_CAP: u64 = 4;
pub const HW_SLOWDOWN: u64 = 8;
pub const SW_THERMAL_SLOWDOWN: u64 = 0x20;
pub const HW_THERMAL_SLOWDOWN: u64 = 0x40;
pub const HW_POWER_BRAKE_SLOWDOWN: u64 = 0x80;
