//! Deltas on the wire: nothing is lost, newer peers are tolerated, and no bytes bring a receiver down.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::sync::Arc;

use gpufleet_model::{
    Backend, ContextKind, Device, DeviceReadings, DeviceReadingsPatch, DeviceStatus, HostDelta, HostSnapshot, Process,
    ProcessInfo, ProcessReadings, ProcessState, Unknown, Value, Visibility,
};
use gpufleet_proto::convert::{
    DecodeError, MAX_CHUNK_BYTES, decode_devices, decode_host_response, decode_processes, encode_devices,
    encode_host_response, encode_processes, snapshot_chunks, system_time, timestamp,
};
use gpufleet_proto::v1::{self, WatchPhase};
use proptest::prelude::*;
use prost::Message as _;

#[path = "../model/tests/strategies/snapshots.rs"]
mod snapshots;

use snapshots::snapshots;

/// As sent and received: through bytes.
fn carried(delta: &HostDelta) -> HostDelta {
    let bytes = encode_host_response(delta, WatchPhase::Update, 0).encode_to_vec();
    decode_host_response(v1::WatchHostResponse::decode(bytes.as_slice()).unwrap()).unwrap()
}

fn empty(like: &HostSnapshot) -> HostSnapshot {
    HostSnapshot { devices: BTreeMap::new(), processes: BTreeMap::new(), ..like.clone() }
}

/// Every reading that has a value has one that can be true.
fn is_sound(snapshot: &HostSnapshot) -> bool {
    let can_be = |reading: Option<Result<Value, Unknown>>| match reading {
        Some(Ok(Value::Real(number))) => number.is_finite() && number >= 0.0,
        _ => true,
    };
    let device = |device: &Arc<Device>| DeviceReadings::FIELDS.iter().all(|row| can_be(device.readings.get(row.name)));
    let process =
        |process: &Arc<Process>| ProcessReadings::FIELDS.iter().all(|row| can_be(process.readings.get(row.name)));
    snapshot.devices.values().all(device)
        && snapshot.processes.values().all(process)
        && can_be(Some(snapshot.host.readings.cpu_percent.map(Value::from)))
}

/// What a receiver does with bytes: decode, apply, send on. Any answer is good; a panic is not.
fn receive(bytes: &[u8], snapshot: &HostSnapshot) -> Result<(), TestCaseError> {
    let Ok(message) = v1::WatchHostResponse::decode(bytes) else { return Ok(()) };
    let Ok(delta) = decode_host_response(message) else { return Ok(()) };
    let mut received = snapshot.clone();
    if received.apply(&delta).is_ok() {
        prop_assert!(is_sound(&received));
        let again = HostDelta::full(&received);
        for chunk in snapshot_chunks(again) {
            carried(&chunk);
        }
    }
    Ok(())
}

#[derive(Debug, Clone)]
enum Damage {
    Set(prop::sample::Index, u8),
    Insert(prop::sample::Index, Vec<u8>),
    Cut(prop::sample::Index, prop::sample::Index),
}

fn damages() -> impl Strategy<Value = Vec<Damage>> {
    let one = prop_oneof![
        (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        (any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 1..6))
            .prop_map(|(at, b)| Damage::Insert(at, b)),
        (any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(|(a, b)| Damage::Cut(a, b)),
    ];
    prop::collection::vec(one, 1..6)
}

fn damaged(mut bytes: Vec<u8>, damages: Vec<Damage>) -> Vec<u8> {
    for damage in damages {
        let room = bytes.len() + 1;
        match damage {
            Damage::Set(at, byte) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            Damage::Set(..) => {}
            Damage::Insert(at, more) => {
                let at = at.index(room);
                bytes.splice(at..at, more);
            }
            Damage::Cut(a, b) => {
                let (a, b) = (a.index(room), b.index(room));
                bytes.drain(a.min(b)..a.max(b));
            }
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_delta_survives_the_wire(a in snapshots(), b in snapshots()) {
        for delta in [HostDelta::between(&a, &b), HostDelta::full(&a), HostDelta::between(&a, &a)] {
            prop_assert_eq!(&carried(&delta), &delta);
        }
    }

    #[test]
    fn the_parts_of_a_delta_survive_alone(a in snapshots(), b in snapshots()) {
        let delta = HostDelta::between(&a, &b);
        let devices = encode_devices(&delta).map(decode_devices).transpose().unwrap().unwrap_or_default();
        prop_assert_eq!(devices, (delta.devices.clone(), delta.removed_devices.clone()));
        let processes = encode_processes(&delta).map(decode_processes).transpose().unwrap().unwrap_or_default();
        prop_assert_eq!(processes, (delta.processes, delta.removed_processes));
    }

    #[test]
    fn a_time_survives_the_wire(a in snapshots()) {
        prop_assert_eq!(system_time(timestamp(a.sampled_at)), Some(a.sampled_at));
    }

    #[test]
    fn no_bytes_bring_a_receiver_down(bytes in prop::collection::vec(any::<u8>(), 0..256), a in snapshots()) {
        receive(&bytes, &a)?;
    }

    #[test]
    fn no_damage_brings_a_receiver_down(a in snapshots(), b in snapshots(), full: bool, damages in damages()) {
        let delta = if full { HostDelta::full(&b) } else { HostDelta::between(&a, &b) };
        let bytes = encode_host_response(&delta, WatchPhase::Update, 0).encode_to_vec();
        receive(&damaged(bytes, damages), &a)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Long command lines and labels make several messages of a snapshot.
    #[test]
    fn a_snapshot_in_chunks_is_the_snapshot(
        a in snapshots(),
        other in snapshots(),
        lengths in prop::collection::vec(0usize..120_000, 0..8),
        label in 0usize..300_000,
    ) {
        let mut large = a;
        Arc::make_mut(&mut large.host).labels.insert("note".to_owned(), "x".repeat(label));
        for (process, length) in large.processes.values_mut().zip(lengths) {
            let process = Arc::make_mut(process);
            let arguments = vec![vec![b'x'; length]];
            process.info = Arc::new(ProcessInfo { arguments, ..(*process.info).clone() });
        }
        let chunks = snapshot_chunks(HostDelta::full(&large));
        let mut received = empty(&other);
        for chunk in &chunks {
            let message = encode_host_response(chunk, WatchPhase::Snapshot, u64::MAX);
            let items = chunk.devices.len() + chunk.processes.len() + usize::from(chunk.host.is_some());
            prop_assert!(message.encoded_len() <= MAX_CHUNK_BYTES || items == 1, "{}", message.encoded_len());
            received.apply(&carried(chunk)).unwrap();
        }
        prop_assert_eq!(received, large);
    }
}

/// A device and a process as an agent of a later version may send them.
fn newer() -> v1::WatchHostResponse {
    let info = v1::DeviceInfo { uuid: "GPU-1".to_owned(), backend: 99, ..Default::default() };
    let unknown = vec![v1::UnknownReadings { reason: 99, fields: vec![1, 77] }];
    let readings = v1::DeviceReadings { memory_used_bytes: Some(5), unknown, ..Default::default() };
    let device = v1::DeviceChange { key: 1, info: Some(info), status: 99, readings: Some(readings) };
    let device_use = v1::DeviceUse { device_key: 1, kind: 99, ..Default::default() };
    let process = v1::ProcessChange {
        identity: Some(v1::ProcessIdentity { pid: 7, start_ticks: 8 }),
        info: Some(v1::ProcessInfo { visibility: 99, ..Default::default() }),
        state: 99,
        readings: None,
        device_uses: Some(v1::DeviceUses { uses: vec![device_use] }),
    };
    let host = v1::Host {
        booted_at: Some(prost_types::Timestamp::default()),
        sample_interval: Some(prost_types::Duration { seconds: 1, nanos: 0 }),
        backends: vec![v1::BackendStatus { backend: 99, ..Default::default() }],
        ..Default::default()
    };
    v1::WatchHostResponse {
        position: Some(v1::WatchPosition {
            phase: 99,
            sampled_at: Some(prost_types::Timestamp::default()),
            ..Default::default()
        }),
        host: Some(host),
        devices: Some(v1::DeviceChanges { upserts: vec![device], removed_keys: vec![] }),
        processes: Some(v1::ProcessChanges { upserts: vec![process], removed: vec![] }),
        health: vec![],
    }
}

#[test]
fn a_newer_agent_is_understood_as_far_as_possible() {
    let mut bytes = newer().encode_to_vec();
    // Field 3000, a varint and a string, of a later version.
    prost::encoding::uint64::encode(3000, &17, &mut bytes);
    prost::encoding::string::encode(3001, &"later".to_owned(), &mut bytes);
    let delta = decode_host_response(v1::WatchHostResponse::decode(bytes.as_slice()).unwrap()).unwrap();
    let device = &delta.devices[0];
    assert_eq!(device.info.as_ref().unwrap().backend, Backend::Unknown);
    assert_eq!(device.status, Some(DeviceStatus::Unresponsive));
    let readings = device.readings.as_ref().unwrap();
    assert_eq!(readings.utilization_percent, Some(Err(Unknown::Failed)));
    assert_eq!(readings.memory_used_bytes, Some(Ok(5)));
    let process = &delta.processes[0];
    assert_eq!(process.info.as_ref().unwrap().visibility, Visibility::NotVisible);
    assert_eq!(process.state, Some(ProcessState::Unknown));
    assert_eq!(process.uses.as_ref().unwrap()[0].kind, ContextKind::Unknown);
    assert_eq!(process.uses.as_ref().unwrap()[0].readings.memory_used_bytes, Err(Unknown::NotSupported));
    assert_eq!(delta.host.unwrap().backends[0].backend, Backend::Unknown);
}

#[test]
fn what_cannot_be_true_has_failed() {
    let wire = v1::DeviceReadings {
        utilization_percent: Some(101),
        memory_utilization_percent: Some(100),
        fan_speed_percent: Some(130),
        temperature_celsius: Some(-40),
        power_watts: Some(f64::NAN),
        power_limit_watts: Some(f64::INFINITY),
        energy_joules: Some(-1.0),
        ..Default::default()
    };
    let expected = DeviceReadingsPatch {
        utilization_percent: Some(Err(Unknown::Failed)),
        memory_utilization_percent: Some(Ok(100)),
        fan_speed_percent: Some(Ok(130)),
        temperature_celsius: Some(Ok(-40)),
        power_watts: Some(Err(Unknown::Failed)),
        power_limit_watts: Some(Err(Unknown::Failed)),
        energy_joules: Some(Err(Unknown::Failed)),
        ..Default::default()
    };
    assert_eq!(DeviceReadingsPatch::from(&wire), expected);
    let wire =
        v1::ProcessReadings { cpu_percent: Some(6400.0), host_memory_percent: Some(100.5), ..Default::default() };
    let patch = gpufleet_model::ProcessReadingsPatch::from(&wire);
    assert_eq!(patch.cpu_percent, Some(Ok(6400.0)));
    assert_eq!(patch.host_memory_percent, Some(Err(Unknown::Failed)));
}

#[test]
fn what_must_be_there_is_named() {
    let decoded = |change: fn(&mut v1::WatchHostResponse)| {
        let mut message = newer();
        change(&mut message);
        decode_host_response(message).unwrap_err()
    };
    assert_eq!(decoded(|m| m.position = None), DecodeError::Missing("position"));
    assert_eq!(decoded(|m| m.position.as_mut().unwrap().sampled_at = None), DecodeError::Missing("sampled_at"));
    assert_eq!(decoded(|m| m.processes.as_mut().unwrap().upserts[0].identity = None), DecodeError::Missing("identity"));
    assert_eq!(
        decoded(|m| m.devices.as_mut().unwrap().upserts[0].info.as_mut().unwrap().uuid.clear()),
        DecodeError::Missing("uuid")
    );
    let never = decoded(|m| m.position.as_mut().unwrap().sampled_at.as_mut().unwrap().nanos = -1);
    assert_eq!(never.to_string(), "`sampled_at` is invalid: not a point in time");
}
