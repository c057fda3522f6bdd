//! How the aggregator stands with a host: a pure function of what its writer recorded and the time.
//!
//! All times are this process's monotonic clock, so that clocks of hosts, or a step of the wall clock, cannot make old
//! data look fresh. Because the state is computed when it is read, it is right even if no task has run meanwhile.

use std::sync::Arc;
use std::time::Duration;

use gpufleet_proto::v1::ConnectionState;
use tokio::time::Instant;

use super::host::{HostRecord, Link, interval};

/// The least and the most an agent's own interval counts for, whatever it claims.
const INTERVAL_RANGE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_mins(1));

/// The rules by which a host counts as fresh.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Freshness {
    /// Missed intervals after which a connected host is stale.
    pub(crate) stale_after_intervals: u32,
    /// Silence after which a connection is given up.
    pub(crate) unreachable_after: Duration,
}

impl Default for Freshness {
    fn default() -> Self {
        Self { stale_after_intervals: 3, unreachable_after: Duration::from_secs(20) }
    }
}

/// How a host stands at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostState {
    /// The state.
    pub(crate) connection: ConnectionState,
    /// When it was entered.
    pub(crate) since: Instant,
    /// Age of the newest sample; `None` when there is none.
    pub(crate) sample_age: Option<Duration>,
    /// Why it is not connected.
    pub(crate) problem: Option<Arc<str>>,
}

impl HostState {
    /// True when what is known of the host is current.
    pub(crate) fn is_current(&self) -> bool {
        self.connection == ConnectionState::Connected
    }
}

impl Freshness {
    /// How long a sample counts as fresh.
    pub(crate) fn stale_after(&self, interval: Duration) -> Duration {
        interval.clamp(INTERVAL_RANGE.0, INTERVAL_RANGE.1).saturating_mul(self.stale_after_intervals)
    }

    /// How much silence ends a connection; never before the host is stale.
    pub(crate) fn unreachable_after(&self, interval: Duration) -> Duration {
        let stale = self.stale_after(interval);
        self.unreachable_after.max(stale.saturating_add(interval.clamp(INTERVAL_RANGE.0, INTERVAL_RANGE.1)))
    }

    /// The state of a host at `now`.
    pub(crate) fn state(&self, record: &HostRecord, received: Option<Instant>, now: Instant) -> HostState {
        let sample_age = received.map(|at| now.saturating_duration_since(at));
        let (Some(sample), Some(received)) = (&record.sample, received) else {
            let (since, problem) = match &record.link {
                Link::Idle { since } | Link::Up { since } => (*since, Some("not connected yet".into())),
                Link::Down { since, problem } => (*since, Some(Arc::clone(problem))),
            };
            return HostState { connection: ConnectionState::NeverSeen, since, sample_age: None, problem };
        };
        let stands = |connection, since, problem| HostState { connection, since, sample_age, problem };
        match &record.link {
            Link::Down { since, problem } => stands(ConnectionState::Unreachable, *since, Some(Arc::clone(problem))),
            Link::Idle { since } => stands(ConnectionState::Unreachable, *since, Some("not connected yet".into())),
            Link::Up { since } => {
                let interval = interval(&sample.snapshot);
                let age = now.saturating_duration_since(received);
                let (stale, unreachable) = (self.stale_after(interval), self.unreachable_after(interval));
                if age <= stale {
                    stands(ConnectionState::Connected, *since, None)
                } else if age <= unreachable {
                    stands(ConnectionState::Stale, received + stale, Some(silence(stale)))
                } else {
                    stands(ConnectionState::Unreachable, received + unreachable, Some(silence(unreachable)))
                }
            }
        }
    }
}

/// Why a silent host is stale or unreachable.
pub(crate) fn silence(limit: Duration) -> Arc<str> {
    format!("no sample for more than {}; the agent or the network hangs", humantime::format_duration(limit)).into()
}

#[cfg(test)]
mod tests {
    use super::super::host::tests::record;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn silence_goes_through_stale_to_unreachable() {
        let rules = Freshness::default();
        let start = Instant::now();
        let record = record(Link::Up { since: start }, Some(SECOND));
        let at = |age: Duration| {
            let state = rules.state(&record, Some(start), start + age);
            assert_eq!(state.sample_age, Some(age));
            (state.connection, state.since - start)
        };
        assert_eq!(at(Duration::ZERO), (ConnectionState::Connected, Duration::ZERO));
        assert_eq!(at(3 * SECOND), (ConnectionState::Connected, Duration::ZERO));
        assert_eq!(at(Duration::from_millis(3001)), (ConnectionState::Stale, 3 * SECOND));
        assert_eq!(at(20 * SECOND), (ConnectionState::Stale, 3 * SECOND));
        assert_eq!(at(21 * SECOND), (ConnectionState::Unreachable, 20 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_without_a_sample_was_never_seen() {
        let rules = Freshness::default();
        let now = Instant::now();
        let problem: Arc<str> = "connection refused".into();
        let record = record(Link::Down { since: now, problem: Arc::clone(&problem) }, None);
        let state = rules.state(&record, None, now + SECOND);
        assert_eq!((state.connection, state.sample_age), (ConnectionState::NeverSeen, None));
        assert_eq!(state.problem, Some(problem));
    }

    #[test]
    fn an_agent_cannot_claim_an_endless_interval() {
        let rules = Freshness::default();
        assert_eq!(rules.stale_after(Duration::MAX), Duration::from_mins(3));
        assert_eq!(rules.unreachable_after(Duration::MAX), Duration::from_mins(4));
        assert_eq!(rules.unreachable_after(SECOND), Duration::from_secs(20));
    }
}
