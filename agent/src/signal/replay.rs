//! Request ids that were used: an attempt is made once, however often it is asked for.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::attempt::{Attempt, Report};

/// How long an outcome is remembered at least, unless the memory is full.
const REMEMBERED: Duration = Duration::from_mins(10);
/// Attempts remembered at most.
const MOST: usize = 4096;

type Answer = watch::Receiver<Option<Report>>;

/// The memory of request ids, by caller and on whose behalf it calls.
#[derive(Debug, Default)]
pub(super) struct Replay {
    known: Mutex<HashMap<(String, String), Known>>,
}

#[derive(Debug)]
struct Known {
    attempt: Attempt,
    answer: Answer,
    at: Instant,
}

/// What to do about an attempt.
pub(super) enum Turn {
    /// It is the first with its id: make it, and publish the report.
    First(watch::Sender<Option<Report>>, Answer),
    /// It was made, or is being made.
    Again(Answer),
    /// Its id was used for something else.
    Conflict,
    /// Everything remembered is still under way.
    Full,
}

impl Replay {
    pub(super) fn turn(&self, attempt: &Attempt) -> Turn {
        // An aggregator asks for many people, who choose their ids without knowing of each other.
        let key = (format!("{} {}", attempt.caller, attempt.on_behalf_of), attempt.request_id.clone());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = known.get(&key) {
            // How long the caller waits does not make it another request.
            let same = Attempt { wait: first.attempt.wait, ..attempt.clone() } == first.attempt;
            return if same { Turn::Again(first.answer.clone()) } else { Turn::Conflict };
        }
        if known.len() >= MOST {
            forget_some(&mut known);
        }
        if known.len() >= MOST {
            return Turn::Full;
        }
        let (publish, answer) = watch::channel(None);
        known.insert(key, Known { attempt: attempt.clone(), answer: answer.clone(), at: Instant::now() });
        Turn::First(publish, answer)
    }
}

/// Forgets finished attempts: the old ones, and when there are none, the oldest.
fn forget_some(known: &mut HashMap<(String, String), Known>) {
    let finished = |known: &Known| known.answer.borrow().is_some();
    known.retain(|_, known| !finished(known) || known.at.elapsed() < REMEMBERED);
    if known.len() >= MOST {
        let oldest = known.iter().filter(|(_, known)| finished(known)).min_by_key(|(_, known)| known.at);
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            known.remove(&key);
        }
    }
}
