//! The agent: samples one host and serves it over gRPC.
//!
//! `backend` → [`sampler`] → [`HostSnapshot`](gpufleet_model::HostSnapshot) → `watch` → `service`; only a signal request
//! travels back. [`Agent::start`] runs all of it on a listener; [`LocalHost`] runs it without any server, for
//! `gpuctl top`.

pub mod config;
pub mod health;
pub mod processes;
pub mod sampler;
pub mod signal;

mod host;
mod local;
mod sampling;
mod service;
mod settings;
mod start;
mod watch;

pub use gpufleet_backend::{BackendChoice, BackendOptions, ParseChoiceError};
pub use local::LocalHost;
pub use sampling::TickCost;
pub use settings::{AgentSettings, ServingSettings};
pub use start::{Agent, RunningAgent, StartError};
