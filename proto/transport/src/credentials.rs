//! Our certificate and whom we trust, read again when the files change.
//!
//! A directory holds `ca.crt` (one or more roots), `tls.crt` (leaf, then intermediates) and `tls.key`. Each change
//! makes a new generation that is swapped in whole; a broken file keeps the last good generation. Handshakes ask for
//! the newest; connections that exist are not touched.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use rustls::{ClientConfig, ServerConfig};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::identity::PeerIdentity;

mod material;
mod reload;

pub use material::CredentialsError;
use material::{Material, Pem, Source};

/// File names within a credentials directory.
pub const CA_FILE: &str = "ca.crt";
/// Leaf certificate and intermediates.
pub const CERTIFICATE_FILE: &str = "tls.crt";
/// Private key.
pub const KEY_FILE: &str = "tls.key";

/// Certificate, key and roots of one program; clones share the same reloading state.
#[derive(Debug, Clone)]
pub struct Credentials {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    source: Source,
    sessions: usize,
    current: ArcSwap<Material>,
}

/// Sessions remembered by default: servers that can be resumed without a full handshake.
const DEFAULT_SESSIONS: usize = 256;

impl Credentials {
    /// Reads a directory.
    ///
    /// # Errors
    /// When a file is missing, unreadable, or not what it should be; when certificate and key do not belong together;
    /// when the certificate has expired or has no identity.
    pub fn load(directory: &Path) -> Result<Self, CredentialsError> {
        Self::from_source(Source::Directory(directory.to_owned()), DEFAULT_SESSIONS)
    }

    /// Reads a directory, for a program that dials `servers` servers again and again.
    ///
    /// # Errors
    /// As [`Credentials::load`].
    pub fn load_for_fleet(directory: &Path, servers: usize) -> Result<Self, CredentialsError> {
        Self::from_source(Source::Directory(directory.to_owned()), servers.max(DEFAULT_SESSIONS))
    }

    /// Takes PEM texts: roots, leaf with intermediates, key. Never reloaded.
    ///
    /// # Errors
    /// As [`Credentials::load`].
    pub fn from_pem(ca: &str, certificate: &str, key: &str) -> Result<Self, CredentialsError> {
        let pem = Pem { ca: ca.into(), certificate: certificate.into(), key: key.into() };
        Self::from_source(Source::Memory(pem), DEFAULT_SESSIONS)
    }

    fn from_source(source: Source, sessions: usize) -> Result<Self, CredentialsError> {
        let current = ArcSwap::from_pointee(Material::build(source.read()?, &source, sessions)?);
        Ok(Self { inner: Arc::new(Inner { source, sessions, current }) })
    }

    /// Who we are.
    pub fn identity(&self) -> PeerIdentity {
        self.inner.current.load().identity.clone()
    }

    /// When our certificate ends.
    pub fn expires_at(&self) -> SystemTime {
        self.inner.current.load().expires_at
    }

    /// Reads the files again; says whether anything changed. On error the last good generation stays.
    ///
    /// # Errors
    /// As [`Credentials::load`]; also when the certificate on disk is for another identity.
    pub fn reload(&self) -> Result<bool, CredentialsError> {
        let pem = self.inner.source.read()?;
        let current = self.inner.current.load();
        if pem == current.pem {
            return Ok(false);
        }
        let fresh = Material::build(pem, &self.inner.source, self.inner.sessions)?;
        if fresh.identity != current.identity {
            return Err(CredentialsError::IdentityChanged {
                place: self.inner.source.place(CERTIFICATE_FILE),
                before: current.identity.to_string(),
                after: fresh.identity.to_string(),
            });
        }
        self.inner.current.store(Arc::new(fresh));
        Ok(true)
    }

    /// Reloads when the files change and on SIGHUP, until `cancel`.
    pub fn watch(&self, tasks: &TaskTracker, cancel: CancellationToken) {
        if let Source::Directory(directory) = &self.inner.source {
            tasks.spawn(reload::watch(self.clone(), directory.clone(), cancel));
        }
    }

    pub(crate) fn server_config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.inner.current.load().server)
    }

    pub(crate) fn client_config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.inner.current.load().client)
    }
}
