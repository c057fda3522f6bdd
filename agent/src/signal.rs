//! Signals to pinned processes.
//!
//! A request names a process by boot id, pid and start ticks. The pidfd is opened first and the identity checked after,
//! so a pid that is reused in between is never hit. Nothing is retried: a repeated request id is answered with the
//! first outcome. Each attempt runs in a task of its own and is finished and recorded also when the caller hangs up.

use std::sync::Arc;
use std::time::Duration;

use gpufleet_backend::SimulatedSignal;
use gpufleet_proto::status::Reason;
use gpufleet_proto::v1;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;

use crate::sampling::Sampling;

mod attempt;
mod deliver;
mod protection;
mod replay;
mod wait;

pub use attempt::{Attempt, Outcome, Progress, Report};
use deliver::Delivered;
pub use protection::{InvalidPattern, Protection};
use replay::{Replay, Turn};

/// The longest wait for a process to end.
pub const LONGEST_WAIT: Duration = Duration::from_mins(5);

/// Delivers signals on this host.
#[derive(Debug)]
pub struct Signals {
    host_name: String,
    sampling: Arc<Sampling>,
    protection: Protection,
    replay: Replay,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Signals {
    pub(crate) fn new(
        host_name: String,
        sampling: Arc<Sampling>,
        protection: Protection,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        Self { host_name, sampling, protection, replay: Replay::default(), tasks, stop }
    }

    /// Makes an attempt, or answers with the outcome of the first one with this request id.
    ///
    /// # Errors
    /// `REQUEST_ID_REUSED` when the id was used for another target or signal; `SHUTTING_DOWN` when the agent ends first.
    pub async fn attempt(self: &Arc<Self>, attempt: Attempt) -> Result<Report, Status> {
        let mut answer = match self.replay.turn(&attempt) {
            Turn::First(publish, answer) => {
                let signals = Arc::clone(self);
                self.tasks.spawn(async move {
                    let report = signals.execute(&attempt).await;
                    record(&attempt, &report);
                    publish.send_replace(Some(report));
                });
                answer
            }
            Turn::Again(answer) => answer,
            Turn::Conflict => {
                let message = "this request id was used before for another target or signal; choose a new one";
                return Err(Reason::RequestIdReused.status(message, [("request_id", attempt.request_id)]));
            }
            Turn::Full => {
                let message = "too many signals are under way; try again";
                return Err(Reason::TooManyRequests.status(message, []));
            }
        };
        let report = answer.wait_for(Option::is_some).await.map_err(|_| crate::watch::shutting_down())?;
        report.clone().ok_or_else(crate::watch::shutting_down)
    }

    async fn execute(&self, attempt: &Attempt) -> Report {
        if attempt.host != self.host_name {
            let message = format!("this is `{}`, not `{}`", self.host_name, attempt.host);
            return Report::new(Outcome::IdentityChanged, message);
        }
        if attempt.boot_id != self.sampling.boot_id() {
            let message = "the host was rebooted since the process was looked up";
            return Report::new(Outcome::IdentityChanged, message);
        }
        if self.sampling.is_simulated() {
            return self.execute_simulated(attempt).await;
        }
        let (protection, target) = (self.protection.clone(), attempt.clone());
        let delivered = tokio::task::spawn_blocking(move || deliver::deliver(&target, &protection)).await;
        match delivered {
            Ok(Ok(Delivered { pidfd })) => {
                let report = Report::new(Outcome::Delivered, attempt.delivered_message());
                match attempt.wait {
                    None => report,
                    Some(limit) => {
                        let waited = wait::for_end(pidfd, attempt, &self.sampling, limit, &self.stop).await;
                        Report { progress: Some(waited), ..report }
                    }
                }
            }
            Ok(Err(refused)) => refused,
            Err(_) => Report::new(Outcome::Indeterminate, "the agent failed while signalling"),
        }
    }

    async fn execute_simulated(&self, attempt: &Attempt) -> Report {
        let signal = i32::try_from(attempt.signal).unwrap_or_default();
        let (outcome, message) = match self.sampling.signal_simulated(attempt.pid, attempt.start_ticks, signal) {
            SimulatedSignal::Delivered => (Outcome::Delivered, attempt.delivered_message()),
            SimulatedSignal::NoSuchProcess => (Outcome::NotFound, "the process has ended".to_owned()),
            SimulatedSignal::OtherProcess => (Outcome::IdentityChanged, deliver::REUSED.to_owned()),
            _ => (Outcome::Failed, format!("signal {signal} cannot be sent to a simulated process")),
        };
        let mut report = Report::new(outcome, message);
        if let (Outcome::Delivered, Some(limit)) = (outcome, attempt.wait) {
            report.progress = Some(wait::for_simulated_end(attempt, &self.sampling, limit, &self.stop).await);
        }
        report
    }
}

fn record(attempt: &Attempt, report: &Report) {
    tracing::info!(
        caller = %attempt.caller,
        on_behalf_of = %attempt.on_behalf_of,
        pid = attempt.pid,
        start_ticks = attempt.start_ticks,
        signal = attempt.signal,
        request_id = %attempt.request_id,
        reason = %attempt.reason.escape_debug(),
        outcome = v1::SignalOutcome::from(report.outcome).as_str_name(),
        "signal",
    );
}
