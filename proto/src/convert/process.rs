//! Processes: facts, state, device uses.

use gpufleet_model::{
    ContextKind, DeviceKey, DeviceUse, ProcessIdentity, ProcessInfo, ProcessState, Unknown, UseReadings, Visibility,
};

use super::{system_time, timestamp};
use crate::v1;

impl From<ProcessIdentity> for v1::ProcessIdentity {
    fn from(identity: ProcessIdentity) -> Self {
        Self { pid: identity.pid, start_ticks: identity.start_ticks }
    }
}

impl From<v1::ProcessIdentity> for ProcessIdentity {
    fn from(wire: v1::ProcessIdentity) -> Self {
        Self { pid: wire.pid, start_ticks: wire.start_ticks }
    }
}

fn visibility_to_wire(visibility: Visibility) -> v1::Visibility {
    match visibility {
        Visibility::Visible => v1::Visibility::Visible,
        Visibility::NotVisible => v1::Visibility::NotVisible,
        Visibility::AccessDenied => v1::Visibility::AccessDenied,
        Visibility::Exited => v1::Visibility::Exited,
        _ => v1::Visibility::Unspecified,
    }
}

/// A visibility that we do not know means that we cannot tell of the process.
fn visibility_from_wire(visibility: i32) -> Visibility {
    match v1::Visibility::try_from(visibility) {
        Ok(v1::Visibility::Visible) => Visibility::Visible,
        Ok(v1::Visibility::AccessDenied) => Visibility::AccessDenied,
        Ok(v1::Visibility::Exited) => Visibility::Exited,
        _ => Visibility::NotVisible,
    }
}

pub(super) fn state_to_wire(state: ProcessState) -> v1::ProcessState {
    match state {
        ProcessState::Running => v1::ProcessState::Running,
        ProcessState::Sleeping => v1::ProcessState::Sleeping,
        ProcessState::DiskSleep => v1::ProcessState::DiskSleep,
        ProcessState::Stopped => v1::ProcessState::Stopped,
        ProcessState::Zombie => v1::ProcessState::Zombie,
        ProcessState::Idle => v1::ProcessState::Idle,
        _ => v1::ProcessState::Unknown,
    }
}

/// `None` when the state has not changed.
pub(super) fn state_from_wire(state: i32) -> Option<ProcessState> {
    match v1::ProcessState::try_from(state) {
        Ok(v1::ProcessState::Unspecified) => None,
        Ok(v1::ProcessState::Running) => Some(ProcessState::Running),
        Ok(v1::ProcessState::Sleeping) => Some(ProcessState::Sleeping),
        Ok(v1::ProcessState::DiskSleep) => Some(ProcessState::DiskSleep),
        Ok(v1::ProcessState::Stopped) => Some(ProcessState::Stopped),
        Ok(v1::ProcessState::Zombie) => Some(ProcessState::Zombie),
        Ok(v1::ProcessState::Idle) => Some(ProcessState::Idle),
        _ => Some(ProcessState::Unknown),
    }
}

impl From<&ProcessInfo> for v1::ProcessInfo {
    fn from(info: &ProcessInfo) -> Self {
        Self {
            visibility: visibility_to_wire(info.visibility).into(),
            parent_pid: info.parent_pid,
            user_id: info.user_id,
            user: info.user.clone(),
            name: info.name.clone(),
            arguments: info.arguments.iter().map(|argument| argument.clone().into()).collect(),
            started_at: info.started_at.map(timestamp),
            kernel_thread: info.kernel_thread,
            cgroup: info.cgroup.clone(),
            systemd_unit: info.systemd_unit.clone(),
            container_id: info.container_id.clone(),
            pod_uid: info.pod_uid.clone(),
            slurm_job_id: info.slurm_job_id.clone(),
            slurm_step: info.slurm_step.clone(),
        }
    }
}

impl From<v1::ProcessInfo> for ProcessInfo {
    fn from(wire: v1::ProcessInfo) -> Self {
        Self {
            visibility: visibility_from_wire(wire.visibility),
            parent_pid: wire.parent_pid,
            user_id: wire.user_id,
            user: wire.user,
            name: wire.name,
            arguments: wire.arguments.into_iter().map(Vec::from).collect(),
            started_at: wire.started_at.and_then(system_time),
            kernel_thread: wire.kernel_thread,
            cgroup: wire.cgroup,
            systemd_unit: wire.systemd_unit,
            container_id: wire.container_id,
            pod_uid: wire.pod_uid,
            slurm_job_id: wire.slurm_job_id,
            slurm_step: wire.slurm_step,
        }
    }
}

fn kind_to_wire(kind: ContextKind) -> v1::ContextKind {
    match kind {
        ContextKind::Compute => v1::ContextKind::Compute,
        ContextKind::Graphics => v1::ContextKind::Graphics,
        ContextKind::ComputeAndGraphics => v1::ContextKind::ComputeAndGraphics,
        _ => v1::ContextKind::Unspecified,
    }
}

fn kind_from_wire(kind: i32) -> ContextKind {
    match v1::ContextKind::try_from(kind) {
        Ok(v1::ContextKind::Compute) => ContextKind::Compute,
        Ok(v1::ContextKind::Graphics) => ContextKind::Graphics,
        Ok(v1::ContextKind::ComputeAndGraphics) => ContextKind::ComputeAndGraphics,
        _ => ContextKind::Unknown,
    }
}

impl From<&DeviceUse> for v1::DeviceUse {
    fn from(device_use: &DeviceUse) -> Self {
        Self {
            device_key: device_use.device.0,
            kind: kind_to_wire(device_use.kind).into(),
            gpu_instance_id: device_use.gpu_instance_id,
            compute_instance_id: device_use.compute_instance_id,
            readings: Some((&device_use.readings).into()),
        }
    }
}

impl From<v1::DeviceUse> for DeviceUse {
    fn from(wire: v1::DeviceUse) -> Self {
        let unknown = UseReadings::unknown(Unknown::NotSupported);
        Self {
            device: DeviceKey(wire.device_key),
            kind: kind_from_wire(wire.kind),
            gpu_instance_id: wire.gpu_instance_id,
            compute_instance_id: wire.compute_instance_id,
            readings: wire.readings.as_ref().map_or(unknown, UseReadings::from),
        }
    }
}
