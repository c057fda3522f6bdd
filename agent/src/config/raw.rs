//! The configuration as it is written, before it is checked.

use std::path::{Path, PathBuf};

use gpufleet_model::health::Thresholds;
use serde::Deserialize;

use super::ConfigError;

/// The file's keys. Every one is optional.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Raw {
    pub(super) listen: Option<String>,
    pub(super) tls_dir: Option<PathBuf>,
    pub(super) host_name: Option<String>,
    pub(super) interval: Option<String>,
    pub(super) ready_file: Option<PathBuf>,
    pub(super) protected_names: Option<Vec<String>>,
    pub(super) backend: Backend,
    pub(super) health: Health,
    pub(super) health_socket: HealthSocket,
    pub(super) serving: Serving,
}

/// `[backend]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Backend {
    pub(super) kind: Option<String>,
    pub(super) nvml_library: Option<PathBuf>,
    pub(super) seed: Option<u64>,
    pub(super) deadline: Option<String>,
    pub(super) slow_interval: Option<String>,
    pub(super) retry_at_least: Option<String>,
    pub(super) retry_at_most: Option<String>,
}

/// `[health]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Health {
    pub(super) kernel_log: Option<PathBuf>,
    pub(super) kernel_log_lookback: Option<String>,
    pub(super) thresholds: Option<Thresholds>,
}

/// `[health_socket]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HealthSocket {
    pub(super) path: Option<PathBuf>,
    pub(super) mode: Option<String>,
    pub(super) owner: Option<u32>,
    pub(super) group: Option<u32>,
    pub(super) allowed_users: Option<Vec<u32>>,
    pub(super) connections: Option<usize>,
}

/// `[serving]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Serving {
    pub(super) watch_age: Option<String>,
    pub(super) watches: Option<usize>,
    pub(super) connections: Option<usize>,
    pub(super) connection_age: Option<String>,
    pub(super) grace: Option<String>,
}

pub(super) fn read(path: &Path) -> Result<Raw, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|cause| ConfigError::Read { path: path.to_owned(), cause })?;
    let mut raw: Raw = toml::from_str(&text).map_err(|error| ConfigError::Syntax {
        path: path.to_owned(),
        line: line_of(&text, error.span().map_or(0, |span| span.start)),
        message: error.message().to_owned(),
    })?;
    // Paths in a file are meant from where the file is.
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    raw.tls_dir = raw.tls_dir.map(|dir| folder.join(dir));
    raw.ready_file = raw.ready_file.map(|file| folder.join(file));
    raw.backend.nvml_library = raw.backend.nvml_library.map(|file| folder.join(file));
    raw.health_socket.path = raw.health_socket.path.map(|path| folder.join(path));
    Ok(raw)
}

/// The line of a byte offset, from 1.
fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}
