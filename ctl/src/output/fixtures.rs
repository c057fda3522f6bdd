//! A view with everything that is awkward: unknown, stale, lost, MIG, several GPUs, wide and hidden characters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gpufleet_model::{
    Backend, BackendStatus, ContextKind, Device, DeviceInfo, DeviceKey, DeviceLimits, DeviceReadings, DeviceStatus,
    DeviceUse, Host, HostReadings, HostSnapshot, MigInstance, Process, ProcessIdentity, ProcessInfo, ProcessReadings,
    ProcessState, Unknown, UseReadings, Visibility,
};
use gpufleet_proto::v1;

use crate::view::{Event, View};

const GIB: u64 = 1 << 30;

fn device(key: u32, index: u32, name: &str, readings: DeviceReadings) -> Device {
    let info = DeviceInfo {
        backend: Backend::Nvml,
        index,
        uuid: format!("GPU-00000000-0000-4000-8000-00000000000{key}"),
        name: name.to_owned(),
        pci_bus_id: Some(format!("00000000:{:02X}:00.0", 16 + key)),
        minor_number: Some(index),
        serial: None,
        part_number: None,
        vbios_version: None,
        cuda_capability: Some((9, 0)),
        core_count: None,
        mig: None,
        limits: DeviceLimits {
            slowdown_temperature_celsius: Some(89),
            max_power_limit_watts: Some(1200.0),
            ..DeviceLimits::default()
        },
    };
    Device { key: DeviceKey(key), info: Arc::new(info), status: DeviceStatus::Ok, readings }
}

fn busy() -> DeviceReadings {
    DeviceReadings {
        utilization_percent: Ok(97),
        memory_utilization_percent: Ok(22),
        memory_used_bytes: Ok(120 * GIB),
        memory_free_bytes: Ok(20 * GIB),
        memory_reserved_bytes: Ok(644_939_776),
        memory_total_bytes: Ok(150_754_820_096),
        temperature_celsius: Ok(61),
        power_watts: Ok(1012.345),
        power_limit_watts: Ok(1200.0),
        performance_state: Ok(0),
        clock_event_reasons: Ok(4),
        sm_clock_mhz: Ok(1500),
        ecc_corrected_volatile: Ok(0),
        ecc_uncorrected_volatile: Ok(0),
        ecc_uncorrected_aggregate: Ok(1),
        remapped_rows_failed: Ok(false),
        remapped_rows_pending: Ok(false),
        pcie_generation: Ok(5),
        pcie_width: Ok(16),
        mig_mode_enabled: Ok(false),
        ..DeviceReadings::unknown(Unknown::NotSupported)
    }
}

fn process(pid: u32, user: &str, arguments: &[&str], uses: Vec<DeviceUse>) -> Process {
    let info = ProcessInfo {
        visibility: Visibility::Visible,
        parent_pid: Some(1),
        user_id: Some(1000),
        user: Some(user.to_owned()),
        name: "python3".to_owned(),
        arguments: arguments.iter().map(|argument| argument.as_bytes().to_vec()).collect(),
        // Not known, so that what is shown does not depend on now.
        started_at: None,
        kernel_thread: false,
        cgroup: None,
        systemd_unit: None,
        container_id: None,
        pod_uid: None,
        slurm_job_id: Some("4711".to_owned()),
        slurm_step: None,
    };
    let readings = ProcessReadings {
        cpu_percent: Ok(114.4),
        host_memory_bytes: Ok(741_572_608),
        host_memory_percent: Ok(0.6),
        cpu_time_seconds: Ok(12.5),
        thread_count: Ok(42),
    };
    let identity = ProcessIdentity { pid, start_ticks: 1000 + u64::from(pid) };
    Process { identity, info: Arc::new(info), state: ProcessState::Running, readings, uses }
}

fn used(device: u32, memory: u64, sm: u32) -> DeviceUse {
    let readings = UseReadings {
        memory_used_bytes: Ok(memory),
        sm_percent: Ok(sm),
        memory_bandwidth_percent: Ok(sm / 4),
        ..UseReadings::unknown(Unknown::NotSupported)
    };
    DeviceUse {
        device: DeviceKey(device),
        kind: ContextKind::Compute,
        gpu_instance_id: None,
        compute_instance_id: None,
        readings,
    }
}

fn snapshot(name: &str, devices: Vec<Device>, processes: Vec<Process>) -> HostSnapshot {
    let backend = BackendStatus {
        backend: Backend::Nvml,
        driver_version: Some("580.159.04".to_owned()),
        library_version: Some("13.580.159.04".to_owned()),
        cuda_driver_version: Some("13.0".to_owned()),
        problem: None,
    };
    let host = Host {
        name: name.to_owned(),
        boot_id: "11111111-2222-4333-8444-555555555555".to_owned(),
        booted_at: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        kernel_version: "6.1.0".to_owned(),
        os_name: "Linux (Debian 12)".to_owned(),
        agent_version: "0.1.0".to_owned(),
        cpu_count: 64,
        sample_interval_ms: 1000,
        simulated: false,
        host_pid_namespace: true,
        backends: vec![backend],
        labels: BTreeMap::new(),
        readings: HostReadings {
            cpu_percent: Ok(12.5),
            memory_used_bytes: Ok(100 * GIB),
            memory_total_bytes: Ok(512 * GIB),
            swap_used_bytes: Ok(0),
            swap_total_bytes: Ok(0),
            load_averages: Ok([1.5, 2.25, 3.0]),
        },
    };
    HostSnapshot {
        sequence: 7,
        sampled_at: SystemTime::UNIX_EPOCH,
        host: Arc::new(host),
        devices: devices.into_iter().map(|device| (device.key, Arc::new(device))).collect(),
        processes: processes.into_iter().map(|process| (process.identity, Arc::new(process))).collect(),
    }
}

/// One host with devices that are well, not readable and lost, and processes of every kind.
pub(crate) fn node1() -> HostSnapshot {
    let unknown = device(1, 1, "NVIDIA H200", DeviceReadings::unknown(Unknown::NoPermission));
    let mut lost = device(2, 2, "NVIDIA H200", DeviceReadings::unknown(Unknown::Lost));
    lost.status = DeviceStatus::Lost;
    let train = process(
        440,
        "alice",
        &["python3", "train.py", "--name", "a b"],
        vec![used(0, 60 * GIB, 97), used(1, 30 * GIB, 0)],
    );
    let mut memory_unknown = process(441, "bob", &["日本語のとても長い名前のプログラム"], vec![used(0, GIB, 0)]);
    memory_unknown.uses[0].readings.memory_used_bytes = Err(Unknown::NoPermission);
    let hidden = process(442, "carol", &["evil\u{1b}[2J\u{7}", "\u{202e}txt"], vec![used(0, 2 * GIB, 3)]);
    let mut zombie = process(443, "dave", &[], vec![used(0, 20 * GIB, 0)]);
    zombie.state = ProcessState::Zombie;
    let mut elsewhere = process(444, "erin", &[], vec![used(0, GIB, 0)]);
    let info = Arc::make_mut(&mut elsewhere.info);
    (info.visibility, info.user, info.slurm_job_id) = (Visibility::NotVisible, None, None);
    elsewhere.readings = ProcessReadings::unknown(Unknown::NotSupported);
    elsewhere.state = ProcessState::Unknown;
    let devices = vec![device(0, 0, "NVIDIA H200", busy()), unknown, lost];
    snapshot("node1", devices, vec![train, memory_unknown, hidden, zombie, elsewhere])
}

fn node2() -> HostSnapshot {
    let parent = device(3, 0, "NVIDIA A100-SXM4-80GB", DeviceReadings { mig_mode_enabled: Ok(true), ..busy() });
    let mut instance = device(
        4,
        0,
        "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
        DeviceReadings {
            memory_used_bytes: Ok(GIB),
            memory_total_bytes: Ok(10 * GIB),
            ..DeviceReadings::unknown(Unknown::NotSupported)
        },
    );
    let mig = MigInstance { parent_uuid: parent.info.uuid.clone(), gpu_instance_id: 7, compute_instance_id: 0 };
    Arc::make_mut(&mut instance.info).mig = Some(mig);
    snapshot("node2", vec![parent, instance], vec![process(9, "alice", &["./serve"], vec![used(4, GIB, 0)])])
}

/// What an aggregator says of a host.
pub(crate) fn connection(
    snapshot: Option<&HostSnapshot>,
    name: &str,
    state: v1::ConnectionState,
    age: Option<u64>,
) -> v1::HostConnection {
    let problem = match state {
        v1::ConnectionState::Connected => None,
        v1::ConnectionState::NeverSeen => Some("`node3:9460`: connection refused; nothing listens there".to_owned()),
        _ => Some("no sample for 42 s".to_owned()),
    };
    v1::HostConnection {
        name: name.to_owned(),
        address: format!("{name}:9460"),
        state: state.into(),
        sample_age: age.map(|seconds| prost_types::Duration { seconds: i64::try_from(seconds).unwrap(), nanos: 0 }),
        state_since: None,
        problem,
        host: snapshot.map(|snapshot| (&*snapshot.host).into()),
        labels: std::iter::once(("rack".to_owned(), "a1".to_owned())).collect(),
        device_count: None,
        process_count: None,
    }
}

/// A fleet of one fresh host, one stale host with MIG, and one that was never seen.
pub(crate) fn fleet() -> View {
    let mut view = View::new(true);
    view.apply(Event::Snapshot(Arc::new(node1()))).unwrap();
    view.apply(Event::Snapshot(Arc::new(node2()))).unwrap();
    let (one, two) = (node1(), node2());
    let upserts = vec![
        connection(Some(&one), "node1", v1::ConnectionState::Connected, Some(0)),
        connection(Some(&two), "node2", v1::ConnectionState::Stale, Some(42)),
        connection(None, "node3", v1::ConnectionState::NeverSeen, None),
    ];
    view.apply(Event::Hosts(v1::WatchFleetResponse { position: None, upserts, removed: Vec::new() })).unwrap();
    fixed(view)
}

/// One host without any device, and its processes.
pub(crate) fn without_devices() -> View {
    let mut view = View::new(false);
    let processes = vec![process(1, "root", &["/sbin/init"], Vec::new()), process(99, "alice", &["vim"], Vec::new())];
    view.apply(Event::Snapshot(Arc::new(snapshot("login1", Vec::new(), processes)))).unwrap();
    fixed(view)
}

/// One host with one process for each amount of device memory, which may be unknown.
pub(crate) fn with_memory(amounts: &[Option<u64>]) -> View {
    let mut processes = Vec::new();
    for (pid, amount) in (100..).zip(amounts) {
        let mut one = process(pid, "alice", &["work"], vec![used(0, 0, 0)]);
        one.uses[0].readings.memory_used_bytes = amount.ok_or(Unknown::NoPermission);
        processes.push(one);
    }
    let mut view = View::new(false);
    let devices = vec![device(0, 0, "NVIDIA H200", busy())];
    view.apply(Event::Snapshot(Arc::new(snapshot("node1", devices, processes)))).unwrap();
    view
}

/// At a fixed time, so that what is shown can be compared.
fn fixed(mut view: View) -> View {
    view.collected_at = SystemTime::UNIX_EPOCH + Duration::from_hours(490_162);
    view
}
