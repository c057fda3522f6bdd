//! What a certificate file holds, for people.

use std::fmt::Write as _;
use std::path::Path;
use std::time::SystemTime;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::prelude::X509Certificate;

use super::{PkiError, files};
use crate::certificate;
use crate::identity::PeerIdentity;

/// One certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateSummary {
    /// The subject's name.
    pub subject: String,
    /// The issuer's name.
    pub issuer: String,
    /// The identity, when it has one of ours.
    pub identity: Option<PeerIdentity>,
    /// Serial number in hexadecimal.
    pub serial: String,
    /// When it becomes valid.
    pub not_before: SystemTime,
    /// When it ends.
    pub not_after: SystemTime,
    /// SHA-256 of the certificate, in hexadecimal.
    pub fingerprint: String,
    /// True for an authority's certificate.
    pub authority: bool,
}

/// Reads every certificate in a PEM file.
///
/// # Errors
/// When the file cannot be read, or holds no certificate.
pub fn inspect(path: &Path) -> Result<Vec<CertificateSummary>, PkiError> {
    let text = files::read(path)?;
    let content = |problem: &str| PkiError::Content { path: path.to_owned(), problem: problem.to_owned() };
    let chain = chain(&text).ok_or_else(|| content("damaged PEM"))?;
    if chain.is_empty() {
        return Err(content("holds no certificate"));
    }
    chain.iter().map(|der| summary(der).ok_or_else(|| content("holds something that is not a certificate"))).collect()
}

/// The trust domain of an authority: its one URI is `spiffe://DOMAIN`.
pub(super) fn authority_domain(pem: &str) -> Result<String, String> {
    let chain = chain(pem).ok_or("damaged PEM")?;
    let der = chain.first().ok_or("holds no certificate")?;
    let parsed = certificate::parse(der).map_err(|problem| problem.to_string())?;
    let domain = match certificate::uris(&parsed).as_slice() {
        [uri] => uri.strip_prefix("spiffe://").map(str::to_owned),
        _ => None,
    };
    domain.ok_or_else(|| "is not an authority made by `gpuctl pki init`: it names no trust domain".to_owned())
}

fn chain(pem: &str) -> Option<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().ok()
}

fn summary(der: &CertificateDer<'_>) -> Option<CertificateSummary> {
    let parsed: X509Certificate<'_> = certificate::parse(der).ok()?;
    let (not_before, not_after) = certificate::validity(&parsed);
    let sha256 = rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256.tls13()?.common.hash_provider;
    let digest = sha256.hash(der);
    Some(CertificateSummary {
        subject: parsed.subject().to_string(),
        issuer: parsed.issuer().to_string(),
        identity: certificate::identity(der).ok(),
        serial: parsed.raw_serial_as_string().replace(':', ""),
        not_before,
        not_after,
        fingerprint: hex(digest.as_ref()),
        authority: parsed.is_ca(),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
