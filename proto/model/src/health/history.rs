//! What the rules must remember of one device: a minute of temperatures, an hour of counters, baselines.
//!
//! Bounded: 12 temperatures, 60 throttle samples and 61 points for each counter. A counter that goes back means the
//! driver was loaded anew or the device was reset: its baseline starts over and [`History::was_reset`] says so.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock_events;
use crate::device::{Device, DeviceStatus};
use crate::reading::Reading;

use super::thresholds::Thresholds;

/// Temperatures in the window of a minute.
pub(super) const TREND_SAMPLES: usize = 12;
const TREND_SPACING: Duration = Duration::from_secs(5);
const HOUR: Duration = Duration::from_hours(1);
const COUNTER_SPACING: Duration = Duration::from_mins(1);
const MINUTE: Duration = Duration::from_mins(1);

/// What is remembered of one device.
#[derive(Debug, Default)]
pub(super) struct History {
    temperatures: VecDeque<(Duration, f64)>,
    low_use_throttle: VecDeque<(Duration, bool)>,
    pub(super) corrected: Counter,
    pub(super) replays: Counter,
    pub(super) uncorrected: Baseline,
    pub(super) uncorrected_rows: Baseline,
    pub(super) most_nvlinks: u32,
    energy: f64,
    pub(super) unresponsive_since: Option<Duration>,
    pub(super) stuck_clock_since: Option<Duration>,
    /// The newest sample showed that counters started over.
    pub(super) was_reset: bool,
}

impl History {
    /// Takes the newest sample in.
    pub(super) fn observe(&mut self, device: &Device, thresholds: &Thresholds, now: Duration) {
        let readings = &device.readings;
        self.observe_temperature(readings.temperature_celsius, now);
        self.observe_throttle(device, thresholds, now);
        self.corrected.observe(readings.ecc_corrected_volatile, now);
        self.replays.observe(readings.pcie_replay_count, now);
        self.uncorrected_rows.observe(readings.remapped_rows_uncorrected.map(u64::from));
        self.was_reset = self.uncorrected.observe(readings.ecc_uncorrected_volatile);
        if let Ok(energy) = readings.energy_joules {
            self.was_reset |= energy < self.energy;
            self.energy = energy;
        }
        if let Ok(links) = readings.nvlink_active_links {
            self.most_nvlinks = self.most_nvlinks.max(links);
        }
        let unresponsive = device.status == DeviceStatus::Unresponsive;
        self.unresponsive_since = unresponsive.then(|| self.unresponsive_since.unwrap_or(now));
        if let Some(stuck) = clock_is_low(device, thresholds) {
            self.stuck_clock_since = stuck.then(|| self.stuck_clock_since.unwrap_or(now));
        }
    }

    fn observe_temperature(&mut self, reading: Reading<i32>, now: Duration) {
        let Ok(celsius) = reading else { return };
        if self.temperatures.back().is_some_and(|(at, _)| now.saturating_sub(*at) < TREND_SPACING) {
            return;
        }
        self.temperatures.push_back((now, f64::from(celsius)));
        let expired = |at: &Duration| now.saturating_sub(*at) > MINUTE;
        while self.temperatures.len() > TREND_SAMPLES || self.temperatures.front().is_some_and(|(at, _)| expired(at)) {
            self.temperatures.pop_front();
        }
    }

    fn observe_throttle(&mut self, device: &Device, thresholds: &Thresholds, now: Duration) {
        let (Ok(reasons), Ok(utilization)) = (device.readings.clock_event_reasons, device.readings.utilization_percent)
        else {
            return;
        };
        let slowed = reasons & clock_events::SW_THERMAL_SLOWDOWN != 0;
        self.low_use_throttle.push_back((now, slowed && f64::from(utilization) < thresholds.busy_percent));
        while self.low_use_throttle.front().is_some_and(|(at, _)| now.saturating_sub(*at) > MINUTE) {
            self.low_use_throttle.pop_front();
        }
    }

    /// Least-squares slope of the temperature in °C per second, and over how many samples; `None` with fewer than two.
    pub(super) fn temperature_slope(&self) -> Option<(f64, usize)> {
        let count = self.temperatures.len();
        if count < 2 {
            return None;
        }
        let n = count as f64;
        let mean_t = self.temperatures.iter().map(|(at, _)| at.as_secs_f64()).sum::<f64>() / n;
        let mean_c = self.temperatures.iter().map(|(_, c)| c).sum::<f64>() / n;
        let (mut covariance, mut variance) = (0.0, 0.0);
        for (at, celsius) in &self.temperatures {
            let dt = at.as_secs_f64() - mean_t;
            covariance += dt * (celsius - mean_c);
            variance += dt * dt;
        }
        (variance > 0.0).then(|| (covariance / variance, count))
    }

    /// Share of the last minute spent in software thermal slowdown while not busy, in percent; `None` before half a
    /// minute is known.
    pub(super) fn low_use_throttle_percent(&self) -> Option<f64> {
        let (first, last) = (self.low_use_throttle.front()?.0, self.low_use_throttle.back()?.0);
        if last.saturating_sub(first) < MINUTE / 2 {
            return None;
        }
        let slowed = self.low_use_throttle.iter().filter(|(_, slowed)| *slowed).count();
        Some(100.0 * slowed as f64 / self.low_use_throttle.len() as f64)
    }
}

/// Whether a busy device's clock is low for no reason that it gives; `None` when that cannot be told.
fn clock_is_low(device: &Device, thresholds: &Thresholds) -> Option<bool> {
    let readings = &device.readings;
    let clock = f64::from(readings.sm_clock_mhz.ok()?);
    let most = f64::from(device.info.limits.max_sm_clock_mhz?);
    let busy = f64::from(readings.utilization_percent.ok()?) > thresholds.busy_percent;
    let capped = readings.clock_event_reasons.ok()? & clock_events::SW_POWER_CAP != 0;
    Some(busy && !capped && clock < most * thresholds.stuck_clock_percent / 100.0)
}

/// A counter's growth over the last hour.
#[derive(Debug, Default)]
pub(super) struct Counter {
    points: VecDeque<(Duration, u64)>,
    newest: Option<u64>,
}

impl Counter {
    fn observe(&mut self, reading: Reading<u64>, now: Duration) {
        let Ok(value) = reading else { return };
        if self.newest.is_some_and(|newest| value < newest) {
            self.points.clear();
        }
        self.newest = Some(value);
        if self.points.back().is_none_or(|(at, _)| now.saturating_sub(*at) >= COUNTER_SPACING) {
            self.points.push_back((now, value));
        }
        // The oldest point kept is the newest one that is at least an hour old.
        while self.points.get(1).is_some_and(|(at, _)| now.saturating_sub(*at) >= HOUR) {
            self.points.pop_front();
        }
    }

    /// Growth within the last hour, or since the first observation; `None` when never known.
    pub(super) fn growth(&self) -> Option<u64> {
        let (_, oldest) = self.points.front()?;
        Some(self.newest?.saturating_sub(*oldest))
    }
}

/// A counter's growth since it was first seen: a lifetime number alone is no fault, growth is.
#[derive(Debug, Default)]
pub(super) struct Baseline {
    first: Option<u64>,
    newest: Option<u64>,
}

impl Baseline {
    /// Takes a reading in and says whether the counter started over.
    fn observe(&mut self, reading: Reading<u64>) -> bool {
        let Ok(value) = reading else { return false };
        let started_over = self.newest.is_some_and(|newest| value < newest);
        if started_over || self.first.is_none() {
            self.first = Some(value);
        }
        self.newest = Some(value);
        started_over
    }

    /// Growth since the first observation; `None` when never known.
    pub(super) fn growth(&self) -> Option<u64> {
        Some(self.newest?.saturating_sub(self.first?))
    }
}
