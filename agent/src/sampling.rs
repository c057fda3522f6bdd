//! The sampler at work: one task that turns each backend round into a snapshot and publishes it.
//!
//! `/proc` is read where blocking is allowed, so a process whose memory map is locked holds up the next snapshot and
//! nothing else. Readers take the newest snapshot from a watch channel.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpufleet_backend::sample::RoundCost;
use gpufleet_backend::{SimulatedSignal, SpawnError, Worker};
use gpufleet_model::HostSnapshot;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::processes::UserNames;
use crate::sampler::{EveryProcess, Sampler};
use crate::settings::AgentSettings;

/// How long the first snapshot waits for the backend's first round: a driver may need seconds to start.
const FIRST_ROUND: Duration = Duration::from_secs(10);

/// A sample that takes longer than this is worth a warning.
const SLOW_READING: Duration = Duration::from_secs(5);

/// A snapshot, when it was taken by the monotonic clock, and what it cost.
#[derive(Debug, Clone)]
pub(crate) struct Sampled {
    pub(crate) snapshot: Arc<HostSnapshot>,
    pub(crate) at: Instant,
    pub(crate) cost: TickCost,
}

/// What one tick cost.
#[derive(Debug, Clone, Copy, Default)]
pub struct TickCost {
    /// Our own work: joining and reading processes.
    pub own: Duration,
    /// The backend's round, the driver's time apart.
    pub round: RoundCost,
}

/// The newest snapshot, and ways to get others.
#[derive(Debug)]
pub(crate) struct Sampling {
    worker: Worker,
    newest: watch::Receiver<Option<Sampled>>,
    boot_id: String,
    every_process: Option<Arc<Mutex<Scans>>>,
    /// One scan at a time; the others wait for it without holding a thread.
    scanning: Arc<Semaphore>,
}

/// Scans of every process: one at a time, each good for one interval.
#[derive(Debug)]
struct Scans {
    scanner: EveryProcess,
    newest: Option<Arc<HostSnapshot>>,
}

impl Scans {
    fn with_every_process(&mut self, base: &HostSnapshot) -> Arc<HostSnapshot> {
        if let Some(newest) = self.newest.as_ref().filter(|newest| newest.sequence >= base.sequence) {
            return Arc::clone(newest);
        }
        let scanned = Arc::new(self.scanner.scan(base));
        self.newest = Some(Arc::clone(&scanned));
        scanned
    }
}

impl Sampling {
    /// Starts the backend and the sampling task.
    pub(crate) fn start(
        settings: &AgentSettings,
        tasks: &TaskTracker,
        cancel: CancellationToken,
    ) -> Result<Arc<Self>, SpawnError> {
        let mut options = settings.backend_options.clone();
        options.host_name.clone_from(&settings.host_name);
        let worker = Worker::spawn(settings.backend, options, settings.interval)?;
        let users = UserNames::new();
        let sampler = Sampler::new(settings, worker.needs_ticks(), users.clone());
        let scans = |scanner| Arc::new(Mutex::new(Scans { scanner, newest: None }));
        let every_process = sampler.every_process(users).map(scans);
        let (publish, newest) = watch::channel(None);
        let boot_id = sampler.boot_id().to_owned();
        let scanning = Arc::new(Semaphore::new(1));
        let sampling = Arc::new(Self { worker, newest, boot_id, every_process, scanning });
        let task = Task { sampling: Arc::clone(&sampling), sampler, publish, interval: settings.interval };
        tasks.spawn(async move { cancel.run_until_cancelled(task.run()).await });
        Ok(sampling)
    }

    /// The boot that processes are pinned to.
    pub(crate) fn boot_id(&self) -> &str {
        &self.boot_id
    }

    /// Receives each newer snapshot.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Sampled>> {
        self.newest.clone()
    }

    /// The newest snapshot, waiting for the first. `None` when the sampler has ended.
    pub(crate) async fn newest(&self) -> Option<Sampled> {
        let mut newest = self.newest.clone();
        newest.wait_for(Option::is_some).await.ok()?.clone()
    }

    /// The snapshot with every process of the host; the same one again within one interval.
    pub(crate) async fn with_every_process(&self, base: &Arc<HostSnapshot>) -> Arc<HostSnapshot> {
        let Some(scans) = self.every_process.clone() else { return Arc::clone(base) };
        let Ok(turn) = Arc::clone(&self.scanning).acquire_owned().await else { return Arc::clone(base) };
        let snapshot = Arc::clone(base);
        let scanned = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            scans.lock().unwrap_or_else(PoisonError::into_inner).with_every_process(&snapshot)
        });
        scanned.await.unwrap_or_else(|_| Arc::clone(base))
    }

    /// Asks for a sample without waiting for the interval. A simulation keeps its pace.
    pub(crate) fn sample_soon(&self) {
        if !self.is_simulated() {
            self.worker.tick_now();
        }
    }

    /// Signals a process of the simulated backend.
    pub(crate) fn signal_simulated(&self, pid: u32, start_ticks: u64, signal: i32) -> SimulatedSignal {
        self.worker.signal(pid, start_ticks, signal)
    }

    /// True when devices and processes do not exist.
    pub(crate) fn is_simulated(&self) -> bool {
        self.worker.needs_ticks()
    }
}

struct Task {
    sampling: Arc<Sampling>,
    sampler: Sampler,
    publish: watch::Sender<Option<Sampled>>,
    interval: Duration,
}

impl Task {
    async fn run(mut self) {
        if self.sampling.is_simulated() {
            return self.run_simulated().await;
        }
        let mut rounds = self.sampling.worker.subscribe();
        let mut patience = FIRST_ROUND;
        loop {
            // Without a round in time the host is sampled all the same: it lives on when its driver does not.
            let _ = tokio::time::timeout(patience, rounds.changed()).await;
            let round = Arc::clone(&rounds.borrow_and_update());
            let cost = round.cost;
            let mut sampler = self.sampler;
            let started = Instant::now();
            let mut reading = tokio::task::spawn_blocking(move || (sampler.sample(&round), sampler));
            let in_time = tokio::time::timeout(SLOW_READING, &mut reading).await;
            let sampled = if let Ok(sampled) = in_time {
                sampled
            } else {
                tracing::warn!("reading the processes on devices takes long; one of them may hang in the driver");
                reading.await
            };
            // A panic in the sampler has been reported by the hook; without a sampler there is nothing to publish.
            let Ok((snapshot, sampler)) = sampled else { return };
            self.sampler = sampler;
            let own = started.elapsed();
            tracing::trace!(?own, driver = ?cost.driver_time, "sampled");
            self.publish.send_replace(Some(Sampled { snapshot, at: started, cost: TickCost { own, round: cost } }));
            patience = self.interval * 2;
        }
    }

    /// A simulation never blocks: it is computed right here.
    async fn run_simulated(mut self) {
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let started = Instant::now();
            self.sampling.worker.tick_now();
            let snapshot = self.sampler.sample(&self.sampling.worker.latest());
            let cost = TickCost { own: started.elapsed(), round: RoundCost::default() };
            self.publish.send_replace(Some(Sampled { snapshot, at: started, cost }));
        }
    }
}
