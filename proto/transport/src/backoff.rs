//! How long to wait before trying again: exponential, with full jitter, so that a storm of clients spreads out.

use std::time::Duration;

/// Grows from `base` to `most`, each wait drawn uniformly from zero to the present bound.
#[derive(Debug, Clone)]
pub struct Backoff {
    base: Duration,
    most: Duration,
    attempts: u32,
}

impl Backoff {
    /// A backoff whose first wait is at most `base` and whose later ones are at most `most`.
    pub const fn new(base: Duration, most: Duration) -> Self {
        Self { base, most, attempts: 0 }
    }

    /// The bound of the next wait.
    pub fn bound(&self) -> Duration {
        self.base.saturating_mul(2u32.saturating_pow(self.attempts)).min(self.most)
    }

    /// The next wait.
    pub fn next_wait(&mut self) -> Duration {
        let bound = self.bound();
        self.attempts = self.attempts.saturating_add(1);
        bound.mul_f64(rand::random::<f64>())
    }

    /// Begins again at `base`: call it after a success.
    pub const fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn waits_stay_within_bounds_that_grow(base in 1u64..5_000, most in 1u64..600_000, tries in 1usize..80) {
            let (base, most) = (Duration::from_millis(base), Duration::from_millis(most));
            let mut backoff = Backoff::new(base, most);
            let mut before = Duration::ZERO;
            for _ in 0..tries {
                let bound = backoff.bound();
                prop_assert!(bound <= most && bound >= before);
                prop_assert!(backoff.next_wait() <= bound);
                before = bound;
            }
            backoff.reset();
            prop_assert_eq!(backoff.bound(), base.min(most));
        }
    }

    #[test]
    fn waits_are_spread() {
        let mut waits: Vec<Duration> =
            (0..64).map(|_| Backoff::new(Duration::from_secs(8), Duration::from_secs(8)).next_wait()).collect();
        waits.sort_unstable();
        waits.dedup();
        assert!(waits.len() > 32, "{} different waits of 64", waits.len());
    }
}
