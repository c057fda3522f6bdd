//! The inventory as a list on the command line: `host:port,name=host:port,…`.

use std::collections::BTreeMap;

use super::{Builder, Inventory, InventoryError, Place, split_address};

pub(super) fn parse(text: &str) -> Result<Inventory, InventoryError> {
    let mut builder = Builder::default();
    for (index, item) in text.split(',').enumerate() {
        let place = Place::Item(index + 1);
        let item = item.trim();
        if item.is_empty() {
            let message = "an item is empty; write HOST:PORT or NAME=HOST:PORT, separated by commas".into();
            return Err(InventoryError::Invalid { place, message });
        }
        let (name, address) = match item.split_once('=') {
            Some((name, address)) => (name.trim(), address.trim()),
            None => match split_address(item) {
                Ok((host, _)) => (host.trim_start_matches('[').trim_end_matches(']'), item),
                Err(message) => return Err(InventoryError::Invalid { place, message }),
            },
        };
        builder.add(place, name, address, BTreeMap::new())?;
    }
    Ok(builder.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_default_to_the_host_part() {
        let inventory = parse("node1:9460, n2=10.0.0.2:1,node3").unwrap();
        let hosts: Vec<_> = inventory.iter().map(|e| (e.name.to_string(), e.address.clone())).collect();
        assert_eq!(
            hosts,
            [
                ("n2".to_string(), "10.0.0.2:1".to_string()),
                ("node1".to_string(), "node1:9460".to_string()),
                ("node3".to_string(), "node3:9460".to_string()),
            ]
        );
    }

    #[test]
    fn mistakes_name_the_item() {
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(
            message("a:1,,b:2"),
            "item 2 of the host list: an item is empty; write HOST:PORT or NAME=HOST:PORT, separated by commas"
        );
        assert!(message("127.0.0.1:1,127.0.0.1:2").contains("host `127.0.0.1` is listed twice"));
        assert_eq!(
            message("a b=c:1"),
            "item 1 of the host list: host name `a b` contains ` `; names have letters, digits, `.`, `-` and `_`"
        );
        assert_eq!(
            message("[::1]:1"),
            "item 1 of the host list: host name `::1` contains `:`; names have letters, digits, `.`, `-` and `_`"
        );
    }
}
