//! One host in the fleet's state: its cell, its immutable record, and its one writer.
//!
//! The writer (the host's fan-in task) publishes a new [`HostRecord`] for each sample that changed something; readers
//! load the newest one. A sample that changed nothing only moves the time of receipt.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use arc_swap::{ArcSwap, ArcSwapOption};
use gpufleet_model::HostSnapshot;
use gpufleet_proto::v1::ConnectionState;
use tokio::time::Instant;
use tonic::transport::Channel;

use super::freshness::{Freshness, HostState};
use super::marks::{Aspect, Slot};
use crate::inventory::InventoryEntry;

const CONNECTED: u64 = ConnectionState::Connected as u64;
const UNREACHABLE: u64 = ConnectionState::Unreachable as u64;
const NEVER_SEEN: u64 = ConnectionState::NeverSeen as u64;

/// One host of the inventory. Lives as long as the host is in it.
#[derive(Debug)]
pub(crate) struct HostCell {
    entry: ArcSwap<InventoryEntry>,
    name: Arc<str>,
    slot: Slot,
    record: ArcSwap<HostRecord>,
    channel: ArcSwapOption<Channel>,
    /// Nanoseconds from `added_at` to the newest sample, plus one; 0 while there is none.
    received: AtomicU64,
    /// Nanoseconds from `added_at` to the moment when the newest sample becomes stale.
    fresh_until: AtomicU64,
    /// The state the watchers were last told of, see [`HostCell::note_state`].
    told: AtomicU64,
    added_at: Instant,
    fleet_revision: Arc<AtomicU64>,
}

/// What is known of a host at one moment. Immutable.
#[derive(Debug, Clone)]
pub(crate) struct HostRecord {
    /// How the connection stands.
    pub(crate) link: Link,
    /// The newest sample that changed anything; `None` until the first.
    pub(crate) sample: Option<Sample>,
}

/// One state of a host, and which run of deltas it belongs to.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    /// The host, its devices and its processes.
    pub(crate) snapshot: Arc<HostSnapshot>,
    /// Changes when the host's stream starts over: keys and identities of another generation mean nothing.
    pub(crate) generation: u64,
}

/// How the connection to a host stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Link {
    /// Not tried yet.
    Idle {
        /// When the host entered the inventory.
        since: Instant,
    },
    /// Connected and synced.
    Up {
        /// Since when it has been up without a gap.
        since: Instant,
    },
    /// Not connected.
    Down {
        /// Since when.
        since: Instant,
        /// Why the last attempt failed.
        problem: Arc<str>,
    },
}

/// What a sample changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Changed {
    /// The host itself.
    pub(crate) host: bool,
    /// Its devices.
    pub(crate) devices: bool,
    /// Its processes.
    pub(crate) processes: bool,
}

impl Changed {
    /// Everything.
    pub(crate) const ALL: Self = Self { host: true, devices: true, processes: true };

    fn any(self) -> bool {
        self.host || self.devices || self.processes
    }
}

/// Time between two samples, as the agent states it.
pub(crate) fn interval(snapshot: &HostSnapshot) -> Duration {
    Duration::from_millis(snapshot.host.sample_interval_ms.into())
}

impl HostCell {
    pub(super) fn new(entry: Arc<InventoryEntry>, slot: Slot, fleet_revision: Arc<AtomicU64>) -> Arc<Self> {
        let added_at = Instant::now();
        let cell = Self {
            name: Arc::clone(&entry.name),
            entry: ArcSwap::new(entry),
            slot,
            record: ArcSwap::from_pointee(HostRecord { link: Link::Idle { since: added_at }, sample: None }),
            channel: ArcSwapOption::empty(),
            received: AtomicU64::new(0),
            fresh_until: AtomicU64::new(0),
            told: AtomicU64::new(0),
            added_at,
            fleet_revision,
        };
        // A slot may have been another host's: watchers must look.
        cell.raise(Changed::ALL);
        Arc::new(cell)
    }

    /// The host's name.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its place among the marks.
    pub(crate) fn slot(&self) -> &Slot {
        &self.slot
    }

    /// What the inventory says of it.
    pub(crate) fn entry(&self) -> Arc<InventoryEntry> {
        self.entry.load_full()
    }

    pub(super) fn set_entry(&self, entry: Arc<InventoryEntry>) {
        self.entry.store(entry);
        // Labels are part of what every aspect may be filtered by.
        self.raise(Changed::ALL);
    }

    /// What is known of it now.
    pub(crate) fn record(&self) -> Arc<HostRecord> {
        self.record.load_full()
    }

    /// The connection to its agent, while there is one.
    pub(crate) fn channel(&self) -> Option<Channel> {
        self.channel.load().as_deref().cloned()
    }

    /// When the newest sample came.
    pub(crate) fn received(&self) -> Option<Instant> {
        let nanos = self.received.load(Ordering::Acquire).checked_sub(1)?;
        Some(self.added_at + Duration::from_nanos(nanos))
    }

    /// How it stands at `now`.
    pub(crate) fn state(&self, rules: &Freshness, now: Instant) -> HostState {
        // The time first: a record newer than its time of receipt is never taken for older than it is.
        let received = self.received();
        rules.state(&self.record.load(), received, now)
    }

    /// Tells watchers when the state differs from what they were last told. Called by the sweep.
    pub(crate) fn note_state(&self, rules: &Freshness, now: Instant) {
        let told = self.told.load(Ordering::Acquire);
        let fresh = nanos_between(self.added_at, now) <= self.fresh_until.load(Ordering::Acquire);
        // Time alone moves a host only from connected to stale, and on. Most hosts are done with here, without a look
        // at their record.
        let cannot_move = if fresh { told == CONNECTED } else { told == UNREACHABLE || told == NEVER_SEEN };
        if cannot_move {
            return;
        }
        let code = self.state(rules, now).connection as u64;
        // When the writer has told of another state meanwhile, that one is newer.
        let noted = self.told.compare_exchange(told, code, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if noted && code != told {
            self.raise(Changed { host: true, devices: false, processes: false });
        }
    }

    fn raise(&self, changed: Changed) {
        self.fleet_revision.fetch_add(1, Ordering::AcqRel);
        let Changed { host, devices, processes } = changed;
        for (raise, aspect) in [(host, Aspect::Host), (devices, Aspect::Devices), (processes, Aspect::Processes)] {
            if raise {
                self.slot.raise(aspect);
            }
        }
    }
}

/// The one writer of a host. Held by its fan-in task.
#[derive(Debug)]
pub(crate) struct HostWriter {
    cell: Arc<HostCell>,
    rules: Freshness,
    generation: u64,
}

impl HostWriter {
    pub(super) fn new(cell: Arc<HostCell>, rules: Freshness) -> Self {
        Self { cell, rules, generation: 0 }
    }

    /// The host that this writes.
    pub(crate) fn cell(&self) -> &Arc<HostCell> {
        &self.cell
    }

    /// How much silence ends the host's connection.
    pub(crate) fn silence_limit(&self) -> Duration {
        let record = self.cell.record.load();
        let interval = record.sample.as_ref().map_or(Duration::ZERO, |sample| interval(&sample.snapshot));
        self.rules.unreachable_after(interval)
    }

    /// Lets others call the agent over the connection.
    pub(crate) fn connected(&self, channel: Channel) {
        self.cell.channel.store(Some(Arc::new(channel)));
    }

    /// Closes the connection to the agent once nobody uses it.
    pub(crate) fn disconnected(&self) {
        self.cell.channel.store(None);
    }

    /// Records that the connection is gone or could not be made. The last sample stays.
    pub(crate) fn down(&mut self, problem: &str) {
        self.disconnected();
        let record = self.cell.record.load();
        let since = match &record.link {
            Link::Down { problem: before, .. } if **before == *problem => return,
            // A host that stays unreachable for another reason has been so since the first.
            Link::Down { since, .. } => *since,
            Link::Idle { .. } | Link::Up { .. } => Instant::now(),
        };
        let link = Link::Down { since, problem: problem.into() };
        self.publish(
            HostRecord { link, sample: record.sample.clone() },
            Changed { host: true, devices: false, processes: false },
        );
    }

    /// Takes a complete first state of a new stream.
    pub(crate) fn begin(&mut self, snapshot: Arc<HostSnapshot>) {
        self.generation += 1;
        let now = self.received_now(&snapshot);
        let sample = Sample { snapshot, generation: self.generation };
        self.publish(HostRecord { link: Link::Up { since: now }, sample: Some(sample) }, Changed::ALL);
    }

    /// Takes the next state of the stream.
    pub(crate) fn advance(&mut self, snapshot: Arc<HostSnapshot>, changed: Changed) {
        let before = self.cell.received();
        let now = self.received_now(&snapshot);
        let record = self.cell.record.load();
        let sample = Sample { snapshot, generation: self.generation };
        let gap = before
            .is_none_or(|at| now.saturating_duration_since(at) > self.rules.stale_after(interval(&sample.snapshot)));
        let recovered = gap || !matches!(record.link, Link::Up { .. });
        let link = if recovered { Link::Up { since: now } } else { record.link.clone() };
        let changed = Changed { host: changed.host || recovered, ..changed };
        if changed.any() {
            self.publish(HostRecord { link, sample: Some(sample) }, changed);
        } else {
            self.cell.record.store(Arc::new(HostRecord { link, sample: Some(sample) }));
        }
    }

    fn received_now(&self, snapshot: &HostSnapshot) -> Instant {
        let (cell, now) = (&self.cell, Instant::now());
        let stale_at = now + self.rules.stale_after(interval(snapshot));
        cell.fresh_until.store(nanos_between(cell.added_at, stale_at), Ordering::Release);
        cell.received.store(nanos_between(cell.added_at, now).saturating_add(1), Ordering::Release);
        now
    }

    fn publish(&self, record: HostRecord, changed: Changed) {
        self.cell.record.store(Arc::new(record));
        if changed.host {
            let state = self.cell.state(&self.rules, Instant::now());
            self.cell.told.store(state.connection as u64, Ordering::Release);
        }
        self.cell.raise(changed);
    }
}

fn nanos_between(from: Instant, to: Instant) -> u64 {
    u64::try_from(to.saturating_duration_since(from).as_nanos()).unwrap_or(u64::MAX)
}

/// A time of this process's monotonic clock as wall-clock time, for people.
pub(crate) fn wall_clock(at: Instant, now: Instant) -> SystemTime {
    let wall = SystemTime::now();
    wall.checked_sub(now.saturating_duration_since(at)).unwrap_or(wall)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::fixtures;

    pub(crate) fn record(link: Link, interval: Option<Duration>) -> HostRecord {
        let sample = interval.map(|interval| {
            let mut snapshot = fixtures::snapshot("host", 1, 0);
            let host = Arc::make_mut(&mut snapshot.host);
            host.sample_interval_ms = u32::try_from(interval.as_millis()).unwrap();
            Sample { snapshot: Arc::new(snapshot), generation: 1 }
        });
        HostRecord { link, sample }
    }
}
