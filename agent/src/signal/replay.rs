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

#[cfg(test)]
mod tests {
    use super::super::attempt::Outcome;
    use super::*;

    fn attempt(request_id: &str) -> Attempt {
        Attempt {
            caller: "aggregator".to_owned(),
            on_behalf_of: "alice".to_owned(),
            request_id: request_id.to_owned(),
            host: "node1".to_owned(),
            boot_id: "boot".to_owned(),
            pid: 7,
            start_ticks: 1,
            signal: 15,
            reason: String::new(),
            wait: None,
        }
    }

    fn first(replay: &Replay, attempt: &Attempt) -> watch::Sender<Option<Report>> {
        match replay.turn(attempt) {
            Turn::First(publish, _) => publish,
            _ => panic!("not the first: {attempt:?}"),
        }
    }

    #[test]
    fn an_attempt_is_made_once_while_under_way_and_after() {
        let replay = Replay::default();
        let publish = first(&replay, &attempt("a"));
        let Turn::Again(answer) = replay.turn(&attempt("a")) else { panic!("made twice") };
        assert_eq!(*answer.borrow(), None);
        let report = Report::new(Outcome::Delivered, "done");
        publish.send_replace(Some(report.clone()));
        assert_eq!(*answer.borrow(), Some(report));
        let patient = Attempt { wait: Some(Duration::from_secs(1)), ..attempt("a") };
        assert!(matches!(replay.turn(&patient), Turn::Again(_)));
    }

    #[test]
    fn an_id_is_good_for_one_target_of_one_person() {
        let replay = Replay::default();
        first(&replay, &attempt("a"));
        for other in [
            Attempt { pid: 8, ..attempt("a") },
            Attempt { start_ticks: 2, ..attempt("a") },
            Attempt { signal: 9, ..attempt("a") },
            Attempt { boot_id: "other".to_owned(), ..attempt("a") },
        ] {
            assert!(matches!(replay.turn(&other), Turn::Conflict), "{other:?}");
        }
        first(&replay, &attempt("b"));
        first(&replay, &Attempt { caller: "other".to_owned(), ..attempt("a") });
        first(&replay, &Attempt { on_behalf_of: "bob".to_owned(), ..attempt("a") });
    }

    #[test]
    fn memory_is_bounded_and_what_is_under_way_is_never_forgotten() {
        let replay = Replay::default();
        let mut under_way: Vec<_> = (0..MOST).map(|number| first(&replay, &attempt(&number.to_string()))).collect();
        assert!(matches!(replay.turn(&attempt("one more")), Turn::Full));
        under_way.swap_remove(5).send_replace(Some(Report::new(Outcome::Delivered, "done")));
        first(&replay, &attempt("one more"));
        assert!(matches!(replay.turn(&attempt("5")), Turn::Full), "the finished one was forgotten");
        assert!(matches!(replay.turn(&attempt("6")), Turn::Again(_)));
    }
}
