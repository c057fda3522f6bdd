//! What must hold for the delta between any two snapshots.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;

use gpufleet_model::{ApplyError, HostDelta, HostSnapshot};
use proptest::prelude::*;

#[path = "strategies/snapshots.rs"]
mod snapshots;

use snapshots::snapshots;

fn applied(mut snapshot: HostSnapshot, deltas: &[HostDelta]) -> HostSnapshot {
    for delta in deltas {
        snapshot.apply(delta).unwrap();
    }
    snapshot
}

fn empty(like: &HostSnapshot) -> HostSnapshot {
    HostSnapshot { devices: BTreeMap::new(), processes: BTreeMap::new(), ..like.clone() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_delta_turns_one_snapshot_into_the_other(a in snapshots(), b in snapshots()) {
        prop_assert_eq!(applied(a.clone(), &[HostDelta::between(&a, &b)]), b);
    }

    #[test]
    fn a_full_delta_builds_a_snapshot_from_nothing(a in snapshots(), other in snapshots()) {
        prop_assert_eq!(applied(empty(&other), &[HostDelta::full(&a)]), a);
    }

    #[test]
    fn a_coalesced_delta_is_worth_those_it_stands_for(a in snapshots(), b in snapshots(), c in snapshots()) {
        let steps = [HostDelta::between(&a, &b), HostDelta::between(&b, &c)];
        prop_assert_eq!(applied(a.clone(), &[HostDelta::between(&a, &c)]), applied(a, &steps));
    }

    #[test]
    fn nothing_changed_makes_an_empty_delta(a in snapshots()) {
        prop_assert!(HostDelta::between(&a, &a.clone()).is_empty());
        let delta = HostDelta::between(&a, &HostSnapshot { sequence: a.sequence.wrapping_add(1), ..a.clone() });
        prop_assert!(delta.is_empty());
    }

    #[test]
    fn no_change_in_a_delta_is_empty(a in snapshots(), b in snapshots()) {
        let delta = HostDelta::between(&a, &b);
        prop_assert!(delta.devices.iter().all(|change| !change.is_empty()));
        prop_assert!(delta.processes.iter().all(|change| !change.is_empty()));
    }

    #[test]
    fn a_change_to_what_was_never_introduced_is_refused(a in snapshots(), b in snapshots()) {
        let delta = HostDelta::between(&a, &b);
        let partial = delta.devices.iter().find(|change| change.info.is_none() || change.status.is_none());
        if let Some(key) = partial.map(|change| change.key) {
            prop_assert_eq!(empty(&a).apply(&delta), Err(ApplyError::UnknownDevice(key)));
        }
    }

    /// A key that is removed and given again in the same delta is the new one.
    #[test]
    fn removals_come_before_upserts(a in snapshots()) {
        let mut delta = HostDelta::full(&a);
        delta.removed_devices = a.devices.keys().copied().collect();
        delta.removed_processes = a.processes.keys().copied().collect();
        prop_assert_eq!(applied(a.clone(), &[delta]), a);
    }
}
