//! Starts an aggregator and ends it again.
//!
//! The tasks and who owns what: the inventory source (file watcher), the supervisor (host table), one task per host
//! (that host's state), the sweep (silence), one task per watch stream or listing, one per signal attempt, and the
//! server. All are tracked and end at shutdown: first streams and the server's intake, then, within a grace period,
//! what is under way.

use std::net::SocketAddr;
use std::sync::Arc;

use gpufleet_proto::FILE_DESCRIPTOR_SET;
use gpufleet_proto::v1::fleet_service_server::FleetServiceServer;
use gpufleet_transport::server::MAX_REQUEST_BYTES;
use gpufleet_transport::{Credentials, DialOptions, Dialer, ServeError};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;
use tonic_health::server::HealthReporter;
use tracing::warn;

use crate::fan_in::{self, FanIn};
use crate::inventory::{Inventory, InventoryError, source};
use crate::service::ask::Asks;
use crate::service::{FleetApi, access};
use crate::settings::AggregatorSettings;
use crate::signal::{InvalidOperator, Operators, Signals};
use crate::state::{Fleet, FleetWriter, Freshness};

/// Why an aggregator did not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The inventory cannot be read or is not valid.
    #[error(transparent)]
    Inventory(#[from] InventoryError),
    /// An operator cannot be one.
    #[error(transparent)]
    Operator(#[from] InvalidOperator),
    /// The listener is not usable.
    #[error("cannot use the listening socket: {0}")]
    Listener(std::io::Error),
    /// The reflection service cannot be built from the schema.
    #[error("cannot serve the schema: {0}")]
    Reflection(String),
}

/// An aggregator.
#[derive(Debug)]
pub struct Aggregator;

/// An aggregator at work. Dropping it without [`RunningAggregator::shutdown`] leaves its tasks running.
#[derive(Debug)]
pub struct RunningAggregator {
    local_addr: SocketAddr,
    stop: CancellationToken,
    server_stop: CancellationToken,
    health: HealthReporter,
    tasks: TaskTracker,
    server: Option<JoinHandle<Result<(), ServeError>>>,
    grace: std::time::Duration,
}

impl Aggregator {
    /// Starts to watch the hosts of the inventory and to serve on the listener.
    ///
    /// # Errors
    /// When the inventory or an operator is not valid, or the listener is not usable.
    pub async fn start(
        settings: AggregatorSettings,
        credentials: Credentials,
        listener: TcpListener,
    ) -> Result<RunningAggregator, StartError> {
        let local_addr = listener.local_addr().map_err(StartError::Listener)?;
        let operators = Operators::parse(&settings.operators)?;
        let inventory = load(&settings).await?;
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let freshness = Freshness {
            stale_after_intervals: settings.fan_in.stale_after_intervals,
            unreachable_after: settings.fan_in.unreachable_after,
        };
        let (fleet, writer) = Fleet::new(freshness);
        let asks = Arc::new(Asks::new(settings.serving.asks_in_flight, settings.serving.ask_timeout, freshness));
        let api = FleetApi {
            fleet: Arc::clone(&fleet),
            signals: Arc::new(Signals::new(Arc::clone(&fleet), Arc::clone(&asks), operators)),
            asks,
            watches: Arc::new(Semaphore::new(settings.serving.watches)),
            settings: settings.serving.clone(),
            tasks: tasks.clone(),
            stop: stop.clone(),
        };
        let (routes, health) = routes(api).await?;
        start_fan_in(&settings, credentials.clone(), inventory, writer, &tasks, &stop);
        tasks.spawn(fan_in::sweep(fleet, stop.clone()));
        let server_stop = CancellationToken::new();
        let serve = gpufleet_transport::serve(
            listener,
            credentials,
            settings.limits.clone(),
            routes,
            access::table(),
            server_stop.clone(),
        );
        let server = Some(tokio::spawn(serve));
        Ok(RunningAggregator { local_addr, stop, server_stop, health, tasks, server, grace: settings.serving.grace })
    }
}

async fn load(settings: &AggregatorSettings) -> Result<Inventory, StartError> {
    let source = settings.inventory.clone();
    let loaded = tokio::task::spawn_blocking(move || source.load()).await;
    Ok(loaded.map_err(|error| StartError::Listener(error.into()))??)
}

fn start_fan_in(
    settings: &AggregatorSettings,
    credentials: Credentials,
    inventory: Inventory,
    writer: FleetWriter,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) {
    let (sender, receiver) = watch::channel(Arc::new(inventory));
    tasks.spawn(source::follow(settings.inventory.clone(), sender, stop.clone()));
    let half = settings.fan_in.unreachable_after / 2;
    let options = DialOptions {
        timeout: settings.fan_in.connect_timeout,
        keepalive_interval: half,
        keepalive_timeout: half,
        ..DialOptions::default()
    };
    let fan_in = Arc::new(FanIn::new(Dialer::new(credentials, options), settings.fan_in.clone()));
    tasks.spawn(fan_in::supervise(fan_in, writer, receiver, tasks.clone(), stop.clone()));
}

async fn routes(api: FleetApi) -> Result<(Routes, HealthReporter), StartError> {
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<FleetServiceServer<FleetApi>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(|error| StartError::Reflection(error.to_string()))?;
    let fleet = FleetServiceServer::new(api).max_decoding_message_size(MAX_REQUEST_BYTES);
    Ok((Routes::new(fleet).add_service(health_service).add_service(reflection), health))
}

impl RunningAggregator {
    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Waits until the server ends, which without [`shutdown`](Self::shutdown) happens only when it fails.
    ///
    /// # Errors
    /// When the server failed.
    pub async fn finished(&mut self) -> Result<(), ServeError> {
        let Some(server) = &mut self.server else { return Ok(()) };
        let ended = server.await;
        self.server = None;
        ended.unwrap_or(Ok(()))
    }

    /// Ends streams with a hint to come back, lets calls under way finish within the grace period, and stops.
    pub async fn shutdown(self) {
        self.health.set_not_serving::<FleetServiceServer<FleetApi>>().await;
        self.stop.cancel();
        self.tasks.close();
        self.server_stop.cancel();
        let tasks = self.tasks.clone();
        let drained = async {
            tasks.wait().await;
            match self.server {
                Some(server) => server.await,
                None => Ok(Ok(())),
            }
        };
        match tokio::time::timeout(self.grace, drained).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => warn!(%error, "the server ended with an error"),
            Ok(Err(error)) => warn!(%error, "the server task failed"),
            Err(_) => warn!(grace = ?self.grace, "calls were still under way at the end of the grace period"),
        }
    }
}
