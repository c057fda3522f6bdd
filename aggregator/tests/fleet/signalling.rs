//! `SignalProcess` over the fleet: who may, on what, once.

use std::sync::Arc;

use gpufleet_model::ProcessIdentity;
use gpufleet_proto::status::Reason;
use gpufleet_proto::v1::{self, ConnectionState, SignalOutcome};
use gpufleet_transport::Role;

use crate::agent::Signals;
use crate::fixtures::{process, snapshot};
use crate::world::{Client, World, hosts, wait_for, wait_for_state};

/// The process with this pid of `node1`, as somebody who looked would name it.
fn request(pid: u32, id: &str) -> v1::FleetServiceSignalProcessRequest {
    v1::FleetServiceSignalProcessRequest {
        target: Some(v1::ProcessTarget {
            host: "node1".into(),
            boot_id: "boot-of-node1".into(),
            pid,
            start_ticks: u64::from(pid) * 10,
        }),
        signal: 15,
        request_id: id.into(),
        reason: "test".into(),
        wait: None,
    }
}

async fn outcome(client: &mut Client, request: v1::FleetServiceSignalProcessRequest) -> (SignalOutcome, String) {
    let answer = client.signal_process(request).await.unwrap().into_inner();
    (answer.outcome(), answer.message)
}

/// Process 100 is user0's, 101 is user1's, both on a device; 900 is user0's, without a device.
async fn world() -> World {
    let world = World::start(vec![snapshot("node1", 1, 2)]).await;
    world.agent("node1").script.others.lock().unwrap().push(process(900, "user0", None));
    world.connected(&mut world.user().await).await;
    world
}

#[tokio::test]
async fn who_may_signal_what() {
    let world = world().await;
    for (role, name, pid, expected) in [
        (Role::User, "user0", 100, SignalOutcome::Delivered),
        (Role::User, "user0", 101, SignalOutcome::Denied),
        (Role::User, "user0", 900, SignalOutcome::Delivered),
        (Role::User, "user1", 900, SignalOutcome::Denied),
        (Role::User, "operator", 100, SignalOutcome::Delivered),
        (Role::User, "operator", 900, SignalOutcome::Delivered),
        (Role::Service, "operator", 100, SignalOutcome::Denied),
        (Role::Service, "user0", 100, SignalOutcome::Denied),
    ] {
        let mut client = world.client(role, name).await;
        let before = world.agent("node1").script.signal_count();
        let (got, message) = outcome(&mut client, request(pid, &format!("{role}-{pid}"))).await;
        assert_eq!(got, expected, "{role}/{name} on {pid}: {message}");
        let reached = world.agent("node1").script.signal_count() - before;
        assert_eq!(reached, usize::from(expected == SignalOutcome::Delivered), "{role}/{name} on {pid}");
    }
    let sent = world.agent("node1").script.signalled.lock().unwrap().first().cloned().unwrap();
    assert_eq!(sent.on_behalf_of, "spiffe://test.example/gpufleet/user/user0");
    assert_eq!((sent.signal, sent.reason.as_str()), (15, "test"));
    let mut aggregator = world.client(Role::Aggregator, "other").await;
    let refused = aggregator.signal_process(request(100, "x")).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::PermissionDenied);
    world.shutdown().await;
}

#[tokio::test]
async fn a_pinned_identity_that_is_gone_is_not_signalled() {
    let world = world().await;
    let mut user = world.client(Role::User, "user0").await;
    let number = std::cell::Cell::new(0);
    let with = |change: &dyn Fn(&mut v1::ProcessTarget)| {
        number.set(number.get() + 1);
        let mut request = request(100, &number.get().to_string());
        change(request.target.as_mut().unwrap());
        request
    };
    let reused = outcome(&mut user, with(&|target| target.start_ticks = 7)).await;
    assert_eq!(reused.0, SignalOutcome::IdentityChanged);
    assert_eq!(reused.1, "pid 100 of host `node1` is another process now; nothing was signalled");
    let rebooted = outcome(&mut user, with(&|target| target.boot_id = "before".into())).await;
    assert_eq!(rebooted.0, SignalOutcome::IdentityChanged);
    let no_device = outcome(&mut user, with(&|target| (target.pid, target.start_ticks) = (900, 7))).await;
    assert_eq!(no_device.0, SignalOutcome::IdentityChanged);
    let absent = outcome(&mut user, with(&|target| (target.pid, target.start_ticks) = (12_345, 7))).await;
    assert_eq!(absent, (SignalOutcome::NotFound, "host `node1` has no process 12345; nothing was signalled".into()));
    assert_eq!(world.agent("node1").script.signal_count(), 0);
    world.shutdown().await;
}

#[tokio::test]
async fn a_repeated_request_gets_the_first_outcome() {
    let world = world().await;
    let script = Arc::clone(&world.agent("node1").script);
    let mut user = world.client(Role::User, "user0").await;
    assert_eq!(outcome(&mut user, request(100, "one")).await.0, SignalOutcome::Delivered);
    *script.signals.lock().unwrap() = Signals::Refuse(tonic::Status::internal("must not be asked"));
    assert_eq!(outcome(&mut user, request(100, "one")).await.0, SignalOutcome::Delivered);
    assert_eq!(script.signal_count(), 1);
    let other = v1::FleetServiceSignalProcessRequest { signal: 9, ..request(100, "one") };
    let reused = user.signal_process(other).await.unwrap_err();
    assert_eq!(Reason::of(&reused), Some(Reason::RequestIdReused));
    let mut operator = world.client(Role::User, "operator").await;
    *script.signals.lock().unwrap() = Signals::Deliver;
    assert_eq!(outcome(&mut operator, request(100, "one")).await.0, SignalOutcome::Delivered);
    assert_eq!(script.signal_count(), 2, "another caller's id is another request");
    world.shutdown().await;
}

#[tokio::test]
async fn a_connection_lost_after_sending_leaves_the_outcome_open() {
    let mut world = world().await;
    let script = Arc::clone(&world.agent("node1").script);
    *script.signals.lock().unwrap() = Signals::Hang;
    let user = world.client(Role::User, "user0").await;
    let attempts: Vec<_> = (0..2)
        .map(|_| {
            let mut user = user.clone();
            tokio::spawn(async move { outcome(&mut user, request(100, "one")).await })
        })
        .collect();
    wait_for("the request at the agent", async || (script.signal_count() > 0).then_some(())).await;
    world.agents.remove("node1").unwrap().stop().await;
    for attempt in attempts {
        let (got, message) = attempt.await.unwrap();
        assert_eq!(got, SignalOutcome::Indeterminate, "{message}");
    }
    assert_eq!(script.signal_count(), 1, "both callers waited for one attempt");
    world.shutdown().await;
}

#[tokio::test]
async fn a_host_that_is_not_connected_is_sent_nothing() {
    let mut world = world().await;
    let mut user = world.client(Role::User, "user0").await;
    world.agents.remove("node1").unwrap().stop().await;
    wait_for_state(&mut user, "node1", ConnectionState::Unreachable).await;
    let (got, message) = outcome(&mut user, request(100, "one")).await;
    assert_eq!(got, SignalOutcome::Unreachable);
    assert!(message.starts_with("host `node1` is not connected: "), "{message}");
    world.shutdown().await;
}

#[tokio::test]
async fn the_agents_refusal_is_passed_on() {
    let world = world().await;
    let script = Arc::clone(&world.agent("node1").script);
    let mut user = world.client(Role::User, "user0").await;
    let refusal = Reason::InvalidArgument.status("no such signal", [("field", "signal".to_owned())]);
    *script.signals.lock().unwrap() = Signals::Refuse(refusal);
    let (got, message) = outcome(&mut user, request(100, "one")).await;
    assert_eq!(got, SignalOutcome::Failed);
    assert_eq!(message, "the agent of host `node1` refused: no such signal; nothing was signalled");
    world.shutdown().await;
}

#[tokio::test]
async fn a_process_whose_user_changed_is_judged_by_the_new_one() {
    let world = world().await;
    let mut user = world.client(Role::User, "user0").await;
    world.agent("node1").script.change(|state| {
        let identity = ProcessIdentity { pid: 100, start_ticks: 1_000 };
        let process = Arc::make_mut(state.processes.get_mut(&identity).unwrap());
        Arc::make_mut(&mut process.info).user = Some("root".into());
    });
    wait_for("the change", async || {
        let filter = v1::FleetFilter { users: vec!["root".into()], ..Default::default() };
        let (found, _) = crate::world::list(&mut user, filter, v1::ProcessScope::Device).await.unwrap();
        (!found.is_empty()).then_some(())
    })
    .await;
    assert_eq!(outcome(&mut user, request(100, "one")).await.0, SignalOutcome::Denied);
    world.shutdown().await;
}

#[tokio::test]
async fn requests_that_cannot_be_meant_are_refused() {
    let world = world().await;
    let mut user = world.client(Role::User, "user0").await;
    let base = || request(100, "one");
    let target = |change: &dyn Fn(&mut v1::ProcessTarget)| {
        let mut request = base();
        change(request.target.as_mut().unwrap());
        request
    };
    let long = || "x".repeat(2_000);
    let minutes = |minutes: i64| Some(prost_types::Duration { seconds: minutes * 60, nanos: 0 });
    for (request, expected) in [
        (v1::FleetServiceSignalProcessRequest { target: None, ..base() }, "target is required"),
        (target(&|target| target.pid = 0), "target.pid is not a process id"),
        (target(&|target| target.pid = u32::MAX), "target.pid is not a process id"),
        (target(&|target| target.start_ticks = 0), "target.start_ticks is required: look the process up first"),
        (target(&|target| target.boot_id.clear()), "target.boot_id is required: look the process up first"),
        (v1::FleetServiceSignalProcessRequest { signal: 0, ..base() }, "signal `0` is not a number from 1 to 64"),
        (v1::FleetServiceSignalProcessRequest { signal: 65, ..base() }, "signal `65` is not a number from 1 to 64"),
        (
            v1::FleetServiceSignalProcessRequest { request_id: String::new(), ..base() },
            "request_id must have 1 to 64 characters",
        ),
        (
            v1::FleetServiceSignalProcessRequest { request_id: long(), ..base() },
            "request_id must have 1 to 64 characters",
        ),
        (v1::FleetServiceSignalProcessRequest { reason: long(), ..base() }, "reason must have at most 1024 characters"),
        (v1::FleetServiceSignalProcessRequest { wait: minutes(6), ..base() }, "wait must be from 0 to 5 minutes"),
        (v1::FleetServiceSignalProcessRequest { wait: minutes(-1), ..base() }, "wait must be from 0 to 5 minutes"),
    ] {
        let refused = user.signal_process(request).await.unwrap_err();
        assert_eq!((refused.code(), refused.message()), (tonic::Code::InvalidArgument, expected));
    }
    let refused = user.signal_process(target(&|target| target.host = "node2".into())).await.unwrap_err();
    assert_eq!(Reason::of(&refused), Some(Reason::UnknownHost));
    assert_eq!(refused.message(), "host `node2` is not in the inventory; did you mean `node1`?");
    assert_eq!(hosts(&mut user).await.len(), 1);
    assert_eq!(world.agent("node1").script.signal_count(), 0);
    world.shutdown().await;
}
