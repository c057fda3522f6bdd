//! Three hosts, an aggregator and `gpuctl`: what is measured at the drivers arrives on the screen.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it fails"
)]

use gpufleet_tests::scenario::{Kind, Process};
use gpufleet_tests::{Fleet, OPERATOR, Sandbox, Workload, eventually, json};

const GIB: u64 = 1 << 30;

#[test]
fn devices_of_all_hosts_arrive_with_their_values() {
    let fleet = Fleet::of_three();
    let answer = fleet.ask(&["devices"]);
    let physical: Vec<_> = json::rows(&answer, "devices").into_iter().filter(|row| row["mig"].is_null()).collect();
    assert_eq!(physical.len(), 5, "{answer:#}");
    let h200 = json::row(&answer, "devices", "uuid", fleet.agents[1].driver.uuid(0));
    for (field, value) in [
        ("host", "host2".into()),
        ("index", 0.into()),
        ("name", serde_json::Value::from("NVIDIA H200")),
        ("utilization_percent", 95.into()),
        ("memory_utilization_percent", 22.into()),
        ("memory_used_bytes", 15_138_816.into()),
        ("memory_reserved_bytes", 644_939_776.into()),
        ("memory_total_bytes", 150_754_820_096_u64.into()),
        ("temperature_celsius", 59.into()),
        ("power_watts", 690.855.into()),
        ("power_limit_watts", 700.0.into()),
        ("sm_clock_mhz", 1500.into()),
        ("performance_state", 0.into()),
        ("fan_speed_percent", serde_json::Value::Null),
    ] {
        assert_eq!(h200[field], value, "`{field}` in {h200:#}");
    }
    let k80 = json::row(&answer, "devices", "uuid", fleet.agents[2].driver.uuid(1));
    assert_eq!(k80["fan_speed_percent"], 34, "{k80:#}");
    assert_eq!(k80["memory_total_bytes"], 11_441_u64 << 20, "{k80:#}");
    assert!(k80["memory_reserved_bytes"].is_null(), "the first memory call does not tell it: {k80:#}");
}

#[test]
fn one_process_on_two_devices_is_one_process_with_two_uses() {
    let fleet = Fleet::of_three();
    let workload = Workload::start("two-devices");
    let graphics = Process { kinds: vec![Kind::C, Kind::G], ..Process::idle(workload.pid(), GIB) };
    let driver = &fleet.agents[0].driver;
    driver.add_process(0, Process::busy(workload.pid(), 3 * GIB, 97));
    driver.add_process(1, graphics);
    let process = eventually("the process is listed with its CPU use", || {
        let answer = fleet.ask(&["ps"]);
        let rows = json::rows(&answer, "processes");
        let found: Vec<_> = rows.into_iter().filter(|row| row["pid"] == workload.pid()).collect();
        match found.as_slice() {
            [one]
                if one["cpu_percent"].is_number() && one["devices"].as_array().is_some_and(|uses| uses.len() == 2) =>
            {
                Ok((*one).clone())
            }
            _ => Err(format!("{answer:#}")),
        }
    });
    assert_eq!(process["host"], "host1");
    assert!(process["command"].as_str().unwrap().starts_with("two-devices"), "{process:#}");
    assert!(process["user"].is_string(), "{process:#}");
    assert!(process["host_memory_bytes"].as_u64().unwrap() > 0, "{process:#}");
    assert!(process["started_at"].is_string() && process["running_seconds"].is_number(), "{process:#}");
    let uses = process["devices"].as_array().unwrap();
    let first = uses.iter().find(|used| used["index"] == 0).unwrap();
    let second = uses.iter().find(|used| used["index"] == 1).unwrap();
    assert_eq!(first["uuid"], driver.uuid(0));
    assert_eq!(first["memory_used_bytes"], 3 * GIB);
    assert_eq!(first["sm_percent"], 97);
    assert_eq!(second["memory_used_bytes"], GIB);
}

#[test]
fn output_has_every_form() {
    let fleet = Fleet::of_three();
    for command in ["devices", "hosts", "ps"] {
        for form in ["table", "wide", "json", "yaml", "csv", "name"] {
            let finished = fleet.gpuctl([command, "-o", form]).run().expect_code(0);
            assert!(!finished.stdout.contains('\u{1b}'), "escape codes without a terminal: {}", finished.stdout);
        }
    }
    let table = fleet.gpuctl(["hosts"]).run().expect_code(0).stdout;
    for host in ["host1", "host2", "host3"] {
        assert!(table.contains(host), "{table}");
    }
    let csv = fleet.gpuctl(["devices", "-o", "csv"]).run().expect_code(0).stdout;
    let mut lines = csv.lines();
    let header: Vec<_> = lines.next().unwrap().split(',').collect();
    assert!(["host", "index", "uuid", "name", "status"].iter().all(|name| header.contains(name)), "{csv}");
    assert_eq!(lines.count(), 8, "five devices and three MIG instances: {csv}");
    let names = fleet.gpuctl(["hosts", "-o", "name"]).run().expect_code(0).stdout;
    assert_eq!(names.lines().collect::<Vec<_>>(), ["host1", "host2", "host3"]);
}

#[test]
fn filters_select_and_what_is_named_and_unknown_is_an_error() {
    let fleet = Fleet::of_three();
    let answer = fleet.ask(&["devices", "--host", "host1"]);
    assert!(json::rows(&answer, "devices").iter().all(|row| row["host"] == "host1"), "{answer:#}");
    assert_eq!(json::rows(&answer, "devices").len(), 2, "{answer:#}");
    let uuid = fleet.agents[1].driver.uuid(0);
    let answer = fleet.ask(&["devices", "--gpu", &uuid]);
    assert_eq!(json::rows(&answer, "devices").len(), 1, "{answer:#}");
    for (arguments, part) in [
        (["devices", "--host", "host9"], "host9"),
        (["devices", "--gpu", "GPU-none"], "GPU-none"),
        (["ps", "--pid", "4194303"], "4194303"),
    ] {
        let finished = fleet.gpuctl(arguments).run().expect_code(1);
        assert!(finished.stderr.contains(part), "{}", finished.stderr);
    }
}

#[test]
fn top_shows_the_cluster() {
    let fleet = Fleet::of_three();
    let answer = fleet.gpuctl(["top", "--cluster", "--json"]).run().expect_code(0).json();
    assert_eq!(json::rows(&answer, "hosts").len(), 3, "{answer:#}");
    assert!(answer["collected_at"].is_string(), "{answer:#}");
    let screen = fleet.gpuctl(["top", "--cluster", "--once"]).run().expect_code(0).stdout;
    for part in ["host1", "host2", "host3", "H200", "K80"] {
        assert!(screen.contains(part), "no `{part}`:\n{screen}");
    }
}

#[test]
fn summary_adds_up() {
    let fleet = Fleet::of_three();
    let finished = fleet.gpuctl(["summary", "-o", "json"]).run().expect_code(0);
    let text = finished.stdout;
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["schema_version"], 1, "{text}");
    assert!(text.contains("\"devices\": 5") || text.contains("\"devices\":5"), "{text}");
}

#[test]
fn a_host_without_a_gpu_shows_its_processes() {
    let sandbox = Sandbox::new();
    let mut agent = sandbox.agent_without_driver("plain").spawn();
    let address = agent.address();
    let mut aggregator = sandbox.aggregator_of(&[("plain", address)]).spawn();
    let address = aggregator.address();
    let workload = Workload::start("no-gpu-here");
    eventually("the process is listed", || {
        let finished = sandbox.gpuctl(OPERATOR, address).args(["ps", "--host", "plain", "-o", "json"]).run();
        let answer: serde_json::Value =
            serde_json::from_str(&finished.stdout).map_err(|e| format!("{e}: {}", finished.stderr))?;
        let rows = json::rows(&answer, "processes");
        match rows.into_iter().find(|row| row["pid"] == workload.pid()) {
            Some(row) if row["devices"].as_array().is_some_and(Vec::is_empty) => Ok(()),
            other => Err(format!("{other:?}: {}", finished.stderr)),
        }
    });
}

#[test]
fn what_processes_call_themselves_cannot_drive_the_terminal() {
    let fleet = Fleet::of_three();
    let workload = Workload::start("evil\u{1b}[2J\u{1b}]0;title\u{7}\r\nforged line\u{202e}");
    fleet.agents[0].driver.add_process(0, Process::busy(workload.pid(), GIB, 10));
    fleet.until_listed(workload.pid());
    for arguments in [&["ps"][..], &["ps", "-o", "wide"], &["top", "--cluster", "--once"], &["kill", "--dry-run"]] {
        let target = format!("host1:{}", workload.pid());
        let kill = arguments.contains(&"kill").then_some(target);
        let screen = fleet.gpuctl(arguments).args(kill).run().expect_code(0).stdout;
        assert!(screen.contains("evil"), "{screen:?}");
        let forbidden = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!screen.contains(forbidden), "{arguments:?}: {screen:?}");
        assert!(!screen.lines().any(|line| line.starts_with("forged")), "{screen:?}");
    }
    let answer = fleet.ask(&["ps"]);
    let process = json::row(&answer, "processes", "pid", workload.pid());
    assert!(process["command"].as_str().unwrap().contains("forged line"), "JSON tells it as it is: {process:#}");
}

#[test]
fn processes_that_cannot_be_seen_are_listed_with_what_the_driver_knows() {
    let fleet = Fleet::of_three();
    // The driver counts in the host's pid namespace: an agent in another one does not find the pid.
    let elsewhere = 4_194_300;
    let mut zombie = std::process::Command::new("true").spawn().unwrap();
    fleet.agents[0].driver.update(|scenario| {
        scenario.release_on_exit_ms = None;
        let processes = [Process::busy(elsewhere, 3 * GIB, 40), Process::idle(zombie.id(), GIB)];
        scenario.devices[0].processes.extend(processes);
    });
    for (pid, memory) in [(elsewhere, 3 * GIB), (zombie.id(), GIB)] {
        fleet.until_listed(pid);
        let answer = fleet.ask(&["ps"]);
        let process = json::row(&answer, "processes", "pid", pid);
        assert_eq!(process["devices"][0]["memory_used_bytes"], memory, "{process:#}");
        assert!(process["cpu_percent"].is_null() || process["cpu_percent"] == 0.0, "{process:#}");
    }
    let answer = fleet.ask(&["ps"]);
    let state = |pid: u32| json::row(&answer, "processes", "pid", pid)["state"].as_str().unwrap_or_default().to_owned();
    assert_eq!(state(zombie.id()), "zombie", "{answer:#}");
    assert_ne!(state(elsewhere), "running", "{answer:#}");
    zombie.wait().unwrap();
}
