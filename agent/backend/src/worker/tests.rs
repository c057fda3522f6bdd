//! Workers on a scripted library that hangs, panics and changes on command.

use std::collections::BTreeMap;
use std::sync::Condvar;
use std::time::Instant;

use gpufleet_model::{DeviceInfo, DeviceLimits, DeviceReadings, DeviceStatus, Unknown};

use super::*;
use crate::sample::DeviceSample;
use crate::vendor::Round;

const INTERVAL: Duration = Duration::from_millis(10);
const DEADLINE: Duration = Duration::from_millis(60);
const PATIENCE: Duration = Duration::from_secs(20);

/// What the library does, set by the test while it runs.
#[derive(Default)]
struct Script {
    state: Mutex<ScriptState>,
    changed: Condvar,
}

#[derive(Default)]
struct ScriptState {
    devices: u32,
    /// What hangs: a device, or the library as a whole.
    hung: Option<Subject>,
    panic: bool,
    /// How long each read of a device takes.
    slow: BTreeMap<u32, Duration>,
    threads_inside: u32,
    most_threads_inside: u32,
    reads: BTreeMap<u32, u32>,
    closed: u32,
    demand: bool,
}

/// What a call is about.
#[derive(Clone, Copy, PartialEq)]
enum Subject {
    Library,
    Device(u32),
}

struct ScriptedLibrary {
    script: Arc<Script>,
    devices: Vec<Arc<DeviceInfo>>,
}

fn info(index: u32) -> DeviceInfo {
    DeviceInfo {
        backend: Backend::Nvml,
        index,
        uuid: format!("GPU-{index}"),
        name: String::from("Scripted"),
        pci_bus_id: None,
        minor_number: None,
        serial: None,
        part_number: None,
        vbios_version: None,
        cuda_capability: None,
        core_count: None,
        mig: None,
        limits: DeviceLimits::default(),
    }
}

impl Script {
    fn set(&self, change: impl FnOnce(&mut ScriptState)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    fn get<T>(&self, read: impl FnOnce(&ScriptState) -> T) -> T {
        read(&self.state.lock().unwrap())
    }

    /// A call into the driver about `subject`.
    fn call(&self, subject: Subject) {
        let mut state = self.state.lock().unwrap();
        state.threads_inside += 1;
        state.most_threads_inside = state.most_threads_inside.max(state.threads_inside);
        let mut state = self.changed.wait_while(state, |state| state.hung == Some(subject)).unwrap();
        state.threads_inside -= 1;
        let slow = match subject {
            Subject::Device(device) => state.slow.get(&device).copied(),
            Subject::Library => None,
        };
        drop(state);
        if let Some(slow) = slow {
            std::thread::sleep(slow);
        }
    }
}

impl VendorLibrary for ScriptedLibrary {
    fn backend(&self) -> Backend {
        Backend::Nvml
    }

    fn begin(&mut self, round: &Round<'_>) {
        round.meter.call(|| self.script.call(Subject::Library));
        let (count, panic) = self.script.get(|state| (state.devices, state.panic));
        self.script.set(|state| state.demand = round.demand);
        assert!(!panic, "scripted");
        self.devices = (0..count).map(|index| Arc::new(info(index))).collect();
    }

    fn devices(&self) -> Vec<Arc<DeviceInfo>> {
        self.devices.clone()
    }

    fn read(&mut self, position: usize, round: &Round<'_>) -> Option<DeviceSample> {
        let info = self.devices.get(position)?;
        round.meter.call(|| self.script.call(Subject::Device(info.index)));
        self.script.set(|state| *state.reads.entry(info.index).or_default() += 1);
        let mut readings = DeviceReadings::unknown(Unknown::NotSupported);
        readings.temperature_celsius = Ok(40);
        Some(DeviceSample { info: Arc::clone(info), status: DeviceStatus::Ok, readings, uses: Ok(Vec::new()) })
    }

    fn status(&self) -> BackendStatus {
        BackendStatus {
            backend: Backend::Nvml,
            driver_version: Some(String::from("1")),
            library_version: None,
            cuda_driver_version: None,
            problem: None,
        }
    }

    fn close(&mut self) {
        self.script.set(|state| state.closed += 1);
    }
}

fn start(devices: u32) -> (Arc<Script>, Worker) {
    let script = Arc::new(Script::default());
    script.set(|state| state.devices = devices);
    let library = ScriptedLibrary { script: Arc::clone(&script), devices: Vec::new() };
    let options = BackendOptions {
        deadline: DEADLINE,
        retry_at_least: Duration::from_millis(20),
        retry_at_most: Duration::from_hours(1),
        ..BackendOptions::default()
    };
    (script, Worker::with_library(Box::new(library), options, INTERVAL).unwrap())
}

/// Waits until a sample satisfies the condition.
fn wait_for(worker: &Worker, what: &str, condition: impl Fn(&BackendSample) -> bool) -> Arc<BackendSample> {
    let until = Instant::now() + PATIENCE;
    loop {
        let sample = worker.latest();
        if condition(&sample) {
            return sample;
        }
        assert!(Instant::now() < until, "no sample with {what}; the newest is {sample:#?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn statuses(sample: &BackendSample) -> Vec<DeviceStatus> {
    sample.devices.iter().map(|device| device.status).collect()
}

fn all_answer(count: usize) -> impl Fn(&BackendSample) -> bool {
    move |sample| {
        sample.devices.len() == count
            && sample.status.problem.is_none()
            && sample.devices.iter().all(|device| device.readings.temperature_celsius == Ok(40))
    }
}

#[test]
fn rounds_follow_one_another_and_tell_their_cost() {
    let (_, worker) = start(2);
    let first = wait_for(&worker, "two devices", all_answer(2));
    assert_eq!(first.cost.driver_calls, 3);
    wait_for(&worker, "a later round", |sample| sample.sampled_at > first.sampled_at);
}

#[test]
fn a_hung_device_is_unresponsive_until_its_call_returns() {
    let (script, worker) = start(3);
    wait_for(&worker, "three devices", all_answer(3));
    script.set(|state| state.hung = Some(Subject::Device(1)));
    let hung = wait_for(&worker, "an unresponsive device", |sample| {
        statuses(sample) == [DeviceStatus::Ok, DeviceStatus::Unresponsive, DeviceStatus::Ok]
    });
    for device in &hung.devices {
        assert_eq!(device.readings, DeviceReadings::unknown(Unknown::Timeout));
        assert_eq!(device.uses, Err(Unknown::Timeout));
    }
    let problem = hung.status.problem.as_deref().unwrap();
    assert!(problem.contains("`GPU-1`") && problem.contains("kernel log"), "{problem}");
    // Samples go on while the call hangs.
    wait_for(&worker, "a later sample", |sample| sample.sampled_at > hung.sampled_at);
    worker.tick_now();
    script.set(|state| state.hung = None);
    wait_for(&worker, "all devices back", all_answer(3));
    assert_eq!(script.get(|state| state.most_threads_inside), 1, "a second thread entered the hung driver");
}

#[test]
fn a_library_that_hangs_before_it_knows_any_device_is_told() {
    let script = Arc::new(Script::default());
    script.set(|state| (state.devices, state.hung) = (1, Some(Subject::Library)));
    let library = ScriptedLibrary { script: Arc::clone(&script), devices: Vec::new() };
    let options = BackendOptions { deadline: DEADLINE, ..BackendOptions::default() };
    let worker = Worker::with_library(Box::new(library), options, INTERVAL).unwrap();
    let sample = wait_for(&worker, "a problem", |sample| {
        sample.status.problem.as_deref().is_some_and(|problem| problem.contains("has not answered"))
    });
    assert!(sample.devices.is_empty());
    script.set(|state| state.hung = None);
    wait_for(&worker, "the device", all_answer(1));
}

#[test]
fn a_library_that_hangs_later_makes_every_device_unresponsive() {
    let (script, worker) = start(2);
    wait_for(&worker, "two devices", all_answer(2));
    script.set(|state| state.hung = Some(Subject::Library));
    wait_for(&worker, "two unresponsive devices", |sample| statuses(sample) == [DeviceStatus::Unresponsive; 2]);
    script.set(|state| state.hung = None);
    wait_for(&worker, "all devices back", all_answer(2));
}

#[test]
fn a_device_that_is_always_late_does_not_keep_the_others_from_being_read() {
    let (script, worker) = start(2);
    wait_for(&worker, "two devices", all_answer(2));
    script.set(|state| state.slow = BTreeMap::from([(1, DEADLINE * 3)]));
    wait_for(&worker, "the other device alone", |sample| {
        sample.devices.len() == 2
            && sample.devices[0].readings.temperature_celsius == Ok(40)
            && sample.devices[1].status == DeviceStatus::Unresponsive
    });
    let before = script.get(|state| state.reads[&0]);
    let until = Instant::now() + PATIENCE;
    while script.get(|state| state.reads[&0]) < before + 20 {
        assert!(Instant::now() < until, "the other device is not read");
        std::thread::sleep(Duration::from_millis(1));
    }
    script.set(|state| state.slow.clear());
    wait_for(&worker, "both devices", all_answer(2));
}

#[test]
fn a_round_that_panics_is_told_and_the_backend_goes_on() {
    let (script, worker) = start(1);
    wait_for(&worker, "one device", all_answer(1));
    script.set(|state| state.panic = true);
    let sample = wait_for(&worker, "a word about the panic", |sample| {
        sample.status.problem.as_deref().is_some_and(|problem| problem.starts_with("internal error"))
    });
    assert_eq!(sample.devices[0].readings.temperature_celsius, Err(Unknown::Failed));
    script.set(|state| state.panic = false);
    wait_for(&worker, "the device back", all_answer(1));
    assert!(script.get(|state| state.closed) >= 1);
}

#[test]
fn a_worker_gives_its_library_back_when_it_ends() {
    let (script, worker) = start(1);
    wait_for(&worker, "one device", all_answer(1));
    assert!(worker.shutdown(PATIENCE));
    assert_eq!(script.get(|state| state.closed), 1);
}

#[test]
fn a_hung_driver_does_not_keep_the_worker_from_ending() {
    let (script, worker) = start(1);
    wait_for(&worker, "one device", all_answer(1));
    script.set(|state| state.hung = Some(Subject::Device(0)));
    wait_for(&worker, "the hang", |sample| statuses(sample) == [DeviceStatus::Unresponsive]);
    assert!(!worker.shutdown(Duration::from_millis(1)));
    script.set(|state| state.hung = None);
}

#[test]
fn demand_lasts_as_long_as_somebody_asks() {
    let (script, worker) = start(0);
    let wait_demand = |wanted: bool| {
        let until = Instant::now() + PATIENCE;
        while script.get(|state| state.demand) != wanted {
            assert!(Instant::now() < until, "demand stays {}", !wanted);
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let (one, other) = (worker.demand(), worker.demand());
    wait_demand(true);
    drop(one);
    assert_eq!(worker.demand.load(Ordering::Relaxed), 1);
    drop(other);
    wait_demand(false);
}

#[test]
fn a_round_can_be_asked_for_between_two_ticks() {
    let script = Arc::new(Script::default());
    script.set(|state| state.devices = 1);
    let library = ScriptedLibrary { script: Arc::clone(&script), devices: Vec::new() };
    let worker = Worker::with_library(Box::new(library), BackendOptions::default(), Duration::from_hours(1)).unwrap();
    let first = wait_for(&worker, "one device", all_answer(1));
    worker.tick_now();
    wait_for(&worker, "a second round", |sample| sample.sampled_at > first.sampled_at);
    assert_eq!(worker.signal(1, 1, 9), SimulatedSignal::NotSimulated);
}

#[test]
fn a_simulation_does_a_round_when_told_and_takes_signals() {
    let options = BackendOptions { host_name: String::from("busy"), ..BackendOptions::default() };
    let choice = BackendChoice::Simulated { devices: 8 };
    let worker = Worker::spawn(choice, options, Duration::from_secs(1)).unwrap();
    assert!(worker.needs_ticks());
    assert_eq!(worker.backend(), Backend::Simulated);
    let first = worker.latest();
    assert_eq!(first.devices.len(), 8);
    let identity = first.simulated_processes[0].process.identity;
    assert_eq!(worker.signal(identity.pid, identity.start_ticks, 9), SimulatedSignal::Delivered);
    worker.tick_now();
    let second = worker.latest();
    assert!(second.simulated_processes.iter().all(|one| one.process.identity != identity));
    assert!(worker.shutdown(Duration::ZERO));
}
