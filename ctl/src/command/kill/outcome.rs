//! What became of each target: the line for people, and the one exit code of all.

use gpufleet_proto::convert::std_duration;
use gpufleet_proto::v1::{self, SignalOutcome};

use crate::exit::{CtlError, Exit};
use crate::signals;

/// How one target ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Ok,
    Failed,
    Denied,
    Unreachable,
}

/// What to say of an answer, and whether it is what was asked for.
pub(super) fn of_answer(answer: &v1::SignalProcessResponse, signal: u32, waited: bool) -> (Ended, String) {
    let message = &answer.message;
    match answer.outcome() {
        SignalOutcome::Delivered => match &answer.progress {
            Some(progress) if waited => ended(progress, signal),
            _ if waited => {
                (Ended::Failed, format!("{} delivered; whether it ended is not known", signals::name(signal)))
            }
            _ => (Ended::Ok, format!("{} delivered", signals::name(signal))),
        },
        SignalOutcome::NotFound => (Ended::Failed, "had already ended; nothing was signalled".to_owned()),
        SignalOutcome::IdentityChanged => {
            (Ended::Failed, format!("is not the process that was shown; nothing was signalled ({message})"))
        }
        SignalOutcome::Protected => (Ended::Denied, format!("refused: {message}")),
        SignalOutcome::Denied => (Ended::Denied, format!("refused by policy: {message}")),
        SignalOutcome::Unreachable => (Ended::Unreachable, format!("unreachable, nothing was sent: {message}")),
        SignalOutcome::Indeterminate => {
            (Ended::Failed, format!("OUTCOME UNKNOWN: {message}; look with `gpuctl ps` before trying again"))
        }
        _ => (Ended::Failed, message.clone()),
    }
}

/// What to say when there is no answer. A request that was under way may have been carried out.
pub(super) fn of_error(error: &CtlError) -> (Ended, String) {
    match error.exit {
        Exit::Denied => (Ended::Denied, error.to_string()),
        Exit::Unreachable => {
            let line = format!("OUTCOME UNKNOWN: {error}; look with `gpuctl ps` before trying again");
            (Ended::Unreachable, line)
        }
        _ => (Ended::Failed, error.to_string()),
    }
}

fn ended(progress: &v1::SignalProgress, signal: u32) -> (Ended, String) {
    let waited = progress.waited.and_then(std_duration).map(|waited| format!("{:.1} s", waited.as_secs_f64()));
    let waited = waited.unwrap_or_else(|| "the wait".to_owned());
    let signal = signals::name(signal);
    match (progress.process_gone, progress.device_memory_released) {
        (Some(true), Some(true)) => {
            (Ended::Ok, format!("{signal} delivered; gone and its device memory free after {waited}"))
        }
        (Some(true), _) => (
            Ended::Failed,
            format!("{signal} delivered; gone, but its device memory was not seen free within {waited}"),
        ),
        (Some(false), _) => (Ended::Failed, format!("{signal} delivered; still running after {waited}")),
        (None, _) => (Ended::Failed, format!("{signal} delivered; whether it ended is not known")),
    }
}

/// One exit code of many ends: all the same, or mixed.
pub(super) fn exit(ends: &[Ended]) -> Exit {
    let all = |wanted| ends.iter().all(|end| *end == wanted);
    if all(Ended::Ok) {
        Exit::Ok
    } else if all(Ended::Denied) {
        Exit::Denied
    } else if all(Ended::Unreachable) {
        Exit::Unreachable
    } else if ends.contains(&Ended::Ok) {
        Exit::Partial
    } else {
        Exit::Failed
    }
}

#[cfg(test)]
mod tests {
    use gpufleet_proto::convert::duration;
    use std::time::Duration;

    use super::*;

    #[test]
    fn one_exit_code_of_many_ends() {
        assert_eq!(exit(&[Ended::Ok, Ended::Ok]), Exit::Ok);
        assert_eq!(exit(&[Ended::Ok, Ended::Failed]), Exit::Partial);
        assert_eq!(exit(&[Ended::Denied, Ended::Denied]), Exit::Denied);
        assert_eq!(exit(&[Ended::Denied, Ended::Ok]), Exit::Partial);
        assert_eq!(exit(&[Ended::Unreachable]), Exit::Unreachable);
        assert_eq!(exit(&[Ended::Failed, Ended::Denied]), Exit::Failed);
    }

    #[test]
    fn only_a_delivered_signal_is_a_success() {
        let answer = |outcome: SignalOutcome| v1::SignalProcessResponse {
            outcome: outcome.into(),
            message: "why".to_owned(),
            progress: None,
        };
        assert_eq!(of_answer(&answer(SignalOutcome::Delivered), 15, false), (Ended::Ok, "SIGTERM delivered".into()));
        for (outcome, end, part) in [
            // Asked to wait, and nothing is known of the wait.
            (SignalOutcome::Delivered, Ended::Failed, "not known"),
            (SignalOutcome::NotFound, Ended::Failed, "nothing was signalled"),
            (SignalOutcome::IdentityChanged, Ended::Failed, "nothing was signalled"),
            (SignalOutcome::Protected, Ended::Denied, "why"),
            (SignalOutcome::Denied, Ended::Denied, "why"),
            (SignalOutcome::Unreachable, Ended::Unreachable, "nothing was sent"),
            (SignalOutcome::Indeterminate, Ended::Failed, "OUTCOME UNKNOWN"),
            (SignalOutcome::Failed, Ended::Failed, "why"),
            (SignalOutcome::Unspecified, Ended::Failed, "why"),
        ] {
            let (ended, line) = of_answer(&answer(outcome), 15, true);
            assert!(ended == end && line.contains(part), "{outcome:?}: {ended:?} {line}");
        }
    }

    #[test]
    fn a_wait_succeeds_when_the_process_is_gone_and_its_memory_free() {
        for (gone, released, end, part) in [
            (Some(true), Some(true), Ended::Ok, "free after 1.5 s"),
            (Some(true), Some(false), Ended::Failed, "not seen free"),
            (Some(true), None, Ended::Failed, "not seen free"),
            (Some(false), Some(false), Ended::Failed, "still running after 1.5 s"),
            (None, None, Ended::Failed, "not known"),
        ] {
            let progress = v1::SignalProgress {
                process_gone: gone,
                device_memory_released: released,
                waited: Some(duration(Duration::from_millis(1500))),
            };
            let (ended, line) = ended(&progress, 9);
            assert!(ended == end && line.contains(part), "{gone:?} {released:?}: {line}");
        }
    }
}
