//! `ListProcesses`: from the state, and asked anew of the agents.

use std::sync::atomic::Ordering;
use std::time::Duration;

use gpufleet_proto::status::Reason;
use gpufleet_proto::v1::{self, ConnectionState, ProcessScope};

use crate::agent::Streams;
use crate::fixtures::{process, snapshot};
use crate::world::{World, list, wait_for, wait_for_state};

fn all() -> v1::FleetFilter {
    v1::FleetFilter::default()
}

fn pairs(expected: &[(&str, u32)]) -> Vec<(String, u32)> {
    expected.iter().map(|(host, pid)| ((*host).to_string(), *pid)).collect()
}

/// `gpu` has two processes on devices and one without; `cpu` has no device and one process.
async fn world() -> World {
    let world = World::start(vec![snapshot("gpu", 2, 2), snapshot("cpu", 0, 0)]).await;
    world.agent("gpu").script.others.lock().unwrap().push(process(900, "alice", None));
    world.agent("cpu").script.others.lock().unwrap().push(process(901, "alice", None));
    world.connected(&mut world.user().await).await;
    world
}

#[tokio::test]
async fn the_scope_says_which_processes_are_meant() {
    let world = world().await;
    let mut client = world.user().await;
    let listed = async |client: &mut _, filter, scope| list(client, filter, scope).await.unwrap();
    let device = listed(&mut client, all(), ProcessScope::Device).await;
    assert_eq!(device, (pairs(&[("gpu", 100), ("gpu", 101)]), vec![]));
    let default = listed(&mut client, all(), ProcessScope::Unspecified).await;
    assert_eq!(default.0, pairs(&[("cpu", 901), ("gpu", 100), ("gpu", 101)]));
    let every = listed(&mut client, all(), ProcessScope::All).await;
    assert_eq!(every.0, pairs(&[("cpu", 901), ("gpu", 100), ("gpu", 101), ("gpu", 900)]));
    let of_alice = v1::FleetFilter { users: vec!["alice".into()], ..all() };
    assert_eq!(listed(&mut client, of_alice, ProcessScope::All).await.0, pairs(&[("cpu", 901), ("gpu", 900)]));
    let on_device = v1::FleetFilter { devices: vec!["1".into()], ..all() };
    assert_eq!(listed(&mut client, on_device, ProcessScope::All).await.0, pairs(&[("gpu", 101)]));
    world.shutdown().await;
}

#[tokio::test]
async fn pids_are_looked_for_where_the_scope_reaches() {
    let world = world().await;
    let mut client = world.user().await;
    let pid = |pid| v1::FleetFilter { pids: vec![pid], ..v1::FleetFilter::default() };
    assert_eq!(list(&mut client, pid(900), ProcessScope::All).await.unwrap().0, pairs(&[("gpu", 900)]));
    let refused = list(&mut client, pid(900), ProcessScope::Device).await.unwrap_err();
    assert_eq!(Reason::of(&refused), Some(Reason::UnknownProcess), "{refused:?}");
    let refused = list(&mut client, pid(77), ProcessScope::All).await.unwrap_err();
    assert_eq!(Reason::of(&refused), Some(Reason::UnknownProcess));
    assert_eq!(refused.message(), "no selected host has a process `77`");
    world.shutdown().await;
}

#[tokio::test]
async fn an_agent_that_does_not_answer_is_named_and_costs_its_own_part() {
    let world = world().await;
    let mut client = world.user().await;
    world.agent("cpu").script.list_hangs.send_replace(true);
    let (processes, missing) = list(&mut client, all(), ProcessScope::All).await.unwrap();
    assert_eq!(processes, pairs(&[("gpu", 100), ("gpu", 101), ("gpu", 900)]));
    let [missing] = missing.as_slice() else { panic!("{missing:?}") };
    assert_eq!(missing.host, "cpu");
    assert_eq!(missing.problem, "cannot list its processes: the agent did not answer within 2s");
    let absent = v1::FleetFilter { pids: vec![77], ..all() };
    let (processes, missing) = list(&mut client, absent, ProcessScope::All).await.unwrap();
    assert!(processes.is_empty() && missing.len() == 1, "whether the pid exists cannot be said");
    world.shutdown().await;
}

#[tokio::test]
async fn a_host_that_falls_silent_is_not_waited_for() {
    let world = World::start_with(vec![snapshot("node1", 1, 1)], |settings| {
        settings.serving.ask_timeout = Duration::from_hours(1);
        settings.fan_in.unreachable_after = Duration::from_mins(10);
    })
    .await;
    let mut client = world.user().await;
    world.connected(&mut client).await;
    let script = &world.agent("node1").script;
    script.list_hangs.send_replace(true);
    let mut asking = client.clone();
    let listing = tokio::spawn(async move { list(&mut asking, all(), ProcessScope::All).await });
    wait_for("the question at the agent", async || (script.listings.load(Ordering::Relaxed) > 0).then_some(())).await;
    script.streams.send_replace(Streams::Silent);
    let (_, missing) = listing.await.unwrap().unwrap();
    assert_eq!(missing[0].state(), ConnectionState::Stale);
    assert_eq!(missing[0].problem, "cannot list its processes: the agent has fallen silent");
    world.shutdown().await;
}

#[tokio::test]
async fn an_unreachable_host_is_named_and_its_last_state_sent() {
    let mut world = world().await;
    let mut client = world.user().await;
    world.agents.remove("gpu").unwrap().stop().await;
    wait_for_state(&mut client, "gpu", ConnectionState::Unreachable).await;
    let (processes, missing) = list(&mut client, all(), ProcessScope::Device).await.unwrap();
    assert_eq!(processes, pairs(&[("gpu", 100), ("gpu", 101)]));
    assert_eq!((missing[0].host.as_str(), missing[0].state()), ("gpu", ConnectionState::Unreachable));
    assert!(missing[0].sample_age.is_some());
    world.shutdown().await;
}

#[tokio::test]
async fn a_long_list_comes_in_batches() {
    let world = World::start(vec![snapshot("node1", 8, 4_000)]).await;
    let mut client = world.user().await;
    world.connected(&mut client).await;
    let request = v1::FleetServiceListProcessesRequest::default();
    let mut batches = client.list_processes(request).await.unwrap().into_inner();
    let (mut count, mut messages) = (0, 0);
    while let Some(batch) = batches.message().await.unwrap() {
        assert!(prost::Message::encoded_len(&batch) < 300 * 1024);
        count += batch.hosts.into_iter().map(|host| host.changes.unwrap().upserts.len()).sum::<usize>();
        messages += 1;
    }
    assert_eq!(count, 4_000);
    assert!(messages > 1);
    world.shutdown().await;
}
