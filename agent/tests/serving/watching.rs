//! Watch streams: nothing is lost, nothing is queued, and each one says how it ended.

use std::collections::BTreeMap;
use std::time::Duration;

use gpufleet_agent::BackendChoice;
use gpufleet_model::HostSnapshot;
use gpufleet_proto::status::{Reason, metadata};
use gpufleet_proto::v1::{self, WatchPhase};
use gpufleet_transport::{DialOptions, Role};
use tokio::time::Instant;
use tonic::Code;

use crate::world::{Client, Reader, World, in_time};

/// What must be the same for every reader of one sample.
fn content(snapshot: &HostSnapshot) -> HostSnapshot {
    let mut host = (*snapshot.host).clone();
    host.readings = world_host_readings();
    HostSnapshot { host: host.into(), ..snapshot.clone() }
}

/// Host readings are sent now and then only.
fn world_host_readings() -> gpufleet_model::HostReadings {
    use gpufleet_model::Unknown::NotYet;
    gpufleet_model::HostReadings {
        cpu_percent: Err(NotYet),
        memory_used_bytes: Err(NotYet),
        memory_total_bytes: Err(NotYet),
        swap_used_bytes: Err(NotYet),
        swap_total_bytes: Err(NotYet),
        load_averages: Err(NotYet),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_applied_to_the_snapshot_give_what_a_new_reader_is_sent() {
    let world = World::simulated(8).await;
    let mut client = world.user().await;
    let mut reader = Reader::open(&mut client).await;
    let mut by_sequence = BTreeMap::new();
    for _ in 0..5 {
        let sent = Reader::open(&mut client).await.synced().await;
        while by_sequence.last_key_value().is_none_or(|(sequence, _)| *sequence < sent.sequence) {
            reader.next().await.unwrap();
            let known = reader.snapshot.clone().unwrap();
            by_sequence.insert(known.sequence, known);
        }
        let applied = by_sequence.get(&sent.sequence);
        // A machine that is not quiet may have made the reader skip that very sample.
        if let Some(applied) = applied {
            assert_eq!(content(applied), content(&sent));
            return;
        }
    }
    panic!("not one of five samples reached both readers");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_sample_is_a_message_even_when_nothing_changed() {
    let world = World::simulated(0).await;
    let mut client = world.user().await;
    let mut reader = Reader::open(&mut client).await;
    let first = reader.synced().await;
    assert!(first.devices.is_empty());
    for _ in 0..5 {
        let (phase, delta) = reader.next().await.unwrap();
        assert_eq!(phase, WatchPhase::Update);
        assert!(delta.is_empty(), "{delta:?}");
    }
    let last = reader.snapshot.unwrap();
    assert_eq!(last.sequence, first.sequence + 5 + reader.coalesced);
    assert!(last.sampled_at > first.sampled_at);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_gets_the_newest_state_and_no_queue() {
    let world = World::start(BackendChoice::Simulated { devices: 64 }, |settings| {
        settings.interval = Duration::from_millis(10);
    })
    .await;
    // The smallest windows: a few messages fill them, and the agent must stop sending.
    let options = DialOptions { stream_window: 65_535, connection_window: 65_535, ..DialOptions::default() };
    let mut slow = Client::new(world.channel_with(Role::User, "slow", world.address, options).await);
    let mut reader = Reader::open(&mut slow).await;
    let first = reader.synced().await;
    let newest = async || world.agent.snapshot().await.unwrap().sequence;
    let away = first.sequence + 150;
    in_time("150 samples", async {
        while newest().await < away {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let mut read = 0;
    while reader.snapshot.as_ref().unwrap().sequence < away {
        reader.next().await.unwrap();
        read += 1;
    }
    assert!(reader.coalesced > 0, "{read} messages");
    assert!(read < 150, "{read} messages for 150 samples");
    // What it has now is whole: the same as what a new reader gets.
    let mut other = world.user().await;
    for _ in 0..50 {
        let sent = Reader::open(&mut other).await.synced().await;
        let known = reader.until("as new a sample", |known| known.sequence >= sent.sequence).await;
        if known.sequence == sent.sequence {
            assert_eq!(content(&known), content(&sent));
            return;
        }
    }
    panic!("the slow reader never met the sample of a new one");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_least_interval_is_kept_and_samples_are_folded() {
    let world = World::simulated(2).await;
    let mut client = world.user().await;
    let min_interval = prost_types::Duration { seconds: 0, nanos: 200_000_000 };
    let request = v1::WatchHostRequest { min_interval: Some(min_interval) };
    let mut reader = Reader::open_with(&mut client, request).await;
    reader.synced().await;
    let start = Instant::now();
    for _ in 0..4 {
        reader.next().await.unwrap();
    }
    // The first message may have been on its way already.
    assert!(start.elapsed() >= Duration::from_millis(500), "{:?}", start.elapsed());
    assert!(reader.coalesced >= 4, "{}", reader.coalesced);

    let negative = prost_types::Duration { seconds: -1, nanos: 0 };
    let request = v1::WatchHostRequest { min_interval: Some(negative) };
    let refused = client.watch_host(request).await.unwrap_err();
    assert_eq!(Reason::of(&refused), Some(Reason::InvalidArgument));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_stream_ends_and_says_so() {
    for _ in 0..10 {
        let world = World::start(BackendChoice::Simulated { devices: 1 }, |settings| {
            settings.serving.watch_age = Duration::from_millis(100);
        })
        .await;
        let mut client = world.user().await;
        let ending = Reader::open(&mut client).await.ending().await;
        assert_eq!((ending.code(), Reason::of(&ending)), (Code::Unavailable, Some(Reason::StreamAged)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_ends_streams_with_a_hint_to_come_back() {
    let world = World::simulated(1).await;
    let mut client = world.user().await;
    let mut reader = Reader::open(&mut client).await;
    reader.synced().await;
    let stopped = tokio::spawn(world.agent.shutdown());
    let ending = reader.ending().await;
    assert_eq!((ending.code(), Reason::of(&ending)), (Code::Unavailable, Some(Reason::ShuttingDown)));
    assert!(metadata(&ending).contains_key("retry_after_ms"));
    in_time("the end", stopped).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn places_for_streams_are_limited_and_given_back() {
    let world = World::start(BackendChoice::Simulated { devices: 1 }, |settings| settings.serving.watches = 1).await;
    let mut client = world.user().await;
    let reader = Reader::open(&mut client).await;
    let refused = client.watch_devices(v1::WatchDevicesRequest::default()).await.unwrap_err();
    assert_eq!((refused.code(), Reason::of(&refused)), (Code::ResourceExhausted, Some(Reason::TooManyRequests)));
    drop(reader);
    in_time("a free place", async {
        while client.watch_devices(v1::WatchDevicesRequest::default()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_alone_can_be_watched() {
    let world = World::simulated(3).await;
    let mut client = world.user().await;
    let mut messages = client.watch_devices(v1::WatchDevicesRequest::default()).await.unwrap().into_inner();
    let first = in_time("the snapshot", messages.message()).await.unwrap().unwrap();
    assert_eq!(first.position.unwrap().phase(), WatchPhase::Snapshot);
    let devices = first.devices.unwrap().upserts;
    assert!(devices.len() >= 3 && devices.iter().all(|device| device.info.is_some()));
    let synced = in_time("the mark", messages.message()).await.unwrap().unwrap();
    assert_eq!(synced.position.unwrap().phase(), WatchPhase::Synced);
    let update = in_time("an update", messages.message()).await.unwrap().unwrap();
    let changed = update.devices.unwrap_or_default().upserts;
    assert!(changed.iter().all(|device| device.info.is_none()), "static facts travel in the snapshot only");
}
