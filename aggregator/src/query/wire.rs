//! The aggregator's own facts in wire form.

use gpufleet_proto::convert::{duration, timestamp};
use gpufleet_proto::v1;
use tokio::time::Instant;

use crate::state::{Freshness, HostCell, wall_clock};

/// A host and how the aggregator stands with it.
pub(crate) fn connection(cell: &HostCell, rules: &Freshness, now: Instant) -> v1::HostConnection {
    let state = cell.state(rules, now);
    let record = cell.record();
    let entry = cell.entry();
    let snapshot = record.sample.as_ref().map(|sample| &sample.snapshot);
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    v1::HostConnection {
        name: cell.name().to_string(),
        address: entry.address.clone(),
        state: state.connection.into(),
        sample_age: state.sample_age.map(duration),
        state_since: Some(timestamp(wall_clock(state.since, now))),
        problem: state.problem.map(|problem| problem.to_string()),
        host: snapshot.map(|snapshot| snapshot.host.as_ref().into()),
        labels: entry.labels.clone().into_iter().collect(),
        device_count: snapshot.map(|snapshot| count(snapshot.devices.len())),
        process_count: snapshot.map(|snapshot| count(snapshot.processes.len())),
    }
}
