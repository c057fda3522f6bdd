//! Health of this host's devices: snapshots and events in, verdicts out.
//!
//! [`HealthState`] is the newest snapshot with each device's verdict; it is published whole through a watch channel, so
//! the RPCs, the local socket and the metrics always speak of one moment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpufleet_model::health::DeviceHealth;
use gpufleet_model::{Device, DeviceKey, HostSnapshot};

mod judging;
pub mod socket;

pub(crate) use judging::Judging;
pub use judging::{Judgement, JudgingSettings};

/// Samples that may be missed before a verdict is stale.
const STALE_AFTER_INTERVALS: u32 = 3;

/// The newest snapshot and the verdicts on it. Immutable once made.
#[derive(Debug)]
pub struct HealthState {
    /// What was judged.
    pub snapshot: Arc<HostSnapshot>,
    /// The verdict on each device of the snapshot.
    pub health: Arc<BTreeMap<DeviceKey, DeviceHealth>>,
    /// When the snapshot was taken, by the monotonic clock.
    pub sampled: Instant,
}

impl HealthState {
    /// Age of the snapshot.
    pub fn age(&self) -> Duration {
        self.sampled.elapsed()
    }

    /// Whether so many samples were missed that the verdicts say nothing of now.
    pub fn is_stale(&self) -> bool {
        let interval = Duration::from_millis(self.snapshot.host.sample_interval_ms.into());
        self.age() > interval * STALE_AFTER_INTERVALS
    }

    /// The physical devices with their verdicts, in order of key.
    pub fn physical(&self) -> impl Iterator<Item = (&Device, &DeviceHealth)> {
        let physical = self.snapshot.devices.values().filter(|device| device.info.mig.is_none());
        physical.filter_map(|device| Some((&**device, self.health.get(&device.key)?)))
    }

    /// The physical device with the driver's index `index`.
    pub fn by_index(&self, index: u32) -> Option<(&Device, &DeviceHealth)> {
        self.physical().find(|(device, _)| device.info.index == index)
    }
}
