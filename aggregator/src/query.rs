//! Questions to the fleet's state: which part of it is meant, what is missing from an answer, and totals.
//!
//! Everything here reads immutable records and takes no lock. Users and pids are found by looking at every selected
//! host; an index that narrows [`Filter::hosts`] first is the place to make that faster.

mod existence;
mod filter;
mod missing;
mod near;
mod selection;
mod summary;
#[cfg(test)]
mod tests;
mod wire;

pub(crate) use filter::{Filter, unknown_host};
pub(crate) use missing::missing_hosts;
pub(crate) use summary::summarize;
pub(crate) use wire::connection;
