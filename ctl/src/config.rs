//! The configuration file: named contexts, one of them in use.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cli::Connection;
use crate::exit::{CtlError, Result};

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
        toml::from_str(&text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let line = text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1;
            CtlError::usage(format!("{}:{line}: {}", path.display(), error.message()))
        })
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

    /// Whom to ask: flags and environment over the context over this host.
    pub(crate) fn endpoint(&self, flags: &Connection) -> Result<Endpoint> {
        let name = flags.context.as_ref().or(self.context.as_ref());
        let explicit = flags.aggregator.is_some() || flags.agent.is_some();
        let entry = match name {
            // An address on the command line needs no context; one that was named must exist all the same.
            Some(name) if !explicit || flags.context.is_some() => self.entry(name)?.clone(),
            _ => ContextEntry::default(),
        };
        let tls_dir = || flags.tls_dir.clone().or(entry.tls_dir.clone()).map_or_else(default_tls_dir, Ok);
        if let Some(address) = flags.agent.clone() {
            return Ok(Endpoint::Agent { address, tls_dir: tls_dir()? });
        }
        if let Some(address) = flags.aggregator.clone().or(entry.aggregator.clone()) {
            return Ok(Endpoint::Aggregator { address, tls_dir: tls_dir()? });
        }
        match entry.agent.clone() {
            Some(address) => Ok(Endpoint::Agent { address, tls_dir: tls_dir()? }),
            None => Ok(Endpoint::Local),
        }
    }
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
mod tests {
    use super::*;

    fn config() -> Config {
        toml::from_str(
            "context = 'prod'\n[contexts.prod]\naggregator = 'a:1'\ntls_dir = '/p'\n[contexts.one]\nagent = 'b:2'\ntls_dir = '/o'\n",
        )
        .unwrap()
    }

    #[test]
    fn flags_win_over_the_context_and_the_context_over_this_host() {
        let flags = Connection::default();
        let prod = Endpoint::Aggregator { address: "a:1".to_owned(), tls_dir: "/p".into() };
        assert_eq!(config().endpoint(&flags).unwrap(), prod);
        assert_eq!(Config::default().endpoint(&flags).unwrap(), Endpoint::Local);
        let one = Connection { context: Some("one".to_owned()), ..Connection::default() };
        let agent = Endpoint::Agent { address: "b:2".to_owned(), tls_dir: "/o".into() };
        assert_eq!(config().endpoint(&one).unwrap(), agent);
        let given = Connection { aggregator: Some("c:3".to_owned()), tls_dir: Some("/t".into()), ..one };
        let other = Endpoint::Aggregator { address: "c:3".to_owned(), tls_dir: "/t".into() };
        assert_eq!(config().endpoint(&given).unwrap(), other);
    }

    #[test]
    fn an_unknown_context_is_an_error_that_names_the_known_ones() {
        let flags = Connection { context: Some("nope".to_owned()), ..Connection::default() };
        let error = config().endpoint(&flags).unwrap_err().to_string();
        assert!(error.contains("no context `nope`; known: one, prod"), "{error}");
    }

    #[test]
    fn mistakes_are_told_with_file_and_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        assert_eq!(Config::read(&path).unwrap(), Config::default());
        fs::write(&path, "context = 'a'\n[contexts.a]\nagregator = 'x:1'\n").unwrap();
        let error = Config::read(&path).unwrap_err().to_string();
        assert!(error.contains("config.toml:3: unknown field `agregator`"), "{error}");
    }
}
