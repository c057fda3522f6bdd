//! The local health socket: is this GPU fit for work? Answered from the newest [`HealthState`], never by a driver call.
//!
//! One task accepts, one serves each connection. Bounded: connections, bytes read ahead, and the time a half-sent
//! request or a reader that does not read may take. The protocol is in `gpufleet_proto::health_socket`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::HealthState;

mod bind;
mod connection;

pub use bind::BindError;

/// Who may ask, and how much.
#[derive(Debug, Clone)]
pub struct SocketOptions {
    /// Where to listen.
    pub path: PathBuf,
    /// Permission bits of the socket.
    pub mode: u32,
    /// Owner to give it to.
    pub owner: Option<u32>,
    /// Group to give it to.
    pub group: Option<u32>,
    /// User ids that are answered; empty: everyone whom the permission bits let connect. Root and the agent's own user
    /// are always answered.
    pub allowed_users: Vec<u32>,
    /// Connections at once; more are closed at once.
    pub max_connections: usize,
}

impl SocketOptions {
    /// The defaults: owner only, 1,024 connections.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            mode: 0o600,
            owner: None,
            group: None,
            allowed_users: Vec::new(),
            max_connections: 1024,
        }
    }
}

/// Where the socket is unless configured: the system's run directory for root, else the user's own.
pub fn default_path() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|_| !rustix::process::geteuid().is_root());
    runtime.map_or_else(|| PathBuf::from("/run"), PathBuf::from).join("gpufleet/health.sock")
}

/// A socket that is being served. Dropping it leaves the serving tasks to their cancellation.
#[derive(Debug)]
pub struct HealthSocket {
    path: PathBuf,
}

/// Why the socket cannot be served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SocketError {
    /// It could not be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
}

impl HealthSocket {
    /// Binds the socket and serves it until `cancel`.
    ///
    /// # Errors
    /// When the path is taken or cannot be written.
    pub fn serve(
        options: SocketOptions,
        state: watch::Receiver<Option<Arc<HealthState>>>,
        tasks: &TaskTracker,
        cancel: CancellationToken,
    ) -> Result<Self, SocketError> {
        let listener = bind::bind(&options)?;
        let path = options.path.clone();
        let server = Server { options: Arc::new(options), state, tasks: tasks.clone(), cancel };
        tasks.spawn(server.accept(listener));
        Ok(Self { path })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

struct Server {
    options: Arc<SocketOptions>,
    state: watch::Receiver<Option<Arc<HealthState>>>,
    tasks: TaskTracker,
    cancel: CancellationToken,
}

impl Server {
    async fn accept(self, listener: UnixListener) {
        let places = Arc::new(Semaphore::new(self.options.max_connections));
        loop {
            let accepted = tokio::select! {
                () = self.cancel.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    // Without a place the stream is dropped, which closes it: the client sees the end at once.
                    if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
                        let permitted = self.permitted(&stream);
                        let served = connection::serve(stream, permitted, self.state.clone());
                        let cancel = self.cancel.clone();
                        self.tasks.spawn(async move {
                            cancel.run_until_cancelled(served).await;
                            drop(place);
                        });
                    }
                }
                Err(error) => {
                    // Out of descriptors or memory: what is open is served on, and room may come back.
                    tracing::warn!(%error, "health socket: cannot accept");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        bind::remove(&self.options.path);
    }

    fn permitted(&self, stream: &UnixStream) -> bool {
        let allowed = &self.options.allowed_users;
        let peer: io::Result<u32> = stream.peer_cred().map(|peer| peer.uid());
        let own = rustix::process::geteuid().as_raw();
        peer.is_ok_and(|uid| allowed.is_empty() || uid == 0 || uid == own || allowed.contains(&uid))
    }
}
