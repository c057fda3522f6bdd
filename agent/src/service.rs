//! `gpufleet.v1.AgentService` over the newest snapshot. Handlers never call the driver.

use std::sync::Arc;
use std::time::Duration;

use gpufleet_model::HostDelta;
use gpufleet_proto::convert::health::device_health;
use gpufleet_proto::convert::{encode_processes, snapshot_chunks, std_duration, system_time, timestamp};
use gpufleet_proto::status::Reason;
use gpufleet_proto::v1::agent_service_server::AgentService;
use gpufleet_proto::v1::{self, ProcessScope};
use gpufleet_transport::stream::{Ending, WatchStream};
use gpufleet_transport::{peer, stream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::{Request, Response, Status};

use crate::sampling::{Sampled, Sampling};
use crate::settings::ServingSettings;
use crate::signal::{Attempt, Signals};
use crate::watch::{
    DeviceMessages, EventWatch, HealthMessages, HostMessages, Messages, ProcessMessages, Watch, shutting_down,
};

mod access;
mod request;

pub(crate) use access::table;
pub(crate) use request::invalid;

/// Bookmarks of a stream come at least this often, so no interval may be longer.
const LONGEST_INTERVAL: Duration = Duration::from_secs(15);

/// The service's handlers.
#[derive(Debug, Clone)]
pub(crate) struct AgentApi {
    pub(crate) sampling: Arc<Sampling>,
    pub(crate) signals: Arc<Signals>,
    pub(crate) watches: Arc<Semaphore>,
    pub(crate) settings: ServingSettings,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
}

impl AgentApi {
    async fn newest(&self) -> Result<Sampled, Status> {
        self.sampling.newest().await.ok_or_else(shutting_down)
    }

    fn watch<M: Messages>(
        &self,
        messages: M,
        min_interval: Option<prost_types::Duration>,
    ) -> Result<Response<WatchStream<M::Message>>, Status> {
        let min_interval = match min_interval {
            None => Duration::ZERO,
            Some(interval) => std_duration(interval)
                .ok_or_else(|| request::invalid("min_interval", "is not a length of time"))?
                .min(LONGEST_INTERVAL),
        };
        let place = self.place()?;
        let (reader, output, ending) = stream::channel(shutting_down);
        let (sampling, max_age) = (Arc::clone(&self.sampling), self.settings.watch_age);
        let last = output.clone();
        let watch = Watch { sampling, messages, min_interval, max_age, output };
        self.spawn(watch.run(self.stop.clone()), ending, (last, place));
        Ok(Response::new(reader))
    }

    /// A place among the streams that are served at once.
    fn place(&self) -> Result<OwnedSemaphorePermit, Status> {
        Arc::clone(&self.watches).try_acquire_owned().map_err(|_| {
            let message = "this agent serves as many streams as it may; close one and try again";
            Reason::TooManyRequests.status(message, [])
        })
    }

    /// Runs a stream. It ends for its reader when the last sender, which is among `held`, is gone; by then it must be known
    /// how.
    fn spawn(
        &self,
        stream: impl Future<Output = Option<Status>> + Send + 'static,
        ending: Ending,
        held: impl Send + 'static,
    ) {
        self.tasks.spawn(async move {
            let ended = stream.await;
            let _ = ending.set(ended.map_or(Ok(()), Err));
            drop(held);
        });
    }
}

#[tonic::async_trait]
impl AgentService for AgentApi {
    type WatchHostStream = WatchStream<v1::WatchHostResponse>;
    type WatchDevicesStream = WatchStream<v1::WatchDevicesResponse>;
    type ListProcessesStream = tokio_stream::Iter<std::vec::IntoIter<Result<v1::ListProcessesResponse, Status>>>;
    type WatchProcessesStream = WatchStream<v1::WatchProcessesResponse>;
    type WatchHealthStream = WatchStream<v1::WatchHealthResponse>;
    type WatchEventsStream = WatchStream<v1::WatchEventsResponse>;

    async fn get_host(&self, _: Request<v1::GetHostRequest>) -> Result<Response<v1::GetHostResponse>, Status> {
        let newest = self.newest().await?.snapshot;
        let (host, sampled_at) = (Some((&*newest.host).into()), Some(timestamp(newest.sampled_at)));
        Ok(Response::new(v1::GetHostResponse { host, sampled_at }))
    }

    async fn watch_host(
        &self,
        request: Request<v1::WatchHostRequest>,
    ) -> Result<Response<Self::WatchHostStream>, Status> {
        self.watch(HostMessages, request.into_inner().min_interval)
    }

    async fn watch_devices(
        &self,
        request: Request<v1::WatchDevicesRequest>,
    ) -> Result<Response<Self::WatchDevicesStream>, Status> {
        self.watch(DeviceMessages, request.into_inner().min_interval)
    }

    async fn list_processes(
        &self,
        request: Request<v1::ListProcessesRequest>,
    ) -> Result<Response<Self::ListProcessesStream>, Status> {
        let scope = request::scope(request.into_inner().scope)?;
        let newest = self.newest().await?.snapshot;
        let snapshot = ProcessMessages::in_scope(scope, &self.sampling, &newest).await;
        let processes = HostDelta { host: None, devices: Vec::new(), ..HostDelta::full(&snapshot) };
        let batch = |chunk: HostDelta| {
            Ok(v1::ListProcessesResponse {
                sampled_at: Some(timestamp(chunk.sampled_at)),
                processes: encode_processes(&chunk).map(|changes| changes.upserts).unwrap_or_default(),
            })
        };
        let batches: Vec<_> = snapshot_chunks(processes).into_iter().map(batch).collect();
        Ok(Response::new(tokio_stream::iter(batches)))
    }

    async fn watch_processes(
        &self,
        request: Request<v1::WatchProcessesRequest>,
    ) -> Result<Response<Self::WatchProcessesStream>, Status> {
        let request = request.into_inner();
        let scope: ProcessScope = request::scope(request.scope)?;
        self.watch(ProcessMessages { scope }, request.min_interval)
    }

    async fn signal_process(
        &self,
        request: Request<v1::SignalProcessRequest>,
    ) -> Result<Response<v1::SignalProcessResponse>, Status> {
        let peer = peer(&request)?;
        let caller = peer.identity.to_string();
        tracing::debug!(%caller, address = %peer.address, "signal asked for");
        let attempt = Attempt::from_wire(caller.clone(), request.into_inner()).inspect_err(|status| {
            tracing::info!(%caller, problem = status.message(), "signal refused: the request is not valid");
        })?;
        let report = self.signals.attempt(attempt).await?;
        Ok(Response::new(report.into()))
    }

    async fn get_health(
        &self,
        request: Request<v1::GetHealthRequest>,
    ) -> Result<Response<v1::GetHealthResponse>, Status> {
        let wanted = HealthMessages { uuids: request.into_inner().device_uuids };
        let newest = self.newest().await?;
        request::known_devices(&wanted.uuids, &newest.snapshot)?;
        let devices = newest.snapshot.devices.values().filter_map(|device| {
            let health = newest.judgement.health.get(&device.key)?;
            Some(device_health(device.key, &device.info.uuid, health))
        });
        let devices = devices.filter(|health| wanted.wants(health)).collect();
        Ok(Response::new(v1::GetHealthResponse { devices }))
    }

    async fn watch_health(
        &self,
        request: Request<v1::WatchHealthRequest>,
    ) -> Result<Response<Self::WatchHealthStream>, Status> {
        let uuids = request.into_inner().device_uuids;
        request::known_devices(&uuids, &self.newest().await?.snapshot)?;
        self.watch(HealthMessages { uuids }, None)
    }

    async fn watch_events(
        &self,
        request: Request<v1::WatchEventsRequest>,
    ) -> Result<Response<Self::WatchEventsStream>, Status> {
        let since = match request.into_inner().since {
            None => None,
            Some(since) => Some(system_time(since).ok_or_else(|| request::invalid("since", "is not a point in time"))?),
        };
        let place = self.place()?;
        let (reader, output, ending) = stream::channel(shutting_down);
        let (sampling, max_age) = (Arc::clone(&self.sampling), self.settings.watch_age);
        let last = output.clone();
        let watch = EventWatch { sampling, since, max_age, output };
        self.spawn(watch.run(self.stop.clone()), ending, (last, place));
        Ok(Response::new(reader))
    }
}
