//! One agent.

use gpufleet_model::HostDelta;
use gpufleet_proto::convert::{decode_host_response, decode_processes};
use gpufleet_proto::v1::agent_service_client::AgentServiceClient;
use gpufleet_proto::v1::{self, ProcessScope, WatchPhase};
use gpufleet_transport::server::MAX_RESPONSE_BYTES;
use gpufleet_transport::{Dialer, ExpectedPeer, Role};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

use super::{Want, redial};
use crate::exit::{CtlError, Result};
use crate::view::Event;

type Client = AgentServiceClient<Channel>;

/// Whom an agent's address must lead to: any agent, since a person names it by its address.
const AGENT: ExpectedPeer = ExpectedPeer::AnyOf(&[Role::Agent]);

/// Connects to an agent and watches it, reconnecting when it is lost.
pub(super) async fn start(
    dialer: Dialer,
    address: String,
    want: Want,
    events: mpsc::Sender<Event>,
    stop: CancellationToken,
) -> Result<()> {
    let mut client = agent_client(dialer.connect(&address, &AGENT).await?);
    let watch = async move {
        loop {
            let ended = match watch(&mut client, &want, &events).await {
                Ok(()) => return,
                Err(error) => error,
            };
            let temporary = ended.is_temporary();
            if events.send(Event::Lost(ended)).await.is_err() || !temporary {
                return;
            }
            let Some(channel) = redial(&events, &dialer, &address, &AGENT).await else { return };
            client = agent_client(channel);
            if events.send(Event::Back).await.is_err() {
                return;
            }
        }
    };
    tokio::spawn(async move { stop.run_until_cancelled(Box::pin(watch)).await });
    Ok(())
}

fn agent_client(channel: Channel) -> Client {
    AgentServiceClient::new(channel).max_decoding_message_size(MAX_RESPONSE_BYTES)
}

/// Forwards the agent's stream; `Ok` when the reader is gone.
async fn watch(client: &mut Client, want: &Want, events: &mpsc::Sender<Event>) -> Result<()> {
    let host = client.get_host(v1::GetHostRequest {}).await?.into_inner();
    let host = host.host.ok_or_else(|| CtlError::unreachable("the agent did not say who it is"))?.name;
    let request = v1::WatchHostRequest { min_interval: Some(gpufleet_proto::convert::duration(want.interval)) };
    let mut stream = client.watch_host(request).await?.into_inner();
    let mut devices = 0;
    while let Some(message) = stream.message().await? {
        let phase = message.position.as_ref().map_or(WatchPhase::Unspecified, v1::WatchPosition::phase);
        let delta = decode_host_response(message).map_err(|error| CtlError::unreachable(error.to_string()))?;
        devices = devices + delta.devices.iter().filter(|change| change.info.is_some()).count()
            - delta.removed_devices.len().min(devices);
        let sent = if phase == WatchPhase::Reset {
            events.send(Event::HostReset(host.clone())).await
        } else {
            let synced = phase == WatchPhase::Synced;
            let every = want.all || devices == 0;
            if every && (synced || phase == WatchPhase::Update) {
                list_every_process(client, &host, events).await?;
            }
            let sent = events
                .send(Event::Delta { host: host.clone(), delta: Box::new(without_processes(delta, every)) })
                .await;
            if synced && sent.is_ok() { events.send(Event::Synced).await } else { sent }
        };
        if sent.is_err() {
            return Ok(());
        }
    }
    Err(CtlError::unreachable("the agent ended the stream"))
}

/// Where every process is listed, the stream's own ones would only contradict it.
fn without_processes(delta: HostDelta, every: bool) -> HostDelta {
    if every { HostDelta { processes: Vec::new(), removed_processes: Vec::new(), ..delta } } else { delta }
}

async fn list_every_process(client: &mut Client, host: &str, events: &mpsc::Sender<Event>) -> Result<()> {
    let request = v1::ListProcessesRequest { scope: ProcessScope::All.into() };
    let mut batches = client.list_processes(request).await?.into_inner();
    let mut upserts = Vec::new();
    while let Some(batch) = batches.message().await? {
        upserts.extend(batch.processes);
    }
    let changes = v1::ProcessChanges { upserts, removed: Vec::new() };
    // Checked here, so that a list that cannot be understood does not empty the view.
    decode_processes(changes.clone()).map_err(|error| CtlError::unreachable(error.to_string()))?;
    let list = v1::HostProcessChanges { host: host.to_owned(), changes: Some(changes), ..Default::default() };
    let _ = events.send(Event::ProcessList(vec![list])).await;
    Ok(())
}
