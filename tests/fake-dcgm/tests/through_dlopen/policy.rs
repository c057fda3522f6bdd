//! Policies: violations come by calls back, once, and not too often.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use dcgm_sys::policy::{Conditions, ErrorLocation, PolicyParameter, PolicyV1};
use dcgm_sys::version::Zeroable as _;
use dcgm_sys::{FieldId, Group, Handle, ViolationKind};
use gpufleet_fake_dcgm::scenario::{Name, Scenario, Violation};

use crate::{Turn, VERSIONS, eventually, h200s};

const ALL: Conditions = Conditions(0x7f);

fn violation(id: u64, condition: Conditions, number: u32) -> Violation {
    Violation {
        id,
        device: 0,
        condition: Name(condition),
        number,
        location: None,
        field: None,
        at_us: None,
        replay: false,
    }
}

fn set(turn: &Turn, engine: Handle, conditions: Conditions) {
    let mut policy = PolicyV1 { conditions, ..PolicyV1::zeroed() };
    policy.parameters[0] = PolicyParameter::ON;
    policy.parameters[3] = PolicyParameter::limit(90);
    turn.library.policy_set(engine, Group::ALL_GPUS, policy).unwrap();
}

fn next(receiver: &Receiver<dcgm_sys::Violation>) -> dcgm_sys::Violation {
    receiver.recv_timeout(Duration::from_secs(20)).unwrap()
}

#[test]
fn a_violation_is_reported_once_with_its_gpu_where_the_version_tells_it() {
    for version in VERSIONS {
        let before = violation(1, Conditions::XID, 13);
        let mut scenario = Scenario { violations: vec![before], ..h200s(version, 2) };
        let turn = Turn::with(&scenario);
        let engine = turn.automatic();
        set(&turn, engine, ALL);
        let (sender, receiver) = sync_channel(8);
        let subscription = turn.library.policy_register(engine, Group::ALL_GPUS, ALL, sender).unwrap();
        scenario.violations.push(Violation { device: 1, ..violation(2, Conditions::XID, 79) });
        turn.write(&scenario);
        let first = next(&receiver);
        assert_eq!(first.kind, ViolationKind::Xid(79), "not the one from before");
        assert_eq!(first.gpu, (!version.starts_with('3')).then_some(1));
        scenario.violations.push(violation(3, Conditions::POWER, 750));
        turn.write(&scenario);
        assert_eq!(next(&receiver).kind, ViolationKind::Power(750), "DCGM 3 calls twice for one violation");
        assert_eq!(receiver.recv_timeout(Duration::from_millis(30)), Err(RecvTimeoutError::Timeout));
        assert_eq!(subscription.dropped(), 0);
    }
}

#[test]
fn every_condition_has_its_own_members() {
    let mut scenario = h200s("4.6.0", 1);
    let turn = Turn::with(&scenario);
    let engine = turn.automatic();
    set(&turn, engine, ALL);
    let policy = turn.library.policy_get(engine, Group::ALL_GPUS, 1).unwrap()[0];
    assert_eq!((policy.conditions, policy.parameters[3]), (ALL, PolicyParameter::limit(90)));
    let (sender, receiver) = sync_channel(8);
    let _subscription = turn.library.policy_register(engine, Group::ALL_GPUS, ALL, sender).unwrap();
    let errors = Violation { location: Some(Name(ErrorLocation::L2)), ..violation(1, Conditions::DOUBLE_BIT_ERROR, 2) };
    scenario.violations = vec![
        errors,
        violation(2, Conditions::PCI_REPLAY, 9),
        violation(3, Conditions::RETIRED_PAGES, 61),
        violation(4, Conditions::THERMAL, 91),
        violation(5, Conditions::NVLINK, 4),
    ];
    turn.write(&scenario);
    let kinds: Vec<_> = (0..5).map(|_| next(&receiver).kind).collect();
    assert_eq!(
        kinds,
        [
            ViolationKind::DoubleBitError { location: ErrorLocation::L2, count: 2 },
            ViolationKind::PciReplay(9),
            ViolationKind::RetiredPages { single_bit: 0, double_bit: 61 },
            ViolationKind::Thermal(91),
            ViolationKind::Nvlink { field: FieldId::DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, counter: 4 },
        ]
    );
}

#[test]
fn violations_that_lie_close_together_are_one() {
    let mut scenario = h200s("4.6.0", 1);
    let turn = Turn::with(&scenario);
    let engine = turn.automatic();
    set(&turn, engine, ALL);
    let (sender, receiver) = sync_channel(8);
    let _subscription = turn.library.policy_register(engine, Group::ALL_GPUS, ALL, sender).unwrap();
    let at = |id, at_us| Violation { at_us: Some(at_us), ..violation(id, Conditions::XID, 43) };
    scenario.violations = vec![at(1, 1_000_000), at(2, 5_999_999), at(3, 6_000_000)];
    turn.write(&scenario);
    assert_eq!([next(&receiver).timestamp, next(&receiver).timestamp], [1_000_000, 6_000_000]);
}

#[test]
fn what_is_not_set_or_not_registered_is_not_reported() {
    for version in VERSIONS {
        let mut scenario = h200s(version, 1);
        let turn = Turn::with(&scenario);
        let engine = turn.automatic();
        set(&turn, engine, Conditions::XID | Conditions::POWER);
        let (sender, receiver) = sync_channel(8);
        let conditions = Conditions::POWER | Conditions::THERMAL;
        let _subscription = turn.library.policy_register(engine, Group::ALL_GPUS, conditions, sender).unwrap();
        scenario.violations = vec![
            violation(1, Conditions::XID, 79),
            violation(2, Conditions::THERMAL, 95),
            violation(3, Conditions::POWER, 720),
        ];
        turn.write(&scenario);
        assert_eq!(next(&receiver).kind, ViolationKind::Power(720));
        turn.library.policy_unregister(engine, Group::ALL_GPUS, conditions).unwrap();
        scenario.violations.push(Violation { at_us: Some(i64::MAX), ..violation(4, Conditions::POWER, 730) });
        turn.write(&scenario);
        assert_eq!(receiver.recv_timeout(Duration::from_millis(50)), Err(RecvTimeoutError::Timeout));
    }
}

#[test]
fn a_full_channel_loses_violations_and_counts_them() {
    for version in VERSIONS {
        let mut scenario = h200s(version, 1);
        let turn = Turn::with(&scenario);
        let engine = turn.automatic();
        set(&turn, engine, ALL);
        let (sender, receiver) = sync_channel(1);
        let subscription = turn.library.policy_register(engine, Group::ALL_GPUS, ALL, sender).unwrap();
        scenario.violations = vec![violation(1, Conditions::XID, 79), violation(2, Conditions::POWER, 720)];
        turn.write(&scenario);
        eventually(|| subscription.dropped() == 1);
        assert_eq!(next(&receiver).kind, ViolationKind::Xid(79));
        drop(subscription);
        assert_eq!(receiver.recv(), Err(std::sync::mpsc::RecvError), "the sender went with the subscription");
    }
}
