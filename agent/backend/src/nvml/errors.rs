//! What NVML's errors mean: for a reading, for a device, and for people.

use gpufleet_model::Unknown;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper_sys::bindings as sys;

/// Why a reading has no value.
pub(crate) fn unknown(error: &NvmlError) -> Unknown {
    match error {
        NvmlError::NotSupported
        | NvmlError::FunctionNotFound
        | NvmlError::FailedToLoadSymbol(_)
        | NvmlError::VgpuEccNotSupported
        | NvmlError::UnexpectedVariant(
            sys::nvmlReturn_enum_NVML_ERROR_DEPRECATED
            | sys::nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH
            | sys::nvmlReturn_enum_NVML_ERROR_GPU_NOT_FOUND,
        ) => Unknown::NotSupported,
        // Control groups and containers close devices this way.
        NvmlError::NoPermission | NvmlError::OperatingSystem => Unknown::NoPermission,
        NvmlError::GpuLost | NvmlError::ResetRequired | NvmlError::Uninitialized | NvmlError::DriverNotLoaded => {
            Unknown::Lost
        }
        NvmlError::Timeout | NvmlError::IrqIssue => Unknown::Timeout,
        NvmlError::NoData | NvmlError::UnexpectedVariant(sys::nvmlReturn_enum_NVML_ERROR_NOT_READY) => Unknown::NotYet,
        _ => Unknown::Failed,
    }
}

/// What a failed call says beyond its own reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Trouble {
    /// Nothing.
    #[default]
    None,
    /// This handle names nothing any more.
    StaleHandle,
    /// The device is lost.
    DeviceLost,
    /// The library must be started anew.
    Session,
}

/// What this error says beyond its own reading.
pub(crate) fn trouble(error: &NvmlError) -> Trouble {
    match error {
        NvmlError::Uninitialized | NvmlError::DriverNotLoaded | NvmlError::LibRmVersionMismatch => Trouble::Session,
        NvmlError::GpuLost | NvmlError::ResetRequired => Trouble::DeviceLost,
        _ => Trouble::None,
    }
}

/// Why NVML did not start, and what to do about it.
pub(crate) fn start_problem(error: &NvmlError, library: &str) -> String {
    match error {
        NvmlError::LibloadingError(source) => format!(
            "cannot load the NVML library `{library}`: {source}. Install the NVIDIA driver, or set the path of its \
             library; it is tried again from time to time"
        ),
        NvmlError::FailedToLoadSymbol(what) => format!(
            "`{library}` is not a usable NVML library: {what}. Install the NVIDIA driver, or set the path of its \
             library"
        ),
        NvmlError::DriverNotLoaded => String::from(
            "the NVIDIA driver is not loaded. Load it with `modprobe nvidia`, or look into the kernel log why it does \
             not load; it is tried again from time to time",
        ),
        NvmlError::LibRmVersionMismatch => String::from(
            "driver/library version mismatch: the loaded NVIDIA kernel module and the NVML library are of different \
             versions, as after an update. Restart the host, or stop all GPU programs and reload the kernel module \
             (`modprobe -r nvidia_uvm nvidia && modprobe nvidia`)",
        ),
        NvmlError::NoPermission | NvmlError::OperatingSystem => String::from(
            "no permission to talk to the NVIDIA driver. Let the agent's user open `/dev/nvidiactl` and \
             `/dev/nvidia*`, in a container by giving it the devices",
        ),
        other => format!(
            "NVML cannot start: {other}. Look into the kernel log for `NVRM`; it is tried again from time to time"
        ),
    }
}

/// True when the error means that this host has no (working) NVIDIA driver, as a host without any GPU has none.
pub(crate) fn is_absence(error: &NvmlError) -> bool {
    matches!(error, NvmlError::LibloadingError(_) | NvmlError::DriverNotLoaded | NvmlError::LibraryNotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_gives_its_reason() {
        let cases = [
            (sys::nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED, Unknown::NotSupported),
            (sys::nvmlReturn_enum_NVML_ERROR_FUNCTION_NOT_FOUND, Unknown::NotSupported),
            (sys::nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH, Unknown::NotSupported),
            (sys::nvmlReturn_enum_NVML_ERROR_DEPRECATED, Unknown::NotSupported),
            (sys::nvmlReturn_enum_NVML_ERROR_NO_PERMISSION, Unknown::NoPermission),
            (sys::nvmlReturn_enum_NVML_ERROR_OPERATING_SYSTEM, Unknown::NoPermission),
            (sys::nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST, Unknown::Lost),
            (sys::nvmlReturn_enum_NVML_ERROR_RESET_REQUIRED, Unknown::Lost),
            (sys::nvmlReturn_enum_NVML_ERROR_UNINITIALIZED, Unknown::Lost),
            (sys::nvmlReturn_enum_NVML_ERROR_TIMEOUT, Unknown::Timeout),
            (sys::nvmlReturn_enum_NVML_ERROR_IRQ_ISSUE, Unknown::Timeout),
            (sys::nvmlReturn_enum_NVML_ERROR_NO_DATA, Unknown::NotYet),
            (sys::nvmlReturn_enum_NVML_ERROR_NOT_READY, Unknown::NotYet),
            (sys::nvmlReturn_enum_NVML_ERROR_UNKNOWN, Unknown::Failed),
            (sys::nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT, Unknown::Failed),
            (sys::nvmlReturn_enum_NVML_ERROR_CORRUPTED_INFOROM, Unknown::Failed),
            (12_345, Unknown::Failed),
        ];
        for (code, reason) in cases {
            assert_eq!(unknown(&NvmlError::from(code)), reason, "code {code}");
        }
        assert_eq!(unknown(&NvmlError::FailedToLoadSymbol(String::new())), Unknown::NotSupported);
    }

    #[test]
    fn a_mismatch_of_versions_is_told_apart_with_advice() {
        let text = start_problem(&NvmlError::LibRmVersionMismatch, "libnvidia-ml.so.1");
        assert!(text.starts_with("driver/library version mismatch") && text.contains("Restart the host"), "{text}");
        assert!(start_problem(&NvmlError::DriverNotLoaded, "x").contains("modprobe nvidia"));
        assert!(start_problem(&NvmlError::NoPermission, "x").contains("/dev/nvidiactl"));
    }
}
