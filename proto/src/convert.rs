//! Conversions between the wire (`v1`) and the domain model.
//!
//! Towards the wire they cannot fail. From the wire they tolerate what a newer peer may send (unknown fields and enum
//! numbers) and refuse only what cannot be understood, naming the field. A number that cannot be true becomes
//! [`Unknown::Failed`](gpufleet_model::Unknown::Failed), never a value.

use std::time::{Duration, SystemTime};

use prost_types::Timestamp;
use thiserror::Error;

mod changes;
mod device;
pub mod health;
mod host;
mod process;
mod readings;

pub use changes::{
    MAX_CHUNK_BYTES, decode_devices, decode_host_response, decode_processes, encode_devices, encode_host_response,
    encode_processes, position, snapshot_chunks,
};

/// A message that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A field that must be set is not.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// A field holds what cannot be meant.
    #[error("`{field}` is invalid: {problem}")]
    Invalid {
        /// The field's name.
        field: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// A point in time for the wire. Times outside the wire's range saturate.
pub fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => Timestamp {
            seconds: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            nanos: i32::try_from(after.subsec_nanos()).unwrap_or_default(),
        },
        Err(before) => {
            let before = before.duration();
            let seconds = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
            let nanos = i32::try_from(before.subsec_nanos()).unwrap_or_default();
            if nanos == 0 {
                Timestamp { seconds: -seconds, nanos: 0 }
            } else {
                Timestamp { seconds: -seconds - 1, nanos: 1_000_000_000 - nanos }
            }
        }
    }
}

/// A point in time from the wire; `None` when it is not one.
pub fn system_time(time: Timestamp) -> Option<SystemTime> {
    let nanos = u32::try_from(time.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let whole = if time.seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(seconds)?
    } else {
        SystemTime::UNIX_EPOCH.checked_add(seconds)?
    };
    whole.checked_add(Duration::from_nanos(nanos.into()))
}

/// A length of time for the wire.
pub fn duration(length: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(length.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(length.subsec_nanos()).unwrap_or_default(),
    }
}

/// A length of time from the wire; `None` when it is negative or not one.
pub fn std_duration(length: prost_types::Duration) -> Option<Duration> {
    let nanos = u32::try_from(length.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(length.seconds).ok()?, nanos))
}

/// A required point in time.
fn required_time(time: Option<Timestamp>, field: &'static str) -> Result<SystemTime, DecodeError> {
    let time = time.ok_or(DecodeError::Missing(field))?;
    system_time(time).ok_or(DecodeError::Invalid { field, problem: "not a point in time" })
}
