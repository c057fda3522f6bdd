//! One device as this backend remembers it, across sessions of the library.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpufleet_model::{DeviceInfo, DeviceReadings, Unknown};

use super::ffi::Handle;
use super::processes::Window;
use super::readings::SLOW_GROUPS;

/// A device, present or lost.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Static facts; the same `Arc` as long as they do not change.
    pub(crate) info: Arc<DeviceInfo>,
    /// The driver's name for it in this session; `None` while it is lost.
    pub(crate) handle: Option<Handle>,
    /// It said that it is lost when it was last asked.
    pub(crate) lost: bool,
    /// MIG instances of it are devices of their own, and list its processes.
    pub(crate) has_instances: bool,
    /// The last readings: those of the slow and demand tiers are carried over from round to round.
    pub(crate) readings: DeviceReadings,
    /// When the slow groups are due.
    pub(crate) schedule: Schedule,
    /// When the demand tier was last read.
    pub(crate) demand_read_at: Option<Instant>,
    /// How many fans it has; asked once.
    pub(crate) fan_count: Option<u32>,
    /// Where the utilisation of its processes is to be asked for.
    pub(crate) window: Window,
    /// Which of the two calls for that works.
    pub(crate) utilization_call: UtilizationCall,
    /// How many entries lists of it had, as a first guess for the next.
    pub(crate) list_capacity: usize,
}

/// The call that gives the utilisation of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum UtilizationCall {
    /// `nvmlDeviceGetProcessesUtilizationInfo`: right on every card that has it.
    #[default]
    Newer,
    /// `nvmlDeviceGetProcessUtilization`: 0 for everybody on the newest cards.
    Older,
}

/// When each slow group of one device is due. All are at first; then they are spread over the slow interval, so that
/// not all slow calls of all devices hit one round.
#[derive(Debug)]
pub(crate) struct Schedule {
    due: [Option<Instant>; SLOW_GROUPS],
    /// Where in the slow interval this device's groups are put, 0–1.
    phase: f64,
}

impl Schedule {
    /// The schedule of the device at `position` of `count`.
    pub(crate) fn new(position: usize, count: usize) -> Self {
        Self { due: [None; SLOW_GROUPS], phase: position as f64 / count.max(1) as f64 }
    }

    /// Makes every group due at once.
    pub(crate) fn start_over(&mut self) {
        self.due = [None; SLOW_GROUPS];
    }

    /// True when the group is to be read in this round; it is then due again one slow interval later.
    pub(crate) fn take(&mut self, group: usize, now: Instant, interval: Duration, slow_interval: Duration) -> bool {
        let Some(due) = self.due.get_mut(group) else { return false };
        match *due {
            None => {
                // The first is followed by a shorter wait that puts the group where it belongs.
                let place = (group as f64 + self.phase) / SLOW_GROUPS as f64;
                *due = Some(now + slow_interval.mul_f64(place.max(0.1)));
                true
            }
            Some(at) if now + interval / 2 >= at => {
                *due = Some((at + slow_interval).max(now));
                true
            }
            Some(_) => false,
        }
    }
}

impl Slot {
    /// A device that was just found.
    pub(crate) fn new(info: DeviceInfo, handle: Handle, position: usize, count: usize) -> Self {
        Self {
            info: Arc::new(info),
            handle: Some(handle),
            lost: false,
            has_instances: false,
            readings: DeviceReadings::unknown(Unknown::NotYet),
            schedule: Schedule::new(position, count),
            demand_read_at: None,
            fan_count: None,
            window: Window::default(),
            utilization_call: UtilizationCall::default(),
            list_capacity: 16,
        }
    }

    /// True for a MIG instance.
    pub(crate) fn is_instance(&self) -> bool {
        self.info.mig.is_some()
    }

    /// Takes over what a new session says about the same device.
    pub(crate) fn renew(&mut self, found: Self) {
        let info = if *self.info == *found.info { Arc::clone(&self.info) } else { found.info };
        *self = Self { info, ..found };
    }

    /// Forgets what was read: it is not to be carried over a loss.
    pub(crate) fn forget(&mut self) {
        self.readings = DeviceReadings::unknown(Unknown::NotYet);
        self.schedule.start_over();
    }

    /// Forgets the handle: its session has ended, or the driver no longer lists the device.
    pub(crate) fn detach(&mut self) {
        self.handle = None;
        self.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn every_group_is_read_at_first_and_once_per_slow_interval_after() {
        let start = Instant::now();
        let mut schedule = Schedule::new(3, 8);
        for group in 0..SLOW_GROUPS {
            assert!(schedule.take(group, start, SECOND, 10 * SECOND));
        }
        for group in 0..SLOW_GROUPS {
            let reads = (1..=100).filter(|tick| schedule.take(group, start + SECOND * *tick, SECOND, 10 * SECOND));
            assert!((9..=11).contains(&reads.count()), "group {group}");
        }
    }

    #[test]
    fn slow_groups_of_eight_devices_do_not_meet_in_one_round() {
        let start = Instant::now();
        let mut schedules: Vec<_> = (0..8).map(|position| Schedule::new(position, 8)).collect();
        let mut busiest = 0;
        for tick in 0..60 {
            let now = start + SECOND * tick;
            let reads: usize = schedules
                .iter_mut()
                .map(|one| (0..SLOW_GROUPS).filter(|group| one.take(*group, now, SECOND, 10 * SECOND)).count())
                .sum();
            if tick > 0 {
                busiest = busiest.max(reads);
            }
        }
        assert!(busiest <= 8 * SLOW_GROUPS / 10 * 2, "{busiest} of {} in one round", 8 * SLOW_GROUPS);
    }

    #[test]
    fn with_a_slow_interval_below_the_tick_every_round_reads_all() {
        let start = Instant::now();
        let mut schedule = Schedule::new(0, 1);
        for tick in 0..5 {
            assert!(schedule.take(0, start + SECOND * tick, SECOND, SECOND / 10));
        }
    }
}
