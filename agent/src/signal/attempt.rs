//! One attempt and its report.

use std::time::Duration;

use gpufleet_proto::convert::{duration, std_duration};
use gpufleet_proto::v1;
use tonic::Status;

use super::LONGEST_WAIT;
use crate::service::invalid;

/// Characters a request id may have.
const MOST_ID: usize = 64;
/// Characters a reason may have.
const MOST_REASON: usize = 1024;
/// The highest signal number of Linux.
const MOST_SIGNAL: u32 = 64;

/// A request to signal one pinned process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Who asks this agent.
    pub caller: String,
    /// On whose behalf.
    pub on_behalf_of: String,
    /// Chosen by the caller, unique for each attempt.
    pub request_id: String,
    /// The host that is meant.
    pub host: String,
    /// The boot that is meant.
    pub boot_id: String,
    /// The process.
    pub pid: u32,
    /// Its start.
    pub start_ticks: u64,
    /// Signal number.
    pub signal: u32,
    /// Why, in the caller's words.
    pub reason: String,
    /// How long to wait for its end.
    pub wait: Option<Duration>,
}

impl Attempt {
    /// Checks a request.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` naming the field.
    pub(crate) fn from_wire(caller: String, wire: v1::SignalProcessRequest) -> Result<Self, Status> {
        let target = wire.target.ok_or_else(|| invalid("target", "is missing"))?;
        if target.start_ticks == 0 {
            let problem = "is 0: a process whose start is not known cannot be pinned, and is not signalled";
            return Err(invalid("target.start_ticks", problem));
        }
        if !(1..=MOST_SIGNAL).contains(&wire.signal) {
            return Err(invalid("signal", "is not a signal number from 1 to 64"));
        }
        if wire.request_id.is_empty() || wire.request_id.chars().count() > MOST_ID {
            return Err(invalid("request_id", "must have from 1 to 64 characters"));
        }
        if wire.reason.chars().count() > MOST_REASON {
            return Err(invalid("reason", "has more than 1,024 characters"));
        }
        let wait = match wire.wait {
            None => None,
            Some(wait) => Some(std_duration(wait).ok_or_else(|| invalid("wait", "is not a length of time"))?),
        };
        if wait.is_some_and(|wait| wait > LONGEST_WAIT) {
            return Err(invalid("wait", "is longer than 5 minutes"));
        }
        Ok(Self {
            caller,
            on_behalf_of: wire.on_behalf_of,
            request_id: wire.request_id,
            host: target.host,
            boot_id: target.boot_id,
            pid: target.pid,
            start_ticks: target.start_ticks,
            signal: wire.signal,
            reason: wire.reason,
            wait,
        })
    }

    pub(super) fn delivered_message(&self) -> String {
        format!("signal {} was delivered to {}", self.signal, self.pid)
    }
}

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The kernel accepted the signal for the pinned process.
    Delivered,
    /// The process had already ended.
    NotFound,
    /// The pid is of another process now, or the host was rebooted.
    IdentityChanged,
    /// Refused always.
    Protected,
    /// The kernel refused.
    NoPermission,
    /// It cannot be said.
    Indeterminate,
    /// The kernel answered with another error.
    Failed,
}

impl From<Outcome> for v1::SignalOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Delivered => Self::Delivered,
            Outcome::NotFound => Self::NotFound,
            Outcome::IdentityChanged => Self::IdentityChanged,
            Outcome::Protected => Self::Protected,
            Outcome::NoPermission => Self::NoPermission,
            Outcome::Indeterminate => Self::Indeterminate,
            Outcome::Failed => Self::Failed,
        }
    }
}

/// What became of the process afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// It is gone. `None` when the wait was cut short.
    pub process_gone: Option<bool>,
    /// The memory it held on devices is free. `None` when that cannot be told.
    pub device_memory_released: Option<bool>,
    /// How long was waited.
    pub waited: Duration,
}

/// An outcome in words, and what became of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What became of the attempt.
    pub outcome: Outcome,
    /// One line for people.
    pub message: String,
    /// What became of the process; `None` when nobody asked to wait.
    pub progress: Option<Progress>,
}

impl Report {
    pub(super) fn new(outcome: Outcome, message: impl Into<String>) -> Self {
        Self { outcome, message: message.into(), progress: None }
    }
}

impl From<Report> for v1::SignalProcessResponse {
    fn from(report: Report) -> Self {
        let progress = |progress: Progress| v1::SignalProgress {
            process_gone: progress.process_gone,
            device_memory_released: progress.device_memory_released,
            waited: Some(duration(progress.waited)),
        };
        Self {
            outcome: v1::SignalOutcome::from(report.outcome).into(),
            message: report.message,
            progress: report.progress.map(progress),
        }
    }
}
