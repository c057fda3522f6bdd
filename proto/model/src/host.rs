//! A host: identity, and what is measured of the machine itself.

use std::collections::BTreeMap;
use std::time::SystemTime;

use crate::device::Backend;
use crate::reading::Reading;

/// The state of one backend on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendStatus {
    /// Which backend.
    pub backend: Backend,
    /// Driver version, as the vendor writes it.
    pub driver_version: Option<String>,
    /// Version of the vendor's management library.
    pub library_version: Option<String>,
    /// Highest CUDA version the driver supports, such as `13.0`.
    pub cuda_driver_version: Option<String>,
    /// Why it gives no readings now, for people; `None` while it works.
    pub problem: Option<String>,
}

/// What is measured of the machine itself.
#[derive(Debug, Clone, PartialEq)]
pub struct HostReadings {
    /// CPU use of all logical CPUs together, 0–100.
    pub cpu_percent: Reading<f64>,
    /// Memory in use: total less available.
    pub memory_used_bytes: Reading<u64>,
    /// Memory in all.
    pub memory_total_bytes: Reading<u64>,
    /// Swap in use.
    pub swap_used_bytes: Reading<u64>,
    /// Swap in all.
    pub swap_total_bytes: Reading<u64>,
    /// Load averages over 1, 5 and 15 minutes.
    pub load_averages: Reading<[f64; 3]>,
}

/// One host: who it is and how it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// Its name in the fleet: the name in its certificate and in the inventory.
    pub name: String,
    /// The kernel's boot id: changes at each boot.
    pub boot_id: String,
    /// When the kernel was booted.
    pub booted_at: SystemTime,
    /// Kernel release.
    pub kernel_version: String,
    /// Operating system, as `/etc/os-release` names it.
    pub os_name: String,
    /// Version of the agent that reports.
    pub agent_version: String,
    /// Logical CPUs.
    pub cpu_count: u32,
    /// Time between two samples, in milliseconds.
    pub sample_interval_ms: u32,
    /// True when the devices and processes are generated, not real.
    pub simulated: bool,
    /// False when the agent runs in its own pid namespace and cannot see every process.
    pub host_pid_namespace: bool,
    /// The backends, working or not.
    pub backends: Vec<BackendStatus>,
    /// Labels from the inventory, such as rack or pool.
    pub labels: BTreeMap<String, String>,
    /// What is measured of the machine.
    pub readings: HostReadings,
}
