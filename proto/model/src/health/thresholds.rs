//! Every number that a rule holds a reading against. The device's own limits win where it states them.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Thresholds of the health rules, as the `[health]` table of the agent's configuration spells them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Thresholds {
    /// How far below the device's shutdown temperature is critical, in °C.
    pub shutdown_margin_celsius: f64,
    /// Critical temperature of a device that states no shutdown temperature, in °C.
    pub critical_temperature_celsius: f64,
    /// Rise that counts as overheating when it lasts over `temperature_slope_samples`, in °C per second.
    pub temperature_slope_celsius_per_second: f64,
    /// Samples the slope is fitted over, at least; the window holds 12 over 60 s.
    pub temperature_slope_samples: usize,
    /// Utilisation below which a device counts as idle, in percent.
    pub idle_percent: f64,
    /// Utilisation above which a device counts as busy, in percent.
    pub busy_percent: f64,
    /// Above this an idle device is too hot, in °C.
    pub idle_hot_celsius: f64,
    /// Above this a busy device is warm by its work, in °C.
    pub busy_hot_celsius: f64,
    /// Weight of an idle device's heat.
    pub idle_hot_weight: f64,
    /// Weight of a busy device's heat.
    pub busy_hot_weight: f64,
    /// Corrected ECC errors an hour that are too many.
    pub ecc_corrected_per_hour: u64,
    /// Retired pages that mean the device is worn out.
    pub retired_pages: u32,
    /// PCIe replays an hour that are too many on sixteen lanes; scaled by the link's width.
    pub pcie_replays_per_hour_x16: u64,
    /// SM clock below this share of the maximum, while busy and not held by a power cap, is stuck, in percent.
    pub stuck_clock_percent: f64,
    /// How long it must be stuck, in seconds.
    pub stuck_clock_seconds: f64,
    /// Share of the last minute in software thermal slowdown at low use that is a cooling fault, in percent.
    pub idle_throttle_percent: f64,
    /// How long a device may be unresponsive before it is critical, in seconds.
    pub unresponsive_seconds: f64,
    /// How long a condition must be absent before its incident ends, in seconds.
    pub hold_down_seconds: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            shutdown_margin_celsius: 3.0,
            critical_temperature_celsius: 95.0,
            temperature_slope_celsius_per_second: 1.5,
            temperature_slope_samples: 4,
            idle_percent: 5.0,
            busy_percent: 90.0,
            idle_hot_celsius: 85.0,
            busy_hot_celsius: 82.0,
            idle_hot_weight: 3.0,
            busy_hot_weight: 0.5,
            ecc_corrected_per_hour: 1_000,
            retired_pages: 60,
            pcie_replays_per_hour_x16: 1_000,
            stuck_clock_percent: 50.0,
            stuck_clock_seconds: 60.0,
            idle_throttle_percent: 50.0,
            unresponsive_seconds: 60.0,
            hold_down_seconds: 300.0,
        }
    }
}

/// A threshold that cannot be meant.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("`{name}` is `{value}`; it must be {expected}")]
pub struct InvalidThreshold {
    /// The key.
    pub name: &'static str,
    /// The value given.
    pub value: f64,
    /// What is allowed.
    pub expected: &'static str,
}

impl Thresholds {
    /// Checks that every number can be meant.
    ///
    /// # Errors
    /// The first key whose value is out of range.
    pub fn validate(&self) -> Result<(), InvalidThreshold> {
        let percents = [
            ("idle_percent", self.idle_percent),
            ("busy_percent", self.busy_percent),
            ("stuck_clock_percent", self.stuck_clock_percent),
            ("idle_throttle_percent", self.idle_throttle_percent),
        ];
        for (name, value) in percents {
            if !(0.0..=100.0).contains(&value) {
                return Err(InvalidThreshold { name, value, expected: "from 0 to 100" });
            }
        }
        let positives = [
            ("critical_temperature_celsius", self.critical_temperature_celsius),
            ("temperature_slope_celsius_per_second", self.temperature_slope_celsius_per_second),
            ("idle_hot_celsius", self.idle_hot_celsius),
            ("busy_hot_celsius", self.busy_hot_celsius),
            ("idle_hot_weight", self.idle_hot_weight),
            ("busy_hot_weight", self.busy_hot_weight),
        ];
        for (name, value) in positives {
            if !(value.is_finite() && value > 0.0) {
                return Err(InvalidThreshold { name, value, expected: "above 0" });
            }
        }
        let durations = [
            ("shutdown_margin_celsius", self.shutdown_margin_celsius),
            ("stuck_clock_seconds", self.stuck_clock_seconds),
            ("unresponsive_seconds", self.unresponsive_seconds),
            ("hold_down_seconds", self.hold_down_seconds),
        ];
        for (name, value) in durations {
            if !(value.is_finite() && value >= 0.0) {
                return Err(InvalidThreshold { name, value, expected: "0 or more" });
            }
        }
        if !(2..=super::history::TREND_SAMPLES).contains(&self.temperature_slope_samples) {
            let value = self.temperature_slope_samples as f64;
            return Err(InvalidThreshold { name: "temperature_slope_samples", value, expected: "from 2 to 12" });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(Thresholds::default().validate(), Ok(()));
    }

    #[test]
    fn numbers_that_cannot_be_meant_are_refused_by_name() {
        let idle = Thresholds { idle_percent: 101.0, ..Thresholds::default() };
        assert_eq!(idle.validate().unwrap_err().to_string(), "`idle_percent` is `101`; it must be from 0 to 100");
        let hold = Thresholds { hold_down_seconds: f64::NAN, ..Thresholds::default() };
        assert_eq!(hold.validate().unwrap_err().name, "hold_down_seconds");
        let slope = Thresholds { temperature_slope_samples: 1, ..Thresholds::default() };
        assert_eq!(slope.validate().unwrap_err().name, "temperature_slope_samples");
    }
}
