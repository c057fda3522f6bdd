//! One generation of credentials: read, checked, and made into TLS configurations.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use thiserror::Error;

use super::{CA_FILE, CERTIFICATE_FILE, KEY_FILE};
use crate::certificate;
use crate::identity::PeerIdentity;
use crate::tls::{self, Parts};

/// Why credentials cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// A file cannot be read.
    #[error("`{path}`: {cause}; is this the right directory, and may this user read it?")]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// Others may read the private key.
    #[error("`{path}`: the private key is open to other users (mode {mode:03o}); run `chmod 600` on it")]
    OpenKey {
        /// Which file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A file does not hold what it should.
    #[error("`{place}`: {problem}")]
    Content {
        /// Which file, or which text.
        place: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The certificate has ended.
    #[error("`{place}`: the certificate of {identity} expired at {expired_at}; issue a new one")]
    Expired {
        /// Which file, or which text.
        place: String,
        /// Whose.
        identity: String,
        /// When.
        expired_at: humantime::Rfc3339Timestamp,
    },
    /// The files on disk are now for somebody else.
    #[error(
        "`{place}`: the certificate is now for {after}, and this program runs as {before}; restart it to change that"
    )]
    IdentityChanged {
        /// Which file.
        place: String,
        /// Who we are.
        before: String,
        /// Who the new certificate is for.
        after: String,
    },
}

/// The texts that credentials are made of.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Pem {
    pub(super) ca: Vec<u8>,
    pub(super) certificate: Vec<u8>,
    pub(super) key: Vec<u8>,
}

/// Where they come from.
#[derive(Debug)]
pub(super) enum Source {
    Directory(PathBuf),
    Memory(Pem),
}

// The key must not reach a log.
impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pem").finish_non_exhaustive()
    }
}

impl Source {
    pub(super) fn read(&self) -> Result<Pem, CredentialsError> {
        let directory = match self {
            Self::Memory(pem) => return Ok(pem.clone()),
            Self::Directory(directory) => directory,
        };
        let key_path = directory.join(KEY_FILE);
        let key = read(&key_path)?;
        refuse_open_key(&key_path)?;
        Ok(Pem { ca: read(&directory.join(CA_FILE))?, certificate: read(&directory.join(CERTIFICATE_FILE))?, key })
    }

    /// How an error names one of the three.
    pub(super) fn place(&self, file: &str) -> String {
        match self {
            Self::Directory(directory) => directory.join(file).display().to_string(),
            Self::Memory(_) => file.to_owned(),
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, CredentialsError> {
    std::fs::read(path).map_err(|cause| CredentialsError::Read { path: path.to_owned(), cause })
}

fn refuse_open_key(path: &Path) -> Result<(), CredentialsError> {
    let metadata = std::fs::metadata(path);
    let mode = metadata.map_err(|cause| CredentialsError::Read { path: path.to_owned(), cause })?.permissions().mode();
    if mode & 0o007 != 0 {
        return Err(CredentialsError::OpenKey { path: path.to_owned(), mode: mode & 0o777 });
    }
    if mode & 0o070 != 0 {
        tracing::warn!(path = %path.display(), "the private key is open to its group");
    }
    Ok(())
}

/// One generation.
pub(super) struct Material {
    pub(super) pem: Pem,
    pub(super) identity: PeerIdentity,
    pub(super) expires_at: SystemTime,
    pub(super) server: Arc<ServerConfig>,
    pub(super) client: Arc<ClientConfig>,
}

impl std::fmt::Debug for Material {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Material")
            .field("identity", &self.identity)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

impl Material {
    pub(super) fn build(pem: Pem, source: &Source, sessions: usize) -> Result<Self, CredentialsError> {
        let content = |file: &str, problem: String| CredentialsError::Content { place: source.place(file), problem };
        let chain = certificates(&pem.certificate).map_err(|problem| content(CERTIFICATE_FILE, problem))?;
        let leaf = chain.first().ok_or_else(|| content(CERTIFICATE_FILE, "holds no certificate".to_owned()))?;
        let identity = certificate::identity(leaf).map_err(|e| content(CERTIFICATE_FILE, e.to_string()))?;
        let parsed = certificate::parse(leaf).map_err(|e| content(CERTIFICATE_FILE, e.to_string()))?;
        let (_, expires_at) = certificate::validity(&parsed);
        if expires_at <= SystemTime::now() {
            let expired_at = humantime::format_rfc3339_seconds(expires_at);
            let (place, identity) = (source.place(CERTIFICATE_FILE), identity.to_string());
            return Err(CredentialsError::Expired { place, identity, expired_at });
        }
        let key = PrivateKeyDer::from_pem_slice(&pem.key)
            .map_err(|error| content(KEY_FILE, format!("holds no private key: {}", pem_problem(&error))))?;
        let mut roots = RootCertStore::empty();
        let trusted = certificates(&pem.ca).map_err(|problem| content(CA_FILE, problem))?;
        if trusted.is_empty() {
            return Err(content(CA_FILE, "holds no certificate".to_owned()));
        }
        for root in trusted {
            roots.add(root).map_err(|error| content(CA_FILE, error.to_string()))?;
        }
        let parts = Parts { chain, key, roots: Arc::new(roots) };
        let unusable = |error: rustls::Error| {
            let problem = match error {
                rustls::Error::InconsistentKeys(_) => format!("does not belong to the key in `{KEY_FILE}`"),
                other => other.to_string(),
            };
            content(CERTIFICATE_FILE, problem)
        };
        let server = Arc::new(tls::server_config(&parts).map_err(unusable)?);
        let client = Arc::new(tls::client_config(&parts, sessions).map_err(unusable)?);
        Ok(Self { pem, identity, expires_at, server, client })
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|error| pem_problem(&error))
}

fn pem_problem(error: &pem::Error) -> String {
    match error {
        pem::Error::NoItemsFound => "no PEM section found".to_owned(),
        other => format!("damaged PEM: {other}"),
    }
}
