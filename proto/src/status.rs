//! The one table from what went wrong to `google.rpc.Status` with `ErrorInfo`.

use std::collections::HashMap;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

/// The domain of every `ErrorInfo` of ours.
pub const DOMAIN: &str = "gpufleet";

macro_rules! reasons {
    ($( $(#[$meta:meta])* $name:ident = $text:literal, $code:ident; )*) => {
        /// Why a request was not answered. The text is the contract; the code follows from it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason {
            $( $(#[$meta])* $name, )*
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The text in `ErrorInfo.reason`.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$name => $text, )*
                }
            }

            /// The gRPC code.
            pub const fn code(self) -> Code {
                match self {
                    $( Self::$name => Code::$code, )*
                }
            }
        }
    };
}

reasons! {
    /// A host that is not in the inventory was named.
    UnknownHost = "UNKNOWN_HOST", NotFound;
    /// A device that does not exist was named.
    UnknownDevice = "UNKNOWN_DEVICE", NotFound;
    /// A process that does not exist was named.
    UnknownProcess = "UNKNOWN_PROCESS", NotFound;
    /// A filter cannot be understood.
    InvalidFilter = "INVALID_FILTER", InvalidArgument;
    /// A field of the request cannot be meant.
    InvalidArgument = "INVALID_ARGUMENT", InvalidArgument;
    /// A page token is not one of ours, or too old.
    InvalidPageToken = "INVALID_PAGE_TOKEN", InvalidArgument;
    /// A request id was used before for something else.
    RequestIdReused = "REQUEST_ID_REUSED", InvalidArgument;
    /// The caller's role may not call this method.
    AccessDenied = "ACCESS_DENIED", PermissionDenied;
    /// The caller gave no identity.
    Unauthenticated = "UNAUTHENTICATED", Unauthenticated;
    /// The method is part of the contract and not served by this version.
    NotImplemented = "NOT_IMPLEMENTED", Unimplemented;
    /// The host cannot be reached now.
    HostUnreachable = "HOST_UNREACHABLE", Unavailable;
    /// The stream reached its greatest age: open it anew.
    StreamAged = "STREAM_AGED", Unavailable;
    /// The server is going away: try again soon.
    ShuttingDown = "SHUTTING_DOWN", Unavailable;
    /// No sample has been taken yet: try again soon.
    NotReady = "NOT_READY", Unavailable;
    /// The caller has too many calls in flight.
    TooManyRequests = "TOO_MANY_REQUESTS", ResourceExhausted;
    /// The answer would be larger than a message may be.
    TooLarge = "TOO_LARGE", ResourceExhausted;
    /// Something of ours failed.
    Internal = "INTERNAL", Internal;
}

impl Reason {
    /// The status for this reason. `message` is for people; `metadata` for programs.
    pub fn status<'m>(
        self,
        message: impl Into<String>,
        metadata: impl IntoIterator<Item = (&'m str, String)>,
    ) -> Status {
        let metadata: HashMap<String, String> =
            metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let details = ErrorDetails::with_error_info(self.as_str(), DOMAIN, metadata);
        Status::with_error_details(self.code(), message, details)
    }

    /// The reason in a status; `None` when it is none of ours.
    pub fn of(status: &Status) -> Option<Self> {
        let info = status.get_details_error_info()?;
        Self::ALL.iter().copied().find(|reason| info.domain == DOMAIN && reason.as_str() == info.reason)
    }
}

/// The metadata of the `ErrorInfo` in a status; empty when it has none.
pub fn metadata(status: &Status) -> HashMap<String, String> {
    status.get_details_error_info().map(|info| info.metadata).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_survives_the_wire() {
        for reason in Reason::ALL {
            let status = reason.status("because", [("host", "host1".to_owned())]);
            assert_eq!(Reason::of(&status), Some(*reason));
            assert_eq!(status.code(), reason.code());
            assert_eq!(metadata(&status).get("host").map(String::as_str), Some("host1"));
        }
    }

    #[test]
    fn a_status_of_somebody_else_has_no_reason_of_ours() {
        assert_eq!(Reason::of(&Status::not_found("nope")), None);
        let details = ErrorDetails::with_error_info("UNKNOWN_HOST", "elsewhere", HashMap::new());
        assert_eq!(Reason::of(&Status::with_error_details(Code::NotFound, "nope", details)), None);
    }
}
