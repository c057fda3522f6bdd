//! A TCP proxy that can stop passing anything on, so that an agent behind it looks frozen: connections stay open and new
//! ones are taken, and nothing answers.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    frozen: watch::Sender<bool>,
}

impl Proxy {
    pub(crate) async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let frozen = watch::Sender::new(false);
        let state = frozen.subscribe();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(target).await else { continue };
                let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
                tokio::spawn(pump(near_in, far_out, state.clone()));
                tokio::spawn(pump(far_in, near_out, state.clone()));
            }
        });
        Self { address, frozen }
    }

    pub(crate) fn freeze(&self, frozen: bool) {
        self.frozen.send_replace(frozen);
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut frozen: watch::Receiver<bool>) -> Option<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await.ok().filter(|&read| read > 0)?;
        frozen.wait_for(|frozen| !frozen).await.ok()?;
        to.write_all(&buffer[..read]).await.ok()?;
    }
}
