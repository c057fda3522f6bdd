//! This host, without any server.

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Want, local_host};
use crate::exit::{CtlError, Result};
use crate::view::Event;

/// Starts to sample this host.
pub(super) fn start(want: &Want, events: mpsc::Sender<Event>, stop: CancellationToken) -> Result<()> {
    let (mut host, every_process) = (local_host(want.interval)?, want.all);
    let watch = async move {
        let mut first = true;
        while let Some(snapshot) = host.next(every_process).await {
            if events.send(Event::Snapshot(snapshot)).await.is_err() {
                return;
            }
            if first && events.send(Event::Synced).await.is_err() {
                return;
            }
            first = false;
            if !host.changed().await {
                break;
            }
        }
        let _ = events.send(Event::Lost(CtlError::failed("sampling this host ended"))).await;
    };
    tokio::spawn(async move { stop.run_until_cancelled(watch).await });
    Ok(())
}
