//! Clock event reasons ("throttle reasons" in older drivers): NVML's bits and their names.

/// The clocks run down because nothing runs.
pub const GPU_IDLE: u64 = 0x1;
/// Clocks are limited by the application clocks setting.
pub const APPLICATIONS_CLOCKS_SETTING: u64 = 0x2;
/// The power limit holds the clocks down. Normal under full load.
pub const SW_POWER_CAP: u64 = 0x4;
/// Hardware slows the clocks down, for heat or for power.
pub const HW_SLOWDOWN: u64 = 0x8;
/// Devices of a sync boost group wait for one another.
pub const SYNC_BOOST: u64 = 0x10;
/// The driver slows the clocks down for heat.
pub const SW_THERMAL_SLOWDOWN: u64 = 0x20;
/// Hardware slows the clocks down for heat.
pub const HW_THERMAL_SLOWDOWN: u64 = 0x40;
/// The system asserts the power brake.
pub const HW_POWER_BRAKE_SLOWDOWN: u64 = 0x80;
/// Clocks are limited by the display clock setting.
pub const DISPLAY_CLOCK_SETTING: u64 = 0x100;

/// Every reason that has a name: bit, name in JSON, short text in tables.
pub const NAMES: &[(u64, &str, &str)] = &[
    (GPU_IDLE, "gpu-idle", "idle"),
    (APPLICATIONS_CLOCKS_SETTING, "applications-clocks-setting", "app-clk"),
    (SW_POWER_CAP, "sw-power-cap", "pwr-cap"),
    (HW_SLOWDOWN, "hw-slowdown", "HW-SLOW"),
    (SYNC_BOOST, "sync-boost", "sync"),
    (SW_THERMAL_SLOWDOWN, "sw-thermal-slowdown", "sw-therm"),
    (HW_THERMAL_SLOWDOWN, "hw-thermal-slowdown", "HW-THERM"),
    (HW_POWER_BRAKE_SLOWDOWN, "hw-power-brake-slowdown", "PWR-BRAKE"),
    (DISPLAY_CLOCK_SETTING, "display-clock-setting", "disp-clk"),
];

/// The names of the reasons in a mask. A bit without a name is given as `bit-N`, never left out.
pub fn names(mask: u64) -> Vec<String> {
    let name = |bit: u32| {
        let named = NAMES.iter().find(|(value, ..)| *value == 1 << bit);
        named.map_or_else(|| format!("bit-{bit}"), |(_, name, _)| (*name).to_owned())
    };
    (0..u64::BITS).filter(|bit| mask & (1 << bit) != 0).map(name).collect()
}

/// The reasons in a mask as short text, joined by `+`; `-` for none.
pub fn short(mask: u64) -> String {
    if mask == 0 {
        return "-".to_owned();
    }
    let mut parts: Vec<String> =
        NAMES.iter().filter(|(bit, ..)| mask & bit != 0).map(|(_, _, short)| (*short).to_owned()).collect();
    let named = NAMES.iter().fold(0, |all, (bit, ..)| all | bit);
    parts.extend(names(mask & !named));
    parts.join("+")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_named_bit_by_bit() {
        assert_eq!(names(0), Vec::<String>::new());
        assert_eq!(names(0x4), ["sw-power-cap"]);
        assert_eq!(names(0x48), ["hw-slowdown", "hw-thermal-slowdown"]);
        assert_eq!(names(1 << 40), ["bit-40"]);
        assert_eq!(names(u64::MAX).len(), 64);
    }

    #[test]
    fn short_text_is_for_tables() {
        assert_eq!(short(0), "-");
        assert_eq!(short(0x44), "pwr-cap+HW-THERM");
        assert_eq!(short((1 << 40) | 0x1), "idle+bit-40");
    }
}
