//! Whatever the driver does, the agent lives on, says what it knows, and recovers without a restart.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it fails"
)]

use gpufleet_model::{DeviceStatus, Unknown};
use gpufleet_tests::scenario::{Device, Event, Process, Rule, Scenario};
use gpufleet_tests::{Code, Fleet, Workload, eventually};

fn with_two_gpus() -> Fleet {
    Fleet::start(vec![("host1", vec![Device::h200(0), Device::h200(1)])])
}

fn change(fleet: &Fleet, change: impl FnOnce(&mut Scenario)) {
    fleet.agents[0].driver.update(change);
}

fn rule(function: &str, code: Code) -> Rule {
    Rule { function: function.into(), code: Some(code), ..Rule::default() }
}

#[test]
fn changed_readings_arrive() {
    let fleet = with_two_gpus();
    change(&fleet, |scenario| scenario.devices[1].temperature = Some(71));
    fleet.until_device("host1", 1, "the temperature has changed", |device| {
        device.readings.temperature_celsius == Ok(71)
    });
    fleet.until_device("host1", 0, "the other is as before", |device| device.readings.temperature_celsius == Ok(59));
}

#[test]
fn a_lost_gpu_is_lost_and_the_other_goes_on_and_it_comes_back() {
    let fleet = with_two_gpus();
    change(&fleet, |scenario| scenario.devices[1].lost = true);
    let lost = fleet.until_device("host1", 1, "the device is lost", |device| device.status == DeviceStatus::Lost);
    assert_eq!(lost.readings.temperature_celsius, Err(Unknown::Lost));
    assert_eq!(lost.info.uuid, fleet.agents[0].driver.uuid(1), "it is still known which");
    change(&fleet, |scenario| scenario.devices[0].temperature = Some(66));
    fleet.until_device("host1", 0, "the other goes on", |device| device.readings.temperature_celsius == Ok(66));
    change(&fleet, |scenario| scenario.devices[1].lost = false);
    fleet.until_device("host1", 1, "the device is back", |device| {
        device.status == DeviceStatus::Ok && device.readings.temperature_celsius == Ok(59)
    });
}

#[test]
fn a_call_that_hangs_makes_devices_unresponsive_and_the_host_lives_on() {
    let fleet = with_two_gpus();
    let uuid = fleet.agents[0].driver.uuid(1);
    change(&fleet, |scenario| {
        let function = "nvmlDeviceGetPowerUsage".into();
        scenario.rules = vec![Rule { function, device: Some(uuid), hang: true, ..Rule::default() }];
    });
    let unresponsive = |device: &gpufleet_model::Device| device.status == DeviceStatus::Unresponsive;
    fleet.until_device("host1", 1, "the device is unresponsive", unresponsive);
    fleet.until_host_is("host1", "connected");
    change(&fleet, |scenario| scenario.rules.clear());
    for index in [0, 1] {
        fleet.until_device("host1", index, "it recovers", |device| device.status == DeviceStatus::Ok);
    }
}

#[test]
fn what_a_device_cannot_or_may_not_say_is_unknown_and_the_rest_is_there() {
    let fleet = with_two_gpus();
    change(&fleet, |scenario| {
        scenario.rules = vec![
            rule("nvmlDeviceGetPowerUsage", Code::NO_PERMISSION),
            rule("nvmlDeviceGetUtilizationRates", Code::NOT_SUPPORTED),
            rule("nvmlDeviceGetClockInfo", Code(4711)),
        ];
    });
    let device = fleet.until_device("host1", 0, "power is unknown", |device| {
        device.readings.power_watts == Err(Unknown::NoPermission)
    });
    assert_eq!(device.readings.utilization_percent, Err(Unknown::NotSupported));
    assert_eq!(device.readings.memory_utilization_percent, Err(Unknown::NotSupported));
    assert_eq!(device.readings.sm_clock_mhz, Err(Unknown::Failed));
    assert_eq!(device.readings.temperature_celsius, Ok(59));
    assert_eq!(device.status, DeviceStatus::Ok);
}

#[test]
fn the_list_of_devices_follows_the_driver() {
    let fleet = with_two_gpus();
    let count = |wanted: usize| {
        eventually("the number of devices that answer", || {
            let view = fleet.devices()?;
            let present = view.devices().filter(|device| device.status == DeviceStatus::Ok).count();
            if present == wanted { Ok(()) } else { Err(format!("{view:#?}")) }
        });
    };
    let mut removed = None;
    change(&fleet, |scenario| removed = scenario.devices.pop());
    count(1);
    change(&fleet, |scenario| scenario.devices.extend(removed));
    count(2);
}

#[test]
fn a_driver_that_is_not_loaded_at_first_is_found_later() {
    let fleet = Fleet::start_with(vec![("host1", vec![Device::h200(0)])], |scenario| {
        scenario.init = Some(Code::DRIVER_NOT_LOADED);
    });
    let problem = |part: &str| {
        eventually("the problem is told", || {
            let hosts = fleet.hosts()?;
            let backends = hosts.iter().filter_map(|host| host.host.as_ref()).flat_map(|host| &host.backends);
            let problems: Vec<_> = backends.filter_map(|backend| backend.problem.clone()).collect();
            if problems.iter().any(|problem| problem.contains(part)) { Ok(()) } else { Err(format!("{problems:?}")) }
        });
    };
    problem("driver");
    assert_eq!(fleet.devices().unwrap().devices().count(), 0);
    change(&fleet, |scenario| scenario.init = Some(Code::LIB_RM_VERSION_MISMATCH));
    problem("version");
    change(&fleet, |scenario| scenario.init = None);
    fleet.until_device("host1", 0, "the device is found", |device| device.status == DeviceStatus::Ok);
}

#[test]
fn a_library_that_is_installed_later_is_found() {
    let sandbox = gpufleet_tests::Sandbox::new();
    let driver = gpufleet_tests::Driver::new(sandbox.folder(), "host1", vec![Device::h200(0)]);
    let late = sandbox.folder().join("installed-later.so");
    let agent = sandbox.agent_with_library("host1", &late).env(gpufleet_tests::SCENARIO_VARIABLE, driver.path());
    let fleet = Fleet::of_one(sandbox, "host1", driver, agent);
    assert_eq!(fleet.devices().unwrap().devices().count(), 0);
    std::os::unix::fs::symlink(gpufleet_tests::fake_nvml_library(), late).unwrap();
    fleet.until_device("host1", 0, "the device is found", |device| device.status == DeviceStatus::Ok);
}

#[test]
fn a_process_list_that_grows_meanwhile_is_read_in_the_end() {
    let fleet = with_two_gpus();
    let workload = Workload::start("grows");
    change(&fleet, |scenario| {
        let function = "nvmlDeviceGetComputeRunningProcesses_v3".into();
        scenario.devices[0].processes.push(Process::busy(workload.pid(), 1 << 30, 10));
        scenario.rules = vec![Rule { function, grow: true, times: Some(6), ..Rule::default() }];
    });
    fleet.until_listed(workload.pid());
}

#[test]
fn an_xid_is_told() {
    let fleet = with_two_gpus();
    let device = fleet.agents[0].driver.uuid(1);
    change(&fleet, |scenario| scenario.events.push(Event { id: 1, device, kind: 8, data: 79, replay: true }));
    fleet.until_device("host1", 1, "the XID is told", |device| device.readings.last_xid == Ok(79));
    fleet.until_device("host1", 0, "and of that device alone", |device| device.readings.last_xid.is_err());
}

#[test]
fn mig_instances_are_devices_with_processes_of_their_own() {
    let fleet = Fleet::start(vec![("host1", vec![Device::a100_mig(0)])]);
    let workload = Workload::start("mig");
    let process =
        Process { gpu_instance: Some(5), compute_instance: Some(0), ..Process::idle(workload.pid(), 1 << 30) };
    fleet.agents[0].driver.add_process(0, process);
    fleet.until_listed(workload.pid());
    let view = fleet.devices().unwrap();
    let instances: Vec<_> = view.devices().filter_map(|device| device.info.mig.as_ref()).collect();
    assert_eq!(instances.len(), 3, "{view:#?}");
    assert!(instances.iter().all(|mig| mig.parent_uuid == fleet.agents[0].driver.uuid(0)));
    let parent = view.device("host1", 0).unwrap();
    assert_eq!(parent.readings.utilization_percent, Err(Unknown::NotSupported));
    assert_eq!(parent.readings.mig_mode_enabled, Ok(true));
}

#[test]
fn slow_calls_stay_off_the_tick() {
    let fleet = with_two_gpus();
    let log = fleet.sandbox.folder().join("calls");
    change(&fleet, |scenario| scenario.call_log = Some(log.clone()));
    let calls = |function: &str| {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.lines().filter(|line| line.split(' ').next() == Some(function)).count()
    };
    eventually("twenty ticks have passed", || {
        let ticks = calls("nvmlDeviceGetUtilizationRates") / 2;
        if ticks >= 20 { Ok(()) } else { Err(ticks) }
    });
    for (function, at_most) in [
        ("nvmlDeviceGetPcieThroughput", 8),
        ("nvmlDeviceGetTotalEnergyConsumption", 4),
        ("nvmlDeviceGetViolationStatus", 8),
        ("nvmlDeviceGetName", 2),
        ("nvmlDeviceGetSerial", 2),
    ] {
        assert!(calls(function) <= at_most, "`{function}` was called {} times in 20 ticks", calls(function));
    }
}

#[test]
fn an_initialisation_that_hangs_does_not_keep_the_agent_from_serving() {
    let fleet = Fleet::start_with(vec![("host1", vec![Device::h200(0)])], |scenario| {
        let function = "nvmlInit_v2".into();
        scenario.rules = vec![Rule { function, hang: true, ..Rule::default() }];
    });
    assert_eq!(fleet.devices().unwrap().devices().count(), 0);
    fleet.until_host_is("host1", "connected");
    change(&fleet, |scenario| scenario.rules.clear());
    fleet.until_device("host1", 0, "the device is found", |device| device.status == DeviceStatus::Ok);
}

#[test]
fn waiting_for_events_of_a_lost_gpu_does_not_turn_into_a_busy_loop() {
    let fleet = with_two_gpus();
    let log = fleet.sandbox.folder().join("calls");
    change(&fleet, |scenario| {
        scenario.devices[1].lost = true;
        scenario.call_log = Some(log.clone());
    });
    fleet.until_device("host1", 1, "the device is lost", |device| device.status == DeviceStatus::Lost);
    let calls = |function: &str| {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.lines().filter(|line| line.split(' ').next() == Some(function)).count()
    };
    eventually("twenty ticks have passed", || {
        let ticks = calls("nvmlDeviceGetUtilizationRates");
        if ticks >= 20 { Ok(()) } else { Err(ticks) }
    });
    for function in ["nvmlEventSetWait_v2", "nvmlEventSetCreate", "nvmlInit_v2", "nvmlDeviceGetHandleByIndex_v2"] {
        assert!(calls(function) < 200, "`{function}` was called {} times in 20 ticks", calls(function));
    }
}

#[test]
fn a_driver_that_answers_every_call_with_an_error_is_told_and_recovers() {
    let fleet = with_two_gpus();
    change(&fleet, |scenario| scenario.rules = vec![rule("*", Code::UNKNOWN)]);
    fleet.until_device("host1", 0, "nothing is known", |device| device.readings.temperature_celsius.is_err());
    fleet.until_host_is("host1", "connected");
    change(&fleet, |scenario| scenario.rules.clear());
    fleet.until_device("host1", 0, "it recovers", |device| {
        device.status == DeviceStatus::Ok && device.readings.temperature_celsius == Ok(59)
    });
}
