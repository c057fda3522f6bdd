//! Remembers attempts by caller and request id, so that a repetition gets the first outcome and reaches no agent.
//!
//! Memory is bounded: each caller has so many places, used again from the oldest attempt that has ended; a caller whose
//! places are all under way is refused. An attempt whose task dies ends as *indeterminate*.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gpufleet_proto::status::Reason;
use gpufleet_proto::v1::{self, SignalOutcome};
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::Status;

use super::{Answer, Attempt, answer};

/// Attempts remembered of one caller.
const PLACES: usize = 4_096;
/// How long a caller without new attempts is remembered.
const KEEP: Duration = Duration::from_hours(24);
/// The most callers remembered before idle ones are looked for.
const CALLERS: usize = 10_000;

/// The memory of attempts.
#[derive(Debug, Default)]
pub(super) struct Replay {
    callers: Mutex<HashMap<String, Caller>>,
}

#[derive(Debug)]
struct Caller {
    attempts: VecDeque<Remembered>,
    last: Instant,
}

#[derive(Debug)]
struct Remembered {
    request_id: String,
    target: v1::ProcessTarget,
    signal: u32,
    outcome: watch::Receiver<Option<Answer>>,
}

impl Remembered {
    fn has_ended(&self) -> bool {
        self.outcome.borrow().is_some() || self.outcome.has_changed().is_err()
    }
}

/// What a claim gives.
pub(super) enum Claim {
    /// The first with this id: whoever holds the ticket must act.
    First(Ticket, Outcome),
    /// A repetition: the first one's outcome.
    Repeated(Outcome),
}

/// The right and the duty to act.
pub(super) struct Ticket(watch::Sender<Option<Answer>>);

/// An outcome that may still be under way.
pub(super) struct Outcome(watch::Receiver<Option<Answer>>);

impl Ticket {
    pub(super) fn complete(self, answer: Answer) {
        self.0.send_replace(Some(answer));
    }
}

impl Outcome {
    /// Waits for the outcome.
    pub(super) async fn wait(mut self) -> Answer {
        match self.0.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or_default(),
            Err(_) => answer(
                SignalOutcome::Indeterminate,
                "the attempt ended without an outcome; look at the process before you try again".into(),
            ),
        }
    }
}

impl Replay {
    /// Claims the attempt's id for its caller.
    pub(super) fn claim(&self, attempt: &Attempt) -> Result<Claim, Status> {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if callers.len() >= CALLERS {
            callers.retain(|_, caller| now.saturating_duration_since(caller.last) < KEEP);
        }
        let caller = callers
            .entry(attempt.caller.to_string())
            .or_insert_with(|| Caller { attempts: VecDeque::new(), last: now });
        caller.last = now;
        if let Some(first) = caller.attempts.iter().find(|first| first.request_id == attempt.request_id) {
            if attempt.asks_the_same(&first.target, first.signal) {
                return Ok(Claim::Repeated(Outcome(first.outcome.clone())));
            }
            let message = format!("request id `{}` was used for another request; choose a new one", attempt.request_id);
            return Err(Reason::RequestIdReused.status(message, [("request_id", attempt.request_id.clone())]));
        }
        if caller.attempts.len() >= PLACES {
            let oldest = caller.attempts.iter().position(Remembered::has_ended).ok_or_else(|| {
                let message = format!("{PLACES} of your signal requests are under way; wait for some to end");
                Reason::TooManyRequests.status(message, [("retry_after_ms", "1000".to_owned())])
            })?;
            caller.attempts.remove(oldest);
        }
        let (ticket, outcome) = watch::channel(None);
        caller.attempts.push_back(Remembered {
            request_id: attempt.request_id.clone(),
            target: attempt.target.clone(),
            signal: attempt.signal,
            outcome: outcome.clone(),
        });
        Ok(Claim::First(Ticket(ticket), Outcome(outcome)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::inventory::Inventory;
    use crate::state::{Fleet, Freshness, HostCell};

    fn host() -> Arc<HostCell> {
        let (fleet, mut writer) = Fleet::new(Freshness::default());
        writer.reconcile(&Inventory::from_pairs([("node1", "127.0.0.1:1")]).unwrap());
        fleet.table().get("node1").cloned().unwrap()
    }

    fn attempt(host: &Arc<HostCell>, caller: &str, request_id: &str) -> Attempt {
        Attempt {
            caller: Arc::new(format!("spiffe://test/gpufleet/user/{caller}").parse().unwrap()),
            source: ([127, 0, 0, 1], 1).into(),
            host: Arc::clone(host),
            target: v1::ProcessTarget { host: "node1".into(), boot_id: "b".into(), pid: 2, start_ticks: 3 },
            signal: 15,
            request_id: request_id.into(),
            reason: String::new(),
            wait: None,
        }
    }

    fn first(claim: Result<Claim, Status>) -> Ticket {
        match claim {
            Ok(Claim::First(ticket, _)) => ticket,
            Ok(Claim::Repeated(_)) => panic!("a repetition"),
            Err(status) => panic!("{status}"),
        }
    }

    #[tokio::test]
    async fn the_oldest_attempt_that_has_ended_gives_its_place() {
        let (replay, host) = (Replay::default(), host());
        let under_way = first(replay.claim(&attempt(&host, "a", "under way")));
        for number in 1..PLACES {
            first(replay.claim(&attempt(&host, "a", &number.to_string()))).complete(Answer::default());
        }
        first(replay.claim(&attempt(&host, "a", "one more"))).complete(Answer::default());
        assert!(matches!(replay.claim(&attempt(&host, "a", "2")), Ok(Claim::Repeated(_))));
        assert!(matches!(replay.claim(&attempt(&host, "a", "under way")), Ok(Claim::Repeated(_))));
        first(replay.claim(&attempt(&host, "a", "1"))).complete(Answer::default());
        under_way.complete(Answer::default());
    }

    #[tokio::test]
    async fn a_caller_with_every_place_under_way_is_refused_and_no_other() {
        let (replay, host) = (Replay::default(), host());
        let held: Vec<Ticket> =
            (0..PLACES).map(|number| first(replay.claim(&attempt(&host, "a", &number.to_string())))).collect();
        let refused = replay.claim(&attempt(&host, "a", "more")).err().unwrap();
        assert_eq!(Reason::of(&refused), Some(Reason::TooManyRequests));
        first(replay.claim(&attempt(&host, "b", "more"))).complete(Answer::default());
        drop(held);
        first(replay.claim(&attempt(&host, "a", "more"))).complete(Answer::default());
    }

    #[tokio::test]
    async fn an_attempt_that_dies_is_indeterminate() {
        let (replay, host) = (Replay::default(), host());
        let Ok(Claim::First(ticket, outcome)) = replay.claim(&attempt(&host, "a", "1")) else {
            panic!("not the first")
        };
        drop(ticket);
        assert_eq!(outcome.wait().await.outcome(), SignalOutcome::Indeterminate);
    }
}
