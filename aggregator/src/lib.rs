//! The aggregator: fans every agent in and answers for the whole fleet.
//!
//! In: an inventory of hosts, credentials, a listener. Out: `gpufleet.v1.FleetService` over mutual TLS. The data flows
//! one way: `inventory` → `fan_in` (a task per host) → `state` (one writer per host, lock-free readers) → `query` and
//! `watch` → `service`; only a signal request (`signal`) travels back. [`Aggregator::start`] is all that other crates
//! need; the program's own configuration is in [`config`].

pub mod config;
pub mod inventory;

mod fan_in;
#[cfg(test)]
mod fixtures;
mod query;
mod service;
mod settings;
mod signal;
mod start;
mod state;
mod turns;
mod watch;

pub use inventory::{Inventory, InventoryError, InventorySource};
pub use settings::{AggregatorSettings, FanInSettings, HostLimits, ServingSettings};
pub use signal::InvalidOperator;
pub use start::{Aggregator, RunningAggregator, StartError};
