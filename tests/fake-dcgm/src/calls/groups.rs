//! Groups of entities and of fields.

use std::ffi::{c_char, c_void};

use dcgm_sys::entity::{GroupInfoV2, GroupInfoV3};
use dcgm_sys::{DcgmError, Entity, EntityGroup, FieldGroup, FieldId, Group, GroupType, Major};

use super::engine_calls;
use crate::engine::{Members, entities, everything};
use crate::gate::Answer;
use crate::output::{get_all, get_text, put, versioned};

engine_calls! {
    fn dcgmGroupCreate(call, kind: GroupType, name: *const c_char, group: *mut Group) {
        let entities = match kind {
            GroupType::ALL_GPUS => entities(call.scenario, EntityGroup::GPU, true),
            GroupType::ALL_GPU_INSTANCES => entities(call.scenario, EntityGroup::GPU_INSTANCE, true),
            GroupType::ALL_COMPUTE_INSTANCES => entities(call.scenario, EntityGroup::COMPUTE_INSTANCE, true),
            GroupType::EVERYTHING => everything(call.scenario),
            GroupType::EMPTY | GroupType::ALL_SWITCHES => Vec::new(),
            _ => return Err(DcgmError::BAD_PARAMETER),
        };
        let made = call.engine.add_group(get_text(name)?, entities, call.handle)?;
        put(group, made)
    }

    fn dcgmGroupAddEntity(call, group: Group, kind: EntityGroup, id: u32) {
        call.engine.add_entity(call.scenario, group, Entity { group: kind, id })
    }

    fn dcgmGroupAddDevice(call, group: Group, gpu: u32) {
        call.engine.add_entity(call.scenario, group, Entity::gpu(gpu))
    }

    fn dcgmGroupRemoveEntity(call, group: Group, kind: EntityGroup, id: u32) {
        call.engine.remove_entity(group, Entity { group: kind, id })
    }

    fn dcgmGroupGetInfo(call, group: Group, info: *mut c_void) {
        let major = call.major();
        let members = call.engine.group(group)?;
        match major {
            Major::V3 => {
                let info = versioned(info.cast::<GroupInfoV2>())?;
                fill(members, &mut info.name, &mut info.count, &mut info.entities)
            }
            Major::V4 => {
                let info = versioned(info.cast::<GroupInfoV3>())?;
                fill(members, &mut info.name, &mut info.count, &mut info.entities)
            }
        }
    }

    fn dcgmGroupDestroy(call, group: Group) { call.engine.remove_group(group) }

    fn dcgmFieldGroupCreate(
        call, count: i32, fields: *const FieldId, name: *const c_char, group: *mut FieldGroup,
    ) {
        let count = usize::try_from(count).map_err(|_| DcgmError::BAD_PARAMETER)?;
        let fields = get_all(fields, count)?;
        let made = call.engine.add_field_group(get_text(name)?, fields, call.handle)?;
        put(group, made)
    }

    fn dcgmFieldGroupDestroy(call, group: FieldGroup) { call.engine.remove_field_group(group) }
}

fn fill(members: &Members, name: &mut [u8; 256], count: &mut u32, entities: &mut [Entity]) -> Answer {
    *name = dcgm_sys::text::array(&members.name);
    *count = u32::try_from(members.entities.len()).map_err(|_| DcgmError::MAX_LIMIT)?;
    entities.iter_mut().zip(&members.entities).for_each(|(place, entity)| *place = *entity);
    Ok(())
}
