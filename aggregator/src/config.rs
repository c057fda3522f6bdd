//! The program's configuration: flags over environment over file over defaults, checked as a whole.
//!
//! In: `gpufleet-aggregator`'s [`Flags`], the variables `GPUFLEET_AGGREGATOR_<KEY>`, and a TOML file. Out: a valid
//! [`Config`], or a [`ConfigError`] that says where the mistake is. Unknown keys are refused everywhere.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use thiserror::Error;

use crate::inventory::{InventoryError, InventorySource};
use crate::settings::{AggregatorSettings, FanInSettings, HostLimits, ServingSettings};

mod environment;
mod raw;

use raw::Raw;

/// Where the aggregator listens unless told otherwise.
pub const DEFAULT_LISTEN: &str = "0.0.0.0:9461";
/// Where the certificates are unless told otherwise.
pub const DEFAULT_TLS_DIR: &str = "/etc/gpufleet/tls";

const ENVIRONMENT_HELP: &str = "\
Environment:
  GPUFLEET_AGGREGATOR_<KEY>  A setting of the file: the key in upper case, `.` as `__`,
                             such as GPUFLEET_AGGREGATOR_FAN_IN__CONNECT_TIMEOUT=5s
  GPUFLEET_LOG               What to log: error, warn, info, debug, or by module [default: info]";

/// Watches every agent of the fleet and answers for all of them.
#[derive(Debug, Default, Parser)]
#[command(name = "gpufleet-aggregator", version, after_help = ENVIRONMENT_HELP)]
pub struct Flags {
    /// Configuration file.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address to listen on [default: 0.0.0.0:9461].
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Folder with ca.crt, tls.crt and tls.key [default: /etc/gpufleet/tls].
    #[arg(long, value_name = "DIR")]
    pub tls_dir: Option<PathBuf>,
    /// The hosts to watch: an inventory file, or a list with optional names.
    #[arg(long, value_name = "FILE|[NAME=]HOST:PORT,…")]
    pub hosts: Option<String>,
    /// Who may signal any process: a user's name, or service/NAME. May be given more than once.
    #[arg(long = "operator", value_name = "NAME")]
    pub operators: Vec<String>,
    /// Write the address listened on into this file once connections are taken.
    #[arg(long, value_name = "PATH")]
    pub ready_file: Option<PathBuf>,
    /// Check configuration, inventory and certificates, and exit.
    #[arg(long)]
    pub check_config: bool,
}

/// A valid configuration.
#[derive(Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Folder of the certificates.
    pub tls_dir: PathBuf,
    /// How many hosts the inventory holds now.
    pub hosts: usize,
    /// Where to tell the address listened on.
    pub ready_file: Option<PathBuf>,
    /// The aggregator's settings.
    pub settings: AggregatorSettings,
}

/// Why a configuration is not valid.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration `{}`: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
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
    /// A setting has a value that cannot be meant.
    #[error("{key}: {message}")]
    Value {
        /// Which setting, as its flag or its key in the file.
        key: &'static str,
        /// What is wrong, and what to do.
        message: String,
    },
    /// The inventory is not valid.
    #[error(transparent)]
    Inventory(#[from] InventoryError),
}

impl Config {
    /// Puts flags, environment and file together and checks the result, the inventory included.
    ///
    /// # Errors
    /// When anything is not valid.
    pub fn load(flags: Flags, environment: impl IntoIterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        let mut raw = match &flags.config {
            Some(path) => raw::read(path)?,
            None => Raw::default(),
        };
        raw = environment::apply(raw, environment)?;
        let Flags { listen, tls_dir, hosts, operators, ready_file, config: _, check_config: _ } = flags;
        raw.listen = listen.or(raw.listen);
        raw.tls_dir = tls_dir.or(raw.tls_dir);
        raw.hosts = hosts.or(raw.hosts);
        raw.ready_file = ready_file.or(raw.ready_file);
        if !operators.is_empty() {
            raw.operators = Some(operators);
        }
        Self::validate(raw)
    }

    fn validate(raw: Raw) -> Result<Self, ConfigError> {
        let hosts = raw.hosts.ok_or_else(|| {
            value("hosts", "is required: give `--hosts FILE` or `--hosts HOST:PORT,…`, or set it in the file")
        })?;
        let inventory: InventorySource = hosts.parse()?;
        let count = inventory.load()?.len();
        let operators = raw.operators.unwrap_or_default();
        crate::signal::Operators::parse(&operators).map_err(|error| value("operators", &error.to_string()))?;
        let settings = AggregatorSettings {
            operators,
            fan_in: fan_in(raw.fan_in)?,
            serving: serving(raw.serving)?,
            ..AggregatorSettings::new(inventory)
        };
        Ok(Self {
            listen: listen_address(raw.listen.as_deref().unwrap_or(DEFAULT_LISTEN))?,
            tls_dir: raw.tls_dir.unwrap_or_else(|| DEFAULT_TLS_DIR.into()),
            hosts: count,
            ready_file: raw.ready_file,
            settings,
        })
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

fn fan_in(raw: raw::FanIn) -> Result<FanInSettings, ConfigError> {
    let default = FanInSettings::default();
    let settings = FanInSettings {
        stale_after_intervals: raw.stale_after_intervals.unwrap_or(default.stale_after_intervals),
        unreachable_after: length("fan_in.unreachable_after", raw.unreachable_after, default.unreachable_after)?,
        connect_timeout: length("fan_in.connect_timeout", raw.connect_timeout, default.connect_timeout)?,
        connects_in_flight: at_least_one(
            "fan_in.connects_in_flight",
            raw.connects_in_flight,
            default.connects_in_flight,
        )?,
        reconnect_after: length("fan_in.reconnect_after", raw.reconnect_after, default.reconnect_after)?,
        reconnect_at_most: length("fan_in.reconnect_at_most", raw.reconnect_at_most, default.reconnect_at_most)?,
        message_bytes: at_least_one("fan_in.message_bytes", raw.message_bytes, default.message_bytes)?,
        host_limits: HostLimits {
            devices: at_least_one("fan_in.host_devices", raw.host_devices, default.host_limits.devices)?,
            processes: at_least_one("fan_in.host_processes", raw.host_processes, default.host_limits.processes)?,
            device_uses: at_least_one(
                "fan_in.host_device_uses",
                raw.host_device_uses,
                default.host_limits.device_uses,
            )?,
            text_bytes: at_least_one("fan_in.host_text_bytes", raw.host_text_bytes, default.host_limits.text_bytes)?,
        },
    };
    if !(1..=1_000).contains(&settings.stale_after_intervals) {
        return Err(value("fan_in.stale_after_intervals", "must be from 1 to 1000"));
    }
    if settings.reconnect_at_most < settings.reconnect_after {
        return Err(value("fan_in.reconnect_at_most", "must not be shorter than fan_in.reconnect_after"));
    }
    Ok(settings)
}

fn serving(raw: raw::Serving) -> Result<ServingSettings, ConfigError> {
    let default = ServingSettings::default();
    Ok(ServingSettings {
        watches: at_least_one("serving.watches", raw.watches, default.watches)?,
        watch_age: length("serving.watch_age", raw.watch_age, default.watch_age)?,
        heartbeat: length("serving.heartbeat", raw.heartbeat, default.heartbeat)?,
        ask_timeout: length("serving.ask_timeout", raw.ask_timeout, default.ask_timeout)?,
        asks_in_flight: at_least_one("serving.asks_in_flight", raw.asks_in_flight, default.asks_in_flight)?,
        grace: length("serving.grace", raw.grace, default.grace)?,
    })
}

/// A length of time from 10 ms to a day.
fn length(key: &'static str, text: Option<String>, default: Duration) -> Result<Duration, ConfigError> {
    let Some(text) = text else { return Ok(default) };
    match humantime::parse_duration(&text) {
        Ok(length) if (Duration::from_millis(10)..=Duration::from_hours(24)).contains(&length) => Ok(length),
        Ok(_) => Err(value(key, &format!("`{text}` is not from 10ms to 1day"))),
        Err(error) => Err(value(key, &format!("`{text}` is not a length of time such as `20s`: {error}"))),
    }
}

fn at_least_one(key: &'static str, given: Option<usize>, default: usize) -> Result<usize, ConfigError> {
    match given {
        None => Ok(default),
        // What a semaphore can count.
        Some(number) if (1..=1 << 40).contains(&number) => Ok(number),
        Some(number) => Err(value(key, &format!("`{number}` is out of range; it must be at least 1"))),
    }
}

/// The line of a byte offset, from 1.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1
}

/// The folder that relative paths in a file are relative to.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
