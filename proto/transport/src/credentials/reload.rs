//! Watches the credentials directory and SIGHUP.

use std::path::PathBuf;
use std::time::Duration;

use notify::{RecursiveMode, Watcher as _};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Credentials;

/// Files change one after the other: wait for quiet before reading them together.
const QUIET: Duration = Duration::from_millis(200);
/// Read again this often even without a notice: some file systems give none.
const AT_LEAST: Duration = Duration::from_mins(1);

/// The directory is watched, not the files: secrets are often replaced by swapping a link beside them.
pub(super) async fn watch(credentials: Credentials, directory: PathBuf, cancel: CancellationToken) {
    let (notices, mut noticed) = mpsc::channel(1);
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access()) {
            // A full channel already holds a notice.
            let _ = notices.try_send(());
        }
    });
    let watcher = watcher.and_then(|mut watcher| {
        watcher.watch(&directory, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    if let Err(error) = &watcher {
        tracing::warn!(%error, path = %directory.display(), "cannot watch the credentials; they are read every minute");
    }
    let mut hangup = signal(SignalKind::hangup()).ok();
    let mut failing = false;
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            Some(()) = noticed.recv() => {
                tokio::time::sleep(QUIET).await;
                while noticed.try_recv().is_ok() {}
            }
            Some(()) = async { hangup.as_mut()?.recv().await } => {}
            () = tokio::time::sleep(AT_LEAST) => {}
        }
        match credentials.reload() {
            Ok(changed) => {
                if changed {
                    let expires_at = humantime::format_rfc3339_seconds(credentials.expires_at());
                    tracing::info!(identity = %credentials.identity(), %expires_at, "credentials reloaded");
                }
                failing = false;
            }
            Err(error) if failing => tracing::debug!(%error, "credentials still cannot be reloaded"),
            Err(error) => {
                tracing::warn!(%error, "credentials cannot be reloaded; the last good ones stay in use");
                failing = true;
            }
        }
    }
}
