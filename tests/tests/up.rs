//! `gpuctl up`: the whole way in one process, and simulated fleets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it fails"
)]

use std::io::Read as _;
use std::path::PathBuf;

use gpufleet_tests::{Sandbox, eventually, json};
use rustix::process::Signal;

#[test]
fn a_simulated_fleet_is_shown_and_says_that_it_is_simulated() {
    let sandbox = Sandbox::new();
    let up = || sandbox.plain_gpuctl().args(["up", "--simulate", "4x8"]);
    let answer = up().arg("--json").run().expect_code(0).json();
    let names: Vec<_> = json::rows(&answer, "hosts").iter().map(|row| row["host"].as_str().unwrap()).collect();
    assert_eq!(names, ["host1", "host2", "host3", "host4"]);
    let devices = json::rows(&answer, "devices");
    assert_eq!(devices.len(), 32);
    for device in devices {
        assert_eq!(device["backend"], "simulated", "{device:#}");
        assert!(device["name"].as_str().unwrap().starts_with("Simulated "), "{device:#}");
    }
    let screen = up().arg("--once").run().expect_code(0).stdout;
    assert!(screen.contains("SIMULATED"), "{screen}");
}

#[test]
fn this_machine_is_shown_over_agent_and_aggregator() {
    let sandbox = Sandbox::new();
    let answer = sandbox.plain_gpuctl().args(["up", "--json"]).run().expect_code(0).json();
    assert_eq!(json::rows(&answer, "hosts").len(), 1, "{answer:#}");
    assert!(!json::rows(&answer, "processes").is_empty(), "a host without a GPU shows its processes: {answer:#}");
}

#[test]
fn a_served_fleet_is_used_from_elsewhere_and_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    let mut up = sandbox.plain_gpuctl().args(["up", "--simulate", "2x2", "--serve"]).spawn();
    let said = eventually("it serves", || {
        let log = up.log();
        if log.contains("Ctrl-C ends it") { Ok(log) } else { Err(log) }
    });
    let value = |name: &str| {
        let rest = said.split_once(&format!("{name}=")).unwrap_or_else(|| panic!("no {name} in {said}")).1;
        rest.split_whitespace().next().unwrap().to_owned()
    };
    let (address, tls) = (value("GPUFLEET_AGGREGATOR"), PathBuf::from(value("GPUFLEET_TLS_DIR")));
    let gpuctl = || sandbox.plain_gpuctl().env("GPUFLEET_AGGREGATOR", &address).env("GPUFLEET_TLS_DIR", &tls);
    let answer = gpuctl().args(["ps", "-o", "json"]).run().expect_code(0).json();
    let victim = json::rows(&answer, "processes")[0];
    let target = format!("{}:{}", victim["host"].as_str().unwrap(), victim["pid"]);
    gpuctl().args(["kill", &target, "--yes", "--signal", "KILL", "--wait", "20s"]).run().expect_code(0);
    gpuctl().args(["kill", &target, "--yes"]).run().expect_code(1);
    up.signal(Signal::INT);
    assert_eq!(up.ended().code(), Some(0));
    assert!(!tls.exists(), "the certificates are gone with it");
}

#[test]
fn however_it_is_ended_no_certificates_stay() {
    let sandbox = Sandbox::new();
    let folder = sandbox.folder().join("tmp");
    std::fs::create_dir(&folder).unwrap();
    let left = || std::fs::read_dir(&folder).unwrap().count();
    let up = || sandbox.plain_gpuctl().env("TMPDIR", &folder);
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut running = up().args(["up", "--simulate", "200x8", "--serve"]).spawn();
        eventually("there are certificates", || if left() == 1 { Ok(()) } else { Err(left()) });
        running.signal(signal);
        running.ended();
        assert_eq!(left(), 0, "after {signal:?}");
    }
    // A reader that has seen enough.
    let mut child = up().args(["up", "--simulate", "100x8", "--json"]).spawn_piped();
    let mut output = child.stdout.take().unwrap();
    output.read_exact(&mut [0; 1]).unwrap();
    drop(output);
    let status = eventually("gpuctl ends", || child.try_wait().unwrap().ok_or("it runs"));
    assert_eq!((status.code(), left()), (Some(0), 0));
}
