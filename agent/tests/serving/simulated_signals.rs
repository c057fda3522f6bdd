//! Signals to simulated processes: they end like real ones.

use gpufleet_model::ProcessIdentity;
use gpufleet_proto::v1::{self, SignalOutcome};

use crate::world::{Client, Reader, World, signal_request};

async fn world_and_victim() -> (World, Client, Reader, ProcessIdentity) {
    let world = World::simulated(8).await;
    let mut client = world.aggregator().await;
    let mut reader = Reader::open(&mut client).await;
    let busy = reader.until("a process", |snapshot| !snapshot.processes.is_empty()).await;
    let victim = *busy.processes.keys().next().unwrap();
    (world, client, reader, victim)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_simulated_process_is_killed_and_frees_its_devices() {
    let (_world, mut client, mut reader, victim) = world_and_victim().await;
    let mut request = signal_request(&mut client, victim, 9, "one").await;
    request.wait = Some(prost_types::Duration { seconds: 60, nanos: 0 });
    let answer = client.signal_process(request).await.unwrap().into_inner();
    assert_eq!(answer.outcome(), SignalOutcome::Delivered, "{answer:?}");
    let progress = answer.progress.unwrap();
    assert_eq!((progress.process_gone, progress.device_memory_released), (Some(true), Some(true)));
    reader.until("its end", |snapshot| !snapshot.processes.contains_key(&victim)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_the_pinned_process_is_not_hit() {
    let (_world, mut client, mut reader, victim) = world_and_victim().await;
    let other = ProcessIdentity { start_ticks: victim.start_ticks + 1, ..victim };
    let absent = ProcessIdentity { pid: 3_999_999, ..victim };
    let mut outcome = async |identity, change: fn(&mut v1::ProcessTarget), id: &str| {
        let mut request = signal_request(&mut client, identity, 9, id).await;
        change(request.target.as_mut().unwrap());
        client.signal_process(request).await.unwrap().into_inner().outcome()
    };
    assert_eq!(outcome(other, |_| {}, "other").await, SignalOutcome::IdentityChanged);
    assert_eq!(outcome(absent, |_| {}, "absent").await, SignalOutcome::NotFound);
    let boot = |target: &mut v1::ProcessTarget| target.boot_id.push('x');
    assert_eq!(outcome(victim, boot, "boot").await, SignalOutcome::IdentityChanged);
    let host = |target: &mut v1::ProcessTarget| target.host = "node2".to_owned();
    assert_eq!(outcome(victim, host, "host").await, SignalOutcome::IdentityChanged);
    let sequence = reader.snapshot.as_ref().unwrap().sequence;
    reader.until("later samples", |snapshot| snapshot.sequence > sequence + 3).await;
}
