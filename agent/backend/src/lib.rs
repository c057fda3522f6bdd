//! Where readings come from: device → **backend** → sampler.
//!
//! A [`Worker`] owns one backend and publishes a [`BackendSample`](sample::BackendSample) per round on a `watch`
//! channel: read the newest with [`Worker::latest`], await the next through [`Worker::subscribe`]. A vendor library
//! runs on an OS thread of its own, which may block; a watchdog speaks for it while it hangs. A simulated backend has
//! no thread: it computes a round inside [`Worker::tick_now`].

pub mod kernel_log;
mod nvml;
pub mod options;
pub mod sample;
pub mod signal;
pub mod sim;
pub mod vendor;
pub mod worker;

pub use options::{BackendChoice, BackendOptions, ParseChoiceError};
pub use signal::SimulatedSignal;
pub use worker::{DemandGuard, SpawnError, Worker};
