//! A fleet, through an aggregator: three watch streams side by side.

use std::collections::BTreeSet;
use std::time::Duration;

use gpufleet_proto::convert::duration;
use gpufleet_proto::v1::fleet_service_client::FleetServiceClient;
use gpufleet_proto::v1::{self, ProcessScope, WatchPhase};
use gpufleet_transport::Dialer;
use gpufleet_transport::server::MAX_RESPONSE_BYTES;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::{AGGREGATOR, Want, dial_aggregator, redial};
use crate::exit::{CtlError, Result};
use crate::view::Event;

/// Hosts without devices whose processes are listed anew at each refresh, at most.
const MOST_LISTED_HOSTS: usize = 50;

pub(crate) type Client = FleetServiceClient<Channel>;

/// A client of an aggregator.
pub(crate) fn fleet_client(channel: Channel) -> Client {
    FleetServiceClient::new(channel).max_decoding_message_size(MAX_RESPONSE_BYTES)
}

/// Connects to an aggregator and watches the fleet, reconnecting when it is lost.
pub(super) async fn start(
    dialer: Dialer,
    address: String,
    want: Want,
    events: mpsc::Sender<Event>,
    stop: CancellationToken,
) -> Result<()> {
    let mut client = fleet_client(dial_aggregator(&dialer, &address).await?);
    let watch = async move {
        loop {
            let ended = match watch(&client, &want, &events).await {
                Ok(()) => return,
                Err(error) => error,
            };
            let temporary = ended.is_temporary();
            if events.send(Event::Lost(ended)).await.is_err() || !temporary {
                return;
            }
            let Some(channel) = redial(&events, &dialer, &address, &AGGREGATOR).await else { return };
            client = fleet_client(channel);
            if events.send(Event::Back).await.is_err() {
                return;
            }
        }
    };
    tokio::spawn(async move { stop.run_until_cancelled(Box::pin(watch)).await });
    Ok(())
}

/// Forwards the streams until one of them ends; `Ok` when the reader is gone.
async fn watch(client: &Client, want: &Want, events: &mpsc::Sender<Event>) -> Result<()> {
    let min_interval = Some(duration(want.interval));
    let filter = Some(want.filter.to_wire());
    let hosts = {
        let (mut client, request) = (client.clone(), v1::WatchFleetRequest { filter: filter.clone(), min_interval });
        async move {
            let stream = client.watch_fleet(request).await?.into_inner();
            forward(stream, events, |message| message.position, Event::Hosts).await
        }
    };
    if !want.contents {
        return hosts.await;
    }
    let devices = {
        let request = v1::FleetServiceWatchDevicesRequest { filter: filter.clone(), min_interval };
        let mut client = client.clone();
        async move {
            let stream = client.watch_devices(request).await?.into_inner();
            forward(stream, events, |message| message.position, Event::Devices).await
        }
    };
    let processes = watch_processes(client.clone(), want, events);
    tokio::select! {
        ended = hosts => ended,
        ended = devices => ended,
        ended = processes => ended,
    }
}

/// Sends each message on, and the mark when the snapshot is complete.
async fn forward<M>(
    mut stream: Streaming<M>,
    events: &mpsc::Sender<Event>,
    position: impl Fn(&M) -> Option<v1::WatchPosition>,
    event: impl Fn(M) -> Event,
) -> Result<()> {
    while let Some(message) = stream.message().await? {
        let phase = position(&message).as_ref().map_or(WatchPhase::Unspecified, v1::WatchPosition::phase);
        let mut sent = events.send(event(message)).await;
        if phase == WatchPhase::Synced && sent.is_ok() {
            sent = events.send(Event::Synced).await;
        }
        if sent.is_err() {
            return Ok(());
        }
    }
    Err(CtlError::unreachable("the aggregator ended the stream"))
}

/// Processes: first a list, which also holds those of hosts without devices; then the stream of those on devices, with
/// the list again at each refresh where it says more.
async fn watch_processes(mut client: Client, want: &Want, events: &mpsc::Sender<Event>) -> Result<()> {
    let scope = if want.all { ProcessScope::All } else { ProcessScope::Unspecified };
    let listed = list(&mut client, Some(want.filter.to_wire()), scope).await?;
    let without_devices: Vec<String> = hosts_without_devices(&listed).into_iter().take(MOST_LISTED_HOSTS).collect();
    if events.send(Event::ProcessList(listed)).await.is_err() || events.send(Event::Synced).await.is_err() {
        return Ok(());
    }
    if want.all || !without_devices.is_empty() {
        return list_again(client, want, scope, events).await;
    }
    let request = v1::FleetServiceWatchProcessesRequest {
        filter: Some(want.filter.to_wire()),
        min_interval: Some(duration(want.interval)),
    };
    let mut stream = client.watch_processes(request).await?.into_inner();
    while let Some(message) = stream.message().await? {
        if events.send(Event::Processes(message)).await.is_err() {
            return Ok(());
        }
    }
    Err(CtlError::unreachable("the aggregator ended the stream"))
}

async fn list_again(mut client: Client, want: &Want, scope: ProcessScope, events: &mpsc::Sender<Event>) -> Result<()> {
    loop {
        tokio::time::sleep(want.interval.max(Duration::from_millis(100))).await;
        let listed = list(&mut client, Some(want.filter.to_wire()), scope).await?;
        if events.send(Event::ProcessList(listed)).await.is_err() {
            return Ok(());
        }
    }
}

async fn list(
    client: &mut Client,
    filter: Option<v1::FleetFilter>,
    scope: ProcessScope,
) -> std::result::Result<Vec<v1::HostProcessChanges>, Status> {
    let request = v1::FleetServiceListProcessesRequest { filter, scope: scope.into() };
    let mut batches = client.list_processes(request).await?.into_inner();
    let mut hosts = Vec::new();
    while let Some(batch) = batches.message().await? {
        hosts.extend(batch.hosts);
    }
    Ok(hosts)
}

/// Hosts whose listed processes use no device at all.
fn hosts_without_devices(listed: &[v1::HostProcessChanges]) -> BTreeSet<String> {
    let uses = |change: &v1::ProcessChange| change.device_uses.as_ref().is_some_and(|uses| !uses.uses.is_empty());
    let upserts = |host: &v1::HostProcessChanges| {
        host.changes.as_ref().map(|changes| changes.upserts.clone()).unwrap_or_default()
    };
    let with: BTreeSet<&str> =
        listed.iter().filter(|host| upserts(host).iter().any(uses)).map(|host| host.host.as_str()).collect();
    let every = listed.iter().filter(|host| !upserts(host).is_empty()).map(|host| host.host.as_str());
    every.filter(|host| !with.contains(host)).map(str::to_owned).collect()
}
