//! The configuration as it is written, before it is checked.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{ConfigError, folder, line_of};

/// The file's keys. Every one is optional.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Raw {
    pub(super) listen: Option<String>,
    pub(super) tls_dir: Option<PathBuf>,
    pub(super) hosts: Option<String>,
    pub(super) operators: Option<Vec<String>>,
    pub(super) ready_file: Option<PathBuf>,
    pub(super) fan_in: FanIn,
    pub(super) serving: Serving,
}

/// `[fan_in]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FanIn {
    pub(super) stale_after_intervals: Option<u32>,
    pub(super) unreachable_after: Option<String>,
    pub(super) connect_timeout: Option<String>,
    pub(super) connects_in_flight: Option<usize>,
    pub(super) reconnect_after: Option<String>,
    pub(super) reconnect_at_most: Option<String>,
    pub(super) message_bytes: Option<usize>,
    pub(super) host_devices: Option<usize>,
    pub(super) host_processes: Option<usize>,
    pub(super) host_device_uses: Option<usize>,
    pub(super) host_text_bytes: Option<usize>,
}

/// `[serving]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Serving {
    pub(super) watches: Option<usize>,
    pub(super) watch_age: Option<String>,
    pub(super) heartbeat: Option<String>,
    pub(super) ask_timeout: Option<String>,
    pub(super) asks_in_flight: Option<usize>,
    pub(super) grace: Option<String>,
}

pub(super) fn read(path: &Path) -> Result<Raw, ConfigError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_path_buf(), source })?;
    let mut raw: Raw = toml::from_str(&text).map_err(|error| ConfigError::Syntax {
        path: path.to_path_buf(),
        line: line_of(&text, error.span().map_or(0, |span| span.start)),
        message: error.message().to_string(),
    })?;
    // Paths in a file are meant from where the file is.
    let folder = folder(path);
    raw.tls_dir = raw.tls_dir.map(|dir| folder.join(dir));
    raw.ready_file = raw.ready_file.map(|file| folder.join(file));
    if let Some(hosts) = &raw.hosts {
        let file = folder.join(hosts);
        if Path::new(hosts).is_relative()
            && !hosts.contains([':', ',', '='])
            && (file.extension().is_some_and(|extension| extension == "toml") || file.is_file())
        {
            raw.hosts = Some(file.to_string_lossy().into_owned());
        }
    }
    Ok(raw)
}
