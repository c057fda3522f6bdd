//! Calling the servers of a fleet directly, over the product's own transport.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

use gpufleet_model::Device;
use gpufleet_proto::v1;
use gpufleet_proto::v1::fleet_service_client::FleetServiceClient;
use gpufleet_transport::{Credentials, DialOptions, Dialer, ExpectedPeer, Role};
use tonic::Status;
use tonic::transport::Channel;

use crate::sandbox::{AGGREGATOR, OPERATOR};
use crate::view::{Part, View};
use crate::{Fleet, Sandbox};

impl Sandbox {
    fn dialer(&self, role: Role, name: &str) -> Dialer {
        let credentials = Credentials::load(&self.certificates().of(role, name)).expect("credentials");
        Dialer::new(credentials, DialOptions::default())
    }

    /// Asks as an operator.
    fn consult<T: Send, F: Future<Output = Result<T, Status>> + Send>(
        &self,
        aggregator: SocketAddr,
        ask: impl FnOnce(FleetServiceClient<Channel>) -> F + Send,
    ) -> Result<T, String> {
        consult_as(&self.certificates().of(Role::User, OPERATOR), aggregator, ask)
    }

    /// The hosts as an aggregator lists them.
    ///
    /// # Errors
    ///
    /// What went wrong, when it does not answer.
    pub fn hosts_of(&self, aggregator: SocketAddr) -> Result<Vec<v1::HostConnection>, String> {
        self.consult(aggregator, async |mut client| {
            Ok(client.list_hosts(v1::ListHostsRequest::default()).await?.into_inner().hosts)
        })
    }
}

impl Fleet {
    /// A connection to the agent of a host, as an aggregator.
    pub async fn dial_agent(&self, host: &str) -> Channel {
        self.dial_agent_as(Role::Aggregator, AGGREGATOR, host).await
    }

    /// A connection to the agent of a host.
    pub async fn dial_agent_as(&self, role: Role, name: &str, host: &str) -> Channel {
        let agent = self.agents.iter().find(|agent| agent.name == host).expect("a host of this fleet");
        let expected = ExpectedPeer::Agent(host.to_owned());
        self.sandbox.dialer(role, name).connect(&agent.address.to_string(), &expected).await.expect("a connection")
    }

    /// A connection to the aggregator, as an operator.
    pub async fn dial_aggregator(&self) -> Channel {
        self.dial_aggregator_as(Role::User, OPERATOR).await
    }

    /// A connection to the aggregator.
    pub async fn dial_aggregator_as(&self, role: Role, name: &str) -> Channel {
        let expected = ExpectedPeer::AnyOf(&[Role::Aggregator]);
        self.sandbox.dialer(role, name).connect(&self.address.to_string(), &expected).await.expect("a connection")
    }

    /// The hosts as the aggregator lists them.
    ///
    /// # Errors
    ///
    /// What went wrong, when it does not answer.
    pub fn hosts(&self) -> Result<Vec<v1::HostConnection>, String> {
        self.sandbox.hosts_of(self.address)
    }

    /// The devices as the aggregator tells them to a new reader.
    ///
    /// # Errors
    ///
    /// What went wrong, when it does not answer.
    pub fn devices(&self) -> Result<View, String> {
        self.devices_with(&self.sandbox.certificates().of(Role::User, OPERATOR))
    }

    /// The same to a reader with these certificates.
    ///
    /// # Errors
    ///
    /// What went wrong, when it does not answer or is not believed.
    pub fn devices_with(&self, tls: &Path) -> Result<View, String> {
        consult_as(tls, self.address, async |mut client| {
            let mut stream = client.watch_devices(v1::FleetServiceWatchDevicesRequest::default()).await?.into_inner();
            let mut view = View::default();
            while let Some(message) = stream.message().await? {
                if message.position.is_some_and(|position| position.phase() == v1::WatchPhase::Synced) {
                    break;
                }
                for host in message.hosts {
                    view.apply(&Part { host: host.host, reset: host.reset, devices: host.changes, processes: None });
                }
            }
            Ok(view)
        })
    }

    /// Waits until a device satisfies a condition.
    #[track_caller]
    pub fn until_device(&self, host: &str, index: u32, what: &str, holds: impl Fn(&Device) -> bool) -> Device {
        crate::eventually(what, || {
            let view = self.devices()?;
            match view.device(host, index) {
                Some(device) if holds(device) => Ok(device.clone()),
                found => Err(format!("{found:#?}")),
            }
        })
    }

    /// Pids of the processes on devices, as the aggregator lists them.
    ///
    /// # Errors
    ///
    /// What went wrong, when it does not answer.
    pub fn pids(&self) -> Result<BTreeSet<u32>, String> {
        self.sandbox.consult(self.address, async |mut client| {
            let mut stream = client.list_processes(v1::FleetServiceListProcessesRequest::default()).await?.into_inner();
            let mut view = View::default();
            while let Some(batch) = stream.message().await? {
                for host in batch.hosts {
                    view.apply(&Part { host: host.host, reset: false, devices: None, processes: host.changes });
                }
            }
            Ok(view.pids())
        })
    }

    /// Waits until a process on a device is listed.
    #[track_caller]
    pub fn until_listed(&self, pid: u32) {
        crate::eventually(&format!("process {pid} is listed"), || {
            let pids = self.pids()?;
            if pids.contains(&pid) { Ok(()) } else { Err(format!("{pids:?}")) }
        });
    }

    /// Waits until a process on a device is no longer listed.
    #[track_caller]
    pub fn until_not_listed(&self, pid: u32) {
        crate::eventually(&format!("process {pid} is no longer listed"), || {
            let pids = self.pids()?;
            if pids.contains(&pid) { Err(format!("{pids:?}")) } else { Ok(()) }
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

/// Asks the aggregator something over a connection of its own.
fn consult_as<T: Send, F: Future<Output = Result<T, Status>> + Send>(
    tls: &Path,
    aggregator: SocketAddr,
    ask: impl FnOnce(FleetServiceClient<Channel>) -> F + Send,
) -> Result<T, String> {
    let credentials = Credentials::load(tls).map_err(|e| e.to_string())?;
    let dialer = Dialer::new(credentials, DialOptions::default());
    let address = aggregator.to_string();
    aside(async move {
        let channel = dialer.connect(&address, &ExpectedPeer::AnyOf(&[Role::Aggregator])).await;
        ask(FleetServiceClient::new(channel.map_err(|e| e.to_string())?)).await.map_err(|e| e.to_string())
    })
}
