//! Columns of devices.

use gpufleet_model::command::escape_text;
use gpufleet_model::{Device, DeviceStatus, clock_events};

use super::{Cell, Column, Record, Shown, Tone, age, bytes, load, reading, tone_of};
use crate::view::{Connection, HostView};

/// A device with its host.
#[derive(Clone, Copy)]
pub(crate) struct DeviceRow<'v> {
    pub(crate) host: &'v HostView,
    pub(crate) device: &'v Device,
}

impl Record for DeviceRow<'_> {
    fn is_old(&self) -> bool {
        self.host.is_old()
    }
}

macro_rules! column {
    ($title:literal, $name:literal, $side:ident, $shown:ident, $order:ident, $cell:expr) => {
        Column {
            title: $title,
            name: $name,
            right: matches!(stringify!($side).as_bytes(), b"right"),
            shown: Shown::$shown,
            descending: matches!(stringify!($order).as_bytes(), b"down"),
            cell: $cell,
        }
    };
}
pub(crate) use column;

/// The columns of devices.
pub(crate) const fn columns<'v>() -> [Column<DeviceRow<'v>>; 33] {
    [
        column!("HOST", "host", left, Always, up, |row| Cell::text(row.host.name.clone())),
        column!("GPU", "index", right, Always, up, index),
        column!("NAME", "name", left, Always, up, |row| Cell::text(escape_text(&row.device.info.name))),
        column!("STATUS", "status", left, Always, up, status),
        column!("GPU%", "utilization", right, Always, down, |row| load(row.device.readings.utilization_percent)),
        column!("MBW%", "memory-utilization", right, Always, down, |row| load(
            row.device.readings.memory_utilization_percent
        )),
        column!("MEM-USED", "memory-used", right, Always, down, |row| bytes(row.device.readings.memory_used_bytes)),
        column!("MEM-TOTAL", "memory-total", right, Always, down, |row| bytes(row.device.readings.memory_total_bytes)),
        column!("MEM%", "memory-percent", right, Always, down, memory_percent),
        column!("TEMP", "temperature", right, Always, down, temperature),
        column!("POWER", "power", right, Always, down, |row| watts(row.device.readings.power_watts)),
        column!("LIMIT", "power-limit", right, Always, down, |row| watts(row.device.readings.power_limit_watts)),
        column!("FAN", "fan", right, Always, down, |row| reading(row.device.readings.fan_speed_percent, |v| format!(
            "{v}%"
        ))),
        column!("PERF", "performance-state", right, Always, up, |row| reading(
            row.device.readings.performance_state,
            |v| format!("P{v}")
        )),
        column!("THROTTLE", "throttle", left, Always, up, throttle),
        column!("MEM-FREE", "memory-free", right, Wide, down, |row| bytes(row.device.readings.memory_free_bytes)),
        column!("MEM-RSVD", "memory-reserved", right, Wide, down, |row| bytes(
            row.device.readings.memory_reserved_bytes
        )),
        column!("SM-CLK", "sm-clock", right, Wide, down, |row| reading(row.device.readings.sm_clock_mhz, |v| format!(
            "{v}MHz"
        ))),
        column!("MEM-CLK", "memory-clock", right, Wide, down, |row| reading(
            row.device.readings.memory_clock_mhz,
            |v| format!("{v}MHz")
        )),
        column!("ENC%", "encoder-utilization", right, Wide, down, |row| load(
            row.device.readings.encoder_utilization_percent
        )),
        column!("DEC%", "decoder-utilization", right, Wide, down, |row| load(
            row.device.readings.decoder_utilization_percent
        )),
        column!("MTEMP", "memory-temperature", right, Wide, down, |row| reading(
            row.device.readings.memory_temperature_celsius,
            |v| format!("{v}C")
        )),
        column!("ECC-C", "ecc-corrected", right, Wide, down, |row| count(row.device.readings.ecc_corrected_volatile)),
        column!("ECC-U", "ecc-uncorrected", right, Wide, down, |row| count(
            row.device.readings.ecc_uncorrected_volatile
        )),
        column!("ECC-U-LIFE", "ecc-uncorrected-aggregate", right, Wide, down, |row| count(
            row.device.readings.ecc_uncorrected_aggregate
        )),
        column!("REMAP", "remapped-rows", left, Wide, up, remapped),
        column!("PCIE", "pcie", left, Wide, up, pcie),
        column!("REPLAYS", "pcie-replays", right, Wide, down, |row| count(row.device.readings.pcie_replay_count)),
        column!("MIG", "mig", left, Wide, up, mig),
        column!("BACKEND", "backend", left, Wide, up, |row| Cell::text(row.device.info.backend.as_str())),
        column!("BUS-ID", "pci-bus-id", left, Wide, up, |row| Cell::optional(row.device.info.pci_bus_id.clone())),
        column!("UUID", "uuid", left, Wide, up, |row| Cell::text(escape_text(&row.device.info.uuid))),
        column!("AGE", "age", right, Wide, down, |row| age(row.host.sample_age())),
    ]
}

fn index(row: &DeviceRow<'_>) -> Cell {
    let info = &row.device.info;
    let text = match &info.mig {
        Some(mig) => format!("{}:{}/{}", info.index, mig.gpu_instance_id, mig.compute_instance_id),
        None => info.index.to_string(),
    };
    Cell { plain: info.index.to_string(), ..Cell::number(info.index.into(), text) }
}

/// A device is only as current as its host.
fn status(row: &DeviceRow<'_>) -> Cell {
    match (row.host.connection, row.device.status) {
        (Connection::Connected, DeviceStatus::Ok) => Cell::text("ok").toned(Tone::Good),
        (Connection::Connected, status) => Cell::text(status.as_str()).toned(Tone::Bad),
        (connection, _) => Cell::text(connection.as_str()).toned(Tone::Middling),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share to one decimal")]
fn memory_percent(row: &DeviceRow<'_>) -> Cell {
    let readings = &row.device.readings;
    match (readings.memory_used_bytes, readings.memory_total_bytes) {
        (Ok(used), Ok(total)) if total > 0 && used <= total => {
            let percent = (1000.0 * used as f64 / total as f64).round() / 10.0;
            Cell::number(percent, format!("{percent:.1}%")).toned(tone_of(percent, 10.0, 80.0))
        }
        _ => Cell::unknown(),
    }
}

fn temperature(row: &DeviceRow<'_>) -> Cell {
    let slowdown = row.device.info.limits.slowdown_temperature_celsius.map_or(90.0, f64::from);
    let cell = reading(row.device.readings.temperature_celsius, |v| format!("{v}C"));
    match row.device.readings.temperature_celsius {
        Ok(celsius) => cell.toned(tone_of(celsius.into(), slowdown - 25.0, slowdown - 5.0)),
        Err(_) => cell,
    }
}

fn watts(watts: gpufleet_model::Reading<f64>) -> Cell {
    reading(watts, |v| format!("{v:.0}W"))
}

#[expect(clippy::cast_precision_loss, reason = "for sorting")]
fn count(count: gpufleet_model::Reading<u64>) -> Cell {
    match count {
        Ok(number) => Cell { plain: number.to_string(), ..Cell::number(number as f64, number.to_string()) },
        Err(_) => Cell::unknown(),
    }
}

fn throttle(row: &DeviceRow<'_>) -> Cell {
    match row.device.readings.clock_event_reasons {
        Ok(mask) => Cell { plain: clock_events::names(mask).join(" "), ..Cell::text(clock_events::short(mask)) },
        Err(_) => Cell::unknown(),
    }
}

fn remapped(row: &DeviceRow<'_>) -> Cell {
    let readings = &row.device.readings;
    match (readings.remapped_rows_failed, readings.remapped_rows_pending) {
        (Ok(true), _) => Cell::text("failed").toned(Tone::Bad),
        (_, Ok(true)) => Cell::text("pending").toned(Tone::Middling),
        (Ok(false), Ok(false)) => Cell::text("ok"),
        _ => Cell::unknown(),
    }
}

fn pcie(row: &DeviceRow<'_>) -> Cell {
    match (row.device.readings.pcie_generation, row.device.readings.pcie_width) {
        (Ok(generation), Ok(width)) => Cell::text(format!("gen{generation} x{width}")),
        _ => Cell::unknown(),
    }
}

fn mig(row: &DeviceRow<'_>) -> Cell {
    if row.device.info.mig.is_some() {
        return Cell::text("instance");
    }
    match row.device.readings.mig_mode_enabled {
        Ok(true) => Cell::text("on"),
        Ok(false) => Cell::text("off"),
        Err(_) => Cell::unknown(),
    }
}
