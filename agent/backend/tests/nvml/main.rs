//! The NVML backend on a stand-in for the driver's library, through the real `dlopen` path.

#[macro_use]
mod fixture;

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Duration;

use fixture::{Fleet, library};
use gpufleet_backend::sample::DeviceSample;
use gpufleet_fake_nvml::Code;
use gpufleet_fake_nvml::scenario::{Device, Event, Kind, Process, Rule};
use gpufleet_model::{ContextKind, DeviceReadings, DeviceStatus, Unknown};

const MIB: u64 = 1 << 20;

fn uuid(device: &Device) -> String {
    device.uuid.clone()
}

fn code(function: &str, code: Code) -> Rule {
    Rule { function: function.to_owned(), code: Some(code), ..Rule::default() }
}

fn hang(function: &str, device: Option<&str>) -> Rule {
    Rule { function: function.to_owned(), device: device.map(str::to_owned), hang: true, ..Rule::default() }
}

fn pids(device: &DeviceSample) -> Vec<u32> {
    device.uses.iter().flatten().map(|one| one.pid).collect()
}

driver_test! {
    fn an_h200_gives_every_field_it_has(driver) {
        let fleet = driver.start(vec![Device::h200(0)]);
        let sample = fleet.worker.latest();
        let status = &sample.status;
        assert_eq!(status.driver_version.as_deref(), Some("580.159.04"));
        assert_eq!(status.library_version.as_deref(), Some("13.580.159.04"));
        assert_eq!(status.cuda_driver_version.as_deref(), Some("13.0"));
        assert_eq!(status.problem, None);
        assert!(sample.cost.driver_calls > 20 && sample.cost.driver_time > Duration::ZERO);

        let info = &sample.devices[0].info;
        assert_eq!((info.index, info.name.as_str(), info.minor_number), (0, "NVIDIA H200", Some(0)));
        assert_eq!(info.pci_bus_id.as_deref(), Some("00000000:17:00.0"));
        assert_eq!((info.cuda_capability, info.core_count), (Some((9, 0)), Some(16_896)));
        assert!(info.serial.is_some() && info.part_number.is_some() && info.vbios_version.is_some());
        let limits = &info.limits;
        assert_eq!(limits.shutdown_temperature_celsius, Some(95));
        assert_eq!(limits.slowdown_temperature_celsius, Some(89));
        assert_eq!(limits.max_operating_temperature_celsius, Some(87));
        assert_eq!(limits.max_memory_temperature_celsius, Some(95));
        assert_eq!((limits.min_power_limit_watts, limits.max_power_limit_watts), (Some(200.0), Some(700.0)));
        assert_eq!(limits.default_power_limit_watts, Some(700.0));
        assert_eq!((limits.max_sm_clock_mhz, limits.max_video_clock_mhz), (Some(1980), Some(1545)));
        assert_eq!((limits.max_pcie_generation, limits.max_pcie_width), (Some(5), Some(16)));

        let expected = DeviceReadings {
            utilization_percent: Ok(95),
            memory_utilization_percent: Ok(22),
            encoder_utilization_percent: Ok(0),
            decoder_utilization_percent: Ok(0),
            jpeg_utilization_percent: Ok(0),
            ofa_utilization_percent: Ok(0),
            memory_used_bytes: Ok(15_138_816),
            memory_free_bytes: Ok(150_754_820_096 - 644_939_776 - 15_138_816),
            memory_reserved_bytes: Ok(644_939_776),
            memory_total_bytes: Ok(150_754_820_096),
            bar1_used_bytes: Ok(2 * MIB),
            bar1_total_bytes: Ok(262_144 * MIB),
            temperature_celsius: Ok(59),
            memory_temperature_celsius: Ok(47),
            power_watts: Ok(690.855),
            power_limit_watts: Ok(700.0),
            energy_joules: Ok(1_234_567.89),
            performance_state: Ok(0),
            clock_event_reasons: Ok(4),
            graphics_clock_mhz: Ok(1500),
            sm_clock_mhz: Ok(1500),
            memory_clock_mhz: Ok(3201),
            video_clock_mhz: Ok(1530),
            pcie_generation: Ok(5),
            pcie_width: Ok(16),
            pcie_tx_bytes_per_second: Err(Unknown::NotYet),
            pcie_rx_bytes_per_second: Err(Unknown::NotYet),
            pcie_replay_count: Ok(0),
            ecc_corrected_volatile: Ok(0),
            ecc_uncorrected_volatile: Ok(0),
            ecc_corrected_aggregate: Ok(0),
            ecc_uncorrected_aggregate: Ok(1),
            remapped_rows_corrected: Ok(0),
            remapped_rows_uncorrected: Ok(0),
            remapped_rows_pending: Ok(false),
            remapped_rows_failed: Ok(false),
            power_violation_seconds: Ok(21.5),
            thermal_violation_seconds: Ok(0.0),
            mig_mode_enabled: Ok(false),
            ecc_mode_enabled: Ok(true),
            persistence_mode_enabled: Ok(true),
            display_active: Ok(false),
            compute_mode: Ok(0),
            last_xid: Err(Unknown::NotYet),
            // No fan, no NVLink when passed through, no retired pages since rows are remapped.
            ..DeviceReadings::unknown(Unknown::NotSupported)
        };
        let device = fleet.wait_device(&info.uuid, "events are watched", |device| {
            device.readings.last_xid == Err(Unknown::NotYet)
        });
        assert_eq!(device.readings, expected);
        assert_eq!(device.uses, Ok(Vec::new()));
        // Static facts are read once and shared.
        assert!(Arc::ptr_eq(info, &fleet.worker.latest().devices[0].info));
    }
}

driver_test! {
    fn an_old_card_gives_what_it_has(driver) {
        let fleet = driver.start(vec![Device::k80(0)]);
        let readings = &fleet.worker.latest().devices[0].readings;
        assert_eq!(readings.memory_total_bytes, Ok(11_441 * MIB));
        assert_eq!(readings.memory_reserved_bytes, Err(Unknown::NotSupported));
        assert_eq!(readings.fan_speed_percent, Ok(34));
        assert_eq!((readings.retired_pages_corrected, readings.retired_pages_uncorrected), (Ok(2), Ok(0)));
        assert_eq!(readings.retired_pages_pending, Ok(false));
        assert_eq!(readings.energy_joules, Err(Unknown::NotSupported));
        assert_eq!(readings.remapped_rows_pending, Err(Unknown::NotSupported));
        assert_eq!(readings.mig_mode_enabled, Err(Unknown::NotSupported));
        assert_eq!(readings.ecc_corrected_aggregate, Ok(2));
    }
}

driver_test! {
    fn links_that_are_up_are_counted(driver) {
        let mut device = Device::a100(0);
        device.nvlinks = vec![true, false, true, true];
        let fleet = driver.start(vec![device]);
        assert_eq!(fleet.worker.latest().devices[0].readings.nvlink_active_links, Ok(3));
    }
}

driver_test! {
    fn processes_are_listed_once_with_their_share_of_the_work(driver) {
        let mut device = Device::h200(0);
        let mut both = Process::busy(30, 700 * MIB, 12);
        both.kinds = vec![Kind::C, Kind::G];
        let mut hidden = Process::idle(40, 0);
        hidden.memory_bytes = None;
        let mut mps = Process::idle(50, 9 * MIB);
        mps.kinds = vec![Kind::M];
        let mut absurd = Process::busy(60, MIB, 4000);
        absurd.memory_bandwidth = Some(7);
        device.processes = vec![Process::busy(10, 5098 * MIB, 95), Process::idle(20, 2696 * MIB), both, hidden, mps, absurd];
        let name = uuid(&device);
        let fleet = driver.start(vec![device]);
        let device = fleet.wait_device(&name, "six processes at work", |device| {
            device.uses.as_ref().is_ok_and(|uses| uses.len() == 6 && uses[0].readings.sm_percent == Ok(95))
        });
        let short: Vec<_> = device
            .uses
            .unwrap()
            .iter()
            .map(|one| (one.pid, one.kind, one.readings.memory_used_bytes, one.readings.sm_percent))
            .collect();
        assert_eq!(
            short,
            [
                (10, ContextKind::Compute, Ok(5098 * MIB), Ok(95)),
                (20, ContextKind::Compute, Ok(2696 * MIB), Ok(0)),
                (30, ContextKind::ComputeAndGraphics, Ok(700 * MIB), Ok(12)),
                (40, ContextKind::Compute, Err(Unknown::NotSupported), Ok(0)),
                (50, ContextKind::Compute, Ok(9 * MIB), Ok(0)),
                (60, ContextKind::Compute, Ok(MIB), Err(Unknown::Failed)),
            ]
        );
    }
}

driver_test! {
    fn idle_processes_did_nothing_and_are_not_unknown(driver) {
        let mut device = Device::h200(0);
        device.processes = vec![Process::idle(10, MIB)];
        let fleet = driver.start(vec![device]);
        let sample = fleet.worker.latest();
        assert_eq!(sample.devices[0].uses.as_ref().unwrap()[0].readings.sm_percent, Ok(0));
    }
}

driver_test! {
    fn the_older_call_gives_utilisation_where_the_newer_is_missing(driver) {
        driver.rule(code("nvmlDeviceGetProcessesUtilizationInfo", Code::NOT_SUPPORTED));
        let mut device = Device::h200(0);
        device.processes = vec![Process::busy(10, MIB, 95)];
        let name = uuid(&device);
        let fleet = driver.start(vec![device]);
        let sm = |device: &DeviceSample| device.uses.as_ref().unwrap()[0].readings.sm_percent;
        fleet.wait_device(&name, "95 % by the older call", |device| sm(device) == Ok(95));
        driver.rule(code("nvmlDeviceGetProcessUtilization", Code::NOT_SUPPORTED));
        fleet.wait_device(&name, "unknown without either", |device| sm(device) == Err(Unknown::NotSupported));
        assert_eq!(pids(&fleet.worker.latest().devices[0]), [10]);
    }
}

driver_test! {
    fn a_list_that_grows_while_it_is_read_is_read_again(driver) {
        let mut device = Device::h200(0);
        device.processes = (1..=100).map(|pid| Process::idle(pid, MIB)).collect();
        let name = uuid(&device);
        let fleet = driver.start(vec![device]);
        assert_eq!(pids(&fleet.worker.latest().devices[0]).len(), 100);
        driver.rule(Rule {
            function: String::from("nvmlDeviceGetComputeRunningProcesses_v3"),
            grow: true,
            times: Some(3),
            ..Rule::default()
        });
        let before = fleet.worker.latest().sampled_at;
        let sample = fleet.wait("a later sample", |sample| sample.sampled_at > before);
        assert_eq!(pids(&sample.devices[0]).len(), 100);
        // One that never stops growing leaves this list unknown and harms nothing else.
        driver.no_rules();
        for list in ["Compute", "Graphics", "MPSCompute"] {
            let function = format!("nvmlDeviceGet{list}RunningProcesses_v3");
            driver.rule(Rule { function, grow: true, ..Rule::default() });
        }
        let device = fleet.wait_device(&name, "no list", |device| device.uses == Err(Unknown::Failed));
        assert_eq!((device.status, device.readings.temperature_celsius), (DeviceStatus::Ok, Ok(59)));
        driver.no_rules();
        fleet.wait_device(&name, "the list again", |device| pids(device).len() == 100);
    }
}

driver_test! {
    fn each_field_fails_alone_with_its_reason(driver) {
        let device = Device::h200(0);
        let name = uuid(&device);
        let fleet = driver.start(vec![device]);
        driver.rule(code("nvmlDeviceGetTemperature", Code::NO_PERMISSION));
        driver.rule(code("nvmlDeviceGetPowerUsage", Code::UNKNOWN));
        driver.rule(code("nvmlDeviceGetRemappedRows", Code::NOT_SUPPORTED));
        driver.rule(code("nvmlDeviceGetUtilizationRates", Code::TIMEOUT));
        let device = fleet.wait_device(&name, "four unknown fields", |device| {
            device.status == DeviceStatus::Ok && device.readings.utilization_percent == Err(Unknown::Timeout)
        });
        assert_eq!(device.status, DeviceStatus::Ok);
        assert_eq!(device.readings.temperature_celsius, Err(Unknown::NoPermission));
        assert_eq!(device.readings.power_watts, Err(Unknown::Failed));
        assert_eq!(device.readings.remapped_rows_failed, Err(Unknown::NotSupported));
        assert_eq!(device.readings.sm_clock_mhz, Ok(1500));
    }
}

driver_test! {
    fn the_demand_tier_is_read_while_somebody_asks(driver) {
        let device = Device::h200(0);
        let name = uuid(&device);
        let fleet = driver.start(vec![device]);
        let asked = fleet.worker.demand();
        let device = fleet.wait_device(&name, "throughput", |device| device.readings.pcie_tx_bytes_per_second.is_ok());
        assert_eq!(device.readings.pcie_tx_bytes_per_second, Ok(24_650 * 1024));
        assert_eq!(device.readings.pcie_rx_bytes_per_second, Ok(12_300 * 1024));
        drop(asked);
        fleet.wait_device(&name, "no throughput", |device| device.readings.pcie_tx_bytes_per_second.is_err());
    }
}

driver_test! {
    fn mig_instances_are_devices_with_a_parent(driver) {
        let mut device = Device::a100_mig(0);
        let instance = device.mig[1].clone();
        device.processes = vec![Process {
            gpu_instance: Some(instance.gpu_instance),
            compute_instance: Some(instance.compute_instance),
            ..Process::busy(10, 500 * MIB, 50)
        }];
        let parent = uuid(&device);
        let fleet = driver.start(vec![device]);
        let sample = fleet.wait("three instances", |sample| sample.devices.len() == 4);
        assert_eq!(sample.devices[0].info.uuid, parent);
        assert_eq!(sample.devices[0].readings.mig_mode_enabled, Ok(true));
        assert_eq!(sample.devices[0].readings.utilization_percent, Err(Unknown::NotSupported));
        assert!(pids(&sample.devices[0]).is_empty(), "its instances list the processes");
        let used = sample.devices.iter().find(|device| device.info.uuid == instance.uuid).unwrap();
        let mig = used.info.mig.as_ref().unwrap();
        assert_eq!(mig.parent_uuid, parent);
        assert_eq!((mig.gpu_instance_id, mig.compute_instance_id), (instance.gpu_instance, instance.compute_instance));
        assert_eq!(used.readings.memory_total_bytes, Ok(instance.memory_total.unwrap()));
        assert_eq!(used.readings.power_watts, Err(Unknown::NotSupported));
        assert_eq!(used.readings.temperature_celsius, Err(Unknown::NotSupported));
        assert_eq!(pids(used), [10]);
        let one = &used.uses.as_ref().unwrap()[0];
        assert_eq!(one.gpu_instance_id, Some(instance.gpu_instance));
        assert_eq!(one.readings.sm_percent, Err(Unknown::NotSupported));

        // Instances that are taken away are gone, not lost.
        driver.update(|scenario| drop(scenario.devices[0].mig.remove(0)));
        fleet.wait("two instances", |sample| sample.devices.len() == 3);
        driver.update(|scenario| {
            scenario.devices[0].mig.clear();
            scenario.devices[0].mig_enabled = false;
        });
        let sample = fleet.wait("no instance", |sample| sample.devices.len() == 1);
        assert_eq!(sample.devices[0].status, DeviceStatus::Ok);
        let pids_of_parent = fleet.wait_device(&parent, "its own processes", |device| !pids(device).is_empty());
        assert_eq!(pids(&pids_of_parent), [10]);
    }
}

driver_test! {
    fn a_lost_device_stays_listed_and_comes_back(driver) {
        let devices = vec![Device::h200(0), Device::h200(1)];
        let (one, other) = (uuid(&devices[0]), uuid(&devices[1]));
        let fleet = driver.start(devices);
        driver.update(|scenario| scenario.devices[0].lost = true);
        let device = fleet.wait_status(&one, DeviceStatus::Lost);
        assert_eq!(device.readings, DeviceReadings::unknown(Unknown::Lost));
        assert_eq!(device.uses, Err(Unknown::Lost));
        assert_eq!(device.info.name, "NVIDIA H200");
        // The other goes on, through the sessions that look for the lost one.
        for _ in 0..10 {
            let before = fleet.worker.latest().sampled_at;
            let sample = fleet.wait("a later sample", |sample| sample.sampled_at > before);
            assert_eq!(sample.devices.len(), 2);
            assert_eq!(sample.devices[1].readings.temperature_celsius, Ok(59));
        }
        driver.update(|scenario| scenario.devices[0].lost = false);
        let device = fleet.wait_status(&one, DeviceStatus::Ok);
        assert_eq!(device.readings.energy_joules, Ok(1_234_567.89));
        fleet.wait_status(&other, DeviceStatus::Ok);
    }
}

driver_test! {
    fn a_device_that_is_lost_at_the_start_is_told(driver) {
        driver.update(|scenario| {
            scenario.devices = vec![Device::h200(0), Device { lost: true, ..Device::h200(1) }];
        });
        let fleet = Fleet::on(&library());
        let sample = fleet.wait_problem("device with index `1` cannot be opened");
        assert_eq!(sample.devices.len(), 1);
        driver.update(|scenario| scenario.devices[1].lost = false);
        fleet.wait("both devices and no problem", |sample| sample.devices.len() == 2 && sample.status.problem.is_none());
    }
}

driver_test! {
    fn devices_are_added_and_taken_away_while_running(driver) {
        let devices = vec![Device::h200(0), Device::h200(1)];
        let one = uuid(&devices[0]);
        let fleet = driver.start(devices);
        driver.update(|scenario| scenario.devices.push(Device::h200(2)));
        fleet.wait("three devices", |sample| {
            sample.devices.len() == 3 && sample.devices.iter().all(|device| device.status == DeviceStatus::Ok)
        });
        driver.update(|scenario| drop(scenario.devices.remove(0)));
        fleet.wait_status(&one, DeviceStatus::Lost);
        fleet.wait("the others answer", |sample| {
            sample.devices.iter().filter(|device| device.status == DeviceStatus::Ok).count() == 2
        });
        driver.update(|scenario| scenario.devices.insert(0, Device::h200(0)));
        fleet.wait("all answer", |sample| sample.devices.iter().all(|device| device.status == DeviceStatus::Ok));
    }
}

driver_test! {
    fn a_hung_call_makes_its_device_unresponsive_until_it_returns(driver) {
        let devices = vec![Device::h200(0), Device::h200(1)];
        let other = uuid(&devices[1]);
        let fleet = driver.start(devices);
        driver.rule(hang("nvmlDeviceGetPowerUsage", Some(&other)));
        let device = fleet.wait_status(&other, DeviceStatus::Unresponsive);
        assert_eq!(device.readings, DeviceReadings::unknown(Unknown::Timeout));
        assert_eq!(device.uses, Err(Unknown::Timeout));
        fleet.wait_problem(&other);
        driver.no_rules();
        fleet.wait("all answer", |sample| {
            sample.status.problem.is_none() && sample.devices.iter().all(|device| device.readings.power_watts.is_ok())
        });
    }
}

driver_test! {
    fn a_start_that_hangs_is_told_and_goes_on(driver) {
        driver.update(|scenario| scenario.devices = vec![Device::h200(0)]);
        driver.rule(hang("nvmlInit_v2", None));
        let fleet = Fleet::on(&library());
        fleet.wait_problem("has not answered");
        driver.no_rules();
        fleet.wait("the device", |sample| sample.devices.len() == 1 && sample.status.problem.is_none());
    }
}

driver_test! {
    fn xid_errors_are_told_even_after_a_new_session(driver) {
        let device = Device::h200(0);
        let name = uuid(&device);
        let fleet = driver.start(vec![device]);
        fleet.wait_device(&name, "events are watched", |device| device.readings.last_xid == Err(Unknown::NotYet));
        let xid = |id, data| Event { id, device: name.clone(), kind: 8, data, replay: false };
        driver.update(|scenario| scenario.events.push(xid(1, 79)));
        fleet.wait_device(&name, "XID 79", |device| device.readings.last_xid == Ok(79));
        // The device falls off the bus and comes back; so does the watch for its events.
        driver.update(|scenario| scenario.devices[0].lost = true);
        fleet.wait_status(&name, DeviceStatus::Lost);
        driver.update(|scenario| scenario.devices[0].lost = false);
        fleet.wait_device(&name, "back with its XID", |device| device.readings.last_xid == Ok(79));
        let mut id = 2;
        fleet.wait_device(&name, "XID 48", |device| device.readings.last_xid.is_ok());
        let until = std::time::Instant::now() + Duration::from_mins(1);
        while fleet.worker.latest().devices[0].readings.last_xid != Ok(48) {
            // Those before the new set was made are past for it.
            driver.update(|scenario| scenario.events.push(xid(id, 48)));
            id += 1;
            assert!(std::time::Instant::now() < until, "the new session tells no event");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

driver_test! {
    fn a_device_without_events_gives_no_xid_and_keeps_none_from_others(driver) {
        let mut without = Device::h200(0);
        without.event_types = None;
        let with = Device::h200(1);
        let (one, other) = (uuid(&without), uuid(&with));
        let fleet = driver.start(vec![without, with]);
        fleet.wait_device(&other, "events are watched", |device| device.readings.last_xid == Err(Unknown::NotYet));
        fleet.wait_device(&one, "no events", |device| device.readings.last_xid == Err(Unknown::NotSupported));
    }
}

driver_test! {
    fn a_wait_for_events_that_hangs_leaves_the_rest_alone(driver) {
        let device = Device::h200(0);
        let name = uuid(&device);
        let fleet = driver.start(vec![device]);
        fleet.wait_device(&name, "events are watched", |device| device.readings.last_xid == Err(Unknown::NotYet));
        driver.rule(hang("nvmlEventSetWait_v2", None));
        let device = fleet.wait_device(&name, "XID unknown", |device| {
            device.status == DeviceStatus::Ok && device.readings.last_xid == Err(Unknown::Timeout)
        });
        assert_eq!((device.status, device.readings.power_watts), (DeviceStatus::Ok, Ok(690.855)));
        driver.no_rules();
        fleet.wait_device(&name, "events again", |device| device.readings.last_xid == Err(Unknown::NotYet));
    }
}

driver_test! {
    fn a_driver_that_is_not_loaded_is_told_and_found_later(driver) {
        driver.update(|scenario| {
            scenario.devices = vec![Device::h200(0)];
            scenario.init = Some(Code::DRIVER_NOT_LOADED);
        });
        let fleet = Fleet::on(&library());
        let sample = fleet.wait_problem("modprobe nvidia");
        assert!(sample.devices.is_empty());
        driver.update(|scenario| scenario.init = Some(Code::LIB_RM_VERSION_MISMATCH));
        fleet.wait_problem("driver/library version mismatch");
        driver.update(|scenario| scenario.init = Some(Code::NO_PERMISSION));
        fleet.wait_problem("no permission");
        driver.update(|scenario| scenario.init = None);
        fleet.wait("the device", |sample| sample.devices.len() == 1 && sample.status.problem.is_none());
    }
}

driver_test! {
    fn a_library_that_appears_later_is_found(driver) {
        driver.update(|scenario| scenario.devices = vec![Device::h200(0)]);
        let path = driver.beside("libnvidia-ml.so.1");
        let fleet = Fleet::on(&path);
        let sample = fleet.wait_problem("cannot load the NVML library");
        assert!(sample.devices.is_empty());
        std::fs::write(&path, "no library").unwrap();
        fleet.wait_problem("cannot load the NVML library");
        std::fs::remove_file(&path).unwrap();
        symlink(library(), &path).unwrap();
        fleet.wait("the device", |sample| sample.devices.len() == 1 && sample.status.problem.is_none());
    }
}

driver_test! {
    fn a_driver_that_is_reloaded_is_followed(driver) {
        let device = Device::h200(0);
        let name = uuid(&device);
        let fleet = driver.start(vec![device]);
        let before = fleet.worker.latest().devices[0].info.clone();
        driver.update(|scenario| scenario.init = Some(Code::DRIVER_NOT_LOADED));
        driver.rule(code("*", Code::UNINITIALIZED));
        fleet.wait_status(&name, DeviceStatus::Lost);
        fleet.wait_problem("driver is not loaded");
        driver.update(|scenario| {
            scenario.init = None;
            scenario.driver_version = String::from("590.1");
            scenario.rules.clear();
        });
        let device = fleet.wait_status(&name, DeviceStatus::Ok);
        assert!(Arc::ptr_eq(&before, &device.info), "nothing static has changed");
        assert_eq!(fleet.worker.latest().status.driver_version.as_deref(), Some("590.1"));
    }
}

driver_test! {
    fn handles_that_have_become_invalid_lead_to_a_new_session(driver) {
        let device = Device::h200(0);
        let name = uuid(&device);
        driver.update(|scenario| scenario.call_log = Some(driver.beside("calls")));
        let fleet = driver.start(vec![device]);
        driver.rule(Rule { times: Some(5), ..code("nvmlDeviceGetMemoryInfo_v2", Code::INVALID_ARGUMENT) });
        let log = || std::fs::read_to_string(driver.beside("calls")).unwrap();
        fleet.wait("a second start", |_| log().matches("nvmlInit").count() >= 2);
        fleet.wait_device(&name, "memory again", |device| device.readings.memory_total_bytes.is_ok());
        assert!(log().contains("nvmlShutdown"));
    }
}

driver_test! {
    fn ending_the_worker_shuts_the_library_down(driver) {
        driver.update(|scenario| scenario.call_log = Some(driver.beside("calls")));
        let fleet = driver.start(vec![Device::h200(0)]);
        assert!(fleet.worker.shutdown(Duration::from_mins(1)));
        let until = std::time::Instant::now() + Duration::from_mins(1);
        while !std::fs::read_to_string(driver.beside("calls")).unwrap().contains("nvmlShutdown") {
            assert!(std::time::Instant::now() < until, "the library is not shut down");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
