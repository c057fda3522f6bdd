//! Who uses a device: the driver's lists merged, and each process's share of the work.
//!
//! In: NVML's process lists and utilisation samples. Out: one [`PidUse`] per pid. What the driver does not say is
//! unknown; 0 is said only of a listed process when the driver answered and had no work of it in the window.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gpufleet_model::{ContextKind, Reading, Unknown, UseReadings};
use nvml_wrapper::error::NvmlError;

use super::errors::unknown;
use super::ffi::{ListedProcess, UtilizationSample};
use crate::sample::PidUse;

/// The shortest stretch of time that samples are asked for; drivers take one every second or less.
const SHORTEST_WINDOW: Duration = Duration::from_secs(1);

/// The lists of one device, each as the driver answered it.
#[derive(Debug)]
pub(crate) struct ProcessLists {
    pub(crate) compute: Result<Vec<ListedProcess>, Unknown>,
    pub(crate) graphics: Result<Vec<ListedProcess>, Unknown>,
    pub(crate) mps: Result<Vec<ListedProcess>, Unknown>,
}

impl ProcessLists {
    /// One use per pid, in order of pid, without utilisation. A process on several lists is one use with the larger
    /// memory. Fails when the driver gave no list at all.
    pub(crate) fn merge(self, memory_total: Reading<u64>) -> Result<Vec<PidUse>, Unknown> {
        if let (Err(reason), Err(_), Err(_)) = (&self.compute, &self.graphics, &self.mps) {
            return Err(*reason);
        }
        let mut merged: BTreeMap<u32, PidUse> = BTreeMap::new();
        let lists = [
            (ContextKind::Compute, self.compute),
            (ContextKind::Graphics, self.graphics),
            (ContextKind::Compute, self.mps),
        ];
        for (kind, list) in lists {
            for entry in list.unwrap_or_default().iter().filter(|entry| entry.pid != 0) {
                let one = one_use(kind, entry, memory_total);
                merged.entry(entry.pid).and_modify(|known| combine(known, &one)).or_insert(one);
            }
        }
        Ok(merged.into_values().collect())
    }
}

fn one_use(kind: ContextKind, entry: &ListedProcess, memory_total: Reading<u64>) -> PidUse {
    let known = |id: u32| (id != u32::MAX).then_some(id);
    let memory_used_bytes = match entry.used_memory {
        u64::MAX => Err(Unknown::NotSupported),
        bytes if memory_total.is_ok_and(|total| bytes > total) => Err(Unknown::Failed),
        bytes => Ok(bytes),
    };
    PidUse {
        pid: entry.pid,
        kind,
        gpu_instance_id: known(entry.gpu_instance_id),
        compute_instance_id: known(entry.compute_instance_id),
        readings: UseReadings { memory_used_bytes, ..UseReadings::unknown(Unknown::NotSupported) },
    }
}

fn combine(known: &mut PidUse, other: &PidUse) {
    if known.kind != other.kind {
        known.kind = ContextKind::ComputeAndGraphics;
    }
    let memory = &mut known.readings.memory_used_bytes;
    *memory = match (*memory, other.readings.memory_used_bytes) {
        (Ok(one), Ok(another)) => Ok(one.max(another)),
        (Err(_), another) => another,
        (one, Err(_)) => one,
    };
    known.gpu_instance_id = known.gpu_instance_id.or(other.gpu_instance_id);
    known.compute_instance_id = known.compute_instance_id.or(other.compute_instance_id);
}

/// The stretch of time that utilisation is asked for, by the driver's clock.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// The newest time stamp the driver has given, and when it gave it.
    newest: Option<(u64, Instant)>,
}

impl Window {
    /// From when on to ask for samples, in the driver's microseconds. Reaches back at least a second, so that a driver
    /// that samples once a second has one in it. Before the driver has given any time stamp, our clock must do.
    pub(crate) fn since(&self, now: Instant, wall: SystemTime, interval: Duration) -> u64 {
        let driver_now = match self.newest {
            Some((stamp, seen)) => stamp.saturating_add(micros(now.saturating_duration_since(seen))),
            None => micros(wall.duration_since(UNIX_EPOCH).unwrap_or_default()),
        };
        driver_now.saturating_sub(micros(interval.max(SHORTEST_WINDOW)))
    }

    /// Notes the time stamps of an answer.
    pub(crate) fn saw(&mut self, samples: &[UtilizationSample], now: Instant) {
        let newest = samples.iter().map(|sample| sample.time_stamp).max().filter(|stamp| *stamp > 0);
        if let Some(stamp) = newest
            && self.newest.is_none_or(|(known, _)| known != stamp)
        {
            self.newest = Some((stamp, now));
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Gives each listed process its utilisation. Samples of pids that are not listed are dropped, values over 100 too.
pub(crate) fn add_utilization(uses: &mut [PidUse], answer: Result<&[UtilizationSample], &NvmlError>) {
    let samples = match answer {
        Ok(samples) => samples,
        // Nobody did any work in the window.
        Err(NvmlError::NotFound) => &[],
        Err(error) => {
            let reason = unknown(error);
            for one in uses {
                set_utilization(one, [Err(reason); 4]);
            }
            return;
        }
    };
    for one in uses {
        let newest = samples.iter().filter(|sample| sample.pid == one.pid).max_by_key(|sample| sample.time_stamp);
        let values = match newest {
            Some(sample) => [sample.sm, sample.memory, sample.encoder, sample.decoder].map(plausible),
            None => [Ok(0); 4],
        };
        set_utilization(one, values);
    }
}

fn set_utilization(one: &mut PidUse, [sm, memory, encoder, decoder]: [Reading<u32>; 4]) {
    one.readings.sm_percent = sm;
    one.readings.memory_bandwidth_percent = memory;
    one.readings.encoder_percent = encoder;
    one.readings.decoder_percent = decoder;
}

/// A percent, unless it cannot be true.
pub(crate) fn plausible(percent: u32) -> Reading<u32> {
    if percent <= 100 { Ok(percent) } else { Err(Unknown::Failed) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn listed(pid: u32, used_memory: u64) -> ListedProcess {
        ListedProcess { pid, used_memory, gpu_instance_id: u32::MAX, compute_instance_id: u32::MAX }
    }

    fn sample(pid: u32, time_stamp: u64, sm: u32) -> UtilizationSample {
        UtilizationSample { pid, time_stamp, sm, memory: 20, encoder: 0, decoder: 0 }
    }

    fn compute_only(entries: Vec<ListedProcess>) -> ProcessLists {
        ProcessLists { compute: Ok(entries), graphics: Ok(vec![]), mps: Ok(vec![]) }
    }

    fn uses_of(pids: &[u32]) -> Vec<PidUse> {
        compute_only(pids.iter().map(|pid| listed(*pid, GIB)).collect()).merge(Ok(80 * GIB)).unwrap()
    }

    #[test]
    fn a_process_on_two_lists_is_one_use_of_both_kinds_with_the_larger_memory() {
        let lists = ProcessLists {
            compute: Ok(vec![listed(7, 3 * GIB), listed(8, GIB)]),
            graphics: Ok(vec![listed(7, 5 * GIB), listed(9, 2 * GIB)]),
            mps: Ok(vec![listed(8, 4 * GIB)]),
        };
        let uses = lists.merge(Ok(80 * GIB)).unwrap();
        let short: Vec<_> = uses.iter().map(|u| (u.pid, u.kind, u.readings.memory_used_bytes)).collect();
        assert_eq!(
            short,
            [
                (7, ContextKind::ComputeAndGraphics, Ok(5 * GIB)),
                (8, ContextKind::Compute, Ok(4 * GIB)),
                (9, ContextKind::Graphics, Ok(2 * GIB)),
            ]
        );
    }

    #[test]
    fn memory_that_is_not_available_is_unknown_and_a_known_value_wins() {
        let uses = compute_only(vec![listed(7, u64::MAX)]).merge(Ok(80 * GIB)).unwrap();
        assert_eq!(uses[0].readings.memory_used_bytes, Err(Unknown::NotSupported));
        let lists = ProcessLists {
            compute: Ok(vec![listed(7, u64::MAX)]),
            graphics: Ok(vec![listed(7, GIB)]),
            mps: Err(Unknown::NotSupported),
        };
        assert_eq!(lists.merge(Ok(80 * GIB)).unwrap()[0].readings.memory_used_bytes, Ok(GIB));
    }

    #[test]
    fn memory_beyond_the_device_is_not_believed() {
        let uses = compute_only(vec![listed(7, 81 * GIB)]).merge(Ok(80 * GIB)).unwrap();
        assert_eq!(uses[0].readings.memory_used_bytes, Err(Unknown::Failed));
    }

    #[test]
    fn instance_ids_of_all_ones_mean_none() {
        let entry = ListedProcess { pid: 7, used_memory: 1, gpu_instance_id: 3, compute_instance_id: u32::MAX };
        let uses = compute_only(vec![entry]).merge(Err(Unknown::Failed)).unwrap();
        assert_eq!((uses[0].gpu_instance_id, uses[0].compute_instance_id), (Some(3), None));
    }

    #[test]
    fn lists_fail_alone_and_only_together_leave_nothing() {
        let lists = |compute| ProcessLists { compute, graphics: Err(Unknown::Failed), mps: Err(Unknown::NotSupported) };
        assert_eq!(lists(Ok(vec![listed(7, 1)])).merge(Ok(GIB)).unwrap().len(), 1);
        assert_eq!(lists(Err(Unknown::NoPermission)).merge(Ok(GIB)), Err(Unknown::NoPermission));
    }

    #[test]
    fn a_listed_process_without_sample_did_nothing() {
        let mut uses = uses_of(&[7, 8]);
        add_utilization(&mut uses, Ok(&[sample(7, 10, 95)]));
        assert_eq!((uses[0].readings.sm_percent, uses[0].readings.memory_bandwidth_percent), (Ok(95), Ok(20)));
        assert_eq!((uses[1].readings.sm_percent, uses[1].readings.decoder_percent), (Ok(0), Ok(0)));
    }

    #[test]
    fn not_found_means_that_nobody_worked() {
        let mut uses = uses_of(&[7]);
        add_utilization(&mut uses, Err(&NvmlError::NotFound));
        assert_eq!(uses[0].readings.sm_percent, Ok(0));
    }

    #[test]
    fn a_call_that_failed_leaves_utilisation_unknown() {
        let errors = [(NvmlError::NotSupported, Unknown::NotSupported), (NvmlError::Unknown, Unknown::Failed)];
        for (error, reason) in errors {
            let mut uses = uses_of(&[7]);
            add_utilization(&mut uses, Err(&error));
            assert_eq!(uses[0].readings.sm_percent, Err(reason));
            assert_eq!(uses[0].readings.memory_used_bytes, Ok(GIB));
        }
    }

    #[test]
    fn values_over_100_and_pids_that_are_not_listed_are_dropped_and_the_newest_sample_wins() {
        let mut uses = uses_of(&[7, 8]);
        add_utilization(&mut uses, Ok(&[sample(7, 30, 40), sample(7, 20, 90), sample(8, 30, 4000), sample(99, 30, 5)]));
        assert_eq!(uses.len(), 2);
        assert_eq!(uses[0].readings.sm_percent, Ok(40));
        assert_eq!(
            (uses[1].readings.sm_percent, uses[1].readings.memory_bandwidth_percent),
            (Err(Unknown::Failed), Ok(20))
        );
    }

    #[test]
    fn the_window_follows_the_drivers_clock_and_reaches_back_a_second() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let wall = UNIX_EPOCH + 5000 * second;
        let mut window = Window::default();
        assert_eq!(window.since(start, wall, second / 2), 4_999_000_000);
        window.saw(&[], start);
        assert_eq!(window.since(start, wall, second * 5), 4_995_000_000);
        // The driver's clock is far from ours.
        window.saw(&[sample(7, 100_000_000, 1), sample(8, 99_000_000, 1)], start);
        assert_eq!(window.since(start + second, wall, second), 100_000_000);
        // It stands still while nobody works; the window moves on all the same.
        window.saw(&[sample(7, 100_000_000, 1)], start + second);
        assert_eq!(window.since(start + 3 * second, wall, second), 102_000_000);
    }

    fn any_list() -> impl Strategy<Value = Result<Vec<ListedProcess>, Unknown>> {
        let entry = (0_u32..12, any::<u64>(), any::<u32>()).prop_map(|(pid, used_memory, id)| ListedProcess {
            pid,
            used_memory: if used_memory % 3 == 0 { u64::MAX } else { used_memory % (100 * GIB) },
            gpu_instance_id: id,
            compute_instance_id: id,
        });
        prop_oneof![
            4 => proptest::collection::vec(entry, 0..12).prop_map(Ok),
            1 => Just(Err(Unknown::NotSupported)),
        ]
    }

    proptest! {
        #[test]
        fn whatever_the_driver_says_each_pid_is_there_once_with_values_that_can_be_true(
            compute in any_list(),
            graphics in any_list(),
            mps in any_list(),
            percents in proptest::collection::vec((0_u32..14, any::<u64>(), 0_u32..300), 0..20),
        ) {
            let lists = ProcessLists { compute, graphics, mps };
            let listed: std::collections::BTreeSet<u32> =
                [&lists.compute, &lists.graphics, &lists.mps].into_iter().flatten().flatten().map(|one| one.pid).collect();
            let Ok(mut uses) = lists.merge(Ok(80 * GIB)) else { return Ok(()) };
            let samples: Vec<_> = percents.into_iter().map(|(pid, stamp, sm)| sample(pid, stamp, sm)).collect();
            add_utilization(&mut uses, Ok(&samples));
            let pids: Vec<u32> = uses.iter().map(|one| one.pid).collect();
            prop_assert!(pids.is_sorted_by(|a, b| a < b));
            prop_assert_eq!(pids, listed.into_iter().filter(|pid| *pid != 0).collect::<Vec<_>>());
            for one in uses {
                prop_assert!(one.readings.memory_used_bytes.is_ok_and(|bytes| bytes <= 80 * GIB)
                    || one.readings.memory_used_bytes.is_err());
                prop_assert!(one.readings.sm_percent.is_err() || one.readings.sm_percent.is_ok_and(|sm| sm <= 100));
            }
        }
    }
}
