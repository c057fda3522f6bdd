//! Which hosts there are: names, addresses and labels, from the command line or a file.
//!
//! In: an [`InventorySource`]. Out: the newest valid [`Inventory`] on a `watch` channel, kept current by
//! [`source::follow`]. Only the inventory adds or removes hosts; a source that turns invalid keeps its last good state.
//! A further kind of source (service discovery, DNS) is a variant of [`InventorySource`] and a branch in `source`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

mod file;
mod list;
pub(crate) mod source;

/// The port an agent listens on when an address names none.
pub const DEFAULT_AGENT_PORT: u16 = 9460;

/// The most hosts one inventory may hold.
pub const MAX_HOSTS: usize = 100_000;

const MAX_NAME_BYTES: usize = 253;
const MAX_LABELS: usize = 64;
const MAX_LABEL_BYTES: usize = 256;

/// One host of the inventory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InventoryEntry {
    /// Its name in the fleet: the name in its certificate.
    pub name: Arc<str>,
    /// Where its agent listens, as `host:port`.
    pub address: String,
    /// Labels, such as rack or pool.
    pub labels: BTreeMap<String, String>,
}

/// A valid set of hosts: names are unique.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    hosts: BTreeMap<Arc<str>, Arc<InventoryEntry>>,
}

/// Where the inventory comes from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum InventorySource {
    /// A set that does not change.
    Fixed(Inventory),
    /// A TOML file, read again when it changes.
    File(PathBuf),
}

/// Why an inventory is not valid.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InventoryError {
    /// The file cannot be read.
    #[error("cannot read the inventory `{}`: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The text is not an inventory.
    #[error("{place}: {message}")]
    Invalid {
        /// Where it is wrong: file and line, or the position in the list.
        place: Place,
        /// What is wrong, and what to do.
        message: String,
    },
}

/// A place in a source, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A line of a file, counted from 1.
    Line {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// An item of a list of hosts, counted from 1.
    Item(usize),
    /// No place in particular.
    Whole,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Item(item) => write!(f, "item {item} of the host list"),
            Self::Whole => f.write_str("inventory"),
        }
    }
}

impl Inventory {
    /// An inventory of hosts given as (name, address) pairs.
    ///
    /// # Errors
    /// When a name or an address is not valid, or a name comes twice.
    pub fn from_pairs<N: AsRef<str>, A: AsRef<str>>(
        pairs: impl IntoIterator<Item = (N, A)>,
    ) -> Result<Self, InventoryError> {
        let mut builder = Builder::default();
        for (index, (name, address)) in pairs.into_iter().enumerate() {
            builder.add(Place::Item(index + 1), name.as_ref(), address.as_ref(), BTreeMap::new())?;
        }
        Ok(builder.finish())
    }

    /// The hosts, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<InventoryEntry>> {
        self.hosts.values()
    }

    /// The host called `name`.
    pub fn get(&self, name: &str) -> Option<&Arc<InventoryEntry>> {
        self.hosts.get(name)
    }

    /// How many hosts there are.
    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// True when there is no host.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }
}

impl InventorySource {
    /// Reads the source once.
    ///
    /// # Errors
    /// When it cannot be read or is not valid.
    pub fn load(&self) -> Result<Inventory, InventoryError> {
        match self {
            Self::Fixed(inventory) => Ok(inventory.clone()),
            Self::File(path) => file::load(path),
        }
    }
}

/// `FILE` or `host:port,name=host:port,…`: a value with a slash or ending in `.toml`, and any file that exists, is a file.
impl FromStr for InventorySource {
    type Err = InventoryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let path = Path::new(text);
        let is_file = text.contains('/') || path.extension().is_some_and(|ext| ext == "toml") || path.is_file();
        if is_file { Ok(Self::File(path.to_path_buf())) } else { list::parse(text).map(Self::Fixed) }
    }
}

/// Collects hosts, refusing duplicates.
#[derive(Debug, Default)]
struct Builder {
    hosts: BTreeMap<Arc<str>, Arc<InventoryEntry>>,
    places: BTreeMap<Arc<str>, Place>,
}

impl Builder {
    fn add(
        &mut self,
        place: Place,
        name: &str,
        address: &str,
        labels: BTreeMap<String, String>,
    ) -> Result<(), InventoryError> {
        let refuse = |message: String| Err(InventoryError::Invalid { place: place.clone(), message });
        if let Err(problem) = check_name(name) {
            return refuse(problem);
        }
        let address = match complete_address(address) {
            Ok(address) => address,
            Err(problem) => return refuse(problem),
        };
        if let Err(problem) = check_labels(&labels) {
            return refuse(problem);
        }
        if let Some(first) = self.places.get(name) {
            return refuse(format!(
                "host `{name}` is listed twice, first at {first}; names must be unique: remove one, or name it as NAME=HOST:PORT"
            ));
        }
        if self.hosts.len() >= MAX_HOSTS {
            return refuse(format!("more than {MAX_HOSTS} hosts; split the fleet"));
        }
        let name: Arc<str> = name.into();
        self.places.insert(Arc::clone(&name), place);
        self.hosts.insert(Arc::clone(&name), Arc::new(InventoryEntry { name, address, labels }));
        Ok(())
    }

    fn finish(self) -> Inventory {
        Inventory { hosts: self.hosts }
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if name.is_empty() {
        return Err("a host has an empty name".into());
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(format!("a host name has {} bytes; the most is {MAX_NAME_BYTES}", name.len()));
    }
    if let Some(wrong) = name.chars().find(|&c| !allowed(c)) {
        return Err(format!(
            "host name `{name}` contains `{}`; names have letters, digits, `.`, `-` and `_`",
            wrong.escape_default()
        ));
    }
    Ok(())
}

fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), String> {
    if labels.len() > MAX_LABELS {
        return Err(format!("{} labels; the most is {MAX_LABELS}", labels.len()));
    }
    for (key, value) in labels {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/');
        if key.is_empty() || key.len() > MAX_LABEL_BYTES || !key.chars().all(allowed) {
            return Err(format!(
                "label `{}` is not valid; labels have letters, digits, `.`, `-`, `_` and `/`",
                key.escape_default()
            ));
        }
        if value.len() > MAX_LABEL_BYTES || value.chars().any(char::is_control) {
            return Err(format!(
                "the value of label `{key}` is longer than {MAX_LABEL_BYTES} bytes or has control characters"
            ));
        }
    }
    Ok(())
}

/// Checks `host`, `host:port`, `[v6]` or `[v6]:port` and adds the default port where there is none.
fn complete_address(address: &str) -> Result<String, String> {
    let (host, port) = split_address(address)?;
    Ok(format!("{host}:{}", port.unwrap_or(DEFAULT_AGENT_PORT)))
}

/// The host part (an IPv6 address with its brackets) and the port, if there is one.
fn split_address(address: &str) -> Result<(&str, Option<u16>), String> {
    let shape = || format!("address `{}` is not HOST or HOST:PORT", address.escape_default());
    let (host, port) = if address.starts_with('[') {
        let end = address.find(']').ok_or_else(shape)?;
        let (host, rest) = address.split_at(end + 1);
        let inner = host.trim_start_matches('[').trim_end_matches(']');
        inner.parse::<std::net::Ipv6Addr>().map_err(|_| format!("`{inner}` is not an IPv6 address"))?;
        match rest {
            "" => (host, None),
            _ => (host, Some(rest.strip_prefix(':').ok_or_else(shape)?)),
        }
    } else {
        match address.split_once(':') {
            None => (address, None),
            Some((_, port)) if port.contains(':') => {
                return Err(format!("write the IPv6 address `{}` in brackets", address.escape_default()));
            }
            Some((host, port)) => (host, Some(port)),
        }
    };
    let letters = host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '[' | ']' | ':'));
    if host.is_empty() || !letters {
        return Err(shape());
    }
    let port = port
        .map(|text| match text.parse::<u16>() {
            Ok(port) if port > 0 => Ok(port),
            _ => Err(format!("port `{}` of `{host}` is not a number from 1 to 65535", text.escape_default())),
        })
        .transpose()?;
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_get_the_default_port() {
        assert_eq!(complete_address("node1").unwrap(), "node1:9460");
        assert_eq!(complete_address("node1:1").unwrap(), "node1:1");
        assert_eq!(complete_address("[::1]").unwrap(), "[::1]:9460");
        assert_eq!(complete_address("[::1]:70").unwrap(), "[::1]:70");
    }

    #[test]
    fn wrong_addresses_are_refused_with_a_reason() {
        for (address, message) in [
            ("", "address `` is not HOST or HOST:PORT"),
            (":9460", "address `:9460` is not HOST or HOST:PORT"),
            ("a:", "port `` of `a` is not a number from 1 to 65535"),
            ("a:0", "port `0` of `a` is not a number from 1 to 65535"),
            ("a:70000", "port `70000` of `a` is not a number from 1 to 65535"),
            ("::1", "write the IPv6 address `::1` in brackets"),
            ("[::1", "address `[::1` is not HOST or HOST:PORT"),
            ("[zz]:1", "`zz` is not an IPv6 address"),
            ("a b:1", "address `a b:1` is not HOST or HOST:PORT"),
            ("http://a:1", "write the IPv6 address `http://a:1` in brackets"),
        ] {
            assert_eq!(complete_address(address).unwrap_err(), message, "{address}");
        }
    }

    #[test]
    fn a_value_is_a_file_when_it_looks_like_one() {
        assert!(matches!("/etc/hosts.toml".parse(), Ok(InventorySource::File(_))));
        assert!(matches!("hosts.toml".parse(), Ok(InventorySource::File(_))));
        assert!(matches!("host1:9460".parse(), Ok(InventorySource::Fixed(_))));
    }

    #[test]
    fn pairs_must_have_unique_names() {
        let error = Inventory::from_pairs([("a", "x:1"), ("a", "y:2")]).unwrap_err().to_string();
        assert_eq!(
            error,
            "item 2 of the host list: host `a` is listed twice, first at item 1 of the host list; names must be unique: \
             remove one, or name it as NAME=HOST:PORT"
        );
    }
}
