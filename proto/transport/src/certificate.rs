//! What we read of a certificate.

use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use thiserror::Error;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::identity::{ParseIdentityError, PeerIdentity};

/// A certificate that says too little or too much.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(crate) enum CertificateProblem {
    /// Not a certificate.
    #[error("not an X.509 certificate")]
    Encoding,
    /// No SPIFFE URI.
    #[error("has no SPIFFE URI among its subject alternative names")]
    NoIdentity,
    /// More than one.
    #[error("has more than one URI among its subject alternative names")]
    ManyIdentities,
    /// A URI that is not an identity of ours.
    #[error(transparent)]
    Identity(#[from] ParseIdentityError),
}

pub(crate) fn parse<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, CertificateProblem> {
    X509Certificate::from_der(der).map(|(_, certificate)| certificate).map_err(|_| CertificateProblem::Encoding)
}

/// The identity in a leaf: its one URI.
pub(crate) fn identity(der: &CertificateDer<'_>) -> Result<PeerIdentity, CertificateProblem> {
    let certificate = parse(der)?;
    let uris = uris(&certificate);
    match uris.as_slice() {
        [] => Err(CertificateProblem::NoIdentity),
        [uri] => Ok(uri.parse()?),
        _ => Err(CertificateProblem::ManyIdentities),
    }
}

pub(crate) fn uris(certificate: &X509Certificate<'_>) -> Vec<String> {
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.iter().flat_map(|extension| &extension.value.general_names);
    names
        .filter_map(|name| match name {
            GeneralName::URI(uri) => Some((*uri).to_owned()),
            _ => None,
        })
        .collect()
}

/// When a certificate becomes valid and when it ends.
pub(crate) fn validity(certificate: &X509Certificate<'_>) -> (SystemTime, SystemTime) {
    let time = |seconds: i64| {
        let length = Duration::from_secs(seconds.unsigned_abs());
        let time = if seconds < 0 {
            SystemTime::UNIX_EPOCH.checked_sub(length)
        } else {
            SystemTime::UNIX_EPOCH.checked_add(length)
        };
        time.unwrap_or(SystemTime::UNIX_EPOCH)
    };
    let validity = certificate.validity();
    (time(validity.not_before.timestamp()), time(validity.not_after.timestamp()))
}
