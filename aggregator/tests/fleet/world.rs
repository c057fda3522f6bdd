//! A fleet on loopback: an authority, scripted agents, one real aggregator, and clients of any role.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use gpufleet_aggregator::{Aggregator, AggregatorSettings, Inventory, InventorySource, RunningAggregator};
use gpufleet_model::HostSnapshot;
use gpufleet_proto::v1::fleet_service_client::FleetServiceClient;
use gpufleet_proto::v1::{self, ConnectionState};
use gpufleet_transport::pki::{Authority, IssueRequest};
use gpufleet_transport::{Credentials, DialOptions, Dialer, ExpectedPeer, Role};
use tokio::net::TcpListener;
use tonic::transport::Channel;

use crate::agent::Agent;

pub(crate) type Client = FleetServiceClient<Channel>;

/// Whatever is waited for must be there by then; on a quiet machine it takes a fraction.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

pub(crate) struct World {
    pub(crate) authority: Authority,
    pub(crate) agents: BTreeMap<String, Agent>,
    pub(crate) aggregator: Option<RunningAggregator>,
    pub(crate) address: SocketAddr,
}

/// Settings with times short enough for tests.
pub(crate) fn settings(inventory: InventorySource) -> AggregatorSettings {
    let mut settings = AggregatorSettings::new(inventory);
    settings.fan_in.unreachable_after = Duration::from_secs(4);
    settings.fan_in.connect_timeout = Duration::from_secs(2);
    settings.fan_in.reconnect_after = Duration::from_millis(100);
    settings.fan_in.reconnect_at_most = Duration::from_millis(400);
    settings.serving.ask_timeout = Duration::from_secs(2);
    settings.operators = vec!["operator".into()];
    settings
}

pub(crate) fn issue(authority: &Authority, role: Role, name: &str) -> Credentials {
    authority.issue(&IssueRequest::new(role, name)).unwrap().credentials().unwrap()
}

impl World {
    /// Starts an agent for each state, and an aggregator that watches them all.
    pub(crate) async fn start(states: Vec<HostSnapshot>) -> Self {
        Self::start_with(states, |_| {}).await
    }

    pub(crate) async fn start_with(states: Vec<HostSnapshot>, adjust: impl FnOnce(&mut AggregatorSettings)) -> Self {
        let authority = Authority::in_memory("test.example", Duration::from_hours(1)).unwrap();
        let mut agents = BTreeMap::new();
        for state in states {
            let name = state.host.name.clone();
            let agent = Agent::start(issue(&authority, Role::Agent, &name), state).await;
            agents.insert(name, agent);
        }
        let pairs: Vec<_> = agents.values().map(|agent| (agent.name.clone(), agent.address.to_string())).collect();
        let mut settings = settings(InventorySource::Fixed(Inventory::from_pairs(pairs).unwrap()));
        adjust(&mut settings);
        Self::start_over(authority, agents, settings).await
    }

    /// Starts an aggregator with settings of the test's own.
    pub(crate) async fn start_over(
        authority: Authority,
        agents: BTreeMap<String, Agent>,
        settings: AggregatorSettings,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let credentials = issue(&authority, Role::Aggregator, "main");
        let aggregator = Aggregator::start(settings, credentials, listener).await.unwrap();
        let address = aggregator.local_addr();
        Self { authority, agents, aggregator: Some(aggregator), address }
    }

    pub(crate) async fn channel(&self, role: Role, name: &str) -> Channel {
        self.channel_with(DialOptions::default(), role, name).await
    }

    pub(crate) async fn channel_with(&self, options: DialOptions, role: Role, name: &str) -> Channel {
        let dialer = Dialer::new(issue(&self.authority, role, name), options);
        let expected = ExpectedPeer::AnyOf(&[Role::Aggregator]);
        dialer.connect(&self.address.to_string(), &expected).await.unwrap()
    }

    pub(crate) async fn client(&self, role: Role, name: &str) -> Client {
        Client::new(self.channel(role, name).await)
    }

    pub(crate) async fn user(&self) -> Client {
        self.client(Role::User, "alice").await
    }

    pub(crate) fn agent(&self, name: &str) -> &Agent {
        &self.agents[name]
    }

    /// Waits until every host is connected.
    pub(crate) async fn connected(&self, client: &mut Client) {
        wait_for("every host connected", async || {
            let hosts = hosts(client).await;
            hosts.values().all(|host| host.state() == ConnectionState::Connected).then_some(())
        })
        .await;
    }

    pub(crate) async fn shutdown(mut self) {
        if let Some(aggregator) = self.aggregator.take() {
            aggregator.shutdown().await;
        }
        for agent in std::mem::take(&mut self.agents).into_values() {
            agent.stop().await;
        }
    }
}

/// Asks again and again until there is an answer.
pub(crate) async fn wait_for<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let waited = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, waited).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// Every host, by name.
pub(crate) async fn hosts(client: &mut Client) -> BTreeMap<String, v1::HostConnection> {
    let answer = client.list_hosts(v1::ListHostsRequest::default()).await.unwrap().into_inner();
    assert_eq!(answer.next_page_token, "");
    answer.hosts.into_iter().map(|host| (host.name.clone(), host)).collect()
}

/// Waits until a host is in a state.
pub(crate) async fn wait_for_state(client: &mut Client, name: &str, state: ConnectionState) -> v1::HostConnection {
    wait_for(&format!("{name} to be {state:?}"), async || {
        hosts(client).await.remove(name).filter(|host| host.state() == state)
    })
    .await
}

/// One listing in full: processes by host and pid, and the missing hosts.
pub(crate) async fn list(
    client: &mut Client,
    filter: v1::FleetFilter,
    scope: v1::ProcessScope,
) -> Result<(Vec<(String, u32)>, Vec<v1::MissingHost>), tonic::Status> {
    let request = v1::FleetServiceListProcessesRequest { filter: Some(filter), scope: scope.into() };
    let mut batches = client.list_processes(request).await?.into_inner();
    let (mut processes, mut missing) = (Vec::new(), Vec::new());
    while let Some(batch) = batches.message().await? {
        assert!(missing.is_empty(), "missing hosts come in the last batch");
        for part in batch.hosts {
            for process in part.changes.unwrap().upserts {
                processes.push((part.host.clone(), process.identity.unwrap().pid));
            }
        }
        missing = batch.missing;
    }
    processes.sort_unstable();
    Ok((processes, missing))
}
