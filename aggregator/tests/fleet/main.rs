//! The whole aggregator against scripted agents, over real mutual TLS on loopback.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod agent;
mod proxy;
mod world;

#[path = "../../src/fixtures.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the unit tests, which use all of it")]
mod fixtures;

mod access;
mod inventory;
mod listing;
mod liveness;
mod signalling;
mod watching;
