//! Every event, in the orders that they come in.

use std::sync::Arc;

use gpufleet_model::HostDelta;
use gpufleet_proto::convert::{encode_devices, encode_processes};
use gpufleet_proto::v1::{self, ConnectionState};

use super::{Connection, Event, Following, View};
use crate::exit::CtlError;
use crate::output::fixtures::{connection, fleet, node1};

fn whole() -> HostDelta {
    HostDelta::full(&node1())
}

fn hosts(upserts: Vec<v1::HostConnection>, removed: &[&str]) -> Event {
    let removed = removed.iter().map(|name| (*name).to_owned()).collect();
    Event::Hosts(v1::WatchFleetResponse { position: None, upserts, removed })
}

fn devices(reset: bool, changes: Option<v1::DeviceChanges>) -> Event {
    let hosts = vec![v1::HostDeviceChanges { host: "node1".to_owned(), sampled_at: None, reset, changes }];
    Event::Devices(v1::FleetServiceWatchDevicesResponse { position: None, hosts, ..Default::default() })
}

fn processes(reset: bool, changes: Option<v1::ProcessChanges>) -> v1::HostProcessChanges {
    v1::HostProcessChanges { host: "node1".to_owned(), reset, changes, ..Default::default() }
}

fn process_event(reset: bool, changes: Option<v1::ProcessChanges>) -> Event {
    let hosts = vec![processes(reset, changes)];
    Event::Processes(v1::FleetServiceWatchProcessesResponse { position: None, hosts, ..Default::default() })
}

fn counts(view: &View) -> (usize, usize, usize) {
    (view.hosts.len(), view.devices().count(), view.processes().count())
}

fn connected() -> v1::HostConnection {
    connection(Some(&node1()), "node1", ConnectionState::Connected, Some(0))
}

/// A view of `node1` as three streams build it, contents first.
fn built() -> View {
    let mut view = View::new(true);
    view.apply(devices(true, encode_devices(&whole()))).unwrap();
    view.apply(process_event(true, encode_processes(&whole()))).unwrap();
    assert!(!view.is_complete(), "what is known of a host before its state is, is not yet connected");
    view.apply(hosts(vec![connected()], &[])).unwrap();
    view
}

#[test]
fn three_streams_in_any_order_make_one_view() {
    assert_eq!(counts(&built()), (1, 3, 5));
    assert!(built().is_complete());
    assert_eq!(counts(&built()), {
        let mut view = View::new(true);
        view.apply(Event::Snapshot(Arc::new(node1()))).unwrap();
        counts(&view)
    });
}

#[test]
fn a_lost_connection_leaves_what_is_known_and_its_return_voids_it() {
    let mut view = fleet();
    let before = counts(&view);
    view.apply(Event::Lost(CtlError::unreachable("gone"))).unwrap();
    assert_eq!(counts(&view), before);
    view.apply(Event::Back).unwrap();
    assert_eq!(counts(&view), (0, 0, 0));
    view.apply(hosts(vec![connected()], &[])).unwrap();
    view.apply(devices(true, encode_devices(&whole()))).unwrap();
    assert_eq!(counts(&view), (1, 3, 0));
}

#[test]
fn a_reset_empties_one_host_alone() {
    let mut view = fleet();
    let others = view.hosts["node2"].devices.len();
    view.apply(Event::HostReset("node1".to_owned())).unwrap();
    assert!(view.hosts["node1"].devices.is_empty() && view.hosts["node1"].processes.is_empty());
    assert_eq!(view.hosts["node2"].devices.len(), others);

    let mut view = built();
    view.apply(devices(true, None)).unwrap();
    assert_eq!(counts(&view), (1, 0, 5));
    view.apply(process_event(true, None)).unwrap();
    assert_eq!(counts(&view), (1, 0, 0));
}

#[test]
fn a_list_of_processes_takes_the_place_of_those_known() {
    let mut view = built();
    let mut fewer = encode_processes(&whole()).unwrap();
    fewer.upserts.truncate(2);
    view.apply(Event::ProcessList(vec![processes(false, Some(fewer))])).unwrap();
    assert_eq!(counts(&view), (1, 3, 2));
    view.apply(Event::ProcessList(Vec::new())).unwrap();
    assert_eq!(counts(&view), (1, 3, 0));
    // Adding to what is known empties nothing, whatever the message says.
    let mut view = built();
    view.add_processes(vec![processes(true, None)]).unwrap();
    assert_eq!(counts(&view), (1, 3, 5));
}

#[test]
fn a_host_that_left_the_inventory_does_not_come_back_by_the_end_of_its_devices() {
    let mut view = built();
    view.apply(hosts(Vec::new(), &["node1"])).unwrap();
    // What was under way when it left changes what is not there any more.
    let mut under_way = encode_devices(&whole()).unwrap();
    for change in &mut under_way.upserts {
        change.info = None;
    }
    view.apply(devices(false, Some(under_way))).unwrap();
    view.apply(devices(true, None)).unwrap();
    view.apply(process_event(true, None)).unwrap();
    assert_eq!(counts(&view), (0, 0, 0));
    // It returns, its devices first.
    view.apply(devices(true, encode_devices(&whole()))).unwrap();
    view.apply(hosts(vec![connected()], &[])).unwrap();
    assert_eq!(counts(&view), (1, 3, 0));
}

#[test]
fn a_host_that_goes_silent_keeps_its_contents_and_ages() {
    let mut view = built();
    let stale = connection(Some(&node1()), "node1", ConnectionState::Stale, Some(42));
    view.apply(hosts(vec![stale], &[])).unwrap();
    assert_eq!(view.hosts["node1"].connection, Connection::Stale);
    assert_eq!(counts(&view), (1, 3, 5));
    assert!(view.hosts["node1"].sample_age().unwrap().as_secs() >= 42);
}

#[test]
fn a_change_of_what_was_never_introduced_is_refused() {
    let mut unknown = encode_devices(&whole()).unwrap();
    for change in &mut unknown.upserts {
        change.info = None;
    }
    let error = View::new(true).apply(devices(false, Some(unknown))).unwrap_err();
    assert!(error.is_temporary(), "the source must start over: {error}");
}

#[test]
fn what_was_whole_is_shown_until_the_new_view_is() {
    let mut following = Following::new(built(), 2);
    let lost = || Event::Lost(CtlError::unreachable("gone"));
    following.take(lost()).unwrap();
    assert_eq!((counts(following.shown()), following.problem()), ((1, 3, 5), Some("gone")));
    following.take(Event::Back).unwrap();
    following.take(hosts(vec![connected()], &[])).unwrap();
    following.take(Event::Synced).unwrap();
    assert_eq!((counts(following.shown()), following.problem()), ((1, 3, 5), Some("gone")));
    // Lost once more before all is known.
    following.take(lost()).unwrap();
    following.take(Event::Back).unwrap();
    following.take(hosts(vec![connected()], &[])).unwrap();
    following.take(Event::Synced).unwrap();
    assert_eq!(counts(following.shown()), (1, 3, 5));
    following.take(devices(true, encode_devices(&whole()))).unwrap();
    following.take(Event::Synced).unwrap();
    assert_eq!((counts(following.shown()), following.problem()), ((1, 3, 0), None));
}

#[test]
fn a_connection_refused_for_good_ends_it() {
    let mut following = Following::new(built(), 1);
    let error = following.take(Event::Lost(CtlError::failed("wrong certificate"))).unwrap_err();
    assert_eq!(error.to_string(), "wrong certificate");
}
