//! Records as tables, JSON, YAML, CSV or names.

use gpufleet_model::command::escape_text;

use crate::cli::Format;
use crate::columns::device::DeviceRow;
use crate::columns::process::ProcessRow;
use crate::columns::{Column, Record, Shown, device, field, host, process, sort};
use crate::exit::{CtlError, Result};
use crate::screen::Screen;
use crate::view::{HostView, View};

#[cfg(test)]
mod documented;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod json;
pub(crate) mod table;
#[cfg(test)]
mod tests;
pub(crate) mod top;

/// What a list is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Records {
    Hosts,
    Devices,
    Processes,
}

/// How to order: a column's name, and whether the other way round.
#[derive(Debug, Clone, Default)]
pub(crate) struct Order {
    pub(crate) column: Option<String>,
    pub(crate) reverse: bool,
}

/// A list in a format.
///
/// # Errors
/// When there is no such column to sort by.
pub(crate) fn render(view: &View, records: Records, format: Format, order: &Order, screen: Screen) -> Result<String> {
    if matches!(format, Format::Json | Format::Yaml) {
        return json::render(view, records, format, order);
    }
    match records {
        Records::Hosts => {
            let rows = hosts(view, order)?;
            list(&rows, &host::columns(), format, screen, |row| row.name.clone())
        }
        Records::Devices => {
            let rows = devices(view, order)?;
            list(&rows, &device::columns(), format, screen, |row| row.device.info.uuid.clone())
        }
        Records::Processes => {
            let rows = processes(view, order)?;
            list(&rows, &process::columns(), format, screen, |row| {
                format!("{}:{}", row.host.name, row.process.identity.pid)
            })
        }
    }
}

/// The hosts in order; by name unless asked otherwise.
pub(crate) fn hosts<'v>(view: &'v View, order: &Order) -> Result<Vec<&'v HostView>> {
    ordered(view.hosts.values().collect(), &host::columns(), order, "host")
}

/// The devices in order; by host and index unless asked otherwise.
pub(crate) fn devices<'v>(view: &'v View, order: &Order) -> Result<Vec<DeviceRow<'v>>> {
    let mut rows: Vec<_> = view.devices().map(|(host, device)| DeviceRow { host, device }).collect();
    rows.sort_by_key(|row| (row.host.name.clone(), row.device.info.index, row.device.key));
    ordered(rows, &device::columns(), order, "")
}

/// The processes in order: on devices by host and device, else the busiest first.
pub(crate) fn processes<'v>(view: &'v View, order: &Order) -> Result<Vec<ProcessRow<'v>>> {
    let mut rows: Vec<_> = view.processes().map(|(host, process)| ProcessRow { host, process }).collect();
    let columns = process::columns();
    rows.sort_by_key(|row| (row.host.name.clone(), row.process.identity));
    let on_devices = rows.iter().any(|row| !row.process.uses.is_empty());
    if order.column.is_none() {
        for name in if on_devices { ["gpu-memory", "gpu", "host"] } else { ["host-memory", "cpu", "host"] } {
            sort(&mut rows, &columns, name, order.reverse)?;
        }
        return Ok(rows);
    }
    ordered(rows, &columns, order, "")
}

fn ordered<R>(mut rows: Vec<R>, columns: &[Column<R>], order: &Order, default: &str) -> Result<Vec<R>> {
    match order.column.as_deref().or((!default.is_empty()).then_some(default)) {
        Some(column) => sort(&mut rows, columns, column, order.reverse)?,
        None if order.reverse => rows.reverse(),
        None => {}
    }
    Ok(rows)
}

fn list<R: Record>(
    rows: &[R],
    columns: &[Column<R>],
    format: Format,
    screen: Screen,
    name: impl Fn(&R) -> String,
) -> Result<String> {
    Ok(match format {
        Format::Name => rows.iter().map(|row| escape_text(&name(row)).into_owned() + "\n").collect(),
        Format::Csv => csv(rows, columns)?,
        Format::Wide => table::render(rows, &columns.iter().collect::<Vec<_>>(), screen),
        _ => {
            let shown: Vec<_> = columns.iter().filter(|column| column.shown == Shown::Always).collect();
            table::render(rows, &shown, screen)
        }
    })
}

/// Every column, numbers in base units, empty for unknown.
fn csv<R>(rows: &[R], columns: &[Column<R>]) -> Result<String> {
    let names: Vec<String> = columns.iter().map(|column| field(column.name)).collect();
    csv_text(&names, rows.iter().map(|row| columns.iter().map(|column| (column.cell)(row).plain).collect()))
}

/// A heading and rows as CSV.
pub(crate) fn csv_text(names: &[String], rows: impl Iterator<Item = Vec<String>>) -> Result<String> {
    let failed = |error: &dyn std::fmt::Display| CtlError::failed(format!("cannot write CSV: {error}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(names).map_err(|error| failed(&error))?;
    for row in rows {
        writer.write_record(row).map_err(|error| failed(&error))?;
    }
    let bytes = writer.into_inner().map_err(|error| failed(&error))?;
    String::from_utf8(bytes).map_err(|error| failed(&error))
}

/// Values as YAML.
pub(crate) fn yaml(value: &serde_json::Value) -> Result<String> {
    serde_yaml_ng::to_string(value).map_err(|error| CtlError::failed(error.to_string()))
}
