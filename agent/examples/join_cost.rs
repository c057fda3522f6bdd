//! Prints what one tick of our own work costs, without any driver: joining and reading 16 and 64 processes on 8 devices.
//!
//!     cargo run --release -p gpufleet-agent --example join_cost
//!
//! The processes are `sleep`s of its own. CPU time is that of this thread, so other load on the machine matters little.

use std::io;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use gpufleet_agent::processes::UserNames;
use gpufleet_agent::sampler::Sampler;
use gpufleet_agent::{AgentSettings, BackendChoice, BackendOptions};
use gpufleet_backend::Worker;
use gpufleet_backend::sample::{BackendSample, PidUse};
use gpufleet_model::{ContextKind, Unknown, UseReadings};

/// Ticks measured, after as many to warm up.
const TICKS: u32 = 300;

/// Ends its processes when dropped.
struct Sleepers(Vec<Child>);

impl Sleepers {
    fn start(count: usize) -> io::Result<Self> {
        let mut sleepers = Self(Vec::new());
        for _ in 0..count {
            sleepers.0.push(Command::new("sleep").arg("600").spawn()?);
        }
        Ok(sleepers)
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // Nothing to do about one that cannot be ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[expect(clippy::print_stdout, reason = "printing is what this program is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let choice = BackendChoice::Simulated { devices: 8 };
    let worker = Worker::spawn(choice, BackendOptions::default(), Duration::from_secs(1))?;
    println!("{:>9} {:>12} {:>12} {:>12}", "processes", "CPU µs/tick", "wall p50 µs", "wall max µs");
    for count in [0, 16, 64] {
        let sleepers = Sleepers::start(count)?;
        let pids: Vec<u32> = sleepers.0.iter().map(Child::id).collect();
        let sample = sample(&worker, &pids);
        let mut sampler = Sampler::new(&AgentSettings::new("bench"), false, UserNames::new());
        for _ in 0..TICKS {
            sampler.sample(&sample);
        }
        let mut walls = Vec::new();
        let cpu_before = thread_cpu_time();
        for _ in 0..TICKS {
            let start = Instant::now();
            sampler.sample(&sample);
            walls.push(start.elapsed().as_micros());
        }
        let cpu = thread_cpu_time().saturating_sub(cpu_before) / TICKS;
        walls.sort_unstable();
        let (middle, most) = (walls.get(walls.len() / 2).copied(), walls.last().copied());
        let (middle, most) = (middle.unwrap_or_default(), most.unwrap_or_default());
        println!("{count:>9} {:>12} {middle:>12} {most:>12}", cpu.as_micros());
    }
    Ok(())
}

/// What a driver says when each process uses one of the devices.
fn sample(worker: &Worker, pids: &[u32]) -> BackendSample {
    let mut sample = (*worker.latest()).clone();
    sample.simulated_processes.clear();
    let devices = sample.devices.len();
    for (place, device) in sample.devices.iter_mut().enumerate() {
        let of_it = pids.iter().enumerate().filter(|(turn, _)| turn % devices == place);
        let device_use = |(_, pid): (usize, &u32)| PidUse {
            pid: *pid,
            kind: ContextKind::Compute,
            gpu_instance_id: None,
            compute_instance_id: None,
            readings: UseReadings::unknown(Unknown::NotSupported),
        };
        device.uses = Ok(of_it.map(device_use).collect());
    }
    sample
}

fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), nanos)
}
