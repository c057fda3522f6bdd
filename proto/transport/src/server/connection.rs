//! An accepted connection: carries its peer, and ends when the peer's certificate does or the server cuts it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;

use super::Peer;

/// The longest timer set: a certificate of centuries is looked at again after a year.
const LONGEST: Duration = Duration::from_hours(365 * 24);

pub(super) struct Connection {
    tls: TlsStream<TcpStream>,
    peer: Peer,
    end: Pin<Box<dyn Future<Output = &'static str> + Send>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    pub(super) fn new(
        tls: TlsStream<TcpStream>,
        peer: Peer,
        certificate_left: Duration,
        cut: CancellationToken,
        place: OwnedSemaphorePermit,
    ) -> Self {
        let end = Box::pin(async move {
            tokio::select! {
                () = tokio::time::sleep(certificate_left.min(LONGEST)) => "the peer's certificate ended",
                () = cut.cancelled() => "the server is going away",
            }
        });
        Self { tls, peer, end, _place: place }
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Poll::Ready(reason) = self.end.as_mut().poll(cx) {
            tracing::info!(identity = %self.peer.identity, reason, "connection cut");
            // Polling a finished future again is not allowed.
            self.end = Box::pin(std::future::ready(reason));
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, reason)));
        }
        Pin::new(&mut self.tls).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tls).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tls).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tls).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tls).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.tls.is_write_vectored()
    }
}
