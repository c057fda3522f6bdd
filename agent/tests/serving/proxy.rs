//! A relay that counts the bytes between a client and the agent, as they are on the wire.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    bytes: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    /// A relay for one connection.
    pub(crate) async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let bytes = Arc::<AtomicUsize>::default();
        let mut tasks = JoinSet::new();
        let counter = Arc::clone(&bytes);
        tasks.spawn(async move {
            let (client, _) = listener.accept().await.unwrap();
            let server = TcpStream::connect(target).await.unwrap();
            let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
            tokio::join!(relay(from_client, to_server, &counter), relay(from_server, to_client, &counter));
        });
        Self { address, bytes, _tasks: tasks }
    }

    /// Bytes relayed so far, in both directions.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

async fn relay(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, bytes: &AtomicUsize) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        bytes.fetch_add(length, Ordering::Relaxed);
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
