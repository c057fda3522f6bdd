//! Waits until a process is gone and its device memory is free.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use gpufleet_model::HostSnapshot;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attempt::{Attempt, Progress};
use crate::sampling::Sampling;

/// Waits for the end of a real process: its pidfd becomes readable.
pub(super) async fn for_end(
    pidfd: OwnedFd,
    attempt: &Attempt,
    sampling: &Arc<Sampling>,
    limit: Duration,
    stop: &CancellationToken,
) -> Progress {
    let over = CancellationToken::new();
    let guard = over.clone().drop_guard();
    let ended = async {
        let polled = tokio::task::spawn_blocking(move || poll_until_end(&pidfd, limit, &over)).await;
        drop(guard);
        polled.unwrap_or(false)
    };
    watch(attempt, sampling, limit, stop, ended).await
}

/// Polls until the process has ended; false when time is over, or nobody waits any more.
fn poll_until_end(pidfd: &OwnedFd, limit: Duration, over: &CancellationToken) -> bool {
    const SLICE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    let deadline = std::time::Instant::now() + limit;
    while std::time::Instant::now() < deadline && !over.is_cancelled() {
        // An interrupted poll is simply made again.
        if poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&SLICE)).is_ok_and(|ready| ready > 0) {
            return true;
        }
    }
    false
}

/// Waits for the end of a simulated process: it is no longer in the samples.
pub(super) async fn for_simulated_end(
    attempt: &Attempt,
    sampling: &Arc<Sampling>,
    limit: Duration,
    stop: &CancellationToken,
) -> Progress {
    let is_gone = |snapshot: &HostSnapshot| {
        !snapshot.processes.keys().any(|known| (known.pid, known.start_ticks) == (attempt.pid, attempt.start_ticks))
    };
    let ended = fresh_sample_where(sampling, is_gone);
    watch(attempt, sampling, limit, stop, ended).await
}

async fn watch(
    attempt: &Attempt,
    sampling: &Arc<Sampling>,
    limit: Duration,
    stop: &CancellationToken,
    ended: impl Future<Output = bool>,
) -> Progress {
    let started = Instant::now();
    let deadline = started + limit;
    let within = |deadline| async move {
        tokio::select! { () = tokio::time::sleep_until(deadline) => false, () = stop.cancelled() => true }
    };
    let mut progress = Progress { process_gone: Some(false), device_memory_released: Some(false), waited: limit };
    tokio::select! {
        gone = ended => progress.process_gone = gone.then_some(true),
        stopped = within(deadline) => if stopped { progress.process_gone = None },
    }
    if progress.process_gone == Some(true) {
        let is_free = |snapshot: &HostSnapshot| {
            !snapshot.processes.values().any(|known| known.identity.pid == attempt.pid && !known.uses.is_empty())
        };
        tokio::select! {
            free = fresh_sample_where(sampling, is_free) => progress.device_memory_released = free.then_some(true),
            stopped = within(deadline) => if stopped { progress.device_memory_released = None },
        }
    } else if progress.process_gone.is_none() {
        progress.device_memory_released = None;
    }
    progress.waited = started.elapsed();
    progress
}

/// Waits for a sample that was begun after this call and fulfils the condition; false when the sampler ends first.
async fn fresh_sample_where(sampling: &Arc<Sampling>, condition: impl Fn(&HostSnapshot) -> bool) -> bool {
    let asked = std::time::Instant::now();
    let mut newest = sampling.subscribe();
    let fresh = newest
        .wait_for(|sampled| sampled.as_ref().is_some_and(|sampled| sampled.at > asked && condition(&sampled.snapshot)));
    fresh.await.is_ok()
}
