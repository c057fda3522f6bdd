//! A scripted agent: the real service over real mutual TLS, with a state and a behaviour that the test sets.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpufleet_model::{HostDelta, HostSnapshot, Process, ProcessChange};
use gpufleet_proto::convert::{encode_host_response, snapshot_chunks, timestamp};
use gpufleet_proto::status::Reason;
use gpufleet_proto::v1::agent_service_server::{AgentService, AgentServiceServer};
use gpufleet_proto::v1::{self, WatchPhase};
use gpufleet_transport::{AccessTable, Credentials, Role, ServerLimits};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

/// Time between two messages.
pub(crate) const INTERVAL: Duration = Duration::from_millis(250);

const READERS: &[Role] = &[Role::Aggregator, Role::User, Role::Service];

/// What the agent does with its streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Streams {
    /// What an agent should.
    Good,
    /// Opens streams and sends nothing.
    Silent,
    /// Sends a message without a position.
    Garbage,
    /// Sends a change of a device that it never introduced.
    Misfit,
    /// Sends a message of 5 MB.
    Huge,
    /// Ends the stream for its age.
    Aged,
    /// Begins its snapshot anew again and again.
    Endless,
}

/// What the agent does with signal requests.
#[derive(Debug, Clone)]
pub(crate) enum Signals {
    /// Delivers.
    Deliver,
    /// Takes the request and never answers.
    Hang,
    /// Refuses.
    Refuse(Status),
}

/// What the test holds of an agent.
pub(crate) struct Agent {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) script: Arc<Script>,
    stop: CancellationToken,
    server: tokio::task::JoinHandle<()>,
}

/// State and behaviour.
pub(crate) struct Script {
    state: watch::Sender<HostSnapshot>,
    pub(crate) streams: watch::Sender<Streams>,
    pub(crate) signals: Mutex<Signals>,
    pub(crate) signalled: Mutex<Vec<v1::SignalProcessRequest>>,
    /// Processes without a device, told only when every process is asked for.
    pub(crate) others: Mutex<Vec<Process>>,
    pub(crate) list_hangs: watch::Sender<bool>,
    /// Questions for processes that came.
    pub(crate) listings: AtomicUsize,
}

impl Script {
    /// Changes the state; the next message tells of it.
    pub(crate) fn change(&self, change: impl FnOnce(&mut HostSnapshot)) {
        self.state.send_modify(|state| {
            change(state);
            state.sequence += 1;
        });
    }

    pub(crate) fn state(&self) -> HostSnapshot {
        self.state.borrow().clone()
    }

    pub(crate) fn signal_count(&self) -> usize {
        self.signalled.lock().unwrap().len()
    }
}

impl Agent {
    /// Starts one with this state, which names it, on a port of its own.
    pub(crate) async fn start(credentials: Credentials, state: HostSnapshot) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::start_on(credentials, state, listener)
    }

    /// Starts one where another was.
    pub(crate) async fn start_at(credentials: Credentials, state: HostSnapshot, address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        Self::start_on(credentials, state, listener)
    }

    fn start_on(credentials: Credentials, mut state: HostSnapshot, listener: TcpListener) -> Self {
        Arc::make_mut(&mut state.host).sample_interval_ms = u32::try_from(INTERVAL.as_millis()).unwrap();
        let name = state.host.name.clone();
        let script = Arc::new(Script {
            state: watch::Sender::new(state),
            streams: watch::Sender::new(Streams::Good),
            signals: Mutex::new(Signals::Deliver),
            signalled: Mutex::default(),
            others: Mutex::default(),
            list_hangs: watch::Sender::new(false),
            listings: AtomicUsize::new(0),
        });
        let address = listener.local_addr().unwrap();
        let routes = Routes::new(AgentServiceServer::new(Scripted(Arc::clone(&script))));
        let access = AccessTable::new(&[
            ("/gpufleet.v1.AgentService/WatchHost", READERS),
            ("/gpufleet.v1.AgentService/ListProcesses", READERS),
            ("/gpufleet.v1.AgentService/SignalProcess", &[Role::Aggregator]),
        ]);
        let stop = CancellationToken::new();
        // Streams here do not end by themselves: whoever stops an agent does not want to wait for them.
        let limits = ServerLimits { grace: Duration::ZERO, ..ServerLimits::default() };
        let serve = gpufleet_transport::serve(listener, credentials, limits, routes, access, stop.clone());
        let server = tokio::spawn(async move { serve.await.unwrap() });
        Self { name, address, script, stop, server }
    }

    /// Ends it at once, connections included.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.server.await.unwrap();
    }
}

struct Scripted(Arc<Script>);

type Messages<T> = ReceiverStream<Result<T, Status>>;

async fn send_stream(script: Arc<Script>, output: mpsc::Sender<Result<v1::WatchHostResponse, Status>>) -> Option<()> {
    let mut streams = script.streams.subscribe();
    streams.wait_for(|streams| *streams != Streams::Silent).await.ok()?;
    let mut sent = script.state();
    while *streams.borrow() == Streams::Endless {
        for chunk in snapshot_chunks(HostDelta::full(&sent)) {
            output.send(Ok(encode_host_response(&chunk, WatchPhase::Snapshot, 0))).await.ok()?;
        }
    }
    for chunk in snapshot_chunks(HostDelta::full(&sent)) {
        output.send(Ok(encode_host_response(&chunk, WatchPhase::Snapshot, 0))).await.ok()?;
    }
    let nothing = HostDelta::between(&sent, &sent);
    output.send(Ok(encode_host_response(&nothing, WatchPhase::Synced, 0))).await.ok()?;
    let mut state = script.state.subscribe();
    loop {
        // A change is told at once: tests need not wait for the tick.
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            changed = state.changed() => changed.ok()?,
            changed = streams.changed() => changed.ok()?,
            () = output.closed() => return None,
        }
        let next = state.borrow_and_update().clone();
        let delta = HostDelta::between(&sent, &next);
        sent = next;
        let mut message = encode_host_response(&delta, WatchPhase::Update, 0);
        let behaviour = *streams.borrow_and_update();
        match behaviour {
            Streams::Good | Streams::Endless => {}
            Streams::Aged => {
                let aged = Reason::StreamAged.status("old", []);
                script.streams.send_replace(Streams::Good);
                output.send(Err(aged)).await.ok()?;
                return None;
            }
            Streams::Silent => {
                streams.wait_for(|streams| *streams != Streams::Silent).await.ok()?;
                continue;
            }
            Streams::Garbage => message.position = None,
            Streams::Misfit => {
                let change = v1::DeviceChange { key: 999, ..v1::DeviceChange::default() };
                message.devices = Some(v1::DeviceChanges { upserts: vec![change], removed_keys: Vec::new() });
            }
            Streams::Huge => {
                let text = "x".repeat(5_000_000);
                message.host = Some(v1::Host { kernel_version: text, ..(&*sent.host).into() });
            }
        }
        output.send(Ok(message)).await.ok()?;
    }
}

#[tonic::async_trait]
impl AgentService for Scripted {
    type WatchHostStream = Messages<v1::WatchHostResponse>;
    type WatchDevicesStream = Messages<v1::WatchDevicesResponse>;
    type ListProcessesStream = Messages<v1::ListProcessesResponse>;
    type WatchProcessesStream = Messages<v1::WatchProcessesResponse>;
    type WatchHealthStream = Messages<v1::WatchHealthResponse>;
    type WatchEventsStream = Messages<v1::WatchEventsResponse>;

    async fn watch_host(&self, _: Request<v1::WatchHostRequest>) -> Result<Response<Self::WatchHostStream>, Status> {
        let (output, messages) = mpsc::channel(1);
        tokio::spawn(send_stream(Arc::clone(&self.0), output));
        Ok(Response::new(ReceiverStream::new(messages)))
    }

    async fn list_processes(
        &self,
        request: Request<v1::ListProcessesRequest>,
    ) -> Result<Response<Self::ListProcessesStream>, Status> {
        self.0.listings.fetch_add(1, Ordering::Relaxed);
        let mut hangs = self.0.list_hangs.subscribe();
        hangs.wait_for(|hangs| !hangs).await.map_err(|_| Status::unavailable("gone"))?;
        let state = self.0.state();
        let mut processes: Vec<Process> = state.processes.values().map(|process| (**process).clone()).collect();
        if request.into_inner().scope() == v1::ProcessScope::All {
            processes.extend(self.0.others.lock().unwrap().iter().cloned());
        }
        let (output, messages) = mpsc::channel(processes.len() + 1);
        for batch in processes.chunks(2) {
            let processes = batch.iter().map(|process| (&ProcessChange::full(process)).into()).collect();
            let response = v1::ListProcessesResponse { sampled_at: Some(timestamp(state.sampled_at)), processes };
            output.try_send(Ok(response)).unwrap();
        }
        Ok(Response::new(ReceiverStream::new(messages)))
    }

    async fn signal_process(
        &self,
        request: Request<v1::SignalProcessRequest>,
    ) -> Result<Response<v1::SignalProcessResponse>, Status> {
        self.0.signalled.lock().unwrap().push(request.into_inner());
        let behaviour = self.0.signals.lock().unwrap().clone();
        match behaviour {
            Signals::Deliver => Ok(Response::new(v1::SignalProcessResponse {
                outcome: v1::SignalOutcome::Delivered.into(),
                message: "delivered".into(),
                progress: None,
            })),
            Signals::Hang => std::future::pending().await,
            Signals::Refuse(status) => Err(status),
        }
    }

    async fn get_host(&self, _: Request<v1::GetHostRequest>) -> Result<Response<v1::GetHostResponse>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn watch_devices(
        &self,
        _: Request<v1::WatchDevicesRequest>,
    ) -> Result<Response<Self::WatchDevicesStream>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn watch_processes(
        &self,
        _: Request<v1::WatchProcessesRequest>,
    ) -> Result<Response<Self::WatchProcessesStream>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn get_health(&self, _: Request<v1::GetHealthRequest>) -> Result<Response<v1::GetHealthResponse>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn watch_health(
        &self,
        _: Request<v1::WatchHealthRequest>,
    ) -> Result<Response<Self::WatchHealthStream>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn watch_events(
        &self,
        _: Request<v1::WatchEventsRequest>,
    ) -> Result<Response<Self::WatchEventsStream>, Status> {
        Err(Status::unimplemented("not scripted"))
    }
}
