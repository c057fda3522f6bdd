//! Totals over the fleet.
//!
//! Hosts are counted by their state; devices and processes only on hosts whose state is current, the others are named
//! as missing. A reading that is unknown adds nothing and is not counted among the devices summed over. MIG instances
//! are counted apart: their memory and work are their physical device's.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use gpufleet_model::{Device, DeviceKey, DeviceStatus, HostSnapshot};
use gpufleet_proto::v1::{self, ConnectionState};
use tokio::time::Instant;

use super::Filter;
use super::missing::{bounded, missing};
use crate::state::{Freshness, HostCell};
use crate::turns::Turns;

/// Totals of the selected part of the fleet, by the values of the labels in `group_by`.
pub(crate) async fn summarize(
    cells: &[Arc<HostCell>],
    filter: &Filter,
    group_by: &[String],
    rules: &Freshness,
) -> v1::GetFleetSummaryResponse {
    let (now, mut turns) = (Instant::now(), Turns::default());
    let mut groups: BTreeMap<Vec<String>, Group> = BTreeMap::new();
    let mut absent = Vec::new();
    if group_by.is_empty() {
        groups.entry(Vec::new()).or_default();
    }
    for cell in cells {
        turns.take().await;
        let state = cell.state(rules, now);
        absent.extend(missing(cell, &state));
        let record = cell.record();
        let snapshot = record.sample.as_ref().map(|sample| &*sample.snapshot);
        // A host whose devices are not known now cannot be said to be outside the selection.
        if state.is_current() && !filter.selects_host(snapshot) {
            continue;
        }
        let entry = cell.entry();
        let key = group_by.iter().map(|label| entry.labels.get(label).cloned().unwrap_or_default()).collect();
        let group = groups.entry(key).or_default();
        group.count_host(state.connection);
        if let (true, Some(snapshot)) = (state.is_current(), snapshot) {
            group.add(snapshot, filter);
        }
    }
    let groups = groups
        .into_iter()
        .map(|(values, group)| group.finish(group_by.iter().cloned().zip(values).collect()))
        .collect();
    v1::GetFleetSummaryResponse { groups, missing: bounded(absent) }
}

#[derive(Debug, Default)]
struct Group {
    totals: v1::FleetSummary,
    utilization_sum: f64,
}

impl Group {
    fn count_host(&mut self, state: ConnectionState) {
        let totals = &mut self.totals;
        let count = match state {
            ConnectionState::Connected => &mut totals.hosts_connected,
            ConnectionState::Stale => &mut totals.hosts_stale,
            ConnectionState::Unreachable => &mut totals.hosts_unreachable,
            ConnectionState::NeverSeen | ConnectionState::Unspecified => &mut totals.hosts_never_seen,
        };
        *count += 1;
    }

    fn add(&mut self, snapshot: &HostSnapshot, filter: &Filter) {
        let (used, selection) = (used_devices(snapshot), filter.select(snapshot));
        for device in snapshot.devices.values().filter(|device| selection.device(device)) {
            if device.info.mig.is_some() {
                self.totals.mig_instances += 1;
            } else {
                self.add_device(device, used.contains(&device.key));
            }
        }
        let selected =
            snapshot.processes.values().filter(|process| !process.uses.is_empty() && selection.process(process));
        self.totals.processes =
            self.totals.processes.saturating_add(u32::try_from(selected.count()).unwrap_or(u32::MAX));
    }

    fn add_device(&mut self, device: &Device, in_use: bool) {
        let totals = &mut self.totals;
        totals.devices += 1;
        totals.devices_in_use += u32::from(in_use);
        totals.devices_unavailable += u32::from(device.status != DeviceStatus::Ok);
        let readings = &device.readings;
        if let (Ok(used), Ok(total)) = (readings.memory_used_bytes, readings.memory_total_bytes) {
            totals.memory_used_bytes = Some(totals.memory_used_bytes.unwrap_or(0).saturating_add(used));
            totals.memory_total_bytes = Some(totals.memory_total_bytes.unwrap_or(0).saturating_add(total));
            totals.memory_devices += 1;
        }
        if let Ok(power) = readings.power_watts {
            totals.power_watts = Some(totals.power_watts.unwrap_or(0.0) + power);
            totals.power_devices += 1;
        }
        if let Ok(utilization) = readings.utilization_percent {
            self.utilization_sum += f64::from(utilization);
            totals.utilization_devices += 1;
        }
    }

    fn finish(self, labels: std::collections::HashMap<String, String>) -> v1::FleetSummary {
        let devices = self.totals.utilization_devices;
        let utilization_percent = (devices > 0).then(|| self.utilization_sum / f64::from(devices));
        v1::FleetSummary { labels, utilization_percent, ..self.totals }
    }
}

/// The physical devices that a process uses, itself or through a MIG instance.
fn used_devices(snapshot: &HostSnapshot) -> HashSet<DeviceKey> {
    let mut used: HashSet<DeviceKey> =
        snapshot.processes.values().flat_map(|process| process.uses.iter().map(|used| used.device)).collect();
    let instances = snapshot.devices.values().filter(|device| used.contains(&device.key));
    let parents: HashSet<&str> =
        instances.filter_map(|device| device.info.mig.as_ref().map(|mig| mig.parent_uuid.as_str())).collect();
    if !parents.is_empty() {
        used.extend(snapshot.devices.values().filter(|d| parents.contains(d.info.uuid.as_str())).map(|d| d.key));
    }
    used
}
