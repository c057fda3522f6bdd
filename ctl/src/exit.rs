//! Exit codes, and errors that carry one.

use std::fmt;
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

impl From<Status> for CtlError {
    fn from(status: Status) -> Self {
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
        Self::failed(error.to_string())
    }
}
