//! A signal reaches exactly the process that was meant, or none.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it fails"
)]

use gpufleet_proto::v1::{ProcessTarget, SignalOutcome};
use gpufleet_tests::scenario::{Device, Process};
use gpufleet_tests::{Fleet, Workload, eventually};

struct Scene {
    fleet: Fleet,
    workload: Workload,
}

impl Scene {
    fn new(mark: &str) -> Self {
        Self::of(Workload::start(mark))
    }

    fn of(workload: Workload) -> Self {
        let fleet = Fleet::start(vec![("host1", vec![Device::h200(0)])]);
        fleet.agents[0].driver.add_process(0, Process::busy(workload.pid(), 1 << 30, 50));
        fleet.until_listed(workload.pid());
        Self { fleet, workload }
    }

    fn target(&self) -> ProcessTarget {
        ProcessTarget {
            host: "host1".into(),
            boot_id: self.fleet.boot_id(),
            pid: self.workload.pid(),
            start_ticks: self.workload.start_ticks(),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_identities_hit_nothing() {
    let mut scene = Scene::new("forged");
    let right = scene.target();
    let forged = [
        ("start", ProcessTarget { start_ticks: right.start_ticks + 1, ..right.clone() }),
        ("earlier-start", ProcessTarget { start_ticks: right.start_ticks - 1, ..right.clone() }),
        ("boot", ProcessTarget { boot_id: "00000000-0000-4000-8000-000000000000".into(), ..right.clone() }),
    ];
    for (what, target) in forged {
        let outcome = scene.fleet.signal(target, 9, what).await;
        assert_eq!(outcome, SignalOutcome::IdentityChanged, "{what}");
        assert!(scene.workload.runs(), "{what}");
    }
    assert_eq!(scene.fleet.signal(right, 15, "right").await, SignalOutcome::Delivered);
    assert_eq!(scene.workload.ended_by(), Some(15));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_is_answered_and_not_executed_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hits");
    let hits = || std::fs::read_to_string(&file).unwrap_or_default().lines().count();
    let mut scene = Scene::of(Workload::counting(&file));
    let target = scene.target();
    let usr1 = 10;
    assert_eq!(scene.fleet.signal(target.clone(), usr1, "once").await, SignalOutcome::Delivered);
    eventually("the signal arrives", || if hits() == 1 { Ok(()) } else { Err(hits()) });
    assert_eq!(scene.fleet.signal(target.clone(), usr1, "once").await, SignalOutcome::Delivered, "the first outcome");
    assert_eq!(scene.fleet.signal(target.clone(), usr1, "twice").await, SignalOutcome::Delivered);
    eventually("the second signal arrives", || if hits() >= 2 { Ok(()) } else { Err(hits()) });
    assert_eq!(hits(), 2, "the repeated request was executed");
    assert_eq!(scene.fleet.signal(target.clone(), 9, "last").await, SignalOutcome::Delivered);
    assert_eq!(scene.workload.ended_by(), Some(9));
    assert_eq!(scene.fleet.signal(target.clone(), 9, "last").await, SignalOutcome::Delivered, "the first outcome");
    let outcome = scene.fleet.signal(target, 9, "after").await;
    assert!(matches!(outcome, SignalOutcome::NotFound | SignalOutcome::IdentityChanged), "{outcome:?}");
}
