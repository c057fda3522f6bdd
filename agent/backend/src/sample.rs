//! What a backend gives each tick.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gpufleet_model::{BackendStatus, ContextKind, DeviceInfo, DeviceReadings, DeviceStatus, UseReadings};

/// One round of one backend. Immutable once made.
#[derive(Debug, Clone, PartialEq)]
pub struct BackendSample {
    /// When the round ended.
    pub sampled_at: SystemTime,
    /// Versions, and why there are no readings if there are none.
    pub status: BackendStatus,
    /// Every device, lost ones included, in the driver's order.
    pub devices: Vec<DeviceSample>,
    /// Processes the backend itself knows everything about: only a simulated backend has any.
    pub simulated_processes: Vec<SimulatedProcess>,
    /// The newest errors that the driver reported, oldest first. They stay for a while, so that a receiver that misses a
    /// sample misses no error; each has a number of its own.
    pub errors: Vec<XidError>,
    /// What the round cost.
    pub cost: RoundCost,
}

/// An XID error that the driver reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XidError {
    /// Counts the errors since the backend started, from 1.
    pub number: u64,
    /// The device.
    pub uuid: String,
    /// The code.
    pub xid: u32,
    /// When it was received.
    pub occurred_at: SystemTime,
}

/// What one round cost, so that the driver's share can be told from ours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RoundCost {
    /// Wall time spent inside calls of the vendor library.
    pub driver_time: Duration,
    /// CPU time of the backend's thread, calls of the vendor library included.
    pub thread_cpu_time: Duration,
    /// How many calls of the vendor library were made.
    pub driver_calls: u32,
}

/// One device in one round.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceSample {
    /// What does not change; the same `Arc` as long as it does not.
    pub info: Arc<DeviceInfo>,
    /// Whether it answers.
    pub status: DeviceStatus,
    /// What was measured.
    pub readings: DeviceReadings,
    /// Who uses it; one entry per pid. `Err` when the driver did not say.
    pub uses: Result<Vec<PidUse>, gpufleet_model::Unknown>,
}

/// One process on one device, as the driver names it.
#[derive(Debug, Clone, PartialEq)]
pub struct PidUse {
    /// Process id, in the pid namespace the driver counts in.
    pub pid: u32,
    /// The kind of context.
    pub kind: ContextKind,
    /// GPU instance id, with MIG.
    pub gpu_instance_id: Option<u32>,
    /// Compute instance id, with MIG.
    pub compute_instance_id: Option<u32>,
    /// What was measured.
    pub readings: UseReadings,
}

/// A process that exists only in a simulation; its uses are in the devices.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedProcess {
    /// Identity, facts, state and host readings. Its uses are empty here: the sampler joins them by pid.
    pub process: gpufleet_model::Process,
}

impl BackendSample {
    /// A sample without any device.
    pub fn empty(sampled_at: SystemTime, status: BackendStatus) -> Self {
        Self {
            sampled_at,
            status,
            devices: Vec::new(),
            simulated_processes: Vec::new(),
            errors: Vec::new(),
            cost: RoundCost::default(),
        }
    }
}
