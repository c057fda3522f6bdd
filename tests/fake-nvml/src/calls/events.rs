//! Event sets. An event is delivered once per set; waiting polls the scenario, as nothing else tells of its change.

use std::ffi::{c_uint, c_ulonglong};
use std::time::{Duration, Instant};

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlEventData_t, nvmlEventSet_t, nvmlReturn_t};

use super::{device_calls, same_signature, system_calls};
use crate::Code;
use crate::gate::{answer, on_system};
use crate::output::put;
use crate::registry::{Named, Registry, registry};

const POLL_STEP: Duration = Duration::from_millis(10);

/// Instance ids of an event that is about no instance.
const NO_INSTANCE: c_uint = c_uint::MAX;

system_calls! {
    fn nvmlEventSetCreate(_call, set: *mut nvmlEventSet_t) {
        if set.is_null() { return Err(Code::INVALID_ARGUMENT); }
        let made = registry().new_event_set();
        put(set, Some(made as nvmlEventSet_t))
    }
    fn nvmlEventSetFree(_call, set: nvmlEventSet_t) { registry().free_event_set(set as usize) }
}

device_calls! { on_device:
    fn nvmlDeviceRegisterEvents(call, types: c_ulonglong, set: nvmlEventSet_t) {
        let device = call.device()?;
        let offered = device.event_types.ok_or(Code::NOT_SUPPORTED)?;
        if types & !offered != 0 { return Err(Code::NOT_SUPPORTED); }
        let mut state = registry();
        *state.event_set(set as usize)?.registered.entry(device.uuid.clone()).or_default() |= types;
        Ok(())
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetWait_v2(set: nvmlEventSet_t, data: *mut nvmlEventData_t, timeout_ms: c_uint) -> nvmlReturn_t {
    wait("nvmlEventSetWait_v2", set, data, timeout_ms)
}
same_signature!(nvmlEventSetWait_v2);

#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetWait(set: nvmlEventSet_t, data: *mut nvmlEventData_t, timeout_ms: c_uint) -> nvmlReturn_t {
    wait("nvmlEventSetWait", set, data, timeout_ms)
}
same_signature!(nvmlEventSetWait);

fn wait(function: &'static str, set: nvmlEventSet_t, data: *mut nvmlEventData_t, timeout_ms: c_uint) -> nvmlReturn_t {
    let until = Instant::now() + Duration::from_millis(u64::from(timeout_ms));
    let passed = on_system(function, |_| Ok(()));
    if passed != Code::SUCCESS.0 {
        return passed;
    }
    loop {
        match next(&mut registry(), set as usize) {
            Ok(Some(event)) => return answer(put(data, Some(event))),
            Ok(None) if Instant::now() >= until => return Code::TIMEOUT.0,
            Ok(None) => std::thread::sleep(POLL_STEP.min(until.saturating_duration_since(Instant::now()))),
            Err(code) => return code.0,
        }
    }
}

/// The next event of a set. A registered device that is lost ends the wait, as the driver does, after what was pending.
fn next(state: &mut Registry, set: usize) -> Result<Option<nvmlEventData_t>, Code> {
    if state.users == 0 {
        return Err(Code::UNINITIALIZED);
    }
    let scenario = state.scenario();
    let waiting = state.event_set(set)?;
    let found = scenario.events.iter().find(|event| {
        !waiting.past.contains(&event.id)
            && waiting.registered.get(&event.device).is_some_and(|types| types & event.kind != 0)
    });
    if let Some(event) = found {
        waiting.past.insert(event.id);
        let device = state.handle_of(&Named::Device(event.device.clone())) as nvmlDevice_t;
        return Ok(Some(nvmlEventData_t {
            device,
            eventType: event.kind,
            eventData: event.data,
            gpuInstanceId: NO_INSTANCE,
            computeInstanceId: NO_INSTANCE,
        }));
    }
    let lost =
        |uuid: &String| scenario.devices.iter().find(|device| device.uuid == *uuid).is_none_or(|device| device.lost);
    if waiting.registered.keys().any(lost) { Err(Code::GPU_IS_LOST) } else { Ok(None) }
}
