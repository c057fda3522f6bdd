//! What of a view was asked for.

use gpufleet_model::{Device, Process};
use gpufleet_proto::v1;

use super::{HostView, View};
use crate::cli::Selection;
use crate::exit::{CtlError, Result};

/// A selection of hosts, devices, users and pids. All that is set must hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    pub(crate) hosts: Vec<String>,
    gpus: Vec<String>,
    users: Vec<String>,
    pids: Vec<u32>,
}

impl From<&Selection> for Filter {
    fn from(selection: &Selection) -> Self {
        let Selection { hosts, gpus, users, pids, .. } = selection.clone();
        Self { hosts, gpus, users, pids }
    }
}

impl Filter {
    /// For the aggregator, which selects and checks on its side.
    pub(crate) fn to_wire(&self) -> v1::FleetFilter {
        let Self { hosts, gpus, users, pids } = self.clone();
        v1::FleetFilter { hosts, devices: gpus, users, pids, expression: String::new() }
    }

    /// Cuts a view down to what is meant. For sources that do not select by themselves.
    pub(crate) fn cut(&self, view: &mut View) {
        view.hosts.retain(|name, _| self.hosts.is_empty() || self.hosts.contains(name));
        for host in view.hosts.values_mut() {
            let whole = host.clone();
            host.processes.retain(|_, process| self.selects_process(&whole, process));
            host.devices.retain(|_, device| self.selects_device(&whole, device));
        }
    }

    /// Refuses what is named and does not exist.
    ///
    /// # Errors
    /// When a host, device or pid does not exist in a view that holds everything.
    pub(crate) fn check_exists(&self, view: &View) -> Result<()> {
        let known = || view.hosts.keys().cloned().collect::<Vec<_>>().join(", ");
        if let Some(host) = self.hosts.iter().find(|host| !view.hosts.contains_key(*host)) {
            return Err(CtlError::failed(format!("no host `{host}`; there is {}", known())));
        }
        if let Some(gpu) = self.gpus.iter().find(|gpu| !view.devices().any(|(_, device)| names(gpu, device))) {
            return Err(CtlError::failed(format!("no device `{gpu}`; `gpuctl devices` lists them")));
        }
        let has = |pid: u32| view.processes().any(|(_, process)| process.identity.pid == pid);
        if let Some(pid) = self.pids.iter().find(|pid| !has(**pid)) {
            return Err(CtlError::failed(format!(
                "no process {pid} uses a device here; `gpuctl ps --all` lists every process"
            )));
        }
        Ok(())
    }

    fn selects_device(&self, host: &HostView, device: &Device) -> bool {
        let used = |process: &Process| process.uses.iter().any(|used| used.device == device.key);
        self.names_device(device)
            && (!self.narrows_processes()
                || host.processes.values().any(|process| self.names_process(process) && used(process)))
    }

    fn selects_process(&self, host: &HostView, process: &Process) -> bool {
        let mut used = process.uses.iter().filter_map(|used| host.devices.get(&used.device));
        self.names_process(process) && (self.gpus.is_empty() || used.any(|device| self.names_device(device)))
    }

    const fn narrows_processes(&self) -> bool {
        !self.users.is_empty() || !self.pids.is_empty()
    }

    fn names_device(&self, device: &Device) -> bool {
        self.gpus.is_empty() || self.gpus.iter().any(|gpu| names(gpu, device))
    }

    fn names_process(&self, process: &Process) -> bool {
        (self.pids.is_empty() || self.pids.contains(&process.identity.pid))
            && (self.users.is_empty() || process.info.user.as_ref().is_some_and(|user| self.users.contains(user)))
    }
}

/// An index, or a UUID; a physical device stands for its MIG instances too.
fn names(gpu: &str, device: &Device) -> bool {
    let info = &device.info;
    match gpu.parse::<u32>() {
        Ok(index) => info.index == index,
        Err(_) => info.uuid == gpu || info.mig.as_ref().is_some_and(|mig| mig.parent_uuid == gpu),
    }
}
