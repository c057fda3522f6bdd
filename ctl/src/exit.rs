//! Exit codes, and errors that carry one.

use std::fmt;
use std::io::ErrorKind;
use std::process::ExitCode;

use gpufleet_proto::status::Reason;
use gpufleet_transport::ConnectError;
use gpufleet_transport::pki::PkiError;
use tonic::{Code, Status};

/// How a command ended. The numbers are a contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All done.
    Ok = 0,
    /// It failed.
    Failed = 1,
    /// Wrong flags, arguments or configuration.
    Usage = 2,
    /// Some hosts failed, are stale or missing.
    Partial = 3,
    /// Refused by policy.
    Denied = 4,
    /// Nobody could be reached.
    Unreachable = 5,
    /// Declined at the prompt.
    Declined = 6,
    /// Interrupted by the user.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error for people, with the exit code it means.
#[derive(Debug)]
pub(crate) struct CtlError {
    pub(crate) exit: Exit,
    message: String,
}

pub(crate) type Result<T> = std::result::Result<T, CtlError>;

impl CtlError {
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }

    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self { exit: Exit::Unreachable, message: message.into() }
    }

    /// The reader of standard output has seen enough: not a failure, only a reason to stop and clean up.
    const fn reader_gone() -> Self {
        Self { exit: Exit::Ok, message: String::new() }
    }

    /// What is to be told; nothing when the reader of standard output has gone.
    pub(crate) fn message(&self) -> Option<&str> {
        Some(self.message.as_str()).filter(|message| !message.is_empty())
    }

    /// True when trying again may help: the other side is gone, busy or restarting.
    pub(crate) fn is_temporary(&self) -> bool {
        self.exit == Exit::Unreachable
    }
}

impl fmt::Display for CtlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CtlError {}

impl From<ConnectError> for CtlError {
    fn from(error: ConnectError) -> Self {
        let exit = match error {
            ConnectError::Address(_) => Exit::Usage,
            ConnectError::ServerCertificate { .. }
            | ConnectError::OwnCertificate { .. }
            | ConnectError::NoIdentity { .. }
            | ConnectError::WrongTrustDomain { .. }
            | ConnectError::WrongPeer { .. } => Exit::Failed,
            _ => Exit::Unreachable,
        };
        Self { exit, message: error.to_string() }
    }
}

/// What became of a connection, for people. A status with a cause was made on this side, of an error of the transport;
/// one that the other side sent has none.
fn broken(status: &Status) -> Option<String> {
    let mut cause = std::error::Error::source(status);
    cause?;
    let mut told = String::new();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            return Some(match error.kind() {
                ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => CLOSED.to_owned(),
                ErrorKind::TimedOut => SILENT.to_owned(),
                // The text of the system, without its number.
                kind => kind.to_string(),
            });
        }
        told = error.to_string();
        cause = error.source();
    }
    Some(if told.contains("timed out") { SILENT.to_owned() } else { CLOSED.to_owned() })
}

const CLOSED: &str = "the other side closed it";
const SILENT: &str = "the other side does not answer";

impl From<Status> for CtlError {
    fn from(status: Status) -> Self {
        if let (None, Some(why)) = (Reason::of(&status), broken(&status)) {
            return Self::unreachable(format!("the connection was lost: {why}"));
        }
        let exit = match (Reason::of(&status), status.code()) {
            (Some(Reason::InvalidFilter | Reason::InvalidArgument), _) => Exit::Usage,
            (_, Code::PermissionDenied | Code::Unauthenticated) => Exit::Denied,
            (_, Code::Unavailable) => Exit::Unreachable,
            _ => Exit::Failed,
        };
        let message = match status.code() {
            Code::Unavailable if Reason::of(&status).is_none() => {
                format!("the connection was lost: {}", status.message())
            }
            _ => status.message().to_owned(),
        };
        Self { exit, message }
    }
}

impl From<PkiError> for CtlError {
    fn from(error: PkiError) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<std::io::Error> for CtlError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            // Only standard output is a pipe that is written to.
            std::io::ErrorKind::BrokenPipe => Self::reader_gone(),
            _ => Self::failed(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_is_told_in_words_and_may_come_back() {
        for (kind, words) in [
            (ErrorKind::ConnectionReset, "the connection was lost: the other side closed it"),
            (ErrorKind::UnexpectedEof, "the connection was lost: the other side closed it"),
            (ErrorKind::TimedOut, "the connection was lost: the other side does not answer"),
        ] {
            let cause = std::io::Error::new(kind, "peer did so: https://docs.rs/library");
            let error = CtlError::from(Status::from_error(Box::new(cause)));
            assert_eq!(error.to_string(), words);
            assert!(error.is_temporary());
        }
    }

    #[test]
    fn what_the_other_side_says_is_passed_on() {
        let error = CtlError::from(Status::permission_denied("no"));
        assert_eq!((error.exit, error.to_string().as_str()), (Exit::Denied, "no"));
        let error = CtlError::from(Status::invalid_argument("bad"));
        assert_eq!((error.exit, error.is_temporary()), (Exit::Failed, false));
        let error = CtlError::from(Reason::UnknownHost.status("no host `x`", [("host", "x".to_owned())]));
        assert_eq!((error.exit, error.to_string().as_str()), (Exit::Failed, "no host `x`"));
    }

    #[test]
    fn a_reader_that_has_gone_is_no_failure() {
        let gone = CtlError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert_eq!((gone.exit, gone.message()), (Exit::Ok, None));
        let full = CtlError::from(std::io::Error::from(std::io::ErrorKind::StorageFull));
        assert_eq!(full.exit, Exit::Failed);
        assert!(full.message().is_some());
    }
}
