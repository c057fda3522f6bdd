//! What DCGM answers when it does not do what was asked: the number, its meaning, and what to do about it.

use std::fmt;
use std::path::PathBuf;

/// An error answer of DCGM. Codes this crate does not know are carried as they are.
#[doc(alias = "dcgmReturn_t")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DcgmError {
    /// The code; never 0.
    pub code: i32,
}

/// The code of success.
#[doc(alias = "DCGM_ST_OK")]
pub const OK: i32 = 0;

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Advice {
    /// The value is not there yet: ask again after the next update.
    Wait,
    /// The field is not watched: watch it first.
    Watch,
    /// The device or engine does not have this: do not ask again.
    NotAvailable,
    /// The connection or engine is gone: connect anew, with increasing pauses.
    Reconnect,
    /// Rights are missing.
    Rights,
    /// The GPU does not answer any more.
    GpuLost,
    /// Something on the host must be repaired first; the meaning says what.
    Repair,
    /// The call was wrong: a defect of the caller.
    Caller,
    /// DCGM cannot tell. Try again later.
    Unclear,
}

macro_rules! codes {
    ($($name:ident = $code:literal, $c_name:literal, $advice:ident, $meaning:literal;)*) => {
        impl DcgmError {
            $(#[doc = $meaning] #[doc(alias = $c_name)] pub const $name: Self = Self { code: $code };)*
        }

        const TABLE: &[(i32, &str, Advice, &str)] = &[$(($code, $c_name, Advice::$advice, $meaning)),*];
    };
}

codes! {
    BAD_PARAMETER = -1, "DCGM_ST_BADPARAM", Caller, "a parameter is wrong";
    GENERIC = -3, "DCGM_ST_GENERIC_ERROR", Unclear, "an error without a name";
    MEMORY = -4, "DCGM_ST_MEMORY", Unclear, "memory ran out";
    NOT_CONFIGURED = -5, "DCGM_ST_NOT_CONFIGURED", Caller, "the setting was never made";
    NOT_SUPPORTED = -6, "DCGM_ST_NOT_SUPPORTED", NotAvailable, "not supported by the device or driver";
    INIT = -7, "DCGM_ST_INIT_ERROR", Unclear, "DCGM could not start";
    NVML = -8, "DCGM_ST_NVML_ERROR", Unclear, "NVML answered with an error";
    PENDING = -9, "DCGM_ST_PENDING", Wait, "not finished yet";
    UNINITIALIZED = -10, "DCGM_ST_UNINITIALIZED", Caller, "DCGM was not initialised";
    TIMEOUT = -11, "DCGM_ST_TIMEOUT", Unclear, "the answer took too long";
    VERSION_MISMATCH = -12, "DCGM_ST_VER_MISMATCH", Repair,
        "the two sides have different versions: a `libdcgm` of one major version can connect to an `nv-hostengine` of \
         another and then gets this answer from its calls, so install the `libdcgm` of the engine's major version";
    UNKNOWN_FIELD = -13, "DCGM_ST_UNKNOWN_FIELD", NotAvailable, "this version of DCGM does not know the field";
    NO_DATA = -14, "DCGM_ST_NO_DATA", Wait, "the field is watched and has no value yet, or nothing has happened yet";
    STALE_DATA = -15, "DCGM_ST_STALE_DATA", Wait, "the value is too old";
    NOT_WATCHED = -16, "DCGM_ST_NOT_WATCHED", Watch, "the field is not watched";
    NO_PERMISSION = -17, "DCGM_ST_NO_PERMISSION", Rights, "the engine's rights do not suffice";
    GPU_IS_LOST = -18, "DCGM_ST_GPU_IS_LOST", GpuLost, "the GPU is off the bus or does not answer";
    RESET_REQUIRED = -19, "DCGM_ST_RESET_REQUIRED", GpuLost, "the GPU needs a reset";
    FUNCTION_NOT_FOUND = -20, "DCGM_ST_FUNCTION_NOT_FOUND", NotAvailable,
        "the loaded library does not have the function";
    CONNECTION_NOT_VALID = -21, "DCGM_ST_CONNECTION_NOT_VALID", Reconnect, "the connection to the engine is gone";
    GPU_NOT_SUPPORTED = -22, "DCGM_ST_GPU_NOT_SUPPORTED", NotAvailable, "DCGM does not support the GPU";
    GROUP_INCOMPATIBLE = -23, "DCGM_ST_GROUP_INCOMPATIBLE", Caller, "the GPUs of the group differ too much";
    MAX_LIMIT = -24, "DCGM_ST_MAX_LIMIT", Caller,
        "a limit of the engine is reached: 64 groups, 64 field groups, 128 fields in one";
    LIBRARY_NOT_FOUND = -25, "DCGM_ST_LIBRARY_NOT_FOUND", Repair, "a library that DCGM loads by itself is missing";
    DUPLICATE_KEY = -26, "DCGM_ST_DUPLICATE_KEY", Caller,
        "the name is taken: a field group's name is unique in an engine";
    GPU_IN_SYNC_BOOST_GROUP = -27, "DCGM_ST_GPU_IN_SYNC_BOOST_GROUP", Caller,
        "the GPU is in a sync boost group already";
    GPU_NOT_IN_SYNC_BOOST_GROUP = -28, "DCGM_ST_GPU_NOT_IN_SYNC_BOOST_GROUP", Caller,
        "the GPU is not in a sync boost group";
    REQUIRES_ROOT = -29, "DCGM_ST_REQUIRES_ROOT", Rights, "only root may do this";
    DIAGNOSTIC = -30, "DCGM_ST_NVVS_ERROR", Unclear, "the diagnostic failed";
    INSUFFICIENT_SIZE = -31, "DCGM_ST_INSUFFICIENT_SIZE", Caller, "the buffer is too small";
    FIELD_UNSUPPORTED_BY_API = -32, "DCGM_ST_FIELD_UNSUPPORTED_BY_API", Caller, "the field cannot be read in this way";
    MODULE_NOT_LOADED = -33, "DCGM_ST_MODULE_NOT_LOADED", NotAvailable,
        "a module of DCGM is missing or denied; profiling fields need the profiling module on GPUs before Hopper, and \
         other fields of the same group may be watched all the same, so keep profiling fields in a group of their own";
    IN_USE = -34, "DCGM_ST_IN_USE", Unclear, "something else uses it";
    GROUP_IS_EMPTY = -35, "DCGM_ST_GROUP_IS_EMPTY", Wait,
        "the group holds no device: the engine sees no GPU, or none of those it sees was added to the group";
    PROFILING_NOT_SUPPORTED = -36, "DCGM_ST_PROFILING_NOT_SUPPORTED", NotAvailable, "the GPU cannot be profiled";
    PROFILING_LIBRARY = -37, "DCGM_ST_PROFILING_LIBRARY_ERROR", Unclear, "the profiling library answered with an error";
    PROFILING_MULTI_PASS = -38, "DCGM_ST_PROFILING_MULTI_PASS", Caller,
        "these profiling fields cannot be read together";
    DIAGNOSTIC_RUNNING = -39, "DCGM_ST_DIAG_ALREADY_RUNNING", Wait, "a diagnostic is running already";
    DIAGNOSTIC_BAD_JSON = -40, "DCGM_ST_DIAG_BAD_JSON", Unclear, "the diagnostic's answer cannot be read";
    DIAGNOSTIC_BAD_LAUNCH = -41, "DCGM_ST_DIAG_BAD_LAUNCH", Unclear, "the diagnostic cannot be started";
    DIAGNOSTIC_UNUSED = -42, "DCGM_ST_DIAG_UNUSED", Unclear, "a code no longer in use";
    DIAGNOSTIC_THRESHOLD = -43, "DCGM_ST_DIAG_THRESHOLD_EXCEEDED", Unclear, "a field passed the diagnostic's threshold";
    INSUFFICIENT_DRIVER = -44, "DCGM_ST_INSUFFICIENT_DRIVER_VERSION", Repair, "the driver is too old for this";
    INSTANCE_NOT_FOUND = -45, "DCGM_ST_INSTANCE_NOT_FOUND", Caller, "there is no such GPU instance";
    COMPUTE_INSTANCE_NOT_FOUND = -46, "DCGM_ST_COMPUTE_INSTANCE_NOT_FOUND", Caller, "there is no such compute instance";
    CHILD_NOT_KILLED = -47, "DCGM_ST_CHILD_NOT_KILLED", Unclear, "a child process of the engine did not end";
    THIRD_PARTY_LIBRARY = -48, "DCGM_ST_3RD_PARTY_LIBRARY_ERROR", Unclear,
        "a library below DCGM answered with an error";
    INSUFFICIENT_RESOURCES = -49, "DCGM_ST_INSUFFICIENT_RESOURCES", Unclear, "resources ran out";
    PLUGIN_EXCEPTION = -50, "DCGM_ST_PLUGIN_EXCEPTION", Unclear, "a diagnostic plug-in failed";
    DIAGNOSTIC_ISOLATE = -51, "DCGM_ST_NVVS_ISOLATE_ERROR", Repair,
        "the diagnostic found an error that calls for taking the GPU out of use";
    DIAGNOSTIC_NOT_FOUND = -52, "DCGM_ST_NVVS_BINARY_NOT_FOUND", Repair, "the diagnostic program is not installed";
    DIAGNOSTIC_KILLED = -53, "DCGM_ST_NVVS_KILLED", Unclear, "the diagnostic was killed";
    PAUSED = -54, "DCGM_ST_PAUSED", Wait, "the engine or a module is paused";
    ALREADY_INITIALIZED = -55, "DCGM_ST_ALREADY_INITIALIZED", Caller, "already initialised";
    NVML_NOT_LOADED = -56, "DCGM_ST_NVML_NOT_LOADED", Repair,
        "the engine found no NVML: no driver is installed or loaded";
    DRIVER_TIMEOUT = -57, "DCGM_ST_NVML_DRIVER_TIMEOUT", GpuLost, "the driver does not answer";
    DIAGNOSTIC_NO_TEST = -58, "DCGM_ST_NVVS_NO_AVAILABLE_TEST", NotAvailable, "the diagnostic has no test for this GPU";
    NODES_CONNECTION = -59, "DCGM_ST_MNDIAG_CONNECTION_NOT_AVAILABLE", Unclear,
        "another node of the diagnostic is not reachable";
    NODES_UNAUTHORIZED = -60, "DCGM_ST_MNDIAG_CONNECTION_UNAUTHORIZED", Rights,
        "another node of the diagnostic refused";
    SSH_FAILED = -61, "DCGM_ST_REMOTE_SSH_CONNECTION_FAILED", Unclear, "a connection over SSH failed";
    CHILD_SPAWN = -62, "DCGM_ST_CHILD_SPAWN_FAILED", Unclear, "the engine could not start a child process";
    FILE_IO = -63, "DCGM_ST_FILE_IO_ERROR", Unclear, "a file could not be read or written";
    CHILD_SIGNAL = -64, "DCGM_ST_CHILD_SIGNAL_RECEIVED", Unclear, "a child process of the engine was ended by a signal";
    CALLER_STOPPED = -65, "DCGM_ST_CALLER_ALREADY_STOPPED", Caller, "the caller has stopped already";
    DIAGNOSTIC_STOPPED = -66, "DCGM_ST_DIAG_STOPPED", Unclear, "the diagnostic was stopped";
    GPUS_DETACHED = -67, "DCGM_ST_GPUS_DETACHED", Reconnect, "the GPUs are detached from the engine";
}

impl DcgmError {
    /// The answer as a result.
    pub fn check(code: i32) -> Result<(), Self> {
        if code == OK { Ok(()) } else { Err(Self { code }) }
    }

    /// Every code that this crate knows.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| Self { code: row.0 })
    }

    /// DCGM's name of the code, or `None` for one this crate does not know.
    pub fn name(self) -> Option<&'static str> {
        self.row().map(|row| row.1)
    }

    /// What the code means.
    pub fn meaning(self) -> &'static str {
        self.row().map_or("a code this version of gpufleet does not know", |row| row.3)
    }

    /// What a caller can do.
    pub fn advice(self) -> Advice {
        self.row().map_or(Advice::Unclear, |row| row.2)
    }

    fn row(self) -> Option<&'static (i32, &'static str, Advice, &'static str)> {
        TABLE.iter().find(|row| row.0 == self.code)
    }
}

impl fmt::Display for DcgmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (DCGM code {})", self.meaning(), self.code)
    }
}

impl fmt::Debug for DcgmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name().unwrap_or("DcgmError"), self.code)
    }
}

impl std::error::Error for DcgmError {}

/// Why the library cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Neither name is known to the dynamic loader.
    #[error(
        "no DCGM library found, tried {}; install DCGM or give the library's path: {}",
        quoted(.tried.iter().map(|(name, _)| *name)), reasons(.tried)
    )]
    NotFound {
        /// The names, each with what the loader said.
        tried: Vec<(&'static str, String)>,
    },
    /// The library at the given path cannot be loaded.
    #[error("cannot load `{}` as the DCGM library: {reason}", .path.display())]
    Unusable {
        /// The path.
        path: PathBuf,
        /// What the loader said.
        reason: String,
    },
    /// What was loaded lacks functions that every DCGM has.
    #[error("`{}` is not a usable DCGM library: it lacks {}", .path.display(), quoted(.names.iter().copied()))]
    MissingFunctions {
        /// The path.
        path: PathBuf,
        /// The functions.
        names: Vec<&'static str>,
    },
    /// The library does not say its version, and its name does not either.
    #[error(
        "`{}` does not tell its version; gpufleet knows DCGM 3 and 4, named `libdcgm.so.3` and `libdcgm.so.4`",
        .path.display()
    )]
    UnknownVersion {
        /// The path.
        path: PathBuf,
    },
    /// The library is of a major version this crate has no structs for.
    #[error("`{}` is DCGM {version}; gpufleet knows DCGM 3 and 4", .path.display())]
    UnsupportedVersion {
        /// The path.
        path: PathBuf,
        /// The version.
        version: crate::Version,
    },
    /// The name of the library and what it says of itself disagree.
    #[error(
        "`{}` is named as DCGM {named} and says that it is DCGM {version}; repair the installation",
        .path.display()
    )]
    Contradiction {
        /// The path.
        path: PathBuf,
        /// The major version in the name.
        named: u32,
        /// The version it says.
        version: crate::Version,
    },
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn reasons(tried: &[(&'static str, String)]) -> String {
    tried.iter().map(|(_, reason)| reason.as_str()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_stands_once_and_has_a_meaning() {
        for (place, row) in TABLE.iter().enumerate() {
            assert!(row.0 < 0 && !row.3.is_empty(), "{row:?}");
            assert!(TABLE.iter().take(place).all(|before| before.0 > row.0), "{row:?} is out of order");
        }
        assert_eq!(TABLE.len(), 66, "-1 to -67 without -2");
    }

    #[test]
    fn messages_say_what_to_do() {
        assert!(
            DcgmError::VERSION_MISMATCH.to_string().contains("install the `libdcgm` of the engine's major version")
        );
        assert!(DcgmError::MODULE_NOT_LOADED.to_string().contains("group of their own"));
        assert!(DcgmError::GROUP_IS_EMPTY.to_string().contains("the engine sees no GPU"));
        assert_eq!(
            DcgmError { code: -99 }.to_string(),
            "a code this version of gpufleet does not know (DCGM code -99)"
        );
        assert_eq!(format!("{:?}", DcgmError::NO_DATA), "DCGM_ST_NO_DATA(-14)");
        assert_eq!(DcgmError { code: -99 }.advice(), Advice::Unclear);
        assert_eq!(DcgmError::check(0), Ok(()));
    }
}
