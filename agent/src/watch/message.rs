//! The kinds of stream: what of a snapshot each is about, and its message.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpufleet_model::{HostDelta, HostSnapshot};
use gpufleet_proto::convert::{encode_devices, encode_host_response, encode_processes, position};
use gpufleet_proto::v1::{self, ProcessScope, WatchPhase};

use crate::sampling::Sampling;

/// A kind of stream.
pub(crate) trait Messages: Send + Sync + 'static {
    /// Its message.
    type Message: Send + 'static;

    /// The part of a snapshot that the stream is about.
    fn select(
        &self,
        sampling: &Sampling,
        snapshot: &Arc<HostSnapshot>,
    ) -> impl Future<Output = Arc<HostSnapshot>> + Send;

    /// A message. `health` are the verdicts that changed.
    fn message(
        &self,
        delta: &HostDelta,
        health: Vec<v1::DeviceHealth>,
        phase: WatchPhase,
        coalesced: u64,
    ) -> Self::Message;
}

/// `WatchHost`: everything.
pub(crate) struct HostMessages;

impl Messages for HostMessages {
    type Message = v1::WatchHostResponse;

    async fn select(&self, _sampling: &Sampling, snapshot: &Arc<HostSnapshot>) -> Arc<HostSnapshot> {
        Arc::clone(snapshot)
    }

    fn message(
        &self,
        delta: &HostDelta,
        health: Vec<v1::DeviceHealth>,
        phase: WatchPhase,
        coalesced: u64,
    ) -> v1::WatchHostResponse {
        v1::WatchHostResponse { health, ..encode_host_response(delta, phase, coalesced) }
    }
}

/// `WatchDevices`.
pub(crate) struct DeviceMessages;

impl Messages for DeviceMessages {
    type Message = v1::WatchDevicesResponse;

    async fn select(&self, _sampling: &Sampling, snapshot: &Arc<HostSnapshot>) -> Arc<HostSnapshot> {
        Arc::new(HostSnapshot { processes: BTreeMap::new(), ..(**snapshot).clone() })
    }

    fn message(
        &self,
        delta: &HostDelta,
        _health: Vec<v1::DeviceHealth>,
        phase: WatchPhase,
        coalesced: u64,
    ) -> v1::WatchDevicesResponse {
        v1::WatchDevicesResponse {
            position: Some(position(phase, delta.sequence, delta.sampled_at, coalesced)),
            devices: encode_devices(delta),
        }
    }
}

/// `WatchProcesses`.
pub(crate) struct ProcessMessages {
    pub(crate) scope: ProcessScope,
}

impl ProcessMessages {
    /// The snapshot with the processes that the scope means.
    pub(crate) async fn in_scope(
        scope: ProcessScope,
        sampling: &Sampling,
        snapshot: &Arc<HostSnapshot>,
    ) -> Arc<HostSnapshot> {
        let every = match scope {
            ProcessScope::All => true,
            ProcessScope::Device => false,
            ProcessScope::Unspecified => snapshot.devices.is_empty(),
        };
        if every { sampling.with_every_process(snapshot).await } else { Arc::clone(snapshot) }
    }
}

impl Messages for ProcessMessages {
    type Message = v1::WatchProcessesResponse;

    async fn select(&self, sampling: &Sampling, snapshot: &Arc<HostSnapshot>) -> Arc<HostSnapshot> {
        let selected = Self::in_scope(self.scope, sampling, snapshot).await;
        Arc::new(HostSnapshot { devices: BTreeMap::new(), ..(*selected).clone() })
    }

    fn message(
        &self,
        delta: &HostDelta,
        _health: Vec<v1::DeviceHealth>,
        phase: WatchPhase,
        coalesced: u64,
    ) -> v1::WatchProcessesResponse {
        v1::WatchProcessesResponse {
            position: Some(position(phase, delta.sequence, delta.sampled_at, coalesced)),
            processes: encode_processes(delta),
        }
    }
}

/// `WatchHealth`: verdicts alone.
pub(crate) struct HealthMessages {
    /// Devices meant; empty for all.
    pub(crate) uuids: Vec<String>,
}

impl HealthMessages {
    pub(crate) fn wants(&self, health: &v1::DeviceHealth) -> bool {
        self.uuids.is_empty() || self.uuids.contains(&health.device_uuid)
    }
}

impl Messages for HealthMessages {
    type Message = v1::WatchHealthResponse;

    async fn select(&self, _sampling: &Sampling, snapshot: &Arc<HostSnapshot>) -> Arc<HostSnapshot> {
        let (devices, processes) = (BTreeMap::new(), BTreeMap::new());
        Arc::new(HostSnapshot { devices, processes, ..(**snapshot).clone() })
    }

    fn message(
        &self,
        delta: &HostDelta,
        health: Vec<v1::DeviceHealth>,
        phase: WatchPhase,
        coalesced: u64,
    ) -> v1::WatchHealthResponse {
        v1::WatchHealthResponse {
            position: Some(position(phase, delta.sequence, delta.sampled_at, coalesced)),
            devices: health.into_iter().filter(|health| self.wants(health)).collect(),
        }
    }
}
