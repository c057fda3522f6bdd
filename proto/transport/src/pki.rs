//! A small certificate authority, for people who have none.
//!
//! [`Authority`] makes one root and issues leaves for agents, aggregators, users and services: ECDSA P-256, a SPIFFE
//! URI, and the purpose that the role needs. [`inspect`] tells what a certificate file holds. Nothing is overwritten
//! unless asked for, and then by an atomic replacement.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType,
};
use thiserror::Error;

use crate::credentials::{CA_FILE, CERTIFICATE_FILE, Credentials, CredentialsError, KEY_FILE};
use crate::identity::{ParseIdentityError, PeerIdentity, Role};

mod files;
mod inspect;

pub use inspect::{CertificateSummary, inspect};

/// Private key of an authority, beside its `ca.crt`.
pub const CA_KEY_FILE: &str = "ca.key";
/// How long a root is valid unless asked otherwise.
pub const DEFAULT_CA_VALIDITY: Duration = Duration::from_hours(24 * 3650);
/// How long a leaf is valid unless asked otherwise.
pub const DEFAULT_LEAF_VALIDITY: Duration = Duration::from_hours(24 * 90);
/// Certificates begin this much in the past, for hosts whose clocks are behind.
const BACKDATE: Duration = Duration::from_mins(5);

/// Why the authority cannot do what it was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PkiError {
    /// Something is there already.
    #[error("`{0}` exists already; nothing was written")]
    Exists(PathBuf),
    /// A file cannot be read or written.
    #[error("`{path}`: {cause}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A name is not allowed.
    #[error(transparent)]
    Identity(#[from] ParseIdentityError),
    /// The authority's files are not what they should be.
    #[error("`{path}`: {problem}")]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The time asked for is not possible.
    #[error("a certificate cannot be valid for {0:?}; ask for at least a second and at most a century")]
    Validity(Duration),
    /// A certificate could not be made.
    #[error("certificate could not be made: {0}")]
    Generation(#[from] rcgen::Error),
    /// What was made does not work.
    #[error("the certificate that was made does not work: {0}")]
    Unusable(#[from] CredentialsError),
}

/// What to issue.
#[derive(Debug, Clone)]
pub struct IssueRequest {
    /// What it is for.
    pub role: Role,
    /// Its name.
    pub name: String,
    /// How long it is valid.
    pub validity: Duration,
    /// DNS names to put beside the identity, for other software.
    pub dns_names: Vec<String>,
    /// Addresses to put beside the identity, for other software.
    pub addresses: Vec<IpAddr>,
    /// Replace files that exist, atomically, for rotation.
    pub replace: bool,
}

impl IssueRequest {
    /// A request with the default validity and nothing but the identity.
    pub fn new(role: Role, name: impl Into<String>) -> Self {
        Self {
            role,
            name: name.into(),
            validity: DEFAULT_LEAF_VALIDITY,
            dns_names: Vec::new(),
            addresses: Vec::new(),
            replace: false,
        }
    }
}

/// What was issued, as PEM texts.
#[derive(Clone)]
pub struct Issued {
    /// The roots to trust.
    pub ca: String,
    /// The leaf.
    pub certificate: String,
    /// Its private key.
    pub key: String,
    /// Who it is for.
    pub identity: PeerIdentity,
}

impl Issued {
    /// Credentials from memory.
    ///
    /// # Errors
    /// When what was issued cannot be used, for example because it has expired.
    pub fn credentials(&self) -> Result<Credentials, CredentialsError> {
        Credentials::from_pem(&self.ca, &self.certificate, &self.key)
    }

    /// Writes the three files into a directory that is made with mode 0700; the key gets mode 0600.
    ///
    /// # Errors
    /// When a file exists and `replace` is false, or cannot be written.
    pub fn write(&self, directory: &Path, replace: bool) -> Result<(), PkiError> {
        files::make_private_directory(directory)?;
        let contents =
            [(CA_FILE, &self.ca, 0o644), (CERTIFICATE_FILE, &self.certificate, 0o644), (KEY_FILE, &self.key, 0o600)];
        if !replace {
            files::refuse_existing(contents.iter().map(|(name, ..)| directory.join(name)))?;
        }
        // The certificate last: a program that reloads in between keeps its last good pair.
        for (name, text, mode) in [contents[0], contents[2], contents[1]] {
            files::write(&directory.join(name), text, mode, replace)?;
        }
        Ok(())
    }
}

/// A certificate authority of one root.
pub struct Authority {
    trust_domain: String,
    ca: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new root that exists in memory only.
    ///
    /// # Errors
    /// When the trust domain or the validity is not allowed.
    pub fn in_memory(trust_domain: &str, validity: Duration) -> Result<Self, PkiError> {
        Ok(Self::generate(trust_domain, validity)?.0)
    }

    /// A new root in `directory`: `ca.crt`, and `ca.key` with mode 0600.
    ///
    /// # Errors
    /// When an authority is there already; nothing is then written.
    pub fn init(directory: &Path, trust_domain: &str, validity: Duration) -> Result<Self, PkiError> {
        let (authority, key) = Self::generate(trust_domain, validity)?;
        files::make_private_directory(directory)?;
        let (certificate_path, key_path) = (directory.join(CA_FILE), directory.join(CA_KEY_FILE));
        files::refuse_existing([certificate_path.clone(), key_path.clone()])?;
        files::write(&key_path, &key, 0o600, false)?;
        files::write(&certificate_path, &authority.ca, 0o644, false)?;
        Ok(authority)
    }

    /// The authority in `directory`.
    ///
    /// # Errors
    /// When its files cannot be read or are not an authority's.
    pub fn load(directory: &Path) -> Result<Self, PkiError> {
        let (certificate_path, key_path) = (directory.join(CA_FILE), directory.join(CA_KEY_FILE));
        let ca = files::read(&certificate_path)?;
        let content = |path: &Path, problem: String| PkiError::Content { path: path.to_owned(), problem };
        let key = KeyPair::from_pem(&files::read(&key_path)?)
            .map_err(|error| content(&key_path, format!("holds no private key: {error}")))?;
        let trust_domain = inspect::authority_domain(&ca).map_err(|problem| content(&certificate_path, problem))?;
        let issuer = Issuer::from_ca_cert_pem(&ca, key)
            .map_err(|error| content(&certificate_path, format!("is not an authority's certificate: {error}")))?;
        Ok(Self { trust_domain, ca, issuer })
    }

    fn generate(trust_domain: &str, validity: Duration) -> Result<(Self, String), PkiError> {
        // The name is checked with the domain; an authority is no peer.
        PeerIdentity::new(trust_domain, Role::Service, "authority")?;
        let mut params = CertificateParams::default();
        set_validity(&mut params, validity)?;
        params.distinguished_name = named(&format!("gpufleet authority of {trust_domain}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.subject_alt_names = vec![SanType::URI(Ia5String::try_from(format!("spiffe://{trust_domain}"))?)];
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let (ca, key_pem) = (params.self_signed(&key)?.pem(), key.serialize_pem());
        let issuer = Issuer::new(params, key);
        Ok((Self { trust_domain: trust_domain.to_owned(), ca, issuer }, key_pem))
    }

    /// The domain that this authority speaks for.
    pub fn trust_domain(&self) -> &str {
        &self.trust_domain
    }

    /// The root, as a PEM text.
    pub fn certificate(&self) -> &str {
        &self.ca
    }

    /// Issues a certificate.
    ///
    /// # Errors
    /// When a name or the validity is not allowed.
    pub fn issue(&self, request: &IssueRequest) -> Result<Issued, PkiError> {
        self.issue_between(request, SystemTime::now() - BACKDATE, request.validity + BACKDATE)
    }

    /// Issues a certificate that begins at a chosen time, for tests of what has expired or is not valid yet.
    ///
    /// # Errors
    /// As [`Authority::issue`].
    pub fn issue_between(
        &self,
        request: &IssueRequest,
        begins: SystemTime,
        length: Duration,
    ) -> Result<Issued, PkiError> {
        let identity = PeerIdentity::new(&self.trust_domain, request.role, &request.name)?;
        let mut params = CertificateParams::default();
        params.not_before = begins.into();
        params.not_after = begins.checked_add(length).ok_or(PkiError::Validity(length))?.into();
        set_purpose(&mut params, request.role);
        params.distinguished_name = named(&request.name);
        params.subject_alt_names.push(SanType::URI(Ia5String::try_from(identity.to_string())?));
        for name in &request.dns_names {
            params.subject_alt_names.push(SanType::DnsName(Ia5String::try_from(name.as_str())?));
        }
        params.subject_alt_names.extend(request.addresses.iter().map(|address| SanType::IpAddress(*address)));
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Issued { ca: self.ca.clone(), certificate, key: key.serialize_pem(), identity })
    }
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    // A common name holds 64 characters at most; the whole name stands in the URI.
    name.push(DnType::CommonName, common_name.chars().take(64).collect::<String>());
    name
}

fn set_validity(params: &mut CertificateParams, validity: Duration) -> Result<(), PkiError> {
    const CENTURY: Duration = Duration::from_hours(24 * 36_525);
    if !(Duration::from_secs(1)..=CENTURY).contains(&validity) {
        return Err(PkiError::Validity(validity));
    }
    let now = SystemTime::now();
    params.not_before = (now - BACKDATE).into();
    params.not_after = (now + validity).into();
    Ok(())
}

/// Agents and aggregators serve and dial; users and services only dial.
fn set_purpose(params: &mut CertificateParams, role: Role) {
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = match role {
        Role::Agent | Role::Aggregator => {
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth]
        }
        Role::User | Role::Service => vec![ExtendedKeyUsagePurpose::ClientAuth],
    };
}
