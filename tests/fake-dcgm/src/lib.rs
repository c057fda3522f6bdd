//! A stand-in for `libdcgm.so.3` and `libdcgm.so.4`, for tests: DCGM's real C ABI, answered from a scenario file.
//!
//! A program under test loads the shared library by its path, or by putting a folder with a link named after
//! [`Scenario::soname`](scenario::Scenario::soname) on `LD_LIBRARY_PATH`. What it answers, and which version of DCGM it
//! plays, is read from the TOML file named in [`SCENARIO_VARIABLE`], anew whenever that file is replaced (write a new
//! file beside it and rename). [`scenario`] documents the file; the same types serve Rust tests that write it.
//!
//! It keeps the traps of the real ones: values exist only while watched, profiling fields are blank for one interval
//! and crash DCGM 4 when read live, structs of the other major version are refused, an engine that was restarted knows
//! neither old handles nor old groups. One way it differs: one file holds the functions of both major versions, so
//! those that a version lacks answer FUNCTION_NOT_FOUND instead of being absent.
//!
//! State is one registry behind a lock that is never held while a call sleeps or a callback runs.

#![allow(unsafe_code, reason = "this crate is the far side of a C ABI")]
#![allow(non_snake_case, reason = "exported names are DCGM's own")]

mod calls;
mod engine;
mod fields;
mod gate;
mod notices;
mod output;
mod readings;
mod registry;
pub mod scenario;

/// Names the environment variable that holds the path of the scenario file.
pub const SCENARIO_VARIABLE: &str = "FAKE_DCGM_SCENARIO";
