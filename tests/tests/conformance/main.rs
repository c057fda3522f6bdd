//! What every watch stream keeps, whoever serves it: a snapshot in parts, the mark that it is complete, then changes and
//! heartbeats, with positions that only grow; and what has been applied so far is what a fresh reader is told.
//!
//! The same suite runs against the agent and against the aggregator.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it fails"
)]

use std::time::Duration;

use gpufleet_proto::v1::WatchPhase;
use gpufleet_tests::scenario::{Device, Process};
use gpufleet_tests::view::View;
use gpufleet_tests::{Fleet, Workload};
use tokio::time::timeout;

mod stream;

use stream::{Kind, Message, Server, Watch};

/// How long a message may be in coming. The longest wait is that for a heartbeat of the aggregator.
const PATIENCE: Duration = Duration::from_secs(40);

/// The most bytes a message of a snapshot may have.
const MOST_BYTES: usize = 256 * 1024;

/// A reader that checks each message and applies it.
struct Reader {
    watch: Watch,
    view: View,
    sequence: u64,
    coalesced: u64,
    synced: bool,
    /// Messages of the snapshot.
    snapshots: usize,
}

impl Reader {
    /// Opens a stream and reads until it is synced.
    async fn synced(server: &Server, kind: Kind) -> Self {
        let watch = server.watch(kind).await;
        let mut reader = Self { watch, view: View::default(), sequence: 0, coalesced: 0, synced: false, snapshots: 0 };
        while !reader.synced {
            reader.next().await;
        }
        reader
    }

    async fn next(&mut self) -> Message {
        let next = timeout(PATIENCE, self.watch.next()).await.expect("a message in time");
        let message = next.expect("the stream goes on").expect("the stream does not fail");
        let position = message.position.expect("every message has a position");
        assert!(position.sampled_at.is_some(), "every message has a time");
        assert!(message.size <= MOST_BYTES, "a message of {} bytes", message.size);
        assert!(position.coalesced >= self.coalesced, "the count of coalesced samples only grows");
        match position.phase() {
            WatchPhase::Snapshot => {
                assert!(!self.synced, "a snapshot comes before SYNCED, or after RESET");
                assert!(position.sequence >= self.sequence);
                self.snapshots += 1;
            }
            WatchPhase::Synced => {
                assert!(!self.synced, "SYNCED comes once");
                assert!(message.is_empty(), "SYNCED carries no data");
                self.synced = true;
            }
            WatchPhase::Update => {
                assert!(self.synced, "updates come after SYNCED");
            }
            WatchPhase::Reset => {
                assert!(message.is_empty(), "RESET carries no data");
                self.view = View::default();
                self.synced = false;
            }
            WatchPhase::Unspecified => panic!("a message without a phase"),
        }
        assert!(
            position.sequence >= self.sequence || position.phase() == WatchPhase::Reset,
            "sequence numbers only grow"
        );
        self.sequence = position.sequence;
        self.coalesced = position.coalesced;
        for part in &message.parts {
            self.view.apply(part);
        }
        message
    }

    /// Reads until the view satisfies a condition.
    async fn until(&mut self, what: &str, holds: impl Fn(&View) -> bool) {
        let read = async {
            while !holds(&self.view) {
                self.next().await;
            }
        };
        assert!(timeout(PATIENCE, read).await.is_ok(), "{what}: not in time: {:#?}", self.view);
    }
}

async fn servers(fleet: &Fleet) -> [Server; 2] {
    [Server::agent(fleet).await, Server::aggregator(fleet).await]
}

fn fleet() -> Fleet {
    Fleet::start(vec![("host1", vec![Device::h200(0), Device::a100_mig(1)])])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_marked_complete_and_followed_by_heartbeats() {
    let fleet = fleet();
    for server in servers(&fleet).await {
        for kind in [Kind::Hosts, Kind::Devices, Kind::Processes] {
            let mut reader = Reader::synced(&server, kind).await;
            reader.next().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_devices_arrive_and_applying_them_equals_a_fresh_snapshot() {
    let fleet = fleet();
    for (round, server) in servers(&fleet).await.into_iter().enumerate() {
        let mut readers = Vec::new();
        for kind in server.device_kinds() {
            readers.push((kind, Reader::synced(&server, kind).await));
        }
        let celsius = 61 + u32::try_from(round).unwrap();
        fleet.agents[0].driver.update(|scenario| {
            scenario.devices[0].temperature = Some(celsius);
            scenario.devices[0].lost = false;
        });
        for (kind, reader) in &mut readers {
            reader.until("the temperature arrives", |view| view.temperature(0) == Some(celsius.cast_signed())).await;
            let fresh = Reader::synced(&server, *kind).await;
            assert_eq!(reader.view.device_facts(), fresh.view.device_facts(), "{kind:?}");
        }
        fleet.agents[0].driver.update(|scenario| scenario.devices[0].lost = true);
        for (_, reader) in &mut readers {
            reader.until("the loss arrives", |view| view.lost() == 1).await;
        }
        fleet.agents[0].driver.update(|scenario| scenario.devices[0].lost = false);
        for (_, reader) in &mut readers {
            reader.until("the return arrives", |view| view.lost() == 0).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_come_and_go_and_applying_that_equals_the_list() {
    let fleet = fleet();
    for server in servers(&fleet).await {
        let mut readers = Vec::new();
        for kind in server.process_kinds() {
            readers.push(Reader::synced(&server, kind).await);
        }
        let workload = Workload::start("conformance");
        let pid = workload.pid();
        fleet.agents[0].driver.add_process(0, Process::busy(pid, 1 << 30, 50));
        for reader in &mut readers {
            reader.until("the process arrives", |view| view.pids().contains(&pid)).await;
            assert_eq!(reader.view.pids(), server.listed_pids().await);
        }
        drop(workload);
        for reader in &mut readers {
            reader.until("the process goes", |view| !view.pids().contains(&pid)).await;
            assert_eq!(reader.view.pids(), server.listed_pids().await);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_gets_the_newest_state_and_is_told_what_was_coalesced() {
    let fleet = fleet();
    let server = Server::agent(&fleet).await;
    let mut slow = Reader::synced(&server, Kind::SlowDevices).await;
    fleet.agents[0].driver.update(|scenario| scenario.devices[0].temperature = Some(77));
    slow.until("the newest state", |view| view.temperature(0) == Some(77)).await;
    assert!(slow.coalesced > 0, "samples between two messages are counted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_snapshot_comes_in_parts() {
    let fleet = fleet();
    let mark = "x".repeat(10_000);
    let workloads: Vec<_> = (0..80).map(|_| Workload::start(&mark)).collect();
    fleet.agents[0].driver.update(|scenario| {
        let processes = workloads.iter().map(|workload| Process::busy(workload.pid(), 1 << 20, 1));
        scenario.devices[0].processes.extend(processes);
    });
    for server in servers(&fleet).await {
        for kind in server.process_kinds() {
            let mut reader = Reader::synced(&server, kind).await;
            reader.until("all processes", |view| view.pids().len() == workloads.len()).await;
            let fresh = Reader::synced(&server, kind).await;
            assert_eq!(fresh.view.pids().len(), workloads.len());
            assert!(fresh.snapshots > 1, "{} bytes of command lines in one message", 80 * 10_000);
        }
    }
}
