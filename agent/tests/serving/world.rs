//! One agent on loopback, an authority, clients of any role, and a reader that applies a watch stream.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use gpufleet_agent::{Agent, AgentSettings, BackendChoice, RunningAgent};
use gpufleet_model::{HostDelta, HostSnapshot, ProcessChange, ProcessIdentity};
use gpufleet_proto::convert::{MAX_CHUNK_BYTES, decode_host_response};
use gpufleet_proto::v1::agent_service_client::AgentServiceClient;
use gpufleet_proto::v1::{self, WatchPhase};
use gpufleet_transport::pki::{Authority, IssueRequest};
use gpufleet_transport::{Credentials, DialOptions, Dialer, ExpectedPeer, Role};
use prost::Message as _;
use tokio::net::TcpListener;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

pub(crate) type Client = AgentServiceClient<Channel>;

/// Whatever is waited for must be there by then; on a quiet machine it takes a fraction.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);
/// The name of the only host.
pub(crate) const HOST: &str = "node1";
/// Time between samples, short enough for tests.
pub(crate) const TICK: Duration = Duration::from_millis(20);

pub(crate) struct World {
    pub(crate) authority: Authority,
    pub(crate) agent: RunningAgent,
    pub(crate) address: SocketAddr,
}

impl World {
    /// A simulated host with so many devices.
    pub(crate) async fn simulated(devices: u32) -> Self {
        Self::start(BackendChoice::Simulated { devices }, |_| {}).await
    }

    /// This machine without any device.
    pub(crate) async fn real() -> Self {
        Self::start(BackendChoice::Auto, |settings| settings.backend_options.nvml_library = Some("/nonexistent".into()))
            .await
    }

    pub(crate) async fn start(backend: BackendChoice, adjust: impl FnOnce(&mut AgentSettings)) -> Self {
        let authority = Authority::in_memory("test.example", Duration::from_hours(1)).unwrap();
        let mut settings = AgentSettings { backend, interval: TICK, ..AgentSettings::new(HOST) };
        adjust(&mut settings);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let credentials = issue(&authority, Role::Agent, HOST);
        let agent = Agent::start(settings, credentials, listener).await.unwrap();
        let address = agent.local_addr();
        Self { authority, agent, address }
    }

    pub(crate) async fn channel(&self, role: Role, name: &str) -> Channel {
        self.channel_with(role, name, self.address, DialOptions::default()).await
    }

    pub(crate) async fn channel_with(
        &self,
        role: Role,
        name: &str,
        address: SocketAddr,
        options: DialOptions,
    ) -> Channel {
        let dialer = Dialer::new(issue(&self.authority, role, name), options);
        dialer.connect(&address.to_string(), &ExpectedPeer::Agent(HOST.to_owned())).await.unwrap()
    }

    pub(crate) async fn client(&self, role: Role, name: &str) -> Client {
        Client::new(self.channel(role, name).await)
    }

    pub(crate) async fn user(&self) -> Client {
        self.client(Role::User, "alice").await
    }

    pub(crate) async fn aggregator(&self) -> Client {
        self.client(Role::Aggregator, "main").await
    }
}

pub(crate) fn issue(authority: &Authority, role: Role, name: &str) -> Credentials {
    authority.issue(&IssueRequest::new(role, name)).unwrap().credentials().unwrap()
}

/// Fails instead of hanging.
pub(crate) async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// A reader of `WatchHost` that applies every message and checks the rules of the stream.
pub(crate) struct Reader {
    messages: Streaming<v1::WatchHostResponse>,
    pub(crate) snapshot: Option<HostSnapshot>,
    pub(crate) coalesced: u64,
    synced: bool,
}

impl Reader {
    pub(crate) async fn open(client: &mut Client) -> Self {
        Self::open_with(client, v1::WatchHostRequest::default()).await
    }

    pub(crate) async fn open_with(client: &mut Client, request: v1::WatchHostRequest) -> Self {
        let messages = client.watch_host(request).await.unwrap().into_inner();
        Self { messages, snapshot: None, coalesced: 0, synced: false }
    }

    /// Reads one message and applies it.
    pub(crate) async fn next(&mut self) -> Result<(WatchPhase, HostDelta), Status> {
        let message = in_time("a message", self.messages.message()).await?.expect("streams end with a status");
        assert!(message.encoded_len() <= MAX_CHUNK_BYTES);
        let position = message.position.as_ref().unwrap();
        let phase = position.phase();
        assert!(position.coalesced >= self.coalesced);
        self.coalesced = position.coalesced;
        match phase {
            WatchPhase::Snapshot => assert!(!self.synced),
            WatchPhase::Synced => assert!(!std::mem::replace(&mut self.synced, true)),
            WatchPhase::Update => assert!(self.synced),
            other => panic!("{other:?}"),
        }
        let delta = decode_host_response(message).unwrap();
        match &mut self.snapshot {
            None => self.snapshot = Some(introduced_by(&delta)),
            Some(snapshot) => {
                assert!(delta.sequence >= snapshot.sequence);
                snapshot.apply(&delta).unwrap();
            }
        }
        Ok((phase, delta))
    }

    /// Reads up to the SYNCED message; the snapshot that was sent.
    pub(crate) async fn synced(&mut self) -> HostSnapshot {
        while self.next().await.unwrap().0 != WatchPhase::Synced {}
        self.snapshot.clone().unwrap()
    }

    /// Reads until the condition holds.
    pub(crate) async fn until(&mut self, what: &str, condition: impl Fn(&HostSnapshot) -> bool) -> HostSnapshot {
        let read = async {
            loop {
                if let Some(snapshot) = self.snapshot.as_ref().filter(|snapshot| self.synced && condition(snapshot)) {
                    return snapshot.clone();
                }
                self.next().await.unwrap();
            }
        };
        in_time(what, read).await
    }

    /// Reads until the stream ends.
    pub(crate) async fn ending(&mut self) -> Status {
        loop {
            if let Err(status) = self.next().await {
                return status;
            }
        }
    }
}

fn introduced_by(delta: &HostDelta) -> HostSnapshot {
    let mut snapshot = HostSnapshot {
        sequence: 0,
        sampled_at: delta.sampled_at,
        host: delta.host.clone().expect("the first message introduces the host"),
        devices: BTreeMap::new(),
        processes: BTreeMap::new(),
    };
    snapshot.apply(delta).unwrap();
    snapshot
}

/// One listing in full.
pub(crate) async fn list(client: &mut Client, scope: v1::ProcessScope) -> Vec<ProcessChange> {
    let request = v1::ListProcessesRequest { scope: scope.into() };
    let mut batches = client.list_processes(request).await.unwrap().into_inner();
    let (mut processes, mut sampled_at) = (Vec::new(), None);
    while let Some(batch) = in_time("a batch", batches.message()).await.unwrap() {
        assert!(batch.encoded_len() <= MAX_CHUNK_BYTES);
        assert_eq!(*sampled_at.get_or_insert(batch.sampled_at), batch.sampled_at, "one listing is of one moment");
        processes.extend(batch.processes.into_iter().map(|process| ProcessChange::try_from(process).unwrap()));
    }
    processes
}

/// A request to signal a process of the only host.
pub(crate) async fn signal_request(
    client: &mut Client,
    identity: ProcessIdentity,
    signal: u32,
    request_id: &str,
) -> v1::SignalProcessRequest {
    let host = client.get_host(v1::GetHostRequest {}).await.unwrap().into_inner().host.unwrap();
    v1::SignalProcessRequest {
        target: Some(v1::ProcessTarget {
            host: host.name,
            boot_id: host.boot_id,
            pid: identity.pid,
            start_ticks: identity.start_ticks,
        }),
        signal,
        request_id: request_id.to_owned(),
        on_behalf_of: "spiffe://test.example/gpufleet/user/alice".to_owned(),
        reason: String::new(),
        wait: None,
    }
}
