//! What the host has.

use std::ops::ControlFlow;

use dcgm_sys::blank::{Blank, of_u32};
use dcgm_sys::module::MetricGroup;
use dcgm_sys::nvlink::LinkState;
use dcgm_sys::text::text;
use dcgm_sys::{DcgmError, Entity, EntityGroup, FieldFacts, FieldId, GroupType, ValueType};
use gpufleet_fake_dcgm::scenario::{Device, FieldName, MigInstance, Name, Reading, Scenario};

use crate::{OFTEN, Turn, VERSIONS, h200s};

#[test]
fn lists_of_devices() {
    for version in VERSIONS {
        let mut scenario = h200s(version, 3);
        scenario.devices[1].unsupported = true;
        let turn = Turn::with(&scenario);
        let engine = turn.automatic();
        assert_eq!(turn.library.all_devices(engine), Ok(vec![0, 1, 2]));
        assert_eq!(turn.library.supported_devices(engine), Ok(vec![0, 2]));
        assert_eq!(turn.library.entities(engine, EntityGroup::GPU, true), Ok(vec![0, 2]));
        assert_eq!(turn.library.entities(engine, EntityGroup::SWITCH, false), Ok(Vec::new()));
        assert_eq!(turn.library.mig_hierarchy(engine).map(|nodes| nodes.len()), Ok(0));
    }
}

#[test]
fn mig_instances_are_entities_with_values_of_their_own() {
    for version in VERSIONS {
        let mut scenario = h200s(version, 2);
        for (gpu_instance, used) in [(3, 1000), (9, 2000)] {
            let fields = [(FieldName(FieldId::DEV_FB_USED), Reading::Int(used))].into();
            scenario.devices[1].mig.push(MigInstance { gpu_instance, slices: 3, fields, ..MigInstance::default() });
        }
        let turn = Turn::with(&scenario);
        let (library, engine) = (&turn.library, turn.automatic());
        let nodes = library.mig_hierarchy(engine).unwrap();
        let second = Entity { group: EntityGroup::GPU_INSTANCE, id: 1 };
        assert_eq!(nodes.len(), 4);
        assert_eq!((nodes[2].entity, nodes[2].parent, nodes[2].info.gpu_instance), (second, Entity::gpu(1), 9));
        assert_eq!((nodes[3].entity.group, nodes[3].parent), (EntityGroup::COMPUTE_INSTANCE, second));
        assert_eq!(library.entities(engine, EntityGroup::GPU_INSTANCE, true), Ok(vec![0, 1]));
        let group = library.group_create(engine, GroupType::EMPTY, "mig").unwrap();
        library.group_add(engine, group, second).unwrap();
        assert_eq!(library.group_add(engine, group, Entity { id: 2, ..second }), Err(DcgmError::BAD_PARAMETER));
        let fields = turn.fields(engine, &[FieldId::DEV_FB_USED, FieldId::DEV_GPU_TEMP]);
        library.watch_fields(engine, group, fields, OFTEN).unwrap();
        let mut found = Vec::new();
        let each = |entity, values: &[dcgm_sys::FieldValueV1]| {
            found.extend(values.iter().map(|value| (entity, value.read().ok().and_then(|value| value.as_f64()))));
            ControlFlow::Continue(())
        };
        library.latest_values(engine, group, fields, each).unwrap();
        assert_eq!(found, [(second, Some(2000.0)), (second, None)]);
    }
}

#[test]
fn a_list_longer_than_the_first_buffer_is_read_whole() {
    for version in VERSIONS {
        let devices = vec![Device::default(); 150];
        let turn = Turn::with(&Scenario { version: version.to_owned(), devices, ..Scenario::default() });
        let engine = turn.automatic();
        assert_eq!(turn.library.entities(engine, EntityGroup::GPU, false).map(|ids| ids.len()), Ok(150));
        assert_eq!(turn.library.all_devices(engine).map(|ids| ids.len()), Ok(32), "this list is bounded");
    }
}

#[test]
fn attributes_are_blank_where_nothing_is_known() {
    for version in VERSIONS {
        let turn = Turn::with(&h200s(version, 1));
        let engine = turn.automatic();
        let attributes = turn.library.device_attributes(engine, 0).unwrap();
        assert_eq!(text(&attributes.identifiers.name), "NVIDIA H200");
        assert_eq!(text(&attributes.identifiers.driver), "580.159.04");
        assert_eq!((attributes.thermals.slowdown, attributes.power_limits.enforced), (89, 700));
        assert_eq!(of_u32(attributes.thermals.shutdown), Some(Blank::Unknown));
        assert_eq!(dcgm_sys::blank::of_text(&text(&attributes.identifiers.brand)), Some(Blank::Unknown));
        assert_eq!(turn.library.device_attributes(engine, 9).err(), Some(DcgmError::BAD_PARAMETER));
    }
}

#[test]
fn links_are_read_in_each_version_of_the_struct() {
    for (version, room) in [("3.3.9", 18), ("4.2.3", 18), ("4.6.0", 36)] {
        let mut scenario = h200s(version, 2);
        scenario.devices[1].nvlinks[17] = Name(LinkState::DOWN);
        let turn = Turn::with(&scenario);
        let links = turn.library.nvlink_status(turn.automatic()).unwrap();
        assert_eq!(links.iter().map(|links| links.owner).collect::<Vec<_>>(), [Entity::gpu(0), Entity::gpu(1)]);
        assert_eq!((links[1].states.len(), links[1].states[17]), (room, LinkState::DOWN));
        assert_eq!(links[0].states.iter().filter(|state| **state == LinkState::UP).count(), 18);
    }
}

#[test]
fn the_table_of_fields_is_that_of_the_version() {
    for version in VERSIONS {
        let turn = Turn::with(&h200s(version, 1));
        let newest = version.starts_with('4');
        for facts in FieldFacts::all() {
            let meta = turn.library.field_meta(facts.id);
            assert_eq!(meta.is_some(), newest || facts.since == (3, 0), "{}", facts.name);
            if let Some(meta) = meta {
                assert_eq!((meta.kind, meta.tag.as_str()), (facts.kind, facts.tag));
                assert_eq!(turn.library.field_by_tag(facts.tag), Some(meta));
            }
        }
        let link = turn.library.field_meta(FieldId::PROF_NVLINK_L0_TX_BYTES).unwrap();
        assert_eq!(link.level, if newest { EntityGroup::GPU } else { EntityGroup::LINK });
        assert_eq!(turn.library.field_meta(FieldId(1018)).map(|meta| meta.kind), Some(ValueType::DOUBLE));
        assert_eq!(turn.library.field_meta(FieldId(0)), None);
        assert_eq!(turn.library.field_by_tag("no_such_field"), None);
        assert_eq!(turn.library.entity_group_name(EntityGroup::GPU).as_deref(), Some("GPU"));
    }
}

#[test]
fn profiling_fields_come_in_three_groups() {
    for version in VERSIONS {
        let turn = Turn::with(&h200s(version, 1));
        let groups = turn.library.metric_groups(turn.automatic(), 0).unwrap();
        assert_eq!(groups.len(), 3);
        assert!(groups[0].fields().contains(&FieldId::PROF_SM_ACTIVE));
        assert!(groups.iter().flat_map(MetricGroup::fields).all(|field| field.is_profiling()));
    }
}
