//! Starting, connecting to, and asking about engines.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::ptr;
use std::time::Duration;

use super::{Answer, Library};
use crate::engine::{
    ConnectV2, ConnectV3, HostengineHealthV1, OperationMode, Severity, StartEmbeddedV2, VersionInfoV2,
};
use crate::entity::Handle;
use crate::error::DcgmError;
use crate::module::{IntrospectCpuV1, IntrospectMemoryV1, Module, ModuleId, ModuleStatusesV1};
use crate::text::{c_text, text};
use crate::version::{Version, Versioned as _, Zeroable as _};

/// How to start an embedded engine.
#[derive(Debug, Clone, Default)]
pub struct EmbeddedOptions {
    /// Where it writes its log; unset: where its environment says.
    pub log_file: Option<PathBuf>,
    /// How much it writes.
    pub severity: Severity,
    /// Modules that shall not be loaded; ten at most.
    pub deny: Vec<ModuleId>,
}

/// Where a running engine listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// `host` or `host:port`; the port is 5555 unless given.
    Tcp(String),
    /// The path of a Unix socket; `/tmp/nv-hostengine` unless the engine was told otherwise.
    Unix(PathBuf),
}

/// How to connect.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConnectOptions {
    /// How long to try; unset: as the library chooses.
    pub timeout: Option<Duration>,
    /// What this connection watches stays watched when it ends.
    pub persist: bool,
}

/// What a library or engine was built from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// The version, if the text holds one.
    pub version: Option<Version>,
    /// The whole text.
    pub text: String,
}

impl ConnectOptions {
    fn timeout_ms(self) -> u32 {
        self.timeout.map_or(0, |timeout| u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX).max(1))
    }
}

impl Library {
    /// Starts an engine in this process.
    #[doc(alias = "dcgmStartEmbedded_v2")]
    pub fn start_embedded(&self, mode: OperationMode, options: &EmbeddedOptions) -> Answer<Handle> {
        let log_file = options.log_file.as_ref().map(|path| path_text(path)).transpose()?;
        let mut parameters = StartEmbeddedV2::zeroed();
        parameters.set_version();
        parameters.mode = mode;
        parameters.log_file = log_file.as_ref().map_or(ptr::null(), |path| path.as_ptr());
        parameters.severity = options.severity;
        if options.deny.len() > parameters.deny.len() {
            return Err(DcgmError::BAD_PARAMETER);
        }
        for (place, module) in parameters.deny.iter_mut().zip(&options.deny) {
            *place = u32::try_from(module.0).map_err(|_| DcgmError::BAD_PARAMETER)?;
            parameters.deny_count += 1;
        }
        // SAFETY: a struct of the version its word tells; the text outlives the call.
        DcgmError::check(unsafe { (self.symbols.dcgmStartEmbedded_v2)(&raw mut parameters) })?;
        Ok(parameters.handle)
    }

    /// Ends an embedded engine.
    #[doc(alias = "dcgmStopEmbedded")]
    pub fn stop_embedded(&self, engine: Handle) -> Answer<()> {
        // SAFETY: the library checks handles.
        DcgmError::check(unsafe { (self.symbols.dcgmStopEmbedded)(engine) })
    }

    /// Connects to a running engine.
    #[doc(alias = "dcgmConnect_v2")]
    pub fn connect(&self, address: &Address, options: ConnectOptions) -> Answer<Handle> {
        let mut parameters = ConnectV2::zeroed();
        parameters.set_version();
        parameters.persist = u32::from(options.persist);
        parameters.timeout_ms = options.timeout_ms();
        let address = match address {
            Address::Tcp(address) => c_text(address)?,
            Address::Unix(path) => {
                parameters.unix_socket = 1;
                path_text(path)?
            }
        };
        let mut engine = Handle(0);
        // SAFETY: a struct of the version its word tells, a text that outlives the call, a place for the handle.
        let code = unsafe { (self.symbols.dcgmConnect_v2)(address.as_ptr(), &raw mut parameters, &raw mut engine) };
        DcgmError::check(code).map(|()| engine)
    }

    /// Connects by a URI: `tcp://`, `unix://` or `vsock://`. Only 4.5 and later have it.
    #[doc(alias = "dcgmConnect_v3")]
    pub fn connect_uri(&self, uri: &str, options: ConnectOptions) -> Answer<Handle> {
        let connect = self.symbols.dcgmConnect_v3.ok_or(DcgmError::FUNCTION_NOT_FOUND)?;
        let uri = c_text(uri)?;
        let mut parameters = ConnectV3::zeroed();
        parameters.set_version();
        parameters.persist = u32::from(options.persist);
        parameters.timeout_ms = options.timeout_ms();
        let mut engine = Handle(0);
        // SAFETY: as for `connect`.
        DcgmError::check(unsafe { connect(uri.as_ptr(), &raw mut parameters, &raw mut engine) })?;
        Ok(engine)
    }

    /// Ends a connection.
    #[doc(alias = "dcgmDisconnect")]
    pub fn disconnect(&self, engine: Handle) -> Answer<()> {
        // SAFETY: the library checks handles.
        DcgmError::check(unsafe { (self.symbols.dcgmDisconnect)(engine) })
    }

    /// What an engine was built from.
    #[doc(alias = "dcgmHostengineVersionInfo")]
    pub fn engine_build(&self, engine: Handle) -> Answer<Build> {
        let mut info = VersionInfoV2::zeroed();
        info.set_version();
        // SAFETY: a struct of the version its word tells.
        DcgmError::check(unsafe { (self.symbols.dcgmHostengineVersionInfo)(engine, &raw mut info) })?;
        let text = text(&info.build).into_owned();
        Ok(Build { version: Version::parse_build_text(&text), text })
    }

    /// Whether an engine thinks itself healthy.
    #[doc(alias = "dcgmHostengineIsHealthy")]
    pub fn engine_is_healthy(&self, engine: Handle) -> Answer<bool> {
        let mut health = HostengineHealthV1::zeroed();
        health.set_version();
        // SAFETY: a struct of the version its word tells.
        DcgmError::check(unsafe { (self.symbols.dcgmHostengineIsHealthy)(engine, &raw mut health) })?;
        Ok(health.overall == 0)
    }

    /// The engine's modules.
    #[doc(alias = "dcgmModuleGetStatuses")]
    pub fn module_statuses(&self, engine: Handle) -> Answer<Vec<Module>> {
        let mut statuses = ModuleStatusesV1::zeroed();
        statuses.set_version();
        // SAFETY: a struct of the version its word tells.
        DcgmError::check(unsafe { (self.symbols.dcgmModuleGetStatuses)(engine, &raw mut statuses) })?;
        let count = usize::try_from(statuses.count).unwrap_or(usize::MAX);
        Ok(statuses.modules.into_iter().take(count).collect())
    }

    /// Bytes of memory the engine uses. Without `wait`, an engine that has not measured itself answers NO_DATA.
    #[doc(alias = "dcgmIntrospectGetHostengineMemoryUsage")]
    pub fn engine_memory_bytes(&self, engine: Handle, wait: bool) -> Answer<i64> {
        let mut memory = IntrospectMemoryV1::zeroed();
        memory.set_version();
        let call = self.symbols.dcgmIntrospectGetHostengineMemoryUsage;
        // SAFETY: a struct of the version its word tells.
        DcgmError::check(unsafe { call(engine, &raw mut memory, i32::from(wait)) })?;
        Ok(memory.bytes_used)
    }

    /// The engine's CPU time. Without `wait`, an engine that has not measured itself answers NO_DATA.
    #[doc(alias = "dcgmIntrospectGetHostengineCpuUtilization")]
    pub fn engine_cpu(&self, engine: Handle, wait: bool) -> Answer<IntrospectCpuV1> {
        let mut cpu = IntrospectCpuV1::zeroed();
        cpu.set_version();
        let call = self.symbols.dcgmIntrospectGetHostengineCpuUtilization;
        // SAFETY: a struct of the version its word tells.
        DcgmError::check(unsafe { call(engine, &raw mut cpu, i32::from(wait)) })?;
        Ok(cpu)
    }
}

fn path_text(path: &std::path::Path) -> Answer<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| DcgmError::BAD_PARAMETER)
}
