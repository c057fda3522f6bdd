//! The page that `top` and `up` show: a line about the whole, devices, processes.

use gpufleet_model::{Device, Reading, human};

use super::Order;
use super::table;
use crate::columns::{Column, Tone, device, host, process, sort};
use crate::exit::Result;
use crate::screen::Screen;
use crate::view::{Connection, View};

/// Columns of devices, the most important first: a narrow terminal leaves the last ones out.
const DEVICE_COLUMNS: &[&str] = &[
    "host",
    "index",
    "name",
    "status",
    "utilization",
    "memory-percent",
    "memory-used",
    "memory-total",
    "temperature",
    "power",
    "power-limit",
    "memory-utilization",
    "performance-state",
    "fan",
    "ecc-uncorrected",
    "mig",
    "throttle",
];
/// Columns of processes, likewise; the command stays.
const PROCESS_COLUMNS: &[&str] = &[
    "host",
    "gpu",
    "pid",
    "user",
    "gpu-memory",
    "sm",
    "cpu",
    "time",
    "type",
    "memory-bandwidth",
    "host-memory-percent",
    "encoder",
    "decoder",
    "command",
];
/// Columns of processes on a host without devices.
const HOST_PROCESS_COLUMNS: &[&str] =
    &["host", "pid", "user", "state", "cpu", "host-memory-percent", "host-memory", "time", "command"];

/// What of the page fits: rows of the terminal, `None` for all.
pub(crate) type Rows = Option<usize>;

/// The page.
///
/// # Errors
/// When there is no such column to sort by.
pub(crate) fn render(view: &View, order: &Order, screen: Screen, rows: Rows, banner: Option<&str>) -> Result<String> {
    let mut text = String::new();
    let screen = Screen { old: screen.old || banner.is_some(), ..screen };
    if let Some(banner) = banner {
        text += &screen.paint(&table::cut(banner, screen.width.unwrap_or(usize::MAX)), Tone::Bad);
        text.push('\n');
    }
    if view.is_simulated() {
        text += &screen.paint("SIMULATED: these devices and processes are not real\n", Tone::Middling);
    }
    text += &summary(view, screen);
    text.push('\n');
    let single = view.hosts.len() == 1 && !view.fleet;
    text += &hosts_in_trouble(view, screen)?;
    text += &devices(view, screen, single, order)?;
    text += &processes(view, screen, single, order)?;
    Ok(match rows {
        None => text,
        Some(rows) => cut_rows(&text, rows),
    })
}

/// One line about the whole.
fn summary(view: &View, screen: Screen) -> String {
    let connected = view.hosts.values().filter(|host| host.connection == Connection::Connected).count();
    let physical: Vec<&Device> =
        view.devices().map(|(_, device)| device).filter(|device| device.info.mig.is_none()).collect();
    let sum = |of: fn(&Device) -> Reading<u64>| physical.iter().filter_map(|device| of(device).ok()).sum::<u64>();
    let used = sum(|device| device.readings.memory_used_bytes);
    let total = sum(|device| device.readings.memory_total_bytes);
    let power: f64 = physical.iter().filter_map(|device| device.readings.power_watts.ok()).sum();
    let known_power = physical.iter().any(|device| device.readings.power_watts.is_ok());
    let processes = view.processes().count();
    let time = humantime::format_rfc3339_seconds(view.collected_at);
    let mut parts = Vec::new();
    match view.hosts.values().next() {
        Some(host) if !view.fleet => parts.push(format!("{} {time}", host.name)),
        _ => parts.push(format!("{time}  hosts {connected}/{} connected", view.hosts.len())),
    }
    if let (false, Some(host)) = (view.fleet, view.hosts.values().next().and_then(|host| host.host.as_ref())) {
        if let Ok(percent) = host.readings.cpu_percent {
            parts.push(format!("CPU {percent:.1}%"));
        }
        if let (Ok(used), Ok(total)) = (host.readings.memory_used_bytes, host.readings.memory_total_bytes) {
            parts.push(format!("memory {}/{}", human::bytes(used), human::bytes(total)));
        }
        if let Ok([one, five, fifteen]) = host.readings.load_averages {
            parts.push(format!("load {one:.2} {five:.2} {fifteen:.2}"));
        }
    }
    parts.push(format!("devices {}", physical.len()));
    if total > 0 {
        parts.push(format!("GPU memory {}/{}", human::bytes(used), human::bytes(total)));
    }
    if known_power {
        parts.push(format!("power {power:.0}W"));
    }
    parts.push(format!("processes {processes}"));
    table::cut(&parts.join("  "), screen.width.unwrap_or(usize::MAX)) + "\n"
}

/// Hosts that are not as they should be, and why.
fn hosts_in_trouble(view: &View, screen: Screen) -> Result<String> {
    let mut text = String::new();
    let trouble: Vec<_> = super::hosts(view, &Order::default())?
        .into_iter()
        .filter(|host| host.connection != Connection::Connected)
        .collect();
    if !trouble.is_empty() {
        let columns = host::columns();
        let shown = pick(&columns, &["host", "state", "age", "problem"]);
        text += &table::render(&trouble, &shown, screen);
        text.push('\n');
    }
    let problems = view.hosts.values().filter_map(|host| {
        let problem = host.host.as_ref()?.backends.iter().find_map(|backend| backend.problem.as_deref())?;
        Some(format!("{}: {}", host.name, gpufleet_model::command::escape_text(problem)))
    });
    for problem in problems.filter(|_| view.hosts.len() <= 8) {
        text += &screen.paint(&table::cut(&problem, screen.width.unwrap_or(usize::MAX)), Tone::Middling);
        text.push('\n');
    }
    Ok(text)
}

fn devices(view: &View, screen: Screen, single: bool, order: &Order) -> Result<String> {
    if view.devices().next().is_none() {
        let none = if view.hosts.len() == 1 { "no GPU on this host; its processes:" } else { "no GPU in this view" };
        return Ok(format!("{none}\n\n"));
    }
    let columns = device::columns();
    let own = order.column.as_deref().is_some_and(|name| columns.iter().any(|column| column.name == name));
    let rows = super::devices(view, if own { order } else { &Order { column: None, reverse: false } })?;
    let shown = pick(&columns, DEVICE_COLUMNS)
        .into_iter()
        .filter(|column| !(single && column.name == "host"))
        .collect::<Vec<_>>();
    Ok(table::render(&rows, &shown, screen) + "\n")
}

fn processes(view: &View, screen: Screen, single: bool, order: &Order) -> Result<String> {
    let columns = process::columns();
    let on_devices = view.devices().next().is_some();
    let known = |name: &str| columns.iter().any(|column| column.name == name);
    if let Some(name) = order.column.as_deref().filter(|name| !known(name)) {
        // A column of devices alone is fine; one of neither is a mistake.
        sort(&mut Vec::<device::DeviceRow<'_>>::new(), &device::columns(), name, false)?;
    }
    let own = order.column.as_deref().is_none_or(known);
    let rows = super::processes(view, if own { order } else { &Order { column: None, reverse: false } })?;
    if rows.is_empty() {
        return Ok("no processes on these devices\n".to_owned());
    }
    let names = if on_devices { PROCESS_COLUMNS } else { HOST_PROCESS_COLUMNS };
    let shown =
        pick(&columns, names).into_iter().filter(|column| !(single && column.name == "host")).collect::<Vec<_>>();
    Ok(table::render(&rows, &shown, screen))
}

fn pick<'c, R>(columns: &'c [Column<R>], names: &[&str]) -> Vec<&'c Column<R>> {
    names.iter().filter_map(|name| columns.iter().find(|column| column.name == *name)).collect()
}

/// Cuts a page to the rows of a terminal and says that something is missing.
fn cut_rows(text: &str, rows: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() <= rows {
        return text.to_owned();
    }
    let kept = rows.saturating_sub(1);
    let shown = lines.iter().take(kept).copied().collect::<Vec<_>>().join("\n");
    format!("{shown}\n… {} more lines; enlarge the terminal or narrow the view\n", lines.len() - kept)
}
