//! User names that cannot hang the sampler.
//!
//! A name service may ask a directory server that does not answer. So a thread of its own asks, and whoever wants a name
//! waits a moment at most, and not at all while an earlier answer is overdue; until the answer is there the number stands
//! for the name.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// How long the first question about a user may hold the asker up.
const PATIENCE: Duration = Duration::from_millis(10);
/// An answer is asked for again after this long.
const GOOD_FOR: Duration = Duration::from_mins(10);
/// "No such user" is asked for again after this long.
const NO_NAME_GOOD_FOR: Duration = Duration::from_mins(1);
/// Users remembered at most; a host has far fewer.
const MOST_USERS: usize = 65_536;

/// A cache of user names; clones share it.
#[derive(Debug, Clone)]
pub struct UserNames {
    shared: Arc<Shared>,
    questions: mpsc::Sender<u32>,
}

#[derive(Debug, Default)]
struct Shared {
    known: Mutex<HashMap<u32, Known>>,
    answered: Condvar,
    /// An answer did not come in time: nobody waits until one comes.
    overdue: AtomicBool,
}

#[derive(Debug)]
struct Known {
    /// `None` while the first answer is awaited, and for users without a name.
    name: Option<String>,
    /// When to ask again; `None` while a question is open.
    ask_again: Option<Instant>,
}

impl Default for UserNames {
    fn default() -> Self {
        Self::new()
    }
}

impl UserNames {
    /// Names from the system's name service.
    pub fn new() -> Self {
        Self::asking(|uid| Some(uzers::get_user_by_uid(uid)?.name().to_string_lossy().into_owned()))
    }

    /// Names from `ask`, which may block.
    fn asking(ask: impl Fn(u32) -> Option<String> + Send + 'static) -> Self {
        let shared = Arc::<Shared>::default();
        let (questions, asked) = mpsc::channel();
        let answers = Arc::clone(&shared);
        let answer = move || {
            // Ends when every asker is gone.
            for uid in asked {
                answers.learn(uid, ask(uid));
            }
        };
        if let Err(error) = std::thread::Builder::new().name("user-names".to_owned()).spawn(answer) {
            tracing::warn!(%error, "no thread for user names; numbers are shown instead");
        }
        Self { shared, questions }
    }

    /// The name of a user, or the number as text while there is none.
    pub fn name(&self, uid: u32) -> String {
        let mut known = self.shared.lock();
        let now = Instant::now();
        let first = !known.contains_key(&uid);
        let due = known.get(&uid).is_none_or(|known| known.ask_again.is_some_and(|at| at <= now));
        if due && known.len() < MOST_USERS {
            let name = known.remove(&uid).and_then(|known| known.name);
            known.insert(uid, Known { name, ask_again: None });
            // Without the thread the number stays.
            let _ = self.questions.send(uid);
        }
        if first && !self.shared.overdue.load(Ordering::Relaxed) {
            let open = |known: &mut HashMap<u32, Known>| known.get(&uid).is_some_and(|known| known.ask_again.is_none());
            let waited = self.shared.answered.wait_timeout_while(known, PATIENCE, open);
            let (answered, wait) = waited.unwrap_or_else(PoisonError::into_inner);
            known = answered;
            if wait.timed_out() {
                self.shared.overdue.store(true, Ordering::Relaxed);
            }
        }
        let name = known.get(&uid).and_then(|known| known.name.clone());
        name.unwrap_or_else(|| uid.to_string())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn learn(&self, uid: u32, name: Option<String>) {
        let good_for = if name.is_some() { GOOD_FOR } else { NO_NAME_GOOD_FOR };
        self.lock().insert(uid, Known { name, ask_again: Instant::now().checked_add(good_for) });
        self.overdue.store(false, Ordering::Relaxed);
        self.answered.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_has_a_name_and_nobody_has_a_number() {
        let names = UserNames::new();
        assert_eq!(names.name(0), "root");
        assert_eq!(names.name(3_999_999_999), "3999999999");
    }

    #[test]
    fn a_name_service_that_hangs_holds_nobody_up_for_long() {
        let (release, released) = mpsc::channel::<()>();
        let names = UserNames::asking(move |uid| {
            let _ = released.recv();
            Some(format!("user{uid}"))
        });
        let start = Instant::now();
        for uid in 7..2007 {
            assert_eq!(names.name(uid), uid.to_string());
            assert_eq!(names.name(7), "7");
        }
        // Waiting for each of them would take 20 s.
        assert!(start.elapsed() < Duration::from_secs(10), "two thousand questions took {:?}", start.elapsed());
        release.send(()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while names.name(7) != "user7" {
            assert!(Instant::now() < deadline, "the answer never arrived");
            std::thread::yield_now();
        }
    }
}
