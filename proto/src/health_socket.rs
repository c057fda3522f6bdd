//! The local health socket's protocol, version 1: what goes over the wire, byte for byte.
//!
//! A request is nine bytes, `cmd u8 · gpu u32 · mask u32`; all integers are big-endian. Answers come in order, so a
//! connection may carry any number of requests, pipelined. An unknown value is never zero: each width has its own
//! "unknown". Pure functions over bytes; the server is in the agent, a small blocking client in [`client`].
//! Described for other languages in `docs/health-socket.md`.

use gpufleet_model::fields::Value;
use gpufleet_model::health::{DeviceHealth, Verdict};
use gpufleet_model::{Device, Reading, Unknown};
use thiserror::Error;

#[cfg(feature = "health-client")]
pub mod client;

/// Protocol version that a hello answers with.
pub const VERSION: u16 = 1;
/// Length of a request.
pub const REQUEST_LENGTH: usize = 9;
/// Length of a record.
pub const RECORD_LENGTH: usize = 13;
/// Length of the answer to a hello.
pub const HELLO_LENGTH: usize = 14;
/// The device number that means every device.
pub const ALL_DEVICES: u32 = u32::MAX;
/// Capabilities of this version: bit 0 subscribe, bit 1 extended records.
pub const CAPABILITIES: u32 = 0b11;

/// Fields that a mask selects.
pub mod mask {
    /// Core temperature.
    pub const TEMPERATURE: u32 = 1;
    /// Power draw.
    pub const POWER: u32 = 1 << 1;
    /// Uncorrected ECC errors since the driver was loaded.
    pub const ECC_UNCORRECTED: u32 = 1 << 2;
    /// PCIe replays since the driver was loaded.
    pub const PCIE_REPLAYS: u32 = 1 << 3;
    /// Utilisation.
    pub const UTILIZATION: u32 = 1 << 4;
    /// Memory free.
    pub const MEMORY_FREE: u32 = 1 << 5;
    /// Memory in all.
    pub const MEMORY_TOTAL: u32 = 1 << 6;
    /// Clock event (throttle) reasons.
    pub const CLOCK_EVENTS: u32 = 1 << 7;
    /// Row-remap state: bit 0 pending, bit 1 failed.
    pub const ROW_REMAP: u32 = 1 << 8;
    /// The last XID.
    pub const LAST_XID: u32 = 1 << 9;
    /// The verdict.
    pub const VERDICT: u32 = 1 << 10;
    /// Corrected ECC errors since the driver was loaded.
    pub const ECC_CORRECTED: u32 = 1 << 11;
    /// Every field of this version.
    pub const ALL: u32 = (1 << 12) - 1;
}

/// What a client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// One device, by index.
    Device {
        /// The driver's index.
        gpu: u32,
        /// Fields wanted.
        mask: u32,
    },
    /// Every device.
    All {
        /// Fields wanted.
        mask: u32,
    },
    /// Every device now, then each change.
    Subscribe {
        /// The driver's index; `None` for every device.
        gpu: Option<u32>,
        /// Fields wanted.
        mask: u32,
    },
    /// One device in a self-describing record.
    Extended {
        /// The driver's index.
        gpu: u32,
        /// Fields wanted.
        mask: u32,
    },
    /// Version and capabilities.
    Hello,
}

/// A request that cannot be answered: the connection is closed after the answer that says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BadRequest {
    /// No such command in this version.
    #[error("unknown command `{0:#04x}`")]
    Command(u8),
    /// The mask names fields that this version does not have.
    #[error("unknown fields `{0:#x}` in the mask")]
    Mask(u32),
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// When the command or a field is unknown.
    pub fn decode(bytes: [u8; REQUEST_LENGTH]) -> Result<Self, BadRequest> {
        let [command, g0, g1, g2, g3, m0, m1, m2, m3] = bytes;
        let (gpu, fields) = (u32::from_be_bytes([g0, g1, g2, g3]), u32::from_be_bytes([m0, m1, m2, m3]));
        if fields & !mask::ALL != 0 {
            return Err(BadRequest::Mask(fields & !mask::ALL));
        }
        match command {
            0x01 => Ok(Self::Device { gpu, mask: fields }),
            0x02 => Ok(Self::All { mask: fields }),
            0x03 => Ok(Self::Subscribe { gpu: (gpu != ALL_DEVICES).then_some(gpu), mask: fields }),
            0x10 => Ok(Self::Extended { gpu, mask: fields }),
            0x7F => Ok(Self::Hello),
            other => Err(BadRequest::Command(other)),
        }
    }

    /// Writes a request.
    pub fn encode(self) -> [u8; REQUEST_LENGTH] {
        let (command, gpu, fields) = match self {
            Self::Device { gpu, mask } => (0x01, gpu, mask),
            Self::All { mask } => (0x02, 0, mask),
            Self::Subscribe { gpu, mask } => (0x03, gpu.unwrap_or(ALL_DEVICES), mask),
            Self::Extended { gpu, mask } => (0x10, gpu, mask),
            Self::Hello => (0x7F, 0, 0),
        };
        let ([g0, g1, g2, g3], [m0, m1, m2, m3]) = (gpu.to_be_bytes(), fields.to_be_bytes());
        [command, g0, g1, g2, g3, m0, m1, m2, m3]
    }
}

/// One byte of go or no-go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Status {
    /// Fit for work.
    Healthy = 0,
    /// Works, below what it should give.
    Degraded = 1,
    /// May give wrong results or fail soon.
    Unreliable = 2,
    /// Not fit for work.
    Critical = 3,
    /// Degraded by heat alone.
    Overheating = 4,
    /// No such device.
    UnknownDevice = 5,
    /// The newest sample is too old, or too little is known to judge.
    Stale = 6,
    /// The caller may not ask.
    NotPermitted = 7,
    /// The request could not be read; the connection is closed.
    BadRequest = 8,
    /// The agent failed.
    Internal = 255,
}

impl Status {
    /// Reads the byte; `None` for one that this version does not have.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Healthy,
            1 => Self::Degraded,
            2 => Self::Unreliable,
            3 => Self::Critical,
            4 => Self::Overheating,
            5 => Self::UnknownDevice,
            6 => Self::Stale,
            7 => Self::NotPermitted,
            8 => Self::BadRequest,
            255 => Self::Internal,
            _ => return None,
        })
    }

    /// The status of a judged device whose sample is fresh.
    pub fn of(health: &DeviceHealth) -> Self {
        match health.verdict {
            Verdict::Healthy => Self::Healthy,
            Verdict::Degraded if health.incidents.iter().all(|incident| incident.code.starts_with("TEMPERATURE_")) => {
                Self::Overheating
            }
            Verdict::Degraded => Self::Degraded,
            Verdict::Unreliable => Self::Unreliable,
            Verdict::Critical => Self::Critical,
            _ => Self::Stale,
        }
    }
}

/// The short answer about one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Go or no-go.
    pub status: Status,
    /// Hundredths of a degree Celsius; `None` unknown, not asked for, or below zero.
    pub temperature_centicelsius: Option<u16>,
    /// Watts, rounded; `None` unknown or not asked for.
    pub power_watts: Option<u16>,
    /// Uncorrected ECC errors, saturating; `None` unknown or not asked for.
    pub ecc_uncorrected: Option<u32>,
    /// PCIe replays, saturating; `None` unknown or not asked for.
    pub pcie_replays: Option<u32>,
}

impl Record {
    /// A record that carries a status alone.
    pub const fn status_only(status: Status) -> Self {
        Self { status, temperature_centicelsius: None, power_watts: None, ecc_uncorrected: None, pcie_replays: None }
    }

    /// The record of a device, with the fields that the mask selects.
    pub fn of(status: Status, device: &Device, fields: u32) -> Self {
        let readings = &device.readings;
        let asked = |field: u32| fields & field != 0;
        let temperature = readings.temperature_celsius.ok().filter(|_| asked(mask::TEMPERATURE));
        let power = readings.power_watts.ok().filter(|_| asked(mask::POWER));
        let ecc = readings.ecc_uncorrected_volatile.ok().filter(|_| asked(mask::ECC_UNCORRECTED));
        let replays = readings.pcie_replay_count.ok().filter(|_| asked(mask::PCIE_REPLAYS));
        Self {
            status,
            temperature_centicelsius: temperature.and_then(centicelsius),
            power_watts: power.map(whole_watts),
            ecc_uncorrected: ecc.map(saturate),
            pcie_replays: replays.map(saturate),
        }
    }

    /// Writes the record.
    pub fn encode(self) -> [u8; RECORD_LENGTH] {
        let [t0, t1] = self.temperature_centicelsius.unwrap_or(u16::MAX).to_be_bytes();
        let [p0, p1] = self.power_watts.unwrap_or(u16::MAX).to_be_bytes();
        let [e0, e1, e2, e3] = self.ecc_uncorrected.unwrap_or(u32::MAX).to_be_bytes();
        let [r0, r1, r2, r3] = self.pcie_replays.unwrap_or(u32::MAX).to_be_bytes();
        [self.status as u8, t0, t1, p0, p1, e0, e1, e2, e3, r0, r1, r2, r3]
    }

    /// Reads a record; `None` when its status is not of this version.
    pub fn decode(bytes: [u8; RECORD_LENGTH]) -> Option<Self> {
        let [status, t0, t1, p0, p1, e0, e1, e2, e3, r0, r1, r2, r3] = bytes;
        let short = |value: u16| (value != u16::MAX).then_some(value);
        let long = |value: u32| (value != u32::MAX).then_some(value);
        Some(Self {
            status: Status::from_byte(status)?,
            temperature_centicelsius: short(u16::from_be_bytes([t0, t1])),
            power_watts: short(u16::from_be_bytes([p0, p1])),
            ecc_uncorrected: long(u32::from_be_bytes([e0, e1, e2, e3])),
            pcie_replays: long(u32::from_be_bytes([r0, r1, r2, r3])),
        })
    }
}

fn centicelsius(celsius: i32) -> Option<u16> {
    u16::try_from(celsius).ok().map(|celsius| celsius.saturating_mul(100).min(u16::MAX - 1))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range of u16")]
fn whole_watts(watts: f64) -> u16 {
    watts.round().clamp(0.0, f64::from(u16::MAX - 1)) as u16
}

fn saturate(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX).min(u32::MAX - 1)
}

/// Writes an extended record: `length u32`, then version, status, verdict, age, worst code and the masked fields.
pub fn encode_extended(
    status: Status,
    judged: Option<(&Device, &DeviceHealth)>,
    age_ms: Option<u32>,
    fields: u32,
) -> Vec<u8> {
    let mut body = Vec::with_capacity(128);
    body.extend_from_slice(&VERSION.to_be_bytes());
    let health = judged.map(|(_, health)| health);
    body.extend_from_slice(&[status as u8, health.map_or(4, |health| verdict_byte(health.verdict))]);
    body.extend_from_slice(&age_ms.unwrap_or(u32::MAX).to_be_bytes());
    let code = health.and_then(|health| health.incidents.first()).map_or("", |incident| &incident.code);
    let code = code.as_bytes().get(..code.len().min(255)).unwrap_or_default();
    body.push(u8::try_from(code.len()).unwrap_or(u8::MAX));
    body.extend_from_slice(code);
    let values = judged.map(|(device, health)| extended_values(device, health, fields)).unwrap_or_default();
    body.extend_from_slice(&u16::try_from(values.len()).unwrap_or(u16::MAX).to_be_bytes());
    for (bit, value) in values {
        body.extend_from_slice(&bit.to_be_bytes());
        push_value(&mut body, value);
    }
    let mut message = u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes().to_vec();
    message.append(&mut body);
    message
}

fn verdict_byte(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Healthy => 0,
        Verdict::Degraded => 1,
        Verdict::Unreliable => 2,
        Verdict::Critical => 3,
        _ => 4,
    }
}

/// The masked fields by the number of their mask bit.
fn extended_values(device: &Device, health: &DeviceHealth, fields: u32) -> Vec<(u16, Reading<Value>)> {
    let readings = &device.readings;
    let row_remap = match (readings.remapped_rows_pending, readings.remapped_rows_failed) {
        (Ok(pending), Ok(failed)) => Ok(u64::from(pending) | u64::from(failed) << 1),
        (Err(reason), _) | (_, Err(reason)) => Err(reason),
    };
    let all: [Reading<Value>; 12] = [
        readings.temperature_celsius.map(Value::from),
        readings.power_watts.map(Value::from),
        readings.ecc_uncorrected_volatile.map(Value::from),
        readings.pcie_replay_count.map(Value::from),
        readings.utilization_percent.map(Value::from),
        readings.memory_free_bytes.map(Value::from),
        readings.memory_total_bytes.map(Value::from),
        readings.clock_event_reasons.map(Value::from),
        row_remap.map(Value::from),
        readings.last_xid.map(Value::from),
        Ok(u64::from(verdict_byte(health.verdict)).into()),
        readings.ecc_corrected_volatile.map(Value::from),
    ];
    (0u16..).zip(all).filter(|(bit, _)| fields & (1 << bit) != 0).collect()
}

/// `kind u8 · value`: 0 unknown with a reason byte, 1 unsigned and 2 signed in eight bytes, 3 an IEEE 754 double.
fn push_value(body: &mut Vec<u8>, value: Reading<Value>) {
    match value {
        Err(reason) => body.extend_from_slice(&[0, reason_byte(reason)]),
        Ok(Value::Unsigned(number)) => {
            body.push(1);
            body.extend_from_slice(&number.to_be_bytes());
        }
        Ok(Value::Flag(flag)) => {
            body.push(1);
            body.extend_from_slice(&u64::from(flag).to_be_bytes());
        }
        Ok(Value::Signed(number)) => {
            body.push(2);
            body.extend_from_slice(&number.to_be_bytes());
        }
        Ok(Value::Real(number)) => {
            body.push(3);
            body.extend_from_slice(&number.to_be_bytes());
        }
    }
}

/// The numbers of `UnknownReason` in the schema.
fn reason_byte(reason: Unknown) -> u8 {
    match reason {
        Unknown::NotSupported => 1,
        Unknown::NoPermission => 2,
        Unknown::Lost => 3,
        Unknown::Timeout => 4,
        Unknown::NotYet => 5,
        _ => 6,
    }
}

/// Writes the answer to a hello.
pub fn encode_hello(device_count: u32, sample_interval_ms: u32) -> [u8; HELLO_LENGTH] {
    let mut answer = [0; HELLO_LENGTH];
    let (version, rest) = answer.split_at_mut(2);
    version.copy_from_slice(&VERSION.to_be_bytes());
    for (place, value) in rest.chunks_exact_mut(4).zip([device_count, sample_interval_ms, CAPABILITIES]) {
        place.copy_from_slice(&value.to_be_bytes());
    }
    answer
}
