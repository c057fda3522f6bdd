//! `summary`: totals over the fleet, counted by the aggregator; over this host, counted here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use gpufleet_model::command::escape_text;
use gpufleet_model::{Device, DeviceStatus, Reading, human};
use gpufleet_proto::convert::std_duration;
use gpufleet_proto::v1;
use serde_json::{Value, json};

use crate::cli::{Format, Summary};
use crate::columns::{Cell, Column, Record, Shown};
use crate::config::Endpoint;
use crate::exit::{CtlError, Exit, Result};
use crate::output::{csv_text, json, table, yaml};
use crate::screen::{Screen, print, tell};
use crate::source::{Want, collect, dial_aggregator, dialer, fleet_client};
use crate::view::{Connection, Filter, View};

/// Prints the totals, once or again and again.
pub(crate) async fn run(endpoint: &Endpoint, summary: Summary, screen: Screen) -> Result<Exit> {
    let exit = once(endpoint, &summary, screen).await?;
    let Some(interval) = summary.watch else { return Ok(exit) };
    let again = async {
        let mut ticks = tokio::time::interval(interval);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            print("\n")?;
            once(endpoint, &summary, screen).await?;
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
        failed = again => failed,
    }
}

async fn once(endpoint: &Endpoint, summary: &Summary, screen: Screen) -> Result<Exit> {
    let selection = crate::cli::Selection {
        hosts: summary.hosts.clone(),
        gpus: summary.gpus.clone(),
        users: summary.users.clone(),
        pids: summary.pids.clone(),
        ..crate::cli::Selection::default()
    };
    let filter = Filter::from(&selection);
    let (groups, missing) = match endpoint {
        Endpoint::Aggregator { address, tls_dir } => {
            let channel = dial_aggregator(&dialer(tls_dir)?, address).await?;
            let request =
                v1::GetFleetSummaryRequest { filter: Some(filter.to_wire()), group_by: summary.group_by.clone() };
            let answer = fleet_client(channel).get_fleet_summary(request).await?.into_inner();
            (answer.groups, answer.missing)
        }
        _ if !summary.group_by.is_empty() => {
            return Err(CtlError::usage("--group-by needs an aggregator: labels are in its inventory"));
        }
        _ => {
            let want = Want { filter, contents: true, interval: Duration::from_secs(1), ..Want::default() };
            (vec![of_view(&collect(endpoint, want).await?)], Vec::new())
        }
    };
    print(&render(&groups, &missing, summary, screen)?)?;
    for host in &missing {
        let state = Connection::from_wire(host.state);
        tell(format!("host `{}` is {} and not in the totals: {}", host.host, state.as_str(), host.problem));
    }
    Ok(if missing.is_empty() { Exit::Ok } else { Exit::Partial })
}

fn render(
    groups: &[v1::FleetSummary],
    missing: &[v1::MissingHost],
    summary: &Summary,
    screen: Screen,
) -> Result<String> {
    match summary.output {
        Format::Json | Format::Yaml => {
            let document = json!({
                "schema_version": json::SCHEMA_VERSION,
                "collected_at": json::time(SystemTime::now()),
                "groups": groups.iter().map(group_json).collect::<Vec<_>>(),
                "missing": missing.iter().map(missing_json).collect::<Vec<_>>(),
            });
            if summary.output == Format::Yaml { yaml(&document) } else { json::text(&document) }
        }
        Format::Csv => csv(groups, &labels(groups, summary)),
        Format::Name => Ok(groups.iter().map(|group| name(group) + "\n").collect()),
        Format::Table | Format::Wide => {
            let columns = columns();
            let shown: Vec<_> =
                columns.iter().filter(|column| column.name != "labels" || !summary.group_by.is_empty()).collect();
            Ok(table::render(groups, &shown, screen))
        }
    }
}

fn missing_json(host: &v1::MissingHost) -> Value {
    json!({
        "host": host.host,
        "state": Connection::from_wire(host.state).as_str(),
        "problem": host.problem,
        "sample_age_seconds": json::seconds(host.sample_age.and_then(std_duration)),
    })
}

fn group_json(group: &v1::FleetSummary) -> Value {
    let labels: BTreeMap<_, _> = group.labels.iter().collect();
    json!({
        "labels": labels,
        "hosts_connected": group.hosts_connected,
        "hosts_stale": group.hosts_stale,
        "hosts_unreachable": group.hosts_unreachable,
        "hosts_never_seen": group.hosts_never_seen,
        "devices": group.devices,
        "mig_instances": group.mig_instances,
        "devices_in_use": group.devices_in_use,
        "devices_unavailable": group.devices_unavailable,
        "processes": group.processes,
        "memory_used_bytes": group.memory_used_bytes,
        "memory_total_bytes": group.memory_total_bytes,
        "memory_devices": group.memory_devices,
        "power_watts": group.power_watts,
        "power_devices": group.power_devices,
        "utilization_percent": group.utilization_percent,
        "utilization_devices": group.utilization_devices,
    })
}

/// The labels of a group, without which it is the whole.
fn name(group: &v1::FleetSummary) -> String {
    let labels: BTreeMap<_, _> = group.labels.iter().collect();
    if labels.is_empty() {
        return "fleet".to_owned();
    }
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    escape_text(&labels.join(",")).into_owned()
}

/// The labels that groups differ in: those asked for, in that order.
fn labels(groups: &[v1::FleetSummary], summary: &Summary) -> Vec<String> {
    let mut labels = Vec::new();
    let named = groups.iter().flat_map(|group| group.labels.keys());
    for label in summary.group_by.iter().chain(named.collect::<BTreeSet<_>>()) {
        if !labels.contains(label) {
            labels.push(label.clone());
        }
    }
    labels
}

/// One row for each group: its labels as `label_NAME`, then the fields of the JSON in their order.
fn csv(groups: &[v1::FleetSummary], labels: &[String]) -> Result<String> {
    let label_names = labels.iter().map(|label| format!("label_{}", escape_text(label)));
    let names: Vec<String> = label_names.chain(FIELDS.iter().map(|name| (*name).to_owned())).collect();
    let row = |group: &v1::FleetSummary| {
        let object = group_json(group);
        let label = |label: &String| group.labels.get(label).map(|value| escape_text(value).into_owned());
        let field = |name: &&str| match object.get(*name) {
            None | Some(Value::Null) => String::new(),
            Some(value) => value.to_string(),
        };
        labels.iter().map(|name| label(name).unwrap_or_default()).chain(FIELDS.iter().map(field)).collect()
    };
    csv_text(&names, groups.iter().map(row))
}

/// The fields of a group that are numbers.
const FIELDS: &[&str] = &[
    "hosts_connected",
    "hosts_stale",
    "hosts_unreachable",
    "hosts_never_seen",
    "devices",
    "mig_instances",
    "devices_in_use",
    "devices_unavailable",
    "processes",
    "memory_used_bytes",
    "memory_total_bytes",
    "memory_devices",
    "power_watts",
    "power_devices",
    "utilization_percent",
    "utilization_devices",
];

impl Record for v1::FleetSummary {}

fn columns() -> [Column<v1::FleetSummary>; 9] {
    const fn column(
        title: &'static str,
        name: &'static str,
        cell: fn(&v1::FleetSummary) -> Cell,
    ) -> Column<v1::FleetSummary> {
        Column { title, name, right: true, shown: Shown::Always, descending: true, cell }
    }
    [
        column("GROUP", "labels", |group| Cell::text(name(group))),
        column("HOSTS", "hosts", |group| {
            let gone = group.hosts_stale + group.hosts_unreachable + group.hosts_never_seen;
            Cell::text(format!("{}/{}", group.hosts_connected, group.hosts_connected + gone))
        }),
        column("GPUS", "devices", |group| Cell::number(group.devices.into(), group.devices.to_string())),
        column("IN-USE", "in-use", |group| Cell::number(group.devices_in_use.into(), group.devices_in_use.to_string())),
        column("LOST", "unavailable", |group| {
            Cell::number(group.devices_unavailable.into(), group.devices_unavailable.to_string())
        }),
        column("PROCS", "processes", |group| Cell::number(group.processes.into(), group.processes.to_string())),
        column("MEMORY", "memory", |group| match (group.memory_used_bytes, group.memory_total_bytes) {
            (Some(used), Some(total)) => Cell::text(format!("{}/{}", human::bytes(used), human::bytes(total))),
            _ => Cell::unknown(),
        }),
        column("GPU%", "utilization", |group| {
            group.utilization_percent.map_or_else(Cell::unknown, |v| Cell::number(v, format!("{v:.0}%")))
        }),
        column("POWER", "power", |group| {
            group.power_watts.map_or_else(Cell::unknown, |v| Cell::number(v, format!("{v:.0}W")))
        }),
    ]
}

/// The totals of a view that no aggregator counted.
fn of_view(view: &View) -> v1::FleetSummary {
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let state = |wanted| number(view.hosts.values().filter(|host| host.connection == wanted).count());
    let physical: Vec<&Device> =
        view.devices().map(|(_, device)| device).filter(|device| device.info.mig.is_none()).collect();
    let known =
        |of: fn(&Device) -> Reading<u64>| physical.iter().filter_map(|device| of(device).ok()).collect::<Vec<_>>();
    let used = known(|device| device.readings.memory_used_bytes);
    let total = known(|device| device.readings.memory_total_bytes);
    let power: Vec<f64> = physical.iter().filter_map(|device| device.readings.power_watts.ok()).collect();
    let utilization: Vec<f64> =
        physical.iter().filter_map(|device| device.readings.utilization_percent.ok()).map(f64::from).collect();
    let in_use = |device: &&&Device| {
        view.processes().any(|(_, process)| process.uses.iter().any(|used| used.device == device.key))
    };
    v1::FleetSummary {
        hosts_connected: state(Connection::Connected),
        hosts_stale: state(Connection::Stale),
        hosts_unreachable: state(Connection::Unreachable),
        hosts_never_seen: state(Connection::NeverSeen),
        devices: number(physical.len()),
        mig_instances: number(view.devices().count() - physical.len()),
        devices_in_use: number(physical.iter().filter(in_use).count()),
        devices_unavailable: number(physical.iter().filter(|device| device.status != DeviceStatus::Ok).count()),
        processes: number(view.processes().filter(|(_, process)| !process.uses.is_empty()).count()),
        memory_used_bytes: (!used.is_empty()).then(|| used.iter().sum()),
        memory_total_bytes: (!total.is_empty()).then(|| total.iter().sum()),
        memory_devices: number(used.len()),
        power_watts: (!power.is_empty()).then(|| power.iter().sum()),
        power_devices: number(power.len()),
        utilization_percent: (!utilization.is_empty())
            .then(|| utilization.iter().sum::<f64>() / utilization.len() as f64),
        utilization_devices: number(utilization.len()),
        ..v1::FleetSummary::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(rack: &str) -> v1::FleetSummary {
        let labels = std::iter::once(("rack".to_owned(), rack.to_owned())).collect();
        v1::FleetSummary { labels, hosts_connected: 2, devices: 16, power_watts: Some(1.5), ..Default::default() }
    }

    fn shown(groups: &[v1::FleetSummary], group_by: &[&str], output: Format) -> String {
        let group_by = group_by.iter().map(|label| (*label).to_owned()).collect();
        render(groups, &[], &Summary { group_by, output, ..Summary::default() }, Screen::plain()).unwrap()
    }

    #[test]
    fn csv_has_a_row_for_each_group_and_nothing_for_unknown() {
        let text = shown(&[group("a,1"), group("b")], &["rack"], Format::Csv);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("label_rack,hosts_connected,hosts_stale,"), "{text}");
        assert_eq!(lines[1], "\"a,1\",2,0,0,0,16,0,0,0,0,,,0,1.5,0,,0");
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn names_are_the_labels_or_the_whole() {
        assert_eq!(shown(&[group("a"), group("\u{1b}[2J")], &["rack"], Format::Name).lines().next(), Some("rack=a"));
        assert!(!shown(&[group("\u{1b}[2J")], &["rack"], Format::Name).contains('\u{1b}'));
        assert_eq!(shown(&[v1::FleetSummary::default()], &[], Format::Name), "fleet\n");
    }

    #[test]
    fn csv_holds_every_number_of_the_json() {
        let object = group_json(&group("a"));
        let numbers: BTreeSet<&str> =
            object.as_object().unwrap().keys().map(String::as_str).filter(|key| *key != "labels").collect();
        assert_eq!(numbers, FIELDS.iter().copied().collect());
        let page = include_str!("../../../docs/json.md");
        let section = page.split("\n## ").find(|section| section.starts_with("Summary\n")).unwrap();
        for name in object.as_object().unwrap().keys() {
            assert!(section.contains(&format!("\n| `{name}` |")), "{name}");
        }
    }
}
