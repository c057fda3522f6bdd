//! What changed of the selected devices or processes of one host, in wire form and in parts of bounded size.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpufleet_model::{Device, DeviceChange, HostSnapshot, Process, ProcessChange};
use gpufleet_proto::v1;
use prost::Message;

use super::Before;
use crate::query::Filter;

/// The most bytes of changes in one message.
pub(crate) const CHUNK_BYTES: usize = 256 * 1024;

/// Upserts and removals between two maps, of the values that are selected in each.
struct Difference<K, C> {
    upserts: Vec<C>,
    removed: Vec<K>,
    /// Values selected in the newer map.
    selected: usize,
}

fn difference<K: Ord + Copy, V, C>(
    before: Option<&BTreeMap<K, Arc<V>>>,
    after: &BTreeMap<K, Arc<V>>,
    selected: [&dyn Fn(&V) -> bool; 2],
    full: impl Fn(&V) -> C,
    between: impl Fn(&V, &V) -> Option<C>,
) -> Difference<K, C> {
    let [selected_before, selected_after] = selected;
    let old = |key: &K| before.and_then(|map| map.get(key)).filter(|value| selected_before(value));
    let mut found = Difference { upserts: Vec::new(), removed: Vec::new(), selected: 0 };
    for (key, value) in after.iter().filter(|(_, value)| selected_after(value)) {
        found.selected += 1;
        match old(key) {
            None => found.upserts.push(full(value)),
            Some(old) if Arc::ptr_eq(old, value) => {}
            Some(old) => found.upserts.extend(between(old, value)),
        }
    }
    if let Some(before) = before {
        let gone = before.iter().filter(|(_, value)| selected_before(value)).map(|(key, _)| *key);
        found.removed = gone.filter(|key| !after.get(key).is_some_and(|value| selected_after(value))).collect();
    }
    found
}

/// What to send of the devices: changes, and whether any device is selected.
pub(super) fn device_changes(
    filter: &Filter,
    before: Before<'_>,
    after: &HostSnapshot,
) -> (Vec<v1::DeviceChanges>, bool) {
    let before = state(before);
    let (old, new) = (before.map(|state| filter.select(state)), filter.select(after));
    let selected_before = |device: &Device| old.as_ref().is_some_and(|old| old.device(device));
    let selected_after = |device: &Device| new.device(device);
    let found = difference(
        before.map(|state| &state.devices),
        &after.devices,
        [&selected_before, &selected_after],
        DeviceChange::full,
        |old, new| Some(DeviceChange::between(old, new)).filter(|change| !change.is_empty()),
    );
    let upserts = found.upserts.iter().map(v1::DeviceChange::from).collect();
    let mut parts: Vec<_> =
        split(upserts).into_iter().map(|upserts| v1::DeviceChanges { upserts, removed_keys: Vec::new() }).collect();
    if !found.removed.is_empty() {
        let removed_keys = found.removed.iter().map(|key| key.0).collect();
        put_first(&mut parts, |part| part.removed_keys = removed_keys);
    }
    (parts, found.selected > 0)
}

/// What to send of the processes: changes, and whether any process is selected.
pub(super) fn process_changes(
    filter: &Filter,
    before: Before<'_>,
    after: &HostSnapshot,
) -> (Vec<v1::ProcessChanges>, bool) {
    let before = state(before);
    let (old, new) = (before.map(|state| filter.select(state)), filter.select(after));
    let selected_before = |process: &Process| old.as_ref().is_some_and(|old| old.process(process));
    let selected_after = |process: &Process| new.process(process);
    let found = difference(
        before.map(|state| &state.processes),
        &after.processes,
        [&selected_before, &selected_after],
        ProcessChange::full,
        |old, new| Some(ProcessChange::between(old, new)).filter(|change| !change.is_empty()),
    );
    let mut parts = process_parts(found.upserts.iter().map(v1::ProcessChange::from).collect());
    if !found.removed.is_empty() {
        let removed = found.removed.into_iter().map(v1::ProcessIdentity::from).collect();
        put_first(&mut parts, |part| part.removed = removed);
    }
    (parts, found.selected > 0)
}

/// Processes in parts of bounded size.
pub(crate) fn process_parts(upserts: Vec<v1::ProcessChange>) -> Vec<v1::ProcessChanges> {
    split(upserts).into_iter().map(|upserts| v1::ProcessChanges { upserts, removed: Vec::new() }).collect()
}

fn state(before: Before<'_>) -> Option<&HostSnapshot> {
    match before {
        Before::State(state) => Some(state),
        Before::Nothing | Before::Void => None,
    }
}

fn put_first<T: Default>(parts: &mut Vec<T>, change: impl FnOnce(&mut T)) {
    if parts.is_empty() {
        parts.push(T::default());
    }
    if let Some(first) = parts.first_mut() {
        change(first);
    }
}

/// Cuts a list into lists of at most [`CHUNK_BYTES`], each of at least one item.
fn split<T: Message>(items: Vec<T>) -> Vec<Vec<T>> {
    let mut parts = Vec::new();
    let mut part = Vec::new();
    let mut bytes = 0;
    for item in items {
        let size = item.encoded_len();
        if bytes + size > CHUNK_BYTES && !part.is_empty() {
            parts.push(std::mem::take(&mut part));
            bytes = 0;
        }
        bytes += size;
        part.push(item);
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}
