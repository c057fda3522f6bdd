//! The rules: each looks at one device and its history and says whether its condition holds.

use std::time::{Duration, SystemTime};

use crate::clock_events;
use crate::device::{Device, DeviceStatus};
use crate::reading::Reading;

use super::history::History;
use super::thresholds::Thresholds;
use super::{Evidence, SuggestedAction, Verdict};

/// What a rule looks at.
pub(super) struct View<'a> {
    pub(super) device: &'a Device,
    pub(super) history: &'a History,
    pub(super) thresholds: &'a Thresholds,
    pub(super) now: Duration,
    pub(super) wall: SystemTime,
}

/// What a rule says.
pub(super) enum Check {
    /// The condition holds.
    Holds(Finding),
    /// It does not.
    Absent,
    /// It cannot be told, because a reading it needs is unknown.
    Unknown,
}

/// A condition that holds.
pub(super) struct Finding {
    pub(super) severity: Verdict,
    pub(super) action: SuggestedAction,
    pub(super) summary: String,
    pub(super) evidence: Vec<Evidence>,
}

/// One rule.
pub(super) struct Rule {
    /// Stable code of the incident.
    pub(super) code: &'static str,
    /// The incident stays until the device is reset or somebody acknowledges it.
    pub(super) latched: bool,
    pub(super) check: fn(&View<'_>) -> Check,
}

const fn rule(code: &'static str, check: fn(&View<'_>) -> Check) -> Rule {
    Rule { code, latched: false, check }
}

const fn latched(code: &'static str, check: fn(&View<'_>) -> Check) -> Rule {
    Rule { code, latched: true, check }
}

/// Every rule. The order does not matter: incidents are sorted by severity.
pub(super) const RULES: &[Rule] = &[
    rule("DEVICE_LOST", device_lost),
    rule("DEVICE_UNRESPONSIVE", device_unresponsive),
    rule("TEMPERATURE_LIMIT", temperature_limit),
    rule("TEMPERATURE_RISING", temperature_rising),
    rule("TEMPERATURE_FOR_LOAD", temperature_for_load),
    rule("MEMORY_TEMPERATURE", memory_temperature),
    latched("ECC_UNCORRECTED", ecc_uncorrected),
    rule("ECC_CORRECTED_RATE", ecc_corrected_rate),
    latched("ROW_REMAP_FAILED", row_remap_failed),
    rule("ROW_REMAP_PENDING", row_remap_pending),
    rule("ROWS_REMAPPED", rows_remapped),
    rule("PAGE_RETIREMENT_PENDING", page_retirement_pending),
    rule("PAGES_RETIRED", pages_retired),
    rule("PCIE_REPLAY_RATE", pcie_replay_rate),
    rule("PCIE_LINK_WIDTH", pcie_link_width),
    rule("NVLINK_DOWN", nvlink_down),
    rule("HARDWARE_SLOWDOWN", hardware_slowdown),
    rule("POWER_BRAKE", power_brake),
    rule("THERMAL_SLOWDOWN_AT_LOW_USE", thermal_slowdown_at_low_use),
    rule("CLOCK_STUCK_LOW", clock_stuck_low),
];

impl View<'_> {
    fn evidence(&self, field: &'static str, value: f64, limit: Option<f64>) -> Evidence {
        Evidence { field, value, limit, sampled_at: self.wall }
    }

    fn holds(
        &self,
        severity: Verdict,
        action: SuggestedAction,
        summary: String,
        evidence: &[(&'static str, f64, Option<f64>)],
    ) -> Check {
        let evidence = evidence.iter().map(|(field, value, limit)| self.evidence(field, *value, *limit)).collect();
        Check::Holds(Finding { severity, action, summary, evidence })
    }
}

/// A flag that should be false.
fn flag(view: &View<'_>, reading: Reading<bool>, finding: (Verdict, SuggestedAction, &str, &'static str)) -> Check {
    let (severity, action, summary, field) = finding;
    match reading {
        Ok(true) => view.holds(severity, action, summary.to_owned(), &[(field, 1.0, None)]),
        Ok(false) => Check::Absent,
        Err(_) => Check::Unknown,
    }
}

fn device_lost(view: &View<'_>) -> Check {
    if view.device.status != DeviceStatus::Lost {
        return Check::Absent;
    }
    let summary = "the driver has lost the device".to_owned();
    view.holds(Verdict::Critical, SuggestedAction::Reboot, summary, &[])
}

fn device_unresponsive(view: &View<'_>) -> Check {
    let Some(since) = view.history.unresponsive_since else { return Check::Absent };
    let limit = view.thresholds.unresponsive_seconds;
    let seconds = view.now.saturating_sub(since).as_secs_f64();
    let severity = if seconds >= limit { Verdict::Critical } else { Verdict::Unknown };
    let summary = format!("a driver call has not returned for {seconds:.0} s");
    view.holds(severity, SuggestedAction::Reboot, summary, &[("unresponsive_seconds", seconds, Some(limit))])
}

fn temperature_limit(view: &View<'_>) -> Check {
    let Ok(celsius) = view.device.readings.temperature_celsius.map(f64::from) else { return Check::Unknown };
    let stated = view.device.info.limits.shutdown_temperature_celsius;
    let (too_hot, limit) = match stated {
        Some(shutdown) => {
            let limit = f64::from(shutdown) - view.thresholds.shutdown_margin_celsius;
            (celsius >= limit, limit)
        }
        None => (celsius > view.thresholds.critical_temperature_celsius, view.thresholds.critical_temperature_celsius),
    };
    if !too_hot {
        return Check::Absent;
    }
    let summary = format!("{celsius:.0} °C, limit {limit:.0} °C");
    view.holds(Verdict::Critical, SuggestedAction::Drain, summary, &[("temperature_celsius", celsius, Some(limit))])
}

fn temperature_rising(view: &View<'_>) -> Check {
    let Some((slope, samples)) = view.history.temperature_slope() else { return Check::Unknown };
    let limit = view.thresholds.temperature_slope_celsius_per_second;
    if samples < view.thresholds.temperature_slope_samples || slope <= limit {
        return Check::Absent;
    }
    let summary = format!("rising by {slope:.1} °C a second");
    let evidence = [("temperature_slope_celsius_per_second", slope, Some(limit))];
    view.holds(Verdict::Degraded, SuggestedAction::Monitor, summary, &evidence)
}

/// The same heat judged by load: a fault of cooling when idle, the price of work when busy.
fn temperature_for_load(view: &View<'_>) -> Check {
    let readings = &view.device.readings;
    let (Ok(celsius), Ok(utilization)) = (readings.temperature_celsius, readings.utilization_percent) else {
        return Check::Unknown;
    };
    let (celsius, utilization, limits) = (f64::from(celsius), f64::from(utilization), view.thresholds);
    let weight = if utilization < limits.idle_percent && celsius > limits.idle_hot_celsius {
        limits.idle_hot_weight
    } else if utilization > limits.busy_percent && celsius > limits.busy_hot_celsius {
        limits.busy_hot_weight
    } else {
        1.0
    };
    // 70 °C counts as warm and 95 °C as too hot at weight 1.
    let score = weight * (celsius - 70.0) / 25.0;
    if score < 1.0 {
        return Check::Absent;
    }
    let summary = format!("{celsius:.0} °C at {utilization:.0} % use");
    let evidence = [
        ("temperature_celsius", celsius, None),
        ("utilization_percent", utilization, None),
        ("weighted_temperature_score", score, Some(1.0)),
    ];
    view.holds(Verdict::Degraded, SuggestedAction::Monitor, summary, &evidence)
}

fn memory_temperature(view: &View<'_>) -> Check {
    let limits = &view.device.info.limits;
    let (Ok(celsius), Some(most)) =
        (view.device.readings.memory_temperature_celsius, limits.max_memory_temperature_celsius)
    else {
        return Check::Unknown;
    };
    if celsius < most {
        return Check::Absent;
    }
    let at_shutdown =
        limits.shutdown_temperature_celsius.is_some_and(|shutdown| shutdown > most && celsius >= shutdown);
    let (severity, action) = if at_shutdown {
        (Verdict::Critical, SuggestedAction::Drain)
    } else {
        (Verdict::Degraded, SuggestedAction::Monitor)
    };
    let summary = format!("memory at {celsius} °C, made for {most} °C at most");
    let evidence = [("memory_temperature_celsius", f64::from(celsius), Some(f64::from(most)))];
    view.holds(severity, action, summary, &evidence)
}

fn ecc_uncorrected(view: &View<'_>) -> Check {
    let Some(growth) = view.history.uncorrected.growth() else { return Check::Unknown };
    if growth == 0 {
        return Check::Absent;
    }
    let summary = format!("{growth} uncorrected memory errors since first seen");
    let evidence = [("ecc_uncorrected_volatile_growth", growth as f64, Some(0.0))];
    view.holds(Verdict::Critical, SuggestedAction::Reset, summary, &evidence)
}

fn ecc_corrected_rate(view: &View<'_>) -> Check {
    let Some(growth) = view.history.corrected.growth() else { return Check::Unknown };
    let limit = view.thresholds.ecc_corrected_per_hour;
    if growth <= limit {
        return Check::Absent;
    }
    let summary = format!("{growth} corrected memory errors within an hour");
    let evidence = [("ecc_corrected_per_hour", growth as f64, Some(limit as f64))];
    view.holds(Verdict::Degraded, SuggestedAction::Monitor, summary, &evidence)
}

fn row_remap_failed(view: &View<'_>) -> Check {
    let finding = (Verdict::Critical, SuggestedAction::Replace, "a row remap has failed", "remapped_rows_failed");
    flag(view, view.device.readings.remapped_rows_failed, finding)
}

fn row_remap_pending(view: &View<'_>) -> Check {
    let finding = (Verdict::Degraded, SuggestedAction::Reset, "a row remap waits for a reset", "remapped_rows_pending");
    flag(view, view.device.readings.remapped_rows_pending, finding)
}

fn rows_remapped(view: &View<'_>) -> Check {
    let Some(growth) = view.history.uncorrected_rows.growth() else { return Check::Unknown };
    if growth == 0 {
        return Check::Absent;
    }
    let summary = format!("{growth} rows remapped for uncorrected errors since first seen");
    let evidence = [("remapped_rows_uncorrected_growth", growth as f64, Some(0.0))];
    view.holds(Verdict::Degraded, SuggestedAction::Drain, summary, &evidence)
}

fn page_retirement_pending(view: &View<'_>) -> Check {
    let finding =
        (Verdict::Degraded, SuggestedAction::Reset, "a page retirement waits for a reset", "retired_pages_pending");
    flag(view, view.device.readings.retired_pages_pending, finding)
}

fn pages_retired(view: &View<'_>) -> Check {
    let readings = &view.device.readings;
    let (Ok(corrected), Ok(uncorrected)) = (readings.retired_pages_corrected, readings.retired_pages_uncorrected)
    else {
        return Check::Unknown;
    };
    let (pages, limit) = (corrected.saturating_add(uncorrected), view.thresholds.retired_pages);
    if pages < limit {
        return Check::Absent;
    }
    let evidence = [("retired_pages", f64::from(pages), Some(f64::from(limit)))];
    view.holds(Verdict::Critical, SuggestedAction::Replace, format!("{pages} pages retired"), &evidence)
}

fn pcie_replay_rate(view: &View<'_>) -> Check {
    let Some(growth) = view.history.replays.growth() else { return Check::Unknown };
    let readings = &view.device.readings;
    let lanes = view.device.info.limits.max_pcie_width.or(readings.pcie_width.ok()).unwrap_or(16).clamp(1, 16);
    let limit = view.thresholds.pcie_replays_per_hour_x16 * u64::from(lanes) / 16;
    if growth <= limit {
        return Check::Absent;
    }
    let summary = format!("{growth} PCIe replays within an hour on ×{lanes}");
    let evidence = [("pcie_replays_per_hour", growth as f64, Some(limit as f64))];
    view.holds(Verdict::Unreliable, SuggestedAction::Drain, summary, &evidence)
}

/// Only while busy: an idle link may be narrowed to save power.
fn pcie_link_width(view: &View<'_>) -> Check {
    let readings = &view.device.readings;
    let (Ok(width), Ok(utilization), Some(most)) =
        (readings.pcie_width, readings.utilization_percent, view.device.info.limits.max_pcie_width)
    else {
        return Check::Unknown;
    };
    if f64::from(utilization) < view.thresholds.idle_percent {
        return Check::Unknown;
    }
    if width >= most {
        return Check::Absent;
    }
    let summary = format!("PCIe link at ×{width} of ×{most} while busy");
    let evidence = [("pcie_width", f64::from(width), Some(f64::from(most)))];
    view.holds(Verdict::Degraded, SuggestedAction::Drain, summary, &evidence)
}

fn nvlink_down(view: &View<'_>) -> Check {
    let Ok(links) = view.device.readings.nvlink_active_links else { return Check::Unknown };
    let most = view.history.most_nvlinks;
    if links >= most {
        return Check::Absent;
    }
    let summary = format!("{links} of {most} NVLinks are up");
    let evidence = [("nvlink_active_links", f64::from(links), Some(f64::from(most)))];
    view.holds(Verdict::Degraded, SuggestedAction::Drain, summary, &evidence)
}

fn clock_event(view: &View<'_>, mask: u64, summary: &str) -> Check {
    match view.device.readings.clock_event_reasons {
        Err(_) => Check::Unknown,
        Ok(reasons) if reasons & mask == 0 => Check::Absent,
        Ok(reasons) => {
            let evidence = [("clock_event_reasons", reasons as f64, None)];
            view.holds(Verdict::Degraded, SuggestedAction::Drain, summary.to_owned(), &evidence)
        }
    }
}

fn hardware_slowdown(view: &View<'_>) -> Check {
    let mask = clock_events::HW_SLOWDOWN | clock_events::HW_THERMAL_SLOWDOWN;
    clock_event(view, mask, "hardware slows the clocks down: check power and cooling")
}

fn power_brake(view: &View<'_>) -> Check {
    clock_event(view, clock_events::HW_POWER_BRAKE_SLOWDOWN, "the system's power brake slows the clocks down")
}

fn thermal_slowdown_at_low_use(view: &View<'_>) -> Check {
    let Some(percent) = view.history.low_use_throttle_percent() else { return Check::Unknown };
    let limit = view.thresholds.idle_throttle_percent;
    if percent <= limit {
        return Check::Absent;
    }
    let summary = format!("slowed down by heat for {percent:.0} % of the last minute without being busy");
    let evidence = [("low_use_thermal_slowdown_percent", percent, Some(limit))];
    view.holds(Verdict::Degraded, SuggestedAction::Monitor, summary, &evidence)
}

fn clock_stuck_low(view: &View<'_>) -> Check {
    let Ok(clock) = view.device.readings.sm_clock_mhz.map(f64::from) else { return Check::Unknown };
    let Some(since) = view.history.stuck_clock_since else { return Check::Absent };
    let seconds = view.now.saturating_sub(since).as_secs_f64();
    if seconds < view.thresholds.stuck_clock_seconds {
        return Check::Absent;
    }
    let summary = format!("SM clock at {clock:.0} MHz under load for {seconds:.0} s");
    let most = view.device.info.limits.max_sm_clock_mhz.map(f64::from);
    let evidence = [("sm_clock_mhz", clock, most), ("stuck_clock_seconds", seconds, None)];
    view.holds(Verdict::Degraded, SuggestedAction::Drain, summary, &evidence)
}
