//! What is seen of what a source tells, through a filter.

use std::sync::Arc;

use gpufleet_model::{DeviceKey, HostDelta, HostSnapshot};

use super::*;
use crate::cli::Selection;
use crate::output::fixtures::node1;
use crate::view::Following;

/// A source without a network, through a filter by device: what is sent is told.
fn source(gpu: &str) -> (mpsc::Sender<Event>, Source) {
    let (sender, events) = mpsc::channel(AHEAD);
    let selection = Selection { gpus: vec![gpu.to_owned()], ..Selection::default() };
    (sender, Source::of(events, 1, false, Filter::from(&selection)))
}

fn with_devices(count: usize) -> Event {
    let mut snapshot: HostSnapshot = node1();
    while snapshot.devices.len() > count {
        snapshot.devices.pop_last();
    }
    Event::Snapshot(Arc::new(snapshot))
}

/// Device 1 became hot.
fn change() -> Event {
    let before = node1();
    let mut changed = (*before.devices[&DeviceKey(1)]).clone();
    changed.readings.temperature_celsius = Ok(99);
    let mut after = before.clone();
    after.devices.insert(changed.key, Arc::new(changed));
    let delta = HostDelta::between(&before, &after);
    assert!(delta.devices.iter().all(|change| change.info.is_none()));
    Event::Delta { host: "node1".to_owned(), delta: Box::new(delta) }
}

#[tokio::test]
async fn a_filter_hides_and_does_not_forget() {
    let (sender, mut source) = source("0");
    for event in [with_devices(3), Event::Synced, change()] {
        sender.send(event).await.unwrap();
    }
    let mut following = Following::new(source.view().await.unwrap(), 1);
    assert_eq!(source.cut(following.shown()).devices().count(), 1);
    // A change of a device that is not shown is still understood.
    following.take(source.next().await.unwrap()).unwrap();
    assert_eq!(source.cut(following.shown()).devices().count(), 1);
}

#[tokio::test]
async fn what_is_named_must_exist_at_first_and_may_go_later() {
    let (sender, mut absent) = source("2");
    for event in [with_devices(1), Event::Synced] {
        sender.send(event).await.unwrap();
    }
    let error = absent.view().await.unwrap_err().to_string();
    assert!(error.contains("no device `2`"), "{error}");
    let (sender, mut there) = source("2");
    for event in [with_devices(3), Event::Synced, with_devices(1)] {
        sender.send(event).await.unwrap();
    }
    let mut following = Following::new(there.view().await.unwrap(), 1);
    assert_eq!(there.cut(following.shown()).devices().count(), 1);
    following.take(there.next().await.unwrap()).unwrap();
    assert_eq!(there.cut(following.shown()).devices().count(), 0);
}
