//! `ListProcesses`: one snapshot of the selected processes, in batches.
//!
//! Processes on devices come from the state. Where every process is wanted, on hosts without devices or by the scope,
//! the agents are asked anew, many at a time, and each answer is filtered and passed on as it comes. The last batch
//! names the hosts whose current processes are not in the answer.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::StreamExt as _;
use gpufleet_model::{HostSnapshot, ProcessChange};
use gpufleet_proto::convert::{duration, timestamp};
use gpufleet_proto::status::Reason;
use gpufleet_proto::v1::{self, ProcessScope};
use gpufleet_transport::stream::{self, WatchStream};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::Status;

use super::FleetApi;
use super::ask::AskError;
use crate::query::{Filter, missing_hosts};
use crate::state::HostCell;
use crate::turns::Turns;
use crate::watch::{CHUNK_BYTES, process_parts, shutting_down};

/// Agents asked at once by one question.
const ASKED_AT_ONCE: usize = 64;
/// Answers of agents that wait to be put in a batch.
const PARTS_AHEAD: usize = 16;

type Batch = v1::FleetServiceListProcessesResponse;

/// What each host contributes.
struct Plan {
    from_state: Vec<Arc<HostCell>>,
    to_ask: Vec<Arc<HostCell>>,
}

impl FleetApi {
    pub(super) async fn start_list_processes(
        &self,
        request: v1::FleetServiceListProcessesRequest,
    ) -> Result<WatchStream<Batch>, Status> {
        let scope = ProcessScope::try_from(request.scope).map_err(|_| {
            Reason::InvalidArgument
                .status(format!("scope `{}` is not known", request.scope), [("field", "scope".to_owned())])
        })?;
        let filter = Filter::parse(request.filter, &self.fleet.table())?;
        let plan = self.plan(&filter, scope);
        if plan.to_ask.is_empty() {
            filter.check_exists(&self.fleet).await?;
        } else {
            filter.check_devices(&self.fleet).await?;
        }
        let (reader, sender, ending) = stream::channel(shutting_down);
        let list = List { api: self.clone(), filter, plan, output: sender.clone() };
        self.tasks.spawn(async move {
            let stop = list.api.stop.clone();
            let left = sender.clone();
            let end = tokio::select! {
                () = stop.cancelled() => Err(shutting_down()),
                () = left.closed() => Ok(()),
                end = list.run() => end,
            };
            let _ = ending.set(end);
            drop(sender);
        });
        Ok(reader)
    }

    fn plan(&self, filter: &Filter, scope: ProcessScope) -> Plan {
        let rules = self.fleet.freshness();
        let now = Instant::now();
        let ask = |cell: &Arc<HostCell>| {
            let record = cell.record();
            let Some(sample) = &record.sample else { return false };
            let wanted = match scope {
                ProcessScope::All => true,
                ProcessScope::Device => false,
                ProcessScope::Unspecified => sample.snapshot.devices.is_empty(),
            };
            wanted && cell.state(rules, now).is_current()
        };
        let (to_ask, from_state) = filter.hosts(&self.fleet.table()).into_iter().partition(ask);
        Plan { from_state, to_ask }
    }
}

/// One answer under way.
struct List {
    api: FleetApi,
    filter: Filter,
    plan: Plan,
    output: mpsc::Sender<Batch>,
}

/// Collects parts into batches of bounded size.
struct Batches {
    output: mpsc::Sender<Batch>,
    /// Keep everything until the end: whether the answer is an error is not known before.
    hold: bool,
    parts: Vec<v1::HostProcessChanges>,
    bytes: usize,
    pids: HashSet<u32>,
}

impl List {
    async fn run(self) -> Result<(), Status> {
        let hold = self.filter.names_pids();
        let mut batches =
            Batches { output: self.output.clone(), hold, parts: Vec::new(), bytes: 0, pids: HashSet::new() };
        let mut turns = Turns::default();
        for cell in &self.plan.from_state {
            turns.take().await;
            if let Some(sample) = &cell.record().sample {
                for part in self.known(&sample.snapshot, cell) {
                    batches.add(part).await;
                }
            }
        }
        let (sender, mut parts) = mpsc::channel(PARTS_AHEAD);
        let collect = async {
            while let Some(part) = parts.recv().await {
                batches.add(part).await;
            }
        };
        let (unanswered, ()) = tokio::join!(self.ask_all(sender), collect);
        let mut missing = missing_hosts(&self.plan.from_state, self.api.fleet.freshness());
        missing.extend(unanswered);
        if hold && missing.is_empty() {
            self.filter.check_pids(&batches.pids)?;
        }
        missing.sort_unstable_by(|a, b| a.host.cmp(&b.host));
        batches.finish(missing).await;
        Ok(())
    }

    fn known(&self, snapshot: &HostSnapshot, cell: &HostCell) -> Vec<v1::HostProcessChanges> {
        let selection = self.filter.select(snapshot);
        let selected = snapshot.processes.values().filter(|process| selection.process(process));
        let upserts = selected.map(|process| v1::ProcessChange::from(&ProcessChange::full(process))).collect();
        parts(cell, snapshot, Some(timestamp(snapshot.sampled_at)), upserts)
    }

    /// Asks the agents, and sends what they answer; returns the hosts that gave no full answer.
    async fn ask_all(&self, answers: mpsc::Sender<v1::HostProcessChanges>) -> Vec<v1::MissingHost> {
        let asked = self.plan.to_ask.clone().into_iter().map(|cell| {
            let answers = answers.clone();
            async move {
                let error = self.ask(&cell, answers).await.err()?;
                let state = cell.state(self.api.fleet.freshness(), Instant::now());
                Some(v1::MissingHost {
                    host: cell.name().to_string(),
                    state: state.connection.into(),
                    problem: format!("cannot list its processes: {error}"),
                    sample_age: state.sample_age.map(duration),
                })
            }
        });
        futures_util::stream::iter(asked).buffer_unordered(ASKED_AT_ONCE).filter_map(std::future::ready).collect().await
    }

    async fn ask(&self, cell: &HostCell, answers: mpsc::Sender<v1::HostProcessChanges>) -> Result<(), AskError> {
        let record = cell.record();
        let Some(sample) = &record.sample else { return Err(AskError::NotConnected) };
        let selection = self.filter.select(&sample.snapshot);
        let mut listing = self.api.asks.list_processes(cell).await?;
        while let Some(v1::ListProcessesResponse { sampled_at, mut processes }) = listing.next().await? {
            processes.retain(|process| selection.listed(process));
            for part in parts(cell, &sample.snapshot, sampled_at, processes) {
                if answers.send(part).await.is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

fn parts(
    cell: &HostCell,
    snapshot: &HostSnapshot,
    sampled_at: Option<prost_types::Timestamp>,
    processes: Vec<v1::ProcessChange>,
) -> Vec<v1::HostProcessChanges> {
    let part = |changes| v1::HostProcessChanges {
        host: cell.name().to_string(),
        sampled_at,
        reset: false,
        changes: Some(changes),
        boot_id: snapshot.host.boot_id.clone(),
    };
    process_parts(processes).into_iter().map(part).collect()
}

impl Batches {
    async fn add(&mut self, part: v1::HostProcessChanges) {
        if self.hold {
            let changes = part.changes.iter().flat_map(|changes| &changes.upserts);
            self.pids.extend(changes.filter_map(|process| Some(process.identity.as_ref()?.pid)));
        }
        let size = part.encoded_len();
        if !self.hold && self.bytes + size > CHUNK_BYTES {
            let hosts = std::mem::take(&mut self.parts);
            self.bytes = 0;
            self.send(Batch { hosts, missing: Vec::new() }).await;
        }
        self.bytes += size;
        self.parts.push(part);
    }

    /// Sends the rest, and the missing hosts in the last batch.
    async fn finish(mut self, missing: Vec<v1::MissingHost>) {
        self.hold = false;
        self.bytes = 0;
        for part in std::mem::take(&mut self.parts) {
            self.add(part).await;
        }
        let hosts = std::mem::take(&mut self.parts);
        self.send(Batch { hosts, missing }).await;
    }

    async fn send(&self, batch: Batch) {
        // A reader that left ends the whole task through `closed`.
        let _ = self.output.send(batch).await;
    }
}
