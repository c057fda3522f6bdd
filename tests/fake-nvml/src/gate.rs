//! The gate every call passes: is the library initialised, what does the handle stand for, does a rule say that the call
//! hangs or fails, is the device lost. Behind it the call itself only reads the scenario.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlReturn_t};

use crate::Code;
use crate::registry::{Named, Registry, log_call, registry};
use crate::scenario::{Device, MigInstance, Process, Rule, Scenario};

/// What a call answers.
pub(crate) type Answer = Result<(), Code>;

/// How often a call that hangs looks for a new scenario.
const HANG_STEP: Duration = Duration::from_millis(5);

/// A call that has passed the gate.
pub(crate) struct Call {
    pub(crate) scenario: Arc<Scenario>,
    /// A rule makes lists seem to grow during this call.
    pub(crate) grow: bool,
}

/// A call about a device that has passed the gate.
pub(crate) struct DeviceCall {
    pub(crate) call: Call,
    device: usize,
    mig: Option<usize>,
}

/// Initialises the library. Only a rule that names the function holds for it.
pub(crate) fn start(function: &'static str) -> Answer {
    let began = Instant::now();
    let mut logged = false;
    loop {
        let mut state = registry();
        let scenario = state.load()?;
        if !logged {
            log_call(&scenario, function, None);
            logged = true;
        }
        let rule = scenario.rules.iter().find(|rule| rule.function == function);
        if rule.is_some_and(|rule| hangs(rule, began)) {
            drop(state);
            std::thread::sleep(HANG_STEP);
            continue;
        }
        if let Some(rule) = rule {
            apply(&mut state, rule, &scenario)?;
        }
        if let Some(code) = scenario.init {
            return Err(code);
        }
        state.users += 1;
        return Ok(());
    }
}

/// Runs a call that is about no device.
pub(crate) fn on_system(function: &'static str, body: impl FnOnce(&Call) -> Answer) -> nvmlReturn_t {
    answer(pass(function, None).and_then(|(call, _)| body(&call)))
}

/// Runs a call about a physical device or a MIG instance.
pub(crate) fn on_any_device(
    function: &'static str,
    handle: nvmlDevice_t,
    body: impl FnOnce(&DeviceCall) -> Answer,
) -> nvmlReturn_t {
    answer(pass_device(function, handle).and_then(|call| body(&call)))
}

/// Runs a call that NVML supports on physical devices only.
pub(crate) fn on_device(
    function: &'static str,
    handle: nvmlDevice_t,
    body: impl FnOnce(&DeviceCall) -> Answer,
) -> nvmlReturn_t {
    answer(pass_device(function, handle).and_then(|call| match call.mig {
        Some(_) => Err(Code::NOT_SUPPORTED),
        None => body(&call),
    }))
}

/// The return value of a call.
pub(crate) fn answer(answer: Answer) -> nvmlReturn_t {
    answer.err().unwrap_or(Code::SUCCESS).0
}

fn pass_device(function: &'static str, handle: nvmlDevice_t) -> Result<DeviceCall, Code> {
    let (call, named) = pass(function, Some(handle))?;
    let named = named.ok_or(Code::INVALID_ARGUMENT)?;
    let (device, mig) = locate(&call.scenario, &named).ok_or(Code::GPU_IS_LOST)?;
    if call.scenario.devices.get(device).is_none_or(|device| device.lost) {
        return Err(Code::GPU_IS_LOST);
    }
    Ok(DeviceCall { call, device, mig })
}

/// Where a named device stands in the scenario; `None` when it is no longer listed.
fn locate(scenario: &Scenario, named: &Named) -> Option<(usize, Option<usize>)> {
    let position = |uuid: &str| scenario.devices.iter().position(|device| device.uuid == uuid);
    match named {
        Named::Device(uuid) => Some((position(uuid)?, None)),
        Named::Mig { parent, instance } => {
            let device = position(parent)?;
            let mig = scenario.devices.get(device)?.mig.iter().position(|mig| mig.uuid == *instance)?;
            Some((device, Some(mig)))
        }
    }
}

fn pass(function: &'static str, handle: Option<nvmlDevice_t>) -> Result<(Call, Option<Named>), Code> {
    let began = Instant::now();
    let mut logged = false;
    loop {
        let mut state = registry();
        if state.users == 0 {
            return Err(Code::UNINITIALIZED);
        }
        let scenario = state.scenario();
        let named = match handle {
            None => None,
            Some(handle) => Some(state.named(handle as usize).cloned().ok_or(Code::INVALID_ARGUMENT)?),
        };
        let device = named.as_ref().map(Named::uuid);
        if !logged {
            log_call(&scenario, function, device);
            logged = true;
        }
        let Some(rule) = rule_for(&scenario, function, device) else {
            return Ok((Call { scenario, grow: false }, named));
        };
        if hangs(rule, began) {
            drop(state);
            std::thread::sleep(HANG_STEP);
            continue;
        }
        return apply(&mut state, rule, &scenario).map(|call| (call, named));
    }
}

fn rule_for<'a>(scenario: &'a Scenario, function: &str, device: Option<&str>) -> Option<&'a Rule> {
    scenario.rules.iter().find(|rule| {
        (rule.function == "*" || rule.function == function)
            && rule.device.as_deref().is_none_or(|meant| Some(meant) == device)
    })
}

fn hangs(rule: &Rule, began: Instant) -> bool {
    rule.hang || rule.hang_ms.is_some_and(|for_ms| began.elapsed() < Duration::from_millis(for_ms))
}

fn apply(state: &mut Registry, rule: &Rule, scenario: &Arc<Scenario>) -> Result<Call, Code> {
    let applies = state.applies(rule);
    match rule.code {
        Some(code) if applies => Err(code),
        _ => Ok(Call { scenario: Arc::clone(scenario), grow: rule.grow && applies }),
    }
}

impl DeviceCall {
    /// The physical device, or the one the MIG instance is part of.
    pub(crate) fn device(&self) -> Result<&Device, Code> {
        self.call.scenario.devices.get(self.device).ok_or(Code::GPU_IS_LOST)
    }

    /// Its place in the driver's order.
    pub(crate) fn index(&self) -> Result<u32, Code> {
        u32::try_from(self.device).map_err(|_| Code::UNKNOWN)
    }

    /// The MIG instance, when the handle is one.
    pub(crate) fn mig(&self) -> Result<Option<&MigInstance>, Code> {
        let Some(mig) = self.mig else { return Ok(None) };
        self.device()?.mig.get(mig).map(Some).ok_or(Code::GPU_IS_LOST)
    }

    /// The processes the driver counts on what the handle stands for.
    pub(crate) fn processes(&self) -> Result<Vec<&Process>, Code> {
        let release = self.call.scenario.release_on_exit_ms.map(Duration::from_millis);
        let device = self.device()?;
        let mig = self.mig()?;
        let mut state = registry();
        Ok(device
            .processes
            .iter()
            .filter(|process| {
                mig.is_none_or(|mig| {
                    process.gpu_instance == Some(mig.gpu_instance)
                        && process.compute_instance == Some(mig.compute_instance)
                })
            })
            .filter(|process| state.liveness.holds(process.pid, release))
            .collect())
    }

    /// Memory the listed processes hold.
    pub(crate) fn held_bytes(&self) -> Result<u64, Code> {
        Ok(self.processes()?.iter().filter_map(|process| process.memory_bytes).sum())
    }
}
