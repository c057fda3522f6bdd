//! Which hosts, devices and processes a request means.
//!
//! In: a `FleetFilter` of the wire. Out: a [`Filter`] whose predicates are cheap and pure, so that a watcher can ask
//! them of an old and of a new state alike, see `selection`. Whether what is named exists is asked in `existence`.

use std::collections::HashSet;
use std::sync::Arc;

use gpufleet_model::{Device, DeviceInfo, Process};
use gpufleet_proto::status::Reason;
use gpufleet_proto::v1;
use tonic::Status;

use super::near;
use crate::state::{HostCell, HostTable};

/// The most names, users or pids in one filter.
const MAX_ITEMS: usize = 10_000;
/// The longest name or UUID taken.
const MAX_ITEM_BYTES: usize = 256;

/// A validated filter. All that is set must hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    hosts: Option<Arc<HashSet<String>>>,
    devices: DeviceNames,
    users: HashSet<String>,
    pids: HashSet<u32>,
}

/// Devices that are named.
#[derive(Debug, Clone, Default)]
pub(super) struct DeviceNames {
    pub(super) indexes: HashSet<u32>,
    pub(super) uuids: HashSet<String>,
}

impl DeviceNames {
    fn new(names: Vec<String>) -> Self {
        let mut devices = Self::default();
        for name in names {
            match name.parse() {
                Ok(index) => devices.indexes.insert(index),
                Err(_) => devices.uuids.insert(name),
            };
        }
        devices
    }

    pub(super) fn is_empty(&self) -> bool {
        self.indexes.is_empty() && self.uuids.is_empty()
    }

    fn contain(&self, info: &DeviceInfo) -> bool {
        self.indexes.contains(&info.index)
            || self.uuids.contains(&info.uuid)
            // A physical device stands for its MIG instances too.
            || info.mig.as_ref().is_some_and(|mig| self.uuids.contains(&mig.parent_uuid))
    }

    /// Strikes out what names this device.
    pub(super) fn strike(&mut self, info: &DeviceInfo) {
        self.indexes.remove(&info.index);
        self.uuids.remove(&info.uuid);
        if let Some(mig) = &info.mig {
            self.uuids.remove(&mig.parent_uuid);
        }
    }
}

impl Filter {
    /// Checks the filter's form, and that its hosts are in the inventory.
    pub(crate) fn parse(filter: Option<v1::FleetFilter>, table: &HostTable) -> Result<Self, Status> {
        let v1::FleetFilter { hosts, devices, users, pids, expression } = filter.unwrap_or_default();
        if !expression.is_empty() {
            let message = "filter expressions are not supported by this aggregator; use hosts, devices, users and pids";
            return Err(Reason::NotImplemented.status(message, [("field", "filter.expression".to_owned())]));
        }
        for (field, count) in
            [("hosts", hosts.len()), ("devices", devices.len()), ("users", users.len()), ("pids", pids.len())]
        {
            if count > MAX_ITEMS {
                return Err(invalid(field, &format!("{count} items; the most is {MAX_ITEMS}")));
            }
        }
        for (field, items) in [("hosts", &hosts), ("devices", &devices), ("users", &users)] {
            if items.iter().any(String::is_empty) {
                return Err(invalid(field, "an item is empty"));
            }
            if items.iter().any(|item| item.len() > MAX_ITEM_BYTES) {
                return Err(invalid(field, &format!("an item is longer than {MAX_ITEM_BYTES} bytes")));
            }
        }
        if let Some(unknown) = hosts.iter().find(|name| table.get(name).is_none()) {
            return Err(unknown_host(unknown, table));
        }
        if pids.contains(&0) {
            return Err(invalid("pids", "0 is not a process id"));
        }
        Ok(Self {
            hosts: (!hosts.is_empty()).then(|| Arc::new(hosts.into_iter().collect())),
            devices: DeviceNames::new(devices),
            users: users.into_iter().collect(),
            pids: pids.into_iter().collect(),
        })
    }

    /// True when only hosts are selected, or nothing.
    pub(crate) fn is_whole_hosts(&self) -> bool {
        self.devices.is_empty() && !self.narrows_processes()
    }

    /// True when users or pids are named.
    pub(crate) fn narrows_processes(&self) -> bool {
        !(self.users.is_empty() && self.pids.is_empty())
    }

    /// True when pids are named.
    pub(crate) fn names_pids(&self) -> bool {
        !self.pids.is_empty()
    }

    /// True when devices are named.
    pub(crate) fn narrows_devices(&self) -> bool {
        !self.devices.is_empty()
    }

    /// True when every host is meant.
    pub(crate) fn is_every_host(&self) -> bool {
        self.hosts.is_none()
    }

    /// The hosts that may hold something that is meant, by name.
    pub(crate) fn hosts(&self, table: &HostTable) -> Vec<Arc<HostCell>> {
        match &self.hosts {
            None => table.hosts().to_vec(),
            Some(names) => {
                let mut cells: Vec<_> = names.iter().filter_map(|name| table.get(name).cloned()).collect();
                cells.sort_unstable_by(|a, b| a.name().cmp(b.name()));
                cells
            }
        }
    }

    pub(super) fn named_devices(&self) -> &DeviceNames {
        &self.devices
    }

    pub(super) fn named_pids(&self) -> &HashSet<u32> {
        &self.pids
    }

    pub(super) fn names_device(&self, device: &Device) -> bool {
        self.devices.is_empty() || self.devices.contain(&device.info)
    }

    pub(super) fn names_process(&self, process: &Process) -> bool {
        self.names_pid_and_user(process.identity.pid, process.info.user.as_deref())
    }

    pub(super) fn names_pid_and_user(&self, pid: u32, user: Option<&str>) -> bool {
        (self.pids.is_empty() || self.pids.contains(&pid))
            && (self.users.is_empty() || user.is_some_and(|user| self.users.contains(user)))
    }
}

/// The error for a host that is not in the inventory, with the names that resemble it.
pub(crate) fn unknown_host(name: &str, table: &HostTable) -> Status {
    let suggestion = near::suggestion(name, table.hosts().iter().map(|cell| &**cell.name()));
    let message = format!("host `{name}` is not in the inventory{suggestion}");
    Reason::UnknownHost.status(message, [("host", name.to_owned())])
}

fn invalid(field: &str, problem: &str) -> Status {
    Reason::InvalidFilter.status(format!("filter.{field}: {problem}"), [("field", format!("filter.{field}"))])
}
