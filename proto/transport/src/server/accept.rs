//! Accepts connections and shakes hands, bounded in number and time.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::Connection;
use super::{Peer, ServerLimits};
use crate::certificate::{self, CertificateProblem};
use crate::credentials::Credentials;

/// Pause after a failed accept, which mostly means that descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Failed handshakes are logged at most this often; the rest are counted.
const REFUSAL_LOG_INTERVAL: Duration = Duration::from_secs(10);

type Accepted = Result<Connection, io::Error>;

#[derive(Clone)]
pub(super) struct Acceptor {
    credentials: Credentials,
    limits: ServerLimits,
    accepted: mpsc::Sender<Accepted>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
    cut: CancellationToken,
    connections: Arc<Semaphore>,
    handshakes: Arc<Semaphore>,
    refusals: Arc<Refusals>,
}

/// Why a connection did not become one of ours.
#[derive(Debug, Error)]
enum Refusal {
    #[error("no place for another connection")]
    Full,
    #[error("no handshake within {0:?}")]
    Timeout(Duration),
    #[error("handshake failed: {0}")]
    Handshake(#[from] io::Error),
    #[error("no client certificate")]
    NoCertificate,
    #[error("client certificate {0}")]
    Certificate(#[from] CertificateProblem),
    #[error("client certificate is of trust domain `{0}`")]
    TrustDomain(String),
}

impl Acceptor {
    pub(super) fn new(
        credentials: Credentials,
        limits: ServerLimits,
        accepted: mpsc::Sender<Accepted>,
        tasks: TaskTracker,
        shutdown: CancellationToken,
        cut: CancellationToken,
    ) -> Self {
        let connections = Arc::new(Semaphore::new(limits.max_connections));
        let handshakes = Arc::new(Semaphore::new(limits.max_handshakes));
        let refusals = Arc::new(Refusals::default());
        Self { credentials, limits, accepted, tasks, shutdown, cut, connections, handshakes, refusals }
    }

    pub(super) async fn run(self, listener: TcpListener) {
        loop {
            let (stream, address) = tokio::select! {
                () = self.shutdown.cancelled() => return,
                accepted = listener.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept connections");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                },
            };
            match Arc::clone(&self.connections).try_acquire_owned() {
                Ok(place) => {
                    let acceptor = self.clone();
                    self.tasks.spawn(async move {
                        let shutdown = acceptor.shutdown.clone();
                        shutdown.run_until_cancelled(acceptor.welcome(stream, address, place)).await;
                    });
                }
                Err(_) => self.refusals.note(address, &Refusal::Full),
            }
        }
    }

    async fn welcome(&self, stream: TcpStream, address: SocketAddr, place: OwnedSemaphorePermit) {
        let limit = self.limits.handshake_timeout;
        let connection = match tokio::time::timeout(limit, self.handshake(stream, address, place)).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(refusal)) => return self.refusals.note(address, &refusal),
            Err(_) => return self.refusals.note(address, &Refusal::Timeout(limit)),
        };
        // An error means that the server has ended, and with it the connection.
        let _ = self.accepted.send(Ok(connection)).await;
    }

    async fn handshake(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        place: OwnedSemaphorePermit,
    ) -> Result<Connection, Refusal> {
        let _turn = self.handshakes.acquire().await.map_err(|_| Refusal::Full)?;
        stream.set_nodelay(true)?;
        let tls = TlsAcceptor::from(self.credentials.server_config()).accept(stream).await?;
        let chain = tls.get_ref().1.peer_certificates().unwrap_or_default();
        let leaf = chain.first().ok_or(Refusal::NoCertificate)?;
        let identity = certificate::identity(leaf)?;
        if identity.trust_domain != self.credentials.identity().trust_domain {
            return Err(Refusal::TrustDomain(identity.trust_domain));
        }
        let (_, ends) = certificate::validity(&certificate::parse(leaf)?);
        let left = ends.duration_since(SystemTime::now()).unwrap_or_default();
        let peer = Peer { identity: Arc::new(identity), address };
        Ok(Connection::new(tls, peer, left, self.cut.clone(), place))
    }
}

/// Logs refusals without letting a flood of strangers fill the log.
#[derive(Default)]
struct Refusals {
    unlogged: AtomicU64,
    newest_log: std::sync::Mutex<Option<Instant>>,
}

impl Refusals {
    fn note(&self, address: SocketAddr, refusal: &Refusal) {
        let now = Instant::now();
        let due = self.newest_log.lock().is_ok_and(|mut newest| {
            let due = newest.is_none_or(|at| now.duration_since(at) >= REFUSAL_LOG_INTERVAL);
            if due {
                *newest = Some(now);
            }
            due
        });
        if due {
            let others = self.unlogged.swap(0, Ordering::Relaxed);
            tracing::warn!(%address, reason = %refusal, others_since_last = others, "connection refused");
        } else {
            self.unlogged.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%address, reason = %refusal, "connection refused");
        }
    }
}
