//! The environment over the file: `GPUFLEET_AGGREGATOR_FAN_IN__CONNECT_TIMEOUT=5s` sets `fan_in.connect_timeout`.
//!
//! One rule: the key in upper case, `.` written as `__`. A list is written with commas. A variable that names no setting
//! is refused, so that a slip does not go unseen.

use super::ConfigError;
use super::raw::Raw;

/// What every variable starts with.
const PREFIX: &str = "GPUFLEET_AGGREGATOR_";

pub(super) fn apply(mut raw: Raw, environment: impl IntoIterator<Item = (String, String)>) -> Result<Raw, ConfigError> {
    for (name, text) in environment {
        let Some(key) = name.strip_prefix(PREFIX) else { continue };
        if !is_service_variable(key) {
            set(&mut raw, key, text).map_err(|message| ConfigError::Environment { name: name.clone(), message })?;
        }
    }
    Ok(raw)
}

/// What Kubernetes sets in every container for a service that is called like this program.
fn is_service_variable(key: &str) -> bool {
    matches!(key, "SERVICE_HOST" | "SERVICE_PORT" | "PORT")
        || key.starts_with("SERVICE_PORT_")
        || key.starts_with("PORT_")
}

fn set(raw: &mut Raw, key: &str, text: String) -> Result<(), String> {
    let (fan_in, serving) = (&mut raw.fan_in, &mut raw.serving);
    match key {
        "LISTEN" => raw.listen = Some(text),
        "TLS_DIR" => raw.tls_dir = Some(text.into()),
        "HOSTS" => raw.hosts = Some(text),
        "OPERATORS" => raw.operators = Some(text.split(',').map(|name| name.trim().to_string()).collect()),
        "READY_FILE" => raw.ready_file = Some(text.into()),
        "FAN_IN__STALE_AFTER_INTERVALS" => fan_in.stale_after_intervals = Some(number(&text)?),
        "FAN_IN__UNREACHABLE_AFTER" => fan_in.unreachable_after = Some(text),
        "FAN_IN__CONNECT_TIMEOUT" => fan_in.connect_timeout = Some(text),
        "FAN_IN__CONNECTS_IN_FLIGHT" => fan_in.connects_in_flight = Some(number(&text)?),
        "FAN_IN__RECONNECT_AFTER" => fan_in.reconnect_after = Some(text),
        "FAN_IN__RECONNECT_AT_MOST" => fan_in.reconnect_at_most = Some(text),
        "FAN_IN__MESSAGE_BYTES" => fan_in.message_bytes = Some(number(&text)?),
        "FAN_IN__HOST_DEVICES" => fan_in.host_devices = Some(number(&text)?),
        "FAN_IN__HOST_PROCESSES" => fan_in.host_processes = Some(number(&text)?),
        "FAN_IN__HOST_DEVICE_USES" => fan_in.host_device_uses = Some(number(&text)?),
        "FAN_IN__HOST_TEXT_BYTES" => fan_in.host_text_bytes = Some(number(&text)?),
        "SERVING__WATCHES" => serving.watches = Some(number(&text)?),
        "SERVING__WATCH_AGE" => serving.watch_age = Some(text),
        "SERVING__HEARTBEAT" => serving.heartbeat = Some(text),
        "SERVING__ASK_TIMEOUT" => serving.ask_timeout = Some(text),
        "SERVING__ASKS_IN_FLIGHT" => serving.asks_in_flight = Some(number(&text)?),
        "SERVING__GRACE" => serving.grace = Some(text),
        _ => return Err("names no setting; unset it or correct its name".into()),
    }
    Ok(())
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is not a whole number"))
}
