//! Questions that only the agents can answer, asked over the connections that the fan-in holds.
//!
//! The number of agents asked at once is bounded over all questions, and each wait for an agent has a deadline and ends
//! when its host falls silent; an agent that does not answer costs its own part of the answer only.

use std::time::Duration;

use gpufleet_proto::v1;
use gpufleet_proto::v1::agent_service_client::AgentServiceClient;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tonic::Status;
use tonic::transport::Channel;

use crate::fan_in::describe;
use crate::state::{Freshness, HostCell};

/// The largest batch taken from an agent: four times what the contract lets it send.
const BATCH_BYTES: usize = 1 << 20;
/// How often a host is looked at while its agent is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The most processes taken of one host.
const MAX_PROCESSES: usize = 200_000;

/// Bounds of what is asked of agents.
#[derive(Debug)]
pub(crate) struct Asks {
    in_flight: Semaphore,
    timeout: Duration,
    rules: Freshness,
}

/// How long an agent is waited for: so much time, as long as its host stays current.
#[derive(Clone, Copy)]
struct Patience<'a> {
    cell: &'a HostCell,
    rules: &'a Freshness,
    timeout: Duration,
}

/// Why an agent gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error("not connected")]
    NotConnected,
    #[error("the agent did not answer within {}", humantime::format_duration(*.0))]
    Timeout(Duration),
    #[error("the agent has fallen silent")]
    Silent,
    #[error("the agent answered: {0}")]
    Refused(String),
    #[error("the agent lists more than {MAX_PROCESSES} processes")]
    TooMany,
}

/// The processes of one host, batch by batch. Holds one place among the agents asked at once.
pub(crate) struct Listing<'a> {
    batches: tonic::Streaming<v1::ListProcessesResponse>,
    patience: Patience<'a>,
    taken: usize,
    _place: Option<tokio::sync::SemaphorePermit<'a>>,
}

impl Asks {
    pub(crate) fn new(in_flight: usize, timeout: Duration, rules: Freshness) -> Self {
        Self { in_flight: Semaphore::new(in_flight), timeout, rules }
    }

    /// Starts to list every process of a host.
    pub(crate) async fn list_processes<'a>(&'a self, cell: &'a HostCell) -> Result<Listing<'a>, AskError> {
        // The semaphore is never closed; without a place the question is asked all the same.
        let place = self.in_flight.acquire().await.ok();
        let channel = cell.channel().ok_or(AskError::NotConnected)?;
        let request = v1::ListProcessesRequest { scope: v1::ProcessScope::All.into() };
        let mut client = client(channel);
        let patience = Patience { cell, rules: &self.rules, timeout: self.timeout };
        let response = patience.wait_for(client.list_processes(request)).await?;
        Ok(Listing { batches: response.into_inner(), patience, taken: 0, _place: place })
    }
}

impl Listing<'_> {
    /// The next batch; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<v1::ListProcessesResponse>, AskError> {
        let batch = self.patience.wait_for(self.batches.message()).await?;
        self.taken += batch.as_ref().map_or(0, |batch| batch.processes.len());
        if self.taken > MAX_PROCESSES { Err(AskError::TooMany) } else { Ok(batch) }
    }
}

fn client(channel: Channel) -> AgentServiceClient<Channel> {
    AgentServiceClient::new(channel).max_decoding_message_size(BATCH_BYTES)
}

impl Patience<'_> {
    async fn wait_for<T>(&self, answer: impl Future<Output = Result<T, Status>>) -> Result<T, AskError> {
        tokio::select! {
            answer = answer => answer.map_err(|status| AskError::Refused(describe(&status))),
            () = tokio::time::sleep(self.timeout) => Err(AskError::Timeout(self.timeout)),
            () = self.host_falls_silent() => Err(AskError::Silent),
        }
    }

    async fn host_falls_silent(&self) {
        while self.cell.state(self.rules, Instant::now()).is_current() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
