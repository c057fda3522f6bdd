//! Deltas ⇄ messages, and snapshots in chunks.

use std::sync::Arc;
use std::time::SystemTime;

use gpufleet_model::{
    DeviceChange, DeviceInfo, DeviceKey, DeviceUse, Host, HostDelta, ProcessChange, ProcessIdentity, ProcessInfo,
};
use prost::Message as _;

use super::device::{status_from_wire, status_to_wire};
use super::process::{state_from_wire, state_to_wire};
use super::{DecodeError, required_time, timestamp};
use crate::v1;

/// The size a snapshot's encoded messages are kept below.
pub const MAX_CHUNK_BYTES: usize = 256 * 1024;

/// The most that a message takes beside the host, the devices and the processes in it: its position (46 bytes) and the
/// tags and lengths of the two lists (6 bytes each).
const ENVELOPE_BYTES: usize = 64;

/// The most that the key of a device that is gone takes.
const REMOVED_DEVICE_BYTES: usize = 5;
/// The most that the identity of a process that is gone takes.
const REMOVED_PROCESS_BYTES: usize = 20;

/// The position that stands in a message.
pub fn position(phase: v1::WatchPhase, sequence: u64, sampled_at: SystemTime, coalesced: u64) -> v1::WatchPosition {
    v1::WatchPosition { phase: phase.into(), sequence, sampled_at: Some(timestamp(sampled_at)), coalesced }
}

impl From<&DeviceChange> for v1::DeviceChange {
    fn from(change: &DeviceChange) -> Self {
        let status = change.status.map_or(v1::DeviceStatus::Unspecified, status_to_wire);
        Self {
            key: change.key.0,
            info: change.info.as_deref().map(Into::into),
            status: status.into(),
            readings: change.readings.as_ref().map(Into::into),
        }
    }
}

impl TryFrom<v1::DeviceChange> for DeviceChange {
    type Error = DecodeError;

    fn try_from(wire: v1::DeviceChange) -> Result<Self, DecodeError> {
        Ok(Self {
            key: DeviceKey(wire.key),
            info: wire.info.map(DeviceInfo::try_from).transpose()?.map(Arc::new),
            status: status_from_wire(wire.status),
            readings: wire.readings.as_ref().map(Into::into),
        })
    }
}

impl From<&ProcessChange> for v1::ProcessChange {
    fn from(change: &ProcessChange) -> Self {
        let state = change.state.map_or(v1::ProcessState::Unspecified, state_to_wire);
        let uses = change.uses.as_ref();
        Self {
            identity: Some(change.identity.into()),
            info: change.info.as_deref().map(Into::into),
            state: state.into(),
            readings: change.readings.as_ref().map(Into::into),
            device_uses: uses.map(|uses| v1::DeviceUses { uses: uses.iter().map(Into::into).collect() }),
        }
    }
}

impl TryFrom<v1::ProcessChange> for ProcessChange {
    type Error = DecodeError;

    fn try_from(wire: v1::ProcessChange) -> Result<Self, DecodeError> {
        Ok(Self {
            identity: wire.identity.ok_or(DecodeError::Missing("identity"))?.into(),
            info: wire.info.map(|info| Arc::new(ProcessInfo::from(info))),
            state: state_from_wire(wire.state),
            readings: wire.readings.as_ref().map(Into::into),
            uses: wire.device_uses.map(|uses| uses.uses.into_iter().map(DeviceUse::from).collect()),
        })
    }
}

/// The device part of a delta; `None` when nothing happened.
pub fn encode_devices(delta: &HostDelta) -> Option<v1::DeviceChanges> {
    let happened = !delta.devices.is_empty() || !delta.removed_devices.is_empty();
    happened.then(|| v1::DeviceChanges {
        upserts: delta.devices.iter().map(Into::into).collect(),
        removed_keys: delta.removed_devices.iter().map(|key| key.0).collect(),
    })
}

/// Device changes and the keys of removed devices.
///
/// # Errors
/// When a device cannot be understood.
pub fn decode_devices(wire: v1::DeviceChanges) -> Result<(Vec<DeviceChange>, Vec<DeviceKey>), DecodeError> {
    let changes = wire.upserts.into_iter().map(DeviceChange::try_from).collect::<Result<_, _>>()?;
    Ok((changes, wire.removed_keys.into_iter().map(DeviceKey).collect()))
}

/// The process part of a delta; `None` when nothing happened.
pub fn encode_processes(delta: &HostDelta) -> Option<v1::ProcessChanges> {
    let happened = !delta.processes.is_empty() || !delta.removed_processes.is_empty();
    happened.then(|| v1::ProcessChanges {
        upserts: delta.processes.iter().map(Into::into).collect(),
        removed: delta.removed_processes.iter().map(|identity| (*identity).into()).collect(),
    })
}

/// Process changes and the identities of removed processes.
///
/// # Errors
/// When a process cannot be understood.
pub fn decode_processes(wire: v1::ProcessChanges) -> Result<(Vec<ProcessChange>, Vec<ProcessIdentity>), DecodeError> {
    let changes = wire.upserts.into_iter().map(ProcessChange::try_from).collect::<Result<_, _>>()?;
    Ok((changes, wire.removed.into_iter().map(Into::into).collect()))
}

/// One message of `WatchHost`.
pub fn encode_host_response(delta: &HostDelta, phase: v1::WatchPhase, coalesced: u64) -> v1::WatchHostResponse {
    v1::WatchHostResponse {
        position: Some(position(phase, delta.sequence, delta.sampled_at, coalesced)),
        host: delta.host.as_deref().map(Into::into),
        devices: encode_devices(delta),
        processes: encode_processes(delta),
        health: Vec::new(),
    }
}

/// The delta in one message of `WatchHost`.
///
/// # Errors
/// When a part cannot be understood.
pub fn decode_host_response(wire: v1::WatchHostResponse) -> Result<HostDelta, DecodeError> {
    let position = wire.position.ok_or(DecodeError::Missing("position"))?;
    let (devices, removed_devices) = wire.devices.map(decode_devices).transpose()?.unwrap_or_default();
    let (processes, removed_processes) = wire.processes.map(decode_processes).transpose()?.unwrap_or_default();
    Ok(HostDelta {
        sequence: position.sequence,
        sampled_at: required_time(position.sampled_at, "sampled_at")?,
        host: wire.host.map(Host::try_from).transpose()?.map(Arc::new),
        devices,
        removed_devices,
        processes,
        removed_processes,
    })
}

/// Splits a delta into deltas whose messages stay below [`MAX_CHUNK_BYTES`]. Applied in order they give the same
/// snapshot. What is gone comes first, and devices before the processes that use them. One device or process that is
/// larger than that alone has a message of its own.
pub fn snapshot_chunks(full: HostDelta) -> Vec<HostDelta> {
    let part = |host, devices, processes| HostDelta {
        sequence: full.sequence,
        sampled_at: full.sampled_at,
        host,
        devices,
        removed_devices: Vec::new(),
        processes,
        removed_processes: Vec::new(),
    };
    let host_length = full.host.as_deref().map_or(0, |host| framed(v1::Host::from(host).encoded_len()));
    let removed_length =
        full.removed_devices.len() * REMOVED_DEVICE_BYTES + full.removed_processes.len() * REMOVED_PROCESS_BYTES;
    let mut size = ENVELOPE_BYTES + host_length + removed_length;
    let mut first = part(full.host, Vec::new(), Vec::new());
    first.removed_devices = full.removed_devices;
    first.removed_processes = full.removed_processes;
    let mut chunks = vec![first];
    let mut place = |chunks: &mut Vec<HostDelta>, length: usize| {
        let length = framed(length);
        if size > ENVELOPE_BYTES && size + length > MAX_CHUNK_BYTES {
            chunks.push(part(None, Vec::new(), Vec::new()));
            size = ENVELOPE_BYTES;
        }
        size += length;
    };
    for device in full.devices {
        place(&mut chunks, v1::DeviceChange::from(&device).encoded_len());
        if let Some(last) = chunks.last_mut() {
            last.devices.push(device);
        }
    }
    for process in full.processes {
        place(&mut chunks, v1::ProcessChange::from(&process).encoded_len());
        if let Some(last) = chunks.last_mut() {
            last.processes.push(process);
        }
    }
    chunks
}

/// A message's length with its tag (one byte: all our field numbers here are below 16) and its length.
fn framed(length: usize) -> usize {
    1 + prost::length_delimiter_len(length) + length
}
