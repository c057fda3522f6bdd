//! The inventory as a TOML file:
//!
//! ```toml
//! [[hosts]]
//! name = "node1"                 # the name in the agent's certificate
//! address = "10.0.0.1:9460"      # optional: the name and the default port
//! labels = { rack = "a1" }       # optional
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::{Builder, Inventory, InventoryError, Place};

/// The largest file that is read.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// `hosts` is required, so that a file caught half written is not taken for an empty fleet.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    hosts: Vec<RawHost>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHost {
    name: Spanned<String>,
    address: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

pub(super) fn load(path: &Path) -> Result<Inventory, InventoryError> {
    let read = |source| InventoryError::Read { path: path.to_path_buf(), source };
    let size = std::fs::metadata(path).map_err(read)?.len();
    if size > MAX_FILE_BYTES {
        return Err(InventoryError::Invalid {
            place: Place::Whole,
            message: format!("`{}` has {size} bytes; the most is {MAX_FILE_BYTES}", path.display()),
        });
    }
    parse(path, &std::fs::read_to_string(path).map_err(read)?)
}

fn parse(path: &Path, text: &str) -> Result<Inventory, InventoryError> {
    let place = |offset: usize| Place::Line { path: path.to_path_buf(), line: line_of(text, offset) };
    let raw: RawFile = toml::from_str(text).map_err(|error| InventoryError::Invalid {
        place: place(error.span().map_or(0, |span| span.start)),
        message: error.message().to_string(),
    })?;
    let mut builder = Builder::default();
    for host in raw.hosts {
        let place = place(host.name.span().start);
        let name = host.name.into_inner();
        let address = host.address.as_deref().unwrap_or(&name);
        builder.add(place, &name, address, host.labels)?;
    }
    Ok(builder.finish())
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|&b| b == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        parse(Path::new("hosts.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn reads_names_addresses_and_labels() {
        let text = "[[hosts]]\nname = \"n1\"\n\n[[hosts]]\nname = \"n2\"\naddress = \"10.0.0.2:1\"\nlabels = { rack = \"a\" }\n";
        let inventory = parse(Path::new("hosts.toml"), text).unwrap();
        assert_eq!(inventory.get("n1").unwrap().address, "n1:9460");
        let n2 = inventory.get("n2").unwrap();
        assert_eq!((n2.address.as_str(), n2.labels["rack"].as_str()), ("10.0.0.2:1", "a"));
    }

    #[test]
    fn an_empty_fleet_must_be_meant() {
        assert!(parse(Path::new("hosts.toml"), "hosts = []").unwrap().is_empty());
        assert_eq!(message(""), "hosts.toml:1: missing field `hosts`");
    }

    #[test]
    fn mistakes_name_the_line() {
        assert_eq!(
            message("[[hosts]]\nname = \"a\"\n[[hosts]]\nname = \"b\"\n[[hosts]]\nname = \"a\"\n"),
            "hosts.toml:6: host `a` is listed twice, first at hosts.toml:2; names must be unique: remove one, or name it as \
             NAME=HOST:PORT"
        );
        assert_eq!(
            message("[[hosts]]\nname = \"a\"\nadress = \"b\"\n"),
            "hosts.toml:3: unknown field `adress`, expected one of `name`, `address`, `labels`"
        );
        assert_eq!(message("[[hosts]]\nname a\n"), "hosts.toml:2: key with no value, expected `=`");
        assert_eq!(
            message("\n[[hosts]]\nname = \"a\"\naddress = \"b:99999\"\n"),
            "hosts.toml:3: port `99999` of `b` is not a number from 1 to 65535"
        );
    }
}
