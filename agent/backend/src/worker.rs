//! A backend at work: rounds in, the newest sample out.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use gpufleet_model::{Backend, BackendStatus};
use thiserror::Error;
use tokio::sync::watch;

use crate::options::{BackendChoice, BackendOptions};
use crate::sample::BackendSample;
use crate::signal::SimulatedSignal;
use crate::sim::Simulation;

/// One backend at work. Dropping it ends its thread as soon as the driver lets it.
#[derive(Debug)]
pub struct Worker {
    backend: Backend,
    newest: watch::Sender<Arc<BackendSample>>,
    demand: Arc<AtomicUsize>,
    simulation: Option<Mutex<Simulation>>,
}

/// While one of these lives, readings of the demand tier are taken each round.
#[derive(Debug)]
pub struct DemandGuard(Arc<AtomicUsize>);

/// Why a worker did not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The operating system gave no thread.
    #[error("cannot start a thread for backend `{backend}`")]
    Thread {
        /// The backend.
        backend: &'static str,
        /// What the operating system said.
        source: std::io::Error,
    },
}

impl Worker {
    /// Starts the backend and returns at once; the first sample of a vendor library follows when its first round is
    /// done. Until then [`Worker::latest`] is an empty sample whose status says that the backend is starting.
    pub fn spawn(choice: BackendChoice, options: BackendOptions, interval: Duration) -> Result<Self, SpawnError> {
        let now = SystemTime::now();
        let (backend, simulation) = match choice {
            BackendChoice::Auto | BackendChoice::Nvml => (Backend::Nvml, None),
            BackendChoice::Simulated { devices } => {
                let BackendOptions { host_name, seed, slow_interval, .. } = options;
                let simulation = Simulation::new(&host_name, seed, devices, interval, slow_interval, now);
                (Backend::Simulated, Some(Mutex::new(simulation)))
            }
        };
        let status = BackendStatus {
            backend,
            driver_version: None,
            library_version: None,
            cuda_driver_version: None,
            problem: Some(String::from("starting")),
        };
        let (newest, _) = watch::channel(Arc::new(BackendSample::empty(now, status)));
        let worker = Self { backend, newest, demand: Arc::default(), simulation };
        if worker.needs_ticks() {
            worker.tick_now();
        }
        Ok(worker)
    }

    /// Which backend it is.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// True when the backend has no thread and does a round only in [`Worker::tick_now`]: whoever owns the worker
    /// then calls that once per interval.
    pub fn needs_ticks(&self) -> bool {
        self.backend == Backend::Simulated
    }

    /// The newest sample. Never blocks.
    pub fn latest(&self) -> Arc<BackendSample> {
        Arc::clone(&self.newest.borrow())
    }

    /// Receives each newer sample; a slow receiver misses older ones.
    pub fn subscribe(&self) -> watch::Receiver<Arc<BackendSample>> {
        self.newest.subscribe()
    }

    /// Does a round without waiting for the interval: a simulated backend has published it when this returns, a
    /// vendor library publishes it when the driver has answered.
    pub fn tick_now(&self) {
        if let Some(simulation) = &self.simulation {
            let demand = self.demand.load(Ordering::Relaxed) > 0;
            // The lock is held while publishing, so that samples appear in the order they were made.
            let mut simulation = simulation.lock().unwrap_or_else(PoisonError::into_inner);
            self.newest.send_replace(Arc::new(simulation.tick(SystemTime::now(), demand)));
        }
    }

    /// Asks for readings of the demand tier for as long as the guard lives.
    pub fn demand(&self) -> DemandGuard {
        self.demand.fetch_add(1, Ordering::Relaxed);
        DemandGuard(Arc::clone(&self.demand))
    }

    /// Sends a signal to a simulated process, pinned by its start.
    pub fn signal(&self, pid: u32, start_ticks: u64, signal: i32) -> SimulatedSignal {
        self.simulation.as_ref().map_or(SimulatedSignal::NotSimulated, |simulation| {
            simulation.lock().unwrap_or_else(PoisonError::into_inner).signal(pid, start_ticks, signal)
        })
    }
}

impl Drop for DemandGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
