//! How hosts stand: connected, stale, unreachable, never seen; and what a bad agent can do.

use std::sync::Arc;
use std::time::Duration;

use gpufleet_aggregator::{Aggregator, AggregatorSettings, Inventory, InventorySource};
use gpufleet_proto::v1::{self, ConnectionState};
use gpufleet_transport::pki::{Authority, IssueRequest};
use gpufleet_transport::{Credentials, Role};

use crate::agent::{Agent, Streams};
use crate::fixtures::snapshot;
use crate::proxy::Proxy;
use crate::world::{World, hosts, issue, settings, wait_for, wait_for_state};

#[tokio::test]
async fn a_change_on_a_host_shows_in_the_fleet() {
    let world = World::start(vec![snapshot("node1", 2, 3)]).await;
    let mut client = world.user().await;
    world.connected(&mut client).await;
    let host = hosts(&mut client).await.remove("node1").unwrap();
    assert_eq!((host.device_count, host.process_count), (Some(2), Some(3)));
    assert_eq!(host.host.unwrap().boot_id, "boot-of-node1");
    world.agent("node1").script.change(|state| {
        state.devices.pop_last();
    });
    wait_for("one device less", async || (hosts(&mut client).await["node1"].device_count == Some(1)).then_some(()))
        .await;
    world.shutdown().await;
}

#[tokio::test]
async fn a_frozen_host_turns_stale_then_unreachable_and_recovers_at_once() {
    let authority = authority();
    let agent = Agent::start(issue(&authority, Role::Agent, "node1"), snapshot("node1", 1, 1)).await;
    let proxy = Proxy::start(agent.address).await;
    let inventory = Inventory::from_pairs([("node1", proxy.address.to_string())]).unwrap();
    let settings = settings(InventorySource::Fixed(inventory));
    let world = World::start_over(authority, [("node1".to_string(), agent)].into(), settings).await;
    let mut client = world.user().await;
    world.connected(&mut client).await;
    for _ in 0..2 {
        proxy.freeze(true);
        let stale = wait_for_state(&mut client, "node1", ConnectionState::Stale).await;
        let age = Duration::try_from(stale.sample_age.unwrap()).unwrap();
        assert!(age > Duration::from_millis(750), "stale after three intervals, not {age:?}");
        assert!(stale.problem.unwrap().starts_with("no sample for more than 750ms"));
        assert_eq!(stale.device_count, Some(1), "the last state stays");
        let gone = wait_for_state(&mut client, "node1", ConnectionState::Unreachable).await;
        let age = Duration::try_from(gone.sample_age.unwrap()).unwrap();
        assert!(age > Duration::from_secs(4), "unreachable after the bound, not {age:?}");
        assert_eq!(gone.device_count, Some(1), "the last state stays");
        assert!(gone.problem.is_some());
        proxy.freeze(false);
        let back = wait_for_state(&mut client, "node1", ConnectionState::Connected).await;
        assert_eq!(back.problem, None);
    }
    world.shutdown().await;
}

#[tokio::test]
async fn a_host_that_falls_silent_briefly_is_only_stale() {
    let patient = |settings: &mut AggregatorSettings| settings.fan_in.unreachable_after = Duration::from_mins(10);
    let world = World::start_with(vec![snapshot("node1", 1, 0)], patient).await;
    let mut client = world.user().await;
    world.connected(&mut client).await;
    let before = hosts(&mut client).await["node1"].state_since;
    let script = Arc::clone(&world.agent("node1").script);
    script.streams.send_replace(Streams::Silent);
    wait_for_state(&mut client, "node1", ConnectionState::Stale).await;
    script.streams.send_replace(Streams::Good);
    let back = wait_for_state(&mut client, "node1", ConnectionState::Connected).await;
    assert_ne!(back.state_since, before, "it has been connected since it came back");
    world.shutdown().await;
}

#[tokio::test]
async fn a_bad_agent_is_told_apart_and_costs_only_itself() {
    let world = World::start(vec![snapshot("bad", 1, 0), snapshot("good", 1, 0)]).await;
    let mut client = world.user().await;
    world.connected(&mut client).await;
    let script = Arc::clone(&world.agent("bad").script);
    for (streams, problem) in [
        (Streams::Garbage, "the agent sent a message that cannot be read: `position` is missing"),
        (Streams::Misfit, "device `999` changed before it was introduced"),
        (Streams::Huge, "message length too large"),
    ] {
        script.streams.send_replace(streams);
        wait_for(problem, async || {
            let host = hosts(&mut client).await.remove("bad").unwrap();
            let told = host.problem.as_ref().is_some_and(|told| told.contains(problem));
            (host.state() == ConnectionState::Unreachable && told).then_some(())
        })
        .await;
        assert_eq!(hosts(&mut client).await["good"].state(), ConnectionState::Connected);
        script.streams.send_replace(Streams::Good);
        wait_for_state(&mut client, "bad", ConnectionState::Connected).await;
    }
    world.shutdown().await;
}

#[tokio::test]
async fn a_snapshot_without_end_is_no_sign_of_life() {
    let world = World::start(vec![snapshot("node1", 1, 0)]).await;
    let mut client = world.user().await;
    world.connected(&mut client).await;
    let script = Arc::clone(&world.agent("node1").script);
    // Ends the stream at hand; the next is the one without end.
    script.streams.send_replace(Streams::Garbage);
    wait_for_state(&mut client, "node1", ConnectionState::Unreachable).await;
    script.streams.send_replace(Streams::Endless);
    wait_for("the end of patience", async || {
        let host = hosts(&mut client).await.remove("node1").unwrap();
        assert_ne!(host.state(), ConnectionState::Connected);
        host.problem.filter(|problem| problem.starts_with("no sample for more than 4s"))
    })
    .await;
    script.streams.send_replace(Streams::Good);
    wait_for_state(&mut client, "node1", ConnectionState::Connected).await;
    world.shutdown().await;
}

#[tokio::test]
async fn a_host_stays_connected_while_its_stream_is_renewed() {
    let world = World::start(vec![snapshot("node1", 1, 0)]).await;
    let mut client = world.user().await;
    world.connected(&mut client).await;
    // A stream that is renewed sooner counts as broken.
    tokio::time::sleep(Duration::from_millis(5_500)).await;
    let request = v1::WatchFleetRequest { filter: None, min_interval: None };
    let mut stream = client.watch_fleet(request).await.unwrap().into_inner();
    let script = Arc::clone(&world.agent("node1").script);
    script.streams.send_replace(Streams::Aged);
    wait_for("the renewal", async || (*script.streams.borrow() == Streams::Good).then_some(())).await;
    // A change after it comes through the new stream.
    script.change(|state| Arc::make_mut(&mut state.host).kernel_version = "after".into());
    loop {
        let message = stream.message().await.unwrap().unwrap();
        for host in &message.upserts {
            assert_eq!(host.state(), ConnectionState::Connected, "{:?}", host.problem);
        }
        if message.upserts.iter().any(|host| host.host.as_ref().is_some_and(|host| host.kernel_version == "after")) {
            break;
        }
    }
    world.shutdown().await;
}

#[tokio::test]
async fn a_reconnect_uses_the_newest_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let issue_to_folder = |authority: &Authority| {
        authority.issue(&IssueRequest::new(Role::Aggregator, "main")).unwrap().write(folder.path(), true).unwrap();
    };
    let (old, new) = (authority(), authority());
    issue_to_folder(&old);
    let agent = Agent::start(issue(&old, Role::Agent, "node1"), snapshot("node1", 1, 0)).await;
    let address = agent.address;
    let inventory = Inventory::from_pairs([("node1", address.to_string())]).unwrap();
    let settings = settings(InventorySource::Fixed(inventory));
    let credentials = Credentials::load(folder.path()).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let aggregator = Aggregator::start(settings, credentials.clone(), listener).await.unwrap();
    let address_of_aggregator = aggregator.local_addr();
    let mut world = World {
        authority: old,
        agents: [("node1".to_string(), agent)].into(),
        aggregator: Some(aggregator),
        address: address_of_aggregator,
    };
    let mut client = world.user().await;
    world.connected(&mut client).await;
    issue_to_folder(&new);
    assert!(credentials.reload().unwrap());
    assert_eq!(hosts(&mut client).await["node1"].state(), ConnectionState::Connected, "no stream is dropped for it");
    world.agents.remove("node1").unwrap().stop().await;
    wait_for_state(&mut client, "node1", ConnectionState::Unreachable).await;
    let renewed = Agent::start_at(issue(&new, Role::Agent, "node1"), snapshot("node1", 2, 0), address).await;
    world.agents.insert("node1".into(), renewed);
    let host = wait_for_state(&mut client, "node1", ConnectionState::Connected).await;
    assert_eq!(host.device_count, Some(2));
    world.shutdown().await;
}

fn authority() -> Authority {
    Authority::in_memory("test.example", Duration::from_hours(1)).unwrap()
}

#[tokio::test]
async fn hosts_that_were_never_reached_say_why() {
    let (authority, stranger) = (authority(), authority());
    let start = async |authority: &Authority, name: &str, claims: &str| {
        Agent::start(issue(authority, Role::Agent, name), snapshot(claims, 1, 0)).await
    };
    let other_name = start(&authority, "othername", "othername").await;
    let liar = start(&authority, "liar", "somebody").await;
    let foreign = start(&stranger, "foreign", "foreign").await;
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let inventory = Inventory::from_pairs([
        ("wrongname", other_name.address.to_string()),
        ("liar", liar.address.to_string()),
        ("foreign", foreign.address.to_string()),
        ("absent", unused.to_string()),
        ("nowhere", "name.invalid:9460".to_string()),
    ])
    .unwrap();
    let agents = [("a".to_string(), other_name), ("b".to_string(), liar), ("c".to_string(), foreign)].into();
    let world = World::start_over(authority, agents, settings(InventorySource::Fixed(inventory))).await;
    let mut client = world.user().await;
    for (name, problem) in [
        ("wrongname", "expected the agent of `wrongname`"),
        (
            "liar",
            "the agent calls itself `somebody`; its certificate and the inventory say `liar`: set its `host_name`",
        ),
        ("foreign", "signed by an authority that `ca.crt` does not hold"),
        ("absent", "connection refused"),
        ("nowhere", "cannot be resolved"),
    ] {
        wait_for(problem, async || {
            let host = hosts(&mut client).await.remove(name).unwrap();
            assert_eq!((host.state(), host.sample_age), (ConnectionState::NeverSeen, None), "{name}");
            host.problem.filter(|told| told.contains(problem))
        })
        .await;
    }
    let summary = client.get_fleet_summary(v1::GetFleetSummaryRequest::default()).await.unwrap().into_inner();
    assert_eq!((summary.groups[0].hosts_never_seen, summary.missing.len()), (5, 5));
    world.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_hosts_are_seen_and_paged() {
    let states = (0..200).map(|n| snapshot(&format!("node{n:03}"), 4, 2)).collect();
    let world = World::start(states).await;
    let mut client = world.user().await;
    world.connected(&mut client).await;
    let summary = client.get_fleet_summary(v1::GetFleetSummaryRequest::default()).await.unwrap().into_inner();
    let totals = &summary.groups[0];
    assert_eq!((totals.hosts_connected, totals.devices, totals.processes), (200, 800, 400));
    assert_eq!(totals.memory_used_bytes, Some((200 * 6) << 30));
    let (mut names, mut token, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let request = v1::ListHostsRequest { page_size: 7, page_token: token, ..Default::default() };
        let page = client.list_hosts(request).await.unwrap().into_inner();
        assert!(page.hosts.len() <= 7);
        names.extend(page.hosts.into_iter().map(|host| host.name));
        pages += 1;
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(names, (0..200).map(|n| format!("node{n:03}")).collect::<Vec<_>>());
    assert_eq!(pages, 29);
    world.shutdown().await;
}
