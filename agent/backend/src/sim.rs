//! The simulated backend: a host that does not exist, for tests, demonstrations and benches.
//!
//! In: a seed, the host's name, a number of devices. Out: one [`BackendSample`] per [`Simulation::tick`]. Everything
//! is a function of the inputs and of the number of ticks so far; the wall clock only stamps the samples. Nothing
//! blocks and there is no thread, so thousands of them fit in one process. Invariants: on every device, memory used +
//! free + reserved = total, and used = the sum over its processes + a fixed overhead; no pid is used twice in a row.

mod device;
mod hardware;
mod process;
mod workload;

use std::time::{Duration, SystemTime};

use gpufleet_model::{Backend, BackendStatus};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use crate::sample::{BackendSample, PidUse, RoundCost, SimulatedProcess};
use crate::signal::SimulatedSignal;
use device::SimulatedDevice;
use hardware::Hardware;
use process::RunningProcess;
use workload::Scheduler;

/// Host memory of every simulated host.
pub const HOST_MEMORY_BYTES: u64 = 2 << 40;

/// A simulated host.
#[derive(Debug)]
pub struct Simulation {
    rng: Xoshiro256PlusPlus,
    interval: Duration,
    slow_ticks: u64,
    ticks: u64,
    hardware: &'static Hardware,
    devices: Vec<SimulatedDevice>,
    processes: Vec<RunningProcess>,
    scheduler: Scheduler,
}

impl Simulation {
    /// A host of `device_count` devices, all alike. `started_at` is the wall-clock time of tick 0; it shows in the
    /// start times of processes and nowhere else.
    pub fn new(
        host_name: &str,
        seed: u64,
        device_count: u32,
        interval: Duration,
        slow_interval: Duration,
        started_at: SystemTime,
    ) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ fingerprint(host_name));
        let hardware = Hardware::pick(&mut rng);
        let devices: Vec<_> =
            (0..device_count).map(|index| SimulatedDevice::new(index, host_name, hardware, &mut rng)).collect();
        let interval = interval.max(Duration::from_millis(1));
        let mut scheduler = Scheduler::new(interval, started_at, &mut rng);
        let mut processes = Vec::new();
        scheduler.fill(&devices, &mut processes, &mut rng);
        let slow_ticks = u64::try_from(slow_interval.as_millis() / interval.as_millis()).unwrap_or(1).max(1);
        Self { rng, interval, slow_ticks, ticks: 0, hardware, devices, processes, scheduler }
    }

    /// Lets one interval pass and says how things are then. Readings of the demand tier are taken only with `demand`.
    pub fn tick(&mut self, now: SystemTime, demand: bool) -> BackendSample {
        for process in &mut self.processes {
            process.step(self.ticks, self.interval, &mut self.rng);
        }
        self.processes.retain(|process| !process.is_gone());
        if self.ticks > 0 {
            self.scheduler.start_some(self.ticks, &self.devices, &mut self.processes, &mut self.rng);
        }

        let mut uses: Vec<Vec<PidUse>> = vec![Vec::new(); self.devices.len()];
        for process in &self.processes {
            process.add_uses(&mut uses);
        }
        let (ticks, slow_ticks) = (self.ticks, self.slow_ticks);
        let devices = self
            .devices
            .iter_mut()
            .zip(uses)
            .map(|(device, uses)| {
                let slow = ticks == 0 || (ticks + u64::from(device.index())).is_multiple_of(slow_ticks);
                device.step(uses, self.interval, slow, demand, &mut self.rng)
            })
            .collect();
        let simulated_processes =
            self.processes.iter().map(|process| SimulatedProcess { process: process.to_model() }).collect();
        self.ticks += 1;
        BackendSample {
            sampled_at: now,
            status: self.status(),
            devices,
            simulated_processes,
            errors: Vec::new(),
            cost: RoundCost::default(),
        }
    }

    /// Delivers a signal to the process with this pid, if it started at `start_ticks`. Its effect shows in the next
    /// samples: a process that ends is gone, and its device memory free, within two ticks.
    pub fn signal(&mut self, pid: u32, start_ticks: u64, signal: i32) -> SimulatedSignal {
        let Some(process) = self.processes.iter_mut().find(|process| process.identity.pid == pid) else {
            return SimulatedSignal::NoSuchProcess;
        };
        if process.identity.start_ticks != start_ticks {
            return SimulatedSignal::OtherProcess;
        }
        process.signal(signal)
    }

    fn status(&self) -> BackendStatus {
        BackendStatus {
            backend: Backend::Simulated,
            driver_version: Some(String::from("simulated")),
            library_version: Some(format!("simulated {}", env!("CARGO_PKG_VERSION"))),
            cuda_driver_version: Some(self.hardware.cuda_version.to_owned()),
            problem: None,
        }
    }
}

/// FNV-1a: the same for a name on every machine and in every release, which the standard hasher does not promise.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests;
