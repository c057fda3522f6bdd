//! DCGM's numbers under their names: `"NOT_SUPPORTED"` in a scenario file, or the bare number.

use dcgm_sys::entity::EntityStatus;
use dcgm_sys::error::DcgmError;
use dcgm_sys::health::{HealthResult, HealthSystems};
use dcgm_sys::module::{ModuleId, ModuleStatus};
use dcgm_sys::nvlink::LinkState;
use dcgm_sys::policy::{Conditions, ErrorLocation};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number that has a name.
pub trait Named: Sized + Copy {
    /// Its name, if it has one.
    fn name(self) -> Option<String>;
    /// The number of a name.
    fn from_name(name: &str) -> Option<Self>;
    /// The number.
    fn number(self) -> i64;
    /// The number's constant.
    fn from_number(number: i64) -> Option<Self>;
}

/// A number that a scenario file writes by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Name<T>(pub T);

macro_rules! named {
    ($($type:ident: $raw:ty),*) => {$(
        impl Named for $type {
            fn name(self) -> Option<String> {
                $type::name(self).map(str::to_owned)
            }

            fn from_name(name: &str) -> Option<Self> {
                $type::from_name(name)
            }

            fn number(self) -> i64 {
                i64::from(self.0)
            }

            fn from_number(number: i64) -> Option<Self> {
                <$raw>::try_from(number).ok().map(Self)
            }
        }
    )*};
}

named!(
    EntityStatus: i32, HealthResult: i32, HealthSystems: u32, ModuleId: i32, ModuleStatus: i32, LinkState: i32,
    Conditions: i32, ErrorLocation: i32
);

impl Named for DcgmError {
    fn name(self) -> Option<String> {
        DcgmError::name(self).and_then(|name| name.strip_prefix("DCGM_ST_")).map(str::to_owned)
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|error| Named::name(*error).as_deref() == Some(name))
    }

    fn number(self) -> i64 {
        i64::from(self.code)
    }

    fn from_number(number: i64) -> Option<Self> {
        i32::try_from(number).ok().filter(|code| *code != 0).map(|code| Self { code })
    }
}

impl<T: Named> Serialize for Name<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.name() {
            Some(name) => serializer.serialize_str(&name),
            None => serializer.serialize_i64(self.0.number()),
        }
    }
}

impl<'de, T: Named> Deserialize<'de> for Name<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(i64),
            Name(String),
        }
        let (found, written) = match Written::deserialize(deserializer)? {
            Written::Number(number) => (T::from_number(number), number.to_string()),
            Written::Name(name) => (T::from_name(&name), name),
        };
        found
            .map(Self)
            .ok_or_else(|| serde::de::Error::custom(format!("`{written}` is not a name or number DCGM has here")))
    }
}
