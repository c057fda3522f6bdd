//! Every health rule on a constructed series: fires when it must, not when it must not, clears when it must.

#![expect(clippy::expect_used, reason = "a test may fail")]
#![expect(clippy::cast_possible_truncation, reason = "the series are small numbers")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gpufleet_model::health::{DeviceEvent, DeviceHealth, Judge, Moment, SuggestedAction, Thresholds, Verdict};
use gpufleet_model::{
    Backend, Device, DeviceInfo, DeviceKey, DeviceLimits, DeviceReadings, DeviceStatus, Host, HostReadings,
    HostSnapshot, MigInstance, Unknown,
};

const UUID: &str = "GPU-00000000-0000-4000-8000-000000000001";

fn limits() -> DeviceLimits {
    DeviceLimits {
        shutdown_temperature_celsius: Some(95),
        slowdown_temperature_celsius: Some(89),
        max_memory_temperature_celsius: Some(95),
        max_sm_clock_mhz: Some(1980),
        max_pcie_width: Some(16),
        ..DeviceLimits::default()
    }
}

/// What a busy H200 at its power cap really answers, with one uncorrected error in its life.
fn busy_h200() -> DeviceReadings {
    DeviceReadings {
        utilization_percent: Ok(95),
        memory_utilization_percent: Ok(22),
        temperature_celsius: Ok(59),
        memory_temperature_celsius: Ok(47),
        power_watts: Ok(690.855),
        power_limit_watts: Ok(700.0),
        energy_joules: Ok(12_709.394),
        clock_event_reasons: Ok(4),
        sm_clock_mhz: Ok(1500),
        pcie_width: Ok(16),
        pcie_replay_count: Ok(0),
        ecc_corrected_volatile: Ok(0),
        ecc_uncorrected_volatile: Ok(0),
        ecc_corrected_aggregate: Ok(0),
        ecc_uncorrected_aggregate: Ok(1),
        remapped_rows_corrected: Ok(0),
        remapped_rows_uncorrected: Ok(0),
        remapped_rows_pending: Ok(false),
        remapped_rows_failed: Ok(false),
        retired_pages_corrected: Err(Unknown::NotSupported),
        ..DeviceReadings::unknown(Unknown::NotSupported)
    }
}

fn device(key: u32, readings: DeviceReadings) -> Device {
    let info = DeviceInfo {
        backend: Backend::Nvml,
        index: 0,
        uuid: UUID.to_owned(),
        name: "NVIDIA H200".to_owned(),
        pci_bus_id: None,
        minor_number: None,
        serial: None,
        part_number: None,
        vbios_version: None,
        cuda_capability: None,
        core_count: None,
        mig: None,
        limits: limits(),
    };
    Device { key: DeviceKey(key), info: Arc::new(info), status: DeviceStatus::Ok, readings }
}

fn snapshot(devices: Vec<Device>) -> HostSnapshot {
    let readings = HostReadings {
        cpu_percent: Err(Unknown::NotYet),
        memory_used_bytes: Err(Unknown::NotYet),
        memory_total_bytes: Err(Unknown::NotYet),
        swap_used_bytes: Err(Unknown::NotYet),
        swap_total_bytes: Err(Unknown::NotYet),
        load_averages: Err(Unknown::NotYet),
    };
    let host = Host {
        name: "host1".to_owned(),
        boot_id: String::new(),
        booted_at: SystemTime::UNIX_EPOCH,
        kernel_version: String::new(),
        os_name: String::new(),
        agent_version: String::new(),
        cpu_count: 1,
        sample_interval_ms: 1000,
        simulated: false,
        host_pid_namespace: true,
        backends: Vec::new(),
        labels: BTreeMap::new(),
        readings,
    };
    HostSnapshot {
        sequence: 0,
        sampled_at: SystemTime::UNIX_EPOCH,
        host: Arc::new(host),
        devices: devices.into_iter().map(|device| (device.key, Arc::new(device))).collect(),
        processes: BTreeMap::new(),
    }
}

/// One device watched second by second.
struct Series {
    judge: Judge,
    second: u64,
    newest: Option<DeviceHealth>,
}

impl Series {
    fn new() -> Self {
        Self { judge: Judge::new(Thresholds::default()), second: 0, newest: None }
    }

    fn moment(&self) -> Moment {
        let since = Duration::from_secs(self.second);
        Moment { monotonic: since, wall: SystemTime::UNIX_EPOCH + since }
    }

    fn observe(&mut self, device: Device, events: &[DeviceEvent]) -> &DeviceHealth {
        let key = device.key;
        let mut judged = self.judge.observe(&snapshot(vec![device]), events, self.moment());
        self.second += 1;
        self.newest.insert(judged.remove(&key).expect("the device is judged"))
    }

    fn run(&mut self, seconds: u64, readings: impl Fn(u64) -> DeviceReadings) -> &DeviceHealth {
        for second in 0..seconds {
            self.observe(device(1, readings(second)), &[]);
        }
        self.newest.as_ref().expect("a series has samples")
    }

    fn codes(&self) -> Vec<&str> {
        self.newest.iter().flat_map(|health| health.incidents.iter().map(|incident| &*incident.code)).collect()
    }

    fn verdict(&self) -> Verdict {
        self.newest.as_ref().expect("a series has samples").verdict
    }
}

/// Runs a rule through its life: quiet, holding, held down, over.
fn fires_and_clears(code: &str, severity: Verdict, quiet: &DeviceReadings, holding: impl Fn(u64) -> DeviceReadings) {
    let mut series = Series::new();
    series.run(70, |_| quiet.clone());
    assert!(!series.codes().contains(&code), "{code} fired on quiet readings: {:?}", series.newest);
    series.run(70, holding);
    assert!(series.codes().contains(&code), "{code} did not fire: {:?}", series.newest);
    assert_eq!(series.verdict(), severity, "{code}");
    series.run(250, |_| quiet.clone());
    assert!(series.codes().contains(&code), "{code} cleared before its hold-down");
    series.run(400, |_| quiet.clone());
    assert!(!series.codes().contains(&code), "{code} never cleared: {:?}", series.newest);
}

#[test]
fn a_busy_h200_at_its_power_cap_with_an_old_error_is_healthy() {
    let mut series = Series::new();
    let health = series.run(600, |_| busy_h200());
    assert_eq!((health.verdict, health.incidents.len()), (Verdict::Healthy, 0));
}

#[test]
fn a_device_of_which_nothing_is_known_is_unknown_not_healthy() {
    let mut series = Series::new();
    assert_eq!(series.run(5, |_| DeviceReadings::unknown(Unknown::NoPermission)).verdict, Verdict::Unknown);
}

#[test]
fn temperature_limit_comes_from_the_device() {
    let hot = DeviceReadings { temperature_celsius: Ok(92), ..busy_h200() };
    fires_and_clears("TEMPERATURE_LIMIT", Verdict::Critical, &busy_h200(), |_| hot.clone());
    let warm = DeviceReadings { temperature_celsius: Ok(91), ..busy_h200() };
    let mut series = Series::new();
    series.run(5, |_| warm.clone());
    assert!(!series.codes().contains(&"TEMPERATURE_LIMIT"));
}

#[test]
fn temperature_limit_without_a_stated_one_is_above_95() {
    let at = |celsius| {
        let mut device = device(1, DeviceReadings { temperature_celsius: Ok(celsius), ..busy_h200() });
        let info = DeviceInfo { limits: DeviceLimits::default(), ..(*device.info).clone() };
        device.info = Arc::new(info);
        let mut series = Series::new();
        series.observe(device, &[]);
        series.codes().contains(&"TEMPERATURE_LIMIT")
    };
    assert!(!at(95));
    assert!(at(96));
}

#[test]
fn a_steep_rise_is_overheating_and_a_gentle_one_is_not() {
    let rise = |per_second: f64| {
        let mut series = Series::new();
        series.run(30, |second| DeviceReadings {
            temperature_celsius: Ok((20.0 + per_second * second as f64) as i32),
            utilization_percent: Ok(50),
            ..busy_h200()
        });
        series.codes().contains(&"TEMPERATURE_RISING")
    };
    assert!(rise(2.0));
    assert!(!rise(0.5));
    assert!(!rise(-2.0));
}

#[test]
fn two_samples_make_no_trend() {
    let mut series = Series::new();
    series.run(10, |second| DeviceReadings { temperature_celsius: Ok(20 + 5 * second as i32), ..busy_h200() });
    assert!(!series.codes().contains(&"TEMPERATURE_RISING"));
}

#[test]
fn the_same_heat_is_a_fault_when_idle_and_work_when_busy() {
    let idle = |celsius| DeviceReadings {
        utilization_percent: Ok(3),
        temperature_celsius: Ok(celsius),
        clock_event_reasons: Ok(1),
        ..busy_h200()
    };
    fires_and_clears("TEMPERATURE_FOR_LOAD", Verdict::Degraded, &idle(60), |_| idle(86));
    let mut series = Series::new();
    series.run(10, |_| DeviceReadings { temperature_celsius: Ok(86), ..busy_h200() });
    assert_eq!(series.verdict(), Verdict::Healthy);
}

#[test]
fn memory_temperature_is_held_against_the_devices_own_limit() {
    let hot = DeviceReadings { memory_temperature_celsius: Ok(95), ..busy_h200() };
    fires_and_clears("MEMORY_TEMPERATURE", Verdict::Degraded, &busy_h200(), |_| hot.clone());
}

#[test]
fn growth_of_uncorrected_errors_is_critical_until_a_reset() {
    let errors = |count, energy| DeviceReadings {
        ecc_uncorrected_volatile: Ok(count),
        energy_joules: Ok(energy),
        ..busy_h200()
    };
    let mut series = Series::new();
    series.run(5, |_| errors(3, 100.0));
    assert_eq!(series.verdict(), Verdict::Healthy, "errors from before the agent's start are no growth");
    let health = series.run(5, |_| errors(4, 200.0));
    assert_eq!((health.verdict, health.incidents[0].action), (Verdict::Critical, SuggestedAction::Reset));
    series.run(1000, |_| errors(4, 300.0));
    assert_eq!(series.codes(), ["ECC_UNCORRECTED"], "it stays without a reset");
    series.run(2, |_| errors(0, 1.0));
    assert_eq!(series.verdict(), Verdict::Healthy, "a reset ends it");
}

#[test]
fn acknowledging_ends_a_latched_incident_until_it_grows_again() {
    let mut series = Series::new();
    let failed = DeviceReadings { remapped_rows_failed: Ok(true), ..busy_h200() };
    series.run(3, |_| failed.clone());
    assert_eq!(series.codes(), ["ROW_REMAP_FAILED"]);
    assert!(!series.judge.acknowledge(UUID, "ECC_UNCORRECTED"));
    assert!(series.judge.acknowledge(UUID, "ROW_REMAP_FAILED"));
    series.run(1, |_| busy_h200());
    assert_eq!(series.verdict(), Verdict::Healthy);
}

#[test]
fn many_corrected_errors_within_an_hour_degrade() {
    let mut series = Series::new();
    series.run(600, |second| DeviceReadings { ecc_corrected_volatile: Ok(second), ..busy_h200() });
    assert_eq!(series.verdict(), Verdict::Healthy, "600 in ten minutes are fewer than 1,000");
    series.run(600, |second| DeviceReadings { ecc_corrected_volatile: Ok(600 + second), ..busy_h200() });
    assert_eq!(series.codes(), ["ECC_CORRECTED_RATE"]);
    series.run(2 * 3600, |_| DeviceReadings { ecc_corrected_volatile: Ok(1199), ..busy_h200() });
    assert_eq!(series.verdict(), Verdict::Healthy, "an hour later they no longer count");
}

#[test]
fn rows_and_pages() {
    let pending = DeviceReadings { remapped_rows_pending: Ok(true), ..busy_h200() };
    fires_and_clears("ROW_REMAP_PENDING", Verdict::Degraded, &busy_h200(), |_| pending.clone());
    let page = DeviceReadings { retired_pages_pending: Ok(true), ..busy_h200() };
    let no_page = DeviceReadings { retired_pages_pending: Ok(false), ..busy_h200() };
    fires_and_clears("PAGE_RETIREMENT_PENDING", Verdict::Degraded, &no_page, |_| page.clone());
    let retired = |corrected, uncorrected| DeviceReadings {
        retired_pages_corrected: Ok(corrected),
        retired_pages_uncorrected: Ok(uncorrected),
        ..busy_h200()
    };
    fires_and_clears("PAGES_RETIRED", Verdict::Critical, &retired(30, 29), |_| retired(30, 30));
    let mut series = Series::new();
    series.run(3, |second| DeviceReadings { remapped_rows_uncorrected: Ok(second as u32), ..busy_h200() });
    assert_eq!(series.codes(), ["ROWS_REMAPPED"]);
}

#[test]
fn pcie_replays_are_scaled_by_link_width() {
    let replays = |lanes, count: u64| {
        let mut series = Series::new();
        for second in 0..2 {
            let mut device = device(1, DeviceReadings { pcie_replay_count: Ok(second * count), ..busy_h200() });
            let limits = DeviceLimits { max_pcie_width: Some(lanes), ..limits() };
            device.info = Arc::new(DeviceInfo { limits, ..(*device.info).clone() });
            device.readings.pcie_width = Ok(lanes);
            series.observe(device, &[]);
        }
        series.verdict()
    };
    assert_eq!(replays(16, 1_000), Verdict::Healthy);
    assert_eq!(replays(16, 1_001), Verdict::Unreliable);
    assert_eq!(replays(8, 500), Verdict::Healthy);
    assert_eq!(replays(8, 501), Verdict::Unreliable);
}

#[test]
fn a_narrow_link_counts_only_while_busy() {
    let narrow =
        |utilization| DeviceReadings { pcie_width: Ok(8), utilization_percent: Ok(utilization), ..busy_h200() };
    let mut series = Series::new();
    series.run(10, |_| narrow(0));
    assert_eq!(series.verdict(), Verdict::Healthy);
    fires_and_clears("PCIE_LINK_WIDTH", Verdict::Degraded, &busy_h200(), |_| narrow(50));
}

#[test]
fn an_nvlink_that_was_up_and_is_down_degrades() {
    let links = |count| DeviceReadings { nvlink_active_links: Ok(count), ..busy_h200() };
    fires_and_clears("NVLINK_DOWN", Verdict::Degraded, &links(18), |_| links(17));
    let mut series = Series::new();
    series.run(5, |_| links(0));
    assert_eq!(series.verdict(), Verdict::Healthy, "links that never were up are no fault");
}

#[test]
fn hardware_slowdown_and_power_brake_degrade_and_a_power_cap_does_not() {
    let reasons = |mask| DeviceReadings { clock_event_reasons: Ok(mask), ..busy_h200() };
    fires_and_clears("HARDWARE_SLOWDOWN", Verdict::Degraded, &reasons(4), |_| reasons(0x40));
    fires_and_clears("HARDWARE_SLOWDOWN", Verdict::Degraded, &reasons(4), |_| reasons(0x08));
    fires_and_clears("POWER_BRAKE", Verdict::Degraded, &reasons(4), |_| reasons(0x80));
}

#[test]
fn heat_that_slows_a_device_that_is_not_busy_degrades() {
    let slowed = |utilization| DeviceReadings {
        clock_event_reasons: Ok(0x20),
        utilization_percent: Ok(utilization),
        ..busy_h200()
    };
    fires_and_clears("THERMAL_SLOWDOWN_AT_LOW_USE", Verdict::Degraded, &busy_h200(), |_| slowed(20));
    let mut series = Series::new();
    series.run(120, |_| slowed(95));
    assert_eq!(series.verdict(), Verdict::Healthy, "busy and slowed by heat is work");
}

#[test]
fn a_clock_stuck_low_under_load_degrades_after_a_minute() {
    let clock =
        |mhz, reasons| DeviceReadings { sm_clock_mhz: Ok(mhz), clock_event_reasons: Ok(reasons), ..busy_h200() };
    let mut series = Series::new();
    series.run(59, |_| clock(400, 0));
    assert_eq!(series.verdict(), Verdict::Healthy);
    series.run(3, |_| clock(400, 0));
    assert_eq!(series.codes(), ["CLOCK_STUCK_LOW"]);
    let mut capped = Series::new();
    capped.run(120, |_| clock(400, 4));
    assert_eq!(capped.verdict(), Verdict::Healthy, "a power cap explains it");
}

#[test]
fn a_lost_device_is_critical_at_once() {
    let mut series = Series::new();
    let lost = Device { status: DeviceStatus::Lost, ..device(1, DeviceReadings::unknown(Unknown::Lost)) };
    series.observe(lost, &[]);
    assert_eq!((series.verdict(), series.codes()), (Verdict::Critical, vec!["DEVICE_LOST"]));
}

#[test]
fn an_unresponsive_device_is_unknown_then_critical() {
    let mut series = Series::new();
    let hung = || Device { status: DeviceStatus::Unresponsive, ..device(1, DeviceReadings::unknown(Unknown::Timeout)) };
    series.observe(hung(), &[]);
    assert_eq!(series.verdict(), Verdict::Unknown);
    for _ in 0..60 {
        series.observe(hung(), &[]);
    }
    assert_eq!(series.verdict(), Verdict::Critical);
}

fn xid(code: u32) -> DeviceEvent {
    DeviceEvent {
        device_uuid: Some(UUID.to_owned()),
        occurred_at: SystemTime::UNIX_EPOCH,
        xid: Some(code),
        summary: "from a test".to_owned(),
        source: "kmsg",
    }
}

#[test]
fn xids_are_judged_by_their_class() {
    let after = |code| {
        let mut series = Series::new();
        series.observe(device(1, busy_h200()), &[xid(code)]);
        let at_once = series.verdict();
        series.run(400, |_| busy_h200());
        (at_once, series.verdict())
    };
    assert_eq!(after(31), (Verdict::Healthy, Verdict::Healthy), "the application's own fault");
    assert_eq!(after(94), (Verdict::Degraded, Verdict::Healthy), "contained: ends after the hold-down");
    assert_eq!(after(79), (Verdict::Critical, Verdict::Critical), "stays until a reset");
    assert_eq!(after(9_999), (Verdict::Healthy, Verdict::Healthy), "a code from a newer driver is a note");
}

#[test]
fn an_event_of_another_device_changes_nothing() {
    let mut series = Series::new();
    let event = DeviceEvent { device_uuid: Some("GPU-other".to_owned()), ..xid(79) };
    series.observe(device(1, busy_h200()), &[event]);
    assert_eq!(series.verdict(), Verdict::Healthy);
}

#[test]
fn an_unknown_reading_neither_raises_nor_clears() {
    let mut series = Series::new();
    series.run(2, |_| DeviceReadings { remapped_rows_pending: Ok(true), ..busy_h200() });
    series.run(1000, |_| DeviceReadings { remapped_rows_pending: Err(Unknown::Timeout), ..busy_h200() });
    assert_eq!(series.codes(), ["ROW_REMAP_PENDING"]);
}

#[test]
fn a_condition_that_comes_and_goes_does_not_flap() {
    let mut series = Series::new();
    let mut changes = 0;
    let mut before = Verdict::Healthy;
    for second in 0..600 {
        let reasons = if second % 2 == 0 { 0x40 } else { 4 };
        let readings = DeviceReadings { clock_event_reasons: Ok(reasons), ..busy_h200() };
        let verdict = series.observe(device(1, readings), &[]).verdict;
        changes += u32::from(verdict != before);
        before = verdict;
    }
    assert_eq!(changes, 1);
}

#[test]
fn since_is_when_it_began_not_when_it_was_last_seen() {
    let mut series = Series::new();
    series.run(10, |_| busy_h200());
    series.run(50, |_| DeviceReadings { remapped_rows_pending: Ok(true), ..busy_h200() });
    let incident = &series.newest.as_ref().expect("judged").incidents[0];
    assert_eq!(incident.since, SystemTime::UNIX_EPOCH + Duration::from_secs(10));
}

#[test]
fn a_mig_instance_has_its_parents_health() {
    let parent = device(1, DeviceReadings { remapped_rows_failed: Ok(true), ..busy_h200() });
    let mut instance = device(2, DeviceReadings::unknown(Unknown::NotSupported));
    let mig = MigInstance { parent_uuid: UUID.to_owned(), gpu_instance_id: 1, compute_instance_id: 0 };
    instance.info = Arc::new(DeviceInfo { uuid: "MIG-1".to_owned(), mig: Some(mig), ..(*instance.info).clone() });
    let moment = Moment { monotonic: Duration::ZERO, wall: SystemTime::UNIX_EPOCH };
    let judged = Judge::new(Thresholds::default()).observe(&snapshot(vec![parent, instance]), &[], moment);
    assert_eq!(judged[&DeviceKey(2)].verdict, Verdict::Critical);
}
