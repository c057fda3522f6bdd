//! From a sample to verdicts: gathers what was reported about the devices, and judges them.
//!
//! Reports come from the driver's own events and from the kernel log; one that both tell of is one event. Owned by the
//! sampling task and called once a tick. A kernel log that cannot be read is said once and costs nothing else.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gpufleet_backend::kernel_log::{KMSG, KernelLog, KernelXid};
use gpufleet_backend::sample::XidError;
use gpufleet_model::health::{DeviceEvent, DeviceHealth, EventLog, Judge, Moment, Thresholds, Xid};
use gpufleet_model::{DeviceKey, HostSnapshot};

/// Events kept for `WatchEvents`.
const KEPT_EVENTS: usize = 1000;

/// How to judge.
#[derive(Debug, Clone)]
pub struct JudgingSettings {
    /// The rules' numbers.
    pub thresholds: Thresholds,
    /// The kernel log to read; `None` for none.
    pub kernel_log: Option<PathBuf>,
    /// How far back the kernel log counts for verdicts when the agent starts; older entries are listed as events alone.
    pub kernel_log_lookback: Duration,
}

impl Default for JudgingSettings {
    fn default() -> Self {
        Self {
            thresholds: Thresholds::default(),
            kernel_log: Some(PathBuf::from(KMSG)),
            kernel_log_lookback: Duration::from_hours(24),
        }
    }
}

/// Verdicts on one sample, and every event still kept.
#[derive(Debug, Clone)]
pub struct Judgement {
    /// The verdict on each device.
    pub health: Arc<BTreeMap<DeviceKey, DeviceHealth>>,
    /// The newest events, numbered.
    pub events: Arc<EventLog>,
}

/// Judges the samples of one host.
#[derive(Debug)]
pub(crate) struct Judging {
    judge: Judge,
    kernel_log: Option<KernelLog>,
    kernel_log_fails: bool,
    lookback: Duration,
    newest_error: u64,
    events: Arc<EventLog>,
    started: (Instant, SystemTime),
}

impl Judging {
    /// A judge for a host; a simulated one has no kernel log.
    pub(crate) fn new(settings: &JudgingSettings, simulated: bool) -> Self {
        let log = settings.kernel_log.as_ref().filter(|_| !simulated);
        Self {
            judge: Judge::new(settings.thresholds.clone()),
            kernel_log: log.map(KernelLog::new),
            kernel_log_fails: false,
            lookback: settings.kernel_log_lookback,
            newest_error: 0,
            events: Arc::new(EventLog::new(KEPT_EVENTS)),
            started: (Instant::now(), SystemTime::now()),
        }
    }

    /// Judges a sample.
    pub(crate) fn observe(&mut self, snapshot: &HostSnapshot, errors: &[XidError]) -> Judgement {
        let mut reports: Vec<DeviceEvent> =
            errors.iter().filter(|error| error.number > self.newest_error).map(driver_event).collect();
        self.newest_error = errors.last().map_or(self.newest_error, |error| error.number.max(self.newest_error));
        reports.extend(self.kernel_reports().iter().map(|xid| kernel_event(xid, snapshot)));
        let mut fresh = Vec::new();
        for event in reports {
            if Arc::make_mut(&mut self.events).push(event.clone()) {
                report(&event);
                fresh.push(event);
            }
        }
        let oldest = self.started.1.checked_sub(self.lookback).unwrap_or(SystemTime::UNIX_EPOCH);
        fresh.retain(|event| event.occurred_at >= oldest);
        let now = Moment { monotonic: self.started.0.elapsed(), wall: snapshot.sampled_at };
        let health = self.judge.observe(snapshot, &fresh, now);
        Judgement { health: Arc::new(health), events: Arc::clone(&self.events) }
    }

    fn kernel_reports(&mut self) -> Vec<KernelXid> {
        let Some(log) = &mut self.kernel_log else { return Vec::new() };
        match log.read_new() {
            Ok(found) => {
                self.kernel_log_fails = false;
                found
            }
            Err(error) => {
                if !self.kernel_log_fails {
                    tracing::warn!(%error, "the kernel log cannot be read; XID errors are known from the driver alone");
                }
                self.kernel_log_fails = true;
                Vec::new()
            }
        }
    }
}

fn driver_event(error: &XidError) -> DeviceEvent {
    DeviceEvent {
        device_uuid: Some(error.uuid.clone()),
        occurred_at: error.occurred_at,
        xid: Some(error.xid),
        summary: "reported by the driver".to_owned(),
        source: "nvml",
    }
}

fn kernel_event(xid: &KernelXid, snapshot: &HostSnapshot) -> DeviceEvent {
    let named = |bus: &Option<String>| bus.as_deref() == Some(&xid.pci_bus_id);
    let physical = snapshot.devices.values().filter(|device| device.info.mig.is_none());
    let device = physical.into_iter().find(|device| named(&device.info.pci_bus_id));
    let summary = match (&device, xid.detail.as_str()) {
        (Some(_), "") => "in the kernel log".to_owned(),
        (Some(_), detail) => detail.to_owned(),
        (None, detail) => format!("device at {}: {detail}", xid.pci_bus_id),
    };
    let occurred_at = snapshot.host.booted_at.checked_add(xid.since_boot).unwrap_or(snapshot.sampled_at);
    DeviceEvent {
        device_uuid: device.map(|device| device.info.uuid.clone()),
        occurred_at,
        xid: Some(xid.code),
        summary,
        source: "kmsg",
    }
}

fn report(event: &DeviceEvent) {
    let xid = event.xid.map(Xid::of);
    tracing::warn!(
        uuid = event.device_uuid.as_deref().unwrap_or("-"),
        xid = event.xid,
        mnemonic = xid.map(|xid| xid.mnemonic),
        class = xid.map(|xid| xid.class.as_str()),
        source = event.source,
        summary = %event.summary.escape_debug(),
        "XID error",
    );
}
