//! What a vendor library has to offer to be run by a [`Worker`](crate::Worker).
//!
//! All methods run on the worker's thread and may block in the driver; the watchdog speaks for the devices meanwhile.
//! Invariants every implementation keeps: nothing it could not read is 0; each field and each device fails alone; a
//! device that was listed once stays listed as lost until the library says it was taken away on purpose.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpufleet_model::{Backend, BackendStatus, DeviceInfo};

use crate::sample::{DeviceSample, XidError};

/// One vendor library.
pub trait VendorLibrary: Send + 'static {
    /// Which backend it is.
    fn backend(&self) -> Backend;

    /// Opens a round: loads and starts the library where that is needed and due, notices devices that came, went or
    /// came back. Never fails: what is wrong is told by [`status`](Self::status).
    fn begin(&mut self, round: &Round<'_>);

    /// The devices, lost ones included, in the driver's order. May change in [`begin`](Self::begin) only.
    fn devices(&self) -> Vec<Arc<DeviceInfo>>;

    /// Reads the device at this position of [`devices`](Self::devices); `None` when there is none.
    fn read(&mut self, position: usize, round: &Round<'_>) -> Option<DeviceSample>;

    /// Versions, and what is wrong.
    fn status(&self) -> BackendStatus;

    /// The newest errors that the driver reported, oldest first. A library that reports none has nothing to do here.
    fn errors(&self) -> Vec<XidError> {
        Vec::new()
    }

    /// Gives the library back; the next [`begin`](Self::begin) starts it anew.
    fn close(&mut self);
}

/// What a library is told about the round it works in.
#[derive(Debug)]
pub struct Round<'a> {
    /// When the round began.
    pub now: Instant,
    /// Time between two rounds.
    pub interval: Duration,
    /// Somebody wants the readings of the demand tier.
    pub demand: bool,
    /// Counts the calls.
    pub meter: &'a Meter,
}

/// Adds up the time that the calls of a round spend in the driver.
#[derive(Debug, Default)]
pub struct Meter {
    time: Cell<Duration>,
    calls: Cell<u32>,
}

impl Meter {
    /// Makes one call of the vendor library.
    pub fn call<T>(&self, call: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = call();
        self.time.set(self.time.get() + started.elapsed());
        self.calls.set(self.calls.get().saturating_add(1));
        result
    }

    /// Wall time spent in calls so far.
    pub fn time(&self) -> Duration {
        self.time.get()
    }

    /// Calls made so far.
    pub fn calls(&self) -> u32 {
        self.calls.get()
    }
}

/// Waits that double from one failure to the next, between two bounds.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    at_least: Duration,
    at_most: Duration,
    wait: Duration,
    until: Option<Instant>,
}

impl Backoff {
    pub(crate) fn new(at_least: Duration, at_most: Duration) -> Self {
        Self { at_least, at_most: at_most.max(at_least), wait: at_least, until: None }
    }

    /// True when it is time to try (again).
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now >= until)
    }

    /// Notes a failure: the next try is due after the present wait, and the wait doubles.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.until = Some(now + self.wait);
        self.wait = (self.wait * 2).min(self.at_most);
    }

    /// Notes a success.
    pub(crate) fn succeeded(&mut self) {
        self.wait = self.at_least;
        self.until = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_bound_and_start_over_after_success() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(second, second * 5);
        let mut now = Instant::now();
        assert!(backoff.is_due(now));
        for wait in [1, 2, 4, 5, 5] {
            backoff.failed(now);
            now += second * wait;
            assert!(!backoff.is_due(now.checked_sub(Duration::from_millis(1)).unwrap()));
            assert!(backoff.is_due(now));
        }
        backoff.succeeded();
        backoff.failed(now);
        assert!(backoff.is_due(now + second));
    }
}
