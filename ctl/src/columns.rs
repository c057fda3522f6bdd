//! Columns: one catalogue for each kind of record, which tables, CSV and sorting share.

use std::cmp::Ordering;
use std::time::Duration;

use gpufleet_model::{Reading, Unknown, human};

use crate::exit::{CtlError, Result};

pub(crate) mod device;
pub(crate) mod host;
pub(crate) mod process;

/// A cell: text for eyes, the value to sort by, and the text for programs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) key: Key,
    /// For CSV: numbers in base units, empty when unknown.
    pub(crate) plain: String,
    pub(crate) tone: Tone,
}

/// What a cell is sorted by. Unknown is last, whichever way.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Key {
    Unknown,
    Number(f64),
    Text(String),
}

/// How a cell is coloured on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Good,
    Middling,
    Bad,
    Dim,
}

/// Where a column shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// In every table.
    Always,
    /// In wide tables and CSV.
    Wide,
}

/// What a row is of.
pub(crate) trait Record {
    /// True when what is shown is not current: it is dimmed.
    fn is_old(&self) -> bool {
        false
    }
}

/// One column of records of type `R`.
pub(crate) struct Column<R: ?Sized> {
    pub(crate) title: &'static str,
    /// Name for `--sort` and CSV.
    pub(crate) name: &'static str,
    pub(crate) right: bool,
    pub(crate) shown: Shown,
    /// Largest first unless turned round.
    pub(crate) descending: bool,
    pub(crate) cell: fn(&R) -> Cell,
}

impl Cell {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { key: Key::Text(text.clone()), plain: text.clone(), text, tone: Tone::Plain }
    }

    pub(crate) fn number(value: f64, text: String) -> Self {
        Self { text, key: Key::Number(value), plain: plain_number(value), tone: Tone::Plain }
    }

    pub(crate) fn unknown() -> Self {
        Self { text: "N/A".to_owned(), key: Key::Unknown, plain: String::new(), tone: Tone::Dim }
    }

    pub(crate) fn optional(text: Option<impl Into<String>>) -> Self {
        text.map_or_else(Self::unknown, Self::text)
    }

    pub(crate) const fn toned(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }
}

/// A reading shown by `show`.
pub(crate) fn reading<T: Copy + Into<f64>>(reading: Reading<T>, show: impl Fn(T) -> String) -> Cell {
    match reading {
        Ok(value) => Cell::number(value.into(), show(value)),
        Err(Unknown::NotYet) => Cell { text: "-".to_owned(), ..Cell::unknown() },
        Err(_) => Cell::unknown(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "for sorting and showing")]
pub(crate) fn bytes(reading: Reading<u64>) -> Cell {
    match reading {
        Ok(size) => Cell { plain: size.to_string(), ..Cell::number(size as f64, human::bytes(size)) },
        Err(_) => Cell::unknown(),
    }
}

/// A percentage, coloured by load.
pub(crate) fn load(reading: Reading<u32>) -> Cell {
    match reading {
        Ok(percent) => Cell::number(percent.into(), format!("{percent}%")).toned(tone_of(percent.into(), 10.0, 75.0)),
        Err(_) => Cell::unknown(),
    }
}

/// Below `low` calm, below `high` middling, else heavy.
pub(crate) fn tone_of(value: f64, low: f64, high: f64) -> Tone {
    if value < low {
        Tone::Good
    } else if value < high {
        Tone::Middling
    } else {
        Tone::Bad
    }
}

pub(crate) fn age(age: Option<Duration>) -> Cell {
    let plain = |age: Duration| format!("{:.3}", age.as_secs_f64());
    let cell = |age: Duration| Cell { plain: plain(age), ..Cell::number(age.as_secs_f64(), human::duration(age)) };
    age.map_or_else(Cell::unknown, cell)
}

fn plain_number(value: f64) -> String {
    // Whole numbers without a point, others as short as they read back.
    format!("{value}")
}

/// Fields of the catalogue whose column has a shorter name on the command line.
const FIELDS: &[(&str, &str)] = &[
    ("utilization", "utilization_percent"),
    ("memory-utilization", "memory_utilization_percent"),
    ("memory-used", "memory_used_bytes"),
    ("memory-total", "memory_total_bytes"),
    ("memory-free", "memory_free_bytes"),
    ("memory-reserved", "memory_reserved_bytes"),
    ("memory-percent", "memory_used_percent"),
    ("temperature", "temperature_celsius"),
    ("memory-temperature", "memory_temperature_celsius"),
    ("power", "power_watts"),
    ("power-limit", "power_limit_watts"),
    ("fan", "fan_speed_percent"),
    ("throttle", "clock_event_reason_names"),
    ("sm-clock", "sm_clock_mhz"),
    ("memory-clock", "memory_clock_mhz"),
    ("encoder-utilization", "encoder_utilization_percent"),
    ("decoder-utilization", "decoder_utilization_percent"),
    ("encoder", "encoder_percent"),
    ("decoder", "decoder_percent"),
    ("ecc-corrected", "ecc_corrected_volatile"),
    ("ecc-uncorrected", "ecc_uncorrected_volatile"),
    ("pcie-replays", "pcie_replay_count"),
    ("gpu", "device_indexes"),
    ("gpu-memory", "device_memory_used_bytes"),
    ("sm", "sm_percent"),
    ("memory-bandwidth", "memory_bandwidth_percent"),
    ("cpu", "cpu_percent"),
    ("host-memory", "host_memory_bytes"),
    ("time", "running_seconds"),
    ("threads", "thread_count"),
    ("parent", "parent_pid"),
    ("container", "container_id"),
    ("pod", "pod_uid"),
    ("job", "slurm_job_id"),
    ("unit", "systemd_unit"),
    ("age", "sample_age_seconds"),
    ("gpus", "device_count"),
    ("processes", "process_count"),
    ("cpus", "cpu_count"),
    ("kernel", "kernel_version"),
    ("os", "os_name"),
    ("load", "load_averages"),
];

/// The name of a column in CSV: as in JSON, with its unit.
pub(crate) fn field(name: &str) -> String {
    let known = FIELDS.iter().find(|(column, _)| *column == name);
    known.map_or_else(|| name.replace('-', "_"), |(_, field)| (*field).to_owned())
}

/// Sorts records by a column, named as on the command line or as in JSON; ties stay in the order they come in. Unknown values are last both ways.
///
/// # Errors
/// When there is no such column.
pub(crate) fn sort<R>(records: &mut [R], columns: &[Column<R>], name: &str, reverse: bool) -> Result<()> {
    let wanted = name.to_ascii_lowercase().replace('_', "-");
    let called = |column: &&Column<R>| column.name == wanted || field(column.name).replace('_', "-") == wanted;
    let column = columns.iter().find(called).ok_or_else(|| {
        let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
        CtlError::usage(format!("no column `{name}` to sort by; there are {}", names.join(", ")))
    })?;
    let descending = column.descending != reverse;
    records.sort_by_cached_key(|record| SortKey { key: (column.cell)(record).key, descending });
    Ok(())
}

#[derive(PartialEq)]
struct SortKey {
    key: Key,
    descending: bool,
}

impl Eq for SortKey {}

impl PartialOrd for SortKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SortKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let turn = |order: Ordering| if self.descending { order.reverse() } else { order };
        match (&self.key, &other.key) {
            (Key::Unknown, Key::Unknown) => Ordering::Equal,
            (Key::Number(a), Key::Number(b)) => turn(a.total_cmp(b)),
            (Key::Text(a), Key::Text(b)) => turn(a.cmp(b)),
            // Numbers before text before unknown, whichever way.
            (Key::Unknown, _) | (Key::Text(_), Key::Number(_)) => Ordering::Greater,
            (_, Key::Unknown) | (Key::Number(_), Key::Text(_)) => Ordering::Less,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column<Option<u32>>] = &[Column {
        title: "N",
        name: "n",
        right: true,
        shown: Shown::Always,
        descending: true,
        cell: |record| record.map_or_else(Cell::unknown, |n| Cell::number(n.into(), n.to_string())),
    }];

    #[test]
    fn unknown_is_last_both_ways() {
        let mut records = [Some(2), None, Some(3), Some(1)];
        sort(&mut records, COLUMNS, "n", false).unwrap();
        assert_eq!(records, [Some(3), Some(2), Some(1), None]);
        sort(&mut records, COLUMNS, "N", true).unwrap();
        assert_eq!(records, [Some(1), Some(2), Some(3), None]);
    }

    #[test]
    fn an_unknown_column_names_the_known_ones() {
        let error = sort(&mut [None], COLUMNS, "x", false).unwrap_err().to_string();
        assert_eq!(error, "no column `x` to sort by; there are n");
    }
}
