//! NVML return codes, by number for the ABI and by name in scenario files.

use nvml_wrapper_sys::bindings as nvml;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An NVML return code. In a scenario file: a name without its prefix, such as `"NOT_SUPPORTED"`, or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub u32);

macro_rules! codes {
    ($($name:ident = $raw:ident, $text:literal;)*) => {
        impl Code {
            $(#[doc = concat!("`NVML_", stringify!($name), "`.")] pub const $name: Self = Self(nvml::$raw);)*
        }

        const NAMES: &[(&str, Code)] = &[$((stringify!($name), Code::$name)),*];

        /// NVML's own text for a code.
        pub(crate) fn text(code: u32) -> &'static std::ffi::CStr {
            match Code(code) { $(Code::$name => $text,)* _ => c"Unknown Error" }
        }
    };
}

codes! {
    SUCCESS = nvmlReturn_enum_NVML_SUCCESS, c"Success";
    UNINITIALIZED = nvmlReturn_enum_NVML_ERROR_UNINITIALIZED, c"Uninitialized";
    INVALID_ARGUMENT = nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT, c"Invalid Argument";
    NOT_SUPPORTED = nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED, c"Not Supported";
    NO_PERMISSION = nvmlReturn_enum_NVML_ERROR_NO_PERMISSION, c"Insufficient Permissions";
    ALREADY_INITIALIZED = nvmlReturn_enum_NVML_ERROR_ALREADY_INITIALIZED, c"Already Initialized";
    NOT_FOUND = nvmlReturn_enum_NVML_ERROR_NOT_FOUND, c"Not Found";
    INSUFFICIENT_SIZE = nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE, c"Insufficient Size";
    INSUFFICIENT_POWER = nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_POWER, c"Insufficient External Power";
    DRIVER_NOT_LOADED = nvmlReturn_enum_NVML_ERROR_DRIVER_NOT_LOADED, c"Driver Not Loaded";
    TIMEOUT = nvmlReturn_enum_NVML_ERROR_TIMEOUT, c"Timeout";
    IRQ_ISSUE = nvmlReturn_enum_NVML_ERROR_IRQ_ISSUE, c"Interrupt Request Issue";
    LIBRARY_NOT_FOUND = nvmlReturn_enum_NVML_ERROR_LIBRARY_NOT_FOUND, c"NVML Shared Library Not Found";
    FUNCTION_NOT_FOUND = nvmlReturn_enum_NVML_ERROR_FUNCTION_NOT_FOUND, c"Function Not Found";
    CORRUPTED_INFOROM = nvmlReturn_enum_NVML_ERROR_CORRUPTED_INFOROM, c"Corrupted infoROM";
    GPU_IS_LOST = nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST, c"GPU is lost";
    RESET_REQUIRED = nvmlReturn_enum_NVML_ERROR_RESET_REQUIRED, c"GPU requires reset";
    OPERATING_SYSTEM = nvmlReturn_enum_NVML_ERROR_OPERATING_SYSTEM, c"Operating System Call Failed";
    LIB_RM_VERSION_MISMATCH = nvmlReturn_enum_NVML_ERROR_LIB_RM_VERSION_MISMATCH, c"Driver/library version mismatch";
    IN_USE = nvmlReturn_enum_NVML_ERROR_IN_USE, c"In use by another client";
    MEMORY = nvmlReturn_enum_NVML_ERROR_MEMORY, c"Insufficient Memory";
    NO_DATA = nvmlReturn_enum_NVML_ERROR_NO_DATA, c"No data";
    INSUFFICIENT_RESOURCES = nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_RESOURCES, c"Insufficient Resources";
    ARGUMENT_VERSION_MISMATCH = nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH, c"Argument version mismatch";
    DEPRECATED = nvmlReturn_enum_NVML_ERROR_DEPRECATED, c"Requested functionality has been deprecated";
    NOT_READY = nvmlReturn_enum_NVML_ERROR_NOT_READY, c"The system is not ready for the request";
    GPU_NOT_FOUND = nvmlReturn_enum_NVML_ERROR_GPU_NOT_FOUND, c"No GPUs were found";
    INVALID_STATE = nvmlReturn_enum_NVML_ERROR_INVALID_STATE, c"Invalid state";
    UNKNOWN = nvmlReturn_enum_NVML_ERROR_UNKNOWN, c"Unknown Error";
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match NAMES.iter().find(|(_, code)| code == self) {
            Some((name, _)) => serializer.serialize_str(name),
            None => serializer.serialize_u32(self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u32),
            Name(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(number) => Ok(Self(number)),
            Written::Name(name) => NAMES
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, code)| *code)
                .ok_or_else(|| serde::de::Error::custom(format!("`{name}` is not the name of an NVML return code"))),
        }
    }
}
