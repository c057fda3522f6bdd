//! Health checks in both versions of the struct.

use std::time::Duration;

use dcgm_sys::entity::EntityStatus;
use dcgm_sys::health::{HealthResult, HealthSystems};
use dcgm_sys::{DcgmError, Entity, FieldId, Group, Handle, Missing};
use gpufleet_fake_dcgm::scenario::{Incident, Scenario};

use crate::{Turn, VERSIONS, h200s};

fn set(turn: &Turn, engine: Handle, systems: HealthSystems) {
    let (every, keep) = (Duration::from_secs(1), Duration::from_mins(10));
    turn.library.health_set(engine, Group::ALL_GPUS, systems, every, keep).unwrap();
}

#[test]
fn a_card_at_its_power_limit_is_a_warning_for_dcgm() {
    for version in VERSIONS {
        let mut scenario = Scenario { incidents: vec![Incident::at_power_limit(1)], ..h200s(version, 2) };
        let turn = Turn::with(&scenario);
        let engine = turn.automatic();
        set(&turn, engine, HealthSystems::ALL);
        assert_eq!(turn.library.health_systems(engine, Group::ALL_GPUS), Ok(HealthSystems::ALL));
        let report = turn.library.health_check(engine, Group::ALL_GPUS).unwrap();
        assert_eq!((report.overall, report.incomplete), (HealthResult::WARN, None));
        let [incident] = &report.incidents[..] else { panic!("{report:?}") };
        assert_eq!((incident.entity, incident.systems, incident.code), (Entity::gpu(1), HealthSystems::POWER, 12));
        assert!(incident.message.contains("power violation"));
        scenario.incidents.clear();
        turn.write(&scenario);
        assert_eq!(turn.library.health_check(engine, Group::ALL_GPUS).unwrap().overall, HealthResult::PASS);
    }
}

#[test]
fn only_watched_systems_are_judged() {
    for version in VERSIONS {
        let turn = Turn::with(&Scenario { incidents: vec![Incident::at_power_limit(0)], ..h200s(version, 1) });
        let engine = turn.automatic();
        let unwatched = turn.library.health_check(engine, Group::ALL_GPUS).unwrap();
        assert_eq!(unwatched.overall, HealthResult::PASS);
        // DCGM 3 says that nothing was watched; DCGM 4 passes the card without a word.
        assert_eq!(unwatched.incomplete, version.starts_with('3').then_some(DcgmError::NOT_WATCHED));
        set(&turn, engine, HealthSystems::MEMORY | HealthSystems::PCIE);
        assert!(turn.library.health_check(engine, Group::ALL_GPUS).unwrap().incidents.is_empty());
        set(&turn, engine, HealthSystems::MEMORY | HealthSystems::POWER);
        assert_eq!(turn.library.health_check(engine, Group::ALL_GPUS).unwrap().incidents.len(), 1);
    }
}

#[test]
fn the_entity_tells_the_gpu_and_the_text_does_not() {
    for version in VERSIONS {
        let turn = Turn::with(&Scenario { incidents: vec![Incident::row_remap_failure(1)], ..h200s(version, 2) });
        let engine = turn.automatic();
        set(&turn, engine, HealthSystems::ALL);
        let report = turn.library.health_check(engine, Group::ALL_GPUS).unwrap();
        assert_eq!(report.overall, HealthResult::FAIL);
        assert_eq!(report.incidents[0].entity, Entity::gpu(1));
        assert!(!report.incidents[0].message.contains("GPU 1 "));
    }
}

#[test]
fn a_lost_gpu_is_an_incident_of_every_system_and_its_values_say_so() {
    let mut scenario = h200s("4.6.0", 2);
    scenario.devices[1].lost = true;
    let turn = Turn::with(&scenario);
    let engine = turn.automatic();
    set(&turn, engine, HealthSystems::THERMAL);
    let report = turn.library.health_check(engine, Group::ALL_GPUS).unwrap();
    let [incident] = &report.incidents[..] else { panic!("{report:?}") };
    assert_eq!((incident.entity, incident.health), (Entity::gpu(1), HealthResult::FAIL));
    assert!(incident.systems.contains(HealthSystems::MEMORY), "a mask, not one system");
    assert_eq!(turn.library.gpu_status(engine, 1), Ok(EntityStatus::LOST));
    assert_eq!(turn.library.gpu_status(engine, 0), Ok(EntityStatus::OK));
    let watched = turn.watch(engine, &[FieldId::DEV_GPU_TEMP]);
    let found = turn.latest(engine, watched);
    assert_eq!(found[1].2, Err(Missing::Status(DcgmError::GPU_IS_LOST)));
    assert!(found[0].2.is_ok(), "the other one lives on");
    scenario.devices[1].lost = false;
    turn.write(&scenario);
    assert!(turn.latest(engine, watched)[1].2.is_ok());
}

#[test]
fn more_incidents_than_the_struct_holds() {
    for (version, most) in VERSIONS.into_iter().zip([64, 1024]) {
        let incidents = vec![Incident::at_power_limit(0); 1100];
        let turn = Turn::with(&Scenario { incidents, ..h200s(version, 1) });
        let engine = turn.automatic();
        set(&turn, engine, HealthSystems::ALL);
        assert_eq!(turn.library.health_check(engine, Group::ALL_GPUS).unwrap().incidents.len(), most);
    }
}
