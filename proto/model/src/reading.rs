//! A reading is a value, or the reason there is none.

use thiserror::Error;

/// One measured value, or why it is not known. Never a sentinel number.
pub type Reading<T> = Result<T, Unknown>;

/// Why a reading has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum Unknown {
    /// The device, driver or backend does not offer this reading.
    #[error("not supported")]
    NotSupported,
    /// The reading exists but this agent may not see it.
    #[error("no permission")]
    NoPermission,
    /// The device, or the process, is gone.
    #[error("lost")]
    Lost,
    /// The driver did not answer within its deadline.
    #[error("timed out")]
    Timeout,
    /// Needs more samples than have been taken so far.
    #[error("not yet known")]
    NotYet,
    /// The driver answered with an error, or with a value that cannot be true.
    #[error("failed")]
    Failed,
}
