//! Fan-in: one task per host keeps that host's state current.
//!
//! In: the inventory (`watch` channel) and the agents' `WatchHost` streams. Out: samples and connection states through
//! each host's writer. The supervisor starts a task for each host that enters the inventory and stops that of each host
//! that leaves; the sweep tells watchers of hosts that went silent. The number of connection attempts under way is
//! bounded, so that a storm leaves the processor to queries.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use gpufleet_proto::status::Reason;
use gpufleet_transport::Dialer;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;

use crate::inventory::Inventory;
use crate::settings::FanInSettings;
use crate::state::{Fleet, FleetWriter, HostWriter};

mod assembly;
mod host_task;
mod pacing;

/// How often silent hosts are looked for.
const SWEEP: Duration = Duration::from_millis(250);
/// Failures in a row after which a host counts as one that may not come back soon.
const DOUBTFUL_AFTER: u32 = 3;
/// Hosts swept between two chances for other tasks to run.
const HOSTS_PER_TURN: usize = 1_024;

/// What every host task shares.
pub(crate) struct FanIn {
    dialer: Dialer,
    settings: FanInSettings,
    hopeful: Semaphore,
    doubtful: Semaphore,
}

impl FanIn {
    pub(crate) fn new(dialer: Dialer, settings: FanInSettings) -> Self {
        let places = || Semaphore::new(settings.connects_in_flight);
        Self { dialer, hopeful: places(), doubtful: places(), settings }
    }

    /// The places for connection attempts. Hosts that failed several times wait for their own, so that many dead hosts
    /// do not delay one that comes back.
    fn places(&self, failures: u32) -> &Semaphore {
        if failures < DOUBTFUL_AFTER { &self.hopeful } else { &self.doubtful }
    }
}

/// The tasks of the hosts.
struct Running {
    stop: CancellationToken,
    readdressed: Arc<Notify>,
}

/// Follows the inventory until cancelled.
pub(crate) async fn supervise(
    fan_in: Arc<FanIn>,
    mut fleet: FleetWriter,
    mut inventory: watch::Receiver<Arc<Inventory>>,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    let mut running: HashMap<Arc<str>, Running> = HashMap::new();
    loop {
        let current = Arc::clone(&inventory.borrow_and_update());
        let change = fleet.reconcile(&current);
        for cell in &change.removed {
            if let Some(task) = running.remove(cell.name()) {
                task.stop.cancel();
            }
        }
        for cell in &change.readdressed {
            if let Some(task) = running.get(cell.name()) {
                task.readdressed.notify_one();
            }
        }
        for writer in change.added {
            let task = start(&fan_in, writer, &tasks, &stop);
            running.insert(task.0, task.1);
        }
        tokio::select! {
            () = stop.cancelled() => return,
            changed = inventory.changed() => if changed.is_err() {
                // The source has ended, which it does only at shutdown.
                stop.cancelled().await;
                return;
            }
        }
    }
}

fn start(
    fan_in: &Arc<FanIn>,
    writer: HostWriter,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> (Arc<str>, Running) {
    let name = Arc::clone(writer.cell().name());
    let task = Running { stop: stop.child_token(), readdressed: Arc::default() };
    let host = host_task::HostTask::new(Arc::clone(fan_in), writer, Arc::clone(&task.readdressed));
    tasks.spawn(host.run(task.stop.clone()));
    (name, task)
}

/// Tells watchers of hosts whose state changed with time alone, until cancelled.
pub(crate) async fn sweep(fleet: Arc<Fleet>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(SWEEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let table = fleet.table();
        for turn in table.hosts().chunks(HOSTS_PER_TURN) {
            let now = Instant::now();
            for cell in turn {
                cell.note_state(fleet.freshness(), now);
            }
            tokio::task::yield_now().await;
        }
    }
}

/// A status in words: its message, the causes of a broken transport, and the code where there is no message.
pub(crate) fn describe(status: &Status) -> String {
    let mut text = if status.message().is_empty() {
        status.code().description().to_lowercase()
    } else {
        status.message().to_string()
    };
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    if Reason::of(status).is_some() {
        return text;
    }
    // What the libraries say of these is long and speaks of their insides.
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if says(&["close_notify", "eset by peer", "roken pipe", "unexpected end of file"]) {
        "the connection was lost".into()
    } else if says(&["keep-alive timed out", "KeepAliveTimedOut"]) {
        "the connection gave no sign of life".into()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_put_in_words() {
        let eof = "h2 protocol error: error reading a body from connection: peer closed connection without sending TLS \
                   close_notify: https://docs.rs/rustls";
        assert_eq!(describe(&Status::unknown(eof)), "the connection was lost");
        assert_eq!(describe(&Status::unavailable("error: Connection reset by peer")), "the connection was lost");
        assert_eq!(describe(&Status::unavailable("keep-alive timed out")), "the connection gave no sign of life");
        assert_eq!(describe(&Status::unavailable("shutting down")), "shutting down");
        assert_eq!(describe(&Status::unavailable("")), "the service is currently unavailable");
    }
}
