//! What an aggregator is told at start: validated, with defaults. The program reads it from flags, environment and a
//! file (`config`); `gpuctl up` fills it in directly.

use std::time::Duration;

use gpufleet_transport::ServerLimits;

use crate::inventory::InventorySource;

/// Settings of one aggregator.
#[derive(Debug, Clone)]
pub struct AggregatorSettings {
    /// Which hosts there are.
    pub inventory: InventorySource,
    /// Who may signal any process: names of users, or `service/NAME`.
    pub operators: Vec<String>,
    /// How hosts are watched.
    pub fan_in: FanInSettings,
    /// How readers are served.
    pub serving: ServingSettings,
    /// Bounds of the server.
    pub limits: ServerLimits,
}

impl AggregatorSettings {
    /// The defaults, for an inventory.
    pub fn new(inventory: InventorySource) -> Self {
        Self {
            inventory,
            operators: Vec::new(),
            fan_in: FanInSettings::default(),
            serving: ServingSettings::default(),
            limits: ServerLimits::default(),
        }
    }
}

/// How hosts are watched.
#[derive(Debug, Clone)]
pub struct FanInSettings {
    /// Missed sample intervals after which a connected host is stale.
    pub stale_after_intervals: u32,
    /// Silence after which a host is unreachable and its connection is given up.
    pub unreachable_after: Duration,
    /// The most a connection attempt may take, handshake included.
    pub connect_timeout: Duration,
    /// The most connection attempts under way at once.
    pub connects_in_flight: usize,
    /// The most a reconnect waits after one failure; doubles with each further one.
    pub reconnect_after: Duration,
    /// The most a reconnect waits after many failures.
    pub reconnect_at_most: Duration,
    /// The largest message taken from an agent.
    pub message_bytes: usize,
    /// What one host may occupy.
    pub host_limits: HostLimits,
}

impl Default for FanInSettings {
    fn default() -> Self {
        Self {
            stale_after_intervals: 3,
            unreachable_after: Duration::from_secs(20),
            connect_timeout: Duration::from_secs(10),
            connects_in_flight: 64,
            reconnect_after: Duration::from_millis(500),
            reconnect_at_most: Duration::from_secs(10),
            message_bytes: 4 << 20,
            host_limits: HostLimits::default(),
        }
    }
}

/// What one host may occupy in the aggregator's memory.
#[derive(Debug, Clone, Copy)]
pub struct HostLimits {
    /// Devices, MIG instances included.
    pub devices: usize,
    /// Processes on devices.
    pub processes: usize,
    /// Uses of devices by processes, in all.
    pub device_uses: usize,
    /// Bytes of names, command lines and other text, in all.
    pub text_bytes: usize,
}

impl Default for HostLimits {
    fn default() -> Self {
        Self { devices: 512, processes: 8_192, device_uses: 32_768, text_bytes: 8 << 20 }
    }
}

/// How readers are served.
#[derive(Debug, Clone)]
pub struct ServingSettings {
    /// The most watch streams at once.
    pub watches: usize,
    /// The age at which a watch stream is ended, so that its reader's certificate is checked again.
    pub watch_age: Duration,
    /// The most time between two messages of a watch stream.
    pub heartbeat: Duration,
    /// The most that a question which needs the agents may take.
    pub ask_timeout: Duration,
    /// The most agents asked at once, over all questions.
    pub asks_in_flight: usize,
    /// How long streams and calls under way may take to end at shutdown.
    pub grace: Duration,
}

impl Default for ServingSettings {
    fn default() -> Self {
        Self {
            watches: 4_096,
            watch_age: Duration::from_hours(1),
            heartbeat: Duration::from_secs(15),
            ask_timeout: Duration::from_secs(10),
            asks_in_flight: 128,
            grace: Duration::from_secs(5),
        }
    }
}
