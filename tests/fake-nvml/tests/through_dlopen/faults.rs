//! What goes wrong: initialisation, lost devices, hanging calls, codes by function and device, events, bad scenarios.

use std::time::{Duration, Instant};

use gpufleet_fake_nvml::Code;
use gpufleet_fake_nvml::scenario::{Device, Event, Rule, Scenario};
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;

use crate::Turn;

fn two() -> Scenario {
    Scenario { devices: vec![Device::h200(0), Device::h200(1)], ..Scenario::default() }
}

#[test]
fn initialisation_fails_with_the_chosen_code() {
    let turn = Turn::with(&Scenario { init: Some(Code::DRIVER_NOT_LOADED), ..Scenario::default() });
    assert!(matches!(turn.init(), Err(NvmlError::DriverNotLoaded)));
    turn.write(&Scenario { init: Some(Code::LIB_RM_VERSION_MISMATCH), ..Scenario::default() });
    assert!(matches!(turn.init(), Err(NvmlError::LibRmVersionMismatch)));
    turn.write(&Scenario::default());
    assert_eq!(turn.nvml().device_count().unwrap(), 0);
}

#[test]
fn a_bad_scenario_fails_at_start_and_changes_nothing_later() {
    let turn = Turn::with(&two());
    turn.write_text("devices = 3");
    assert!(matches!(turn.init(), Err(NvmlError::Unknown)));
    std::fs::remove_file(&turn.scenario).unwrap();
    assert!(matches!(turn.init(), Err(NvmlError::Unknown)));
    turn.write(&two());
    let nvml = turn.nvml();
    turn.write_text("devices = 3");
    assert_eq!(nvml.device_count().unwrap(), 2);
    turn.write(&Scenario::default());
    assert_eq!(nvml.device_count().unwrap(), 0);
}

#[test]
fn a_lost_device_is_lost_for_every_call_and_comes_back() {
    let mut scenario = two();
    let turn = Turn::with(&scenario);
    let nvml = turn.nvml();
    let (first, second) = (nvml.device_by_index(0).unwrap(), nvml.device_by_index(1).unwrap());
    scenario.devices[1].lost = true;
    turn.write(&scenario);
    assert!(matches!(second.power_usage(), Err(NvmlError::GpuLost)));
    assert!(matches!(second.uuid(), Err(NvmlError::GpuLost)));
    assert!(matches!(nvml.device_by_index(1), Err(NvmlError::GpuLost)));
    assert!(first.power_usage().is_ok());
    assert_eq!(nvml.device_count().unwrap(), 2);
    scenario.devices[1].lost = false;
    turn.write(&scenario);
    assert!(second.power_usage().is_ok());
}

#[test]
fn rules_choose_by_function_and_device() {
    let mut scenario = two();
    scenario.rules = vec![
        Rule {
            function: "nvmlDeviceGetPowerUsage".into(),
            device: Some(scenario.devices[1].uuid.clone()),
            code: Some(Code::NO_PERMISSION),
            times: Some(1),
            ..Rule::default()
        },
        Rule { function: "nvmlDeviceGetTemperature".into(), code: Some(Code(4711)), ..Rule::default() },
    ];
    let turn = Turn::with(&scenario);
    let nvml = turn.nvml();
    let (first, second) = (nvml.device_by_index(0).unwrap(), nvml.device_by_index(1).unwrap());
    assert!(first.power_usage().is_ok());
    assert!(matches!(second.power_usage(), Err(NvmlError::NoPermission)));
    assert!(second.power_usage().is_ok(), "the rule holds once");
    let raw = turn.raw();
    let mut celsius = 0;
    // SAFETY: the handle is from the same library, and `celsius` is of the right type.
    let code = unsafe { raw.nvmlDeviceGetTemperature(first.handle(), 0, &raw mut celsius) };
    assert_eq!(Code(code), Code(4711), "codes without a name pass through");
}

#[test]
fn a_hanging_call_returns_when_the_scenario_changes_and_holds_up_no_other() {
    let mut scenario = two();
    scenario.rules = vec![Rule {
        function: "nvmlDeviceGetPowerUsage".into(),
        device: Some(scenario.devices[0].uuid.clone()),
        hang: true,
        ..Rule::default()
    }];
    let turn = Turn::with(&scenario);
    let nvml = turn.nvml();
    let (first, second) = (nvml.device_by_index(0).unwrap(), nvml.device_by_index(1).unwrap());
    std::thread::scope(|scope| {
        let hanging = scope.spawn(|| first.power_usage());
        assert!(second.power_usage().is_ok());
        assert!(!hanging.is_finished());
        scenario.rules.clear();
        turn.write(&scenario);
        assert_eq!(hanging.join().unwrap().unwrap(), 690_855);
    });
}

#[test]
fn a_slow_call_takes_its_time() {
    let mut scenario = two();
    scenario.rules = vec![Rule { function: "nvmlDeviceGetPowerUsage".into(), hang_ms: Some(60), ..Rule::default() }];
    let turn = Turn::with(&scenario);
    let nvml = turn.nvml();
    let began = Instant::now();
    assert!(nvml.device_by_index(0).unwrap().power_usage().is_ok());
    assert!(began.elapsed() >= Duration::from_millis(60));
}

#[test]
fn events_are_delivered_once_to_each_set() {
    let mut scenario = two();
    let uuid = scenario.devices[0].uuid.clone();
    let event = |id, data| Event { id, device: uuid.clone(), kind: 8, data, replay: false };
    scenario.events = vec![event(1, 13)];
    let turn = Turn::with(&scenario);
    let nvml = turn.nvml();
    let gpu = nvml.device_by_index(0).unwrap();
    let set = nvml.create_event_set().unwrap();
    let set = gpu.register_events(EventTypes::CRITICAL_XID_ERROR, set).map_err(|e| e.error).unwrap();
    assert!(matches!(set.wait(0), Err(NvmlError::Timeout)), "what was there before is past");
    scenario.events.push(event(2, 79));
    turn.write(&scenario);
    let told = set.wait(5_000).unwrap();
    assert_eq!(told.event_data, Some(XidError::Value(79)));
    assert_eq!(told.device.uuid().unwrap(), uuid);
    assert!(matches!(set.wait(20), Err(NvmlError::Timeout)));
    scenario.devices[0].lost = true;
    turn.write(&scenario);
    assert!(matches!(set.wait(5_000), Err(NvmlError::GpuLost)));
}

#[test]
fn the_call_log_names_function_and_device() {
    let mut scenario = two();
    let turn = Turn::with(&scenario);
    let log = turn.folder().join("calls");
    scenario.call_log = Some(log.clone());
    turn.write(&scenario);
    let nvml = turn.nvml();
    nvml.device_by_index(1).unwrap().power_usage().unwrap();
    let text = std::fs::read_to_string(log).unwrap();
    assert!(text.contains(&format!("nvmlDeviceGetPowerUsage {}\n", scenario.devices[1].uuid)), "{text}");
    assert!(text.starts_with("nvmlInit_v2 -\n"), "{text}");
}
