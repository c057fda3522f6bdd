//! A device, and the values of its fields.

use std::collections::BTreeMap;

use dcgm_sys::FieldId;
use dcgm_sys::blank::Blank;
use dcgm_sys::entity::EntityStatus;
use dcgm_sys::error::DcgmError;
use dcgm_sys::nvlink::LinkState;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Name;

/// Values by field.
pub type Fields = BTreeMap<FieldName, Reading>;

/// A GPU.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Device {
    /// It fell off the bus.
    pub lost: bool,
    /// It can be profiled without the profiling module: Hopper and later.
    pub gpm: bool,
    /// DCGM does not support it: it is in the list of all devices only.
    pub unsupported: bool,
    /// What the engine thinks of it; unset: OK, or LOST when it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Name<EntityStatus>>,
    /// The state of each NVLink.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nvlinks: Vec<Name<LinkState>>,
    /// The values of its fields. What is not named is "not supported".
    #[serde(skip_serializing_if = "Fields::is_empty")]
    pub fields: Fields,
    /// Its MIG instances.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mig: Vec<MigInstance>,
}

/// A MIG GPU instance with one compute instance. Both have the same number, counted over all devices.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MigInstance {
    /// NVML's id of the GPU instance.
    pub gpu_instance: u32,
    /// NVML's id of the compute instance in it.
    pub compute_instance: u32,
    /// NVML's number of the profile.
    pub profile: u32,
    /// How many slices it has.
    pub slices: u32,
    /// The values of its fields. What is not named is "not supported".
    #[serde(skip_serializing_if = "Fields::is_empty")]
    pub fields: Fields,
}

impl Device {
    /// Gives a field a value.
    pub fn set(&mut self, field: FieldId, reading: impl Into<Reading>) {
        self.fields.insert(FieldName(field), reading.into());
    }
}

/// What a field gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Reading {
    /// An integer; of a field that holds doubles, that number.
    Int(i64),
    /// A double.
    Double(f64),
    /// A text.
    Text(String),
    /// Status 0 and a sentinel.
    Blank {
        /// Which.
        blank: BlankName,
    },
    /// An error as the value's status.
    Status {
        /// Which.
        status: Name<DcgmError>,
    },
}

impl Reading {
    /// Status 0 and "not supported".
    pub const NOT_SUPPORTED: Self = Self::Blank { blank: BlankName(Blank::NotSupported) };

    /// An error as the value's status.
    pub fn status(error: DcgmError) -> Self {
        Self::Status { status: Name(error) }
    }
}

impl From<i64> for Reading {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Reading {
    fn from(value: f64) -> Self {
        Self::Double(value)
    }
}

impl From<&str> for Reading {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

/// A kind of blank, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlankName(pub Blank);

const BLANKS: [(&str, Blank); 4] = [
    ("BLANK", Blank::Unknown),
    ("NOT_FOUND", Blank::NotFound),
    ("NOT_SUPPORTED", Blank::NotSupported),
    ("NO_PERMISSION", Blank::NoPermission),
];

impl Serialize for BlankName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = BLANKS.iter().find(|(_, blank)| *blank == self.0).map_or("BLANK", |(name, _)| *name);
        serializer.serialize_str(name)
    }
}

impl<'de> Deserialize<'de> for BlankName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = String::deserialize(deserializer)?;
        let found = BLANKS.iter().find(|(name, _)| *name == written).map(|(_, blank)| Self(*blank));
        found.ok_or_else(|| serde::de::Error::custom(format!("`{written}` is not a kind of blank")))
    }
}

/// A field, by DCGM's tag or its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldName(pub FieldId);

impl Serialize for FieldName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.facts() {
            Some(facts) => serializer.serialize_str(facts.tag),
            None => serializer.serialize_str(&self.0.0.to_string()),
        }
    }
}

impl<'de> Deserialize<'de> for FieldName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = String::deserialize(deserializer)?;
        let number = written.parse().ok().map(FieldId);
        let found = number.or_else(|| dcgm_sys::FieldFacts::all().find(|f| f.tag == written).map(|f| f.id));
        found.map(Self).ok_or_else(|| serde::de::Error::custom(format!("`{written}` is not a field's tag or number")))
    }
}
