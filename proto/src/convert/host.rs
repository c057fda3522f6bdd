//! Hosts.

use std::time::Duration;

use gpufleet_model::{BackendStatus, Host, HostReadings};

use super::device::{backend_from_wire, backend_to_wire};
use super::{DecodeError, duration, required_time, std_duration, timestamp};
use crate::v1;

impl From<&Host> for v1::Host {
    fn from(host: &Host) -> Self {
        let backend = |status: &BackendStatus| v1::BackendStatus {
            backend: backend_to_wire(status.backend).into(),
            driver_version: status.driver_version.clone(),
            library_version: status.library_version.clone(),
            cuda_driver_version: status.cuda_driver_version.clone(),
            problem: status.problem.clone(),
        };
        Self {
            name: host.name.clone(),
            boot_id: host.boot_id.clone(),
            booted_at: Some(timestamp(host.booted_at)),
            kernel_version: host.kernel_version.clone(),
            os_name: host.os_name.clone(),
            agent_version: host.agent_version.clone(),
            cpu_count: host.cpu_count,
            sample_interval: Some(duration(Duration::from_millis(host.sample_interval_ms.into()))),
            simulated: host.simulated,
            host_pid_namespace: host.host_pid_namespace,
            backends: host.backends.iter().map(backend).collect(),
            labels: host.labels.clone().into_iter().collect(),
            readings: Some((&host.readings).into()),
        }
    }
}

impl TryFrom<v1::Host> for Host {
    type Error = DecodeError;

    fn try_from(wire: v1::Host) -> Result<Self, DecodeError> {
        let backend = |status: v1::BackendStatus| BackendStatus {
            backend: backend_from_wire(status.backend),
            driver_version: status.driver_version,
            library_version: status.library_version,
            cuda_driver_version: status.cuda_driver_version,
            problem: status.problem,
        };
        let interval = wire.sample_interval.and_then(std_duration).ok_or(DecodeError::Missing("sample_interval"))?;
        Ok(Self {
            name: wire.name,
            boot_id: wire.boot_id,
            booted_at: required_time(wire.booted_at, "booted_at")?,
            kernel_version: wire.kernel_version,
            os_name: wire.os_name,
            agent_version: wire.agent_version,
            cpu_count: wire.cpu_count,
            sample_interval_ms: u32::try_from(interval.as_millis()).unwrap_or(u32::MAX),
            simulated: wire.simulated,
            host_pid_namespace: wire.host_pid_namespace,
            backends: wire.backends.into_iter().map(backend).collect(),
            labels: wire.labels.into_iter().collect(),
            readings: HostReadings::from(&wire.readings.unwrap_or_default()),
        })
    }
}
