//! `WatchEvents`: what the driver and the kernel reported, each event once.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gpufleet_model::health::EventLog;
use gpufleet_proto::convert::health::device_event;
use gpufleet_proto::convert::position;
use gpufleet_proto::status::Reason;
use gpufleet_proto::v1::{self, WatchPhase};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::{Gone, shutting_down};
use crate::sampling::{Sampled, Sampling};

/// Bookmarks come at least this often.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// One stream of events.
pub(crate) struct EventWatch {
    pub(crate) sampling: Arc<Sampling>,
    /// Also the events kept since then.
    pub(crate) since: Option<SystemTime>,
    pub(crate) max_age: Duration,
    pub(crate) output: mpsc::Sender<v1::WatchEventsResponse>,
}

impl EventWatch {
    /// Serves the stream; returns the status it ends with, `None` when the reader left.
    pub(crate) async fn run(self, stop: CancellationToken) -> Option<Status> {
        let left = self.output.clone();
        tokio::select! {
            () = stop.cancelled() => Some(shutting_down()),
            () = tokio::time::sleep(self.max_age) => {
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

    async fn serve(&self) -> Result<(), Gone> {
        let mut newest = self.sampling.subscribe();
        let Ok(Some(first)) = newest.wait_for(Option::is_some).await.map(|sampled| sampled.clone()) else {
            return Ok(());
        };
        let log = &first.judgement.events;
        let mut sent = self.since.map_or(log.newest(), |since| log.number_before(since));
        self.send(&first, WatchPhase::Snapshot, &mut sent).await?;
        self.send(&first, WatchPhase::Synced, &mut sent).await?;
        loop {
            let seen = sent;
            let news = newest
                .wait_for(|sampled| sampled.as_ref().is_some_and(|sampled| sampled.judgement.events.newest() > seen));
            // Without news the newest sample is the heartbeat.
            if let Ok(Err(_)) = tokio::time::timeout(HEARTBEAT, news).await.map(|news| news.map(drop)) {
                return Ok(());
            }
            let sampled = newest.borrow().clone();
            if let Some(sampled) = sampled {
                self.send(&sampled, WatchPhase::Update, &mut sent).await?;
            }
        }
    }

    async fn send(&self, sampled: &Sampled, phase: WatchPhase, sent: &mut u64) -> Result<(), Gone> {
        let log: &EventLog = &sampled.judgement.events;
        let snapshot = &sampled.snapshot;
        let message = v1::WatchEventsResponse {
            position: Some(position(phase, snapshot.sequence, snapshot.sampled_at, 0)),
            events: log.after(*sent).map(|(_, event)| device_event(event)).collect(),
        };
        *sent = log.newest();
        self.output.send(message).await.map_err(|_| Gone)
    }
}
