//! The hosts whose current state is not in an answer.

use std::sync::Arc;

use gpufleet_proto::convert::duration;
use gpufleet_proto::v1;
use prost::Message as _;
use tokio::time::Instant;

use crate::state::{Freshness, HostCell, HostState};

/// Lists beyond this size are sent without the reasons, so that one message holds a very large fleet.
const MAX_BYTES: usize = 1 << 20;

/// The hosts of `cells` that are not current.
pub(crate) fn missing_hosts(cells: &[Arc<HostCell>], rules: &Freshness) -> Vec<v1::MissingHost> {
    let now = Instant::now();
    bounded(cells.iter().filter_map(|cell| missing(cell, &cell.state(rules, now))).collect())
}

/// The host, when it is not current.
pub(crate) fn missing(cell: &HostCell, state: &HostState) -> Option<v1::MissingHost> {
    (!state.is_current()).then(|| v1::MissingHost {
        host: cell.name().to_string(),
        state: state.connection.into(),
        problem: state.problem.as_ref().map(ToString::to_string).unwrap_or_default(),
        sample_age: state.sample_age.map(duration),
    })
}

/// The list, without reasons when it is too long to send them.
pub(crate) fn bounded(mut missing: Vec<v1::MissingHost>) -> Vec<v1::MissingHost> {
    if missing.iter().map(v1::MissingHost::encoded_len).sum::<usize>() > MAX_BYTES {
        for host in &mut missing {
            host.problem = String::new();
        }
    }
    missing
}
