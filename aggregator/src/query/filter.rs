//! Which hosts, devices and processes a request means.
//!
//! In: a `FleetFilter` of the wire. Out: a [`Filter`] whose predicates are cheap and pure, so that a watcher can ask
//! them of an old and of a new state alike. A name that does not exist is an error, never an empty success; whether a
//! device or a pid exists can be said only while every host that could have it is present.

use std::collections::HashSet;
use std::sync::Arc;

use gpufleet_model::{Device, HostSnapshot, Process};
use gpufleet_proto::status::Reason;
use gpufleet_proto::v1;
use tokio::time::Instant;
use tonic::Status;

use super::near;
use crate::state::{Fleet, HostCell, HostTable};

/// The most names, users or pids in one filter.
const MAX_ITEMS: usize = 10_000;
/// The longest name or UUID taken.
const MAX_ITEM_BYTES: usize = 256;

/// A validated filter. All that is set must hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    hosts: Option<Arc<HashSet<String>>>,
    devices: Vec<DeviceSelector>,
    users: HashSet<String>,
    pids: HashSet<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum DeviceSelector {
    Index(u32),
    Uuid(String),
}

impl DeviceSelector {
    fn matches(&self, device: &Device) -> bool {
        match self {
            Self::Index(index) => device.info.index == *index,
            // A physical device stands for its MIG instances too.
            Self::Uuid(uuid) => {
                device.info.uuid == *uuid || device.info.mig.as_ref().is_some_and(|mig| mig.parent_uuid == *uuid)
            }
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Index(index) => index.to_string(),
            Self::Uuid(uuid) => uuid.clone(),
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
            devices: devices
                .into_iter()
                .map(|text| text.parse().map_or_else(|_| DeviceSelector::Uuid(text), DeviceSelector::Index))
                .collect(),
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

    pub(super) fn names_device(&self, device: &Device) -> bool {
        self.devices.is_empty() || self.devices.iter().any(|selector| selector.matches(device))
    }

    pub(super) fn names_process(&self, process: &Process) -> bool {
        self.names_pid_and_user(process.identity.pid, process.info.user.as_deref())
    }

    pub(super) fn names_pid_and_user(&self, pid: u32, user: Option<&str>) -> bool {
        (self.pids.is_empty() || self.pids.contains(&pid))
            && (self.users.is_empty() || user.is_some_and(|user| self.users.contains(user)))
    }

    /// Refuses a device that no host has, and a pid that no host runs on a device, unless a host that is not present
    /// could have it.
    pub(crate) fn check_exists(&self, fleet: &Fleet) -> Result<(), Status> {
        let mut pids = self.pids.clone();
        self.check_devices_and(fleet, |snapshot| {
            pids.retain(|&pid| !snapshot.processes.keys().any(|identity| identity.pid == pid));
        })?;
        if self.all_present(fleet) {
            Self::refuse_pids(&pids, "no selected host has a process `{}` on a device")
        } else {
            Ok(())
        }
    }

    /// The same for devices alone, where the pids are looked for elsewhere.
    pub(crate) fn check_devices(&self, fleet: &Fleet) -> Result<(), Status> {
        self.check_devices_and(fleet, |_| {})
    }

    /// Refuses the pids that are named and that `found` does not hold.
    pub(crate) fn check_pids(&self, found: &HashSet<u32>) -> Result<(), Status> {
        let absent = self.pids.difference(found).copied().collect();
        Self::refuse_pids(&absent, "no selected host has a process `{}`")
    }

    fn check_devices_and(&self, fleet: &Fleet, mut visit: impl FnMut(&HostSnapshot)) -> Result<(), Status> {
        if self.is_whole_hosts() {
            return Ok(());
        }
        let mut absent: Vec<&DeviceSelector> = self.devices.iter().collect();
        for cell in self.hosts(&fleet.table()) {
            if let Some(sample) = &cell.record().sample {
                absent.retain(|selector| !sample.snapshot.devices.values().any(|device| selector.matches(device)));
                visit(&sample.snapshot);
            }
        }
        match absent.first() {
            Some(selector) if self.all_present(fleet) => {
                let text = selector.text();
                let message = match selector {
                    DeviceSelector::Index(_) => format!("no selected host has a device with index `{text}`"),
                    DeviceSelector::Uuid(_) => format!("no selected host has a device with UUID `{text}`"),
                };
                Err(Reason::UnknownDevice.status(message, [("device", text)]))
            }
            _ => Ok(()),
        }
    }

    fn refuse_pids(absent: &HashSet<u32>, message: &str) -> Result<(), Status> {
        match absent.iter().min() {
            Some(pid) => {
                let pid = pid.to_string();
                Err(Reason::UnknownProcess.status(message.replace("{}", &pid), [("pid", pid)]))
            }
            None => Ok(()),
        }
    }

    fn all_present(&self, fleet: &Fleet) -> bool {
        let now = Instant::now();
        self.hosts(&fleet.table()).iter().all(|cell| cell.state(fleet.freshness(), now).is_current())
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
