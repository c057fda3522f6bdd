//! Values exist only while watched, come with a status of their own, and can be blank.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use dcgm_sys::blank::Blank;
use dcgm_sys::{
    DcgmError, Entity, EntityGroup, FieldId, Group, GroupType, Missing, Source, ValueBuffer, ValueType, WatchOptions,
};
use gpufleet_fake_dcgm::scenario::{Event, FieldName, Reading, Scenario};

use crate::{OFTEN, Turn, VERSIONS, h200s};

const TEMPERATURE: FieldId = FieldId::DEV_GPU_TEMP;
const POWER: FieldId = FieldId::DEV_POWER_USAGE;
const XID: FieldId = FieldId::DEV_XID_ERRORS;

fn status(error: DcgmError) -> Result<String, Missing> {
    Err(Missing::Status(error))
}

#[test]
fn an_unwatched_field_has_a_bad_status_whatever_its_value_says() {
    for version in VERSIONS {
        let turn = Turn::with(&h200s(version, 1));
        let engine = turn.manual();
        let mut buffer = ValueBuffer::default();
        let gpu = [Entity::gpu(0)];
        let values = turn.library.entity_values(engine, &gpu, &[POWER], Source::Cache, &mut buffer).unwrap();
        assert_eq!(values[0].read(), Err(Missing::Status(DcgmError::NOT_WATCHED)));
        // SAFETY: the union holds bytes that the library wrote; any bytes are a number.
        let (integer, double) = unsafe { (values[0].value.i64, values[0].value.f64) };
        if version.starts_with('3') {
            assert_eq!((values[0].kind, integer), (ValueType::INT64, 0), "a client that skips the status reads 0 W");
        } else {
            assert_eq!(values[0].kind, ValueType::DOUBLE);
            assert_eq!(dcgm_sys::blank::of_f64(double), Some(Blank::Unknown));
        }
    }
}

#[test]
fn watched_fields_have_values_statuses_and_blanks() {
    for version in VERSIONS {
        let turn = Turn::with(&h200s(version, 2));
        let engine = turn.manual();
        let fields =
            [TEMPERATURE, POWER, FieldId::DEV_FAN_SPEED, FieldId::DEV_NVLINK_BANDWIDTH_TOTAL, FieldId::DEV_NAME];
        let watched = turn.watch(engine, &fields);
        let found = turn.latest(engine, watched);
        assert_eq!(found.len(), 10);
        let second: Vec<_> = found.into_iter().filter(|(entity, ..)| *entity == Entity::gpu(1)).map(|v| v.2).collect();
        assert_eq!(second[0], Ok("Int(62)".to_owned()));
        assert_eq!(second[1], Ok("Double(692.065)".to_owned()));
        assert_eq!(second[2], Err(Missing::Blank(Blank::NotSupported)));
        assert_eq!(second[3], status(DcgmError::NOT_SUPPORTED));
        assert_eq!(second[4], Ok("Text(\"NVIDIA H200\")".to_owned()));
    }
}

#[test]
fn what_a_buffer_holds_is_in_the_order_asked_for() {
    let turn = Turn::with(&h200s("4.6.0", 2));
    let engine = turn.manual();
    turn.watch(engine, &[TEMPERATURE, POWER]);
    let gpus = [Entity::gpu(1), Entity::gpu(0)];
    let mut buffer = ValueBuffer::default();
    let values = turn.library.entity_values(engine, &gpus, &[POWER, TEMPERATURE], Source::Cache, &mut buffer).unwrap();
    let order: Vec<_> = values.iter().map(|value| (value.entity.id, value.field)).collect();
    assert_eq!(order, [(1, POWER), (1, TEMPERATURE), (0, POWER), (0, TEMPERATURE)]);
    let fewer = turn.library.entity_values(engine, &gpus[..1], &[POWER], Source::Cache, &mut buffer).unwrap();
    assert_eq!(fewer.len(), 1, "a used buffer gives only what was asked for");
}

#[test]
fn a_manual_engine_reads_only_when_told_and_an_automatic_one_by_itself() {
    for version in VERSIONS {
        let mut scenario = h200s(version, 1);
        let turn = Turn::with(&scenario);
        let engine = turn.manual();
        let watched = turn.watch(engine, &[TEMPERATURE]);
        scenario.devices[0].set(TEMPERATURE, 70);
        turn.write(&scenario);
        assert_eq!(turn.only(engine, watched), Ok("Int(62)".to_owned()));
        turn.library.update_all_fields(engine, true).unwrap();
        assert_eq!(turn.only(engine, watched), Ok("Int(70)".to_owned()));
        turn.library.stop_embedded(engine).unwrap();

        let engine = turn.automatic();
        let watched = turn.watch(engine, &[TEMPERATURE]);
        scenario.devices[0].set(TEMPERATURE, 71);
        turn.write(&scenario);
        assert_eq!(turn.only(engine, watched), Ok("Int(71)".to_owned()));
    }
}

#[test]
fn an_event_field_has_no_data_until_something_happens() {
    for version in VERSIONS {
        let event = |id, value| Event { id, device: 0, field: FieldName(XID), value, replay: false };
        let mut scenario = Scenario { events: vec![event(1, 13)], ..h200s(version, 1) };
        let turn = Turn::with(&scenario);
        let engine = turn.automatic();
        let unwatched = turn.fields(engine, &[XID]);
        assert_eq!(turn.only(engine, unwatched), status(DcgmError::NOT_WATCHED));
        let watched = turn.watch(engine, &[XID]);
        assert_eq!(turn.only(engine, watched), status(DcgmError::NO_DATA), "event 1 was before the watch");
        scenario.events.extend([event(2, 79), event(3, 48)]);
        turn.write(&scenario);
        assert_eq!(turn.only(engine, watched), Ok("Int(48)".to_owned()));
        let mut all = Vec::new();
        let each = |_, values: &[dcgm_sys::FieldValueV1]| {
            all.extend(values.iter().map(|value| format!("{:?}", value.read().unwrap())));
            ControlFlow::Continue(())
        };
        let next = turn.library.values_since(engine, Group::ALL_GPUS, watched, 0, each).unwrap();
        assert_eq!(all, ["Int(79)", "Int(48)"], "the newest value alone would have missed one");
        let again = turn.library.values_since(engine, Group::ALL_GPUS, watched, next, |_, _| panic!("seen before"));
        assert_eq!(again, Ok(next));
    }
}

#[test]
fn a_watch_ends_with_unwatching_and_with_its_groups() {
    for version in VERSIONS {
        let turn = Turn::with(&h200s(version, 1));
        let engine = turn.automatic();
        let watched = turn.watch(engine, &[TEMPERATURE]);
        assert!(turn.only(engine, watched).is_ok());
        turn.library.unwatch_fields(engine, Group::ALL_GPUS, watched).unwrap();
        assert_eq!(turn.only(engine, watched), status(DcgmError::NOT_WATCHED));
        let since = turn.library.values_since(engine, Group::ALL_GPUS, watched, 0, |_, _| ControlFlow::Continue(()));
        assert_eq!(since, Err(DcgmError::NOT_WATCHED));
        let other = turn.watch(engine, &[TEMPERATURE]);
        assert!(turn.only(engine, watched).is_ok(), "another watch feeds the same cache");
        turn.library.field_group_destroy(engine, other).unwrap();
        assert_eq!(turn.only(engine, watched), status(DcgmError::NOT_WATCHED));
    }
}

#[test]
fn only_so_many_samples_are_kept() {
    let mut scenario = h200s("4.6.0", 1);
    let turn = Turn::with(&scenario);
    let engine = turn.manual();
    let fields = turn.fields(engine, &[TEMPERATURE]);
    let options = WatchOptions { keep_samples: Some(2), ..OFTEN };
    turn.library.watch_fields(engine, Group::ALL_GPUS, fields, options).unwrap();
    for temperature in [63, 64, 65] {
        scenario.devices[0].set(TEMPERATURE, temperature);
        turn.write(&scenario);
        turn.library.update_all_fields(engine, true).unwrap();
    }
    let mut kept = Vec::new();
    let each = |_, values: &[dcgm_sys::FieldValueV1]| {
        kept.extend(values.iter().map(|value| format!("{:?}", value.read().unwrap())));
        ControlFlow::Continue(())
    };
    turn.library.values_since(engine, Group::ALL_GPUS, fields, 0, each).unwrap();
    assert_eq!(kept, ["Int(64)", "Int(65)"]);
}

#[test]
fn a_live_read_asks_the_driver_without_a_watch() {
    for version in VERSIONS {
        let mut scenario = h200s(version, 1);
        scenario.devices[0].set(POWER, Reading::status(DcgmError::NO_PERMISSION));
        let turn = Turn::with(&scenario);
        let engine = turn.manual();
        let mut buffer = ValueBuffer::default();
        let gpu = [Entity::gpu(0)];
        let values =
            turn.library.entity_values(engine, &gpu, &[TEMPERATURE, POWER], Source::Live, &mut buffer).unwrap();
        assert_eq!(values[0].read().unwrap().as_f64(), Some(62.0));
        assert_eq!(values[1].read(), Err(Missing::Status(DcgmError::NO_PERMISSION)));
    }
}

#[test]
fn a_callback_can_stop_and_may_panic() {
    let turn = Turn::with(&h200s("4.6.0", 4));
    let engine = turn.manual();
    let watched = turn.watch(engine, &[TEMPERATURE]);
    let mut seen = 0;
    let each = |_, _: &[_]| {
        seen += 1;
        if seen == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    assert_eq!(turn.library.latest_values(engine, Group::ALL_GPUS, watched, each), Ok(()));
    assert_eq!(seen, 2);
    let panics = || turn.library.latest_values(engine, Group::ALL_GPUS, watched, |_, _| panic!("from the callback"));
    let panic = catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"from the callback"));
    assert_eq!(turn.latest(engine, watched).len(), 4, "the library is as good as before");
}

#[test]
fn groups_and_field_groups_have_rules() {
    for version in VERSIONS {
        let turn = Turn::with(&h200s(version, 2));
        let (engine, library) = (turn.manual(), &turn.library);
        let empty = library.group_create(engine, GroupType::EMPTY, "mine").unwrap();
        let fields = library.field_group_create(engine, &[TEMPERATURE], "same").unwrap();
        assert_eq!(library.watch_fields(engine, empty, fields, OFTEN), Err(DcgmError::GROUP_IS_EMPTY));
        library.group_add(engine, empty, Entity::gpu(1)).unwrap();
        assert_eq!(library.group_add(engine, empty, Entity::gpu(7)), Err(DcgmError::BAD_PARAMETER));
        library.watch_fields(engine, empty, fields, OFTEN).unwrap();
        assert_eq!(library.group_info(engine, empty).unwrap().entities, [Entity::gpu(1)]);
        library.group_remove(engine, empty, Entity::gpu(1)).unwrap();
        library.group_destroy(engine, empty).unwrap();
        assert_eq!(library.group_info(engine, empty), Err(DcgmError::NOT_CONFIGURED));
        assert_eq!(library.field_group_create(engine, &[POWER], "same"), Err(DcgmError::DUPLICATE_KEY));
        let many = vec![TEMPERATURE; 129];
        assert_eq!(library.field_group_create(engine, &many, "many"), Err(DcgmError::MAX_LIMIT));
        // Only DCGM 4 knows the margin to the temperature limit.
        let newer = library.field_group_create(engine, &[FieldId::DEV_GPU_TEMP_LIMIT], "newer");
        assert_eq!(newer.err(), version.starts_with('3').then_some(DcgmError::UNKNOWN_FIELD));
    }
}

#[test]
fn without_a_driver_the_majors_differ() {
    for version in VERSIONS {
        let turn = Turn::with(&Scenario { nvml: false, ..h200s(version, 1) });
        let engine = turn.automatic();
        let devices = turn.library.all_devices(engine);
        assert_eq!(devices, if version.starts_with('3') { Err(DcgmError::NVML_NOT_LOADED) } else { Ok(Vec::new()) });
        let fields = turn.fields(engine, &[TEMPERATURE]);
        let watch = turn.library.watch_fields(engine, Group::ALL_GPUS, fields, OFTEN);
        assert_eq!(watch, Err(DcgmError::NVML_NOT_LOADED));
        assert_eq!(turn.library.entities(engine, EntityGroup::GPU, false), Ok(Vec::new()));
    }
}
