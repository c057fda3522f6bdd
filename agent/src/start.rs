//! Starts an agent and ends it again.
//!
//! The tasks and who owns what: the backend's threads (the driver), the sampling task (the snapshot), one task per watch
//! stream, one per signal attempt, and the server. All are tracked and end at shutdown: first streams and the server's
//! intake, then, within a grace period, what is under way.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gpufleet_backend::SpawnError;
use gpufleet_model::HostSnapshot;
use gpufleet_proto::FILE_DESCRIPTOR_SET;
use gpufleet_proto::v1::agent_service_server::AgentServiceServer;
use gpufleet_transport::server::MAX_REQUEST_BYTES;
use gpufleet_transport::{Credentials, Role, ServeError, ServerLimits};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;

use crate::health::socket::{HealthSocket, SocketError};
use crate::sampling::Sampling;
use crate::service::{AgentApi, table};
use crate::settings::AgentSettings;
use crate::signal::Signals;

/// Why an agent did not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The backend's threads could not be started.
    #[error(transparent)]
    Backend(#[from] SpawnError),
    /// The listener is not usable.
    #[error("cannot use the listening socket: {0}")]
    Listener(std::io::Error),
    /// The certificate is for somebody else.
    #[error("the certificate is of `{certificate}`; this agent needs one of role agent named `{host_name}`")]
    Identity {
        /// Whose certificate it is.
        certificate: String,
        /// Who this agent is.
        host_name: String,
    },
    /// The local health socket cannot be served.
    #[error(transparent)]
    HealthSocket(#[from] SocketError),
    /// The reflection service cannot be built from the schema.
    #[error("cannot serve the schema: {0}")]
    Reflection(String),
}

/// An agent.
#[derive(Debug)]
pub struct Agent;

/// An agent at work. Dropping it without [`RunningAgent::shutdown`] leaves its tasks running.
#[derive(Debug)]
pub struct RunningAgent {
    local_addr: SocketAddr,
    sampling: Arc<Sampling>,
    stop: CancellationToken,
    server_stop: CancellationToken,
    tasks: TaskTracker,
    server: JoinHandle<Result<(), ServeError>>,
    grace: Duration,
}

impl Agent {
    /// Starts to sample this host and to serve on the listener.
    ///
    /// # Errors
    /// When the certificate is for somebody else, or a thread or the listener is not to be had.
    pub async fn start(
        settings: AgentSettings,
        credentials: Credentials,
        listener: TcpListener,
    ) -> Result<RunningAgent, StartError> {
        let local_addr = listener.local_addr().map_err(StartError::Listener)?;
        let identity = credentials.identity();
        if identity.role != Role::Agent || identity.name != settings.host_name {
            let (certificate, host_name) = (identity.to_string(), settings.host_name);
            return Err(StartError::Identity { certificate, host_name });
        }
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let sampling = Sampling::start(&settings, &tasks, stop.clone())?;
        let signals = signals(&settings, &sampling, &tasks, &stop);
        if let Some(options) = settings.health_socket {
            HealthSocket::serve(options, sampling.subscribe_health(), &tasks, stop.clone())?;
        }
        let serving = settings.serving;
        let api = AgentApi {
            sampling: Arc::clone(&sampling),
            signals,
            watches: Arc::new(Semaphore::new(serving.watches)),
            settings: serving.clone(),
            tasks: tasks.clone(),
            stop: stop.clone(),
        };
        let routes = routes(api).await?;
        let server_stop = CancellationToken::new();
        let limits = ServerLimits { grace: serving.grace, ..serving.limits };
        let serve = gpufleet_transport::serve(listener, credentials, limits, routes, table(), server_stop.clone());
        let server = tokio::spawn(serve);
        Ok(RunningAgent { local_addr, sampling, stop, server_stop, tasks, server, grace: serving.grace })
    }
}

pub(crate) fn signals(
    settings: &AgentSettings,
    sampling: &Arc<Sampling>,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> Arc<Signals> {
    let (host_name, protection) = (settings.host_name.clone(), settings.protection.clone());
    Arc::new(Signals::new(host_name, Arc::clone(sampling), protection, tasks.clone(), stop.clone()))
}

async fn routes(api: AgentApi) -> Result<Routes, StartError> {
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<AgentServiceServer<AgentApi>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(|error| StartError::Reflection(error.to_string()))?;
    let agent = AgentServiceServer::new(api).max_decoding_message_size(MAX_REQUEST_BYTES);
    Ok(Routes::new(agent).add_service(health_service).add_service(reflection))
}

impl RunningAgent {
    /// Where it listens.
    pub const fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The newest snapshot, waiting for the first. `None` when the sampler has ended.
    pub async fn snapshot(&self) -> Option<Arc<HostSnapshot>> {
        Some(self.sampling.newest().await?.snapshot)
    }

    /// Waits until the server ends, which without [`shutdown`](Self::shutdown) happens only when it fails.
    ///
    /// # Errors
    /// When the server failed.
    pub async fn finished(&mut self) -> Result<(), ServeError> {
        (&mut self.server).await.unwrap_or(Ok(()))
    }

    /// Ends streams with a hint to come back, lets calls under way finish within the grace period, and stops.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.tasks.close();
        self.server_stop.cancel();
        let tasks = self.tasks.clone();
        let drained = async {
            tasks.wait().await;
            self.server.await
        };
        // The server itself ends after its grace; a little more is for its tasks.
        match tokio::time::timeout(self.grace + Duration::from_secs(1), drained).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::warn!(%error, "the server ended with an error"),
            Ok(Err(error)) => tracing::warn!(%error, "the server task failed"),
            Err(_) => tracing::warn!(grace = ?self.grace, "calls were still under way at the end of the grace period"),
        }
    }
}
