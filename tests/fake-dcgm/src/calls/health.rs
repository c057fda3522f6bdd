//! Health watches.

use std::ffi::c_void;

use dcgm_sys::health::{
    ErrorDetail, HealthResponseV4, HealthResponseV5, HealthResult, HealthSetV2, HealthSystems, RawIncident,
};
use dcgm_sys::module::ModuleId;
use dcgm_sys::{DcgmError, Entity, EntityGroup, Group, Major};

use super::engine_calls;
use crate::gate::{Answer, Call};
use crate::output::{put, versioned};
use crate::scenario::Incident;

engine_calls! {
    fn dcgmHealthSet_v2(call, parameters: *mut HealthSetV2) {
        let parameters = versioned(parameters)?;
        call.engine.use_module(call.scenario, ModuleId::HEALTH)?;
        call.engine.members(call.scenario, parameters.group)?;
        call.engine.health.insert(parameters.group.0, parameters.systems);
        Ok(())
    }

    fn dcgmHealthGet(call, group: Group, systems: *mut HealthSystems) {
        call.engine.use_module(call.scenario, ModuleId::HEALTH)?;
        put(systems, watched(call, group))
    }

    fn dcgmHealthCheck(call, group: Group, response: *mut c_void) {
        let incidents = match call.major() {
            Major::V3 => {
                let response = versioned(response.cast::<HealthResponseV4>())?;
                let incidents = found(call, group)?;
                fill(&incidents, &mut response.overall, &mut response.count, &mut response.incidents)
            }
            Major::V4 => {
                let response = versioned(response.cast::<HealthResponseV5>())?;
                let incidents = found(call, group)?;
                fill(&incidents, &mut response.overall, &mut response.count, &mut response.incidents)
            }
        };
        if call.major() == Major::V3 && watched(call, group) == HealthSystems::EMPTY {
            // With the response filled all the same.
            return Err(DcgmError::NOT_WATCHED);
        }
        incidents
    }
}

fn watched(call: &Call<'_>, group: Group) -> HealthSystems {
    call.engine.health.get(&group.0).copied().unwrap_or_default()
}

fn found(call: &mut Call<'_>, group: Group) -> Answer<Vec<RawIncident>> {
    call.engine.use_module(call.scenario, ModuleId::HEALTH)?;
    let (members, watched) = (call.engine.members(call.scenario, group)?, watched(call, group));
    let seen = |incident: &&Incident| {
        members.contains(&Entity::gpu(incident.device))
            && (incident.system.0 == HealthSystems::ALL || watched.contains(incident.system.0))
    };
    let mut incidents: Vec<RawIncident> = call.scenario.incidents.iter().filter(seen).map(raw).collect();
    if call.major() == Major::V4 && watched != HealthSystems::EMPTY {
        let lost = |entity: &&Entity| {
            let device = crate::readings::device(call.scenario, entity.id);
            entity.group == EntityGroup::GPU && device.is_some_and(|device| device.lost)
        };
        incidents.extend(members.iter().filter(lost).map(|entity| {
            raw(&Incident {
                device: entity.id,
                system: crate::scenario::Name(HealthSystems::ALL),
                health: crate::scenario::Name(HealthResult::FAIL),
                code: LOST,
                message: format!("GPU {} has fallen off the bus.", entity.id),
            })
        }));
    }
    Ok(incidents)
}

/// DCGM's number for a GPU that is lost.
const LOST: u32 = 79;

fn raw(incident: &Incident) -> RawIncident {
    RawIncident {
        system: incident.system.0,
        health: incident.health.0,
        error: ErrorDetail { message: dcgm_sys::text::array(&incident.message), code: incident.code },
        entity: Entity::gpu(incident.device),
    }
}

fn fill(found: &[RawIncident], overall: &mut HealthResult, count: &mut u32, incidents: &mut [RawIncident]) -> Answer {
    *overall = found.iter().map(|incident| incident.health).max().unwrap_or(HealthResult::PASS);
    *count = u32::try_from(found.len().min(incidents.len())).map_err(|_| DcgmError::MAX_LIMIT)?;
    incidents.iter_mut().zip(found).for_each(|(place, incident)| *place = *incident);
    Ok(())
}
