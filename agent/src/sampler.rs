//! Backend samples in, host snapshots out.
//!
//! Joins what the driver says (who is on which device) with what the operating system says (what the process is). Parts
//! that did not change share memory with the snapshot before, so differences are cheap to find. Synchronous and
//! blocking: the caller decides where it runs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use gpufleet_backend::sample::{BackendSample, DeviceSample, PidUse};
use gpufleet_model::{
    Backend, BackendStatus, Device, DeviceKey, DeviceUse, Host, HostReadings, HostSnapshot, Process, ProcessIdentity,
    Unknown,
};

use crate::host::{HostFacts, HostMeter, unknown_host_readings};
use crate::processes::{HostContext, ProcessTable, UserNames};
use crate::settings::AgentSettings;

/// Makes the snapshots of one host.
#[derive(Debug)]
pub struct Sampler {
    host_name: String,
    interval_ms: u32,
    facts: HostFacts,
    /// `None` for a simulated host: its machine does not exist.
    machine: Option<Machine>,
    keys: HashMap<String, DeviceKey>,
    newest: Option<Arc<HostSnapshot>>,
    sequence: u64,
}

#[derive(Debug)]
struct Machine {
    meter: HostMeter,
    processes: ProcessTable,
}

impl Sampler {
    /// A sampler that has seen nothing yet.
    pub fn new(settings: &AgentSettings, simulated: bool, users: UserNames) -> Self {
        let machine =
            (!simulated).then(|| Machine { meter: HostMeter::new(), processes: ProcessTable::for_few(users) });
        let facts = match &machine {
            Some(machine) => HostFacts::read(&machine.meter),
            None => HostFacts::simulated(&settings.host_name),
        };
        Self {
            host_name: settings.host_name.clone(),
            interval_ms: u32::try_from(settings.interval.as_millis()).unwrap_or(u32::MAX),
            facts,
            machine,
            keys: HashMap::new(),
            newest: None,
            sequence: 0,
        }
    }

    /// The boot that processes are pinned to.
    pub fn boot_id(&self) -> &str {
        &self.facts.boot_id
    }

    /// Takes one sample.
    pub fn sample(&mut self, backend: &BackendSample) -> Arc<HostSnapshot> {
        let readings =
            self.machine.as_mut().map_or(unknown_host_readings(Unknown::NotSupported), |machine| machine.meter.read());
        let uses = self.uses(backend);
        let processes = self.processes(backend, uses, &readings);
        let snapshot = HostSnapshot {
            sequence: self.sequence + 1,
            sampled_at: backend.sampled_at,
            host: self.host(backend, readings),
            devices: self.devices(backend),
            processes: self.shared(processes),
        };
        self.sequence += 1;
        let snapshot = Arc::new(snapshot);
        self.newest = Some(Arc::clone(&snapshot));
        snapshot
    }

    fn host(&self, backend: &BackendSample, readings: HostReadings) -> Arc<Host> {
        // A vendor whose library is not installed is no news on a host without such devices.
        let status: Vec<BackendStatus> = vec![backend.status.clone()];
        Arc::new(Host {
            name: self.host_name.clone(),
            boot_id: self.facts.boot_id.clone(),
            booted_at: self.facts.booted_at,
            kernel_version: self.facts.kernel_version.clone(),
            os_name: self.facts.os_name.clone(),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            cpu_count: self.facts.cpu_count,
            sample_interval_ms: self.interval_ms,
            simulated: backend.status.backend == Backend::Simulated,
            host_pid_namespace: self.facts.host_pid_namespace,
            backends: status,
            labels: BTreeMap::new(),
            readings,
        })
    }

    /// A device keeps its key for as long as the agent runs, also when it is lost and comes back.
    fn key(&mut self, uuid: &str) -> DeviceKey {
        if let Some(key) = self.keys.get(uuid) {
            return *key;
        }
        let key = DeviceKey(u32::try_from(self.keys.len()).unwrap_or(u32::MAX));
        self.keys.insert(uuid.to_owned(), key);
        key
    }

    fn devices(&mut self, backend: &BackendSample) -> BTreeMap<DeviceKey, Arc<Device>> {
        let newest = self.newest.clone();
        let device = |sample: &DeviceSample| {
            let key = self.key(&sample.info.uuid);
            let (info, readings) = (Arc::clone(&sample.info), sample.readings.clone());
            let device = Device { key, info, status: sample.status, readings };
            let known = newest.as_ref().and_then(|snapshot| snapshot.devices.get(&key));
            let shared = known.filter(|known| ***known == device).map(Arc::clone);
            (key, shared.unwrap_or_else(|| Arc::new(device)))
        };
        backend.devices.iter().map(device).collect()
    }

    /// Uses by pid. A device whose driver does not say who uses it has none to show.
    fn uses(&mut self, backend: &BackendSample) -> BTreeMap<u32, Vec<DeviceUse>> {
        let mut uses: BTreeMap<u32, Vec<DeviceUse>> = BTreeMap::new();
        for device in &backend.devices {
            let key = self.key(&device.info.uuid);
            for pid_use in device.uses.iter().flatten() {
                uses.entry(pid_use.pid).or_default().push(device_use(key, pid_use));
            }
        }
        for list in uses.values_mut() {
            list.sort_by_key(|device_use| device_use.device);
        }
        uses
    }

    fn processes(
        &mut self,
        backend: &BackendSample,
        mut uses: BTreeMap<u32, Vec<DeviceUse>>,
        readings: &HostReadings,
    ) -> Vec<Process> {
        let mut processes = match &mut self.machine {
            None => backend.simulated_processes.iter().map(|simulated| simulated.process.clone()).collect(),
            Some(machine) => {
                let context = context(&self.facts, readings);
                machine.processes.read(uses.keys().copied(), &context)
            }
        };
        for process in &mut processes {
            process.uses = uses.remove(&process.identity.pid).unwrap_or_default();
        }
        processes
    }

    fn shared(&self, processes: Vec<Process>) -> BTreeMap<ProcessIdentity, Arc<Process>> {
        let known = |process: &Process| self.newest.as_ref()?.processes.get(&process.identity);
        let share = |process: Process| {
            let shared = known(&process).filter(|known| ***known == process).map(Arc::clone);
            (process.identity, shared.unwrap_or_else(|| Arc::new(process)))
        };
        processes.into_iter().map(share).collect()
    }

    /// A scanner of every process of this host; `None` for a simulated one.
    pub(crate) fn every_process(&self, users: UserNames) -> Option<EveryProcess> {
        self.machine.as_ref()?;
        Some(EveryProcess { facts: self.facts.clone(), table: ProcessTable::for_all(users) })
    }
}

fn context(facts: &HostFacts, readings: &HostReadings) -> HostContext {
    HostContext {
        booted_at: facts.booted_at,
        memory_total_bytes: readings.memory_total_bytes.ok(),
        host_pid_namespace: facts.host_pid_namespace,
    }
}

fn device_use(device: DeviceKey, pid_use: &PidUse) -> DeviceUse {
    DeviceUse {
        device,
        kind: pid_use.kind,
        gpu_instance_id: pid_use.gpu_instance_id,
        compute_instance_id: pid_use.compute_instance_id,
        readings: pid_use.readings.clone(),
    }
}

/// Reads every process of the host, beside the sampler: costly, and done only while somebody asks.
#[derive(Debug)]
pub(crate) struct EveryProcess {
    facts: HostFacts,
    table: ProcessTable,
}

impl EveryProcess {
    /// The snapshot with every process of the host in place of those on devices.
    pub(crate) fn scan(&mut self, snapshot: &HostSnapshot) -> HostSnapshot {
        let context = context(&self.facts, &snapshot.host.readings);
        let uses: HashMap<u32, &Process> =
            snapshot.processes.values().map(|process| (process.identity.pid, &**process)).collect();
        let pids = crate::processes::every_pid().unwrap_or_default();
        let mut processes: BTreeMap<_, _> = self
            .table
            .read(pids, &context)
            .into_iter()
            // What ended between the listing and the reading was nobody's business.
            .filter(|process| process.identity.start_ticks != 0 || uses.contains_key(&process.identity.pid))
            .map(|mut process| {
                let known = uses.get(&process.identity.pid).filter(|known| known.identity == process.identity);
                process.uses = known.map(|known| known.uses.clone()).unwrap_or_default();
                (process.identity, Arc::new(process))
            })
            .collect();
        // A process that the driver names and the scan did not meet stays.
        for (identity, process) in &snapshot.processes {
            processes.entry(*identity).or_insert_with(|| Arc::clone(process));
        }
        HostSnapshot { processes, ..snapshot.clone() }
    }
}
