//! Watch streams: a snapshot in chunks, a SYNCED mark, then each tick what changed.
//!
//! One task per stream. It keeps the snapshot that its reader was last sent and sends the difference to the newest, so
//! a slow reader gets fewer and newer messages and nothing is queued. A message without changes is the heartbeat of
//! its tick. Invariant: the messages, applied in order, give the newest snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gpufleet_model::health::DeviceHealth;
use gpufleet_model::{DeviceKey, HostDelta, HostSnapshot};
use gpufleet_proto::convert::health::device_health;
use gpufleet_proto::convert::snapshot_chunks;
use gpufleet_proto::status::Reason;
use gpufleet_proto::v1::{self, WatchPhase};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::sampling::{Sampled, Sampling};

mod events;
mod message;

pub(crate) use events::EventWatch;
pub(crate) use message::{DeviceMessages, HealthMessages, HostMessages, Messages, ProcessMessages};

/// Readings of the host itself change each tick; sending them is worth it this often.
const HOST_READINGS_EVERY: Duration = Duration::from_secs(10);

/// One watch stream.
pub(crate) struct Watch<M: Messages> {
    pub(crate) sampling: Arc<Sampling>,
    pub(crate) messages: M,
    pub(crate) min_interval: Duration,
    pub(crate) max_age: Duration,
    pub(crate) output: mpsc::Sender<M::Message>,
}

/// The reader is gone.
struct Gone;

/// What the reader has.
struct Sent {
    snapshot: Arc<HostSnapshot>,
    health: Arc<BTreeMap<DeviceKey, DeviceHealth>>,
    coalesced: u64,
    host_at: Instant,
}

impl<M: Messages> Watch<M> {
    /// Serves the stream; returns the status it ends with, `None` when the reader left.
    pub(crate) async fn run(self, stop: CancellationToken) -> Option<Status> {
        let age = tokio::time::sleep(self.max_age);
        let left = self.output.clone();
        tokio::select! {
            () = stop.cancelled() => Some(shutting_down()),
            () = age => {
                let message = "this stream has reached its maximum age; open a new one";
                Some(Reason::StreamAged.status(message, [("retry_after_ms", "0".to_owned())]))
            }
            () = left.closed() => None,
            served = self.serve() => match served {
                Ok(()) => Some(shutting_down()),
                Err(Gone) => None,
            },
        }
    }

    /// Ends when the sampler does.
    async fn serve(&self) -> Result<(), Gone> {
        let mut newest = self.sampling.subscribe();
        let Ok(Some(first)) = newest.wait_for(Option::is_some).await.map(|sampled| sampled.clone()) else {
            return Ok(());
        };
        let mut sent = self.send_snapshot(&first).await?;
        loop {
            let due = Instant::now() + self.min_interval;
            if newest.changed().await.is_err() {
                return Ok(());
            }
            tokio::time::sleep_until(due).await;
            // Waiting for room before looking makes what is sent the newest.
            self.output.reserve().await.map_err(|_| Gone)?;
            let sampled = newest.borrow_and_update().clone();
            if let Some(sampled) = sampled {
                self.send_update(&mut sent, &sampled).await?;
            }
        }
    }

    async fn send_snapshot(&self, first: &Sampled) -> Result<Sent, Gone> {
        let snapshot = self.messages.select(&self.sampling, &first.snapshot).await;
        let health = Arc::clone(&first.judgement.health);
        let mut judged = changed_health(&BTreeMap::new(), first);
        for chunk in snapshot_chunks(HostDelta::full(&snapshot)) {
            let judged = std::mem::take(&mut judged);
            self.send(self.messages.message(&chunk, judged, WatchPhase::Snapshot, 0)).await?;
        }
        let nothing = HostDelta::between(&snapshot, &snapshot);
        self.send(self.messages.message(&nothing, Vec::new(), WatchPhase::Synced, 0)).await?;
        Ok(Sent { snapshot, health, coalesced: 0, host_at: Instant::now() })
    }

    async fn send_update(&self, sent: &mut Sent, sampled: &Sampled) -> Result<(), Gone> {
        let mut snapshot = self.messages.select(&self.sampling, &sampled.snapshot).await;
        let mut delta = HostDelta::between(&sent.snapshot, &snapshot);
        sent.coalesced += snapshot.sequence.saturating_sub(sent.snapshot.sequence).saturating_sub(1);
        if delta.host.is_some() {
            if sent.host_at.elapsed() < HOST_READINGS_EVERY && only_readings_differ(&sent.snapshot, &snapshot) {
                delta.host = None;
                // The reader keeps the host it has, so the next difference is against that one.
                Arc::make_mut(&mut snapshot).host = Arc::clone(&sent.snapshot.host);
            } else {
                sent.host_at = Instant::now();
            }
        }
        sent.snapshot = snapshot;
        let mut judged = changed_health(&sent.health, sampled);
        sent.health = Arc::clone(&sampled.judgement.health);
        // As a rule one; more when much came at once, or to a reader that was away for long.
        for part in snapshot_chunks(delta) {
            let judged = std::mem::take(&mut judged);
            self.send(self.messages.message(&part, judged, WatchPhase::Update, sent.coalesced)).await?;
        }
        Ok(())
    }

    async fn send(&self, message: M::Message) -> Result<(), Gone> {
        self.output.send(message).await.map_err(|_| Gone)
    }
}

/// The verdicts that differ from those that the reader has. When a device was judged anew with the same result, that is
/// no news.
fn changed_health(before: &BTreeMap<DeviceKey, DeviceHealth>, sampled: &Sampled) -> Vec<v1::DeviceHealth> {
    let known = |key: &DeviceKey, health: &DeviceHealth| before.get(key).is_some_and(|known| known.is_same(health));
    let changed = sampled.judgement.health.iter().filter(|(key, health)| !known(key, health));
    let with_device = |(key, health): (&DeviceKey, &DeviceHealth)| {
        Some(device_health(*key, &sampled.snapshot.devices.get(key)?.info.uuid, health))
    };
    changed.filter_map(with_device).collect()
}

fn only_readings_differ(before: &HostSnapshot, after: &HostSnapshot) -> bool {
    let mut same = (*after.host).clone();
    same.readings = before.host.readings.clone();
    same == *before.host
}

/// The status of what is cut off because this process ends.
pub(crate) fn shutting_down() -> Status {
    Reason::ShuttingDown.status("this agent is shutting down; try again", [("retry_after_ms", "1000".to_owned())])
}
