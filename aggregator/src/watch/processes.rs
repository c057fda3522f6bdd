//! The processes on the fleet's devices.

use gpufleet_proto::convert::timestamp;
use gpufleet_proto::v1;
use prost::Message as _;

use super::difference::process_changes;
use super::{Before, Visit, Watched};
use crate::query::Filter;
use crate::state::marks::Aspect;
use crate::state::{HostCell, HostRecord};

/// `WatchProcesses`.
pub(crate) struct WatchedProcesses;

impl Watched for WatchedProcesses {
    type Message = v1::FleetServiceWatchProcessesResponse;
    type Part = v1::HostProcessChanges;

    fn aspects(filter: &Filter) -> &'static [Aspect] {
        // Devices of a process are told by UUID or index only when the filter names some.
        if filter.narrows_devices() { &[Aspect::Processes, Aspect::Devices] } else { &[Aspect::Processes] }
    }

    fn visit(&self, filter: &Filter, cell: &HostCell, record: &HostRecord, before: Before<'_>) -> Visit<Self::Part> {
        let Some(sample) = &record.sample else { return Visit { parts: Vec::new(), holds: false } };
        let (mut changes, holds) = process_changes(filter, before, &sample.snapshot);
        let void = matches!(before, Before::Void);
        if void && changes.is_empty() {
            changes.push(v1::ProcessChanges::default());
        }
        let part = |(number, changes)| v1::HostProcessChanges {
            host: cell.name().to_string(),
            sampled_at: Some(timestamp(sample.snapshot.sampled_at)),
            reset: void && number == 0,
            changes: Some(changes),
            boot_id: sample.snapshot.host.boot_id.clone(),
        };
        Visit { parts: changes.into_iter().enumerate().map(part).collect(), holds }
    }

    fn gone(&self, name: &str) -> Self::Part {
        v1::HostProcessChanges { host: name.to_string(), reset: true, ..v1::HostProcessChanges::default() }
    }

    fn size(part: &Self::Part) -> usize {
        part.encoded_len()
    }

    fn message(position: v1::WatchPosition, hosts: Vec<Self::Part>, missing: Vec<v1::MissingHost>) -> Self::Message {
        v1::FleetServiceWatchProcessesResponse { position: Some(position), hosts, missing }
    }
}
