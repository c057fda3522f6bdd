//! `gpuctl` on a host without any server: the driver's library is found as the loader finds the real one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it fails"
)]

use gpufleet_tests::scenario::{Device, Process};
use gpufleet_tests::{
    Code, Driver, ProgramBuilder, SCENARIO_VARIABLE, Sandbox, Workload, eventually, fake_nvml_folder, json,
};

struct Host {
    sandbox: Sandbox,
    driver: Driver,
    library: std::path::PathBuf,
}

impl Host {
    fn with(devices: Vec<Device>) -> Self {
        let sandbox = Sandbox::new();
        let driver = Driver::new(sandbox.folder(), "here", devices);
        let library = fake_nvml_folder(sandbox.folder());
        Self { sandbox, driver, library }
    }

    fn gpuctl<const N: usize>(&self, arguments: [&str; N]) -> ProgramBuilder {
        let gpuctl = self.sandbox.plain_gpuctl().args(arguments);
        gpuctl.env("LD_LIBRARY_PATH", &self.library).env(SCENARIO_VARIABLE, self.driver.path())
    }

    /// This host's name, as `gpuctl` gives it.
    fn name(&self) -> String {
        let answer = self.gpuctl(["hosts", "-o", "json"]).run().expect_code(0).json();
        json::rows(&answer, "hosts")[0]["host"].as_str().unwrap().to_owned()
    }
}

#[test]
fn devices_and_processes_are_shown() {
    let host = Host::with(vec![Device::h200(0), Device::k80(1)]);
    let workload = Workload::start("local-work");
    host.driver.add_process(0, Process::busy(workload.pid(), 5098 << 20, 97));
    let screen = host.gpuctl(["top", "--once"]).run().expect_code(0).stdout;
    for part in ["NVIDIA H200", "Tesla K80", "local-work", "5098MiB", "97%", "N/A"] {
        assert!(screen.contains(part), "no `{part}`:\n{screen}");
    }
    let answer = host.gpuctl(["top", "--json"]).run().expect_code(0).json();
    assert_eq!(json::rows(&answer, "devices").len(), 2, "{answer:#}");
    let process = json::row(&answer, "processes", "pid", workload.pid());
    assert_eq!(process["devices"][0]["memory_used_bytes"], 5098_u64 << 20, "{process:#}");
    let text = host.gpuctl(["devices", "-o", "json"]).run().expect_code(0).json();
    assert_eq!(json::row(&text, "devices", "index", 0)["uuid"], host.driver.uuid(0));
}

#[test]
fn a_process_of_this_host_is_killed_with_and_without_the_name() {
    let host = Host::with(vec![Device::h200(0)]);
    let name = host.name();
    for with_name in [true, false] {
        let mut workload = Workload::start("local-victim");
        host.driver.add_process(0, Process::busy(workload.pid(), 1 << 30, 50));
        let pid = workload.pid().to_string();
        let target = if with_name { format!("{name}:{pid}") } else { pid };
        host.gpuctl(["kill", &target, "--yes", "--wait", "20s"]).run().expect_code(0);
        assert_eq!(workload.ended_by(), Some(15));
    }
    host.gpuctl(["kill", "1", "--yes"]).run().expect_code(4);
}

#[test]
fn without_a_driver_every_process_is_shown() {
    let host = Host::with(Vec::new());
    let workload = Workload::start("no-driver");
    let missing = host.gpuctl(["ps", "-o", "json"]).env("LD_LIBRARY_PATH", host.sandbox.folder());
    let answer = missing.run().expect_code(0).json();
    json::row(&answer, "processes", "pid", workload.pid());
    assert!(json::rows(&answer, "devices").is_empty(), "{answer:#}");
}

#[test]
fn a_driver_that_does_not_match_its_library_is_told() {
    let host = Host::with(vec![Device::h200(0)]);
    host.driver.update(|scenario| scenario.init = Some(Code::LIB_RM_VERSION_MISMATCH));
    let finished = host.gpuctl(["top", "--once"]).run();
    let said = finished.stdout + &finished.stderr;
    assert!(said.to_lowercase().contains("version"), "{said}");
}

#[test]
fn a_live_view_follows_and_ends_at_ctrl_c() {
    let host = Host::with(vec![Device::h200(0)]);
    let mut terminal = gpufleet_tests::terminal::Terminal::start(&host.gpuctl(["top", "--interval", "200ms"]));
    terminal.sees("59C");
    host.driver.update(|scenario| scenario.devices[0].temperature = Some(73));
    terminal.sees("73C");
    terminal.control('c');
    let end = terminal.end();
    let accepted = [gpufleet_tests::terminal::End::Exited(0), gpufleet_tests::terminal::End::Exited(130)];
    assert!(accepted.contains(&end), "{end:?}");
}

#[test]
fn watching_a_list_prints_it_again() {
    let host = Host::with(vec![Device::h200(0)]);
    let output = host.sandbox.folder().join("watched");
    let mut child = host.gpuctl(["devices", "--watch=200ms", "-o", "name"]).spawn_to(&output);
    eventually("the list comes again", || {
        let text = std::fs::read_to_string(&output).unwrap_or_default();
        if text.matches(&host.driver.uuid(0)).count() >= 3 { Ok(()) } else { Err(text) }
    });
    child.kill().unwrap();
    child.wait().unwrap();
}
