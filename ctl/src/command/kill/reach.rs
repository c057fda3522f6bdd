//! How processes are found and signalled: on this host with the caller's own rights, or through an aggregator.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use gpufleet_embed::LocalHost;
use gpufleet_model::ProcessIdentity;
use gpufleet_proto::convert::duration;
use gpufleet_proto::v1::{self, ProcessScope, SignalProcessResponse};

use super::find;
use super::outcome::Ended;
use crate::cli::{Kill, Selection, Target};
use crate::config::Endpoint;
use crate::exit::{CtlError, Result};
use crate::source::{FleetClient, Want, collect, dial_aggregator, dialer, fleet_client, local_host};
use crate::view::{Connection, Event, Filter, View};

/// A way to processes.
pub(super) trait Reach {
    /// A view with every host, and the targets' processes, on devices or not, of those hosts that are connected.
    async fn look_up(&mut self, targets: &BTreeSet<Target>) -> Result<View>;

    /// Asks once for a signal to the pinned process. Never repeated.
    async fn signal(&self, target: v1::ProcessTarget, kill: &Kill, request_id: String)
    -> Result<SignalProcessResponse>;
}

/// This host.
pub(super) struct Here {
    host: LocalHost,
}

impl Here {
    pub(super) fn start() -> Result<Self> {
        Ok(Self { host: local_host(Duration::from_millis(250))? })
    }
}

impl Reach for Here {
    async fn look_up(&mut self, _: &BTreeSet<Target>) -> Result<View> {
        let snapshot = self.host.next(true).await.ok_or_else(|| CtlError::failed("sampling this host ended"))?;
        let mut view = View::new(false);
        view.apply(Event::Snapshot(snapshot))?;
        Ok(view)
    }

    async fn signal(
        &self,
        target: v1::ProcessTarget,
        kill: &Kill,
        request_id: String,
    ) -> Result<SignalProcessResponse> {
        let identity = ProcessIdentity { pid: target.pid, start_ticks: target.start_ticks };
        Ok(self.host.signal(identity, kill.signal, request_id, kill.wait).await?.into())
    }
}

/// A fleet.
pub(super) struct Fleet {
    endpoint: Endpoint,
    client: FleetClient,
}

impl Fleet {
    pub(super) async fn connect(endpoint: &Endpoint, address: &str, tls_dir: &Path) -> Result<Self> {
        let client = fleet_client(dial_aggregator(&dialer(tls_dir)?, address).await?);
        Ok(Self { endpoint: endpoint.clone(), client })
    }
}

impl Reach for Fleet {
    async fn look_up(&mut self, targets: &BTreeSet<Target>) -> Result<View> {
        let interval = Duration::from_secs(1);
        let mut view = collect(&self.endpoint, Want { interval, ..Want::default() }).await?;
        let connected =
            |host: &&String| view.hosts.get(*host).is_some_and(|host| host.connection == Connection::Connected);
        let hosts: BTreeSet<String> =
            targets.iter().filter_map(|target| target.host.as_ref()).filter(connected).cloned().collect();
        if hosts.is_empty() {
            return Ok(view);
        }
        let selection = Selection { hosts: hosts.into_iter().collect(), ..Selection::default() };
        let want = Want { filter: Filter::from(&selection), contents: true, interval, ..Want::default() };
        view.hosts.extend(collect(&self.endpoint, want).await?.hosts);
        let absent =
            targets.iter().filter(|target| matches!(find(&view, target), Err(why) if why.end == Ended::Failed));
        let hosts: BTreeSet<String> =
            absent.filter_map(|target| target.host.clone()).filter(|host| selection.hosts.contains(host)).collect();
        if hosts.is_empty() {
            return Ok(view);
        }
        // Not on a device: the agents are asked for every process.
        let filter = v1::FleetFilter { hosts: hosts.into_iter().collect(), ..v1::FleetFilter::default() };
        let request = v1::FleetServiceListProcessesRequest { filter: Some(filter), scope: ProcessScope::All.into() };
        let mut batches = self.client.list_processes(request).await?.into_inner();
        let mut listed = Vec::new();
        while let Some(batch) = batches.message().await? {
            listed.extend(batch.hosts);
        }
        view.add_processes(listed)?;
        Ok(view)
    }

    async fn signal(
        &self,
        target: v1::ProcessTarget,
        kill: &Kill,
        request_id: String,
    ) -> Result<SignalProcessResponse> {
        let request = v1::FleetServiceSignalProcessRequest {
            target: Some(target),
            signal: kill.signal,
            request_id,
            reason: kill.reason.clone(),
            wait: kill.wait.map(duration),
        };
        let answer = self.client.clone().signal_process(request).await?.into_inner();
        Ok(SignalProcessResponse { outcome: answer.outcome, message: answer.message, progress: answer.progress })
    }
}
