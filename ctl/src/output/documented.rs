//! `docs/json.md` describes every field that is printed, and none that is not.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::fixtures::fleet;
use super::json::document;
use super::{Order, Records, render};
use crate::cli::Format;
use crate::screen::Screen;

const PAGE: &str = include_str!("../../../docs/json.md");

/// Names in the first column of the tables, by the heading they stand under.
fn described() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut sections: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let mut heading = "";
    for line in PAGE.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            heading = title;
        } else if let Some((name, _)) = line.strip_prefix("| `").and_then(|rest| rest.split_once("` |")) {
            assert!(sections.entry(heading).or_default().insert(name), "`{name}` twice under {heading}");
            assert_eq!(line.matches('|').count(), 6, "{line}");
        }
    }
    sections
}

/// Keys of the objects in a list, or of one object.
fn keys(value: &Value) -> BTreeSet<&str> {
    match value {
        Value::Array(values) => values.iter().flat_map(keys).collect(),
        Value::Object(object) => object.keys().map(String::as_str).collect(),
        _ => BTreeSet::new(),
    }
}

/// The values under a key of each object in a list.
fn under(values: &Value, key: &str) -> Value {
    let values = values.as_array().unwrap().iter().map(|value| value[key].clone());
    values.flat_map(|value| value.as_array().cloned().unwrap_or_else(|| vec![value])).collect()
}

#[test]
fn every_field_of_the_json_is_described_and_no_other() {
    let document = document(&fleet(), Records::Hosts, &Order::default()).unwrap();
    let described = described();
    let (hosts, devices, processes) = (&document["hosts"], &document["devices"], &document["processes"]);
    for (heading, printed) in [
        ("Document", &document),
        ("Missing", &document["missing"]),
        ("Hosts", hosts),
        ("Backends of a host", &under(hosts, "backends")),
        ("Devices", devices),
        ("MIG of a device", &under(devices, "mig")),
        ("Limits of a device", &under(devices, "limits")),
        ("Processes", processes),
        ("Devices of a process", &under(processes, "devices")),
    ] {
        assert_eq!(described[heading], keys(printed), "{heading}");
    }
}

#[test]
fn records_of_a_kind_all_have_the_same_fields() {
    let document = document(&fleet(), Records::Hosts, &Order::default()).unwrap();
    for kind in ["hosts", "devices", "processes", "missing"] {
        for record in document[kind].as_array().unwrap() {
            assert_eq!(keys(record), keys(&document[kind]), "{kind}");
        }
    }
}

#[test]
fn every_column_of_the_csv_is_described() {
    let described = described();
    for (records, also) in [
        (Records::Hosts, &["Hosts"][..]),
        (Records::Devices, &["Devices"]),
        (Records::Processes, &["Processes", "Devices of a process"]),
    ] {
        let csv = render(&fleet(), records, Format::Csv, &Order::default(), Screen::plain()).unwrap();
        for column in csv.lines().next().unwrap().split(',') {
            let known = also.iter().chain(&["CSV"]).any(|heading| described[heading].contains(column));
            assert!(known, "{records:?}: `{column}`");
        }
    }
}
