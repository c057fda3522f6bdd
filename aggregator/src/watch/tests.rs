//! The property that every watch must have: its messages, applied in order, give the state, whatever happened between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gpufleet_model::{Device, DeviceKey, DeviceStatus, HostDelta, HostSnapshot, Process, ProcessIdentity};
use gpufleet_proto::convert::{decode_devices, decode_processes};
use gpufleet_transport::stream::{self, WatchStream};
use proptest::prelude::*;
use proptest::sample::Index;
use tokio_stream::StreamExt as _;

use super::*;
use crate::fixtures;
use crate::inventory::Inventory;
use crate::state::{Changed, FleetWriter, Freshness, HostWriter};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// What may happen.
#[derive(Debug, Clone)]
enum Event {
    /// A host's agent starts (again), with so many devices and processes.
    Begin { host: Index, devices: u32, processes: u32 },
    /// Something of a host changes.
    Change { host: Index, what: u8, which: Index },
    /// A host's connection breaks.
    Down { host: Index },
    /// A host leaves or enters the inventory.
    Toggle { host: Index },
    /// Time passes, and the reader takes nothing.
    Sleep { millis: u64 },
    /// The reader takes everything there is.
    Read,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (any::<Index>(), 0..4_u32, 0..5_u32)
            .prop_map(|(host, devices, processes)| Event::Begin { host, devices, processes }),
        12 => (any::<Index>(), any::<u8>(), any::<Index>()).prop_map(|(host, what, which)| Event::Change { host, what, which }),
        1 => any::<Index>().prop_map(|host| Event::Down { host }),
        1 => any::<Index>().prop_map(|host| Event::Toggle { host }),
        3 => prop_oneof![Just(300), Just(1_500), Just(30_000)].prop_map(|millis| Event::Sleep { millis }),
        3 => Just(Event::Read),
    ]
}

fn filters() -> Vec<v1::FleetFilter> {
    let all = v1::FleetFilter::default;
    vec![
        all(),
        v1::FleetFilter { hosts: vec!["a".into(), "c".into()], ..all() },
        v1::FleetFilter { devices: vec!["1".into(), "GPU-b-0".into()], ..all() },
        v1::FleetFilter { users: vec!["user1".into()], ..all() },
        v1::FleetFilter { pids: vec![101, 102], devices: vec!["0".into(), "2".into()], ..all() },
    ]
}

/// The fleet, and the writers that fan-in would hold.
struct Stage {
    fleet: Arc<Fleet>,
    writer: FleetWriter,
    present: BTreeSet<&'static str>,
    hosts: BTreeMap<&'static str, HostWriter>,
    last: BTreeMap<&'static str, HostSnapshot>,
}

impl Stage {
    fn new() -> Self {
        let (fleet, writer) = Fleet::new(Freshness::default());
        let mut stage = Self { fleet, writer, present: NAMES.into(), hosts: BTreeMap::new(), last: BTreeMap::new() };
        stage.reconcile();
        stage
    }

    fn reconcile(&mut self) {
        let inventory = Inventory::from_pairs(self.present.iter().map(|name| (name, "127.0.0.1:1"))).unwrap();
        let change = self.writer.reconcile(&inventory);
        for cell in change.removed {
            self.hosts.remove(&**cell.name());
            self.last.remove(&**cell.name());
        }
        for writer in change.added {
            let name = NAMES.into_iter().find(|name| **name == **writer.cell().name()).unwrap();
            self.hosts.insert(name, writer);
        }
    }

    fn happen(&mut self, event: &Event) {
        let name = |index: &Index| *index.get(&NAMES);
        match event {
            Event::Begin { host, devices, processes } => {
                let name = name(host);
                if let Some(writer) = self.hosts.get_mut(name) {
                    let snapshot = fixtures::snapshot(name, *devices, *processes);
                    writer.begin(Arc::new(snapshot.clone()));
                    self.last.insert(name, snapshot);
                }
            }
            Event::Change { host, what, which } => self.change(name(host), *what, *which),
            Event::Down { host } => {
                if let Some(writer) = self.hosts.get_mut(name(host)) {
                    writer.down("cut");
                    // Without a connection there are no further changes until the next begin.
                    self.last.remove(name(host));
                }
            }
            Event::Toggle { host } => {
                let name = name(host);
                if !self.present.remove(name) {
                    self.present.insert(name);
                }
                self.reconcile();
            }
            Event::Sleep { .. } | Event::Read => {}
        }
    }

    /// Changes a host as fan-in does: what does not change stays shared.
    fn change(&mut self, name: &'static str, what: u8, which: Index) {
        let (Some(writer), Some(before)) = (self.hosts.get_mut(name), self.last.get_mut(name)) else { return };
        let mut after = before.clone();
        after.sequence += 1;
        mutate(&mut after, what, which);
        let changed = Changed {
            host: before.host != after.host || before.devices.len() != after.devices.len(),
            devices: before.devices != after.devices,
            processes: before.processes != after.processes,
        };
        writer.advance(Arc::new(after.clone()), changed);
        *before = after;
    }
}

fn mutate(snapshot: &mut HostSnapshot, what: u8, which: Index) {
    let name = snapshot.host.name.clone();
    let device = pick(&snapshot.devices, which);
    let process = pick(&snapshot.processes, which);
    let number = u32::try_from(which.index(6)).unwrap();
    let add = |snapshot: &mut HostSnapshot, process: Process| {
        snapshot.processes.insert(process.identity, Arc::new(process));
    };
    match (what % 8, device, process) {
        (0, Some(key), _) => change_device(snapshot, key, |device| device.readings.power_watts = Ok(f64::from(number))),
        (1, Some(key), _) => change_device(snapshot, key, |device| device.status = DeviceStatus::Lost),
        (2, Some(key), _) => {
            snapshot.devices.remove(&key);
        }
        (3, ..) => {
            snapshot.devices.insert(DeviceKey(number), Arc::new(fixtures::device(&name, number)));
        }
        (4, _, Some(identity)) => {
            snapshot.processes.remove(&identity);
        }
        (5, device, _) => add(snapshot, fixtures::process(100 + number, &format!("user{}", number % 2), device)),
        (6, device, Some(identity)) => change_process(snapshot, identity, |process| {
            Arc::make_mut(&mut process.info).user = Some(format!("user{}", number % 3));
            if let (Some(device), Some(used)) = (device, process.uses.first_mut()) {
                used.device = device;
            }
        }),
        (7, ..) => Arc::make_mut(&mut snapshot.host).readings.cpu_percent = Ok(f64::from(number)),
        _ => {}
    }
}

fn pick<K: Copy, V>(map: &BTreeMap<K, V>, which: Index) -> Option<K> {
    (!map.is_empty()).then(|| map.keys().nth(which.index(map.len())).copied()).flatten()
}

fn change_device(snapshot: &mut HostSnapshot, key: DeviceKey, change: impl FnOnce(&mut Device)) {
    change(Arc::make_mut(snapshot.devices.get_mut(&key).unwrap()));
}

fn change_process(snapshot: &mut HostSnapshot, key: ProcessIdentity, change: impl FnOnce(&mut Process)) {
    change(Arc::make_mut(snapshot.processes.get_mut(&key).unwrap()));
}

/// A reader that knows only what the contract says.
trait Mirror: Default {
    type Watched: Watched;
    fn watched(fleet: &Arc<Fleet>) -> Self::Watched;
    fn take(&mut self, message: <Self::Watched as Watched>::Message);
    /// Holds what was received against the state.
    fn check(&self, fleet: &Fleet, filter: &Filter);
}

#[derive(Default)]
struct DeviceMirror(BTreeMap<String, HostSnapshot>);

impl Mirror for DeviceMirror {
    type Watched = WatchedDevices;

    fn watched(_: &Arc<Fleet>) -> WatchedDevices {
        WatchedDevices
    }

    fn take(&mut self, message: v1::FleetServiceWatchDevicesResponse) {
        for part in message.hosts {
            let state = self.0.entry(part.host.clone()).or_insert_with(|| fixtures::snapshot(&part.host, 0, 0));
            if part.reset {
                state.devices.clear();
            }
            let (devices, removed_devices) = decode_devices(part.changes.unwrap_or_default()).unwrap();
            let nothing = HostDelta::between(state, state);
            state.apply(&HostDelta { devices, removed_devices, ..nothing }).expect("a change of an unknown device");
        }
    }

    fn check(&self, fleet: &Fleet, filter: &Filter) {
        let mut expected = BTreeMap::new();
        for cell in filter.hosts(&fleet.table()) {
            if let Some(sample) = &cell.record().sample {
                let mut devices = sample.snapshot.devices.clone();
                let selection = filter.select(&sample.snapshot);
                devices.retain(|_, device| selection.device(device));
                expected.insert(cell.name().to_string(), devices);
            }
        }
        expected.retain(|_, devices| !devices.is_empty());
        let held: BTreeMap<_, _> = self.0.iter().filter(|(_, s)| !s.devices.is_empty()).collect();
        assert!(held.keys().copied().eq(expected.keys()), "hosts {:?} against {:?}", held.keys(), expected.keys());
        for (host, devices) in expected {
            assert_eq!(held[&host].devices, devices, "devices of {host}");
        }
    }
}

#[derive(Default)]
struct ProcessMirror(BTreeMap<String, HostSnapshot>);

impl Mirror for ProcessMirror {
    type Watched = WatchedProcesses;

    fn watched(_: &Arc<Fleet>) -> WatchedProcesses {
        WatchedProcesses
    }

    fn take(&mut self, message: v1::FleetServiceWatchProcessesResponse) {
        for part in message.hosts {
            let state = self.0.entry(part.host.clone()).or_insert_with(|| fixtures::snapshot(&part.host, 0, 0));
            if part.reset {
                state.processes.clear();
            }
            let (processes, removed_processes) = decode_processes(part.changes.unwrap_or_default()).unwrap();
            let nothing = HostDelta::between(state, state);
            state
                .apply(&HostDelta { processes, removed_processes, ..nothing })
                .expect("a change of an unknown process");
        }
    }

    fn check(&self, fleet: &Fleet, filter: &Filter) {
        let mut expected = BTreeMap::new();
        for cell in filter.hosts(&fleet.table()) {
            if let Some(sample) = &cell.record().sample {
                let mut processes = sample.snapshot.processes.clone();
                let selection = filter.select(&sample.snapshot);
                processes.retain(|_, process| selection.process(process));
                expected.insert(cell.name().to_string(), processes);
            }
        }
        expected.retain(|_, processes| !processes.is_empty());
        let held: BTreeMap<_, _> = self.0.iter().filter(|(_, s)| !s.processes.is_empty()).collect();
        assert!(held.keys().copied().eq(expected.keys()), "hosts {:?} against {:?}", held.keys(), expected.keys());
        for (host, processes) in expected {
            assert_eq!(held[&host].processes, processes, "processes of {host}");
        }
    }
}

#[derive(Default)]
struct HostMirror(BTreeMap<String, v1::HostConnection>);

impl Mirror for HostMirror {
    type Watched = WatchedHosts;

    fn watched(fleet: &Arc<Fleet>) -> WatchedHosts {
        WatchedHosts { fleet: Arc::clone(fleet) }
    }

    fn take(&mut self, message: v1::WatchFleetResponse) {
        for name in message.removed {
            self.0.remove(&name);
        }
        for host in message.upserts {
            self.0.insert(host.name.clone(), host);
        }
    }

    fn check(&self, fleet: &Fleet, filter: &Filter) {
        // Ages and times move on without a message.
        let timeless = |host: v1::HostConnection| v1::HostConnection { sample_age: None, state_since: None, ..host };
        let cells = filter.hosts(&fleet.table());
        let expected: BTreeMap<_, _> = cells
            .iter()
            .filter(|cell| filter.selects_host(cell.record().sample.as_ref().map(|sample| &*sample.snapshot)))
            .map(|cell| {
                let host = crate::query::connection(cell, fleet.freshness(), Instant::now());
                (host.name.clone(), timeless(host))
            })
            .collect();
        let held: BTreeMap<_, _> = self.0.clone().into_iter().map(|(name, host)| (name, timeless(host))).collect();
        assert_eq!(held, expected);
    }
}

/// Takes messages until none comes for a while.
async fn read<M: Mirror>(stream: &mut WatchStream<<M::Watched as Watched>::Message>, mirror: &mut M) {
    let quiet = Duration::from_millis(2_500);
    while let Ok(message) = tokio::time::timeout(quiet, stream.next()).await {
        mirror.take(message.expect("the stream ended").expect("the stream failed"));
    }
}

async fn follow<M: Mirror>(filter: v1::FleetFilter, events: Vec<Event>) {
    let mut stage = Stage::new();
    let filter = Filter::parse(Some(filter), &stage.fleet.table()).unwrap();
    let second = Duration::from_secs(1);
    let pace = Pace { min_interval: second, heartbeat: second * 3_600, max_age: second * 1_000_000 };
    let (mut stream, sender, _ending) = stream::channel(shutting_down);
    let watch = Watch::new(Arc::clone(&stage.fleet), M::watched(&stage.fleet), filter.clone(), pace, sender);
    let stop = CancellationToken::new();
    let task = tokio::spawn(watch.run(stop.clone()));
    let sweep = tokio::spawn(crate::fan_in::sweep(Arc::clone(&stage.fleet), stop.clone()));
    let mut mirror = M::default();
    for event in &events {
        stage.happen(event);
        match event {
            Event::Sleep { millis } => tokio::time::sleep(Duration::from_millis(*millis)).await,
            Event::Read => read(&mut stream, &mut mirror).await,
            _ => tokio::task::yield_now().await,
        }
    }
    // Long enough for every host to be as stale as it will ever be.
    tokio::time::sleep(Duration::from_mins(1)).await;
    read(&mut stream, &mut mirror).await;
    mirror.check(&stage.fleet, &filter);
    stop.cancel();
    assert!(task.await.unwrap().is_some());
    sweep.await.unwrap();
}

fn run<M: Mirror>(filter: v1::FleetFilter, events: Vec<Event>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(follow::<M>(filter, events));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn device_messages_give_the_state(
        filter in prop::sample::select(filters()),
        events in prop::collection::vec(event(), 0..60),
    ) {
        run::<DeviceMirror>(filter, events);
    }

    #[test]
    fn process_messages_give_the_state(
        filter in prop::sample::select(filters()),
        events in prop::collection::vec(event(), 0..60),
    ) {
        run::<ProcessMirror>(filter, events);
    }

    #[test]
    fn host_messages_give_the_state(
        filter in prop::sample::select(filters()),
        events in prop::collection::vec(event(), 0..60),
    ) {
        run::<HostMirror>(filter, events);
    }
}
