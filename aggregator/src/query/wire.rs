//! The aggregator's own facts in wire form.

use std::time::{Duration, SystemTime};

use gpufleet_proto::v1;
use tokio::time::Instant;

use crate::state::{Freshness, HostCell, wall_clock};

/// A wall-clock time; times before 1970 cannot come from a working clock and stand as 1970.
pub(crate) fn timestamp(at: SystemTime) -> prost_types::Timestamp {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    prost_types::Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(since.subsec_nanos()).unwrap_or(0),
    }
}

/// A length of time.
pub(crate) fn duration(length: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(length.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(length.subsec_nanos()).unwrap_or(0),
    }
}

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
