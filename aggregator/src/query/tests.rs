//! Filters and totals over small fleets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gpufleet_model::{DeviceStatus, HostSnapshot, MigInstance, Unknown};
use gpufleet_proto::status::Reason;
use gpufleet_proto::v1;
use tonic::Status;

use super::*;
use crate::fixtures;
use crate::inventory::{Inventory, InventorySource};
use crate::state::{Fleet, Freshness, HostWriter};

/// A fleet whose inventory names every host, of which some have been seen.
fn fleet(names: &[&str], seen: Vec<HostSnapshot>) -> (Arc<Fleet>, BTreeMap<String, HostWriter>) {
    let (fleet, mut writer) = Fleet::new(Freshness::default());
    let inventory = Inventory::from_pairs(names.iter().map(|name| (name, "127.0.0.1:1"))).unwrap();
    let added = writer.reconcile(&inventory).added;
    let mut writers: BTreeMap<_, _> = added.into_iter().map(|w| (w.cell().name().to_string(), w)).collect();
    for snapshot in seen {
        writers.get_mut(&snapshot.host.name).unwrap().begin(Arc::new(snapshot));
    }
    (fleet, writers)
}

async fn parse(fleet: &Fleet, filter: v1::FleetFilter) -> Result<Filter, Status> {
    let filter = Filter::parse(Some(filter), &fleet.table())?;
    filter.check_exists(fleet).await?;
    Ok(filter)
}

async fn refusal(fleet: &Fleet, filter: v1::FleetFilter) -> (Option<Reason>, String) {
    let status = parse(fleet, filter).await.expect_err("not refused");
    (Reason::of(&status), status.message().to_string())
}

fn hosts(names: &[&str]) -> v1::FleetFilter {
    v1::FleetFilter { hosts: names.iter().map(ToString::to_string).collect(), ..Default::default() }
}

fn devices(names: &[&str]) -> v1::FleetFilter {
    v1::FleetFilter { devices: names.iter().map(ToString::to_string).collect(), ..Default::default() }
}

#[tokio::test]
async fn names_that_do_not_exist_are_errors() {
    let (fleet, _writers) =
        fleet(&["node1", "node2"], vec![fixtures::snapshot("node1", 2, 2), fixtures::snapshot("node2", 1, 0)]);
    assert_eq!(
        refusal(&fleet, hosts(&["node3"])).await,
        (
            Some(Reason::UnknownHost),
            "host `node3` is not in the inventory; did you mean one of `node1`, `node2`?".to_string()
        )
    );
    assert_eq!(
        refusal(&fleet, devices(&["0", "7"])).await,
        (Some(Reason::UnknownDevice), "no selected host has a device with index `7`".to_string())
    );
    assert_eq!(
        refusal(&fleet, devices(&["GPU-x"])).await,
        (Some(Reason::UnknownDevice), "no selected host has a device with UUID `GPU-x`".to_string())
    );
    assert_eq!(
        refusal(&fleet, v1::FleetFilter { pids: vec![100, 4_000], ..Default::default() }).await,
        (Some(Reason::UnknownProcess), "no selected host has a process `4000` on a device".to_string())
    );
    let elsewhere = v1::FleetFilter { hosts: vec!["node2".into()], ..devices(&["1"]) };
    assert_eq!(
        refusal(&fleet, elsewhere).await.0,
        Some(Reason::UnknownDevice),
        "it exists, on a host that is not meant"
    );
    assert!(parse(&fleet, v1::FleetFilter { users: vec!["nobody".into()], ..Default::default() }).await.is_ok());
}

#[tokio::test]
async fn what_an_absent_host_may_have_is_no_error() {
    let (fleet, _writers) = fleet(&["node1", "node2"], vec![fixtures::snapshot("node1", 1, 0)]);
    assert!(parse(&fleet, devices(&["7"])).await.is_ok());
    let here = v1::FleetFilter { hosts: vec!["node1".into()], ..devices(&["7"]) };
    assert_eq!(refusal(&fleet, here).await.0, Some(Reason::UnknownDevice));
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused() {
    let (fleet, _writers) = fleet(&["node1"], Vec::new());
    let expression = v1::FleetFilter { expression: "true".into(), ..Default::default() };
    assert_eq!(refusal(&fleet, expression).await.0, Some(Reason::NotImplemented));
    assert_eq!(
        refusal(&fleet, devices(&[""])).await,
        (Some(Reason::InvalidFilter), "filter.devices: an item is empty".into())
    );
    let pids = v1::FleetFilter { pids: vec![0], ..Default::default() };
    assert_eq!(refusal(&fleet, pids).await, (Some(Reason::InvalidFilter), "filter.pids: 0 is not a process id".into()));
    let many = v1::FleetFilter { pids: (1..20_000).collect(), ..Default::default() };
    assert_eq!(refusal(&fleet, many).await.0, Some(Reason::InvalidFilter));
}

#[tokio::test]
async fn all_that_is_set_must_hold() {
    let snapshot = fixtures::snapshot("node1", 2, 4);
    let (fleet, _writers) = fleet(&["node1"], vec![snapshot.clone()]);
    let selected = async |filter: v1::FleetFilter| {
        let filter = parse(&fleet, filter).await.unwrap();
        let selection = filter.select(&snapshot);
        let devices = snapshot.devices.values().filter(|d| selection.device(d)).map(|d| d.key.0);
        let processes = snapshot.processes.values().filter(|p| selection.process(p));
        (devices.collect::<Vec<_>>(), processes.map(|p| p.identity.pid).collect::<Vec<_>>())
    };
    let all = v1::FleetFilter::default;
    assert_eq!(selected(all()).await, (vec![0, 1], vec![100, 101, 102, 103]));
    assert_eq!(selected(devices(&["1"])).await, (vec![1], vec![101, 103]));
    assert_eq!(selected(v1::FleetFilter { users: vec!["user0".into()], ..all() }).await, (vec![0], vec![100, 102]));
    assert_eq!(selected(v1::FleetFilter { pids: vec![101], ..all() }).await, (vec![1], vec![101]));
    let none = v1::FleetFilter { users: vec!["user0".into()], ..devices(&["1"]) };
    assert_eq!(selected(none).await, (vec![], vec![]));
}

#[tokio::test]
async fn a_physical_device_stands_for_its_instances() {
    let mut snapshot = fixtures::snapshot("node1", 2, 0);
    let parent_uuid = "GPU-node1-0".to_string();
    let instance = Arc::make_mut(snapshot.devices.values_mut().nth(1).unwrap());
    Arc::make_mut(&mut instance.info).mig =
        Some(MigInstance { parent_uuid, gpu_instance_id: 1, compute_instance_id: 0 });
    let (fleet, _writers) = fleet(&["node1"], vec![snapshot.clone()]);
    let filter = parse(&fleet, devices(&["GPU-node1-0"])).await.unwrap();
    let selection = filter.select(&snapshot);
    assert!(snapshot.devices.values().all(|device| selection.device(device)));
}

#[tokio::test]
async fn totals_count_only_what_is_known() {
    let mut first = fixtures::snapshot("node1", 3, 2);
    let mut in_row = first.devices.values_mut();
    let unknown = Arc::make_mut(in_row.next().unwrap());
    unknown.readings = gpufleet_model::DeviceReadings::unknown(Unknown::Lost);
    unknown.status = DeviceStatus::Lost;
    let instance = Arc::make_mut(in_row.nth(1).unwrap());
    let parent_uuid = "GPU-node1-1".to_string();
    Arc::make_mut(&mut instance.info).mig =
        Some(MigInstance { parent_uuid, gpu_instance_id: 1, compute_instance_id: 0 });
    let second = fixtures::snapshot("node2", 1, 0);
    let (fleet, mut writers) = fleet(&["node1", "node2", "node3", "node4"], vec![first, second]);
    writers.get_mut("node4").unwrap().down("connection refused");
    let filter = Filter::default();
    let answer = summarize(&filter.hosts(&fleet.table()), &filter, &[], fleet.freshness()).await;
    let [totals] = answer.groups.as_slice() else { panic!("one group") };
    assert_eq!((totals.hosts_connected, totals.hosts_never_seen), (2, 2));
    assert_eq!((totals.devices, totals.mig_instances, totals.devices_unavailable), (3, 1, 1));
    assert_eq!((totals.devices_in_use, totals.processes), (2, 2), "processes use devices 0 and 1");
    assert_eq!(
        (totals.memory_used_bytes, totals.memory_total_bytes, totals.memory_devices),
        (Some(1 << 30), Some(160 << 30), 2)
    );
    assert_eq!((totals.power_watts, totals.power_devices), (Some(200.0), 2));
    assert_eq!((totals.utilization_percent, totals.utilization_devices), (Some(5.0), 2));
    let missing: Vec<_> = answer.missing.iter().map(|m| (m.host.as_str(), m.problem.as_str())).collect();
    assert_eq!(missing, [("node3", "not connected yet"), ("node4", "connection refused")]);
}

#[tokio::test]
async fn an_empty_fleet_has_totals_without_readings() {
    let (fleet, _writers) = fleet(&[], Vec::new());
    let filter = Filter::default();
    let answer = summarize(&[], &filter, &[], fleet.freshness()).await;
    assert_eq!(answer.groups, [v1::FleetSummary::default()]);
    assert_eq!(answer.groups[0].memory_used_bytes, None);
}

#[tokio::test]
async fn totals_are_grouped_by_labels() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hosts.toml");
    let host = |name: &str, labels: &str| format!("[[hosts]]\nname = \"{name}\"\nlabels = {{ {labels} }}\n");
    let text = host("a", "rack = \"r1\"") + &host("b", "rack = \"r2\"") + &host("c", "rack = \"r1\"") + &host("d", "");
    std::fs::write(&path, text).unwrap();
    let (fleet, mut writer) = Fleet::new(Freshness::default());
    for mut host in writer.reconcile(&InventorySource::File(path).load().unwrap()).added {
        let name = host.cell().name().to_string();
        host.begin(Arc::new(fixtures::snapshot(&name, 2, 0)));
    }
    let filter = Filter::default();
    let answer = summarize(&filter.hosts(&fleet.table()), &filter, &["rack".into()], fleet.freshness()).await;
    let groups: Vec<_> =
        answer.groups.iter().map(|g| (g.labels["rack"].as_str(), g.hosts_connected, g.devices)).collect();
    assert_eq!(groups, [("", 1, 2), ("r1", 2, 4), ("r2", 1, 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_host_is_missing_with_the_age_of_its_state() {
    let (fleet, mut writers) = fleet(&["node1"], vec![fixtures::snapshot("node1", 1, 0)]);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let cells = fleet.table().hosts().to_vec();
    let [missing] = &missing_hosts(&cells, fleet.freshness())[..] else { panic!("one host") };
    assert_eq!(missing.state(), v1::ConnectionState::Stale);
    assert_eq!(missing.sample_age.unwrap().seconds, 5);
    assert_eq!(missing.problem, "no sample for more than 3s; the agent or the network hangs");
    writers.get_mut("node1").unwrap().down("cut");
    let [missing] = &missing_hosts(&cells, fleet.freshness())[..] else { panic!("one host") };
    assert_eq!((missing.state(), missing.problem.as_str()), (v1::ConnectionState::Unreachable, "cut"));
    writers.get_mut("node1").unwrap().begin(Arc::new(fixtures::snapshot("node1", 1, 0)));
    assert!(missing_hosts(&cells, fleet.freshness()).is_empty(), "it is back at once");
}
