//! Columns of hosts.

use gpufleet_model::command::escape_text;
use gpufleet_model::{HostReadings, Reading};

use super::device::column;
use super::{Cell, Column, Record, Shown, Tone, age, bytes, reading, tone_of};
use crate::view::{Connection, HostView};

impl Record for &HostView {
    fn is_old(&self) -> bool {
        self.connection != Connection::Connected
    }
}

/// The columns of hosts.
pub(crate) const fn columns<'v>() -> [Column<&'v HostView>; 18] {
    [
        column!("HOST", "host", left, Always, up, |row| Cell::text(row.name.clone())),
        column!("STATE", "state", left, Always, up, |row| {
            let tone = if row.connection == Connection::Connected { Tone::Good } else { Tone::Bad };
            Cell::text(row.connection.as_str()).toned(tone)
        }),
        column!("AGE", "age", right, Always, down, |row| age(row.sample_age())),
        column!("GPUS", "gpus", right, Always, down, |row| count(row, row.devices.len())),
        column!("PROCS", "processes", right, Always, down, |row| count(row, row.processes.len())),
        column!("CPU%", "cpu", right, Always, down, |row| match readings(row).map(|readings| readings.cpu_percent) {
            Some(percent) => {
                let cell = reading(percent, |v| format!("{v:.1}"));
                percent.map_or(cell.clone(), |v| cell.toned(tone_of(v, 10.0, 75.0)))
            }
            None => Cell::unknown(),
        }),
        column!("MEM-USED", "memory-used", right, Always, down, |row| known(row, |readings| readings
            .memory_used_bytes)),
        column!("MEM-TOTAL", "memory-total", right, Always, down, |row| known(row, |readings| {
            readings.memory_total_bytes
        })),
        column!("LOAD", "load", right, Always, down, |row| load(row)),
        column!("DRIVER", "driver", left, Always, up, |row| driver(row)),
        column!("PROBLEM", "problem", left, Always, up, |row| problem(row)),
        column!("ADDRESS", "address", left, Wide, up, |row| Cell::optional(row.address.clone())),
        column!("KERNEL", "kernel", left, Wide, up, |row| Cell::optional(
            row.host.as_ref().map(|host| escape_text(&host.kernel_version).into_owned())
        )),
        column!("OS", "os", left, Wide, up, |row| Cell::optional(
            row.host.as_ref().map(|host| escape_text(&host.os_name).into_owned())
        )),
        column!("CPUS", "cpus", right, Wide, down, |row| {
            let cpus = row.host.as_ref().map(|host| host.cpu_count);
            cpus.map_or_else(Cell::unknown, |cpus| Cell::number(cpus.into(), cpus.to_string()))
        }),
        column!("AGENT", "agent-version", left, Wide, up, |row| Cell::optional(
            row.host.as_ref().map(|host| escape_text(&host.agent_version).into_owned())
        )),
        column!("SIMULATED", "simulated", left, Wide, up, |row| Cell::optional(
            row.host.as_ref().map(|host| if host.simulated { "yes" } else { "no" })
        )),
        column!("LABELS", "labels", left, Wide, up, |row| {
            let labels: Vec<String> = row.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            if labels.is_empty() {
                Cell { plain: String::new(), ..Cell::text("-") }
            } else {
                Cell::text(labels.join(","))
            }
        }),
    ]
}

fn readings(row: &HostView) -> Option<&HostReadings> {
    row.host.as_ref().map(|host| &host.readings)
}

/// A count of a host that was never seen is unknown, not zero.
#[expect(clippy::cast_precision_loss, reason = "for sorting")]
fn count(row: &HostView, count: usize) -> Cell {
    if row.host.is_some() { Cell::number(count as f64, count.to_string()) } else { Cell::unknown() }
}

fn known(row: &HostView, of: impl Fn(&HostReadings) -> Reading<u64>) -> Cell {
    readings(row).map_or_else(Cell::unknown, |readings| bytes(of(readings)))
}

fn load(row: &HostView) -> Cell {
    match readings(row).map(|readings| readings.load_averages) {
        Some(Ok([one, five, fifteen])) => {
            let text = format!("{one:.2} {five:.2} {fifteen:.2}");
            Cell { plain: format!("{one} {five} {fifteen}"), ..Cell::number(one, text) }
        }
        _ => Cell::unknown(),
    }
}

fn driver(row: &HostView) -> Cell {
    let versions: Vec<String> = row
        .host
        .iter()
        .flat_map(|host| &host.backends)
        .filter_map(|backend| {
            let (name, version) = (backend.backend.as_str(), backend.driver_version.as_deref()?);
            // A simulation has no version but that it is one.
            Some(if version == name { name.to_owned() } else { format!("{name} {}", escape_text(version)) })
        })
        .collect();
    if versions.is_empty() { Cell::unknown() } else { Cell::text(versions.join(", ")) }
}

/// Why it is not connected, else what is wrong with its backends.
fn problem(row: &HostView) -> Cell {
    let backends = row.host.iter().flat_map(|host| &host.backends).filter_map(|backend| backend.problem.as_deref());
    match row.problem.as_deref().or_else(|| backends.into_iter().next()) {
        Some(problem) => Cell::text(escape_text(problem)).toned(Tone::Middling),
        None => Cell { plain: String::new(), ..Cell::text("-") },
    }
}
