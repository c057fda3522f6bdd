//! The program's configuration: flags over environment over file over defaults, checked as a whole.
//!
//! In: `gpufleet-agent`'s [`Flags`], the variables `GPUFLEET_AGENT_<KEY>`, and a TOML file. Out: a valid [`Config`], or a
//! [`ConfigError`] that says where the mistake is. Unknown keys are refused everywhere.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use gpufleet_backend::{BackendChoice, BackendOptions};
use thiserror::Error;

use crate::health::JudgingSettings;
use crate::health::socket::{self, SocketOptions};
use crate::settings::{AgentSettings, ServingSettings};
use crate::signal::Protection;

mod environment;
mod raw;

use raw::Raw;

/// Where the agent listens unless told otherwise.
pub const DEFAULT_LISTEN: &str = "0.0.0.0:9460";
/// Where the certificates are unless told otherwise.
pub const DEFAULT_TLS_DIR: &str = "/etc/gpufleet/tls";

/// Samples this host's GPUs and the processes on them, and serves them to an aggregator over mutual TLS.
#[derive(Debug, Default, Parser)]
#[command(name = "gpufleet-agent", version)]
pub struct Flags {
    /// Configuration file.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address to listen on [default: 0.0.0.0:9460].
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Folder with ca.crt, tls.crt and tls.key [default: /etc/gpufleet/tls].
    #[arg(long, value_name = "DIR")]
    pub tls_dir: Option<PathBuf>,
    /// Where readings come from: auto, nvml, or sim:N for N simulated devices [default: auto].
    #[arg(long, value_name = "BACKEND")]
    pub backend: Option<String>,
    /// Name of this host in the fleet; must be the name in the certificate [default: that name].
    #[arg(long, value_name = "NAME")]
    pub host_name: Option<String>,
    /// Time between two samples, such as 1s [default: 1s].
    #[arg(long, value_name = "DURATION")]
    pub interval: Option<String>,
    /// NVML library to load [default: libnvidia-ml.so.1, as the loader finds it].
    #[arg(long, value_name = "FILE")]
    pub nvml_library: Option<PathBuf>,
    /// Serve the local health socket here.
    #[arg(long, value_name = "PATH")]
    pub health_socket: Option<PathBuf>,
    /// Write the address listened on into this file once connections are taken.
    #[arg(long, value_name = "PATH")]
    pub ready_file: Option<PathBuf>,
    /// How to write the log on standard error; GPUFLEET_LOG sets what is in it, such as `debug`.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// Check configuration and certificates, and exit.
    #[arg(long)]
    pub check_config: bool,
}

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LogFormat {
    /// A line for people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

/// A valid configuration. The host's name may still be that of the certificate.
#[derive(Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Folder of the certificates.
    pub tls_dir: PathBuf,
    /// Where to tell the address listened on.
    pub ready_file: Option<PathBuf>,
    /// The host's name, when configured.
    pub host_name: Option<String>,
    settings: AgentSettings,
}

/// Why a configuration is not valid.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration `{}`: {cause}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The file is not a configuration.
    #[error("{}:{line}: {message}", path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// An environment variable is not a setting.
    #[error("environment variable `{name}`: {message}")]
    Environment {
        /// Its name.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// A setting in the file has a value that cannot be meant.
    #[error("{}: {key}: {message}", path.display())]
    InFile {
        /// Which file.
        path: PathBuf,
        /// Which setting, as its key in the file.
        key: &'static str,
        /// What is wrong, and what to do.
        message: String,
    },
    /// A setting has a value that cannot be meant.
    #[error("{key}: {message}")]
    Value {
        /// Which setting, as its flag is called or its key in the file.
        key: &'static str,
        /// What is wrong, and what to do.
        message: String,
    },
}

impl Config {
    /// Puts flags, environment and file together and checks the result.
    ///
    /// # Errors
    /// When anything is not valid.
    pub fn load(flags: Flags, environment: impl IntoIterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        let mut raw = match &flags.config {
            Some(path) => {
                let raw = raw::read(path)?;
                Self::validate(raw.clone()).map_err(|error| error.in_file(path))?;
                raw
            }
            None => Raw::default(),
        };
        environment::apply(&mut raw, environment)?;
        let Flags { listen, tls_dir, backend, host_name, interval, nvml_library, health_socket, ready_file, .. } =
            flags;
        raw.listen = listen.or(raw.listen);
        raw.tls_dir = tls_dir.or(raw.tls_dir);
        raw.backend.kind = backend.or(raw.backend.kind);
        raw.host_name = host_name.or(raw.host_name);
        raw.interval = interval.or(raw.interval);
        raw.backend.nvml_library = nvml_library.or(raw.backend.nvml_library);
        raw.health_socket.path = health_socket.or(raw.health_socket.path);
        raw.ready_file = ready_file.or(raw.ready_file);
        Self::validate(raw)
    }

    fn validate(raw: Raw) -> Result<Self, ConfigError> {
        let defaults = AgentSettings::new("");
        let settings = AgentSettings {
            host_name: String::new(),
            backend: backend(raw.backend.kind.as_deref())?,
            interval: length("interval", raw.interval, defaults.interval, Duration::from_mins(1))?,
            protection: protection(raw.protected_names)?,
            backend_options: backend_options(raw.backend)?,
            judging: judging(raw.health)?,
            health_socket: health_socket(raw.health_socket)?,
            serving: serving(raw.serving)?,
        };
        Ok(Self {
            listen: listen_address(raw.listen.as_deref().unwrap_or(DEFAULT_LISTEN))?,
            tls_dir: raw.tls_dir.unwrap_or_else(|| DEFAULT_TLS_DIR.into()),
            ready_file: raw.ready_file,
            host_name: raw.host_name,
            settings,
        })
    }

    /// The settings for a certificate of this name.
    ///
    /// # Errors
    /// When another name is configured.
    pub fn settings(&self, certificate_name: &str) -> Result<AgentSettings, ConfigError> {
        if let Some(name) = self.host_name.as_deref().filter(|name| *name != certificate_name) {
            let message = format!("is `{name}`, and the certificate is of `{certificate_name}`; they must be the same");
            return Err(value("host_name", &message));
        }
        Ok(AgentSettings { host_name: certificate_name.to_owned(), ..self.settings.clone() })
    }
}

impl ConfigError {
    /// The same mistake, found in this file.
    fn in_file(self, path: &Path) -> Self {
        match self {
            Self::Value { key, message } => {
                let key = if key == "backend" { "backend.kind" } else { key };
                Self::InFile { path: path.to_owned(), key, message }
            }
            other => other,
        }
    }
}

fn value(key: &'static str, message: &str) -> ConfigError {
    ConfigError::Value { key, message: message.into() }
}

fn listen_address(text: &str) -> Result<SocketAddr, ConfigError> {
    let message = || format!("`{text}` is not an address to listen on; write ADDRESS:PORT, such as {DEFAULT_LISTEN}");
    let mut addresses = text.to_socket_addrs().map_err(|_| value("listen", &message()))?;
    addresses.next().ok_or_else(|| value("listen", &message()))
}

fn backend(text: Option<&str>) -> Result<BackendChoice, ConfigError> {
    text.unwrap_or("auto")
        .parse()
        .map_err(|error: gpufleet_backend::ParseChoiceError| value("backend", &error.to_string()))
}

fn backend_options(raw: raw::Backend) -> Result<BackendOptions, ConfigError> {
    let defaults = BackendOptions::default();
    let most = Duration::from_hours(1);
    let options = BackendOptions {
        seed: raw.seed.unwrap_or(defaults.seed),
        nvml_library: raw.nvml_library,
        deadline: length("backend.deadline", raw.deadline, defaults.deadline, most)?,
        slow_interval: length("backend.slow_interval", raw.slow_interval, defaults.slow_interval, most)?,
        retry_at_least: length("backend.retry_at_least", raw.retry_at_least, defaults.retry_at_least, most)?,
        retry_at_most: length("backend.retry_at_most", raw.retry_at_most, defaults.retry_at_most, most)?,
        ..defaults
    };
    if options.retry_at_least > options.retry_at_most {
        let most = humantime::format_duration(options.retry_at_most);
        return Err(value("backend.retry_at_least", &format!("is longer than `backend.retry_at_most`, `{most}`")));
    }
    Ok(options)
}

fn protection(names: Option<Vec<String>>) -> Result<Protection, ConfigError> {
    let Some(names) = names else { return Ok(Protection::default()) };
    Protection::of(names).map_err(|error| value("protected_names", &error.to_string()))
}

fn judging(raw: raw::Health) -> Result<JudgingSettings, ConfigError> {
    let defaults = JudgingSettings::default();
    let thresholds = raw.thresholds.unwrap_or_default();
    thresholds.validate().map_err(|error| value("health.thresholds", &error.to_string()))?;
    let most = Duration::from_hours(24 * 365);
    Ok(JudgingSettings {
        thresholds,
        kernel_log: match raw.kernel_log {
            None => defaults.kernel_log,
            Some(path) => Some(path).filter(|path| !path.as_os_str().is_empty()),
        },
        kernel_log_lookback: length(
            "health.kernel_log_lookback",
            raw.kernel_log_lookback,
            defaults.kernel_log_lookback,
            most,
        )?,
    })
}

/// The socket is served when it has a path, or when anything else about it is configured.
fn health_socket(raw: raw::HealthSocket) -> Result<Option<SocketOptions>, ConfigError> {
    let raw::HealthSocket { path, mode, owner, group, allowed_users, connections } = raw;
    let configured = path.is_some() || mode.is_some() || owner.is_some() || group.is_some() || allowed_users.is_some();
    if !configured && connections.is_none() {
        return Ok(None);
    }
    let defaults = SocketOptions::new(path.unwrap_or_else(socket::default_path));
    let mode = match mode {
        None => defaults.mode,
        Some(text) => u32::from_str_radix(&text, 8)
            .ok()
            .filter(|mode| *mode <= 0o777)
            .ok_or_else(|| value("health_socket.mode", &format!("`{text}` is not a mode such as `0660`")))?,
    };
    let max_connections = at_least_one("health_socket.connections", connections, defaults.max_connections)?;
    let allowed_users = allowed_users.unwrap_or_default();
    Ok(Some(SocketOptions { mode, owner, group, allowed_users, max_connections, ..defaults }))
}

fn serving(raw: raw::Serving) -> Result<ServingSettings, ConfigError> {
    let defaults = ServingSettings::default();
    let day = Duration::from_hours(24);
    let mut limits = defaults.limits.clone();
    limits.max_connections = at_least_one("serving.connections", raw.connections, limits.max_connections)?;
    limits.max_connection_age = length("serving.connection_age", raw.connection_age, limits.max_connection_age, day)?;
    Ok(ServingSettings {
        watch_age: length("serving.watch_age", raw.watch_age, defaults.watch_age, day)?,
        watches: at_least_one("serving.watches", raw.watches, defaults.watches)?,
        grace: length("serving.grace", raw.grace, defaults.grace, day)?,
        limits,
    })
}

/// A length of time from 10 ms up.
fn length(key: &'static str, text: Option<String>, default: Duration, most: Duration) -> Result<Duration, ConfigError> {
    let Some(text) = text else { return Ok(default) };
    match humantime::parse_duration(&text) {
        Ok(length) if (Duration::from_millis(10)..=most).contains(&length) => Ok(length),
        Ok(_) => Err(value(key, &format!("`{text}` is not from 10ms to {}", humantime::format_duration(most)))),
        Err(error) => Err(value(key, &format!("`{text}` is not a length of time such as `1s`: {error}"))),
    }
}

fn at_least_one(key: &'static str, given: Option<usize>, default: usize) -> Result<usize, ConfigError> {
    match given {
        None => Ok(default),
        Some(number) if (1..=1_000_000).contains(&number) => Ok(number),
        Some(number) => Err(value(key, &format!("`{number}` is not from 1 to 1000000"))),
    }
}
