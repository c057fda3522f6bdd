//! Listings: the same as the watch, in batches, in each scope.

use std::collections::BTreeSet;

use gpufleet_model::{ProcessChange, Visibility};
use gpufleet_proto::status::Reason;
use gpufleet_proto::v1::{self, ProcessScope, WatchPhase};

use crate::world::{Reader, World, in_time, list};

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_is_what_the_watch_shows() {
    let world = World::simulated(8).await;
    let mut client = world.user().await;
    let mut reader = Reader::open(&mut client).await;
    let before: BTreeSet<_> = reader.synced().await.processes.into_keys().collect();
    let listed: BTreeSet<_> =
        list(&mut client, ProcessScope::Unspecified).await.into_iter().map(|process| process.identity).collect();
    let sequence = world.agent.snapshot().await.unwrap().sequence;
    let after = reader.until("the newest sample", |snapshot| snapshot.sequence > sequence).await;
    let after: BTreeSet<_> = after.processes.into_keys().collect();
    assert!(!listed.is_empty());
    // Samples were taken in between: what lived all the while is in the listing, and nothing else that lived never.
    assert!(before.intersection(&after).all(|identity| listed.contains(identity)));
    assert!(listed.iter().all(|identity| before.contains(identity) || after.contains(identity)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_devices_shows_its_processes() {
    let world = World::real().await;
    let mut client = world.user().await;
    for scope in [ProcessScope::Unspecified, ProcessScope::All] {
        let processes = list(&mut client, scope).await;
        let me = processes.iter().find(|process| process.identity.pid == std::process::id()).unwrap();
        let info = me.info.as_ref().unwrap();
        assert_eq!(info.visibility, Visibility::Visible);
        assert!(info.arguments[0].windows(7).any(|part| part == b"serving"), "{info:?}");
        assert!(processes.iter().any(|process| process.identity.pid == 1));
        assert!(me.uses.as_ref().is_none_or(Vec::is_empty));
    }
    assert_eq!(list(&mut client, ProcessScope::Device).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_of_every_process_sees_one_start_and_end() {
    let world = World::real().await;
    let mut client = world.user().await;
    let request = v1::WatchProcessesRequest { scope: ProcessScope::All.into(), min_interval: None };
    let mut messages = client.watch_processes(request).await.unwrap().into_inner();
    let mut next = async || in_time("a message", messages.message()).await.unwrap().unwrap();
    while next().await.position.unwrap().phase() != WatchPhase::Synced {}
    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let identity = loop {
        let changes = next().await.processes.unwrap_or_default();
        let changes = changes.upserts.into_iter().map(|change| ProcessChange::try_from(change).unwrap());
        if let Some(started) = changes.into_iter().find(|change| change.identity.pid == child.id()) {
            assert!(started.info.is_some(), "a new process is introduced");
            break started.identity;
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    loop {
        let changes = next().await.processes.unwrap_or_default();
        if changes.removed.into_iter().any(|gone| gpufleet_model::ProcessIdentity::from(gone) == identity) {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_of_another_version_is_refused() {
    let world = World::simulated(1).await;
    let mut client = world.user().await;
    let refused = client.list_processes(v1::ListProcessesRequest { scope: 77 }).await.unwrap_err();
    assert_eq!(Reason::of(&refused), Some(Reason::InvalidArgument));
    assert!(refused.message().contains("`scope`"), "{}", refused.message());
}
