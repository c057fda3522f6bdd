//! Judged health: is this device fit for work right now?
//!
//! [`Judge::observe`] takes each sample of a device and what the driver reported about it, and answers with a
//! [`DeviceHealth`]. Three layers: hard limits, trends over a window, and context (the same reading judged by load).
//! Pure functions over snapshots and history; the caller brings the clock. A verdict worsens at once and improves only
//! after its condition has been absent for a hold-down; some incidents stay until the device is reset.
//! Invariant: an unknown reading never raises an incident and never clears one.

use std::borrow::Cow;
use std::time::SystemTime;

mod events;
mod history;
mod judge;
mod rules;
mod thresholds;
mod xid;

pub use events::EventLog;
pub use judge::{Judge, Moment};
pub use thresholds::{InvalidThreshold, Thresholds};
pub use xid::{Xid, XidClass};

/// A device's judged health, from best to worst; `Unknown` stands beside the scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// Fit for work.
    Healthy,
    /// Works, below what it should give.
    Degraded,
    /// May give wrong results or fail soon.
    Unreliable,
    /// Not fit for work.
    Critical,
    /// Not enough is known to judge.
    Unknown,
}

impl Verdict {
    /// The name used in JSON, tables and filters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "HEALTHY",
            Self::Degraded => "DEGRADED",
            Self::Unreliable => "UNRELIABLE",
            Self::Critical => "CRITICAL",
            Self::Unknown => "UNKNOWN",
        }
    }

    /// Order for "which is worse": what is known to be bad outranks not knowing, and not knowing outranks good.
    pub const fn badness(self) -> u8 {
        match self {
            Self::Healthy => 0,
            Self::Unknown => 1,
            Self::Degraded => 2,
            Self::Unreliable => 3,
            Self::Critical => 4,
        }
    }
}

/// What an operator should do about an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SuggestedAction {
    /// Keep an eye on it.
    Monitor,
    /// Take no new work, let the present work end.
    Drain,
    /// Reset the device.
    Reset,
    /// Reboot the host.
    Reboot,
    /// Replace the device.
    Replace,
}

impl SuggestedAction {
    /// The name used in JSON and tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Monitor => "monitor",
            Self::Drain => "drain",
            Self::Reset => "reset",
            Self::Reboot => "reboot",
            Self::Replace => "replace",
        }
    }
}

/// One value that an incident rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// Name of the reading, as in the catalogue, or of a figure computed from it.
    pub field: &'static str,
    /// The value, in the unit of the field's name.
    pub value: f64,
    /// The limit it was held against, if there is one.
    pub limit: Option<f64>,
    /// When it was sampled.
    pub sampled_at: SystemTime,
}

/// One finding about a device.
#[derive(Debug, Clone, PartialEq)]
pub struct Incident {
    /// Stable code, such as `TEMPERATURE_LIMIT` or `XID_79`.
    pub code: Cow<'static, str>,
    /// The verdict this incident alone would give.
    pub severity: Verdict,
    /// One line for people.
    pub summary: String,
    /// Since when it holds.
    pub since: SystemTime,
    /// The values it rests on, from when it last held.
    pub evidence: Vec<Evidence>,
    /// What to do.
    pub action: SuggestedAction,
}

/// The judged health of one device.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceHealth {
    /// The worst of the incidents' severities, or healthy.
    pub verdict: Verdict,
    /// What it rests on, worst first, then by code; empty when healthy.
    pub incidents: Vec<Incident>,
    /// When it was judged.
    pub judged_at: SystemTime,
}

impl DeviceHealth {
    /// Whether another judgement says the same: the same verdict for the same findings. When it was judged, and the
    /// values that the findings rest on, may differ.
    pub fn is_same(&self, other: &Self) -> bool {
        let finding = |incident: &Incident| (incident.code.clone(), incident.severity, incident.since);
        self.verdict == other.verdict
            && self.incidents.len() == other.incidents.len()
            && self.incidents.iter().map(finding).eq(other.incidents.iter().map(finding))
    }
}

/// Something the driver or the kernel reported about a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceEvent {
    /// UUID of the device; `None` when it concerns the host or the device cannot be told.
    pub device_uuid: Option<String>,
    /// When it happened.
    pub occurred_at: SystemTime,
    /// The XID, when it is one.
    pub xid: Option<u32>,
    /// One line for people.
    pub summary: String,
    /// Where it was read, such as `nvml`, `dcgm` or `kmsg`.
    pub source: &'static str,
}
