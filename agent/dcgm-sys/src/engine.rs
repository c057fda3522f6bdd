//! Structs for starting an engine in this process, connecting to a running one, and asking for versions and health.

use std::ffi::c_char;

use crate::code::{c_enum, layout, versioned};
use crate::entity::Handle;
use crate::version::Zeroable;

c_enum! {
    /// Who makes an embedded engine read the devices.
    #[doc(alias = "dcgmOperationMode_t")]
    pub struct OperationMode(i32) {
        /// A thread of the engine, at the rates that were asked for.
        #[doc(alias = "DCGM_OPERATION_MODE_AUTO")]
        AUTO = 1;
        /// The caller, with `dcgmUpdateAllFields`. After the first pass nothing is read without it.
        #[doc(alias = "DCGM_OPERATION_MODE_MANUAL")]
        MANUAL = 2;
    }
}

c_enum! {
    /// How much an engine writes to its log.
    #[doc(alias = "DcgmLoggingSeverity_t")]
    pub struct Severity(i32) {
        /// As the environment says.
        UNSPECIFIED = -1;
        /// Nothing.
        NONE = 0;
        /// What ends the engine.
        FATAL = 1;
        /// Errors.
        ERROR = 2;
        /// Warnings.
        WARNING = 3;
        /// What happens.
        INFO = 4;
        /// What is needed to find defects.
        DEBUG = 5;
        /// Everything.
        VERBOSE = 6;
    }
}

/// How to start an embedded engine. This version is understood by 3.1 to 4.6.
#[doc(alias = "dcgmStartEmbeddedV2Params_v2")]
#[repr(C)]
pub struct StartEmbeddedV2 {
    /// The version word.
    pub version: u32,
    /// Who makes it read.
    pub mode: OperationMode,
    /// Out: the engine's handle.
    pub handle: Handle,
    /// The log file, or null.
    pub log_file: *const c_char,
    /// How much it writes there.
    pub severity: Severity,
    /// How many entries of `deny` count.
    pub deny_count: u32,
    /// The account for work that needs no rights, or null.
    pub service_account: *const c_char,
    /// Numbers of modules that shall not be loaded.
    pub deny: [u32; 10],
}

/// How to connect. This version is understood by 3.1 to 4.6.
#[doc(alias = "dcgmConnectV2Params_v2")]
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ConnectV2 {
    /// The version word.
    pub version: u32,
    /// 1: what this connection watches stays watched when it ends.
    pub persist: u32,
    /// How long to try, in milliseconds; 0 for the library's own choice.
    pub timeout_ms: u32,
    /// 1: the address is the path of a Unix socket.
    pub unix_socket: u32,
}

/// How to connect by URI; from 4.5.
#[doc(alias = "dcgmConnectV3Params_v1")]
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ConnectV3 {
    /// The version word.
    pub version: u32,
    /// 1: what this connection watches stays watched when it ends.
    pub persist: u32,
    /// How long to try, in milliseconds; 0 for the library's own choice.
    pub timeout_ms: u32,
}

/// What a library or engine was built from.
#[doc(alias = "dcgmVersionInfo_v2")]
#[repr(C)]
pub struct VersionInfoV2 {
    /// The version word.
    pub version: u32,
    /// A text like `version:4.6.0;arch:x86_64;…`.
    pub build: [u8; 512],
}

/// Whether an engine thinks itself healthy.
#[doc(alias = "dcgmHostengineHealth_v1")]
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct HostengineHealthV1 {
    /// The version word.
    pub version: u32,
    /// 0 when it does.
    pub overall: u32,
}

layout!(StartEmbeddedV2: size 80, align 8;
    version @ 0, 4; mode @ 4, 4; handle @ 8, 8; log_file @ 16, 8; severity @ 24, 4; deny_count @ 28, 4;
    service_account @ 32, 8; deny @ 40, 40;
);
layout!(ConnectV2: size 16, align 4; version @ 0, 4; persist @ 4, 4; timeout_ms @ 8, 4; unix_socket @ 12, 4;);
layout!(ConnectV3: size 12, align 4; version @ 0, 4; persist @ 4, 4; timeout_ms @ 8, 4;);
layout!(VersionInfoV2: size 516, align 4; version @ 0, 4; build @ 4, 512;);
layout!(HostengineHealthV1: size 8, align 4; version @ 0, 4; overall @ 4, 4;);
// SAFETY: numbers and nullable pointers.
unsafe impl Zeroable for StartEmbeddedV2 {}
// SAFETY: numbers.
unsafe impl Zeroable for ConnectV2 {}
// SAFETY: numbers.
unsafe impl Zeroable for ConnectV3 {}
// SAFETY: numbers and arrays of them.
unsafe impl Zeroable for VersionInfoV2 {}
// SAFETY: numbers.
unsafe impl Zeroable for HostengineHealthV1 {}
versioned! {
    StartEmbeddedV2 = 2 => 0x0200_0050;
    ConnectV2 = 2 => 0x0200_0010;
    ConnectV3 = 1 => 0x0100_000c;
    VersionInfoV2 = 2 => 0x0200_0204;
    HostengineHealthV1 = 1 => 0x0100_0008;
}
