//! Keeps the inventory current: reads the source again when its folder changes or on SIGHUP.
//!
//! One task per source. It owns the file watcher and is the only writer of the `watch` channel. The folder is watched,
//! not the file, so that a file replaced by rename or through a symbolic link is seen. An invalid file is reported once
//! for each new mistake, and the last good inventory stays.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{RecursiveMode, Watcher as _};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Inventory, InventorySource};

/// Writers that truncate and then fill a file are given this long to finish.
const SETTLE: Duration = Duration::from_millis(200);

/// Publishes the newest valid inventory until cancelled.
pub(crate) async fn follow(source: InventorySource, updates: watch::Sender<Arc<Inventory>>, stop: CancellationToken) {
    match source {
        InventorySource::Fixed(_) => stop.cancelled().await,
        InventorySource::File(path) => follow_file(path, updates, stop).await,
    }
}

async fn follow_file(path: PathBuf, updates: watch::Sender<Arc<Inventory>>, stop: CancellationToken) {
    let (notice, mut changes) = mpsc::channel(1);
    let watcher = watch_folder(&path, notice.clone());
    if let Err(error) = &watcher {
        warn!(path = %path.display(), %error, "cannot watch the inventory for changes; send SIGHUP after changing it");
    }
    let mut hangups = match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()) {
        Ok(signal) => Some(signal),
        Err(error) => {
            warn!(%error, "cannot listen for SIGHUP");
            None
        }
    };
    let mut reader = Reader { path, last_problem: None };
    reader.read(&updates).await;
    loop {
        let hangup = async {
            match &mut hangups {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            _ = hangup => {}
            // `notice` is held here, so the channel stays open.
            _ = changes.recv() => {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(SETTLE) => {}
                }
                while changes.try_recv().is_ok() {}
            }
        }
        reader.read(&updates).await;
    }
}

fn watch_folder(path: &Path, changed: mpsc::Sender<()>) -> notify::Result<notify::RecommendedWatcher> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Reading the file is an access event itself: only changes count.
        if event.is_ok_and(|event| !event.kind.is_access()) {
            // A full channel means that a reload is due anyway.
            let _ = changed.try_send(());
        }
    })?;
    watcher.watch(folder, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

struct Reader {
    path: PathBuf,
    last_problem: Option<String>,
}

impl Reader {
    async fn read(&mut self, updates: &watch::Sender<Arc<Inventory>>) {
        let source = InventorySource::File(self.path.clone());
        let loaded = tokio::task::spawn_blocking(move || source.load()).await;
        match loaded {
            Ok(Ok(inventory)) => {
                if self.last_problem.take().is_some() {
                    info!(path = %self.path.display(), "the inventory is valid again");
                }
                let hosts = inventory.len();
                let changed = updates.send_if_modified(|current| {
                    let differs = **current != inventory;
                    if differs {
                        *current = Arc::new(inventory);
                    }
                    differs
                });
                if changed {
                    info!(path = %self.path.display(), hosts, "inventory loaded");
                }
            }
            Ok(Err(error)) => {
                let problem = error.to_string();
                if self.last_problem.as_ref() != Some(&problem) {
                    let kept = updates.borrow().len();
                    warn!(path = %self.path.display(), %problem, kept_hosts = kept, "inventory refused; the last good one is kept");
                    self.last_problem = Some(problem);
                }
            }
            Err(error) => warn!(%error, "reading the inventory failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn wait_for(updates: &mut watch::Receiver<Arc<Inventory>>, names: &[&str]) {
        let reached = updates.wait_for(|inventory| inventory.iter().map(|e| &*e.name).eq(names.iter().copied()));
        tokio::time::timeout(Duration::from_secs(20), reached).await.expect("no reload").expect("source ended");
    }

    #[tokio::test]
    async fn follows_replacement_and_keeps_the_last_good_state() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts.toml");
        let put = |text: &str| {
            let next = folder.path().join("next");
            std::fs::write(&next, text).unwrap();
            std::fs::rename(&next, &path).unwrap();
        };
        put("[[hosts]]\nname = \"a\"\n");
        let stop = CancellationToken::new();
        let (sender, mut updates) = watch::channel(Arc::default());
        let task = tokio::spawn(follow(InventorySource::File(path.clone()), sender, stop.clone()));
        wait_for(&mut updates, &["a"]).await;
        put("[[hosts]]\nname = \"a\"\n[[hosts]]\nname = \"b\"\n");
        wait_for(&mut updates, &["a", "b"]).await;
        put("[[hosts]]\nname = ");
        put("[[hosts]]\nname = \"c\"\n");
        wait_for(&mut updates, &["c"]).await;
        stop.cancel();
        task.await.unwrap();
    }
}
