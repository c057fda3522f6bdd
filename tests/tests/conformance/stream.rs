//! The watch streams of both servers in one shape.

use std::collections::BTreeSet;
use std::pin::Pin;

use gpufleet_proto::v1;
use gpufleet_proto::v1::agent_service_client::AgentServiceClient;
use gpufleet_proto::v1::fleet_service_client::FleetServiceClient;
use gpufleet_tests::Fleet;
use gpufleet_tests::view::Part;
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::Channel;
use tonic::{Status, Streaming};

/// A stream that can be watched.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// Host, devices and processes: `WatchHost` or `WatchFleet`.
    Hosts,
    /// `WatchDevices`.
    Devices,
    /// `WatchDevices` by a reader that asks for fewer messages than there are samples.
    SlowDevices,
    /// `WatchProcesses`.
    Processes,
}

/// One message, whoever sent it.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) position: Option<v1::WatchPosition>,
    pub(crate) parts: Vec<Part>,
    /// Something beside devices and processes changed.
    other: bool,
    /// Bytes on the wire.
    pub(crate) size: usize,
}

impl Message {
    pub(crate) fn is_empty(&self) -> bool {
        !self.other && self.parts.iter().all(|part| part.devices.is_none() && part.processes.is_none())
    }
}

/// An open stream.
pub(crate) struct Watch(Pin<Box<dyn Stream<Item = Result<Message, Status>> + Send>>);

impl Watch {
    fn of<T: prost::Message + 'static>(stream: Streaming<T>, shape: impl Fn(T) -> Message + Send + 'static) -> Self {
        let measured = move |item: T| {
            let size = item.encoded_len();
            Message { size, ..shape(item) }
        };
        Self(Box::pin(stream.map(move |item| item.map(&measured))))
    }

    pub(crate) async fn next(&mut self) -> Option<Result<Message, Status>> {
        self.0.next().await
    }
}

/// A server under test.
pub(crate) enum Server {
    Agent(AgentServiceClient<Channel>),
    Aggregator(FleetServiceClient<Channel>),
}

impl Server {
    pub(crate) async fn agent(fleet: &Fleet) -> Self {
        Self::Agent(AgentServiceClient::new(fleet.dial_agent("host1").await))
    }

    pub(crate) async fn aggregator(fleet: &Fleet) -> Self {
        Self::Aggregator(FleetServiceClient::new(fleet.dial_aggregator().await))
    }

    /// Streams that tell of devices.
    pub(crate) fn device_kinds(&self) -> Vec<Kind> {
        match self {
            Self::Agent(_) => vec![Kind::Hosts, Kind::Devices],
            Self::Aggregator(_) => vec![Kind::Devices],
        }
    }

    /// Streams that tell of processes.
    pub(crate) fn process_kinds(&self) -> Vec<Kind> {
        match self {
            Self::Agent(_) => vec![Kind::Hosts, Kind::Processes],
            Self::Aggregator(_) => vec![Kind::Processes],
        }
    }

    /// Opens a stream.
    pub(crate) async fn watch(&self, kind: Kind) -> Watch {
        match self {
            Self::Agent(client) => watch_agent(client.clone(), kind).await,
            Self::Aggregator(client) => watch_aggregator(client.clone(), kind).await,
        }
        .expect("the stream opens")
    }

    /// Pids of the processes on devices, as the list tells them.
    pub(crate) async fn listed_pids(&self) -> BTreeSet<u32> {
        let changes: Vec<v1::ProcessChange> = match self {
            Self::Agent(client) => {
                let stream =
                    client.clone().list_processes(v1::ListProcessesRequest::default()).await.expect("the list");
                let batches: Vec<_> = stream.into_inner().collect().await;
                batches.into_iter().flat_map(|batch| batch.expect("a batch").processes).collect()
            }
            Self::Aggregator(client) => {
                let request = v1::FleetServiceListProcessesRequest::default();
                let stream = client.clone().list_processes(request).await.expect("the list");
                let batches: Vec<_> = stream.into_inner().collect().await;
                let hosts = batches.into_iter().flat_map(|batch| batch.expect("a batch").hosts);
                hosts.filter_map(|host| host.changes).flat_map(|changes| changes.upserts).collect()
            }
        };
        changes.into_iter().filter_map(|change| change.identity).map(|identity| identity.pid).collect()
    }
}

/// More than the time between two samples.
const SLOWLY: prost_types::Duration = prost_types::Duration { seconds: 1, nanos: 500_000_000 };

async fn watch_agent(mut client: AgentServiceClient<Channel>, kind: Kind) -> Result<Watch, Status> {
    let part = |devices, processes| vec![Part { host: String::new(), reset: false, devices, processes }];
    Ok(match kind {
        Kind::Hosts => {
            let stream = client.watch_host(v1::WatchHostRequest::default()).await?.into_inner();
            Watch::of(stream, move |message| Message {
                position: message.position,
                parts: part(message.devices, message.processes),
                other: message.host.is_some() || !message.health.is_empty(),
                size: 0,
            })
        }
        Kind::Devices | Kind::SlowDevices => {
            let min_interval = matches!(kind, Kind::SlowDevices).then_some(SLOWLY);
            let stream = client.watch_devices(v1::WatchDevicesRequest { min_interval }).await?.into_inner();
            Watch::of(stream, move |message| Message {
                position: message.position,
                parts: part(message.devices, None),
                other: false,
                size: 0,
            })
        }
        Kind::Processes => {
            let stream = client.watch_processes(v1::WatchProcessesRequest::default()).await?.into_inner();
            Watch::of(stream, move |message| Message {
                position: message.position,
                parts: part(None, message.processes),
                other: false,
                size: 0,
            })
        }
    })
}

async fn watch_aggregator(mut client: FleetServiceClient<Channel>, kind: Kind) -> Result<Watch, Status> {
    Ok(match kind {
        Kind::Hosts => {
            let stream = client.watch_fleet(v1::WatchFleetRequest::default()).await?.into_inner();
            Watch::of(stream, |message| Message {
                position: message.position,
                parts: Vec::new(),
                other: !message.upserts.is_empty() || !message.removed.is_empty(),
                size: 0,
            })
        }
        Kind::Devices | Kind::SlowDevices => {
            let request = v1::FleetServiceWatchDevicesRequest { filter: None, min_interval: None };
            Watch::of(client.watch_devices(request).await?.into_inner(), |message| Message {
                position: message.position,
                parts: message
                    .hosts
                    .into_iter()
                    .map(|host| Part { host: host.host, reset: host.reset, devices: host.changes, processes: None })
                    .collect(),
                other: false,
                size: 0,
            })
        }
        Kind::Processes => {
            let request = v1::FleetServiceWatchProcessesRequest::default();
            Watch::of(client.watch_processes(request).await?.into_inner(), |message| Message {
                position: message.position,
                parts: message
                    .hosts
                    .into_iter()
                    .map(|host| Part { host: host.host, reset: host.reset, devices: None, processes: host.changes })
                    .collect(),
                other: false,
                size: 0,
            })
        }
    })
}
