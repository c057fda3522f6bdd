//! Whether what a filter names exists.
//!
//! A name that does not exist is an error, never an empty success. Whether a device or a pid exists can be said only
//! while every host that could have it is present; otherwise the answer is partial and names the missing hosts.

use std::collections::HashSet;

use gpufleet_proto::status::Reason;
use tokio::time::Instant;
use tonic::Status;

use super::Filter;
use crate::state::Fleet;
use crate::turns::Turns;

impl Filter {
    /// Refuses a device that no selected host has, and a pid that none runs on a device.
    pub(crate) async fn check_exists(&self, fleet: &Fleet) -> Result<(), Status> {
        self.check(fleet, self.named_pids().clone()).await
    }

    /// The same for devices alone, where the pids are looked for elsewhere.
    pub(crate) async fn check_devices(&self, fleet: &Fleet) -> Result<(), Status> {
        self.check(fleet, HashSet::new()).await
    }

    /// Refuses the pids that are named and that `found` does not hold.
    pub(crate) fn check_pids(&self, found: &HashSet<u32>) -> Result<(), Status> {
        match self.named_pids().difference(found).min() {
            Some(pid) => Err(unknown_process(*pid, "")),
            None => Ok(()),
        }
    }

    async fn check(&self, fleet: &Fleet, mut pids: HashSet<u32>) -> Result<(), Status> {
        let mut devices = self.named_devices().clone();
        if devices.is_empty() && pids.is_empty() {
            return Ok(());
        }
        let (cells, now, mut turns) = (self.hosts(&fleet.table()), Instant::now(), Turns::default());
        if !cells.iter().all(|cell| cell.state(fleet.freshness(), now).is_current()) {
            return Ok(());
        }
        for cell in cells {
            if let Some(sample) = &cell.record().sample {
                sample.snapshot.devices.values().for_each(|device| devices.strike(&device.info));
                sample.snapshot.processes.keys().for_each(|identity| _ = pids.remove(&identity.pid));
            }
            if devices.is_empty() && pids.is_empty() {
                return Ok(());
            }
            turns.take().await;
        }
        if let Some(index) = devices.indexes.iter().min() {
            return Err(unknown_device("index", index.to_string()));
        }
        if let Some(uuid) = devices.uuids.into_iter().min() {
            return Err(unknown_device("UUID", uuid));
        }
        match pids.into_iter().min() {
            Some(pid) => Err(unknown_process(pid, " on a device")),
            None => Ok(()),
        }
    }
}

fn unknown_device(by: &str, device: String) -> Status {
    let message = format!("no selected host has a device with {by} `{device}`");
    Reason::UnknownDevice.status(message, [("device", device)])
}

fn unknown_process(pid: u32, place: &str) -> Status {
    let message = format!("no selected host has a process `{pid}`{place}");
    Reason::UnknownProcess.status(message, [("pid", pid.to_string())])
}
