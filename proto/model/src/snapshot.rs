//! A host at one moment, and what changed between two moments.
//!
//! The agent makes one [`HostSnapshot`] per tick; a [`HostDelta`] is made for each watcher from the snapshot it was
//! last sent, so a slow watcher gets one coalesced delta and never a queue. Parts that did not change share memory
//! between snapshots.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use thiserror::Error;

use crate::device::{Device, DeviceInfo, DeviceKey, DeviceStatus};
use crate::fields::{DeviceReadings, DeviceReadingsPatch, ProcessReadings, ProcessReadingsPatch};
use crate::host::Host;
use crate::process::{DeviceUse, Process, ProcessIdentity, ProcessInfo, ProcessState};
use crate::reading::Unknown;

/// A host at one moment. Immutable once made.
#[derive(Debug, Clone, PartialEq)]
pub struct HostSnapshot {
    /// Counts samples within one run of the agent.
    pub sequence: u64,
    /// When it was taken, by the host's wall clock.
    pub sampled_at: SystemTime,
    /// The host.
    pub host: Arc<Host>,
    /// The devices.
    pub devices: BTreeMap<DeviceKey, Arc<Device>>,
    /// The processes that use a device, or every process where the watcher asked for that.
    pub processes: BTreeMap<ProcessIdentity, Arc<Process>>,
}

/// One device that appeared or changed. Fields that did not change are `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceChange {
    /// Which device.
    pub key: DeviceKey,
    /// Set when the device is new to the receiver, or its static facts changed.
    pub info: Option<Arc<DeviceInfo>>,
    /// Set when the status changed.
    pub status: Option<DeviceStatus>,
    /// The readings that changed.
    pub readings: Option<DeviceReadingsPatch>,
}

/// One process that appeared or changed.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessChange {
    /// Which process.
    pub identity: ProcessIdentity,
    /// Set when the process is new to the receiver, or its facts changed.
    pub info: Option<Arc<ProcessInfo>>,
    /// Set when the scheduling state changed.
    pub state: Option<ProcessState>,
    /// The readings that changed.
    pub readings: Option<ProcessReadingsPatch>,
    /// Every use, when any of them changed.
    pub uses: Option<Vec<DeviceUse>>,
}

/// What turns one snapshot of a host into another.
#[derive(Debug, Clone, PartialEq)]
pub struct HostDelta {
    /// Sequence of the resulting snapshot.
    pub sequence: u64,
    /// Sample time of the resulting snapshot.
    pub sampled_at: SystemTime,
    /// Set when anything about the host itself changed.
    pub host: Option<Arc<Host>>,
    /// Devices that appeared or changed.
    pub devices: Vec<DeviceChange>,
    /// Devices that are gone.
    pub removed_devices: Vec<DeviceKey>,
    /// Processes that appeared or changed.
    pub processes: Vec<ProcessChange>,
    /// Processes that are gone.
    pub removed_processes: Vec<ProcessIdentity>,
}

/// A delta that does not fit the snapshot it is applied to: the receiver must start over.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// A device changed that was never introduced.
    #[error("device `{}` changed before it was introduced", .0.0)]
    UnknownDevice(DeviceKey),
    /// A process changed that was never introduced.
    #[error("process `{}` changed before it was introduced", .0.pid)]
    UnknownProcess(ProcessIdentity),
}

impl HostDelta {
    /// Everything in `after`, for a receiver that has nothing.
    pub fn full(after: &HostSnapshot) -> Self {
        Self {
            sequence: after.sequence,
            sampled_at: after.sampled_at,
            host: Some(Arc::clone(&after.host)),
            devices: after.devices.values().map(|d| DeviceChange::full(d)).collect(),
            removed_devices: Vec::new(),
            processes: after.processes.values().map(|p| ProcessChange::full(p)).collect(),
            removed_processes: Vec::new(),
        }
    }

    /// What turns `before` into `after`.
    pub fn between(before: &HostSnapshot, after: &HostSnapshot) -> Self {
        let host_changed = !Arc::ptr_eq(&before.host, &after.host) && before.host != after.host;
        Self {
            sequence: after.sequence,
            sampled_at: after.sampled_at,
            host: host_changed.then(|| Arc::clone(&after.host)),
            devices: changes(&before.devices, &after.devices, DeviceChange::full, DeviceChange::between),
            removed_devices: removed(&before.devices, &after.devices),
            processes: changes(&before.processes, &after.processes, ProcessChange::full, ProcessChange::between),
            removed_processes: removed(&before.processes, &after.processes),
        }
    }

    /// True when nothing changed but the sample time.
    pub fn is_empty(&self) -> bool {
        self.host.is_none()
            && self.devices.is_empty()
            && self.removed_devices.is_empty()
            && self.processes.is_empty()
            && self.removed_processes.is_empty()
    }
}

impl HostSnapshot {
    /// Turns this snapshot into the one the delta was made for.
    ///
    /// # Errors
    /// When the delta changes something that this snapshot never had; the snapshot may then be half changed and must
    /// be thrown away.
    pub fn apply(&mut self, delta: &HostDelta) -> Result<(), ApplyError> {
        self.sequence = delta.sequence;
        self.sampled_at = delta.sampled_at;
        if let Some(host) = &delta.host {
            self.host = Arc::clone(host);
        }
        for key in &delta.removed_devices {
            self.devices.remove(key);
        }
        for change in &delta.devices {
            change.apply_to(&mut self.devices)?;
        }
        for identity in &delta.removed_processes {
            self.processes.remove(identity);
        }
        for change in &delta.processes {
            change.apply_to(&mut self.processes)?;
        }
        Ok(())
    }
}

impl DeviceChange {
    /// The whole device, for a receiver that does not have it.
    pub fn full(device: &Device) -> Self {
        Self {
            key: device.key,
            info: Some(Arc::clone(&device.info)),
            status: Some(device.status),
            readings: Some(device.readings.full_patch()),
        }
    }

    /// What turns `before` into `after`.
    pub fn between(before: &Device, after: &Device) -> Self {
        Self {
            key: after.key,
            // Static facts are shared between snapshots as a rule: then there is nothing to compare.
            info: (!Arc::ptr_eq(&before.info, &after.info) && before.info != after.info)
                .then(|| Arc::clone(&after.info)),
            status: (before.status != after.status).then_some(after.status),
            readings: before.readings.patch_to(&after.readings),
        }
    }

    /// True when nothing changed.
    pub fn is_empty(&self) -> bool {
        self.info.is_none() && self.status.is_none() && self.readings.is_none()
    }

    /// Makes the change in a set of devices.
    ///
    /// # Errors
    /// When the device is not in the set and the change does not introduce it.
    pub fn apply_to(&self, devices: &mut BTreeMap<DeviceKey, Arc<Device>>) -> Result<(), ApplyError> {
        if let Some(device) = devices.get_mut(&self.key) {
            let device = Arc::make_mut(device);
            if let Some(info) = &self.info {
                device.info = Arc::clone(info);
            }
            device.status = self.status.unwrap_or(device.status);
            if let Some(readings) = &self.readings {
                device.readings.apply(readings);
            }
            return Ok(());
        }
        let (Some(info), Some(status)) = (&self.info, self.status) else {
            return Err(ApplyError::UnknownDevice(self.key));
        };
        let mut readings = DeviceReadings::unknown(Unknown::NotSupported);
        if let Some(patch) = &self.readings {
            readings.apply(patch);
        }
        devices.insert(self.key, Arc::new(Device { key: self.key, info: Arc::clone(info), status, readings }));
        Ok(())
    }
}

impl ProcessChange {
    /// The whole process, for a receiver that does not have it.
    pub fn full(process: &Process) -> Self {
        Self {
            identity: process.identity,
            info: Some(Arc::clone(&process.info)),
            state: Some(process.state),
            readings: Some(process.readings.full_patch()),
            uses: Some(process.uses.clone()),
        }
    }

    /// What turns `before` into `after`.
    pub fn between(before: &Process, after: &Process) -> Self {
        Self {
            identity: after.identity,
            info: (before.info != after.info).then(|| Arc::clone(&after.info)),
            state: (before.state != after.state).then_some(after.state),
            readings: before.readings.patch_to(&after.readings),
            uses: (before.uses != after.uses).then(|| after.uses.clone()),
        }
    }

    /// True when nothing changed.
    pub fn is_empty(&self) -> bool {
        self.info.is_none() && self.state.is_none() && self.readings.is_none() && self.uses.is_none()
    }

    /// Makes the change in a set of processes.
    ///
    /// # Errors
    /// When the process is not in the set and the change does not introduce it.
    pub fn apply_to(&self, processes: &mut BTreeMap<ProcessIdentity, Arc<Process>>) -> Result<(), ApplyError> {
        if let Some(process) = processes.get_mut(&self.identity) {
            let process = Arc::make_mut(process);
            if let Some(info) = &self.info {
                process.info = Arc::clone(info);
            }
            process.state = self.state.unwrap_or(process.state);
            if let Some(readings) = &self.readings {
                process.readings.apply(readings);
            }
            if let Some(uses) = &self.uses {
                process.uses.clone_from(uses);
            }
            return Ok(());
        }
        let (Some(info), Some(state)) = (&self.info, self.state) else {
            return Err(ApplyError::UnknownProcess(self.identity));
        };
        let mut readings = ProcessReadings::unknown(Unknown::NotSupported);
        if let Some(patch) = &self.readings {
            readings.apply(patch);
        }
        processes.insert(
            self.identity,
            Arc::new(Process {
                identity: self.identity,
                info: Arc::clone(info),
                state,
                readings,
                uses: self.uses.clone().unwrap_or_default(),
            }),
        );
        Ok(())
    }
}

fn changes<K: Ord, V: PartialEq, C>(
    before: &BTreeMap<K, Arc<V>>,
    after: &BTreeMap<K, Arc<V>>,
    full: impl Fn(&V) -> C,
    between: impl Fn(&V, &V) -> C,
) -> Vec<C> {
    after
        .iter()
        .filter_map(|(key, new)| match before.get(key) {
            None => Some(full(new)),
            Some(old) if Arc::ptr_eq(old, new) || old == new => None,
            Some(old) => Some(between(old, new)),
        })
        .collect()
}

fn removed<K: Ord + Copy, V>(before: &BTreeMap<K, V>, after: &BTreeMap<K, V>) -> Vec<K> {
    before.keys().filter(|key| !after.contains_key(key)).copied().collect()
}
