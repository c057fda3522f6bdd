//! A checked request to signal a process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gpufleet_proto::convert::std_duration;
use gpufleet_proto::status::Reason;
use gpufleet_proto::v1;
use gpufleet_transport::{Peer, PeerIdentity, peer};
use tonic::{Request, Status};

use crate::query::unknown_host;
use crate::state::{Fleet, HostCell};

const MAX_SIGNAL: u32 = 64;
const MAX_REQUEST_ID: usize = 64;
const MAX_REASON: usize = 1024;
const MAX_WAIT: Duration = Duration::from_mins(5);

/// One attempt: who, on what, and how.
pub(crate) struct Attempt {
    pub(crate) caller: Arc<PeerIdentity>,
    /// Where the caller connected from.
    pub(crate) source: SocketAddr,
    pub(crate) host: Arc<HostCell>,
    pub(crate) target: v1::ProcessTarget,
    pub(crate) signal: u32,
    pub(crate) request_id: String,
    pub(crate) reason: String,
    pub(crate) wait: Option<Duration>,
}

impl Attempt {
    /// Checks the request's form, and that its host is in the inventory.
    pub(crate) fn check(request: Request<v1::FleetServiceSignalProcessRequest>, fleet: &Fleet) -> Result<Self, Status> {
        let Peer { identity: caller, address: source } = peer(&request)?.clone();
        let v1::FleetServiceSignalProcessRequest { target, signal, request_id, reason, wait } = request.into_inner();
        let target = target.ok_or_else(|| invalid("target", "is required"))?;
        if target.pid == 0 || i32::try_from(target.pid).is_err() {
            return Err(invalid("target.pid", "is not a process id"));
        }
        if target.start_ticks == 0 {
            return Err(invalid("target.start_ticks", "is required: look the process up first"));
        }
        if target.boot_id.is_empty() {
            return Err(invalid("target.boot_id", "is required: look the process up first"));
        }
        if !(1..=MAX_SIGNAL).contains(&signal) {
            return Err(invalid("signal", &format!("`{signal}` is not a number from 1 to {MAX_SIGNAL}")));
        }
        if request_id.is_empty() || request_id.chars().count() > MAX_REQUEST_ID {
            return Err(invalid("request_id", &format!("must have 1 to {MAX_REQUEST_ID} characters")));
        }
        if reason.chars().count() > MAX_REASON {
            return Err(invalid("reason", &format!("must have at most {MAX_REASON} characters")));
        }
        let wait = wait
            .map(|asked| {
                let wait = std_duration(asked).filter(|wait| *wait <= MAX_WAIT);
                wait.ok_or_else(|| invalid("wait", "must be from 0 to 5 minutes"))
            })
            .transpose()?;
        let table = fleet.table();
        let host = table.get(&target.host).cloned().ok_or_else(|| unknown_host(&target.host, &table))?;
        Ok(Self { caller, source, host, target, signal, request_id, reason, wait })
    }

    /// True when the other attempt asks for the same.
    pub(super) fn asks_the_same(&self, target: &v1::ProcessTarget, signal: u32) -> bool {
        self.target == *target && self.signal == signal
    }
}

fn invalid(field: &str, problem: &str) -> Status {
    Reason::InvalidArgument.status(format!("{field} {problem}"), [("field", field.to_owned())])
}
