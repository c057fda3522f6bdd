//! The host itself: facts that are read once, and readings of the machine.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant, SystemTime};

use gpufleet_model::{HostReadings, Reading, Unknown};
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

/// Inode of the pid namespace that the kernel starts with (`PROC_PID_INIT_INO`).
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// What does not change while the agent runs.
#[derive(Debug, Clone)]
pub(crate) struct HostFacts {
    pub(crate) boot_id: String,
    pub(crate) booted_at: SystemTime,
    pub(crate) kernel_version: String,
    pub(crate) os_name: String,
    pub(crate) cpu_count: u32,
    /// False when the agent runs in a pid namespace of its own and cannot see every process.
    pub(crate) host_pid_namespace: bool,
}

impl HostFacts {
    /// Reads them; what cannot be read stays empty.
    pub(crate) fn read(meter: &HostMeter) -> Self {
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let namespace = fs::metadata("/proc/self/ns/pid").map(|metadata| metadata.ino());
        Self {
            boot_id: boot_id.trim().to_owned(),
            booted_at: booted_at(),
            kernel_version: System::kernel_version().unwrap_or_default(),
            os_name: System::long_os_version().unwrap_or_default(),
            cpu_count: meter.cpu_count(),
            host_pid_namespace: namespace.is_ok_and(|inode| inode == INITIAL_PID_NAMESPACE),
        }
    }

    /// Those of a simulated host: never this machine's.
    pub(crate) fn simulated(host_name: &str) -> Self {
        Self {
            boot_id: format!("simulated-{host_name}"),
            booted_at: SystemTime::now(),
            kernel_version: "simulated".to_owned(),
            os_name: "Simulated host".to_owned(),
            cpu_count: 128,
            host_pid_namespace: true,
        }
    }
}

/// By the monotonic boot clock, so that a step of the wall clock moves it only as much.
fn booted_at() -> SystemTime {
    let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(up.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(up.tv_nsec).unwrap_or_default();
    SystemTime::now().checked_sub(Duration::new(seconds, nanos)).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Reads CPU, memory and load of the machine.
#[derive(Debug)]
pub(crate) struct HostMeter {
    /// `None` where the machine cannot be read at all.
    system: Option<System>,
    cpu_read_at: Instant,
    cpu_percent: Reading<f64>,
}

impl HostMeter {
    pub(crate) fn new() -> Self {
        let memory = MemoryRefreshKind::nothing().with_ram().with_swap();
        let cpu = CpuRefreshKind::nothing().with_usage();
        let kinds = RefreshKind::nothing().with_memory(memory).with_cpu(cpu);
        let system = System::new_with_specifics(kinds).ok();
        Self { system, cpu_read_at: Instant::now(), cpu_percent: Err(Unknown::NotYet) }
    }

    /// Logical CPUs of the machine, however few of them this process may use.
    pub(crate) fn cpu_count(&self) -> u32 {
        self.system.as_ref().map_or(0, |system| u32::try_from(system.cpus().len()).unwrap_or(u32::MAX))
    }

    /// Reads the machine. CPU use needs two readings some time apart and is not yet known before.
    pub(crate) fn read(&mut self) -> HostReadings {
        let Some(system) = &mut self.system else { return unknown_host_readings(Unknown::Failed) };
        system.refresh_memory();
        if self.cpu_read_at.elapsed() >= sysinfo::MINIMUM_CPU_UPDATE_INTERVAL {
            system.refresh_cpu_usage();
            self.cpu_read_at = Instant::now();
            let percent = f64::from(system.global_cpu_usage());
            self.cpu_percent = if percent.is_finite() { Ok(percent.clamp(0.0, 100.0)) } else { Err(Unknown::Failed) };
        }
        let total = system.total_memory();
        let known = |bytes: u64| if total > 0 { Ok(bytes) } else { Err(Unknown::Failed) };
        HostReadings {
            cpu_percent: self.cpu_percent,
            memory_used_bytes: known(total.saturating_sub(system.available_memory())),
            memory_total_bytes: known(total),
            swap_used_bytes: known(system.used_swap()),
            swap_total_bytes: known(system.total_swap()),
            load_averages: System::load_average()
                .map(|load| [load.one, load.five, load.fifteen])
                .map_err(|_| Unknown::Failed),
        }
    }
}

/// Readings of a machine of which nothing can be read, all for the same reason.
pub(crate) const fn unknown_host_readings(reason: Unknown) -> HostReadings {
    HostReadings {
        cpu_percent: Err(reason),
        memory_used_bytes: Err(reason),
        memory_total_bytes: Err(reason),
        swap_used_bytes: Err(reason),
        swap_total_bytes: Err(reason),
        load_averages: Err(reason),
    }
}
