//! `SignalProcess`: one attempt to signal one pinned process, on behalf of a caller.
//!
//! In: a checked [`Attempt`]. It is claimed by (caller, request id), so that a repetition gets the first outcome and
//! reaches no agent; then the pinned identity is held against the state, the caller's right is decided, and the request
//! is sent once. Nothing is retried: once it may have left this process and no answer came, the outcome is
//! *indeterminate*. The attempt runs in its own task, so a caller that hangs up neither stops nor repeats it. Every
//! attempt is logged before it is sent, and its outcome after.

use std::sync::Arc;

use gpufleet_model::{HostSnapshot, Process};
use gpufleet_proto::v1::{self, SignalOutcome};
use tokio_util::task::TaskTracker;
use tonic::Status;
use tracing::info;

use crate::service::ask::Asks;
use crate::state::{Fleet, HostCell};

mod attempt;
mod authorise;
mod forward;
mod replay;

pub(crate) use attempt::Attempt;
pub use authorise::InvalidOperator;
pub(crate) use authorise::Operators;
use authorise::{Decision, Rule};
use replay::{Claim, Replay};

type Answer = v1::FleetServiceSignalProcessResponse;

/// Everything that signalling needs.
pub(crate) struct Signals {
    fleet: Arc<Fleet>,
    asks: Arc<Asks>,
    operators: Operators,
    replay: Replay,
}

/// What the state says of the pinned process.
enum Known {
    /// It is on a device: this is it.
    Same(Arc<Process>),
    /// The pid, or the boot, is another's now.
    Changed(String),
    /// Not on a device: only the agent can tell.
    Unseen,
}

impl Signals {
    pub(crate) fn new(fleet: Arc<Fleet>, asks: Arc<Asks>, operators: Operators) -> Self {
        Self { fleet, asks, operators, replay: Replay::default() }
    }

    /// Makes the attempt, or finds the outcome of the one that had this request id.
    pub(crate) async fn run(self: &Arc<Self>, attempt: Attempt, tasks: &TaskTracker) -> Result<Answer, Status> {
        let outcome = match self.replay.claim(&attempt)? {
            Claim::Repeated(outcome) => {
                log_repetition(&attempt);
                outcome
            }
            Claim::First(ticket, outcome) => {
                let signals = Arc::clone(self);
                tasks.spawn(async move {
                    let answer = signals.execute(&attempt).await;
                    log_outcome(&attempt, &answer);
                    ticket.complete(answer);
                });
                outcome
            }
        };
        Ok(outcome.wait().await)
    }

    async fn execute(&self, attempt: &Attempt) -> Answer {
        let cell = &attempt.host;
        let state = cell.state(self.fleet.freshness(), tokio::time::Instant::now());
        if !state.is_current() {
            let problem = state.problem.map(|problem| problem.to_string()).unwrap_or_default();
            let message = format!("host `{}` is not connected: {problem}; nothing was sent to it", cell.name());
            return answer(SignalOutcome::Unreachable, message);
        }
        let rule = match self.judge(attempt, cell).await {
            Ok(rule) => rule,
            Err(refusal) => return refusal,
        };
        log_attempt(attempt, rule);
        forward::send(attempt, cell).await
    }

    /// Decides whether the caller may, by whose process it is.
    async fn judge(&self, attempt: &Attempt, cell: &HostCell) -> Result<Rule, Answer> {
        let record = cell.record();
        let known = record.sample.as_ref().map_or(Known::Unseen, |sample| compare(&sample.snapshot, &attempt.target));
        let decision = match known {
            Known::Changed(message) => return Err(answer(SignalOutcome::IdentityChanged, message)),
            Known::Same(process) => self.operators.decide(&attempt.caller, process.info.user.as_deref()),
            Known::Unseen => {
                if let Some(rule) = self.operators.decide_any(&attempt.caller) {
                    return Ok(rule);
                }
                let user = self.ask_user(attempt, cell).await?;
                self.operators.decide(&attempt.caller, user.as_deref())
            }
        };
        match decision {
            Decision::Allow(rule) => Ok(rule),
            Decision::Deny(why) => Err(answer(SignalOutcome::Denied, why)),
        }
    }

    /// Asks the agent whose process it is.
    async fn ask_user(&self, attempt: &Attempt, cell: &HostCell) -> Result<Option<String>, Answer> {
        let target = &attempt.target;
        let failed = |error| {
            let message = format!(
                "cannot learn from host `{}` whose process {} is: {error}; nothing was signalled",
                cell.name(),
                target.pid
            );
            answer(SignalOutcome::Unreachable, message)
        };
        let mut listing = self.asks.list_processes(cell).await.map_err(failed)?;
        while let Some(batch) = listing.next().await.map_err(failed)? {
            let found = batch
                .processes
                .into_iter()
                .find(|process| process.identity.as_ref().is_some_and(|identity| identity.pid == target.pid));
            let Some(process) = found else { continue };
            if process.identity.is_some_and(|identity| identity.start_ticks != target.start_ticks) {
                return Err(answer(SignalOutcome::IdentityChanged, pid_reused(target)));
            }
            return Ok(process.info.and_then(|info| info.user));
        }
        let message = format!("host `{}` has no process {}; nothing was signalled", cell.name(), target.pid);
        Err(answer(SignalOutcome::NotFound, message))
    }
}

fn compare(snapshot: &HostSnapshot, target: &v1::ProcessTarget) -> Known {
    if snapshot.host.boot_id != target.boot_id {
        return Known::Changed(format!(
            "host `{}` has been rebooted since you looked; nothing was signalled",
            target.host
        ));
    }
    let same_pid = snapshot.processes.values().filter(|process| process.identity.pid == target.pid);
    let mut known = Known::Unseen;
    for process in same_pid {
        if process.identity.start_ticks == target.start_ticks {
            return Known::Same(Arc::clone(process));
        }
        // A start time that could not be read tells nothing.
        if process.identity.start_ticks != 0 {
            known = Known::Changed(pid_reused(target));
        }
    }
    known
}

fn pid_reused(target: &v1::ProcessTarget) -> String {
    format!("pid {} of host `{}` is another process now; nothing was signalled", target.pid, target.host)
}

fn answer(outcome: SignalOutcome, message: String) -> Answer {
    Answer { outcome: outcome.into(), message, progress: None }
}

fn log_attempt(attempt: &Attempt, rule: Rule) {
    let target = &attempt.target;
    info!(
        caller = %attempt.caller,
        source = %attempt.source,
        host = %target.host,
        pid = target.pid,
        start_ticks = target.start_ticks,
        signal = attempt.signal,
        request_id = %attempt.request_id,
        reason = %attempt.reason,
        rule = rule.as_str(),
        "signal allowed; sending it to the agent"
    );
}

fn log_repetition(attempt: &Attempt) {
    info!(
        caller = %attempt.caller,
        source = %attempt.source,
        host = %attempt.target.host,
        pid = attempt.target.pid,
        request_id = %attempt.request_id,
        "signal request repeated; it gets the first outcome and reaches no agent"
    );
}

fn log_outcome(attempt: &Attempt, answer: &Answer) {
    let target = &attempt.target;
    info!(
        caller = %attempt.caller,
        source = %attempt.source,
        host = %target.host,
        pid = target.pid,
        start_ticks = target.start_ticks,
        signal = attempt.signal,
        request_id = %attempt.request_id,
        reason = %attempt.reason,
        outcome = answer.outcome().as_str_name(),
        message = %answer.message,
        "signal attempt ended"
    );
}
