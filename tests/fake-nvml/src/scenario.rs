//! The scenario: what the driver would know.
//!
//! ```toml
//! driver_version = "580.159.04"
//! release_on_exit_ms = 100              # memory of a process goes this long after it has exited; unset: never
//! call_log = "/tmp/calls"               # append "FUNCTION DEVICE-UUID" per call; unset: do not
//! # init = "DRIVER_NOT_LOADED"          # what nvmlInit answers; unset: success
//!
//! [[devices]]
//! model = "h200"                        # start from a ready-made card: h200, a100, k80; see `models`
//! temperature = 71                      # then override any field of `Device`
//! without = ["power_mw"]                # or take it away: NOT_SUPPORTED
//! lost = false                          # true: fell off the bus; leave the whole entry out: not listed at all
//!
//! [[devices.processes]]
//! pid = 4242
//! memory_bytes = 5345640448
//! sm = 97
//!
//! [[rules]]                             # the first rule that matches a call decides
//! function = "nvmlDeviceGetPowerUsage"  # or "*"
//! device = "GPU-..."                    # unset: every device
//! hang = true                           # hangs until a scenario without the rule is there; or hang_ms, code, grow
//!
//! [[events]]
//! id = 1                                # each event set gets each id once
//! device = "GPU-..."
//! data = 79                             # the XID
//! ```

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Code;

mod device;
mod models;
mod written;

pub use device::{Clocks, Device, Ecc, Kind, MigInstance, Process, RemappedRows, RetiredPages, Thresholds, Violations};

/// Everything the library answers from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// Version of the driver.
    pub driver_version: String,
    /// Version of the library.
    pub nvml_version: String,
    /// CUDA version of the driver, such as 13000 for 13.0.
    pub cuda_driver_version: i32,
    /// What `nvmlInit` answers; unset: success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<Code>,
    /// A file that gets one line per call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_log: Option<PathBuf>,
    /// How long after its exit a process leaves the lists and its memory is free. Unset: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release_on_exit_ms: Option<u64>,
    /// The devices, in the driver's order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    /// What goes wrong; the first rule that matches a call decides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// What happens to devices. Those in the file when an event set is made are past for it, unless `replay`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            driver_version: "580.159.04".to_owned(),
            nvml_version: "13.580.159.04".to_owned(),
            cuda_driver_version: 13_000,
            init: None,
            call_log: None,
            release_on_exit_ms: None,
            devices: Vec::new(),
            rules: Vec::new(),
            events: Vec::new(),
        }
    }
}

impl Scenario {
    /// Reads a scenario file.
    ///
    /// # Errors
    ///
    /// One line for people when the file cannot be read or says something that has no meaning.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read `{}`: {e}", path.display()))?;
        written::parse(&text).map_err(|e| format!("`{}`: {e}", path.display()))
    }

    /// The scenario as the text of a scenario file.
    ///
    /// # Errors
    ///
    /// When a number is beyond what TOML can hold.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }
}

/// Something that goes wrong for some calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    /// Exact name of the C function, or `*` for every function that needs an initialised library.
    pub function: String,
    /// UUID of the device meant; a MIG instance is meant by its own UUID. Unset: every device, and calls without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Answer this instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// First hang for so many milliseconds, then answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hang_ms: Option<u64>,
    /// Hang until a scenario is there in which no rule makes this call hang, then answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hang: bool,
    /// A list that always grows: answer INSUFFICIENT_SIZE with a count above the buffer's, however large that is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub grow: bool,
    /// The rule holds for the first so many calls only. Unset: for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
}

/// Something that happens to a device, as `nvmlEventSetWait` tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Names the event; an event set gets each id once.
    pub id: u64,
    /// UUID of the device.
    pub device: String,
    /// NVML's event type bit; unset: 8, a critical XID.
    #[serde(default = "xid_event")]
    pub kind: u64,
    /// The XID.
    pub data: u64,
    /// Also for event sets made after this event was written.
    #[serde(default)]
    pub replay: bool,
}

fn xid_event() -> u64 {
    u64::from(nvml_wrapper_sys::bindings::nvmlEventTypeXidCriticalError)
}
