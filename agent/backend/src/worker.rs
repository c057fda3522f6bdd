//! A backend at work: rounds in, the newest sample out.
//!
//! For a vendor library a [`Worker`] starts two threads: one that owns the library and is the only one to enter the
//! driver, and a watchdog that publishes in its stead while the driver does not answer. For a simulation it starts
//! none. Everything the agent calls here returns at once.

mod thread;
mod watchdog;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use gpufleet_model::{Backend, BackendStatus};
use thiserror::Error;
use tokio::sync::watch;

use crate::nvml::NvmlLibrary;
use crate::options::{BackendChoice, BackendOptions};
use crate::sample::BackendSample;
use crate::signal::SimulatedSignal;
use crate::sim::Simulation;
use crate::vendor::VendorLibrary;
use thread::{BackendThread, Control};
use watchdog::Gate;

/// The shortest interval and deadline, so that no setting can make a thread spin.
const SHORTEST: Duration = Duration::from_millis(5);

/// One backend at work. Dropping it ends its threads as soon as the driver lets them.
#[derive(Debug)]
pub struct Worker {
    backend: Backend,
    newest: Arc<watch::Sender<Arc<BackendSample>>>,
    /// Has seen nothing but the empty sample that a worker begins with.
    from_start: watch::Receiver<Arc<BackendSample>>,
    demand: Arc<AtomicUsize>,
    engine: Engine,
}

#[derive(Debug)]
enum Engine {
    Simulation(Mutex<Simulation>),
    Threads(Arc<Control>),
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
        let quiet_when_absent = choice == BackendChoice::Auto;
        match choice {
            BackendChoice::Auto | BackendChoice::Nvml => {
                let library = NvmlLibrary::new(&options, quiet_when_absent);
                Self::with_library(Box::new(library), options, interval)
            }
            BackendChoice::Simulated { devices } => Ok(Self::simulated(&options, devices, interval)),
        }
    }

    /// Starts a backend on any vendor library.
    pub fn with_library(
        library: Box<dyn VendorLibrary>,
        options: BackendOptions,
        interval: Duration,
    ) -> Result<Self, SpawnError> {
        let interval = interval.max(SHORTEST);
        let backend = library.backend();
        let newest = first_sample(backend);
        let from_start = newest.subscribe();
        let (control, gate, demand) = (Arc::<Control>::default(), Arc::<Gate>::default(), Arc::default());
        let name = backend.as_str();
        let start = |name: String, body: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new()
                .name(name)
                .spawn(body)
                .map_err(|source| SpawnError::Thread { backend: backend.as_str(), source })
        };
        let deadline = options.deadline.max(SHORTEST);
        let backend_thread = BackendThread {
            library,
            options,
            interval,
            gate: Arc::clone(&gate),
            control: Arc::clone(&control),
            demand: Arc::clone(&demand),
            newest: Arc::clone(&newest),
            strikes: HashMap::new(),
        };
        let watchdog = {
            let (control, newest) = (Arc::clone(&control), Arc::clone(&newest));
            move || watchdog::watch_over(&gate, &control, deadline, interval, &newest)
        };
        start(format!("{name}-watchdog"), Box::new(watchdog))?;
        // Made now so that a failure to start the second thread ends the first.
        let worker = Self { backend, newest, from_start, demand, engine: Engine::Threads(control) };
        start(format!("{name}-backend"), Box::new(move || backend_thread.run()))?;
        Ok(worker)
    }

    fn simulated(options: &BackendOptions, devices: u32, interval: Duration) -> Self {
        let BackendOptions { host_name, seed, slow_interval, .. } = options;
        let simulation = Simulation::new(host_name, *seed, devices, interval, *slow_interval, SystemTime::now());
        let newest = first_sample(Backend::Simulated);
        let worker = Self {
            backend: Backend::Simulated,
            from_start: newest.subscribe(),
            newest,
            demand: Arc::default(),
            engine: Engine::Simulation(Mutex::new(simulation)),
        };
        worker.tick_now();
        worker
    }

    /// Which backend it is.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// True when the backend has no thread and does a round only in [`Worker::tick_now`]: whoever owns the worker
    /// then calls that once per interval.
    pub fn needs_ticks(&self) -> bool {
        matches!(self.engine, Engine::Simulation(_))
    }

    /// The newest sample. Never blocks.
    pub fn latest(&self) -> Arc<BackendSample> {
        Arc::clone(&self.newest.borrow())
    }

    /// Receives the newest sample, and each newer one; a slow receiver misses older ones. What is there already counts as
    /// new, so nobody waits for a second round to see the first.
    pub fn subscribe(&self) -> watch::Receiver<Arc<BackendSample>> {
        self.from_start.clone()
    }

    /// Does a round without waiting for the interval: a simulated backend has published it when this returns, a
    /// vendor library publishes it when the driver has answered.
    pub fn tick_now(&self) {
        match &self.engine {
            Engine::Threads(control) => control.round_now(),
            Engine::Simulation(simulation) => {
                let demand = self.demand.load(Ordering::Relaxed) > 0;
                // The lock is held while publishing, so that samples appear in the order they were made.
                let mut simulation = simulation.lock().unwrap_or_else(PoisonError::into_inner);
                self.newest.send_replace(Arc::new(simulation.tick(SystemTime::now(), demand)));
            }
        }
    }

    /// Asks for readings of the demand tier for as long as the guard lives.
    pub fn demand(&self) -> DemandGuard {
        self.demand.fetch_add(1, Ordering::Relaxed);
        DemandGuard(Arc::clone(&self.demand))
    }

    /// Sends a signal to a simulated process, pinned by its start.
    pub fn signal(&self, pid: u32, start_ticks: u64, signal: i32) -> SimulatedSignal {
        match &self.engine {
            Engine::Threads(_) => SimulatedSignal::NotSimulated,
            Engine::Simulation(simulation) => {
                simulation.lock().unwrap_or_else(PoisonError::into_inner).signal(pid, start_ticks, signal)
            }
        }
    }

    /// Ends the backend and waits until it has given its library back. False when the driver keeps it longer than
    /// `patience`; its thread then ends when the driver returns. Blocks: call it where blocking is allowed.
    pub fn shutdown(self, patience: Duration) -> bool {
        match &self.engine {
            Engine::Threads(control) => {
                control.stop();
                control.wait_for_end(patience)
            }
            Engine::Simulation(_) => true,
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Engine::Threads(control) = &self.engine {
            control.stop();
        }
    }
}

impl Drop for DemandGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn first_sample(backend: Backend) -> Arc<watch::Sender<Arc<BackendSample>>> {
    let status = BackendStatus {
        backend,
        driver_version: None,
        library_version: None,
        cuda_driver_version: None,
        problem: Some(String::from("starting")),
    };
    Arc::new(watch::Sender::new(Arc::new(BackendSample::empty(SystemTime::now(), status))))
}

#[cfg(test)]
mod tests;
