//! Sends a signal request to the agent, once, and tells what can be said of the outcome.

use std::time::Duration;

use gpufleet_proto::convert::duration;
use gpufleet_proto::status::Reason;
use gpufleet_proto::v1::agent_service_client::AgentServiceClient;
use gpufleet_proto::v1::{self, SignalOutcome};
use tonic::{Code, Status};
use tower::ServiceExt as _;

use super::{Answer, Attempt, answer};
use crate::state::HostCell;

/// How long an agent may take beyond the time it was asked to wait.
const ANSWER_TIME: Duration = Duration::from_secs(15);
/// How long the connection may take to accept a request.
const READY_TIME: Duration = Duration::from_secs(5);

pub(super) async fn send(attempt: &Attempt, cell: &HostCell) -> Answer {
    let host = cell.name();
    let unreachable = || {
        answer(
            SignalOutcome::Unreachable,
            format!("the connection to host `{host}` was just lost; nothing was sent to it"),
        )
    };
    let Some(mut channel) = cell.channel() else { return unreachable() };
    match tokio::time::timeout(READY_TIME, channel.ready()).await {
        Ok(Ok(_)) => {}
        Ok(Err(_)) | Err(_) => return unreachable(),
    }
    let limit = attempt.wait.unwrap_or_default() + ANSWER_TIME;
    let mut request = tonic::Request::new(v1::SignalProcessRequest {
        target: Some(attempt.target.clone()),
        signal: attempt.signal,
        request_id: attempt.request_id.clone(),
        on_behalf_of: attempt.caller.to_string(),
        reason: attempt.reason.clone(),
        wait: attempt.wait.map(duration),
    });
    request.set_timeout(limit);
    // From here on the request may have left this process.
    let mut client = AgentServiceClient::new(channel);
    match tokio::time::timeout(limit, client.signal_process(request)).await {
        Ok(Ok(response)) => {
            let v1::SignalProcessResponse { outcome, message, progress } = response.into_inner();
            match SignalOutcome::try_from(outcome) {
                Ok(SignalOutcome::Unspecified) | Err(_) => indeterminate(host, "its answer cannot be understood"),
                Ok(_) => Answer { outcome, message, progress },
            }
        }
        Ok(Err(status)) => judge(host, &status),
        Err(_) => indeterminate(host, "it did not answer in time"),
    }
}

/// An error that the agent's handler made, before it acted, is definite; any other tells nothing of what happened.
fn judge(host: &str, status: &Status) -> Answer {
    let refused = matches!(
        status.code(),
        Code::InvalidArgument
            | Code::NotFound
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::ResourceExhausted
            | Code::Unimplemented
    );
    if !refused || Reason::of(status).is_none() {
        return indeterminate(host, &crate::fan_in::describe(status));
    }
    let outcome = if status.code() == Code::PermissionDenied { SignalOutcome::Denied } else { SignalOutcome::Failed };
    answer(outcome, format!("the agent of host `{host}` refused: {}; nothing was signalled", status.message()))
}

fn indeterminate(host: &str, why: &str) -> Answer {
    let message = format!(
        "it cannot be said whether the signal was delivered: host `{host}` gave no clear answer: {why}; look at the process before you try again"
    );
    answer(SignalOutcome::Indeterminate, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_agents_own_refusal_is_definite() {
        let outcome = |status: Status| judge("h", &status).outcome();
        let reason = |reason: Reason| reason.status("x", [("field", "x".to_owned())]);
        assert_eq!(outcome(reason(Reason::InvalidArgument)), SignalOutcome::Failed);
        assert_eq!(outcome(reason(Reason::AccessDenied)), SignalOutcome::Denied);
        assert_eq!(outcome(Status::invalid_argument("from who knows where")), SignalOutcome::Indeterminate);
        assert_eq!(outcome(Status::unavailable("broken pipe")), SignalOutcome::Indeterminate);
        assert_eq!(outcome(Status::cancelled("")), SignalOutcome::Indeterminate);
        assert_eq!(outcome(reason(Reason::ShuttingDown)), SignalOutcome::Indeterminate);
    }
}
