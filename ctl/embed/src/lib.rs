//! Agent and aggregator inside another program: `gpuctl up` and `gpuctl top` reach them through here and nowhere else.
//!
//! [`up`] runs the whole chain on loopback with a throw-away authority: every byte goes over mutual TLS as it would in a
//! fleet. [`local`] samples this host without any server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpufleet_agent::{Agent, AgentSettings, BackendChoice, RunningAgent};
use gpufleet_aggregator::{Aggregator, AggregatorSettings, InventorySource, RunningAggregator};
use gpufleet_transport::pki::{Authority, IssueRequest, PkiError};
use gpufleet_transport::{CredentialsError, Role};
use tempfile::TempDir;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use gpufleet_agent::signal::{Outcome, Progress, Report};
pub use gpufleet_agent::{LocalHost, StartError as AgentStartError};

/// Trust domain of the throw-away authority.
const TRUST_DOMAIN: &str = "up.gpufleet.local";
/// How long the throw-away certificates are valid: longer than anybody leaves it running.
const VALIDITY: Duration = Duration::from_hours(24 * 30);
/// Name in the throw-away user's certificate.
const USER: &str = "operator";
/// Simulated hosts at most: each has a listener and a connection in this process.
pub const MOST_SIMULATED_HOSTS: u32 = 1000;

/// What to bring up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpOptions {
    /// This host's name; used without a simulation.
    pub host_name: String,
    /// Hosts and devices of each to simulate; `None` for this machine as it is.
    pub simulate: Option<(u32, u32)>,
    /// Time between two samples.
    pub interval: Duration,
    /// Seed of a simulation.
    pub seed: u64,
}

/// Why it did not come up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UpError {
    /// No place for the credentials, or no port.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The certificates could not be made.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// The certificates could not be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// An agent did not start.
    #[error("agent of `{host}`: {cause}")]
    Agent {
        /// Which host.
        host: String,
        /// Why.
        cause: gpufleet_agent::StartError,
    },
    /// The aggregator did not start.
    #[error("aggregator: {0}")]
    Aggregator(#[from] gpufleet_aggregator::StartError),
    /// The inventory of its own agents was refused.
    #[error("inventory: {0}")]
    Inventory(String),
}

/// Agents and an aggregator at work in this process.
#[derive(Debug)]
pub struct RunningFleet {
    aggregator: RunningAggregator,
    agents: Vec<RunningAgent>,
    directory: TempDir,
}

/// Starts agents and an aggregator on loopback.
///
/// # Errors
/// When a part does not start; the others are then stopped.
pub async fn up(options: UpOptions) -> Result<RunningFleet, UpError> {
    // Made with mode 0700.
    let directory = tempfile::Builder::new().prefix("gpufleet-up-").tempdir()?;
    let authority = Authority::in_memory(TRUST_DOMAIN, VALIDITY)?;
    let hosts: Vec<(String, BackendChoice)> = match options.simulate {
        None => vec![(options.host_name.clone(), BackendChoice::Auto)],
        Some((hosts, devices)) => {
            (1..=hosts).map(|number| (format!("host{number}"), BackendChoice::Simulated { devices })).collect()
        }
    };
    let (mut agents, mut inventory) = (Vec::with_capacity(hosts.len()), Vec::with_capacity(hosts.len()));
    for (host, backend) in hosts {
        let agent = start_agent(&authority, &options, host.clone(), backend).await?;
        inventory.push(format!("{host}={}", agent.local_addr()));
        agents.push(agent);
    }
    let source: InventorySource = inventory
        .join(",")
        .parse()
        .map_err(|error: gpufleet_aggregator::InventoryError| UpError::Inventory(error.to_string()))?;
    let settings = AggregatorSettings { operators: vec![USER.to_owned()], ..AggregatorSettings::new(source) };
    let credentials = issue(&authority, Role::Aggregator, "up")?.credentials()?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let aggregator = Aggregator::start(settings, credentials, listener).await?;
    issue(&authority, Role::User, USER)?.write(directory.path(), false)?;
    Ok(RunningFleet { aggregator, agents, directory })
}

fn issue(authority: &Authority, role: Role, name: &str) -> Result<gpufleet_transport::pki::Issued, PkiError> {
    authority.issue(&IssueRequest { validity: VALIDITY, ..IssueRequest::new(role, name) })
}

async fn start_agent(
    authority: &Authority,
    options: &UpOptions,
    host: String,
    backend: BackendChoice,
) -> Result<RunningAgent, UpError> {
    let credentials = issue(authority, Role::Agent, &host)?.credentials()?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let mut settings = AgentSettings { backend, interval: options.interval, ..AgentSettings::new(host.clone()) };
    settings.backend_options.seed = options.seed;
    Agent::start(settings, credentials, listener).await.map_err(|cause| UpError::Agent { host, cause })
}

impl RunningFleet {
    /// Where the aggregator listens.
    pub fn aggregator_address(&self) -> SocketAddr {
        self.aggregator.local_addr()
    }

    /// The throw-away user's credentials; gone when this is dropped.
    pub fn credentials_dir(&self) -> &Path {
        self.directory.path()
    }

    /// Ends everything and removes the credentials.
    pub async fn shutdown(self) {
        self.aggregator.shutdown().await;
        // Side by side: one that takes its whole grace does not add to the others'.
        let mut ending: JoinSet<()> = self.agents.into_iter().map(RunningAgent::shutdown).collect();
        while ending.join_next().await.is_some() {}
    }
}

/// Samples this host without any server.
///
/// # Errors
/// When a thread is not to be had.
pub fn local(host_name: &str, interval: Duration, nvml_library: Option<PathBuf>) -> Result<LocalHost, AgentStartError> {
    let mut settings = AgentSettings { interval, ..AgentSettings::new(host_name) };
    settings.backend_options.nvml_library = nvml_library;
    Ok(LocalHost::start(settings)?)
}
