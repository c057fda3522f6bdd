//! Random snapshots of one small host: few devices, pids and values, so that two of them have much in common.

#![expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "any value is as good as another, and the sizes are fixed here"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gpufleet_model::{
    Backend, BackendStatus, ContextKind, Device, DeviceInfo, DeviceKey, DeviceLimits, DeviceReadings, DeviceStatus,
    DeviceUse, Host, HostReadings, HostSnapshot, MigInstance, Process, ProcessIdentity, ProcessInfo, ProcessReadings,
    ProcessState, Reading, Unit, Unknown, UseReadings, Visibility,
};
use proptest::prelude::*;

const REASONS: [Unknown; 6] =
    [Unknown::NotSupported, Unknown::NoPermission, Unknown::Lost, Unknown::Timeout, Unknown::NotYet, Unknown::Failed];

/// A value that can be true in its unit, from random bits.
trait Draw: Sized {
    fn draw(bits: u64, unit: Unit) -> Self;

    fn reading(bits: u64, unit: Unit) -> Reading<Self> {
        let rest = bits >> 2;
        if bits.is_multiple_of(4) { Err(pick(&REASONS, rest)) } else { Ok(Self::draw(rest, unit)) }
    }
}

impl Draw for u64 {
    fn draw(bits: u64, unit: Unit) -> Self {
        if unit == Unit::Percent { bits % 101 } else { bits }
    }
}

impl Draw for u32 {
    fn draw(bits: u64, unit: Unit) -> Self {
        u64::draw(bits, unit) as u32
    }
}

impl Draw for i32 {
    fn draw(bits: u64, _: Unit) -> Self {
        bits as i32 - 3
    }
}

impl Draw for f64 {
    fn draw(bits: u64, unit: Unit) -> Self {
        u64::draw(bits, unit) as f64 / 8.0
    }
}

impl Draw for bool {
    fn draw(bits: u64, _: Unit) -> Self {
        bits & 1 == 1
    }
}

macro_rules! readings_from_bits {
    ([$make:ident $readings:ident] $( $(#[$meta:meta])* $number:literal $field:ident : $ty:ty, $unit:ident, $tier:ident, $title:literal, $source:literal; )*) => {
        fn $make(bits: &[u64]) -> $readings {
            let mut bits = bits.iter().copied().cycle();
            $readings { $( $field: <$ty>::reading(bits.next().unwrap_or_default(), Unit::$unit), )* }
        }
    };
}

gpufleet_model::for_each_device_reading!(readings_from_bits, device_readings, DeviceReadings);
gpufleet_model::for_each_process_reading!(readings_from_bits, process_readings, ProcessReadings);
gpufleet_model::for_each_use_reading!(readings_from_bits, use_readings, UseReadings);

fn pick<T: Copy>(from: &[T], seed: u64) -> T {
    from[(seed % from.len() as u64) as usize]
}

fn some<T>(seed: u64, value: T) -> Option<T> {
    (seed & 1 == 1).then_some(value)
}

fn bits(count: usize) -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![9 => 0u64..12, 1 => any::<u64>()], count)
}

fn times() -> impl Strategy<Value = SystemTime> {
    (0u64..4_000_000_000, 0u32..1_000_000_000, any::<bool>()).prop_map(|(seconds, nanos, after)| {
        let length = Duration::new(seconds, nanos);
        if after { SystemTime::UNIX_EPOCH + length } else { SystemTime::UNIX_EPOCH - length }
    })
}

fn device_info(key: u32, seed: u64) -> DeviceInfo {
    DeviceInfo {
        backend: pick(&[Backend::Unknown, Backend::Nvml, Backend::Gmi, Backend::Simulated], seed),
        index: key,
        uuid: format!("GPU-{key}-{seed}"),
        name: "Simulated H200".to_owned(),
        pci_bus_id: some(seed, format!("00000000:{key:02X}:00.0")),
        minor_number: some(seed >> 1, key),
        serial: some(seed >> 1, "1650000000000".to_owned()),
        part_number: some(seed, String::new()),
        vbios_version: some(seed, "96.00".to_owned()),
        cuda_capability: some(seed, (9, 0)),
        core_count: some(seed >> 1, 132),
        mig: some(
            seed >> 1,
            MigInstance { parent_uuid: "GPU-0".to_owned(), gpu_instance_id: key, compute_instance_id: 0 },
        ),
        limits: DeviceLimits {
            shutdown_temperature_celsius: some(seed, -1),
            max_power_limit_watts: some(seed >> 1, 700.5),
            max_pcie_width: some(seed, 16),
            ..DeviceLimits::default()
        },
    }
}

fn devices() -> impl Strategy<Value = BTreeMap<DeviceKey, Arc<Device>>> {
    let facts = (0u64..4, 0u64..3, bits(DeviceReadings::FIELDS.len()));
    prop::collection::btree_map(0u32..4, facts, 0..4).prop_map(|all| {
        let device = |(key, (info, status, bits)): (u32, (u64, u64, Vec<u64>))| Device {
            key: DeviceKey(key),
            info: Arc::new(device_info(key, info)),
            status: pick(&[DeviceStatus::Ok, DeviceStatus::Unresponsive, DeviceStatus::Lost], status),
            readings: device_readings(&bits),
        };
        all.into_iter().map(device).map(|device| (device.key, Arc::new(device))).collect()
    })
}

fn process_info(seed: u64) -> ProcessInfo {
    use Visibility::{AccessDenied, Exited, NotVisible, Visible};
    ProcessInfo {
        visibility: pick(&[Visible, NotVisible, AccessDenied, Exited], seed),
        parent_pid: some(seed, 1),
        user_id: some(seed, 0),
        user: some(seed, "alice".to_owned()),
        name: "python".to_owned(),
        arguments: vec![b"python".to_vec(), vec![0xff, seed as u8], Vec::new()],
        started_at: some(seed >> 1, SystemTime::UNIX_EPOCH + Duration::new(seed, 5)),
        kernel_thread: seed & 1 == 1,
        cgroup: some(seed, "/user.slice".to_owned()),
        systemd_unit: some(seed >> 1, "a.service".to_owned()),
        container_id: some(seed, "c".to_owned()),
        pod_uid: some(seed >> 1, "p".to_owned()),
        slurm_job_id: some(seed, "17".to_owned()),
        slurm_step: some(seed >> 1, "0".to_owned()),
    }
}

fn device_use((device, seed, bits): (u32, u64, Vec<u64>)) -> DeviceUse {
    use ContextKind::{Compute, ComputeAndGraphics, Graphics, Unknown};
    DeviceUse {
        device: DeviceKey(device),
        kind: pick(&[Unknown, Compute, Graphics, ComputeAndGraphics], seed),
        gpu_instance_id: some(seed, 1),
        compute_instance_id: some(seed >> 1, 0),
        readings: use_readings(&bits),
    }
}

fn processes() -> impl Strategy<Value = BTreeMap<ProcessIdentity, Arc<Process>>> {
    use ProcessState::{DiskSleep, Idle, Running, Sleeping, Stopped, Unknown, Zombie};
    let uses = prop::collection::vec((0u32..4, 0u64..8, bits(UseReadings::FIELDS.len())), 0..3);
    let facts = (0u64..4, 0u64..7, bits(ProcessReadings::FIELDS.len()), uses);
    prop::collection::btree_map((1u32..5, 0u64..2), facts, 0..5).prop_map(|all| {
        let process = |((pid, start_ticks), (info, state, bits, uses)): (_, (_, _, Vec<u64>, Vec<_>))| Process {
            identity: ProcessIdentity { pid, start_ticks },
            info: Arc::new(process_info(info)),
            state: pick(&[Running, Sleeping, DiskSleep, Stopped, Zombie, Idle, Unknown], state),
            readings: process_readings(&bits),
            uses: uses.into_iter().map(device_use).collect(),
        };
        all.into_iter().map(process).map(|process| (process.identity, Arc::new(process))).collect()
    })
}

fn host((seed, booted_at, bits): (u64, SystemTime, Vec<u64>)) -> Host {
    let backend = BackendStatus {
        backend: Backend::Nvml,
        driver_version: some(seed, "580.1".to_owned()),
        library_version: some(seed >> 1, String::new()),
        cuda_driver_version: some(seed, "13.0".to_owned()),
        problem: some(seed >> 1, "the library is not there".to_owned()),
    };
    let bytes = |at: usize| u64::reading(bits[at], Unit::Bytes);
    Host {
        name: "host1".to_owned(),
        boot_id: format!("boot-{seed}"),
        booted_at,
        kernel_version: "6.1".to_owned(),
        os_name: "Debian".to_owned(),
        agent_version: "0.1.0".to_owned(),
        cpu_count: seed as u32,
        sample_interval_ms: 1000 * (seed as u32 + 1) + 7,
        simulated: seed & 1 == 1,
        host_pid_namespace: seed & 2 == 2,
        backends: vec![backend; (seed % 3) as usize],
        labels: (0..seed % 3).map(|n| (format!("label{n}"), "é".to_owned())).collect(),
        readings: HostReadings {
            cpu_percent: f64::reading(bits[0], Unit::Percent),
            memory_used_bytes: bytes(1),
            memory_total_bytes: bytes(2),
            swap_used_bytes: bytes(3),
            swap_total_bytes: bytes(4),
            load_averages: f64::reading(bits[5], Unit::Count).map(|load| [load, 0.0, load * 2.0]),
        },
    }
}

/// Any snapshot of the host.
pub(crate) fn snapshots() -> impl Strategy<Value = HostSnapshot> {
    let hosts = (0u64..4, times(), bits(6)).prop_map(host);
    (any::<u64>(), times(), hosts, devices(), processes()).prop_map(
        |(sequence, sampled_at, host, devices, processes)| HostSnapshot {
            sequence,
            sampled_at,
            host: Arc::new(host),
            devices,
            processes,
        },
    )
}
