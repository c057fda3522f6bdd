//! Questions that only the agents can answer, asked over the connections that the fan-in holds.
//!
//! The number of agents asked at once is bounded over all questions, and each wait for an agent has a deadline; an agent
//! that does not answer costs its own part of the answer only.

use std::time::Duration;

use gpufleet_proto::v1;
use gpufleet_proto::v1::agent_service_client::AgentServiceClient;
use tokio::sync::Semaphore;
use tonic::Status;
use tonic::transport::Channel;

use crate::state::HostCell;

/// The largest batch taken from an agent: four times what the contract lets it send.
const BATCH_BYTES: usize = 1 << 20;
/// The most processes taken of one host.
const MAX_PROCESSES: usize = 200_000;

/// Bounds of what is asked of agents.
#[derive(Debug)]
pub(crate) struct Asks {
    in_flight: Semaphore,
    timeout: Duration,
}

/// Why an agent gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error("not connected")]
    NotConnected,
    #[error("the agent did not answer within {}", humantime::format_duration(*.0))]
    Timeout(Duration),
    #[error("the agent answered: {0}")]
    Refused(String),
    #[error("the agent lists more than {MAX_PROCESSES} processes")]
    TooMany,
}

/// The processes of one host, batch by batch. Holds one place among the agents asked at once.
pub(crate) struct Listing<'a> {
    batches: tonic::Streaming<v1::ListProcessesResponse>,
    timeout: Duration,
    taken: usize,
    _place: Option<tokio::sync::SemaphorePermit<'a>>,
}

impl Asks {
    pub(crate) fn new(in_flight: usize, timeout: Duration) -> Self {
        Self { in_flight: Semaphore::new(in_flight), timeout }
    }

    /// Starts to list every process of a host.
    pub(crate) async fn list_processes(&self, cell: &HostCell) -> Result<Listing<'_>, AskError> {
        // The semaphore is never closed; without a place the question is asked all the same.
        let place = self.in_flight.acquire().await.ok();
        let channel = cell.channel().ok_or(AskError::NotConnected)?;
        let request = v1::ListProcessesRequest { scope: v1::ProcessScope::All.into() };
        let mut client = client(channel);
        let response = within(self.timeout, client.list_processes(request)).await?;
        Ok(Listing { batches: response.into_inner(), timeout: self.timeout, taken: 0, _place: place })
    }
}

impl Listing<'_> {
    /// The next batch; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<v1::ListProcessesResponse>, AskError> {
        let batch = within(self.timeout, self.batches.message()).await?;
        self.taken += batch.as_ref().map_or(0, |batch| batch.processes.len());
        if self.taken > MAX_PROCESSES { Err(AskError::TooMany) } else { Ok(batch) }
    }
}

fn client(channel: Channel) -> AgentServiceClient<Channel> {
    AgentServiceClient::new(channel).max_decoding_message_size(BATCH_BYTES)
}

async fn within<T>(timeout: Duration, answer: impl Future<Output = Result<T, Status>>) -> Result<T, AskError> {
    match tokio::time::timeout(timeout, answer).await {
        Ok(answer) => answer.map_err(|status| AskError::Refused(crate::fan_in::describe(&status))),
        Err(_) => Err(AskError::Timeout(timeout)),
    }
}
