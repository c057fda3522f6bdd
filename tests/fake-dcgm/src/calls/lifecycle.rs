//! Starting and ending the library, engines and connections; versions; the texts of codes.

use std::collections::BTreeSet;
use std::ffi::{CString, c_char};
use std::sync::OnceLock;

use dcgm_sys::engine::{ConnectV2, ConnectV3, HostengineHealthV1, OperationMode, StartEmbeddedV2, VersionInfoV2};
use dcgm_sys::module::ModuleId;
use dcgm_sys::{DcgmError, Handle, Version};

use super::{engine_calls, exports};
use crate::engine::Engine;
use crate::gate::{Answer, code, on_library};
use crate::output::{get_text, put, versioned};
use crate::registry::{EMBEDDED, Registry};
use crate::scenario::Scenario;

/// The first version that connects by URI.
const URI_SINCE: (u32, u32) = (4, 5);
/// The port of an engine, unless it is told another.
const DEFAULT_PORT: u16 = 5555;

exports! {
    fn dcgmInit() -> i32 {
        code(on_library("dcgmInit", |state, scenario| {
            if let Some(code) = scenario.init {
                return Err(code.0);
            }
            state.started = true;
            Ok(())
        }))
    }

    fn dcgmShutdown() -> i32 {
        code(on_library("dcgmShutdown", |state, _| {
            if !state.started {
                return Err(DcgmError::UNINITIALIZED);
            }
            state.shut_down();
            Ok(())
        }))
    }

    fn dcgmStartEmbedded_v2(parameters: *mut StartEmbeddedV2) -> i32 {
        code(on_library("dcgmStartEmbedded_v2", |state, scenario| start_embedded(state, scenario, parameters)))
    }

    fn dcgmStopEmbedded(engine: Handle) -> i32 {
        code(on_library("dcgmStopEmbedded", |state, _| {
            if engine != EMBEDDED {
                return Err(DcgmError::BAD_PARAMETER);
            }
            state.embedded.take().map(|_| ()).ok_or(DcgmError::UNINITIALIZED)
        }))
    }

    fn dcgmConnect_v2(address: *const c_char, parameters: *mut ConnectV2, engine: *mut Handle) -> i32 {
        code(on_library("dcgmConnect_v2", |state, scenario| {
            started(state)?;
            let parameters = versioned(parameters)?;
            let mut address = get_text(address)?;
            if parameters.unix_socket == 0 && !address.contains(':') {
                address = format!("{address}:{DEFAULT_PORT}");
            }
            put(engine, state.connect(scenario, &address, parameters.persist == 1)?)
        }))
    }

    #[optional]
    fn dcgmConnect_v3(uri: *const c_char, parameters: *mut ConnectV3, engine: *mut Handle) -> i32 {
        code(on_library("dcgmConnect_v3", |state, scenario| {
            let Version { major, minor, .. } = scenario.version();
            if (major, minor) < URI_SINCE {
                return Err(DcgmError::FUNCTION_NOT_FOUND);
            }
            started(state)?;
            let parameters = versioned(parameters)?;
            let uri = get_text(uri)?;
            let address = uri.strip_prefix("tcp://").or_else(|| uri.strip_prefix("unix://"));
            let address = address.ok_or(DcgmError::BAD_PARAMETER)?;
            put(engine, state.connect(scenario, address, parameters.persist == 1)?)
        }))
    }

    fn dcgmDisconnect(engine: Handle) -> i32 {
        code(on_library("dcgmDisconnect", |state, _| {
            started(state)?;
            state.disconnect(engine)
        }))
    }

    fn dcgmVersionInfo(info: *mut VersionInfoV2) -> i32 {
        code(on_library("dcgmVersionInfo", |_, scenario| put_build(info, scenario.version())))
    }

    fn errorString(code: i32) -> *const c_char {
        static TEXTS: OnceLock<Vec<(i32, CString)>> = OnceLock::new();
        let texts = TEXTS.get_or_init(|| {
            let known = DcgmError::all().map(|error| (error.code, CString::new(error.meaning()).unwrap_or_default()));
            std::iter::once((0, c"Success".to_owned())).chain(known).collect()
        });
        texts.iter().find(|(known, _)| *known == code).map_or(std::ptr::null(), |(_, text)| text.as_ptr())
    }
}

engine_calls! {
    fn dcgmHostengineVersionInfo(call, info: *mut VersionInfoV2) {
        put_build(info, call.engine.version)
    }

    fn dcgmHostengineIsHealthy(_call, health: *mut HostengineHealthV1) {
        versioned(health)?.overall = 0;
        Ok(())
    }
}

fn started(state: &Registry) -> Answer {
    if state.started { Ok(()) } else { Err(DcgmError::UNINITIALIZED) }
}

fn start_embedded(state: &mut Registry, scenario: &Scenario, parameters: *mut StartEmbeddedV2) -> Answer {
    started(state)?;
    let parameters = versioned(parameters)?;
    if let Some(code) = scenario.embedded {
        return Err(code.0);
    }
    if !matches!(parameters.mode, OperationMode::AUTO | OperationMode::MANUAL) {
        return Err(DcgmError::BAD_PARAMETER);
    }
    let count = usize::try_from(parameters.deny_count).unwrap_or(usize::MAX);
    let denied = parameters.deny.iter().take(count).filter_map(|module| i32::try_from(*module).ok()).map(ModuleId);
    let denied: BTreeSet<ModuleId> = denied.collect();
    // One that runs already stays as it is.
    state.embedded.get_or_insert_with(|| Engine::new(scenario.version(), parameters.mode, denied));
    parameters.handle = EMBEDDED;
    Ok(())
}

fn put_build(info: *mut VersionInfoV2, version: Version) -> Answer {
    let info = versioned(info)?;
    info.build = dcgm_sys::text::array(&format!("version:{version};arch:x86_64;buildtype:Release;commit:fake;"));
    Ok(())
}
