//! Waiting for conditions.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// How long a condition may take to come true. Generous: a machine under load is not a failure.
pub const DEADLINE: Duration = Duration::from_mins(1);

const STEP: Duration = Duration::from_millis(25);

/// Waits until `probe` gives a value; fails with what it last said otherwise.
#[track_caller]
pub fn eventually<T, E: Display>(what: &str, probe: impl FnMut() -> Result<T, E>) -> T {
    eventually_within(DEADLINE, what, probe)
}

/// [`eventually`], with a deadline of its own.
#[track_caller]
pub fn eventually_within<T, E: Display>(deadline: Duration, what: &str, mut probe: impl FnMut() -> Result<T, E>) -> T {
    let until = Instant::now() + deadline;
    loop {
        match probe() {
            Ok(value) => return value,
            Err(last) if Instant::now() >= until => panic!("{what}: not within {deadline:?}: {last}"),
            Err(_) => std::thread::sleep(STEP),
        }
    }
}

/// Watches for a while that `probe` stays true. For what must not happen, where nothing tells that it never will.
#[track_caller]
pub fn never_within(period: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + period;
    while Instant::now() < until {
        assert!(holds(), "{what}");
        std::thread::sleep(STEP);
    }
}
