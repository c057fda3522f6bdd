//! Keeps one agent from taking the processor from the others: who sends more than an agent ever needs is read slowly.

use std::time::Duration;

use tokio::time::Instant;

/// Messages read at once of one agent; a snapshot of a very large host is that many.
const BURST: u32 = 128;
/// The span over which the burst is counted.
const SPAN: Duration = Duration::from_secs(1);

/// Counts messages of one stream.
#[derive(Debug)]
pub(super) struct Pacing {
    since: Instant,
    count: u32,
}

impl Pacing {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, count: 0 }
    }

    /// Counts a message; tells until when the next one must wait, when it must.
    pub(super) fn count(&mut self, now: Instant) -> Option<Instant> {
        if now.saturating_duration_since(self.since) >= SPAN {
            *self = Self::new(now);
        }
        self.count += 1;
        (self.count >= BURST).then_some(self.since + SPAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_read_slowly_and_a_tick_at_once() {
        let start = Instant::now();
        let mut pacing = Pacing::new(start);
        let (mut now, mut read) = (start, 0);
        while now < start + 10 * SPAN {
            read += 1;
            now = pacing.count(now).unwrap_or(now);
        }
        assert_eq!(read, 10 * BURST);
        let mut pacing = Pacing::new(start);
        assert!((0..1_000).all(|n| pacing.count(start + n * SPAN / 10).is_none()));
    }
}
