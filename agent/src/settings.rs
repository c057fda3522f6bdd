//! What an agent needs to know.

use std::time::Duration;

use gpufleet_backend::{BackendChoice, BackendOptions};
use gpufleet_transport::ServerLimits;

use crate::health::JudgingSettings;
use crate::health::socket::SocketOptions;
use crate::signal::Protection;

/// How to sample and serve one host.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// The host's name in the fleet; for an agent with certificates, the name in its certificate.
    pub host_name: String,
    /// Where readings come from.
    pub backend: BackendChoice,
    /// How the backend runs; its host name is set from `host_name`.
    pub backend_options: BackendOptions,
    /// Time between two samples.
    pub interval: Duration,
    /// Whom no signal may reach.
    pub protection: Protection,
    /// How to judge health.
    pub judging: JudgingSettings,
    /// The local health socket; `None` for none.
    pub health_socket: Option<SocketOptions>,
    /// How to serve.
    pub serving: ServingSettings,
}

/// How to serve streams and connections.
#[derive(Debug, Clone)]
pub struct ServingSettings {
    /// Age at which a stream must be opened anew, so that certificates are checked again.
    pub watch_age: Duration,
    /// Streams at once.
    pub watches: usize,
    /// Time that calls under way have to end at shutdown.
    pub grace: Duration,
    /// Limits of connections.
    pub limits: ServerLimits,
}

impl AgentSettings {
    /// The defaults for a host of this name.
    pub fn new(host_name: impl Into<String>) -> Self {
        Self {
            host_name: host_name.into(),
            backend: BackendChoice::Auto,
            backend_options: BackendOptions::default(),
            interval: Duration::from_secs(1),
            protection: Protection::default(),
            judging: JudgingSettings::default(),
            health_socket: None,
            serving: ServingSettings::default(),
        }
    }
}

impl Default for ServingSettings {
    fn default() -> Self {
        Self {
            watch_age: Duration::from_hours(1),
            watches: 256,
            grace: Duration::from_secs(5),
            limits: ServerLimits { max_connections: 512, ..ServerLimits::default() },
        }
    }
}
