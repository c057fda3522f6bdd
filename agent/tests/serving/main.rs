//! The agent over gRPC with real mutual TLS: what it serves, to whom, and what becomes of signals.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod access;
mod listing;
mod proxy;
mod signalling;
mod simulated_signals;
mod watching;
mod wire;
mod world;
