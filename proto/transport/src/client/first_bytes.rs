//! Waits for the server's first bytes before anything is sent.
//!
//! With TLS 1.3 a server judges our certificate after our side of the handshake is done; a refusal arrives where the
//! first bytes would. A server of ours speaks first (HTTP/2 settings), so waiting for that tells a refused certificate
//! from a broken connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// Room for the frames a server begins with.
const ROOM: usize = 256;

/// A stream whose first bytes have been read already and are handed out first.
pub(super) struct FirstBytes<S> {
    first: Vec<u8>,
    given: usize,
    stream: S,
}

impl<S: AsyncRead + Unpin> FirstBytes<S> {
    pub(super) async fn read(mut stream: S) -> io::Result<Self> {
        let mut first = vec![0; ROOM];
        let length = stream.read(&mut first).await?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        first.truncate(length);
        Ok(Self { first, given: 0, stream })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FirstBytes<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let rest = self.first.get(self.given..).unwrap_or_default();
        if rest.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let length = rest.len().min(buf.remaining());
        buf.put_slice(rest.get(..length).unwrap_or_default());
        self.given += length;
        if self.given == self.first.len() {
            self.first = Vec::new();
            self.given = 0;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FirstBytes<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
