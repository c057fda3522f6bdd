//! This host without any server, for `gpuctl top`.

use std::sync::Arc;
use std::time::Duration;

use gpufleet_backend::SpawnError;
use gpufleet_model::{HostSnapshot, ProcessIdentity};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;

use crate::sampling::{Sampled, Sampling, TickCost};
use crate::settings::AgentSettings;
use crate::signal::{Attempt, Protection, Report, Signals};

/// Samples this host for the program it runs in.
#[derive(Debug)]
pub struct LocalHost {
    sampling: Arc<Sampling>,
    signals: Arc<Signals>,
    host_name: String,
    newest: tokio::sync::watch::Receiver<Option<Sampled>>,
    stop: CancellationToken,
}

impl LocalHost {
    /// Starts to sample. Nothing is protected but what always is: the caller signals with their own rights.
    ///
    /// # Errors
    /// When a thread is not to be had.
    pub fn start(mut settings: AgentSettings) -> Result<Self, SpawnError> {
        settings.protection = Protection::none();
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let sampling = Sampling::start(&settings, &tasks, stop.clone())?;
        let signals = crate::start::signals(&settings, &sampling, &tasks, &stop);
        let newest = sampling.subscribe();
        Ok(Self { sampling, signals, host_name: settings.host_name, newest, stop })
    }

    /// The next snapshot that this method has not returned yet: the first at once when there is one. With
    /// `every_process`, or on a host without devices, it holds every process of the host. `None` when sampling ended.
    pub async fn next(&mut self, every_process: bool) -> Option<Arc<HostSnapshot>> {
        let sampled = self.newest.wait_for(Option::is_some).await.ok()?.clone()?;
        let snapshot = if every_process || sampled.snapshot.devices.is_empty() {
            self.sampling.with_every_process(&sampled.snapshot).await
        } else {
            sampled.snapshot
        };
        Some(snapshot)
    }

    /// The snapshot of the `count`-th sample since the start, or a newer one: the second is the first with CPU use. `None`
    /// when sampling ended.
    pub async fn wait_for(&mut self, count: u64) -> Option<Arc<HostSnapshot>> {
        let taken = |sampled: &Option<Sampled>| sampled.as_ref().is_some_and(|it| it.snapshot.sequence >= count);
        let sampled = self.newest.wait_for(taken).await.ok()?.clone()?;
        Some(sampled.snapshot)
    }

    /// The newest snapshot with the processes on devices alone, waiting for the first. `None` when sampling ended.
    pub async fn device_processes(&mut self) -> Option<Arc<HostSnapshot>> {
        Some(self.newest.wait_for(Option::is_some).await.ok()?.clone()?.snapshot)
    }

    /// Waits until there is a snapshot that [`LocalHost::next`] has not returned. False when sampling ended.
    pub async fn changed(&mut self) -> bool {
        self.newest.changed().await.is_ok()
    }

    /// What the newest tick cost; `None` before the first.
    pub fn cost(&self) -> Option<TickCost> {
        self.newest.borrow().as_ref().map(|sampled| sampled.cost)
    }

    /// Signals a process with the caller's own rights, pinned by its identity.
    ///
    /// # Errors
    /// When sampling has ended.
    pub async fn signal(
        &self,
        identity: ProcessIdentity,
        signal: u32,
        request_id: String,
        wait: Option<Duration>,
    ) -> Result<Report, Status> {
        let attempt = Attempt {
            caller: "local".to_owned(),
            on_behalf_of: String::new(),
            request_id,
            host: self.host_name.clone(),
            boot_id: self.sampling.boot_id().to_owned(),
            pid: identity.pid,
            start_ticks: identity.start_ticks,
            signal,
            reason: String::new(),
            wait,
        };
        self.signals.attempt(attempt).await
    }
}

impl Drop for LocalHost {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
