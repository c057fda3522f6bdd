//! Mutual TLS between gpufleet's programs: identity, credentials that reload, serving, dialling, and a certificate
//! authority for those who have none.
//!
//! The only crate that uses rustls. TLS 1.3 only; both sides show a certificate; a peer is who its SPIFFE URI says
//! (`spiffe://DOMAIN/gpufleet/ROLE/NAME`). Authentication (who is it?) ends in [`Peer`]; authorisation (may it?) is
//! the [`AccessTable`], which denies what it does not list.

pub mod backoff;
pub mod client;
pub mod credentials;
pub mod identity;
pub mod pki;
pub mod server;
pub mod stream;

mod certificate;
mod tls;

pub use backoff::Backoff;
pub use client::{ConnectError, DialOptions, Dialer, ExpectedPeer};
pub use credentials::{Credentials, CredentialsError};
pub use identity::{ParseIdentityError, PeerIdentity, Role};
pub use server::{AccessTable, Peer, ServeError, ServerLimits, peer, serve};
