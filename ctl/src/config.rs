//! The configuration file: named contexts, one of them in use.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cli::Connection;
use crate::exit::{CtlError, Result};

/// Where an aggregator listens unless told otherwise.
const AGGREGATOR_PORT: u16 = 9461;
/// Where an agent listens unless told otherwise.
const AGENT_PORT: u16 = 9460;

/// The file as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// The context in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) context: Option<String>,
    /// Every context by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) contexts: BTreeMap<String, ContextEntry>,
}

/// Whom to ask, and as whom.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ContextEntry {
    /// An aggregator's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) aggregator: Option<String>,
    /// One agent's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<String>,
    /// Folder of the certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls_dir: Option<PathBuf>,
}

/// What the environment says, where it says something.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    pub(crate) context: Option<String>,
    aggregator: Option<String>,
    tls_dir: Option<PathBuf>,
}

impl Environment {
    /// The environment as it is; an empty variable says nothing.
    pub(crate) fn read() -> Self {
        let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let path = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self {
            context: text("GPUFLEET_CONTEXT"),
            aggregator: text("GPUFLEET_AGGREGATOR"),
            tls_dir: path("GPUFLEET_TLS_DIR"),
        }
    }
}

/// Whom a command asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// This host, without any server.
    Local,
    /// One agent.
    Agent { address: String, tls_dir: PathBuf },
    /// A fleet.
    Aggregator { address: String, tls_dir: PathBuf },
}

/// Where the configuration is: `GPUFLEET_CONFIG`, else in the user's configuration folder.
pub(crate) fn path() -> Option<PathBuf> {
    let given = std::env::var_os("GPUFLEET_CONFIG").map(PathBuf::from);
    given.or_else(|| Some(folder()?.join("config.toml")))
}

fn folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(base.join("gpufleet"))
}

impl Config {
    /// Reads the file; one that is not there is empty.
    pub(crate) fn load() -> Result<Self> {
        match path() {
            Some(path) => Self::read(&path),
            None => Ok(Self::default()),
        }
    }

    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(CtlError::usage(format!("cannot read `{}`: {error}", path.display()))),
        };
        let config: Self = toml::from_str(&text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let line = text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1;
            CtlError::usage(format!("{}:{line}: {}", path.display(), error.message()))
        })?;
        config.validated(path)
    }

    /// Refuses contexts that cannot be meant; a relative folder is beside the file.
    fn validated(mut self, path: &Path) -> Result<Self> {
        for (name, entry) in &mut self.contexts {
            let wrong = |what: &str| CtlError::usage(format!("{}: context `{name}`: {what}", path.display()));
            if entry.aggregator.is_some() && entry.agent.is_some() {
                return Err(wrong("both `aggregator` and `agent` are set; keep one"));
            }
            if [&entry.aggregator, &entry.agent].into_iter().flatten().any(String::is_empty) {
                return Err(wrong("the address is empty; write HOST:PORT"));
            }
            if entry.tls_dir.as_ref().is_some_and(|folder| folder.as_os_str().is_empty()) {
                return Err(wrong("`tls_dir` is empty; name the folder with ca.crt, tls.crt and tls.key"));
            }
            if let (Some(folder), Some(beside)) = (&mut entry.tls_dir, path.parent()) {
                *folder = beside.join(&*folder);
            }
        }
        Ok(self)
    }

    /// Writes the file in one step, readable by its owner alone.
    pub(crate) fn save(&self) -> Result<()> {
        let path =
            path().ok_or_else(|| CtlError::usage("no place for the configuration: set HOME or GPUFLEET_CONFIG"))?;
        let failed = |error: std::io::Error| CtlError::failed(format!("cannot write `{}`: {error}", path.display()));
        let text = toml::to_string(self).map_err(|error| CtlError::failed(error.to_string()))?;
        if let Some(folder) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        }
        let temporary = path.with_extension(format!("{}.new", std::process::id()));
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary).map_err(failed)?;
        std::io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)?;
        fs::rename(&temporary, &path).map_err(failed)
    }

    /// The context of this name.
    pub(crate) fn entry(&self, name: &str) -> Result<&ContextEntry> {
        self.contexts.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.contexts.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "there is none yet".to_owned() } else { known.join(", ") };
            CtlError::usage(format!(
                "no context `{name}`; known: {known}. Make one with `gpuctl context set {name} --aggregator HOST:PORT`"
            ))
        })
    }

    /// Whom to ask: the command line over the environment over the context in use over this host.
    ///
    /// # Errors
    /// When a context that is named does not exist or names nobody, or there are no certificates.
    pub(crate) fn endpoint(&self, flags: &Connection, environment: &Environment) -> Result<Endpoint> {
        let named = flags.context.as_deref().map(|name| self.entry(name)).transpose()?;
        let tls_dir = |entry: Option<&ContextEntry>| {
            let of_entry = entry.and_then(|entry| entry.tls_dir.clone());
            // A context of the command line says more than the environment, one of the file says less.
            let (first, last) = if named.is_some() { (of_entry, None) } else { (None, of_entry) };
            let given = flags.tls_dir.clone().or(first).or_else(|| environment.tls_dir.clone()).or(last);
            given.map_or_else(default_tls_dir, Ok)
        };
        if let Some(agent) = &flags.agent {
            return Ok(Endpoint::Agent { address: address(agent, AGENT_PORT), tls_dir: tls_dir(named)? });
        }
        let in_environment = || if named.is_some() { None } else { environment.aggregator.as_ref() };
        if let Some(aggregator) = flags.aggregator.as_ref().or_else(in_environment) {
            let address = address(aggregator, AGGREGATOR_PORT);
            return Ok(Endpoint::Aggregator { address, tls_dir: tls_dir(named)? });
        }
        let name = [&flags.context, &environment.context, &self.context].into_iter().flatten().next();
        let Some(name) = name else { return Ok(Endpoint::Local) };
        let entry = self.entry(name)?;
        match (&entry.aggregator, &entry.agent) {
            (Some(aggregator), _) => {
                let address = address(aggregator, AGGREGATOR_PORT);
                Ok(Endpoint::Aggregator { address, tls_dir: tls_dir(Some(entry))? })
            }
            (None, Some(agent)) => {
                Ok(Endpoint::Agent { address: address(agent, AGENT_PORT), tls_dir: tls_dir(Some(entry))? })
            }
            (None, None) => Err(CtlError::usage(format!(
                "context `{name}` names nobody; set it with `gpuctl context set {name} --aggregator HOST:PORT`"
            ))),
        }
    }
}

/// An address with its port, without a scheme.
fn address(text: &str, port: u16) -> String {
    let bare = text.strip_prefix("https://").map_or(text, |rest| rest.trim_end_matches('/'));
    let without_port = if bare.starts_with('[') { bare.ends_with(']') } else { !bare.contains(':') };
    if without_port && !bare.is_empty() { format!("{bare}:{port}") } else { bare.to_owned() }
}

/// The user's own certificates, else the system's.
fn default_tls_dir() -> Result<PathBuf> {
    let own = folder().map(|folder| folder.join("tls"));
    let candidates: Vec<PathBuf> = own.into_iter().chain([PathBuf::from("/etc/gpufleet/tls")]).collect();
    let found = candidates.iter().find(|folder| folder.join("tls.crt").exists());
    found.cloned().ok_or_else(|| {
        let tried: Vec<String> = candidates.iter().map(|folder| format!("`{}`", folder.display())).collect();
        CtlError::usage(format!(
            "no certificates in {}; give --tls-dir, or make some with `gpuctl pki issue user NAME`",
            tried.join(" or ")
        ))
    })
}

#[cfg(test)]
mod tests;
