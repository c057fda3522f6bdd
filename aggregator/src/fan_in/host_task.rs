//! The task of one host: dial, take the snapshot, then the changes; and again after every failure, with backoff.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use gpufleet_model::HostSnapshot;
use gpufleet_proto::convert::{DecodeError, decode_host_response};
use gpufleet_proto::status::Reason;
use gpufleet_proto::v1;
use gpufleet_proto::v1::agent_service_client::AgentServiceClient;
use gpufleet_transport::{Backoff, ConnectError, ExpectedPeer};
use thiserror::Error;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use tonic::{Status, Streaming};
use tracing::{debug, info, warn};

use super::assembly::{Assembly, Step, Violation};
use super::pacing::Pacing;
use super::{FanIn, describe};
use crate::state::{HostCell, HostWriter, silence};

/// How long a connection attempt keeps its place among those under way.
const HOLD_PLACE: Duration = Duration::from_millis(200);

/// A stream that lived this long may be ended by its agent for its age.
const SETTLED: Duration = Duration::from_secs(5);

/// Why a host's stream ended.
#[derive(Debug, Error)]
enum Ended {
    #[error("{0}")]
    Connect(#[from] ConnectError),
    #[error("the stream broke: {}", describe(.0))]
    Broken(Status),
    #[error("the agent ended the stream")]
    Closed,
    #[error("{0}")]
    Silent(Arc<str>),
    #[error("the agent sent a message that cannot be read: {0}")]
    Garbage(#[from] DecodeError),
    #[error("{0}")]
    Violation(#[from] Violation),
    #[error("the agent asked for a new stream")]
    Aged,
    #[error("the address changed")]
    Readdressed,
}

impl Ended {
    fn of(status: Status) -> Self {
        if Reason::of(&status) == Some(Reason::StreamAged) { Self::Aged } else { Self::Broken(status) }
    }
}

/// The task's own data.
pub(super) struct HostTask {
    fan_in: Arc<FanIn>,
    writer: HostWriter,
    readdressed: Arc<Notify>,
    backoff: Backoff,
    failures: u32,
    problem: Problem,
}

/// The problem at hand, so that each is reported once.
#[derive(Default)]
struct Problem {
    text: Option<String>,
    repeats: u64,
}

impl HostTask {
    pub(super) fn new(fan_in: Arc<FanIn>, writer: HostWriter, readdressed: Arc<Notify>) -> Self {
        let backoff = Backoff::new(fan_in.settings.reconnect_after, fan_in.settings.reconnect_at_most);
        Self { fan_in, writer, readdressed, backoff, failures: 0, problem: Problem::default() }
    }

    /// Keeps the host's state current until told to stop.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            never = self.keep_connected() => match never {},
        }
        self.writer.disconnected();
    }

    async fn keep_connected(&mut self) -> Infallible {
        let readdressed = Arc::clone(&self.readdressed);
        loop {
            let started = Instant::now();
            let ended = tokio::select! {
                () = readdressed.notified() => Ended::Readdressed,
                ended = self.session() => ended,
            };
            let pause = match ended {
                // The host is as well as before, and its last sample still fresh.
                Ended::Aged if started.elapsed() >= SETTLED => continue,
                Ended::Readdressed => Duration::ZERO,
                _ => self.backoff.next_wait(),
            };
            self.writer.down(&ended.to_string());
            self.failures = self.failures.saturating_add(1);
            self.problem.report(self.writer.cell(), &ended, pause);
            tokio::select! {
                () = readdressed.notified() => self.backoff.reset(),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// One connection, from dialling to its end.
    async fn session(&mut self) -> Ended {
        match self.connect().await {
            Ok((channel, stream)) => match self.follow(channel, stream).await {
                Ok(never) => match never {},
                Err(ended) => ended,
            },
            Err(ended) => ended,
        }
    }

    async fn connect(&self) -> Result<(Channel, Streaming<v1::WatchHostResponse>), Ended> {
        let settings = &self.fan_in.settings;
        let channel = self.dial().await?;
        let mut client = AgentServiceClient::new(channel.clone()).max_decoding_message_size(settings.message_bytes);
        let opened = client.watch_host(v1::WatchHostRequest { min_interval: None });
        match tokio::time::timeout(settings.unreachable_after, opened).await {
            Ok(opened) => Ok((channel, opened.map_err(Ended::of)?.into_inner())),
            Err(_) => Err(Ended::Silent(silence(settings.unreachable_after))),
        }
    }

    /// Dials once there is a place for it. The place is given back after a while: who is slow to answer is not using
    /// our processor, and must not keep others from connecting.
    async fn dial(&self) -> Result<Channel, ConnectError> {
        let cell = self.writer.cell();
        let expected = ExpectedPeer::Agent(cell.name().to_string());
        let address = cell.entry().address.clone();
        // Never closed; without a place the host would be dialled all the same.
        let place = self.fan_in.places(self.failures).acquire().await.ok();
        let mut dialled = pin!(self.fan_in.dialer.connect(&address, &expected));
        tokio::select! {
            dialled = &mut dialled => return dialled,
            () = tokio::time::sleep(HOLD_PLACE) => drop(place),
        }
        dialled.await
    }

    /// Follows a stream until it ends or falls silent.
    async fn follow(
        &mut self,
        channel: Channel,
        mut stream: Streaming<v1::WatchHostResponse>,
    ) -> Result<Infallible, Ended> {
        let mut assembly = Assembly::new(Arc::clone(self.writer.cell().name()), self.fan_in.settings.host_limits);
        let mut limit = self.fan_in.settings.unreachable_after;
        // When the last state came: what does not complete a state does not count as a sign of life.
        let mut heard = Instant::now();
        let mut pacing = Pacing::new(heard);
        // Set anew only when it fires: a message costs no timer.
        let mut watchdog = pin!(tokio::time::sleep_until(heard + limit));
        loop {
            let message = tokio::select! {
                biased;
                () = &mut watchdog => {
                    if heard.elapsed() >= limit {
                        return Err(Ended::Silent(silence(limit)));
                    }
                    watchdog.as_mut().reset(heard + limit);
                    continue;
                }
                message = stream.message() => message.map_err(Ended::of)?.ok_or(Ended::Closed)?,
            };
            let now = Instant::now();
            if self.take(&channel, &mut assembly, message)? {
                heard = now;
                limit = self.writer.silence_limit();
            }
            if let Some(later) = pacing.count(now) {
                tokio::time::sleep_until(later).await;
            }
        }
    }

    /// Takes one message; true when it gave a state.
    fn take(
        &mut self,
        channel: &Channel,
        assembly: &mut Assembly,
        message: v1::WatchHostResponse,
    ) -> Result<bool, Ended> {
        let phase = message.position.as_ref().map_or(0, |position| position.phase);
        let delta = decode_host_response(message)?;
        match assembly.take(phase, &delta)? {
            Step::Wait => return Ok(false),
            Step::Begin(snapshot) => self.begin(channel, snapshot),
            Step::Advance(snapshot, changed) => self.writer.advance(snapshot, changed),
        }
        Ok(true)
    }

    fn begin(&mut self, channel: &Channel, snapshot: Arc<HostSnapshot>) {
        let (devices, processes) = (snapshot.devices.len(), snapshot.processes.len());
        self.writer.connected(channel.clone());
        self.writer.begin(snapshot);
        self.backoff.reset();
        self.failures = 0;
        self.problem = Problem::default();
        info!(host = %self.writer.cell().name(), devices, processes, "host connected");
    }
}

impl Problem {
    /// Warns of a new problem; the same again is noted for those who look closely.
    fn report(&mut self, cell: &HostCell, ended: &Ended, retry_in: Duration) {
        let text = ended.to_string();
        if self.text.as_ref() == Some(&text) {
            self.repeats += 1;
            debug!(host = %cell.name(), problem = %text, repeats = self.repeats, ?retry_in, "host still not connected");
        } else {
            warn!(host = %cell.name(), address = %cell.entry().address, problem = %text, "host not connected");
            *self = Self { text: Some(text), repeats: 0 };
        }
    }
}
