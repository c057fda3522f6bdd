//! The hosts, and how the aggregator stands with them.

use std::sync::Arc;

use gpufleet_proto::v1;
use prost::Message as _;
use tokio::time::Instant;

use super::{Before, Visit, Watched};
use crate::query::{Filter, connection};
use crate::state::marks::Aspect;
use crate::state::{Fleet, HostCell, HostRecord};

/// `WatchFleet`.
pub(crate) struct WatchedHosts {
    /// Whose rules of freshness hold.
    pub(crate) fleet: Arc<Fleet>,
}

/// A host that appeared or changed, or the name of one that is gone.
pub(crate) enum HostPart {
    Upsert(Box<v1::HostConnection>),
    Removed(String),
}

impl Watched for WatchedHosts {
    type Message = v1::WatchFleetResponse;
    type Part = HostPart;

    fn aspects(filter: &Filter) -> &'static [Aspect] {
        if filter.is_whole_hosts() { &[Aspect::Host] } else { &[Aspect::Host, Aspect::Devices, Aspect::Processes] }
    }

    fn visit(&self, filter: &Filter, cell: &HostCell, record: &HostRecord, before: Before<'_>) -> Visit<Self::Part> {
        let holds = filter.selects_host(record.sample.as_ref().map(|sample| &*sample.snapshot));
        let part = match (holds, before) {
            (true, _) => {
                let host = connection(cell, self.fleet.freshness(), Instant::now());
                Some(HostPart::Upsert(Box::new(host)))
            }
            (false, Before::Nothing) => None,
            (false, Before::Void | Before::State(_)) => Some(HostPart::Removed(cell.name().to_string())),
        };
        Visit { parts: part.into_iter().collect(), holds }
    }

    fn gone(&self, name: &str) -> Self::Part {
        HostPart::Removed(name.to_string())
    }

    fn size(part: &Self::Part) -> usize {
        match part {
            HostPart::Upsert(host) => host.encoded_len(),
            HostPart::Removed(name) => name.len(),
        }
    }

    fn message(position: v1::WatchPosition, parts: Vec<Self::Part>, _: Vec<v1::MissingHost>) -> Self::Message {
        // A host that left and came back under the same name is removed first: readers take removals before upserts.
        let (mut upserts, mut removed) = (Vec::new(), Vec::new());
        for part in parts {
            match part {
                HostPart::Upsert(host) => upserts.push(*host),
                HostPart::Removed(name) => removed.push(name),
            }
        }
        v1::WatchFleetResponse { position: Some(position), upserts, removed }
    }
}
