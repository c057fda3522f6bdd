//! What a filter means of one state of one host.

use gpufleet_model::{Device, DeviceKey, HostSnapshot, Process};
use gpufleet_proto::v1;

use super::Filter;

/// A filter applied to a state. Made once per state, so that asking it of many devices costs little.
pub(crate) struct Selection<'a> {
    filter: &'a Filter,
    snapshot: &'a HostSnapshot,
    /// Devices that a named process uses; `None` when no processes are named.
    used: Option<Vec<DeviceKey>>,
}

impl Filter {
    /// What is meant of a state.
    pub(crate) fn select<'a>(&'a self, snapshot: &'a HostSnapshot) -> Selection<'a> {
        let used = self.narrows_processes().then(|| {
            let named = snapshot.processes.values().filter(|process| self.names_process(process));
            named.flat_map(|process| process.uses.iter().map(|used| used.device)).collect()
        });
        Selection { filter: self, snapshot, used }
    }

    /// True when the host itself is meant: by name, and by what is on it when devices, users or pids are named.
    pub(crate) fn selects_host(&self, snapshot: Option<&HostSnapshot>) -> bool {
        if self.is_whole_hosts() {
            return true;
        }
        let Some(snapshot) = snapshot else { return false };
        let selection = self.select(snapshot);
        if self.narrows_processes() {
            snapshot.processes.values().any(|process| selection.process(process))
        } else {
            snapshot.devices.values().any(|device| selection.device(device))
        }
    }
}

impl Selection<'_> {
    /// True when the device is meant: named, and used by a process that is meant when users or pids are named.
    pub(crate) fn device(&self, device: &Device) -> bool {
        self.filter.names_device(device) && self.used.as_ref().is_none_or(|used| used.contains(&device.key))
    }

    /// True when the process is meant: named, and on a device that is meant when devices are named.
    pub(crate) fn process(&self, process: &Process) -> bool {
        self.filter.names_process(process) && self.any_device(process.uses.iter().map(|used| used.device))
    }

    /// True when a process that an agent listed anew is meant. Its devices are told by the keys of this state.
    pub(crate) fn listed(&self, process: &v1::ProcessChange) -> bool {
        let pid = process.identity.as_ref().map_or(0, |identity| identity.pid);
        let user = process.info.as_ref().and_then(|info| info.user.as_deref());
        let uses = process.device_uses.as_ref().map_or(&[][..], |list| list.uses.as_slice());
        self.filter.names_pid_and_user(pid, user) && self.any_device(uses.iter().map(|used| DeviceKey(used.device_key)))
    }

    fn any_device(&self, mut keys: impl Iterator<Item = DeviceKey>) -> bool {
        let named = |key| self.snapshot.devices.get(&key).is_some_and(|device| self.filter.names_device(device));
        !self.filter.narrows_devices() || keys.any(named)
    }
}
