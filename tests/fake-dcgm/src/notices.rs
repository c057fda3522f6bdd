//! Policy violations: who registered for them, and the thread that calls back.
//!
//! Like the real library it calls from a thread of its own, for one condition and GPU at most once in five seconds of
//! sample time, and in 3.x calls both functions for one violation. The thread lives while anybody is registered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dcgm_sys::policy::{
    Conditions, ErrorLocation, PolicyCallbackV1, PolicyCallbackV2, RawDoubleBitError, RawNumber, RawNvlinkErrors,
    RawPciReplay, RawRetiredPages, RawViolation,
};
use dcgm_sys::symbols::{PolicyCallback3, PolicyCallback4};
use dcgm_sys::version::{Versioned as _, Zeroable as _};
use dcgm_sys::{Entity, FieldId, Group, Handle};

use crate::engine::Engine;
use crate::registry::{now, registry};
use crate::scenario::{Scenario, Violation};

/// Violations of one condition and GPU that lie closer are not reported, in microseconds.
const QUIET: i64 = 5_000_000;
/// How often the thread looks for violations.
const STEP: Duration = Duration::from_millis(5);

/// What is called.
#[derive(Clone, Copy)]
pub(crate) enum Callback {
    Three { begin: PolicyCallback3, finish: PolicyCallback3 },
    Four { callback: PolicyCallback4, user: u64 },
}

/// A client that wants to be called.
pub(crate) struct Registration {
    pub(crate) owner: Handle,
    pub(crate) group: Group,
    pub(crate) conditions: Conditions,
    callback: Callback,
    past: BTreeSet<u64>,
    last: BTreeMap<(Conditions, u32), i64>,
}

/// A call to be made.
struct Notice {
    callback: Callback,
    condition: Conditions,
    gpu: u32,
    violation: RawViolation,
}

impl Registration {
    pub(crate) fn new(
        scenario: &Scenario,
        owner: Handle,
        group: Group,
        conditions: Conditions,
        callback: Callback,
    ) -> Self {
        let past = scenario.violations.iter().filter(|violation| !violation.replay).map(|violation| violation.id);
        Self { owner, group, conditions, callback, past: past.collect(), last: BTreeMap::new() }
    }
}

/// Starts the thread unless it runs.
pub(crate) fn start() {
    static RUNNING: AtomicBool = AtomicBool::new(false);
    if RUNNING.swap(true, Ordering::SeqCst) {
        return;
    }
    std::thread::spawn(|| {
        loop {
            let mut state = registry();
            // It was read before anybody could register.
            let scenario = state.scenario().unwrap_or_default();
            let notices: Vec<Notice> = state.engines().flat_map(|engine| due(engine, &scenario)).collect();
            if state.engines().all(|engine| engine.registrations.is_empty()) {
                // While the lock is held nobody can register and find the thread running.
                RUNNING.store(false, Ordering::SeqCst);
                return;
            }
            drop(state);
            notices.iter().for_each(Notice::call);
            std::thread::sleep(STEP);
        }
    });
}

fn due(engine: &mut Engine, scenario: &Scenario) -> Vec<Notice> {
    let mut notices = Vec::new();
    let mut registrations = std::mem::take(&mut engine.registrations);
    for registration in &mut registrations {
        let members = engine.members(scenario, registration.group).unwrap_or_default();
        let policy = engine.policies.get(&registration.group.0).map_or(Conditions::EMPTY, |policy| policy.conditions);
        for violation in &scenario.violations {
            let condition = violation.condition.0;
            let wanted = registration.conditions.contains(condition)
                && policy.contains(condition)
                && members.contains(&Entity::gpu(violation.device));
            if !wanted || !registration.past.insert(violation.id) {
                continue;
            }
            let at = violation.at_us.unwrap_or_else(now);
            let last = registration.last.get(&(condition, violation.device));
            if last.is_none_or(|last| at - last >= QUIET) {
                registration.last.insert((condition, violation.device), at);
                notices.push(Notice {
                    callback: registration.callback,
                    condition,
                    gpu: violation.device,
                    violation: raw(violation, at),
                });
            }
        }
    }
    engine.registrations = registrations;
    notices
}

fn raw(violation: &Violation, timestamp: i64) -> RawViolation {
    let number = violation.number;
    match violation.condition.0 {
        Conditions::DOUBLE_BIT_ERROR => {
            let location = violation.location.map_or(ErrorLocation::DEVICE, |location| location.0);
            RawViolation { double_bit_error: RawDoubleBitError { timestamp, location, count: number } }
        }
        Conditions::PCI_REPLAY => RawViolation { pci_replay: RawPciReplay { timestamp, counter: number } },
        Conditions::RETIRED_PAGES => {
            RawViolation { retired_pages: RawRetiredPages { timestamp, single_bit: 0, double_bit: number } }
        }
        Conditions::NVLINK => {
            let field = violation.field.map_or(FieldId::DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, |field| field.0);
            RawViolation { nvlink: RawNvlinkErrors { timestamp, field, counter: number } }
        }
        _ => RawViolation { number: RawNumber { timestamp, number } },
    }
}

impl Notice {
    fn call(&self) {
        match self.callback {
            Callback::Three { begin, finish } => {
                let mut response = PolicyCallbackV1::zeroed();
                response.set_version();
                response.condition = self.condition;
                response.violation = self.violation;
                let pointer = (&raw mut response).cast();
                // SAFETY: the client gave functions that live as long as the library, and the response outlives the
                // calls.
                unsafe {
                    begin(pointer);
                    finish(pointer);
                }
            }
            Callback::Four { callback, user } => {
                let mut response = PolicyCallbackV2::zeroed();
                response.set_version();
                response.condition = self.condition;
                response.violation = self.violation;
                response.gpu = self.gpu;
                // SAFETY: as above.
                unsafe { callback(&raw mut response, user) };
            }
        }
    }
}
