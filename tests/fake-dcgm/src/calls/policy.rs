//! Policies and registrations for their violations.

use dcgm_sys::module::ModuleId;
use dcgm_sys::policy::{Conditions, PolicyV1};
use dcgm_sys::symbols::{PolicyCallback3, PolicyCallback4};
use dcgm_sys::version::{Versioned as _, Zeroable as _};
use dcgm_sys::{DcgmError, Group, Handle, Major};

use super::{engine_calls, exports};
use crate::gate::{Answer, code, on_engine};
use crate::notices::{self, Callback, Registration};
use crate::output::{put_all, versioned};

engine_calls! {
    fn dcgmPolicySet(call, group: Group, policy: *mut PolicyV1, _status: usize) {
        let policy = *versioned(policy)?;
        call.engine.use_module(call.scenario, ModuleId::POLICY)?;
        call.engine.members(call.scenario, group)?;
        call.engine.policies.insert(group.0, policy);
        Ok(())
    }

    fn dcgmPolicyGet(call, group: Group, count: i32, policies: *mut PolicyV1, _status: usize) {
        versioned(policies)?;
        call.engine.use_module(call.scenario, ModuleId::POLICY)?;
        let members = call.engine.members(call.scenario, group)?.len();
        if i32::try_from(members).map_err(|_| DcgmError::MAX_LIMIT)? > count {
            return Err(DcgmError::MAX_LIMIT);
        }
        let policy = call.engine.policies.get(&group.0).copied().unwrap_or_else(|| {
            let mut none = PolicyV1::zeroed();
            none.set_version();
            none
        });
        put_all(policies, vec![policy; members])
    }

    fn dcgmPolicyUnregister(call, group: Group, conditions: Conditions) {
        call.engine.use_module(call.scenario, ModuleId::POLICY)?;
        let handle = call.handle;
        for registration in &mut call.engine.registrations {
            if registration.owner == handle && registration.group == group {
                registration.conditions.0 &= !conditions.0;
            }
        }
        call.engine.registrations.retain(|registration| registration.conditions != Conditions::EMPTY);
        Ok(())
    }
}

exports! {
    #[optional]
    fn dcgmPolicyRegister(
        engine: Handle, group: Group, conditions: Conditions, begin: PolicyCallback3, finish: PolicyCallback3,
    ) -> i32 {
        let callback = Callback::Three { begin, finish };
        code(register("dcgmPolicyRegister", Major::V3, engine, (group, conditions, callback)))
    }

    #[optional]
    fn dcgmPolicyRegister_v2(
        engine: Handle, group: Group, conditions: Conditions, callback: PolicyCallback4, user: u64,
    ) -> i32 {
        let callback = Callback::Four { callback, user };
        code(register("dcgmPolicyRegister_v2", Major::V4, engine, (group, conditions, callback)))
    }
}

fn register(
    function: &'static str,
    only_in: Major,
    engine: Handle,
    (group, conditions, callback): (Group, Conditions, Callback),
) -> Answer {
    on_engine(function, engine, |call| {
        if call.major() != only_in {
            return Err(DcgmError::FUNCTION_NOT_FOUND);
        }
        call.engine.use_module(call.scenario, ModuleId::POLICY)?;
        call.engine.members(call.scenario, group)?;
        let registration = Registration::new(call.scenario, call.handle, group, conditions, callback);
        call.engine.registrations.push(registration);
        notices::start();
        Ok(())
    })
}
