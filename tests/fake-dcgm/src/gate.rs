//! The gate every call passes: is the library started, which engine does the handle stand for, does a rule say that the
//! call hangs or fails. Behind it the call itself only looks at the scenario and the engine's memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dcgm_sys::engine::OperationMode;
use dcgm_sys::{DcgmError, Handle, Major};

use crate::engine::Engine;
use crate::registry::{Registry, log_call, now, registry};
use crate::scenario::{Rule, Scenario};

/// What a call answers.
pub(crate) type Answer<T = ()> = Result<T, DcgmError>;

/// How often a call that hangs looks for a new scenario.
const HANG_STEP: Duration = Duration::from_millis(5);

/// A call to an engine that has passed the gate.
pub(crate) struct Call<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) engine: &'a mut Engine,
    pub(crate) handle: Handle,
    pub(crate) now: i64,
}

impl Call<'_> {
    pub(crate) fn major(&self) -> Major {
        self.scenario.major()
    }
}

/// Runs a call to an engine.
pub(crate) fn on_engine<T>(
    function: &'static str,
    handle: Handle,
    body: impl FnOnce(&mut Call<'_>) -> Answer<T>,
) -> Answer<T> {
    pass(function, true, |state, scenario| {
        if !state.started {
            return Err(DcgmError::UNINITIALIZED);
        }
        let now = now();
        let engine = state.engine(scenario, handle)?;
        if engine.mode == OperationMode::AUTO {
            engine.update(scenario, now);
        }
        body(&mut Call { scenario, engine, handle, now })
    })
}

/// Runs a call to the library itself. Only a rule that names the function holds for it.
pub(crate) fn on_library<T>(
    function: &'static str,
    body: impl FnOnce(&mut Registry, &Scenario) -> Answer<T>,
) -> Answer<T> {
    pass(function, false, body)
}

/// The return value of a call.
pub(crate) fn code(answer: Answer) -> i32 {
    answer.err().map_or(0, |error| error.code)
}

fn pass<T>(
    function: &'static str,
    wildcard: bool,
    body: impl FnOnce(&mut Registry, &Scenario) -> Answer<T>,
) -> Answer<T> {
    let began = Instant::now();
    let mut logged = false;
    loop {
        let mut state = registry();
        let scenario = state.scenario()?;
        if !logged {
            log_call(&scenario, function);
            logged = true;
        }
        let matches = |rule: &&Rule| rule.function == function || (wildcard && rule.function == "*");
        let rule = scenario.rules.iter().find(matches);
        if rule.is_some_and(|rule| hangs(rule, began)) {
            drop(state);
            std::thread::sleep(HANG_STEP);
            continue;
        }
        if let Some(rule) = rule
            && state.applies(rule)
            && let Some(code) = rule.code
        {
            return Err(code.0);
        }
        let scenario = Arc::clone(&scenario);
        return body(&mut state, &scenario);
    }
}

fn hangs(rule: &Rule, began: Instant) -> bool {
    rule.hang || rule.hang_ms.is_some_and(|for_ms| began.elapsed() < Duration::from_millis(for_ms))
}
