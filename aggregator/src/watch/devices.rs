//! The devices of the fleet.

use gpufleet_proto::convert::timestamp;
use gpufleet_proto::v1;
use prost::Message as _;

use super::difference::device_changes;
use super::{Before, Visit, Watched};
use crate::query::Filter;
use crate::state::marks::Aspect;
use crate::state::{HostCell, HostRecord};

/// `WatchDevices`.
pub(crate) struct WatchedDevices;

impl Watched for WatchedDevices {
    type Message = v1::FleetServiceWatchDevicesResponse;
    type Part = v1::HostDeviceChanges;

    fn aspects(filter: &Filter) -> &'static [Aspect] {
        // Which devices are meant depends on who uses them only when the filter says so.
        if filter.narrows_processes() { &[Aspect::Devices, Aspect::Processes] } else { &[Aspect::Devices] }
    }

    fn visit(&self, filter: &Filter, cell: &HostCell, record: &HostRecord, before: Before<'_>) -> Visit<Self::Part> {
        let Some(sample) = &record.sample else { return Visit { parts: Vec::new(), holds: false } };
        let (mut changes, holds) = device_changes(filter, before, &sample.snapshot);
        let void = matches!(before, Before::Void);
        if void && changes.is_empty() {
            changes.push(v1::DeviceChanges::default());
        }
        let part = |(number, changes)| v1::HostDeviceChanges {
            host: cell.name().to_string(),
            sampled_at: Some(timestamp(sample.snapshot.sampled_at)),
            reset: void && number == 0,
            changes: Some(changes),
        };
        Visit { parts: changes.into_iter().enumerate().map(part).collect(), holds }
    }

    fn gone(&self, name: &str) -> Self::Part {
        v1::HostDeviceChanges { host: name.to_string(), sampled_at: None, reset: true, changes: None }
    }

    fn size(part: &Self::Part) -> usize {
        part.encoded_len()
    }

    fn message(position: v1::WatchPosition, hosts: Vec<Self::Part>, missing: Vec<v1::MissingHost>) -> Self::Message {
        v1::FleetServiceWatchDevicesResponse { position: Some(position), hosts, missing }
    }
}
