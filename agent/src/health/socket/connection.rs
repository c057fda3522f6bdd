//! One connection: requests in, answers out, and changes once it has subscribed.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use gpufleet_model::Device;
use gpufleet_model::health::DeviceHealth;
use gpufleet_proto::health_socket::{REQUEST_LENGTH, Record, Request, Status, encode_extended, encode_hello};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::health::HealthState;

/// A request that has begun must be complete within this time.
const HALF_REQUEST: Duration = Duration::from_secs(10);
/// A reader that takes none of its answer for this time is cut off.
const SLOW_READER: Duration = Duration::from_secs(5);
/// How often a subscriber's records are looked at without a new sample.
const STALENESS_CHECK: Duration = Duration::from_secs(1);
/// Requests read ahead: a flood is answered in parts of this size.
const READ_AHEAD: usize = 256 * REQUEST_LENGTH;

type State = watch::Receiver<Option<Arc<HealthState>>>;

/// Serves a connection until its end.
pub(super) async fn serve(stream: UnixStream, permitted: bool, state: State) {
    let mut connection = Connection { stream, permitted, state, subscription: None, answers: Vec::new() };
    if let Err(error) = connection.run().await {
        tracing::debug!(%error, "health socket: connection ended");
    }
}

struct Connection {
    stream: UnixStream,
    permitted: bool,
    state: State,
    subscription: Option<Subscription>,
    answers: Vec<u8>,
}

/// What a subscriber wants, and what it was last told.
struct Subscription {
    gpu: Option<u32>,
    mask: u32,
    told: BTreeMap<u32, Record>,
}

/// Whether the connection goes on.
#[derive(PartialEq, Eq)]
enum Next {
    GoOn,
    Close,
}

impl Connection {
    async fn run(&mut self) -> io::Result<()> {
        let mut buffer = [0u8; READ_AHEAD];
        let mut filled = 0;
        loop {
            let space = buffer.get_mut(filled..).unwrap_or_default();
            let read = tokio::select! {
                read = read_some(&mut self.stream, space, filled % REQUEST_LENGTH != 0) => Some(read?),
                changed = self.state.changed(), if self.subscription.is_some() => match changed {
                    Ok(()) => None,
                    // The agent is going away.
                    Err(_) => return Ok(()),
                },
                // A sample that does not come changes nothing but the age.
                () = tokio::time::sleep(STALENESS_CHECK), if self.subscription.is_some() => None,
            };
            let next = match read {
                Some(0) => return Ok(()),
                Some(length) => {
                    filled += length;
                    let next = self.answer_all(buffer.get(..filled).unwrap_or_default());
                    let rest = filled % REQUEST_LENGTH;
                    buffer.copy_within(filled - rest..filled, 0);
                    filled = rest;
                    next
                }
                None => self.tell_changes(),
            };
            self.flush().await?;
            if next == Next::Close {
                return self.stream.shutdown().await;
            }
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        if self.answers.is_empty() {
            return Ok(());
        }
        timeout(SLOW_READER, self.stream.write_all(&self.answers)).await.map_err(|_| io::ErrorKind::TimedOut)??;
        self.answers.clear();
        Ok(())
    }

    fn answer_all(&mut self, bytes: &[u8]) -> Next {
        let state = self.state.borrow_and_update().clone();
        for request in bytes.as_chunks::<REQUEST_LENGTH>().0 {
            let answered = match Request::decode(*request) {
                Ok(request) if self.permitted => {
                    self.answer(request, state.as_deref());
                    continue;
                }
                Ok(_) => Status::NotPermitted,
                Err(_) => Status::BadRequest,
            };
            self.answers.extend_from_slice(&Record::status_only(answered).encode());
            return Next::Close;
        }
        Next::GoOn
    }

    fn answer(&mut self, request: Request, state: Option<&HealthState>) {
        match request {
            Request::Device { gpu, mask } => {
                let record = record_of(state, gpu, mask);
                self.answers.extend_from_slice(&record.encode());
            }
            Request::All { mask } => self.list(&records(state, None, mask)),
            Request::Subscribe { gpu, mask } => {
                let told = records(state, gpu, mask);
                self.list(&told);
                self.subscription = Some(Subscription { gpu, mask, told });
            }
            Request::Extended { gpu, mask } => {
                let found = state.and_then(|state| state.by_index(gpu));
                let status = record_of(state, gpu, 0).status;
                let age = state.map(|state| u32::try_from(state.age().as_millis()).unwrap_or(u32::MAX - 1));
                self.answers.extend_from_slice(&encode_extended(status, found, age, mask));
            }
            Request::Hello => {
                let count = state.map_or(0, |state| state.physical().count());
                let interval = state.map_or(0, |state| state.snapshot.host.sample_interval_ms);
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                self.answers.extend_from_slice(&encode_hello(count, interval));
            }
        }
    }

    fn list(&mut self, records: &BTreeMap<u32, Record>) {
        let count = u32::try_from(records.len()).unwrap_or(u32::MAX);
        self.answers.extend_from_slice(&count.to_be_bytes());
        for (gpu, record) in records {
            push_numbered(&mut self.answers, *gpu, *record);
        }
    }

    /// Tells a subscriber every record that differs from what it was last told. A device that is gone is told once as
    /// an unknown device.
    fn tell_changes(&mut self) -> Next {
        let state = self.state.borrow_and_update().clone();
        if let Some(subscription) = &mut self.subscription {
            let now = records(state.as_deref(), subscription.gpu, subscription.mask);
            for gpu in subscription.told.keys().filter(|gpu| !now.contains_key(gpu)) {
                push_numbered(&mut self.answers, *gpu, Record::status_only(Status::UnknownDevice));
            }
            for (gpu, record) in now.iter().filter(|(gpu, record)| subscription.told.get(gpu) != Some(record)) {
                push_numbered(&mut self.answers, *gpu, *record);
            }
            subscription.told = now;
        }
        Next::GoOn
    }
}

/// Reads what there is; one that completes a half-sent request must come in time.
async fn read_some(stream: &mut UnixStream, space: &mut [u8], half: bool) -> io::Result<usize> {
    if half {
        return timeout(HALF_REQUEST, stream.read(space)).await.map_err(|_| io::ErrorKind::TimedOut)?;
    }
    stream.read(space).await
}

fn push_numbered(answers: &mut Vec<u8>, gpu: u32, record: Record) {
    answers.extend_from_slice(&gpu.to_be_bytes());
    answers.extend_from_slice(&record.encode());
}

fn record_of(state: Option<&HealthState>, gpu: u32, mask: u32) -> Record {
    let Some(state) = state else { return Record::status_only(Status::Stale) };
    match state.by_index(gpu) {
        Some(judged) => judged_record(state, judged, mask),
        None => Record::status_only(Status::UnknownDevice),
    }
}

fn judged_record(state: &HealthState, (device, health): (&Device, &DeviceHealth), mask: u32) -> Record {
    let status = if state.is_stale() { Status::Stale } else { Status::of(health) };
    Record::of(status, device, mask)
}

fn records(state: Option<&HealthState>, gpu: Option<u32>, mask: u32) -> BTreeMap<u32, Record> {
    let Some(state) = state else { return BTreeMap::new() };
    let wanted = state.physical().filter(|(device, _)| gpu.is_none_or(|gpu| gpu == device.info.index));
    wanted.map(|judged| (judged.0.info.index, judged_record(state, judged, mask))).collect()
}
