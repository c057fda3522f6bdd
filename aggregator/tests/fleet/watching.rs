//! Watch streams over the fleet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gpufleet_model::{DeviceKey, HostDelta, HostSnapshot};
use gpufleet_proto::convert::decode_devices;
use gpufleet_proto::status::Reason;
use gpufleet_proto::v1::{self, ConnectionState, WatchPhase};
use gpufleet_transport::{DialOptions, Role};
use tonic::Streaming;

use crate::agent::Agent;
use crate::fixtures::{device, snapshot};
use crate::world::{Client, DEADLINE, World, issue, wait_for_state};

type Devices = Streaming<v1::FleetServiceWatchDevicesResponse>;

const FAST: Option<prost_types::Duration> = Some(prost_types::Duration { seconds: 0, nanos: 100_000_000 });

async fn watch(client: &mut Client, filter: v1::FleetFilter) -> Devices {
    let request = v1::FleetServiceWatchDevicesRequest { filter: Some(filter), min_interval: FAST };
    client.watch_devices(request).await.unwrap().into_inner()
}

/// What a reader holds: devices by host. Only devices of the snapshots mean anything.
#[derive(Default)]
struct Mirror {
    hosts: BTreeMap<String, HostSnapshot>,
    resets: usize,
    missing: Vec<v1::MissingHost>,
    synced: bool,
    sequence: u64,
    coalesced: u64,
}

impl Mirror {
    async fn take(&mut self, stream: &mut Devices) {
        let message = tokio::time::timeout(DEADLINE, stream.message()).await.expect("no message in time");
        let message = message.expect("the stream failed").expect("the stream ended");
        let position = message.position.unwrap();
        assert!(position.sequence > self.sequence, "sequence grows");
        self.sequence = position.sequence;
        assert!(position.coalesced >= self.coalesced);
        self.coalesced = position.coalesced;
        match position.phase() {
            WatchPhase::Snapshot => assert!(!self.synced),
            WatchPhase::Synced => {
                self.synced = true;
                self.missing = message.missing;
            }
            WatchPhase::Update => assert!(self.synced),
            other => panic!("{other:?}"),
        }
        for part in message.hosts {
            let state = self.hosts.entry(part.host.clone()).or_insert_with(|| snapshot(&part.host, 0, 0));
            if part.reset {
                self.resets += 1;
                state.devices.clear();
            }
            let (devices, removed_devices) = decode_devices(part.changes.unwrap_or_default()).unwrap();
            let nothing = HostDelta::between(state, state);
            state.apply(&HostDelta { devices, removed_devices, ..nothing }).unwrap();
        }
    }

    async fn sync(&mut self, stream: &mut Devices) {
        while !self.synced {
            self.take(stream).await;
        }
    }

    async fn until(&mut self, stream: &mut Devices, reached: impl Fn(&Self) -> bool) {
        while !reached(self) {
            self.take(stream).await;
        }
    }

    fn power(&self, host: &str, key: u32) -> Option<f64> {
        self.hosts.get(host)?.devices.get(&DeviceKey(key))?.readings.power_watts.ok()
    }
}

#[tokio::test]
async fn a_watch_starts_with_a_snapshot_and_goes_on_with_changes() {
    let world = World::start(vec![snapshot("node1", 2, 0), snapshot("node2", 1, 0)]).await;
    let mut client = world.user().await;
    world.connected(&mut client).await;
    let mut stream = watch(&mut client, v1::FleetFilter::default()).await;
    let mut mirror = Mirror::default();
    mirror.sync(&mut stream).await;
    assert_eq!(mirror.hosts["node1"].devices, world.agent("node1").script.state().devices);
    assert!(mirror.missing.is_empty());
    world.agent("node2").script.change(|state| {
        Arc::make_mut(state.devices.get_mut(&DeviceKey(0)).unwrap()).readings.power_watts = Ok(333.0);
    });
    mirror.until(&mut stream, |mirror| mirror.power("node2", 0) == Some(333.0)).await;
    assert_eq!(mirror.resets, 0);
    world.shutdown().await;
}

#[tokio::test]
async fn a_restarted_agent_voids_what_was_known_of_it() {
    let mut world = World::start(vec![snapshot("node1", 2, 0)]).await;
    let mut client = world.user().await;
    world.connected(&mut client).await;
    let mut stream = watch(&mut client, v1::FleetFilter::default()).await;
    let mut mirror = Mirror::default();
    mirror.sync(&mut stream).await;
    let old = world.agents.remove("node1").unwrap();
    let address = old.address;
    old.stop().await;
    wait_for_state(&mut client, "node1", ConnectionState::Unreachable).await;
    let mut state = snapshot("node1", 1, 0);
    Arc::make_mut(&mut state.host).boot_id = "second-boot".into();
    state.devices = [(DeviceKey(0), Arc::new(device("node1", 5)))].into();
    Arc::make_mut(state.devices.get_mut(&DeviceKey(0)).unwrap()).key = DeviceKey(0);
    let expected = state.devices.clone();
    let agent = Agent::start_at(issue(&world.authority, Role::Agent, "node1"), state, address).await;
    world.agents.insert("node1".into(), agent);
    mirror.until(&mut stream, |mirror| mirror.resets > 0).await;
    assert_eq!(mirror.hosts["node1"].devices, expected);
    let host = wait_for_state(&mut client, "node1", ConnectionState::Connected).await;
    assert_eq!(host.host.unwrap().boot_id, "second-boot");
    world.shutdown().await;
}

#[tokio::test]
async fn a_partial_snapshot_names_the_missing_hosts() {
    let mut world = World::start(vec![snapshot("node1", 2, 0), snapshot("node2", 1, 0)]).await;
    let mut client = world.user().await;
    world.connected(&mut client).await;
    world.agents.remove("node2").unwrap().stop().await;
    wait_for_state(&mut client, "node2", ConnectionState::Unreachable).await;
    let mut mirror = Mirror::default();
    mirror.sync(&mut watch(&mut client, v1::FleetFilter::default()).await).await;
    let [missing] = mirror.missing.as_slice() else { panic!("{:?}", mirror.missing) };
    assert_eq!((missing.host.as_str(), missing.state()), ("node2", ConnectionState::Unreachable));
    assert!(missing.sample_age.is_some() && !missing.problem.is_empty());
    assert_eq!(mirror.hosts["node2"].devices.len(), 1, "old data is still sent");
    world.shutdown().await;
}

#[tokio::test]
async fn a_reader_that_reads_nothing_hurts_nobody_and_gets_the_newest_state() {
    let states = (0..8).map(|n| snapshot(&format!("node{n}"), 64, 0)).collect();
    let world = World::start(states).await;
    let mut client = world.user().await;
    world.connected(&mut client).await;
    // A window that the first message fills.
    let narrow = DialOptions { stream_window: 1_024, connection_window: 65_535, ..DialOptions::default() };
    let mut narrow = Client::new(world.channel_with(narrow, Role::User, "slow").await);
    let mut slow = watch(&mut narrow, v1::FleetFilter::default()).await;
    let mut quick = watch(&mut world.user().await, v1::FleetFilter::default()).await;
    let mut seen = Mirror::default();
    for round in 1..=30 {
        for agent in world.agents.values() {
            agent.script.change(|state| {
                for device in state.devices.values_mut() {
                    Arc::make_mut(device).readings.power_watts = Ok(f64::from(round));
                }
            });
        }
        seen.until(&mut quick, |mirror| {
            (0..8).all(|n| mirror.power(&format!("node{n}"), 63) == Some(f64::from(round)))
        })
        .await;
    }
    let mut late = Mirror::default();
    late.until(&mut slow, |mirror| (0..8).all(|n| mirror.power(&format!("node{n}"), 63) == Some(30.0))).await;
    assert!(late.coalesced > 0, "what was folded is counted");
    for (name, state) in &seen.hosts {
        assert_eq!(state.devices, late.hosts[name].devices, "both readers hold the same of {name}");
    }
    world.shutdown().await;
}

#[tokio::test]
async fn the_fleet_watch_tells_how_hosts_stand() {
    let mut world = World::start(vec![snapshot("node1", 1, 0)]).await;
    let mut client = world.user().await;
    world.connected(&mut client).await;
    let request = v1::WatchFleetRequest { filter: None, min_interval: FAST };
    let mut stream = client.watch_fleet(request).await.unwrap().into_inner();
    world.agents.remove("node1").unwrap().stop().await;
    let seen = async {
        loop {
            let message = stream.message().await.unwrap().unwrap();
            if let Some(host) = message.upserts.into_iter().find(|h| h.state() == ConnectionState::Unreachable) {
                return host;
            }
        }
    };
    let host = tokio::time::timeout(DEADLINE, seen).await.unwrap();
    assert!(host.problem.is_some());
    world.shutdown().await;
}

#[tokio::test]
async fn a_quiet_stream_sends_heartbeats_and_ends_at_its_age() {
    let world = World::start_with(vec![], |settings| {
        settings.serving.heartbeat = Duration::from_millis(100);
        settings.serving.watch_age = Duration::from_secs(1);
    })
    .await;
    let mut client = world.user().await;
    let mut stream = watch(&mut client, v1::FleetFilter::default()).await;
    let mut heartbeats = 0;
    let status = loop {
        match stream.message().await {
            Ok(message) => heartbeats += u32::from(message.unwrap().position.unwrap().phase() == WatchPhase::Update),
            Err(status) => break status,
        }
    };
    assert!(heartbeats > 0);
    assert_eq!(Reason::of(&status), Some(Reason::StreamAged), "{status:?}");
    world.shutdown().await;
}

#[tokio::test]
async fn a_shutdown_tells_every_stream() {
    let mut world = World::start(vec![snapshot("node1", 1, 0)]).await;
    let mut client = world.user().await;
    let mut stream = watch(&mut client, v1::FleetFilter::default()).await;
    let aggregator = world.aggregator.take().unwrap();
    let stopped = tokio::spawn(aggregator.shutdown());
    let status = loop {
        match stream.message().await {
            Ok(message) => assert!(message.is_some(), "it must not end as if all were well"),
            Err(status) => break status,
        }
    };
    assert_eq!(Reason::of(&status), Some(Reason::ShuttingDown), "{status:?}");
    tokio::time::timeout(DEADLINE, stopped).await.unwrap().unwrap();
    world.shutdown().await;
}

#[tokio::test]
async fn the_number_of_streams_is_bounded() {
    let world = World::start_with(vec![], |settings| settings.serving.watches = 1).await;
    let mut client = world.user().await;
    let first = watch(&mut client, v1::FleetFilter::default()).await;
    let request = v1::FleetServiceWatchDevicesRequest::default();
    let status = client.watch_devices(request.clone()).await.unwrap_err();
    assert_eq!(Reason::of(&status), Some(Reason::TooManyRequests));
    drop(first);
    crate::world::wait_for("the place to be free again", async || client.watch_devices(request.clone()).await.ok())
        .await;
    world.shutdown().await;
}
