//! Where readings come from: device → **backend** → sampler.
//!
//! A [`Backend`](backend::VendorLibrary) talks to one vendor library and may block; a [`Worker`] owns one on a thread
//! of its own, gives each round a deadline, keeps the newest sample, and starts the library anew after a loss.

pub mod kernel_log;
pub mod sample;
