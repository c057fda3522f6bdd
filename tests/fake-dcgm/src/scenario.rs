//! The scenario: what DCGM would know.
//!
//! ```toml
//! version = "4.6.0"                 # which DCGM this is; 3.x has other structs and other traps
//! nvml = true                       # false: no driver on the host
//! call_log = "/tmp/calls"           # append the name of each function called; unset: do not
//! # init = "INIT_ERROR"             # what dcgmInit answers; embedded = …: what dcgmStartEmbedded_v2 answers
//!
//! [engine]                          # a running nv-hostengine; without this nobody listens
//! addresses = ["127.0.0.1:5555", "/run/engine.sock"]
//! version = "4.6.0"                 # of another major version than the library: VER_MISMATCH from every call
//! incarnation = 1                   # another number: it was restarted and has forgotten everything
//!
//! [[devices]]
//! model = "h200"                    # start from a ready-made card: h200, v100; see `models`
//! lost = false                      # true: fell off the bus
//! [devices.fields]                  # by DCGM's tag or number; what is not named is "not supported"
//! gpu_temp = 71
//! power_usage = { blank = "NOT_SUPPORTED" }
//! 449 = { status = "NOT_SUPPORTED" }
//!
//! [[incidents]]                     # what dcgmHealthCheck finds, if the system is watched
//! device = 0
//! system = "POWER"
//!
//! [[violations]]                    # reported once to whoever registered for the condition
//! id = 1
//! device = 0
//! condition = "XID"
//! number = 79
//!
//! [[events]]                        # a sample of an event field: XIDs, NVLink errors
//! id = 1
//! device = 0
//! value = 79
//!
//! [[rules]]                         # the first rule that matches a call decides
//! function = "dcgmHealthCheck"      # or "*": every call to an engine
//! hang = true                       # until a scenario without the rule is there; or hang_ms, code
//! ```

use std::path::{Path, PathBuf};

use dcgm_sys::error::DcgmError;
use dcgm_sys::module::{ModuleId, ModuleStatus};
use dcgm_sys::{Major, Version};
use serde::{Deserialize, Serialize};

mod device;
mod happening;
mod models;
mod name;
mod written;

pub use device::{Device, FieldName, Fields, MigInstance, Reading};
pub use happening::{Event, Incident, Rule, Violation};
pub use name::{Name, Named};

/// Everything the library answers from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// The version of the library, which is also that of an embedded engine.
    pub version: String,
    /// Whether the host has a driver.
    pub nvml: bool,
    /// Whether the closed profiling module is installed, which GPUs before Hopper need for profiling fields.
    pub profiling_module: bool,
    /// What `dcgmInit` answers; unset: success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<Name<DcgmError>>,
    /// What `dcgmStartEmbedded_v2` answers; unset: success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedded: Option<Name<DcgmError>>,
    /// A file that gets one line per call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_log: Option<PathBuf>,
    /// Memory the engine says it uses.
    pub memory_bytes: i64,
    /// A running engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<RemoteEngine>,
    /// Modules whose status is fixed. One that is not LOADED or NOT_LOADED does not work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<FixedModule>,
    /// Fields about the host, and about any device that does not name them itself.
    #[serde(skip_serializing_if = "Fields::is_empty")]
    pub fields: Fields,
    /// The devices; a device's number is its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    /// What health checks find.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub incidents: Vec<Incident>,
    /// What policies report.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
    /// Samples of event fields.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// What goes wrong; the first rule that matches a call decides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
}

/// A running `nv-hostengine`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RemoteEngine {
    /// Where it listens: `host:port`, or paths of Unix sockets.
    pub addresses: Vec<String>,
    /// Its version.
    pub version: String,
    /// Which run of the engine this is.
    pub incarnation: u64,
}

impl Default for RemoteEngine {
    fn default() -> Self {
        Self { addresses: vec!["127.0.0.1:5555".to_owned()], version: DEFAULT_VERSION.to_owned(), incarnation: 1 }
    }
}

/// A module whose status is fixed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedModule {
    /// The module.
    pub module: Name<ModuleId>,
    /// Its status.
    pub status: Name<ModuleStatus>,
}

const DEFAULT_VERSION: &str = "4.6.0";

impl Default for Scenario {
    fn default() -> Self {
        Self {
            version: DEFAULT_VERSION.to_owned(),
            nvml: true,
            profiling_module: false,
            init: None,
            embedded: None,
            call_log: None,
            memory_bytes: 38_000_000,
            engine: None,
            modules: Vec::new(),
            fields: models::host_fields(),
            devices: Vec::new(),
            incidents: Vec::new(),
            violations: Vec::new(),
            events: Vec::new(),
            rules: Vec::new(),
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

    /// The name by which a program finds the library that this scenario plays.
    pub fn soname(&self) -> &'static str {
        self.major().soname()
    }

    /// The library's version; a scenario that was read has one.
    pub(crate) fn version(&self) -> Version {
        parse_version(&self.version).unwrap_or(Version { major: 4, minor: 6, patch: 0 })
    }

    pub(crate) fn major(&self) -> Major {
        Major::from_number(self.version().major).unwrap_or(Major::V4)
    }
}

/// A version such as `4.6.0`.
pub(crate) fn parse_version(text: &str) -> Option<Version> {
    Version::parse_build_text(&format!("version:{text}"))
}
