use std::collections::BTreeMap;
use std::time::{Duration, Instant, UNIX_EPOCH};

use gpufleet_model::{ProcessState, Unknown};
use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn host(name: &str, seed: u64, devices: u32) -> Simulation {
    Simulation::new(name, seed, devices, SECOND, Duration::from_secs(10), UNIX_EPOCH + Duration::from_secs(1 << 30))
}

fn samples(simulation: &mut Simulation, count: usize) -> Vec<BackendSample> {
    (0..count).map(|_| simulation.tick(UNIX_EPOCH, false)).collect()
}

/// A host that has at least one process, and its first sample.
fn busy_host() -> (Simulation, BackendSample) {
    let mut simulation = host("busy", 1, 8);
    let first = simulation.tick(UNIX_EPOCH, false);
    assert!(!first.simulated_processes.is_empty());
    (simulation, first)
}

fn uses_of(sample: &BackendSample, pid: u32) -> usize {
    sample.devices.iter().flat_map(|device| device.uses.as_ref().unwrap()).filter(|one| one.pid == pid).count()
}

fn assert_sound(sample: &BackendSample) {
    for device in &sample.devices {
        let readings = &device.readings;
        let in_use = readings.memory_used_bytes.unwrap();
        let total = readings.memory_total_bytes.unwrap();
        assert_eq!(in_use + readings.memory_free_bytes.unwrap() + readings.memory_reserved_bytes.unwrap(), total);
        let uses = device.uses.as_ref().unwrap();
        let held: u64 = uses.iter().map(|one| one.readings.memory_used_bytes.unwrap()).sum();
        assert_eq!(in_use, held + device::MEMORY_OVERHEAD);
        assert!(readings.utilization_percent.unwrap() <= 100);
        assert!(readings.memory_utilization_percent.unwrap() <= 100);
        let limits = &device.info.limits;
        let temperature = readings.temperature_celsius.unwrap();
        assert!((20..limits.slowdown_temperature_celsius.unwrap()).contains(&temperature), "{temperature}");
        let power = readings.power_watts.unwrap();
        assert!(power > 10.0 && power <= readings.power_limit_watts.unwrap() + 0.001, "{power}");
        assert!(readings.sm_clock_mhz.unwrap() <= limits.max_sm_clock_mhz.unwrap());
        assert!(device.info.name.starts_with("Simulated "));
        assert_eq!(device.info.backend, Backend::Simulated);
        for one in uses {
            assert!(one.readings.sm_percent.unwrap() <= 100);
            assert!(sample.simulated_processes.iter().any(|process| process.process.identity.pid == one.pid));
        }
    }
    let by_pid: BTreeMap<_, _> =
        sample.simulated_processes.iter().map(|process| (process.process.identity.pid, process)).collect();
    assert_eq!(by_pid.len(), sample.simulated_processes.len(), "a pid is used twice");
    for process in by_pid.values() {
        assert!(process.process.readings.cpu_percent.is_err() || process.process.readings.cpu_percent.unwrap() >= 0.0);
        assert!(process.process.info.user.is_some() && !process.process.info.arguments.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_sample_of_every_host_is_sound(name in "[a-z]{1,12}", seed in any::<u64>(), devices in 0_u32..17) {
        for sample in samples(&mut host(&name, seed, devices), 150) {
            assert_eq!(sample.devices.len(), devices as usize);
            assert_sound(&sample);
        }
    }

    #[test]
    fn equal_inputs_give_equal_samples(name in "[a-z]{1,12}", seed in any::<u64>()) {
        let (mut one, mut other) = (host(&name, seed, 4), host(&name, seed, 4));
        assert_eq!(samples(&mut one, 40), samples(&mut other, 40));
    }

    #[test]
    fn any_signal_leaves_a_sound_host(signals in proptest::collection::vec((any::<prop::sample::Index>(), -2_i32..70), 1..40)) {
        let mut simulation = host("signalled", 3, 8);
        let mut sample = simulation.tick(UNIX_EPOCH, false);
        for (whom, signal) in signals {
            if !sample.simulated_processes.is_empty() {
                let identity = whom.get(&sample.simulated_processes).process.identity;
                simulation.signal(identity.pid, identity.start_ticks, signal);
            }
            sample = simulation.tick(UNIX_EPOCH, false);
            assert_sound(&sample);
        }
    }
}

#[test]
fn hosts_of_other_names_and_seeds_differ() {
    let of = |name, seed| samples(&mut host(name, seed, 2), 1);
    assert_ne!(of("host1", 1), of("host2", 1));
    assert_ne!(of("host1", 1), of("host1", 2));
}

#[test]
fn processes_come_and_go_and_pids_are_not_reused_at_once() {
    let mut simulation = host("long", 9, 8);
    let mut seen: BTreeMap<u32, u64> = BTreeMap::new();
    let (mut started, mut ended) = (0, 0);
    let mut before: Vec<u32> = Vec::new();
    for sample in samples(&mut simulation, 4000) {
        let now: Vec<u32> = sample.simulated_processes.iter().map(|one| one.process.identity.pid).collect();
        started += now.iter().filter(|pid| !before.contains(pid)).count();
        ended += before.iter().filter(|pid| !now.contains(pid)).count();
        for one in &sample.simulated_processes {
            let identity = one.process.identity;
            let ticks = *seen.entry(identity.pid).or_insert(identity.start_ticks);
            assert_eq!(ticks, identity.start_ticks, "pid {} was reused", identity.pid);
        }
        before = now;
    }
    assert!(started > 20 && ended > 20, "{started} started, {ended} ended");
}

#[test]
fn a_killed_process_is_gone_with_its_memory_in_the_next_sample() {
    let (mut simulation, first) = busy_host();
    let identity = first.simulated_processes[0].process.identity;
    assert!(uses_of(&first, identity.pid) > 0);
    assert_eq!(simulation.signal(identity.pid, identity.start_ticks, 9), SimulatedSignal::Delivered);
    let next = simulation.tick(UNIX_EPOCH, false);
    assert_eq!(uses_of(&next, identity.pid), 0);
    assert!(next.simulated_processes.iter().all(|one| one.process.identity != identity));
    assert_eq!(simulation.signal(identity.pid, identity.start_ticks, 9), SimulatedSignal::NoSuchProcess);
    assert_sound(&next);
}

#[test]
fn a_terminated_process_is_gone_within_two_samples() {
    for signal in [1, 2, 15] {
        let (mut simulation, first) = busy_host();
        let identity = first.simulated_processes[0].process.identity;
        assert_eq!(simulation.signal(identity.pid, identity.start_ticks, signal), SimulatedSignal::Delivered);
        samples(&mut simulation, 1);
        let last = samples(&mut simulation, 1).remove(0);
        assert!(last.simulated_processes.iter().all(|one| one.process.identity != identity), "signal {signal}");
    }
}

#[test]
fn a_stopped_process_keeps_its_memory_and_ends_when_continued() {
    let (mut simulation, first) = busy_host();
    let identity = first.simulated_processes[0].process.identity;
    let state = |sample: &BackendSample| {
        sample.simulated_processes.iter().find(|one| one.process.identity == identity).map(|one| one.process.state)
    };
    simulation.signal(identity.pid, identity.start_ticks, 19);
    simulation.signal(identity.pid, identity.start_ticks, 15);
    let stopped = samples(&mut simulation, 3).remove(2);
    assert_eq!(state(&stopped), Some(ProcessState::Stopped));
    assert!(uses_of(&stopped, identity.pid) > 0);
    simulation.signal(identity.pid, identity.start_ticks, 18);
    assert_eq!(state(&samples(&mut simulation, 2).remove(1)), None);
}

#[test]
fn a_signal_to_another_process_hits_nothing() {
    let (mut simulation, first) = busy_host();
    let identity = first.simulated_processes[0].process.identity;
    assert_eq!(simulation.signal(identity.pid, identity.start_ticks + 1, 9), SimulatedSignal::OtherProcess);
    assert_eq!(simulation.signal(1, 0, 9), SimulatedSignal::NoSuchProcess);
    assert_eq!(simulation.signal(identity.pid, identity.start_ticks, 0), SimulatedSignal::Delivered);
    assert_eq!(simulation.signal(identity.pid, identity.start_ticks, 65), SimulatedSignal::InvalidSignal);
    assert_eq!(simulation.signal(identity.pid, identity.start_ticks, -1), SimulatedSignal::InvalidSignal);
    let next = simulation.tick(UNIX_EPOCH, false);
    assert!(uses_of(&next, identity.pid) > 0);
}

#[test]
fn demand_readings_are_taken_on_demand_only() {
    let (mut simulation, first) = busy_host();
    assert_eq!(first.devices[0].readings.pcie_tx_bytes_per_second, Err(Unknown::NotYet));
    let asked = simulation.tick(UNIX_EPOCH, true);
    assert!(asked.devices[0].readings.pcie_tx_bytes_per_second.is_ok());
}

#[test]
fn static_facts_are_shared_between_samples() {
    let (mut simulation, first) = busy_host();
    let second = simulation.tick(UNIX_EPOCH, false);
    assert!(std::sync::Arc::ptr_eq(&first.devices[0].info, &second.devices[0].info));
}

#[test]
fn one_process_may_use_several_devices() {
    let several = (0..20).any(|seed| {
        let sample = host("several", seed, 8).tick(UNIX_EPOCH, false);
        sample.simulated_processes.iter().any(|one| uses_of(&sample, one.process.identity.pid) > 1)
    });
    assert!(several);
}

/// Prints what a tick costs; no figure is asserted, for machines are busy.
#[test]
fn cost_of_a_tick() {
    let mut simulation = host("cost", 5, 8);
    let started = Instant::now();
    let count = 2000_u32;
    for _ in 0..count {
        std::hint::black_box(simulation.tick(UNIX_EPOCH, false));
    }
    println!("{:?} a device tick", started.elapsed() / count / 8);
}
