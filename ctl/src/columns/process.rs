//! Columns of processes. A process is one row, however many devices it uses.

use std::time::{Duration, SystemTime};

use gpufleet_model::command::{display, escape_text};
use gpufleet_model::{Device, DeviceUse, Process, Reading, Unknown, human};

use super::device::column;
use super::{Cell, Column, Key, Record, Shown, bytes, load, reading};
use crate::view::HostView;

/// A process with its host.
#[derive(Clone, Copy)]
pub(crate) struct ProcessRow<'v> {
    pub(crate) host: &'v HostView,
    pub(crate) process: &'v Process,
}

impl Record for ProcessRow<'_> {
    fn is_old(&self) -> bool {
        self.host.is_old()
    }
}

/// The columns of processes.
pub(crate) const fn columns<'v>() -> [Column<ProcessRow<'v>>; 22] {
    [
        column!("HOST", "host", left, Always, up, |row| Cell::text(row.host.name.clone())),
        column!("GPU", "gpu", left, Always, up, gpus),
        column!("PID", "pid", right, Always, up, |row| {
            let pid = row.process.identity.pid;
            Cell::number(pid.into(), pid.to_string())
        }),
        column!("TYPE", "type", left, Always, up, kind),
        column!("USER", "user", left, Always, up, |row| Cell::optional(
            row.process.info.user.as_deref().map(escape_text)
        )),
        column!("GPU-MEM", "gpu-memory", right, Always, down, |row| bytes(gpu_memory(row.process))),
        column!("SM%", "sm", right, Always, down, |row| load(most(row.process, |used| used.readings.sm_percent))),
        column!("GMBW%", "memory-bandwidth", right, Always, down, |row| load(most(row.process, |used| {
            used.readings.memory_bandwidth_percent
        }))),
        column!("CPU%", "cpu", right, Always, down, |row| reading(row.process.readings.cpu_percent, |v| format!(
            "{v:.1}"
        ))),
        column!("MEM", "host-memory", right, Always, down, |row| bytes(row.process.readings.host_memory_bytes)),
        column!("TIME", "time", right, Always, down, running_time),
        column!("COMMAND", "command", left, Always, up, |row| Cell::text(display(row.process))),
        column!("ENC%", "encoder", right, Wide, down, |row| load(most(row.process, |used| used
            .readings
            .encoder_percent))),
        column!("DEC%", "decoder", right, Wide, down, |row| load(most(row.process, |used| used
            .readings
            .decoder_percent))),
        column!("STATE", "state", left, Wide, up, |row| Cell::text(state(row.process))),
        column!("MEM%", "host-memory-percent", right, Wide, down, |row| reading(
            row.process.readings.host_memory_percent,
            |v| format!("{v:.1}")
        )),
        column!("THREADS", "threads", right, Wide, down, |row| reading(row.process.readings.thread_count, |v| v
            .to_string())),
        column!("PPID", "parent", right, Wide, up, |row| {
            row.process.info.parent_pid.map_or_else(Cell::unknown, |pid| Cell::number(pid.into(), pid.to_string()))
        }),
        column!("CONTAINER", "container", left, Wide, up, |row| short_id(row.process.info.container_id.as_deref())),
        column!("POD", "pod", left, Wide, up, |row| none_is_dash(row.process.info.pod_uid.as_deref())),
        column!("JOB", "job", left, Wide, up, |row| none_is_dash(row.process.info.slurm_job_id.as_deref())),
        column!("UNIT", "unit", left, Wide, up, |row| none_is_dash(row.process.info.systemd_unit.as_deref())),
    ]
}

/// A process's use of a device, with the device.
pub(crate) fn uses<'v>(row: &ProcessRow<'v>) -> impl Iterator<Item = (&'v DeviceUse, Option<&'v Device>)> {
    let host = row.host;
    row.process.uses.iter().map(move |used| (used, host.devices.get(&used.device).map(|device| &**device)))
}

fn gpus(row: &ProcessRow<'_>) -> Cell {
    let indexes: Vec<String> = uses(row)
        .map(|(_, device)| match device {
            Some(device) => match &device.info.mig {
                Some(mig) => format!("{}:{}", device.info.index, mig.gpu_instance_id),
                None => device.info.index.to_string(),
            },
            None => "?".to_owned(),
        })
        .collect();
    if indexes.is_empty() {
        return Cell { text: "-".to_owned(), key: Key::Unknown, plain: String::new(), tone: super::Tone::Dim };
    }
    let first = uses(row).filter_map(|(_, device)| device).map(|device| device.info.index).min();
    Cell { key: first.map_or(Key::Unknown, |index| Key::Number(index.into())), ..Cell::text(indexes.join(",")) }
}

fn kind(row: &ProcessRow<'_>) -> Cell {
    let mut kinds: Vec<&str> = row.process.uses.iter().map(|used| used.kind.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.is_empty() { Cell { plain: String::new(), ..Cell::text("-") } } else { Cell::text(kinds.join(",")) }
}

/// Device memory over all uses; unknown when any is.
pub(crate) fn gpu_memory(process: &Process) -> Reading<u64> {
    if process.uses.is_empty() {
        return Err(Unknown::NotSupported);
    }
    process.uses.iter().try_fold(0u64, |sum, used| Ok(sum.saturating_add(used.readings.memory_used_bytes?)))
}

/// The highest over all uses; unknown when none is known.
fn most(process: &Process, of: impl Fn(&DeviceUse) -> Reading<u32>) -> Reading<u32> {
    process.uses.iter().filter_map(|used| of(used).ok()).max().ok_or(Unknown::NotSupported)
}

/// How long a process has run; `None` when its start is not known.
pub(crate) fn running(process: &Process) -> Option<Duration> {
    SystemTime::now().duration_since(process.info.started_at?).ok()
}

fn running_time(row: &ProcessRow<'_>) -> Cell {
    running(row.process).map_or_else(Cell::unknown, |length| Cell {
        plain: length.as_secs().to_string(),
        ..Cell::number(length.as_secs_f64(), human::duration(length))
    })
}

/// Scheduling state, or why there is none.
pub(crate) fn state(process: &Process) -> &'static str {
    match process.info.visibility {
        gpufleet_model::Visibility::Visible => process.state.as_str(),
        other => other.as_str(),
    }
}

fn none_is_dash(text: Option<&str>) -> Cell {
    match text {
        Some(text) => Cell::text(escape_text(text)),
        None => Cell { text: "-".to_owned(), ..Cell::unknown() },
    }
}

fn short_id(id: Option<&str>) -> Cell {
    match id {
        Some(id) => Cell { plain: id.to_owned(), ..Cell::text(id.chars().take(12).collect::<String>()) },
        None => none_is_dash(None),
    }
}
