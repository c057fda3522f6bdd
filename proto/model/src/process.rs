//! Processes: one host process, and its use of each device.

use std::sync::Arc;
use std::time::SystemTime;

use crate::device::DeviceKey;
use crate::fields::{ProcessReadings, UseReadings};

/// What pins a process on one boot of one host. Wall-clock start times shift when clocks step; ticks do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessIdentity {
    /// Process id in the host's pid namespace.
    pub pid: u32,
    /// Start time in clock ticks since boot (field 22 of `/proc/PID/stat`). 0 when it could not be read.
    pub start_ticks: u64,
}

/// What the agent can say of a process that the driver reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Visibility {
    /// It was read.
    Visible,
    /// It is in another pid namespace: the driver names a pid the agent cannot see.
    NotVisible,
    /// It exists, and the kernel lets the agent read none of it.
    AccessDenied,
    /// It ended between the driver's answer and the agent's look.
    Exited,
}

/// The scheduling state of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProcessState {
    /// On a CPU or ready.
    Running,
    /// Waiting, can be woken.
    Sleeping,
    /// Waiting in the kernel, cannot be woken.
    DiskSleep,
    /// Stopped by a signal or a tracer.
    Stopped,
    /// Ended, not yet reaped; may still hold device memory.
    Zombie,
    /// Idle kernel thread.
    Idle,
    /// Not known: see the visibility.
    Unknown,
}

impl ProcessState {
    /// The name used in JSON and tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Sleeping => "sleeping",
            Self::DiskSleep => "disk-sleep",
            Self::Stopped => "stopped",
            Self::Zombie => "zombie",
            Self::Idle => "idle",
            Self::Unknown => "unknown",
        }
    }
}

impl Visibility {
    /// The name used in JSON and tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Visible => "visible",
            Self::NotVisible => "not-visible",
            Self::AccessDenied => "access-denied",
            Self::Exited => "exited",
        }
    }
}

/// The kind of context a process holds on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ContextKind {
    /// The driver does not say.
    Unknown,
    /// Compute (CUDA).
    Compute,
    /// Graphics.
    Graphics,
    /// Both.
    ComputeAndGraphics,
}

impl ContextKind {
    /// The letters people know from `nvidia-smi`: `C`, `G`, `C+G`; `-` when not known.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "-",
            Self::Compute => "C",
            Self::Graphics => "G",
            Self::ComputeAndGraphics => "C+G",
        }
    }
}

/// What rarely changes in a process's life (it may at `exec` or `setuid`). Sent when it changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessInfo {
    /// What the agent can say of it.
    pub visibility: Visibility,
    /// Parent's pid.
    pub parent_pid: Option<u32>,
    /// Real user id.
    pub user_id: Option<u32>,
    /// User name; the number as text when it has no name or the name service has not answered yet.
    pub user: Option<String>,
    /// The kernel's short name, at most 15 bytes.
    pub name: String,
    /// The argument list, byte for byte. Empty for kernel threads and zombies.
    pub arguments: Vec<Vec<u8>>,
    /// When it started, by the wall clock; for display only.
    pub started_at: Option<SystemTime>,
    /// True for a kernel thread.
    pub kernel_thread: bool,
    /// Control group path (v2), or the path of the first v1 hierarchy.
    pub cgroup: Option<String>,
    /// systemd unit, from the control group.
    pub systemd_unit: Option<String>,
    /// Container id, from the control group.
    pub container_id: Option<String>,
    /// Kubernetes pod UID, from the control group.
    pub pod_uid: Option<String>,
    /// Slurm job id, from the control group.
    pub slurm_job_id: Option<String>,
    /// Slurm step, from the control group.
    pub slurm_step: Option<String>,
}

/// One process on one device.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceUse {
    /// The device.
    pub device: DeviceKey,
    /// The kind of context.
    pub kind: ContextKind,
    /// GPU instance id, with MIG.
    pub gpu_instance_id: Option<u32>,
    /// Compute instance id, with MIG.
    pub compute_instance_id: Option<u32>,
    /// What is measured of this use.
    pub readings: UseReadings,
}

/// One process at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    /// What pins it.
    pub identity: ProcessIdentity,
    /// What rarely changes.
    pub info: Arc<ProcessInfo>,
    /// Scheduling state.
    pub state: ProcessState,
    /// What the host measures.
    pub readings: ProcessReadings,
    /// Its use of devices, in order of device key; empty for a process without any.
    pub uses: Vec<DeviceUse>,
}
