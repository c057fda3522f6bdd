//! Calling the servers of a fleet directly, over the product's own transport.

use gpufleet_proto::v1;
use gpufleet_proto::v1::fleet_service_client::FleetServiceClient;
use gpufleet_transport::{Credentials, DialOptions, Dialer, ExpectedPeer, Role};
use tonic::transport::Channel;

use crate::Fleet;
use crate::sandbox::{AGGREGATOR, OPERATOR};

impl Fleet {
    fn dialer(&self, role: Role, name: &str) -> Dialer {
        let credentials = Credentials::load(&self.sandbox.certificates().of(role, name)).expect("credentials");
        Dialer::new(credentials, DialOptions::default())
    }

    /// A connection to the agent of a host, as an aggregator.
    pub async fn dial_agent(&self, host: &str) -> Channel {
        self.dial_agent_as(Role::Aggregator, AGGREGATOR, host).await
    }

    /// A connection to the agent of a host.
    pub async fn dial_agent_as(&self, role: Role, name: &str, host: &str) -> Channel {
        let agent = self.agents.iter().find(|agent| agent.name == host).expect("a host of this fleet");
        let expected = ExpectedPeer::Agent(host.to_owned());
        self.dialer(role, name).connect(&agent.address.to_string(), &expected).await.expect("a connection")
    }

    /// A connection to the aggregator, as an operator.
    pub async fn dial_aggregator(&self) -> Channel {
        self.dial_aggregator_as(Role::User, OPERATOR).await
    }

    /// A connection to the aggregator.
    pub async fn dial_aggregator_as(&self, role: Role, name: &str) -> Channel {
        let expected = ExpectedPeer::AnyOf(&[Role::Aggregator]);
        self.dialer(role, name).connect(&self.address.to_string(), &expected).await.expect("a connection")
    }

    /// The hosts as the aggregator lists them.
    ///
    /// # Errors
    ///
    /// What went wrong, when it does not answer.
    pub fn hosts(&self) -> Result<Vec<v1::HostConnection>, String> {
        let expected = ExpectedPeer::AnyOf(&[Role::Aggregator]);
        let dialer = self.dialer(Role::User, OPERATOR);
        aside(async {
            let channel = dialer.connect(&self.address.to_string(), &expected).await.map_err(|e| e.to_string())?;
            let answer = FleetServiceClient::new(channel).list_hosts(v1::ListHostsRequest::default()).await;
            answer.map(|answer| answer.into_inner().hosts).map_err(|e| e.to_string())
        })
    }

    /// Waits until the aggregator lists a process on a device of the host.
    #[track_caller]
    pub fn until_listed(&self, host: &str, pid: u32) {
        let dialer = self.dialer(Role::User, OPERATOR);
        let expected = ExpectedPeer::AnyOf(&[Role::Aggregator]);
        let filter = v1::FleetFilter { hosts: vec![host.to_owned()], ..v1::FleetFilter::default() };
        crate::eventually(&format!("process {pid} of `{host}` is listed"), || {
            let request = v1::FleetServiceListProcessesRequest { filter: Some(filter.clone()), scope: 0 };
            let told = aside(async {
                let channel = dialer.connect(&self.address.to_string(), &expected).await.map_err(|e| e.to_string())?;
                let answer = FleetServiceClient::new(channel).list_processes(request).await;
                let mut stream = answer.map_err(|e| e.to_string())?.into_inner();
                let mut pids = Vec::new();
                while let Some(batch) = stream.message().await.map_err(|e| e.to_string())? {
                    let changes = batch.hosts.into_iter().filter_map(|host| host.changes);
                    let identities = changes.flat_map(|changes| changes.upserts).filter_map(|change| change.identity);
                    pids.extend(identities.map(|identity| identity.pid));
                }
                Ok::<_, String>(pids)
            })?;
            if told.contains(&pid) { Ok(()) } else { Err(format!("{told:?}")) }
        });
    }

    /// The boot id that the hosts of this machine report.
    pub fn boot_id(&self) -> String {
        std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("the boot id").trim().to_owned()
    }

    /// Asks the aggregator for a signal.
    pub async fn signal(&self, target: v1::ProcessTarget, signal: u32, request_id: &str) -> v1::SignalOutcome {
        let request = v1::FleetServiceSignalProcessRequest {
            target: Some(target),
            signal,
            request_id: request_id.to_owned(),
            ..v1::FleetServiceSignalProcessRequest::default()
        };
        let mut client = FleetServiceClient::new(self.dial_aggregator().await);
        client.signal_process(request).await.expect("an outcome").into_inner().outcome()
    }
}

/// Runs a future to its end on a thread of its own, so that tests with and without a runtime can call it.
fn aside<T: Send>(future: impl Future<Output = T> + Send) -> T {
    let run =
        || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future);
    std::thread::scope(|scope| scope.spawn(run).join().expect("a thread"))
}
