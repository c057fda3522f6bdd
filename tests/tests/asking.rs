//! What `gpuctl` says when part of the fleet is missing, when it is not believed, and whom it asks.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it fails"
)]

use gpufleet_tests::scenario::Device;
use gpufleet_tests::terminal::Terminal;
use gpufleet_tests::{Certificates, Fleet, OPERATOR, Role, json};
use std::fs;

fn two_hosts() -> Fleet {
    Fleet::start(vec![("host1", vec![Device::h200(0)]), ("host2", vec![Device::h200(0)])])
}

#[test]
fn a_missing_host_is_named_its_last_state_shown_and_the_exit_code_is_3() {
    let mut fleet = two_hosts();
    fleet.agent("host1").program.kill();
    fleet.until_host_is("host1", "unreachable");
    for command in [&["devices"][..], &["ps"], &["hosts"], &["top", "--cluster", "--once"], &["summary"]] {
        let finished = fleet.gpuctl(command).run().expect_code(3);
        let said = finished.stdout + &finished.stderr;
        assert!(said.contains("host1"), "{command:?}: {said}");
    }
    let answer = fleet.gpuctl(["devices", "-o", "json"]).run().expect_code(3).json();
    assert_eq!(json::rows(&answer, "devices").len(), 2, "{answer:#}");
    // A question about the other host alone is answered in full.
    fleet.gpuctl(["devices", "--host", "host2"]).run().expect_code(0);
    // Nothing can be sent to a host that is not there.
    let finished = fleet.gpuctl(["kill", "host1:4711", "--yes"]).run();
    assert!([1, 3, 5].contains(&finished.code()), "{finished:?}");
}

#[test]
fn who_is_not_believed_is_told_why() {
    let fleet = two_hosts();
    let sandbox = &fleet.sandbox;
    let other = Certificates::new(&sandbox.folder().join("other-pki"));
    let foreign = other.of(Role::User, OPERATOR);
    let finished = sandbox.gpuctl_with(&foreign, fleet.address).arg("devices").run().expect_code(1);
    assert!(finished.stderr.contains("ca.crt"), "{}", finished.stderr);
    fs::copy(sandbox.certificates().of(Role::User, OPERATOR).join("ca.crt"), foreign.join("ca.crt")).unwrap();
    let finished = sandbox.gpuctl_with(&foreign, fleet.address).arg("devices").run().expect_code(1);
    assert!(finished.stderr.contains("certificate"), "{}", finished.stderr);
    let expired = sandbox.certificates().expired(Role::User, OPERATOR);
    let finished = sandbox.gpuctl_with(&expired, fleet.address).arg("devices").run();
    assert!([1, 2].contains(&finished.code()), "{finished:?}");
    assert!(finished.stderr.contains("expired"), "{}", finished.stderr);
    let agent = sandbox.certificates().of(Role::Agent, "host1");
    let finished = sandbox.gpuctl_with(&agent, fleet.address).arg("devices").run().expect_code(4);
    assert!(!finished.stderr.is_empty());
    let finished = sandbox.gpuctl(OPERATOR, fleet.agents[0].address).arg("devices").run().expect_code(1);
    assert!(finished.stderr.contains("gpufleet/agent/host1"), "{}", finished.stderr);
}

#[test]
fn one_agent_is_asked_directly() {
    let fleet = two_hosts();
    let tls = fleet.sandbox.certificates().of(Role::User, "alice");
    let address = fleet.agents[1].address.to_string();
    let agent = || fleet.sandbox.plain_gpuctl().args(["--agent", &address]).arg("--tls-dir").arg(&tls);
    let answer = agent().args(["devices", "-o", "json"]).run().expect_code(0).json();
    assert_eq!(json::rows(&answer, "devices").len(), 1, "{answer:#}");
    json::row(&answer, "devices", "uuid", fleet.agents[1].driver.uuid(0));
    agent().args(["kill", "host2:4711", "--yes"]).run().expect_code(2);
}

#[test]
fn contexts_say_whom_to_ask() {
    let fleet = two_hosts();
    let tls = fleet.sandbox.certificates().of(Role::User, "alice");
    let gpuctl = |arguments: &[&str]| fleet.sandbox.plain_gpuctl().args(arguments);
    let address = fleet.address.to_string();
    gpuctl(&["context", "set", "lab", "--aggregator", &address]).arg("--tls-dir").arg(&tls).run().expect_code(0);
    gpuctl(&["context", "use", "lab"]).run().expect_code(0);
    let answer = gpuctl(&["devices", "-o", "json"]).run().expect_code(0).json();
    assert_eq!(json::rows(&answer, "devices").len(), 2, "{answer:#}");
    let finished = gpuctl(&["devices", "--context", "nowhere"]).run().expect_code(2);
    assert!(finished.stderr.contains("nowhere"), "{}", finished.stderr);
    fs::write(fleet.sandbox.folder().join("home/config/gpufleet/config.toml"), "context = [").unwrap();
    let finished = gpuctl(&["devices"]).run().expect_code(2);
    assert!(finished.stderr.contains("config.toml:1"), "{}", finished.stderr);
}

#[test]
fn the_command_line_wins_over_the_environment() {
    let fleet = two_hosts();
    let tls = fleet.sandbox.certificates().of(Role::User, "alice");
    let gpuctl = |arguments: &[&str]| fleet.sandbox.plain_gpuctl().args(arguments).arg("--tls-dir").arg(&tls);
    let (aggregator, agent) = (fleet.address.to_string(), fleet.agents[0].address.to_string());
    let in_environment = |arguments: &[&str]| gpuctl(arguments).env("GPUFLEET_AGGREGATOR", &aggregator);
    let devices =
        |builder: gpufleet_tests::ProgramBuilder| json::rows(&builder.run().expect_code(0).json(), "devices").len();
    assert_eq!(devices(in_environment(&["devices", "-o", "json"])), 2);
    assert_eq!(devices(in_environment(&["devices", "-o", "json", "--agent", &agent])), 1);
    // An aggregator on the command line is meant, one of the environment needs --cluster.
    assert_eq!(devices(gpuctl(&["top", "--json", "--aggregator", &aggregator])), 2);
    assert_eq!(devices(in_environment(&["top", "--json", "--cluster"])), 2);
    let here = in_environment(&["top", "--json"]).run().expect_code(0).json();
    assert!(json::rows(&here, "hosts")[0]["address"].is_null(), "{here:#}");
    gpuctl(&["top", "--once", "--cluster", "--agent", &agent]).run().expect_code(2);
}

#[test]
fn one_agent_is_watched_through_a_filter() {
    let fleet = Fleet::start(vec![("host1", vec![Device::h200(0), Device::h200(1)])]);
    let tls = fleet.sandbox.certificates().of(Role::User, "alice");
    let address = fleet.agents[0].address.to_string();
    let arguments = ["top", "--interval", "200ms", "--gpu", "0", "--agent", &address];
    let mut terminal = Terminal::start(&fleet.sandbox.plain_gpuctl().args(arguments).arg("--tls-dir").arg(&tls));
    terminal.sees("59C");
    // What is not shown changes too, and must not disturb.
    fleet.agents[0].driver.update(|scenario| scenario.devices[1].temperature = Some(71));
    fleet.agents[0].driver.update(|scenario| scenario.devices[0].temperature = Some(73));
    let shown = terminal.sees("73C");
    assert!(!shown.contains("71C"), "{shown}");
    terminal.types("q");
    assert_eq!(terminal.end(), gpufleet_tests::terminal::End::Exited(0));
}
