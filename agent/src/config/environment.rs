//! The environment over the file: `GPUFLEET_AGENT_BACKEND__DEADLINE=5s` sets `backend.deadline`.
//!
//! One rule: the key in upper case, `.` written as `__`. A list is written with commas. A variable that names no setting
//! is refused, so that a slip does not go unseen.

use super::ConfigError;
use super::raw::Raw;

/// What every variable starts with.
const PREFIX: &str = "GPUFLEET_AGENT_";

pub(super) fn apply(raw: &mut Raw, environment: impl IntoIterator<Item = (String, String)>) -> Result<(), ConfigError> {
    for (name, text) in environment {
        let Some(key) = name.strip_prefix(PREFIX) else { continue };
        if !is_service_variable(key) {
            set(raw, key, text).map_err(|message| ConfigError::Environment { name: name.clone(), message })?;
        }
    }
    Ok(())
}

/// What Kubernetes sets in every container for a service that is called like this program.
fn is_service_variable(key: &str) -> bool {
    matches!(key, "SERVICE_HOST" | "SERVICE_PORT" | "PORT")
        || key.starts_with("SERVICE_PORT_")
        || key.starts_with("PORT_")
}

fn set(raw: &mut Raw, key: &str, text: String) -> Result<(), String> {
    let (backend, serving) = (&mut raw.backend, &mut raw.serving);
    match key {
        "LISTEN" => raw.listen = Some(text),
        "TLS_DIR" => raw.tls_dir = Some(text.into()),
        "HOST_NAME" => raw.host_name = Some(text),
        "INTERVAL" => raw.interval = Some(text),
        "READY_FILE" => raw.ready_file = Some(text.into()),
        "PROTECTED_NAMES" => {
            raw.protected_names = Some(text.split(',').map(|name| name.trim().to_owned()).collect());
        }
        "BACKEND__KIND" => backend.kind = Some(text),
        "BACKEND__NVML_LIBRARY" => backend.nvml_library = Some(text.into()),
        "BACKEND__SEED" => backend.seed = Some(number(&text)?),
        "BACKEND__DEADLINE" => backend.deadline = Some(text),
        "BACKEND__SLOW_INTERVAL" => backend.slow_interval = Some(text),
        "BACKEND__RETRY_AT_LEAST" => backend.retry_at_least = Some(text),
        "BACKEND__RETRY_AT_MOST" => backend.retry_at_most = Some(text),
        "HEALTH__KERNEL_LOG" => raw.health.kernel_log = Some(text.into()),
        "HEALTH__KERNEL_LOG_LOOKBACK" => raw.health.kernel_log_lookback = Some(text),
        "HEALTH_SOCKET__PATH" => raw.health_socket.path = Some(text.into()),
        "HEALTH_SOCKET__MODE" => raw.health_socket.mode = Some(text),
        "HEALTH_SOCKET__OWNER" => raw.health_socket.owner = Some(number(&text)?),
        "HEALTH_SOCKET__GROUP" => raw.health_socket.group = Some(number(&text)?),
        "HEALTH_SOCKET__CONNECTIONS" => raw.health_socket.connections = Some(number(&text)?),
        "SERVING__WATCH_AGE" => serving.watch_age = Some(text),
        "SERVING__WATCHES" => serving.watches = Some(number(&text)?),
        "SERVING__CONNECTIONS" => serving.connections = Some(number(&text)?),
        "SERVING__CONNECTION_AGE" => serving.connection_age = Some(text),
        "SERVING__GRACE" => serving.grace = Some(text),
        _ => return Err("names no setting; unset it or correct its name".into()),
    }
    Ok(())
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is not a whole number"))
}
