//! Every list in every format, and what must hold for all of them.

use std::collections::BTreeSet;

use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

use super::fixtures::{fleet, with_memory, without_devices};
use super::{Order, Records, render, top};
use crate::cli::Format;
use crate::screen::Screen;

const EVERY: [Records; 3] = [Records::Hosts, Records::Devices, Records::Processes];

fn text(records: Records, format: Format) -> String {
    render(&fleet(), records, format, &Order::default(), Screen::plain()).unwrap()
}

/// Ages grow while a test runs.
fn settled(json: &str) -> Value {
    let mut value: Value = serde_json::from_str(json).unwrap();
    settle(&mut value);
    value
}

fn settle(value: &mut Value) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                if key == "sample_age_seconds" && value.is_number() {
                    *value = Value::from(value.as_f64().unwrap().floor());
                }
                settle(value);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(settle),
        _ => {}
    }
}

/// CSV of devices, whose last column is the age.
fn without_ages(csv: &str) -> String {
    csv.lines().map(|line| line.rsplit_once(',').map_or(line, |(rest, _)| rest).to_owned() + "\n").collect()
}

#[test]
fn tables() {
    insta::assert_snapshot!("hosts", text(Records::Hosts, Format::Table));
    insta::assert_snapshot!("devices", text(Records::Devices, Format::Table));
    insta::assert_snapshot!("processes", text(Records::Processes, Format::Table));
    insta::assert_snapshot!("hosts_wide", text(Records::Hosts, Format::Wide));
    insta::assert_snapshot!("devices_wide", text(Records::Devices, Format::Wide));
    insta::assert_snapshot!("processes_wide", text(Records::Processes, Format::Wide));
}

#[test]
fn names_and_csv() {
    insta::assert_snapshot!("processes_name", text(Records::Processes, Format::Name));
    insta::assert_snapshot!("devices_csv", without_ages(&text(Records::Devices, Format::Csv)));
    insta::assert_snapshot!("processes_csv", text(Records::Processes, Format::Csv));
}

#[test]
fn json() {
    insta::assert_json_snapshot!("json", settled(&text(Records::Processes, Format::Json)));
}

#[test]
fn pages() {
    let page = |width, rows| {
        let screen = Screen { width: Some(width), ..Screen::plain() };
        top::render(&fleet(), &Order::default(), screen, Some(rows), None).unwrap()
    };
    insta::assert_snapshot!("top_80x24", page(80, 24));
    insta::assert_snapshot!("top_200x60", page(200, 60));
    insta::assert_snapshot!("top_60x12", page(60, 12));
    let none = top::render(&without_devices(), &Order::default(), Screen::plain(), None, Some("CONNECTION LOST: x"));
    insta::assert_snapshot!("top_without_devices", none.unwrap());
}

#[test]
fn a_page_fits_its_terminal_at_any_size() {
    for (width, rows) in [(40, 5), (60, 12), (80, 24), (120, 34), (200, 60)] {
        let screen = Screen { width: Some(width), ..Screen::plain() };
        let page = top::render(&fleet(), &Order::default(), screen, Some(rows), None).unwrap();
        assert!(page.lines().count() <= rows, "{rows} rows");
        for line in page.lines().filter(|line| !line.starts_with('…')) {
            assert!(line.width() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn nothing_in_any_format_drives_a_terminal() {
    for records in EVERY {
        for format in [Format::Table, Format::Wide, Format::Csv, Format::Name, Format::Json, Format::Yaml] {
            let shown = text(records, format);
            assert!(shown.chars().all(|c| c == '\n' || c == '\r' || !c.is_control()), "{records:?} {format:?}");
        }
    }
}

#[test]
fn unknown_is_null_with_its_reason_and_never_zero() {
    let document: Value = serde_json::from_str(&text(Records::Devices, Format::Json)).unwrap();
    let device = &document["devices"][1];
    assert_eq!(device["memory_used_bytes"], Value::Null);
    assert_eq!(device["unknown"]["memory_used_bytes"], "no-permission");
    let zombie = document["processes"].as_array().unwrap().iter().find(|process| process["pid"] == 443).unwrap();
    assert_eq!((&zombie["state"], &zombie["command"]), (&"zombie".into(), &"[Zombie Process]".into()));
    assert_eq!(document["missing"].as_array().unwrap().len(), 2);
}

#[test]
fn a_process_on_two_devices_is_one_process() {
    let document: Value = serde_json::from_str(&text(Records::Processes, Format::Json)).unwrap();
    let trains: Vec<_> =
        document["processes"].as_array().unwrap().iter().filter(|process| process["pid"] == 440).collect();
    assert_eq!(trains.len(), 1);
    assert_eq!(trains[0]["devices"].as_array().unwrap().len(), 2);
    assert_eq!(trains[0]["host_memory_bytes"], 741_572_608);
}

#[test]
fn sorting_puts_unknown_last_both_ways() {
    for reverse in [false, true] {
        let order = Order { column: Some("gpu-memory".to_owned()), reverse };
        let names = render(&fleet(), Records::Processes, Format::Name, &order, Screen::plain()).unwrap();
        assert_eq!(names.lines().last(), Some("node1:441"), "{names}");
    }
    let wrong = Order { column: Some("nonsense".to_owned()), reverse: false };
    for records in EVERY {
        assert!(render(&fleet(), records, Format::Table, &wrong, Screen::plain()).is_err());
        assert!(render(&fleet(), records, Format::Json, &wrong, Screen::plain()).is_err());
    }
}

#[test]
fn json_is_ascii_and_loses_nothing() {
    let shown = text(Records::Processes, Format::Json);
    assert!(shown.is_ascii(), "{shown}");
    let value = serde_json::json!({ "text": "日本\u{202e}\u{7f}🙂\"\\\n", "number": f64::NAN });
    let ascii = super::json::text(&value).unwrap();
    assert!(ascii.is_ascii() && !ascii.contains('\u{7f}'), "{ascii}");
    assert_eq!(serde_json::from_str::<Value>(&ascii).unwrap(), value);
    assert_eq!(value["number"], Value::Null);
}

#[test]
fn yaml_says_what_json_says() {
    for records in EVERY {
        let yaml = serde_yaml_ng::from_str::<Value>(&text(records, Format::Yaml)).unwrap();
        assert_eq!(settled(&yaml.to_string()), settled(&text(records, Format::Json)), "{records:?}");
    }
}

#[test]
fn csv_has_as_many_cells_in_each_row_as_names_and_each_name_once() {
    for records in EVERY {
        let shown = text(records, Format::Csv);
        let mut reader = csv::Reader::from_reader(shown.as_bytes());
        let names: BTreeSet<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
        assert_eq!(names.len(), reader.headers().unwrap().len(), "{records:?}");
        // The reader refuses rows of another length.
        assert!(reader.records().all(|row| row.is_ok()), "{records:?}");
    }
}

proptest! {
    /// Whatever is known, unknown and equal: sorted both ways, the unknown last, ties by host, pid and device.
    #[test]
    fn any_sort_is_stable_and_ends_with_the_unknown(memory in proptest::collection::vec(proptest::option::of(0_u64..4), 0..12)) {
        let view = with_memory(&memory);
        for reverse in [false, true] {
            let order = Order { column: Some("gpu-memory".to_owned()), reverse };
            let rows = super::processes(&view, &order).unwrap();
            let keys: Vec<_> = rows
                .iter()
                .map(|row| {
                    let known = crate::columns::process::gpu_memory(row.process).ok();
                    let directed = known.map(|bytes| if reverse { bytes } else { u64::MAX - bytes });
                    (known.is_none(), directed, row.process.identity.pid)
                })
                .collect();
            prop_assert_eq!(rows.len(), memory.len());
            prop_assert!(keys.is_sorted(), "{:?}", keys);
        }
    }
}
