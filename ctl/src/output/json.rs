//! JSON for programs: numbers in base units, `null` for unknown, the reasons beside. A contract: see `docs/json.md`.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use gpufleet_model::fields::Value as FieldValue;
use gpufleet_model::{DeviceReadings, Host, ProcessReadings, Reading, Unknown, UseReadings, clock_events, command};
use serde_json::{Map, Value, json};

use super::{Order, Records};
use crate::cli::Format;
use crate::columns::device::DeviceRow;
use crate::columns::process::{ProcessRow, running, state, uses};
use crate::exit::{CtlError, Result};
use crate::view::{Connection, HostView, View};

/// The version of the layout. Fields may be added within one; none changes its meaning.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// A view as JSON or YAML. The order that was asked for is that of the records which the list is of.
pub(crate) fn render(view: &View, records: Records, format: Format, order: &Order) -> Result<String> {
    let value = document(view, records, order)?;
    if format == Format::Yaml { super::yaml(&value) } else { text(&value) }
}

/// JSON as text, in ASCII alone: nothing in it can drive a terminal or turn the writing direction.
pub(crate) fn text(value: &Value) -> Result<String> {
    let text = serde_json::to_string_pretty(value).map_err(|error| CtlError::failed(error.to_string()))?;
    let mut ascii = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        // Outside ASCII, and DEL, only occur within strings, where an escape means the same.
        if c.is_ascii() && c != '\u{7f}' {
            ascii.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(ascii, "\\u{unit:04x}");
            }
        }
    }
    ascii.push('\n');
    Ok(ascii)
}

/// The document.
pub(crate) fn document(view: &View, records: Records, order: &Order) -> Result<Value> {
    let natural = Order::default();
    let order_of = |kind| if kind == records { order } else { &natural };
    let missing = view.hosts.values().filter(|host| host.connection != Connection::Connected);
    Ok(json!({
        "schema_version": SCHEMA_VERSION,
        "collected_at": time(view.collected_at),
        "hosts": super::hosts(view, order_of(Records::Hosts))?.into_iter().map(host).collect::<Vec<_>>(),
        "devices": super::devices(view, order_of(Records::Devices))?.iter().map(device).collect::<Vec<_>>(),
        "processes": super::processes(view, order_of(Records::Processes))?.iter().map(process).collect::<Vec<_>>(),
        "missing": missing.map(absent).collect::<Vec<_>>(),
    }))
}

fn absent(host: &HostView) -> Value {
    json!({
        "host": host.name,
        "state": host.connection.as_str(),
        "problem": host.problem,
        "sample_age_seconds": seconds(host.sample_age()),
    })
}

fn host(view: &HostView) -> Value {
    let host = view.host.as_deref();
    let mut unknown = Map::new();
    let mut object = Map::new();
    object.insert("host".to_owned(), view.name.clone().into());
    object.insert("state".to_owned(), view.connection.as_str().into());
    object.insert("sample_age_seconds".to_owned(), seconds(view.sample_age()));
    object.insert("address".to_owned(), view.address.clone().into());
    object.insert("problem".to_owned(), view.problem.clone().into());
    object.insert("labels".to_owned(), json!(view.labels));
    object.insert("simulated".to_owned(), host.map(|host| host.simulated).into());
    object.insert("boot_id".to_owned(), host.map(|host| host.boot_id.clone()).into());
    object.insert("booted_at".to_owned(), host.map_or(Value::Null, |host| time(host.booted_at)));
    object.insert("kernel_version".to_owned(), host.map(|host| host.kernel_version.clone()).into());
    object.insert("os_name".to_owned(), host.map(|host| host.os_name.clone()).into());
    object.insert("agent_version".to_owned(), host.map(|host| host.agent_version.clone()).into());
    object.insert("cpu_count".to_owned(), host.map(|host| host.cpu_count).into());
    object.insert("host_pid_namespace".to_owned(), host.map(|host| host.host_pid_namespace).into());
    object.insert("backends".to_owned(), host.map_or(Value::Null, backends));
    match host {
        Some(host) => host_readings(host, &mut object, &mut unknown),
        // Of a host that was never seen every reading is null, as any other that is not known.
        None => object.extend(HOST_READINGS.iter().map(|name| ((*name).to_owned(), Value::Null))),
    }
    object.insert("unknown".to_owned(), unknown.into());
    object.into()
}

fn backends(host: &Host) -> Value {
    let backend = |status: &gpufleet_model::BackendStatus| {
        json!({
            "backend": status.backend.as_str(),
            "driver_version": status.driver_version,
            "library_version": status.library_version,
            "cuda_driver_version": status.cuda_driver_version,
            "problem": status.problem,
        })
    };
    host.backends.iter().map(backend).collect()
}

/// The readings of a host.
const HOST_READINGS: &[&str] =
    &["cpu_percent", "memory_used_bytes", "memory_total_bytes", "swap_used_bytes", "swap_total_bytes", "load_averages"];

fn host_readings(host: &Host, object: &mut Map<String, Value>, unknown: &mut Map<String, Value>) {
    let readings = &host.readings;
    insert(object, unknown, "cpu_percent", readings.cpu_percent.map(|v| number(FieldValue::Real(v))));
    insert(object, unknown, "memory_used_bytes", readings.memory_used_bytes.map(Value::from));
    insert(object, unknown, "memory_total_bytes", readings.memory_total_bytes.map(Value::from));
    insert(object, unknown, "swap_used_bytes", readings.swap_used_bytes.map(Value::from));
    insert(object, unknown, "swap_total_bytes", readings.swap_total_bytes.map(Value::from));
    insert(object, unknown, "load_averages", readings.load_averages.map(|load| json!(load)));
}

fn device(row: &DeviceRow<'_>) -> Value {
    let (info, limits) = (&row.device.info, &row.device.info.limits);
    let mut object = Map::new();
    let mut unknown = Map::new();
    object.insert("host".to_owned(), row.host.name.clone().into());
    object.insert("index".to_owned(), info.index.into());
    object.insert("uuid".to_owned(), info.uuid.clone().into());
    object.insert("name".to_owned(), info.name.clone().into());
    object.insert("status".to_owned(), row.device.status.as_str().into());
    object.insert("backend".to_owned(), info.backend.as_str().into());
    object.insert("simulated".to_owned(), (info.backend == gpufleet_model::Backend::Simulated).into());
    object.insert("pci_bus_id".to_owned(), info.pci_bus_id.clone().into());
    object.insert("minor_number".to_owned(), info.minor_number.into());
    object.insert("serial".to_owned(), info.serial.clone().into());
    object.insert("part_number".to_owned(), info.part_number.clone().into());
    object.insert("vbios_version".to_owned(), info.vbios_version.clone().into());
    let capability = info.cuda_capability.map(|(major, minor)| format!("{major}.{minor}"));
    object.insert("cuda_capability".to_owned(), capability.into());
    object.insert("core_count".to_owned(), info.core_count.into());
    let mig = info.mig.as_ref().map(|mig| {
        json!({
            "parent_uuid": mig.parent_uuid,
            "gpu_instance_id": mig.gpu_instance_id,
            "compute_instance_id": mig.compute_instance_id,
        })
    });
    object.insert("mig".to_owned(), mig.unwrap_or_default());
    let readings = &row.device.readings;
    for field in DeviceReadings::FIELDS {
        if let Some(reading) = readings.get(field.name) {
            insert(&mut object, &mut unknown, field.name, reading.map(number));
        }
    }
    let names = readings.clock_event_reasons.ok().map(clock_events::names);
    object.insert("clock_event_reason_names".to_owned(), json!(names));
    let limits = json!({
        "shutdown_temperature_celsius": limits.shutdown_temperature_celsius,
        "slowdown_temperature_celsius": limits.slowdown_temperature_celsius,
        "max_operating_temperature_celsius": limits.max_operating_temperature_celsius,
        "max_memory_temperature_celsius": limits.max_memory_temperature_celsius,
        "min_power_limit_watts": limits.min_power_limit_watts,
        "max_power_limit_watts": limits.max_power_limit_watts,
        "default_power_limit_watts": limits.default_power_limit_watts,
        "max_graphics_clock_mhz": limits.max_graphics_clock_mhz,
        "max_sm_clock_mhz": limits.max_sm_clock_mhz,
        "max_memory_clock_mhz": limits.max_memory_clock_mhz,
        "max_video_clock_mhz": limits.max_video_clock_mhz,
        "max_pcie_generation": limits.max_pcie_generation,
        "max_pcie_width": limits.max_pcie_width,
    });
    object.insert("limits".to_owned(), limits);
    object.insert("sample_age_seconds".to_owned(), seconds(row.host.sample_age()));
    object.insert("unknown".to_owned(), unknown.into());
    object.into()
}

fn process(row: &ProcessRow<'_>) -> Value {
    let (process, info) = (row.process, &row.process.info);
    let mut object = Map::new();
    let mut unknown = Map::new();
    object.insert("host".to_owned(), row.host.name.clone().into());
    object.insert("pid".to_owned(), process.identity.pid.into());
    object.insert(
        "start_ticks".to_owned(),
        (process.identity.start_ticks != 0).then_some(process.identity.start_ticks).into(),
    );
    object.insert("boot_id".to_owned(), row.host.boot_id().into());
    object.insert("simulated".to_owned(), row.host.host.as_ref().map(|host| host.simulated).into());
    object.insert("user".to_owned(), info.user.clone().into());
    object.insert("user_id".to_owned(), info.user_id.into());
    object.insert("name".to_owned(), info.name.clone().into());
    object.insert("command".to_owned(), command::display(process).into());
    let arguments = info.arguments.iter().map(|argument| String::from_utf8_lossy(argument).into_owned());
    object.insert("arguments".to_owned(), arguments.collect::<Vec<_>>().into());
    object.insert("state".to_owned(), state(process).into());
    object.insert("visibility".to_owned(), info.visibility.as_str().into());
    object.insert("kernel_thread".to_owned(), info.kernel_thread.into());
    object.insert("parent_pid".to_owned(), info.parent_pid.into());
    object.insert("started_at".to_owned(), info.started_at.map_or(Value::Null, time));
    object.insert("running_seconds".to_owned(), seconds(running(process)));
    object.insert("cgroup".to_owned(), info.cgroup.clone().into());
    object.insert("systemd_unit".to_owned(), info.systemd_unit.clone().into());
    object.insert("container_id".to_owned(), info.container_id.clone().into());
    object.insert("pod_uid".to_owned(), info.pod_uid.clone().into());
    object.insert("slurm_job_id".to_owned(), info.slurm_job_id.clone().into());
    object.insert("slurm_step".to_owned(), info.slurm_step.clone().into());
    for field in ProcessReadings::FIELDS {
        if let Some(reading) = process.readings.get(field.name) {
            insert(&mut object, &mut unknown, field.name, reading.map(number));
        }
    }
    object.insert("devices".to_owned(), uses(row).map(device_use).collect());
    object.insert("unknown".to_owned(), unknown.into());
    object.into()
}

fn device_use((used, device): (&gpufleet_model::DeviceUse, Option<&gpufleet_model::Device>)) -> Value {
    let mut object = Map::new();
    let mut unknown = Map::new();
    object.insert("uuid".to_owned(), device.map(|device| device.info.uuid.clone()).into());
    object.insert("index".to_owned(), device.map(|device| device.info.index).into());
    object.insert("type".to_owned(), used.kind.as_str().into());
    object.insert("gpu_instance_id".to_owned(), used.gpu_instance_id.into());
    object.insert("compute_instance_id".to_owned(), used.compute_instance_id.into());
    for field in UseReadings::FIELDS {
        if let Some(reading) = used.readings.get(field.name) {
            insert(&mut object, &mut unknown, field.name, reading.map(number));
        }
    }
    object.insert("unknown".to_owned(), unknown.into());
    object.into()
}

fn insert(object: &mut Map<String, Value>, unknown: &mut Map<String, Value>, name: &str, reading: Reading<Value>) {
    match reading {
        Ok(value) => {
            object.insert(name.to_owned(), value);
        }
        Err(reason) => {
            object.insert(name.to_owned(), Value::Null);
            unknown.insert(name.to_owned(), reason_name(reason).into());
        }
    }
}

const fn reason_name(reason: Unknown) -> &'static str {
    match reason {
        Unknown::NotSupported => "not-supported",
        Unknown::NoPermission => "no-permission",
        Unknown::Lost => "lost",
        Unknown::Timeout => "timeout",
        Unknown::NotYet => "not-yet",
        _ => "failed",
    }
}

fn number(value: FieldValue) -> Value {
    match value {
        FieldValue::Unsigned(number) => number.into(),
        FieldValue::Signed(number) => number.into(),
        // Not finite becomes null.
        FieldValue::Real(number) => number.into(),
        FieldValue::Flag(flag) => flag.into(),
    }
}

pub(crate) fn time(time: SystemTime) -> Value {
    humantime::format_rfc3339_millis(time).to_string().into()
}

pub(crate) fn seconds(length: Option<Duration>) -> Value {
    length.map(|length| (length.as_secs_f64() * 1000.0).round() / 1000.0).into()
}
