//! A stand-in for `libnvidia-ml.so.1`, for tests: NVML's real C ABI, answered from a scenario file.
//!
//! A program under test loads the shared library by its path, or by putting a folder with a symbolic link named
//! `libnvidia-ml.so.1` on `LD_LIBRARY_PATH`, exactly as it would load the driver's. What the library answers is read
//! from the TOML file named in [`SCENARIO_VARIABLE`] and read anew whenever that file is replaced (write a new file
//! beside it and rename). [`scenario`] documents the file; the same types serve Rust tests that write it.
//!
//! What comes in: C calls, the scenario file, `/proc` (to see whether processes named in the scenario still live).
//! What goes out: NVML's return codes and structures, and, on request, a log of the calls. State is one registry behind
//! a lock that is never held while a call sleeps, so that a call which hangs does not stop the others.

#![allow(unsafe_code, reason = "this crate is the far side of a C ABI")]
#![allow(non_snake_case, reason = "exported names are NVML's own")]

mod calls;
mod code;
mod gate;
mod liveness;
mod output;
mod registry;
pub mod scenario;

pub use code::Code;

/// Names the environment variable that holds the path of the scenario file.
pub const SCENARIO_VARIABLE: &str = "FAKE_NVML_SCENARIO";
