//! What a reader of a watch stream knows: every message applied, by host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use gpufleet_model::{Device, DeviceStatus, Host, HostDelta, HostReadings, HostSnapshot, Unknown};
use gpufleet_proto::convert::{decode_devices, decode_processes};
use gpufleet_proto::v1;

/// What happened on one host. An agent tells of one host only and does not name it.
#[derive(Debug)]
pub struct Part {
    /// The host's name; empty from an agent.
    pub host: String,
    /// What was known of the host is void.
    pub reset: bool,
    /// What happened to devices.
    pub devices: Option<v1::DeviceChanges>,
    /// What happened to processes.
    pub processes: Option<v1::ProcessChanges>,
}

/// Hosts as told so far.
#[derive(Debug, Default)]
pub struct View {
    hosts: BTreeMap<String, HostSnapshot>,
}

impl View {
    /// Applies what happened. Fails the test when it changes what was never introduced.
    pub fn apply(&mut self, part: &Part) {
        if part.reset {
            self.hosts.remove(&part.host);
        }
        let host = self.hosts.entry(part.host.clone()).or_insert_with(nothing);
        let devices = part.devices.clone().map(decode_devices).transpose().expect("devices can be read");
        let processes = part.processes.clone().map(decode_processes).transpose().expect("processes can be read");
        let (devices, removed_devices) = devices.unwrap_or_default();
        let (processes, removed_processes) = processes.unwrap_or_default();
        let delta = HostDelta {
            sequence: 0,
            sampled_at: SystemTime::UNIX_EPOCH,
            host: None,
            devices,
            removed_devices,
            processes,
            removed_processes,
        };
        host.apply(&delta).expect("a change follows what it changes");
    }

    /// Every device.
    pub fn devices(&self) -> impl Iterator<Item = &Arc<Device>> {
        self.hosts.values().flat_map(|host| host.devices.values())
    }

    /// The physical device of a host, by its index.
    pub fn device(&self, host: &str, index: u32) -> Option<&Device> {
        let devices = self.hosts.get(host)?.devices.values();
        devices.map(Arc::as_ref).find(|device| device.info.index == index && device.info.mig.is_none())
    }

    /// The temperature of the physical device of this index.
    pub fn temperature(&self, index: u32) -> Option<i32> {
        let device = self.devices().find(|device| device.info.index == index && device.info.mig.is_none())?;
        device.readings.temperature_celsius.ok()
    }

    /// How many devices are lost.
    pub fn lost(&self) -> usize {
        self.devices().filter(|device| device.status == DeviceStatus::Lost && device.info.mig.is_none()).count()
    }

    /// What does not change from one sample to the next: static facts, status, temperature, by UUID.
    pub fn device_facts(&self) -> BTreeMap<String, String> {
        self.devices()
            .map(|device| {
                let facts = (&device.info, device.status, &device.readings.temperature_celsius);
                (device.info.uuid.clone(), format!("{facts:?}"))
            })
            .collect()
    }

    /// Pids of the processes.
    pub fn pids(&self) -> BTreeSet<u32> {
        self.hosts.values().flat_map(|host| host.processes.keys()).map(|identity| identity.pid).collect()
    }
}

/// A host of which nothing is known. Streams of parts of a host do not tell of the host itself.
fn nothing() -> HostSnapshot {
    HostSnapshot {
        sequence: 0,
        sampled_at: SystemTime::UNIX_EPOCH,
        host: Arc::new(Host {
            name: String::new(),
            boot_id: String::new(),
            booted_at: SystemTime::UNIX_EPOCH,
            kernel_version: String::new(),
            os_name: String::new(),
            agent_version: String::new(),
            cpu_count: 0,
            sample_interval_ms: 0,
            simulated: false,
            host_pid_namespace: true,
            backends: Vec::new(),
            labels: BTreeMap::new(),
            readings: HostReadings {
                cpu_percent: Err(Unknown::NotYet),
                memory_used_bytes: Err(Unknown::NotYet),
                memory_total_bytes: Err(Unknown::NotYet),
                swap_used_bytes: Err(Unknown::NotYet),
                swap_total_bytes: Err(Unknown::NotYet),
                load_averages: Err(Unknown::NotYet),
            },
        }),
        devices: BTreeMap::new(),
        processes: BTreeMap::new(),
    }
}
