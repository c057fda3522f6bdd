//! The sandbox: real programs with real certificates on loopback, on top of a fake driver.
//!
//! A test makes a [`Sandbox`], starts agents, an aggregator and `gpuctl` in it, and changes what the fake driver of each
//! agent says. Every program listens on a port of its own choosing, is killed when its handle is dropped, and shows
//! its log when the test fails. Nothing sleeps and hopes: [`eventually`] waits for conditions, with a deadline.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "test support: where it cannot go on, the test has failed"
)]

mod artifacts;
mod dial;
mod driver;
pub mod json;
mod pki;
mod program;
mod sandbox;
pub mod terminal;
pub mod view;
mod wait;
mod workload;

pub use artifacts::{binary, fake_nvml_folder, fake_nvml_library};
pub use driver::Driver;
pub use gpufleet_fake_nvml::scenario;
pub use gpufleet_fake_nvml::{Code, SCENARIO_VARIABLE};
pub use gpufleet_transport::Role;
pub use pki::Certificates;
pub use program::{Finished, Program, ProgramBuilder};
pub use sandbox::{AGGREGATOR, Agent, Fleet, OPERATOR, Sandbox};
pub use wait::{DEADLINE, eventually, eventually_within, never_within};
pub use workload::Workload;
