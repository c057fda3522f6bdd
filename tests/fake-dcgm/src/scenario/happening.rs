//! What happens in a scenario: health incidents, policy violations, events, and calls that go wrong.

use dcgm_sys::FieldId;
use dcgm_sys::error::DcgmError;
use dcgm_sys::health::{HealthResult, HealthSystems};
use dcgm_sys::policy::{Conditions, ErrorLocation};
use serde::{Deserialize, Serialize};

use super::{FieldName, Name};

/// What a health check finds, as long as it is in the file and the system is watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Incident {
    /// The device's number.
    pub device: u32,
    /// The system; ALL is found whatever is watched.
    pub system: Name<HealthSystems>,
    /// How bad it is; unset: WARN.
    #[serde(default = "warn")]
    pub health: Name<HealthResult>,
    /// DCGM's number of the error.
    #[serde(default)]
    pub code: u32,
    /// The text. DCGM's own can name a GPU that does not exist.
    #[serde(default)]
    pub message: String,
}

impl Incident {
    /// What DCGM 4.6 says of a healthy H200 that works at its power limit.
    pub fn at_power_limit(device: u32) -> Self {
        Self {
            device,
            system: Name(HealthSystems::POWER),
            health: Name(HealthResult::WARN),
            code: 12,
            message: format!("Detected clocks event due to power violation in GPU {device}."),
        }
    }

    /// A failed row remap, whose text names a nonsense GPU, as that of 3.3.9 and 4.6.0 does.
    pub fn row_remap_failure(device: u32) -> Self {
        Self {
            device,
            system: Name(HealthSystems::MEMORY),
            health: Name(HealthResult::FAIL),
            code: 84,
            message: "GPU 3735928559 had uncorrectable memory errors and row remapping failed.".to_owned(),
        }
    }
}

fn warn() -> Name<HealthResult> {
    Name(HealthResult::WARN)
}

/// What a policy reports, once to each registration made before, or to all with `replay`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Violation {
    /// Names it.
    pub id: u64,
    /// The device's number.
    pub device: u32,
    /// The condition.
    pub condition: Name<Conditions>,
    /// °C, watts, the XID, or the counter or count.
    pub number: u32,
    /// For double-bit errors: where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<Name<ErrorLocation>>,
    /// For NVLink: the field that counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<FieldName>,
    /// Time of the sample in microseconds; unset: now. Within 5 s there is one report per condition and device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_us: Option<i64>,
    /// Also for registrations made after this was written.
    #[serde(default)]
    pub replay: bool,
}

/// A sample of an event field, once to each watch made before, or to all with `replay`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Names it.
    pub id: u64,
    /// The device's number.
    pub device: u32,
    /// The field; unset: XIDs.
    #[serde(default = "xid")]
    pub field: FieldName,
    /// Its value.
    pub value: i64,
    /// Also for watches made after this was written.
    #[serde(default)]
    pub replay: bool,
}

fn xid() -> FieldName {
    FieldName(FieldId::DEV_XID_ERRORS)
}

/// Something that goes wrong for some calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    /// Exact name of the C function, or `*` for every call to an engine.
    pub function: String,
    /// Answer this instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Name<DcgmError>>,
    /// First hang for so many milliseconds, then answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hang_ms: Option<u64>,
    /// Hang until a scenario is there in which no rule makes this call hang, then answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hang: bool,
    /// The rule holds for the first so many calls only. Unset: for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
}
