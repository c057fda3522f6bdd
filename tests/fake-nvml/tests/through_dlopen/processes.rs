//! Process lists, utilisation samples and the release of memory.

use std::time::{Duration, Instant};

use gpufleet_fake_nvml::Code;
use gpufleet_fake_nvml::scenario::{Device, Kind, Process, Rule, Scenario};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper_sys::bindings as sys;

use crate::Turn;

fn with_processes(processes: Vec<Process>) -> Device {
    Device { processes, ..Device::h200(0) }
}

#[test]
fn each_kind_stands_in_its_own_list() {
    let both = Process { kinds: vec![Kind::C, Kind::G], ..Process::idle(2, 20) };
    let mps = Process { kinds: vec![Kind::M], memory_bytes: None, ..Process::default() };
    let turn = Turn::one(with_processes(vec![Process::idle(1, 10), both, mps]));
    let nvml = turn.nvml();
    let gpu = nvml.device_by_index(0).unwrap();
    let pids = |list: Vec<nvml_wrapper::struct_wrappers::device::ProcessInfo>| -> Vec<u32> {
        list.iter().map(|process| process.pid).collect()
    };
    assert_eq!(pids(gpu.running_compute_processes().unwrap()), [1, 2]);
    assert_eq!(pids(gpu.running_graphics_processes().unwrap()), [2]);
    let mps = gpu.mps_running_compute_processes().unwrap();
    assert!(matches!(mps[0].used_gpu_memory, UsedGpuMemory::Unavailable));
    assert_eq!(mps[0].gpu_instance_id, None);
}

#[test]
fn only_busy_processes_have_samples_and_none_is_not_found() {
    let turn = Turn::one(with_processes(vec![Process::busy(1, 10, 97), Process::idle(2, 20)]));
    let nvml = turn.nvml();
    let gpu = nvml.device_by_index(0).unwrap();
    let samples = gpu.process_utilization_stats(0).unwrap();
    assert_eq!(samples.len(), 1);
    assert_eq!((samples[0].pid, samples[0].sm_util, samples[0].mem_util), (1, 97, 24));
    let later = samples[0].timestamp + 60_000_000;
    assert!(matches!(gpu.process_utilization_stats(later), Err(NvmlError::NotFound)));
    turn.write(&Scenario { devices: vec![with_processes(vec![Process::idle(2, 20)])], ..Scenario::default() });
    assert!(matches!(gpu.process_utilization_stats(0), Err(NvmlError::NotFound)));
}

#[test]
fn the_newer_utilisation_call_checks_its_version() {
    let turn = Turn::one(with_processes(vec![Process::busy(1, 10, 97)]));
    let nvml = turn.nvml();
    let gpu = nvml.device_by_index(0).unwrap();
    let raw = turn.raw();
    let mut samples = [sys::nvmlProcessUtilizationInfo_v1_t {
        timeStamp: 0,
        pid: 0,
        smUtil: 0,
        memUtil: 0,
        encUtil: 0,
        decUtil: 0,
        jpgUtil: 0,
        ofaUtil: 0,
    }; 4];
    let mut info = sys::nvmlProcessesUtilizationInfo_t {
        version: 0x0100_0018,
        processSamplesCount: 0,
        lastSeenTimeStamp: 0,
        procUtilArray: std::ptr::null_mut(),
    };
    // SAFETY: handle of this library, structures of the right types, the array is as long as the count says.
    unsafe {
        let code = raw.nvmlDeviceGetProcessesUtilizationInfo(gpu.handle(), &raw mut info);
        assert_eq!((Code(code), info.processSamplesCount), (Code::INSUFFICIENT_SIZE, 1));
        info.processSamplesCount = 4;
        info.procUtilArray = samples.as_mut_ptr();
        let code = raw.nvmlDeviceGetProcessesUtilizationInfo(gpu.handle(), &raw mut info);
        assert_eq!((Code(code), info.processSamplesCount), (Code::SUCCESS, 1));
        info.version = 1;
        let code = raw.nvmlDeviceGetProcessesUtilizationInfo(gpu.handle(), &raw mut info);
        assert_eq!(Code(code), Code::ARGUMENT_VERSION_MISMATCH);
    }
    assert_eq!((samples[0].pid, samples[0].smUtil), (1, 97));
}

#[test]
fn memory_is_released_after_the_process_has_exited() {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let scenario = Scenario {
        release_on_exit_ms: Some(30),
        devices: vec![with_processes(vec![Process::busy(child.id(), 1 << 30, 50)])],
        ..Scenario::default()
    };
    let turn = Turn::with(&scenario);
    let nvml = turn.nvml();
    let gpu = nvml.device_by_index(0).unwrap();
    let before = gpu.memory_info().unwrap().used;
    assert_eq!(gpu.running_compute_processes().unwrap().len(), 1);
    child.kill().unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while !gpu.running_compute_processes().unwrap().is_empty() {
        assert!(Instant::now() < deadline, "the process stays listed");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(before - gpu.memory_info().unwrap().used, 1 << 30);
    child.wait().unwrap();
}

#[test]
fn a_growing_list_is_insufficient_for_any_buffer() {
    let rule = Rule {
        function: "nvmlDeviceGetComputeRunningProcesses_v3".into(),
        grow: true,
        times: Some(3),
        ..Rule::default()
    };
    let scenario =
        Scenario { devices: vec![with_processes(vec![Process::idle(1, 1)])], rules: vec![rule], ..Scenario::default() };
    let turn = Turn::with(&scenario);
    let nvml = turn.nvml();
    let gpu = nvml.device_by_index(0).unwrap();
    // Each attempt asks for the count and then for the list.
    assert!(matches!(gpu.running_compute_processes(), Err(NvmlError::InsufficientSize(_))));
    assert!(gpu.running_compute_processes().is_ok());
}
