//! Serving gRPC over mutual TLS: accept → handshake → identity → access → handler.
//!
//! One task accepts; each handshake has a task of its own, bounded in number and time, so that strangers who connect and
//! stay silent cannot keep friends out. A connection ends when its certificate does. Shutdown is graceful: accept no
//! more, tell every stream, wait out the grace, then cut.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;

use crate::credentials::Credentials;
use crate::identity::PeerIdentity;

mod accept;
mod access;
mod connection;

pub use access::AccessTable;

/// The largest message that a server of ours accepts: set it on each service.
pub const MAX_REQUEST_BYTES: usize = 1024 * 1024;
/// The largest message that a client of ours accepts: a snapshot's chunk with room to spare.
pub const MAX_RESPONSE_BYTES: usize = 4 * 1024 * 1024;

/// What a server allows.
#[derive(Debug, Clone)]
pub struct ServerLimits {
    /// Connections at once; more are closed at once.
    pub max_connections: usize,
    /// Handshakes at once; more wait for a place, within `handshake_timeout`.
    pub max_handshakes: usize,
    /// Time for a handshake, waiting included.
    pub handshake_timeout: Duration,
    /// Streams at once on one connection.
    pub max_streams_per_connection: u32,
    /// Bytes of headers of one request.
    pub max_header_bytes: u32,
    /// Time after which a silent peer is asked whether it lives.
    pub keepalive_interval: Duration,
    /// Time it has to answer.
    pub keepalive_timeout: Duration,
    /// Age at which a connection is ended gracefully, so that certificates are checked again.
    pub max_connection_age: Duration,
    /// Time that streams have to end by themselves.
    pub grace: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            max_connections: 4096,
            max_handshakes: 64,
            handshake_timeout: Duration::from_secs(10),
            max_streams_per_connection: 256,
            max_header_bytes: 16 * 1024,
            keepalive_interval: Duration::from_secs(20),
            keepalive_timeout: Duration::from_secs(10),
            max_connection_age: Duration::from_hours(1),
            grace: Duration::from_secs(5),
        }
    }
}

/// Who is calling: stands in the extensions of every request that reaches a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// From its certificate.
    pub identity: Arc<PeerIdentity>,
    /// Where it calls from.
    pub address: SocketAddr,
}

/// Who is calling.
///
/// # Errors
/// `UNAUTHENTICATED` when the request did not come through [`serve`].
pub fn peer<T>(request: &tonic::Request<T>) -> Result<&Peer, tonic::Status> {
    request.extensions().get::<Peer>().ok_or_else(|| tonic::Status::unauthenticated("no client certificate"))
}

/// Why serving ended.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The HTTP/2 server failed.
    #[error("serving failed: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// The listening socket failed.
    #[error("listening socket: {0}")]
    Listener(#[from] io::Error),
}

/// Serves until `shutdown`, then drains.
///
/// # Errors
/// When the HTTP/2 server fails.
pub async fn serve(
    listener: TcpListener,
    credentials: Credentials,
    limits: ServerLimits,
    routes: Routes,
    access: AccessTable,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let (tasks, cut) = (TaskTracker::new(), CancellationToken::new());
    let (accepted, incoming) = mpsc::channel(limits.max_handshakes.max(1));
    let (stop, open) = (shutdown.clone(), cut.clone());
    let acceptor = accept::Acceptor::new(credentials, limits.clone(), accepted, tasks.clone(), stop, open);
    tasks.spawn(acceptor.run(listener));
    tasks.close();

    let server = tonic::transport::Server::builder()
        .max_concurrent_streams(limits.max_streams_per_connection)
        .http2_max_header_list_size(limits.max_header_bytes)
        .http2_keepalive_interval(Some(limits.keepalive_interval))
        .http2_keepalive_timeout(Some(limits.keepalive_timeout))
        .http2_adaptive_window(Some(false))
        .max_connection_age(limits.max_connection_age)
        .max_connection_age_grace(limits.grace)
        .layer(access::AccessLayer::new(access))
        .add_routes(routes)
        .serve_with_incoming_shutdown(ReceiverStream::new(incoming), shutdown.clone().cancelled_owned());
    let grace_over = async {
        shutdown.cancelled().await;
        tokio::time::sleep(limits.grace).await;
    };
    let outcome = tokio::select! {
        ended = server => ended.map_err(ServeError::from),
        () = grace_over => Ok(()),
    };
    shutdown.cancel();
    cut.cancel();
    tasks.wait().await;
    outcome
}
