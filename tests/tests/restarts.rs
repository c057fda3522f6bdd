//! Programs that end, freeze and come back.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it fails"
)]

use gpufleet_tests::scenario::{Device, Process};
use gpufleet_tests::{Fleet, Workload, eventually};
use rustix::process::{Pid, Signal, kill_process};

fn two_hosts() -> Fleet {
    Fleet::start(vec![("host1", vec![Device::h200(0)]), ("host2", vec![Device::h200(0)])])
}

#[test]
fn an_agent_that_is_killed_is_unreachable_with_its_last_state_and_comes_back() {
    let mut fleet = two_hosts();
    fleet.agent("host1").program.kill();
    fleet.until_host_is("host1", "unreachable");
    fleet.until_host_is("host2", "connected");
    let view = fleet.devices().unwrap();
    assert!(view.device("host1", 0).is_some(), "the last state is kept: {view:#?}");
    let host = fleet.hosts().unwrap().into_iter().find(|host| host.name == "host1").unwrap();
    assert!(host.problem.is_some_and(|problem| !problem.is_empty()), "why it is unreachable is told");
    let address = fleet.agent("host1").address.to_string();
    fleet.agent("host1").program.start_again(|how| how.set("--listen", &address));
    fleet.until_host_is("host1", "connected");
    fleet.agents[0].driver.update(|scenario| scenario.devices[0].temperature = Some(64));
    fleet.until_device("host1", 0, "it is followed again", |device| device.readings.temperature_celsius == Ok(64));
}

#[test]
fn an_aggregator_that_is_restarted_finds_the_fleet_again() {
    let mut fleet = two_hosts();
    fleet.aggregator.kill();
    let address = fleet.address.to_string();
    fleet.aggregator.start_again(|how| how.set("--listen", &address));
    fleet.aggregator.address();
    fleet.until_host_is("host1", "connected");
    fleet.until_host_is("host2", "connected");
    assert_eq!(fleet.devices().unwrap().devices().count(), 2);
}

#[test]
fn a_frozen_agent_is_stale_then_unreachable_and_recovers() {
    let mut fleet = two_hosts();
    fleet.agent("host1").program.signal(Signal::STOP);
    fleet.until_host_is("host1", "stale");
    fleet.until_host_is("host1", "unreachable");
    fleet.until_host_is("host2", "connected");
    fleet.agent("host1").program.signal(Signal::CONT);
    fleet.until_host_is("host1", "connected");
    fleet.agents[0].driver.update(|scenario| scenario.devices[0].temperature = Some(65));
    fleet.until_device("host1", 0, "it is followed again", |device| device.readings.temperature_celsius == Ok(65));
}

#[test]
fn programs_end_gracefully_when_they_are_told_to() {
    let mut fleet = two_hosts();
    fleet.aggregator.signal(Signal::TERM);
    assert!(fleet.aggregator.ended().success(), "{}", fleet.aggregator.log());
    for (host, signal) in [("host1", Signal::TERM), ("host2", Signal::INT)] {
        let agent = fleet.agent(host);
        agent.program.signal(signal);
        assert!(agent.program.ended().success(), "{}", agent.program.log());
    }
}

#[test]
fn an_agent_that_ends_gracefully_is_told_apart_from_a_broken_one() {
    let mut fleet = two_hosts();
    let agent = fleet.agent("host1");
    agent.program.signal(Signal::TERM);
    agent.program.ended();
    fleet.until_host_is("host1", "unreachable");
    let problem = eventually("the problem is told", || {
        let hosts = fleet.hosts()?;
        let host = hosts.into_iter().find(|host| host.name == "host1").ok_or("no host1")?;
        host.problem.clone().ok_or_else(|| format!("{host:#?}"))
    });
    assert!(!problem.contains("docs.rs"), "for people, not for developers: {problem}");
}

#[test]
fn processes_that_come_and_go_are_followed() {
    let fleet = two_hosts();
    let mut workload = Workload::start("comes-and-goes");
    let pid = workload.pid();
    fleet.agents[1].driver.add_process(0, Process::busy(pid, 1 << 30, 40));
    fleet.until_listed(pid);
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
    workload.ended_by();
    fleet.until_not_listed(pid);
}

#[test]
fn hosts_that_join_and_leave_the_inventory_are_followed() {
    let fleet = two_hosts();
    let inventory = fleet.sandbox.folder().join("hosts.toml");
    let write = |names: &[&str]| {
        let hosts = fleet.agents.iter().filter(|agent| names.contains(&agent.name.as_str()));
        let entries =
            hosts.map(|agent| format!("[[hosts]]\nname = \"{}\"\naddress = \"{}\"\n", agent.name, agent.address));
        let fresh = inventory.with_extension("new");
        std::fs::write(&fresh, entries.collect::<String>()).unwrap();
        std::fs::rename(fresh, &inventory).unwrap();
    };
    write(&["host1"]);
    let mut second = fleet.sandbox.aggregator_from("second", inventory.to_str().unwrap()).spawn();
    let address = second.address();
    let names = |wanted: &[&str]| {
        eventually("the hosts", || {
            let hosts = fleet.sandbox.hosts_of(address)?;
            let names: Vec<_> = hosts.iter().map(|host| host.name.as_str()).collect();
            if names == wanted { Ok(()) } else { Err(format!("{names:?}")) }
        });
    };
    names(&["host1"]);
    write(&["host1", "host2"]);
    names(&["host1", "host2"]);
    write(&["host2"]);
    names(&["host2"]);
    std::fs::write(&inventory, "hosts = 5").unwrap();
    write(&["host1", "host2"]);
    names(&["host1", "host2"]);
}
