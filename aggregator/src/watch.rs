//! Watch streams over the fleet: a snapshot in chunks, a SYNCED mark, then what changed, no faster than asked for.
//!
//! One task per stream. It holds what its reader was last sent of each host as a shared snapshot, so a message carries
//! the difference, whatever happened between; nothing is queued, a slow reader gets fewer and newer messages. A reader
//! that takes nothing for [`STALL`] loses its baselines, so that it cannot hold old states in memory, and gets the
//! hosts that change afterwards in full (`reset`). A stream ends with a status that says why, never silently.
//! Invariant: the messages of a stream, applied in order, give the state of the selected part of the fleet.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gpufleet_model::HostSnapshot;
use gpufleet_proto::convert::timestamp;
use gpufleet_proto::status::Reason;
use gpufleet_proto::v1::{self, WatchPhase};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::query::{Filter, missing_hosts};
use crate::state::{Fleet, HostCell, HostRecord};
use crate::turns::Turns;

mod devices;
mod difference;
mod hosts;
mod processes;
mod scan;
#[cfg(test)]
mod tests;

pub(crate) use devices::WatchedDevices;
pub(crate) use difference::{CHUNK_BYTES, process_parts};
pub(crate) use hosts::WatchedHosts;
pub(crate) use processes::WatchedProcesses;
use scan::Scan;

use crate::state::marks::Aspect;

/// How long a reader may take nothing before its baselines are given up.
const STALL: Duration = Duration::from_secs(10);

/// What a reader was last sent of a host.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Before<'a> {
    /// Nothing.
    Nothing,
    /// Something that is void now.
    Void,
    /// What this state holds of the selected part.
    State(&'a HostSnapshot),
}

/// What to send of a host, and whether the reader then holds anything of it.
#[derive(Debug)]
pub(crate) struct Visit<P> {
    pub(crate) parts: Vec<P>,
    pub(crate) holds: bool,
}

/// One kind of watch.
pub(crate) trait Watched: Send + Sync + 'static {
    /// The stream's message.
    type Message: Send + 'static;
    /// What a message carries of one host.
    type Part: Send;

    /// What must change of a host for it to be looked at again.
    fn aspects(filter: &Filter) -> &'static [Aspect];
    /// What to send of a host.
    fn visit(&self, filter: &Filter, cell: &HostCell, record: &HostRecord, before: Before<'_>) -> Visit<Self::Part>;
    /// What to send of a host that left the inventory.
    fn gone(&self, name: &str) -> Self::Part;
    /// Size of a part in bytes.
    fn size(part: &Self::Part) -> usize;
    /// A message.
    fn message(position: v1::WatchPosition, parts: Vec<Self::Part>, missing: Vec<v1::MissingHost>) -> Self::Message;
}

/// How often and how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Least time between two updates.
    pub(crate) min_interval: Duration,
    /// Most time between two messages.
    pub(crate) heartbeat: Duration,
    /// When the stream must end.
    pub(crate) max_age: Duration,
}

/// One watch stream.
pub(crate) struct Watch<W: Watched> {
    fleet: Arc<Fleet>,
    watched: W,
    filter: Filter,
    pace: Pace,
    output: mpsc::Sender<W::Message>,
    sent: HashMap<usize, Sent>,
    batch: Vec<W::Part>,
    batch_bytes: usize,
    sequence: u64,
    coalesced: u64,
    last_message: Instant,
}

/// What the reader holds of a host.
struct Sent {
    cell: Arc<HostCell>,
    generation: u64,
    baseline: Option<Arc<HostSnapshot>>,
}

/// The reader is gone.
struct Gone;

impl<W: Watched> Watch<W> {
    pub(crate) fn new(
        fleet: Arc<Fleet>,
        watched: W,
        filter: Filter,
        pace: Pace,
        output: mpsc::Sender<W::Message>,
    ) -> Self {
        Self {
            fleet,
            watched,
            filter,
            pace,
            output,
            sent: HashMap::new(),
            batch: Vec::new(),
            batch_bytes: 0,
            sequence: 0,
            coalesced: 0,
            last_message: Instant::now(),
        }
    }

    /// Serves the stream; returns the status it ends with, `None` when the reader left.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Option<Status> {
        let age = tokio::time::sleep(self.pace.max_age);
        let left = self.output.clone();
        tokio::select! {
            () = stop.cancelled() => Some(shutting_down()),
            () = age => {
                let message = "this stream has reached its maximum age; open a new one";
                Some(Reason::StreamAged.status(message, [("retry_after_ms", "0".to_owned())]))
            }
            () = left.closed() => None,
            served = self.serve() => match served { Ok(never) => match never {}, Err(Gone) => None },
        }
    }

    async fn serve(&mut self) -> Result<Infallible, Gone> {
        let mut scan = Scan::new(&self.fleet, &self.filter, W::aspects(&self.filter));
        self.pass(&mut scan, WatchPhase::Snapshot).await?;
        self.flush(WatchPhase::Snapshot).await?;
        let missing = missing_hosts(scan.hosts(), self.fleet.freshness());
        self.send(WatchPhase::Synced, Vec::new(), missing).await?;
        let mut next = Instant::now();
        loop {
            next = (next + self.pace.min_interval).max(Instant::now());
            self.idle_until(next).await?;
            // Waiting for room before looking makes what is sent the newest.
            self.reserve().await?;
            self.remove_absent(&mut scan);
            self.pass(&mut scan, WatchPhase::Update).await?;
            self.flush(WatchPhase::Update).await?;
        }
    }

    async fn idle_until(&mut self, next: Instant) -> Result<(), Gone> {
        loop {
            let heartbeat = self.last_message + self.pace.heartbeat;
            tokio::time::sleep_until(next.min(heartbeat)).await;
            if Instant::now() >= heartbeat {
                self.send(WatchPhase::Update, Vec::new(), Vec::new()).await?;
            }
            if Instant::now() >= next {
                return Ok(());
            }
        }
    }

    /// Takes up a new inventory: what left it is told as gone.
    fn remove_absent(&mut self, scan: &mut Scan) {
        if !scan.refresh(&self.fleet, &self.filter) {
            return;
        }
        let table = scan.table();
        let gone =
            self.sent.extract_if(|slot, sent| !table.in_slot(*slot).is_some_and(|cell| Arc::ptr_eq(cell, &sent.cell)));
        let parts: Vec<W::Part> = gone.map(|(_, sent)| self.watched.gone(sent.cell.name())).collect();
        for part in parts {
            self.push(part);
        }
    }

    async fn pass(&mut self, scan: &mut Scan, phase: WatchPhase) -> Result<(), Gone> {
        let mut turns = Turns::default();
        for (cell, changes) in scan.changed() {
            turns.take().await;
            self.visit(&cell, changes);
            if self.batch_bytes >= CHUNK_BYTES {
                self.flush(phase).await?;
            }
        }
        Ok(())
    }

    fn visit(&mut self, cell: &Arc<HostCell>, changes: u32) {
        let slot = cell.slot().index();
        let record = cell.record();
        let generation = record.sample.as_ref().map_or(0, |sample| sample.generation);
        let before = match self.sent.get(&slot) {
            None => Before::Nothing,
            Some(Sent { generation: held, baseline: Some(state), .. }) if *held == generation => Before::State(state),
            Some(_) => Before::Void,
        };
        let visit = self.watched.visit(&self.filter, cell, &record, before);
        if !visit.parts.is_empty() {
            self.coalesced += u64::from(changes.saturating_sub(1));
        }
        if visit.holds {
            let baseline = record.sample.as_ref().map(|sample| Arc::clone(&sample.snapshot));
            self.sent.insert(slot, Sent { cell: Arc::clone(cell), generation, baseline });
        } else {
            self.sent.remove(&slot);
        }
        for part in visit.parts {
            self.push(part);
        }
    }

    fn push(&mut self, part: W::Part) {
        self.batch_bytes += W::size(&part);
        self.batch.push(part);
    }

    /// Sends what is collected, in messages of bounded size.
    async fn flush(&mut self, phase: WatchPhase) -> Result<(), Gone> {
        let mut bytes = 0;
        let mut parts = Vec::new();
        self.batch_bytes = 0;
        for part in std::mem::take(&mut self.batch) {
            let size = W::size(&part);
            if bytes + size > CHUNK_BYTES && !parts.is_empty() {
                self.send(phase, std::mem::take(&mut parts), Vec::new()).await?;
                bytes = 0;
            }
            bytes += size;
            parts.push(part);
        }
        if parts.is_empty() { Ok(()) } else { self.send(phase, parts, Vec::new()).await }
    }

    async fn send(
        &mut self,
        phase: WatchPhase,
        parts: Vec<W::Part>,
        missing: Vec<v1::MissingHost>,
    ) -> Result<(), Gone> {
        self.reserve().await?;
        self.sequence = self.fleet.revision().max(self.sequence + 1);
        let position = v1::WatchPosition {
            phase: phase.into(),
            sequence: self.sequence,
            sampled_at: Some(timestamp(SystemTime::now())),
            coalesced: self.coalesced,
        };
        self.last_message = Instant::now();
        self.output.send(W::message(position, parts, missing)).await.map_err(|_| Gone)
    }

    /// Waits until the reader takes more. This task is the only sender, so the room stays.
    async fn reserve(&mut self) -> Result<(), Gone> {
        match tokio::time::timeout(STALL, self.output.reserve()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(Gone),
            Err(_) => {
                for sent in self.sent.values_mut() {
                    sent.baseline = None;
                }
                self.output.reserve().await.map(drop).map_err(|_| Gone)
            }
        }
    }
}

/// The status of what is cut off because this process ends.
pub(crate) fn shutting_down() -> Status {
    Reason::ShuttingDown.status("this aggregator is shutting down; try again", [("retry_after_ms", "1000".to_owned())])
}
