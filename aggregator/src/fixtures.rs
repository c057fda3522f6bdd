//! Hosts for unit tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gpufleet_model::{
    Backend, BackendStatus, ContextKind, Device, DeviceInfo, DeviceKey, DeviceLimits, DeviceReadings, DeviceStatus,
    DeviceUse, Host, HostReadings, HostSnapshot, Process, ProcessIdentity, ProcessInfo, ProcessReadings, ProcessState,
    Unknown, UseReadings, Visibility,
};

/// A host with so many devices and processes; process `n` (pid `100 + n`) of user `user{n % 2}` uses device
/// `n % devices`.
pub(crate) fn snapshot(name: &str, devices: u32, processes: u32) -> HostSnapshot {
    HostSnapshot {
        sequence: 1,
        sampled_at: SystemTime::UNIX_EPOCH + Duration::from_secs(1_000),
        host: Arc::new(host(name)),
        devices: (0..devices).map(|n| (DeviceKey(n), Arc::new(device(name, n)))).collect(),
        processes: (0..processes)
            .map(|n| process(100 + n, &format!("user{}", n % 2), (devices > 0).then(|| DeviceKey(n % devices))))
            .map(|process| (process.identity, Arc::new(process)))
            .collect(),
    }
}

fn host(name: &str) -> Host {
    Host {
        name: name.into(),
        boot_id: format!("boot-of-{name}"),
        booted_at: SystemTime::UNIX_EPOCH,
        kernel_version: "6.1".into(),
        os_name: "Debian".into(),
        agent_version: "0".into(),
        cpu_count: 8,
        sample_interval_ms: 1_000,
        simulated: true,
        host_pid_namespace: true,
        backends: vec![BackendStatus {
            backend: Backend::Simulated,
            driver_version: None,
            library_version: None,
            cuda_driver_version: None,
            problem: None,
        }],
        labels: BTreeMap::new(),
        readings: HostReadings {
            cpu_percent: Ok(1.0),
            memory_used_bytes: Ok(1),
            memory_total_bytes: Ok(2),
            swap_used_bytes: Err(Unknown::NotSupported),
            swap_total_bytes: Err(Unknown::NotSupported),
            load_averages: Err(Unknown::Failed),
        },
    }
}

/// Device `n`: `n * 10` percent busy, 100 W, `n` of 80 GiB in use.
pub(crate) fn device(host: &str, n: u32) -> Device {
    let mut readings = DeviceReadings::unknown(Unknown::NotSupported);
    readings.utilization_percent = Ok(n * 10);
    readings.memory_used_bytes = Ok(u64::from(n) << 30);
    readings.memory_total_bytes = Ok(80 << 30);
    readings.power_watts = Ok(100.0);
    Device {
        key: DeviceKey(n),
        info: Arc::new(DeviceInfo {
            backend: Backend::Simulated,
            index: n,
            uuid: format!("GPU-{host}-{n}"),
            name: "Simulated".into(),
            pci_bus_id: None,
            minor_number: None,
            serial: None,
            part_number: None,
            vbios_version: None,
            cuda_capability: None,
            core_count: None,
            mig: None,
            limits: DeviceLimits::default(),
        }),
        status: DeviceStatus::Ok,
        readings,
    }
}

/// A process, using one device or none.
pub(crate) fn process(pid: u32, user: &str, device: Option<DeviceKey>) -> Process {
    let mut readings = ProcessReadings::unknown(Unknown::NotYet);
    readings.host_memory_bytes = Ok(4096);
    Process {
        identity: ProcessIdentity { pid, start_ticks: u64::from(pid) * 10 },
        info: Arc::new(ProcessInfo {
            visibility: Visibility::Visible,
            parent_pid: Some(1),
            user_id: Some(1000),
            user: Some(user.into()),
            name: "python".into(),
            arguments: vec![b"python".to_vec(), b"train.py".to_vec()],
            started_at: None,
            kernel_thread: false,
            cgroup: None,
            systemd_unit: None,
            container_id: None,
            pod_uid: None,
            slurm_job_id: None,
            slurm_step: None,
        }),
        state: ProcessState::Running,
        readings,
        uses: device
            .map(|device| DeviceUse {
                device,
                kind: ContextKind::Compute,
                gpu_instance_id: None,
                compute_instance_id: None,
                readings: UseReadings::unknown(Unknown::NotSupported),
            })
            .into_iter()
            .collect(),
    }
}
