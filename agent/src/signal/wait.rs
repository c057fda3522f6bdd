//! Waits until a process is gone and its device memory is free.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use gpufleet_model::{DeviceKey, DeviceStatus, HostSnapshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attempt::{Attempt, Progress};
use super::deliver::has_ended;
use crate::sampling::Sampling;

/// Time between two looks at a process: short at first, since most end at once.
const FIRST_LOOK: Duration = Duration::from_millis(1);
/// The longest time between two looks.
const LATER_LOOKS: Duration = Duration::from_millis(50);

/// Waits for the end of a real process: its pidfd becomes readable, also when its parent never collects it. Looking costs
/// a microsecond; a thread that blocks for each one that waits would cost more.
pub(super) async fn for_end(
    pidfd: OwnedFd,
    attempt: &Attempt,
    sampling: &Arc<Sampling>,
    limit: Duration,
    stop: &CancellationToken,
) -> Progress {
    let ended = async {
        let mut look = FIRST_LOOK;
        while !has_ended(&pidfd) {
            tokio::time::sleep(look).await;
            look = (look * 2).min(LATER_LOOKS);
        }
        true
    };
    wait(attempt, sampling, limit, stop, ended).await
}

/// Waits for the end of a simulated process: it is no longer in the samples.
pub(super) async fn for_simulated_end(
    attempt: &Attempt,
    sampling: &Arc<Sampling>,
    limit: Duration,
    stop: &CancellationToken,
) -> Progress {
    let is_gone = |snapshot: &HostSnapshot| {
        let is_it = |known: &gpufleet_model::ProcessIdentity| {
            (known.pid, known.start_ticks) == (attempt.pid, attempt.start_ticks)
        };
        !snapshot.processes.keys().any(is_it)
    };
    let ended = fresh_sample_where(sampling, is_gone);
    wait(attempt, sampling, limit, stop, ended).await
}

async fn wait(
    attempt: &Attempt,
    sampling: &Arc<Sampling>,
    limit: Duration,
    stop: &CancellationToken,
    ended: impl Future<Output = bool>,
) -> Progress {
    let started = Instant::now();
    let deadline = started + limit;
    let used = devices_of(attempt, sampling).await;
    let within = async || {
        tokio::select! { () = tokio::time::sleep_until(deadline) => Some(false), () = stop.cancelled() => None }
    };
    let process_gone = tokio::select! {
        gone = ended => gone.then_some(true),
        late = within() => late,
    };
    let device_memory_released = match process_gone {
        Some(true) => {
            sampling.sample_soon();
            tokio::select! {
                free = fresh_sample_where(sampling, |snapshot| is_free(attempt, &used, snapshot)) => free.then_some(true),
                // A device that does not answer says nothing of its memory.
                late = within() => late.filter(|_| do_all_answer(&used, sampling)),
            }
        }
        other => other,
    };
    Progress { process_gone, device_memory_released, waited: started.elapsed() }
}

/// The devices that the process was last seen on.
async fn devices_of(attempt: &Attempt, sampling: &Sampling) -> Vec<DeviceKey> {
    let Some(newest) = sampling.newest().await else { return Vec::new() };
    let of_it = newest.snapshot.processes.values().filter(|process| process.identity.pid == attempt.pid);
    of_it.flat_map(|process| &process.uses).map(|used| used.device).collect()
}

/// No device lists the process any more, and each one that did still answers.
fn is_free(attempt: &Attempt, used: &[DeviceKey], snapshot: &HostSnapshot) -> bool {
    let is_it = |known: &gpufleet_model::ProcessIdentity| {
        known.pid == attempt.pid && (known.start_ticks == attempt.start_ticks || known.start_ticks == 0)
    };
    let listed = snapshot.processes.values().any(|known| is_it(&known.identity) && !known.uses.is_empty());
    !listed && answers(used, snapshot)
}

fn answers(used: &[DeviceKey], snapshot: &HostSnapshot) -> bool {
    let answers = |key| snapshot.devices.get(key).is_none_or(|device| device.status == DeviceStatus::Ok);
    used.iter().all(answers)
}

fn do_all_answer(used: &[DeviceKey], sampling: &Sampling) -> bool {
    let newest = sampling.subscribe();
    let newest = newest.borrow();
    newest.as_ref().is_some_and(|sampled| answers(used, &sampled.snapshot))
}

/// Waits for a sample that was begun after this call and fulfils the condition; false when the sampler ends first.
async fn fresh_sample_where(sampling: &Arc<Sampling>, condition: impl Fn(&HostSnapshot) -> bool) -> bool {
    let asked = std::time::Instant::now();
    let mut newest = sampling.subscribe();
    let fresh = newest
        .wait_for(|sampled| sampled.as_ref().is_some_and(|sampled| sampled.at > asked && condition(&sampled.snapshot)));
    fresh.await.is_ok()
}
