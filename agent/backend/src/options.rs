//! Which backend to run, and how.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

/// The largest number of devices one simulated host may have.
pub const MAX_SIMULATED_DEVICES: u32 = 1024;

/// Which backend a worker runs: `auto`, `nvml` or `sim:N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum BackendChoice {
    /// Whatever this host has: NVML when its library is there, now or later. A host without any GPU is no problem.
    #[default]
    Auto,
    /// NVML; its absence is a problem to report.
    Nvml,
    /// A simulated host.
    Simulated {
        /// How many devices it has, at most [`MAX_SIMULATED_DEVICES`].
        devices: u32,
    },
}

/// How a worker runs its backend. Start from `BackendOptions::default()`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendOptions {
    /// The host's name; a simulation is a function of it and of the seed.
    pub host_name: String,
    /// The seed of a simulation.
    pub seed: u64,
    /// The NVML library to load; `None` lets the dynamic loader find `libnvidia-ml.so.1`.
    pub nvml_library: Option<PathBuf>,
    /// How long the driver calls about one device may take in one round before the device counts as unresponsive.
    pub deadline: Duration,
    /// How often readings of the slow tier are taken.
    pub slow_interval: Duration,
    /// Shortest wait before a library that is absent or failed is tried again; doubles up to `retry_at_most`.
    pub retry_at_least: Duration,
    /// Longest wait before a library that is absent or failed is tried again.
    pub retry_at_most: Duration,
}

/// Text that names no backend.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseChoiceError {
    /// Not a name of a backend.
    #[error("unknown backend `{0}`: use `auto`, `nvml` or `sim:N` with N devices")]
    UnknownBackend(String),
    /// The number of simulated devices is missing, no number, or too large.
    #[error("`{0}` is not a number of simulated devices: use `sim:N` with N from 0 to {MAX_SIMULATED_DEVICES}")]
    DeviceCount(String),
}

impl Default for BackendOptions {
    fn default() -> Self {
        Self {
            host_name: String::from("localhost"),
            seed: 1,
            nvml_library: None,
            deadline: Duration::from_secs(3),
            slow_interval: Duration::from_secs(10),
            retry_at_least: Duration::from_secs(1),
            retry_at_most: Duration::from_secs(30),
        }
    }
}

impl fmt::Display for BackendChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Nvml => f.write_str("nvml"),
            Self::Simulated { devices } => write!(f, "sim:{devices}"),
        }
    }
}

impl FromStr for BackendChoice {
    type Err = ParseChoiceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "nvml" => Ok(Self::Nvml),
            _ => {
                let count =
                    text.strip_prefix("sim:").ok_or_else(|| ParseChoiceError::UnknownBackend(text.to_owned()))?;
                count
                    .parse()
                    .ok()
                    .filter(|devices| *devices <= MAX_SIMULATED_DEVICES)
                    .map(|devices| Self::Simulated { devices })
                    .ok_or_else(|| ParseChoiceError::DeviceCount(count.to_owned()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choice_survives_a_round_trip_through_text() {
        for choice in [BackendChoice::Auto, BackendChoice::Nvml, BackendChoice::Simulated { devices: 8 }] {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
    }

    #[test]
    fn text_that_names_no_backend_is_refused_with_advice() {
        for text in ["", "NVML", "sim", "simulated:3", "sim-3"] {
            let error = text.parse::<BackendChoice>().expect_err(text);
            assert_eq!(error, ParseChoiceError::UnknownBackend(text.to_owned()));
        }
        for text in ["sim:", "sim:-1", "sim:eight", "sim:1025", "sim:99999999999"] {
            let error = text.parse::<BackendChoice>().expect_err(text);
            assert!(error.to_string().contains("use `sim:N`"), "{error}");
        }
    }
}
