//! Why there is no connection, by what the caller can do about it.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError};
use thiserror::Error;

/// Why there is no connection.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Not an address.
    #[error("`{0}` is not an address; write HOST:PORT")]
    Address(String),
    /// The name does not resolve.
    #[error("`{address}`: the name cannot be resolved: {cause}")]
    Resolve {
        /// Where to.
        address: String,
        /// What the resolver said.
        cause: io::Error,
    },
    /// Nothing listens there.
    #[error("`{address}`: connection refused; nothing listens there")]
    Refused {
        /// Where to.
        address: String,
    },
    /// No connection in time.
    #[error("`{address}`: no connection within {limit:?}")]
    Timeout {
        /// Where to.
        address: String,
        /// How long.
        limit: Duration,
    },
    /// The network failed.
    #[error("`{address}`: {cause}")]
    Network {
        /// Where to.
        address: String,
        /// What the system said.
        cause: io::Error,
    },
    /// What answers does not speak TLS, or not ours.
    #[error("`{address}`: what answers there does not speak gpufleet's TLS: {problem}")]
    NotTls {
        /// Where to.
        address: String,
        /// What was wrong.
        problem: String,
    },
    /// The server's certificate is not to be trusted.
    #[error("`{address}`: the server's certificate is not valid here: {problem}")]
    ServerCertificate {
        /// Where to.
        address: String,
        /// What was wrong.
        problem: String,
    },
    /// The server does not accept ours.
    #[error("`{address}`: the server refused our certificate: {problem}")]
    OwnCertificate {
        /// Where to.
        address: String,
        /// What it said.
        problem: String,
    },
    /// The server's certificate has no identity.
    #[error("`{address}`: the server's certificate {problem}")]
    NoIdentity {
        /// Where to.
        address: String,
        /// What was wrong.
        problem: String,
    },
    /// The server is of another trust domain.
    #[error("`{address}`: `{found}` answers there, which is not of our trust domain `{own}`")]
    WrongTrustDomain {
        /// Where to.
        address: String,
        /// Who answers.
        found: String,
        /// Ours.
        own: String,
    },
    /// Somebody else answers.
    #[error("`{address}`: `{found}` answers there, expected {wanted}")]
    WrongPeer {
        /// Where to.
        address: String,
        /// Who answers.
        found: String,
        /// Who should.
        wanted: String,
    },
    /// HTTP/2 did not come about.
    #[error("`{address}`: HTTP/2 failed: {cause}")]
    Http2 {
        /// Where to.
        address: String,
        /// What failed.
        cause: tonic::transport::Error,
    },
}

impl ConnectError {
    pub(super) fn from_io(address: &str, source: io::Error) -> Self {
        let address = address.to_owned();
        match source.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused { address },
            _ => Self::Network { address, cause: source },
        }
    }

    /// Tells apart what TLS failures mean.
    pub(super) fn from_tls(address: &str, source: io::Error) -> Self {
        let Some(error) = source.get_ref().and_then(rustls_error) else {
            if source.kind() == io::ErrorKind::UnexpectedEof {
                let problem = "the connection was closed during the handshake".to_owned();
                return Self::NotTls { address: address.to_owned(), problem };
            }
            return Self::from_io(address, source);
        };
        let address = address.to_owned();
        match error {
            rustls::Error::InvalidCertificate(problem) => {
                Self::ServerCertificate { address, problem: certificate_problem(problem) }
            }
            rustls::Error::AlertReceived(alert) => match alert_problem(*alert) {
                Some(problem) => Self::OwnCertificate { address, problem: problem.to_owned() },
                None => Self::NotTls { address, problem: format!("alert {alert:?}") },
            },
            other => Self::NotTls { address, problem: other.to_string() },
        }
    }
}

fn rustls_error<'e>(error: &'e (dyn StdError + Send + Sync + 'static)) -> Option<&'e rustls::Error> {
    error.downcast_ref::<rustls::Error>()
}

fn certificate_problem(problem: &CertificateError) -> String {
    match problem {
        // An authority of the same name with another key shows as a bad signature.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "it is signed by an authority that `ca.crt` does not hold".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet; compare the clocks".to_owned()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "it is not made for servers".to_owned()
        }
        other => other.to_string(),
    }
}

/// What a server's alert says of our certificate; `None` when it is about something else.
const fn alert_problem(alert: AlertDescription) -> Option<&'static str> {
    Some(match alert {
        AlertDescription::UnknownCA => "it is signed by an authority that the server does not trust",
        AlertDescription::CertificateExpired => "it has expired, or is not valid yet",
        AlertDescription::CertificateRequired => "it wants one and got none",
        AlertDescription::CertificateRevoked => "it is revoked",
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown => "it is not made for this use",
        AlertDescription::DecryptError => "its signature does not hold",
        AlertDescription::AccessDenied => "access denied",
        _ => return None,
    })
}
