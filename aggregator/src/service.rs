//! `FleetService`: the agents' verbs over the whole fleet.
//!
//! Handlers are thin: they check the request, read the fleet's state, and answer or start one tracked task that feeds a
//! bounded stream. Who may call what is decided before, by the transport's access table.

use std::sync::Arc;
use std::time::Duration;

use gpufleet_proto::convert::std_duration;
use gpufleet_proto::status::Reason;
use gpufleet_proto::v1;
use gpufleet_proto::v1::fleet_service_server::FleetService;
use gpufleet_transport::stream::{self, WatchStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::{Request, Response, Status};

use crate::query::{Filter, summarize};
use crate::settings::ServingSettings;
use crate::signal::{Attempt, Signals};
use crate::state::Fleet;
use crate::watch::{Pace, Watch, Watched, WatchedDevices, WatchedHosts, WatchedProcesses, shutting_down};

pub(crate) mod access;
pub(crate) mod ask;
mod list_hosts;
mod list_processes;

/// The least time between two updates of a watch stream, whatever is asked for.
const FASTEST: Duration = Duration::from_millis(100);
/// The most time between two updates of a watch stream, whatever is asked for.
const SLOWEST: Duration = Duration::from_hours(1);
/// The most labels to group a summary by.
const MAX_GROUP_LABELS: usize = 8;

/// The service.
#[derive(Clone)]
pub(crate) struct FleetApi {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) signals: Arc<Signals>,
    pub(crate) asks: Arc<ask::Asks>,
    pub(crate) watches: Arc<Semaphore>,
    pub(crate) settings: ServingSettings,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
}

impl FleetApi {
    async fn filter(&self, filter: Option<v1::FleetFilter>) -> Result<Filter, Status> {
        let filter = Filter::parse(filter, &self.fleet.table())?;
        filter.check_exists(&self.fleet).await?;
        Ok(filter)
    }

    fn watch<W: Watched>(
        &self,
        watched: W,
        filter: Filter,
        min_interval: Option<prost_types::Duration>,
    ) -> Result<Response<WatchStream<W::Message>>, Status> {
        let pace = self.pace(min_interval)?;
        let permit = Arc::clone(&self.watches).try_acquire_owned().map_err(|_| {
            let message =
                format!("{} watch streams are open, the most that this aggregator serves", self.settings.watches);
            Reason::TooManyRequests.status(message, [("retry_after_ms", "5000".to_owned())])
        })?;
        let (reader, sender, ending) = stream::channel(shutting_down);
        let watch = Watch::new(Arc::clone(&self.fleet), watched, filter, pace, sender.clone());
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            if let Some(status) = watch.run(stop).await {
                // Only this task sets it.
                let _ = ending.set(Err(status));
            }
            drop((sender, permit));
        });
        Ok(Response::new(reader))
    }

    fn pace(&self, min_interval: Option<prost_types::Duration>) -> Result<Pace, Status> {
        let min_interval = match min_interval {
            None => Duration::from_secs(1),
            Some(asked) => std_duration(asked).ok_or_else(|| {
                Reason::InvalidArgument
                    .status("min_interval must not be negative", [("field", "min_interval".to_owned())])
            })?,
        };
        // Streams opened together must not all be opened anew together.
        let max_age = self.settings.watch_age.mul_f64(rand::random_range(0.9..=1.0));
        Ok(Pace { min_interval: min_interval.clamp(FASTEST, SLOWEST), heartbeat: self.settings.heartbeat, max_age })
    }
}

fn not_implemented(what: &str) -> Status {
    Reason::NotImplemented
        .status(format!("{what} is not offered by this version of the aggregator"), [("method", what.to_owned())])
}

#[tonic::async_trait]
impl FleetService for FleetApi {
    type WatchFleetStream = WatchStream<v1::WatchFleetResponse>;
    type WatchDevicesStream = WatchStream<v1::FleetServiceWatchDevicesResponse>;
    type ListProcessesStream = WatchStream<v1::FleetServiceListProcessesResponse>;
    type WatchProcessesStream = WatchStream<v1::FleetServiceWatchProcessesResponse>;
    type WatchHealthStream = WatchStream<v1::FleetServiceWatchHealthResponse>;
    type WatchEventsStream = WatchStream<v1::FleetServiceWatchEventsResponse>;

    async fn list_hosts(
        &self,
        request: Request<v1::ListHostsRequest>,
    ) -> Result<Response<v1::ListHostsResponse>, Status> {
        let v1::ListHostsRequest { filter, page_size, page_token } = request.into_inner();
        let filter = self.filter(filter).await?;
        list_hosts::page(&self.fleet, &filter, page_size, &page_token).await.map(Response::new)
    }

    async fn watch_fleet(
        &self,
        request: Request<v1::WatchFleetRequest>,
    ) -> Result<Response<Self::WatchFleetStream>, Status> {
        let v1::WatchFleetRequest { filter, min_interval } = request.into_inner();
        let filter = self.filter(filter).await?;
        self.watch(WatchedHosts { fleet: Arc::clone(&self.fleet) }, filter, min_interval)
    }

    async fn watch_devices(
        &self,
        request: Request<v1::FleetServiceWatchDevicesRequest>,
    ) -> Result<Response<Self::WatchDevicesStream>, Status> {
        let v1::FleetServiceWatchDevicesRequest { filter, min_interval } = request.into_inner();
        let filter = self.filter(filter).await?;
        self.watch(WatchedDevices, filter, min_interval)
    }

    async fn list_processes(
        &self,
        request: Request<v1::FleetServiceListProcessesRequest>,
    ) -> Result<Response<Self::ListProcessesStream>, Status> {
        self.start_list_processes(request.into_inner()).await.map(Response::new)
    }

    async fn watch_processes(
        &self,
        request: Request<v1::FleetServiceWatchProcessesRequest>,
    ) -> Result<Response<Self::WatchProcessesStream>, Status> {
        let v1::FleetServiceWatchProcessesRequest { filter, min_interval } = request.into_inner();
        let filter = self.filter(filter).await?;
        self.watch(WatchedProcesses, filter, min_interval)
    }

    async fn signal_process(
        &self,
        request: Request<v1::FleetServiceSignalProcessRequest>,
    ) -> Result<Response<v1::FleetServiceSignalProcessResponse>, Status> {
        let attempt = Attempt::check(request, &self.fleet)?;
        self.signals.run(attempt, &self.tasks).await.map(Response::new)
    }

    async fn watch_health(
        &self,
        _: Request<v1::FleetServiceWatchHealthRequest>,
    ) -> Result<Response<Self::WatchHealthStream>, Status> {
        Err(not_implemented("WatchHealth"))
    }

    async fn watch_events(
        &self,
        _: Request<v1::FleetServiceWatchEventsRequest>,
    ) -> Result<Response<Self::WatchEventsStream>, Status> {
        Err(not_implemented("WatchEvents"))
    }

    async fn select_devices(
        &self,
        _: Request<v1::SelectDevicesRequest>,
    ) -> Result<Response<v1::SelectDevicesResponse>, Status> {
        Err(not_implemented("SelectDevices"))
    }

    async fn get_fleet_summary(
        &self,
        request: Request<v1::GetFleetSummaryRequest>,
    ) -> Result<Response<v1::GetFleetSummaryResponse>, Status> {
        let v1::GetFleetSummaryRequest { filter, group_by } = request.into_inner();
        let filter = self.filter(filter).await?;
        if group_by.len() > MAX_GROUP_LABELS || group_by.iter().any(String::is_empty) {
            let message = format!("group_by takes at most {MAX_GROUP_LABELS} labels, none of them empty");
            return Err(Reason::InvalidArgument.status(message, [("field", "group_by".to_owned())]));
        }
        let cells = filter.hosts(&self.fleet.table());
        Ok(Response::new(summarize(&cells, &filter, &group_by, self.fleet.freshness()).await))
    }

    async fn list_audit_events(
        &self,
        _: Request<v1::ListAuditEventsRequest>,
    ) -> Result<Response<v1::ListAuditEventsResponse>, Status> {
        Err(not_implemented("ListAuditEvents"))
    }

    async fn get_usage(&self, _: Request<v1::GetUsageRequest>) -> Result<Response<v1::GetUsageResponse>, Status> {
        Err(not_implemented("GetUsage"))
    }
}
