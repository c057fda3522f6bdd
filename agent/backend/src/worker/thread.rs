//! The thread that owns a vendor library: one round after another.
//!
//! A device whose turn overran is read again at once, since the driver may just have recovered; if that overruns too,
//! the device rests for a while that doubles, so that one slow device cannot keep the others from being read. A round
//! in which a turn overran is not published: its first readings are as old as the hang was long.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use gpufleet_model::{DeviceInfo, DeviceReadings, DeviceStatus, Unknown};
use tokio::sync::watch;

use super::watchdog::{Gate, silent};
use crate::options::BackendOptions;
use crate::sample::{BackendSample, DeviceSample, RoundCost};
use crate::vendor::{Backoff, Meter, Round, VendorLibrary};

/// Rounds in a row that may be thrown away because a turn overran.
const MAX_DISCARDED: u32 = 3;

/// Tells the backend's threads to hurry or to stop.
#[derive(Debug, Default)]
pub(crate) struct Control {
    wishes: Mutex<Wishes>,
    for_backend: Condvar,
    for_watchdog: Condvar,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Wishes {
    round_now: bool,
    stop: bool,
    ended: bool,
}

impl Control {
    /// Asks for a round at once.
    pub(crate) fn round_now(&self) {
        self.lock().round_now = true;
        self.for_backend.notify_all();
    }

    /// Asks both threads to end.
    pub(crate) fn stop(&self) {
        self.lock().stop = true;
        self.for_backend.notify_all();
        self.for_watchdog.notify_all();
    }

    /// Waits until the backend's thread has given its library back; false when it has not within `patience`.
    pub(crate) fn wait_for_end(&self, patience: Duration) -> bool {
        let wishes = self.lock();
        let (wishes, _) = self
            .ended
            .wait_timeout_while(wishes, patience, |wishes| !wishes.ended)
            .unwrap_or_else(PoisonError::into_inner);
        wishes.ended
    }

    /// Sleeps, at most for `wait`; true when it is time to stop.
    pub(crate) fn wait_for_stop(&self, wait: Duration) -> bool {
        let wishes = self.lock();
        let (wishes, _) = self
            .for_watchdog
            .wait_timeout_while(wishes, wait, |wishes| !wishes.stop)
            .unwrap_or_else(PoisonError::into_inner);
        wishes.stop
    }

    /// Sleeps until `due` or until a round is asked for; true when it is time to stop.
    fn wait_for_round(&self, due: Instant) -> bool {
        let wishes = self.lock();
        let wait = due.saturating_duration_since(Instant::now());
        let (mut wishes, _) = self
            .for_backend
            .wait_timeout_while(wishes, wait, |wishes| !wishes.stop && !wishes.round_now)
            .unwrap_or_else(PoisonError::into_inner);
        wishes.round_now = false;
        wishes.stop
    }

    fn end(&self) {
        self.lock().ended = true;
        self.ended.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Wishes> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The backend's thread.
pub(crate) struct BackendThread {
    pub(crate) library: Box<dyn VendorLibrary>,
    pub(crate) options: BackendOptions,
    pub(crate) interval: Duration,
    pub(crate) gate: Arc<Gate>,
    pub(crate) control: Arc<Control>,
    pub(crate) demand: Arc<AtomicUsize>,
    pub(crate) newest: Arc<watch::Sender<Arc<BackendSample>>>,
    /// Devices whose turn overran, by UUID.
    pub(crate) strikes: HashMap<String, Strikes>,
}

/// What a device that overran is put to.
#[derive(Debug)]
pub(crate) struct Strikes {
    backoff: Backoff,
    /// The first one has no consequence.
    first: bool,
}

impl BackendThread {
    /// Does rounds until told to stop, then gives the library back.
    pub(crate) fn run(mut self) {
        let mut due = Instant::now();
        let mut discarded = 0;
        while !self.control.wait_for_round(due) {
            let asked_for = Instant::now() < due;
            let round = catch_unwind(AssertUnwindSafe(|| self.round()));
            let overran = self.gate.leave();
            let sample = match round {
                Ok((sample, overran)) if !overran || discarded >= MAX_DISCARDED => sample,
                Ok(_) => {
                    discarded += 1;
                    continue;
                }
                Err(_) => self.after_panic(overran),
            };
            discarded = 0;
            self.newest.send_replace(Arc::new(sample));
            if !asked_for {
                due = (due + self.interval).max(Instant::now());
            }
        }
        if catch_unwind(AssertUnwindSafe(|| self.library.close())).is_err() {
            tracing::error!(backend = self.library.backend().as_str(), "closing the vendor library panicked");
        }
        self.control.end();
    }

    /// One round, and whether the watchdog had to speak in it.
    fn round(&mut self) -> (BackendSample, bool) {
        let cpu_before = thread_cpu_time();
        let meter = Meter::default();
        let round = Round {
            now: Instant::now(),
            interval: self.interval,
            demand: self.demand.load(Ordering::Relaxed) > 0,
            meter: &meter,
        };
        self.gate.enter(None);
        self.library.begin(&round);
        let mut overran = self.gate.leave();
        let roster = self.library.devices();
        self.gate.set_roster(&roster);
        self.strikes.retain(|uuid, _| roster.iter().any(|info| info.uuid == *uuid));
        let mut devices = Vec::with_capacity(roster.len());
        let mut resting = None;
        for (position, info) in roster.iter().enumerate() {
            if self.rests(info) {
                resting = resting.or(Some(info));
                devices.push(silent(info, DeviceStatus::Unresponsive));
                continue;
            }
            let (sample, late) = self.turn(position, info, &round);
            overran |= late;
            devices.extend(sample);
        }
        let mut status = self.library.status();
        if status.problem.is_none() {
            status.problem = resting.map(|info| late_problem(info));
        }
        let sample = BackendSample {
            sampled_at: SystemTime::now(),
            status,
            devices,
            simulated_processes: Vec::new(),
            errors: self.library.errors(),
            cost: RoundCost {
                driver_time: meter.time(),
                thread_cpu_time: thread_cpu_time().saturating_sub(cpu_before),
                driver_calls: meter.calls(),
            },
        };
        (sample, overran)
    }

    fn turn(&mut self, position: usize, info: &Arc<DeviceInfo>, round: &Round<'_>) -> (Option<DeviceSample>, bool) {
        self.gate.enter(Some(Arc::clone(info)));
        let sample = self.library.read(position, round);
        if self.gate.leave() {
            self.strike(info);
            return (Some(silent(info, DeviceStatus::Unresponsive)), true);
        }
        self.strikes.remove(&info.uuid);
        (sample, false)
    }

    fn rests(&self, info: &DeviceInfo) -> bool {
        self.strikes.get(&info.uuid).is_some_and(|strikes| !strikes.backoff.is_due(Instant::now()))
    }

    fn strike(&mut self, info: &DeviceInfo) {
        let BackendOptions { retry_at_least, retry_at_most, .. } = self.options;
        let strikes = self
            .strikes
            .entry(info.uuid.clone())
            .or_insert_with(|| Strikes { backoff: Backoff::new(retry_at_least, retry_at_most), first: true });
        if !std::mem::take(&mut strikes.first) {
            strikes.backoff.failed(Instant::now());
        }
    }

    fn after_panic(&mut self, overran: bool) -> BackendSample {
        tracing::error!(backend = self.library.backend().as_str(), overran, "a round panicked; starting anew");
        if catch_unwind(AssertUnwindSafe(|| self.library.close())).is_err() {
            tracing::error!(backend = self.library.backend().as_str(), "closing the vendor library panicked");
        }
        let before = Arc::clone(&self.newest.borrow());
        let mut sample = BackendSample::empty(SystemTime::now(), before.status.clone());
        sample.status.problem = Some(String::from(
            "internal error while reading the devices; the backend starts anew. Please report it with the agent's log",
        ));
        sample.errors.clone_from(&before.errors);
        sample.devices = before
            .devices
            .iter()
            .map(|device| DeviceSample {
                info: Arc::clone(&device.info),
                status: device.status,
                readings: DeviceReadings::unknown(Unknown::Failed),
                uses: Err(Unknown::Failed),
            })
            .collect();
        sample
    }
}

fn late_problem(info: &DeviceInfo) -> String {
    format!(
        "the driver answers too late about device `{}` (`{}`), which is therefore asked only from time to time. Look \
         into the kernel log; reset the device or restart the host if it stays so",
        info.index, info.uuid
    )
}

fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
