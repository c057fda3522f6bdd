//! Speaks for the devices while their driver does not.
//!
//! The backend's thread says at this gate which device it turns to; the watchdog's thread looks from time to time
//! whether a turn has lasted longer than the deadline and, while it does, publishes samples in its stead. Nothing here
//! enters the driver. Publishing happens under the gate's lock, so a sample made for a hung turn can never replace
//! the one that the backend publishes after the turn.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use gpufleet_model::{DeviceInfo, DeviceReadings, DeviceStatus, Unknown};
use tokio::sync::watch;

use super::thread::Control;
use crate::sample::{BackendSample, DeviceSample, RoundCost};

/// What the backend's thread is doing.
#[derive(Debug, Default)]
pub(crate) struct Gate(Mutex<Turn>);

#[derive(Debug, Default)]
struct Turn {
    since: Option<Instant>,
    /// The device concerned; `None` when it is the library as a whole.
    subject: Option<Arc<DeviceInfo>>,
    overran: bool,
    roster: Vec<Arc<DeviceInfo>>,
}

impl Gate {
    /// Opens a turn: calls about one device, or about the library as a whole.
    pub(crate) fn enter(&self, subject: Option<Arc<DeviceInfo>>) {
        let mut turn = self.lock();
        turn.since = Some(Instant::now());
        turn.subject = subject;
        turn.overran = false;
    }

    /// Closes the turn; true when the watchdog has had to speak meanwhile.
    pub(crate) fn leave(&self) -> bool {
        let mut turn = self.lock();
        turn.since = None;
        turn.subject = None;
        std::mem::take(&mut turn.overran)
    }

    /// Tells the watchdog which devices there are.
    pub(crate) fn set_roster(&self, roster: &[Arc<DeviceInfo>]) {
        self.lock().roster = roster.to_vec();
    }

    fn lock(&self) -> MutexGuard<'_, Turn> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes when a turn has passed the deadline; says when to look again.
    fn look(&self, deadline: Duration, interval: Duration, newest: &watch::Sender<Arc<BackendSample>>) -> Duration {
        let mut turn = self.lock();
        let Some(since) = turn.since else { return deadline };
        let elapsed = since.elapsed();
        if let Some(left) = deadline.checked_sub(elapsed).filter(|left| !left.is_zero()) {
            return left;
        }
        let before = Arc::clone(&newest.borrow());
        if !turn.overran {
            turn.overran = true;
            let device = turn.subject.as_ref().map(|info| info.uuid.as_str());
            let known = before.devices.iter().any(|known| {
                known.status == DeviceStatus::Unresponsive && device.is_none_or(|uuid| known.info.uuid == uuid)
            });
            if known {
                tracing::debug!(device, ?deadline, "the driver still does not answer");
            } else {
                tracing::warn!(device, ?deadline, "the driver does not answer");
            }
        }
        newest.send_replace(Arc::new(stand_in(&before, &turn, deadline)));
        interval
    }
}

/// Runs until told to stop.
pub(crate) fn watch_over(
    gate: &Gate,
    control: &Control,
    deadline: Duration,
    interval: Duration,
    newest: &watch::Sender<Arc<BackendSample>>,
) {
    let mut wait = deadline;
    while !control.wait_for_stop(wait) {
        wait = gate.look(deadline, interval, newest);
    }
}

/// What is known while a turn hangs: nothing new about any device, for all wait behind the same thread, and that the
/// one concerned does not answer.
fn stand_in(before: &BackendSample, turn: &Turn, deadline: Duration) -> BackendSample {
    let devices = turn
        .roster
        .iter()
        .map(|info| {
            let status_before = before.devices.iter().find(|device| device.info.uuid == info.uuid).map(|d| d.status);
            let concerned = turn.subject.as_ref().is_none_or(|subject| subject.uuid == info.uuid);
            let status = match status_before {
                Some(DeviceStatus::Lost) => DeviceStatus::Lost,
                _ if concerned => DeviceStatus::Unresponsive,
                other => other.unwrap_or(DeviceStatus::Ok),
            };
            silent(info, status)
        })
        .collect();
    let mut status = before.status.clone();
    let seconds = deadline.as_secs_f64();
    status.problem = Some(match &turn.subject {
        Some(info) => format!(
            "the driver has not answered about device `{}` (`{}`) within {seconds} s; all readings of this backend \
             wait for it. If it stays so, look into the kernel log and reset the device or restart the host",
            info.index, info.uuid
        ),
        None => format!(
            "the driver has not answered within {seconds} s; all readings of this backend wait for it. If it stays \
             so, look into the kernel log and restart the host"
        ),
    });
    BackendSample {
        sampled_at: SystemTime::now(),
        status,
        devices,
        simulated_processes: Vec::new(),
        errors: before.errors.clone(),
        cost: RoundCost::default(),
    }
}

/// A device that says nothing.
pub(crate) fn silent(info: &Arc<DeviceInfo>, status: DeviceStatus) -> DeviceSample {
    let reason = if status == DeviceStatus::Lost { Unknown::Lost } else { Unknown::Timeout };
    DeviceSample { info: Arc::clone(info), status, readings: DeviceReadings::unknown(reason), uses: Err(reason) }
}
