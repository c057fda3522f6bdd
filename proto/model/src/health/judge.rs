//! From conditions to verdicts: hysteresis, hold-down, latching.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime};

use crate::device::{Device, DeviceKey, DeviceStatus};
use crate::snapshot::HostSnapshot;

use super::history::History;
use super::rules::{Check, Finding, RULES, View};
use super::{DeviceEvent, DeviceHealth, Evidence, Incident, Thresholds, Verdict, Xid};

/// One moment by two clocks: the monotonic one for windows and hold-downs, the wall clock for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Since any fixed origin; never goes back.
    pub monotonic: Duration,
    /// By the host's wall clock.
    pub wall: SystemTime,
}

/// Judges the devices of one host, sample by sample.
#[derive(Debug)]
pub struct Judge {
    thresholds: Thresholds,
    devices: HashMap<String, Record>,
}

/// What is known of one device, by its UUID.
#[derive(Debug, Default)]
struct Record {
    history: History,
    open: BTreeMap<Cow<'static, str>, Open>,
}

/// An incident that has not ended.
#[derive(Debug)]
struct Open {
    incident: Incident,
    last_held: Duration,
    latched: bool,
}

impl Judge {
    /// A judge that has seen nothing yet.
    pub fn new(thresholds: Thresholds) -> Self {
        Self { thresholds, devices: HashMap::new() }
    }

    /// Takes a sample and what was reported since the last one, and judges every device. A MIG instance has its
    /// parent's health.
    pub fn observe(
        &mut self,
        snapshot: &HostSnapshot,
        events: &[DeviceEvent],
        now: Moment,
    ) -> BTreeMap<DeviceKey, DeviceHealth> {
        let mut judged: HashMap<&str, DeviceHealth> = HashMap::new();
        for device in snapshot.devices.values().filter(|device| device.info.mig.is_none()) {
            let record = self.devices.entry(device.info.uuid.clone()).or_default();
            let events = events.iter().filter(|event| event.device_uuid.as_deref() == Some(&device.info.uuid));
            judged.insert(&device.info.uuid, record.judge(device, events, &self.thresholds, now));
        }
        let unknown = DeviceHealth { verdict: Verdict::Unknown, incidents: Vec::new(), judged_at: now.wall };
        let of = |device: &Device| {
            let physical = device.info.mig.as_ref().map_or(&device.info.uuid, |mig| &mig.parent_uuid);
            judged.get(physical.as_str()).unwrap_or(&unknown).clone()
        };
        let health = snapshot.devices.iter().map(|(key, device)| (*key, of(device))).collect();
        self.devices.retain(|uuid, _| judged.contains_key(uuid.as_str()));
        health
    }

    /// Ends an incident that stays until somebody has seen it. False when there is no such incident.
    pub fn acknowledge(&mut self, uuid: &str, code: &str) -> bool {
        self.devices.get_mut(uuid).is_some_and(|record| record.open.remove(code).is_some())
    }
}

impl Record {
    fn judge<'e>(
        &mut self,
        device: &Device,
        events: impl Iterator<Item = &'e DeviceEvent>,
        thresholds: &Thresholds,
        now: Moment,
    ) -> DeviceHealth {
        self.history.observe(device, thresholds, now.monotonic);
        if self.history.was_reset {
            self.open.retain(|_, open| !open.latched);
        }
        let view = View { device, history: &self.history, thresholds, now: now.monotonic, wall: now.wall };
        for rule in RULES {
            match (rule.check)(&view) {
                Check::Holds(finding) => hold(&mut self.open, rule.code.into(), rule.latched, finding, now),
                Check::Absent => release(&mut self.open, rule.code, thresholds, now),
                Check::Unknown => {}
            }
        }
        for event in events {
            if let Some(finding) = xid_finding(event) {
                let code = format!("XID_{}", event.xid.unwrap_or_default());
                let latched = finding.severity == Verdict::Critical;
                hold(&mut self.open, code.into(), latched, finding, now);
            }
        }
        self.open.retain(|code, open| !code.starts_with("XID_") || !open.ended(thresholds, now));
        self.health(device, now)
    }

    fn health(&self, device: &Device, now: Moment) -> DeviceHealth {
        let mut incidents: Vec<Incident> = self.open.values().map(|open| open.incident.clone()).collect();
        incidents.sort_by(|a, b| b.severity.badness().cmp(&a.severity.badness()).then_with(|| a.code.cmp(&b.code)));
        // A device whose temperature cannot be read gives nothing to call it healthy by.
        let judgeable = device.status == DeviceStatus::Ok && device.readings.temperature_celsius.is_ok();
        let clean = if judgeable { Verdict::Healthy } else { Verdict::Unknown };
        let worst = incidents.first().map_or(clean, |incident| incident.severity);
        let verdict = if worst.badness() >= clean.badness() { worst } else { clean };
        DeviceHealth { verdict, incidents, judged_at: now.wall }
    }
}

/// Opens an incident, or brings an open one up to date: its severity never falls while it is open.
fn hold(
    open: &mut BTreeMap<Cow<'static, str>, Open>,
    code: Cow<'static, str>,
    latched: bool,
    finding: Finding,
    now: Moment,
) {
    let since = open.get(&code).map_or(now.wall, |open| open.incident.since);
    let before = open.get(&code).map(|open| open.incident.severity);
    let severity = match before {
        Some(before) if before.badness() > finding.severity.badness() => before,
        _ => finding.severity,
    };
    let Finding { action, summary, evidence, .. } = finding;
    let incident = Incident { code: code.clone(), severity, summary, since, evidence, action };
    open.insert(code, Open { incident, last_held: now.monotonic, latched });
}

/// Ends an incident whose condition has been absent for the hold-down.
fn release(open: &mut BTreeMap<Cow<'static, str>, Open>, code: &str, thresholds: &Thresholds, now: Moment) {
    if open.get(code).is_some_and(|open| open.ended(thresholds, now)) {
        open.remove(code);
    }
}

impl Open {
    fn ended(&self, thresholds: &Thresholds, now: Moment) -> bool {
        let hold_down = Duration::from_secs_f64(thresholds.hold_down_seconds.max(0.0));
        !self.latched && now.monotonic.saturating_sub(self.last_held) >= hold_down
    }
}

fn xid_finding(event: &DeviceEvent) -> Option<Finding> {
    let xid = Xid::of(event.xid?);
    let severity = xid.class.severity()?;
    let summary = format!("XID {} {}: {}", xid.code, xid.mnemonic, event.summary);
    let evidence =
        vec![Evidence { field: "last_xid", value: f64::from(xid.code), limit: None, sampled_at: event.occurred_at }];
    Some(Finding { severity, action: xid.action, summary, evidence })
}
