//! Starting, ending, versions.

use std::ffi::{c_char, c_int, c_uint};

use nvml_wrapper_sys::bindings::nvmlReturn_t;

use super::{same_signature, system_calls};
use crate::Code;
use crate::gate::{answer, start};
use crate::output::{put, put_text};
use crate::registry::{log_call, registry};

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> nvmlReturn_t {
    answer(start("nvmlInit_v2"))
}
same_signature!(nvmlInit_v2);

#[unsafe(no_mangle)]
extern "C" fn nvmlInit() -> nvmlReturn_t {
    answer(start("nvmlInit"))
}
same_signature!(nvmlInit);

#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> nvmlReturn_t {
    answer(start("nvmlInitWithFlags"))
}
same_signature!(nvmlInitWithFlags);

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> nvmlReturn_t {
    let mut state = registry();
    if state.users == 0 {
        return Code::UNINITIALIZED.0;
    }
    log_call(&state.scenario(), "nvmlShutdown", None);
    state.users -= 1;
    if state.users == 0 {
        state.free_event_sets();
    }
    Code::SUCCESS.0
}
same_signature!(nvmlShutdown);

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(result: nvmlReturn_t) -> *const c_char {
    crate::code::text(result).as_ptr()
}
same_signature!(nvmlErrorString);

system_calls! {
    fn nvmlSystemGetDriverVersion(call, version: *mut c_char, length: c_uint) {
        put_text(version, length, Some(&call.scenario.driver_version))
    }
    fn nvmlSystemGetNVMLVersion(call, version: *mut c_char, length: c_uint) {
        put_text(version, length, Some(&call.scenario.nvml_version))
    }
    fn nvmlSystemGetCudaDriverVersion(call, version: *mut c_int) { put(version, Some(call.scenario.cuda_driver_version)) }
    fn nvmlSystemGetCudaDriverVersion_v2(call, version: *mut c_int) {
        put(version, Some(call.scenario.cuda_driver_version))
    }
    fn nvmlSystemGetProcessName(_call, pid: c_uint, name: *mut c_char, length: c_uint) {
        let command = std::fs::read_to_string(format!("/proc/{pid}/comm")).map_err(|_| Code::NOT_FOUND)?;
        put_text(name, length, Some(command.trim_end()))
    }
}
