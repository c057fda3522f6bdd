//! Profiling fields: blank for one interval, in need of a module on older GPUs, and deadly when read live.

use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use dcgm_sys::blank::Blank;
use dcgm_sys::engine::OperationMode;
use dcgm_sys::{
    DcgmError, EmbeddedOptions, Entity, FieldId, Group, Handle, Library, Missing, Source, ValueBuffer, WatchOptions,
};
use gpufleet_fake_dcgm::scenario::{Device, Scenario};

use crate::{OFTEN, Turn, VERSIONS, built, child, engine, eventually, h200s, is_child};

const SM: FieldId = FieldId::PROF_SM_ACTIVE;
const TEMPERATURE: FieldId = FieldId::DEV_GPU_TEMP;

/// A live read as a client without scruples makes it.
fn read_live(library: &Library, engine: Handle, field: FieldId) -> i32 {
    let mut value = <dcgm_sys::FieldValueV2 as dcgm_sys::version::Zeroable>::boxed_zeroed();
    let (mut entity, mut field) = (Entity::gpu(0), field);
    let call = library.symbols().dcgmEntitiesGetLatestValues;
    // SAFETY: one entity, one field, one value.
    unsafe { call(engine, &raw mut entity, 1, &raw mut field, 1, 1, &raw mut *value) }
}

#[test]
fn values_are_blank_for_one_interval() {
    for version in VERSIONS {
        let turn = Turn::with(&h200s(version, 1));
        let engine = turn.manual();
        let fields = turn.fields(engine, &[SM]);
        let options = WatchOptions { every: Duration::from_millis(50), ..OFTEN };
        turn.library.watch_fields(engine, Group::ALL_GPUS, fields, options).unwrap();
        assert_eq!(turn.only(engine, fields), Err(Missing::Blank(Blank::Unknown)));
        eventually(|| {
            turn.library.update_all_fields(engine, true).unwrap();
            turn.only(engine, fields).is_ok()
        });
        assert_eq!(turn.only(engine, fields), Ok("Double(0.950479)".to_owned()));
    }
}

#[test]
fn an_older_gpu_needs_the_module_and_the_rest_of_the_group_is_watched_all_the_same() {
    for version in VERSIONS {
        let mut scenario =
            Scenario { version: version.to_owned(), devices: vec![Device::v100(0)], ..Scenario::default() };
        let turn = Turn::with(&scenario);
        let engine = turn.automatic();
        let fields = turn.fields(engine, &[SM, TEMPERATURE]);
        let watch = turn.library.watch_fields(engine, Group::ALL_GPUS, fields, OFTEN);
        assert_eq!(watch, Err(DcgmError::MODULE_NOT_LOADED));
        let found = turn.latest(engine, fields);
        assert_eq!(found[0].2, Err(Missing::Status(DcgmError::NOT_WATCHED)));
        assert_eq!(found[1].2, Ok("Int(32)".to_owned()));
        assert_eq!(turn.library.metric_groups(engine, 0).err(), Some(DcgmError::MODULE_NOT_LOADED));
        scenario.profiling_module = true;
        turn.write(&scenario);
        assert_eq!(turn.library.watch_fields(engine, Group::ALL_GPUS, fields, OFTEN), Ok(()));
        assert_eq!(turn.library.metric_groups(engine, 0).unwrap().len(), 3);
    }
}

#[test]
fn the_safe_call_refuses_a_live_read() {
    for version in VERSIONS {
        let turn = Turn::with(&h200s(version, 1));
        let engine = turn.automatic();
        turn.watch(engine, &[SM]);
        let mut buffer = ValueBuffer::default();
        let live = |field| {
            turn.library.entity_values(engine, &[Entity::gpu(0)], &[field], Source::Live, &mut buffer).map(|_| ()).err()
        };
        assert_eq!([SM, FieldId(1075)].map(live), [Some(DcgmError::FIELD_UNSUPPORTED_BY_API); 2]);
    }
}

#[test]
fn a_live_read_kills_the_process_of_an_embedded_engine() {
    let folder = tempfile::tempdir().unwrap();
    symlink(built(), folder.path().join("libdcgm.so.4")).unwrap();
    let output = child("profiling::reads_live", &h200s("4.6.0", 1), folder.path());
    assert_eq!(output.status.signal(), Some(6), "{output:?}");
}

#[test]
fn reads_live() {
    if !is_child() {
        return;
    }
    let library = Library::open(None).unwrap();
    library.init().unwrap();
    let engine = library.start_embedded(OperationMode::AUTO, &EmbeddedOptions::default()).unwrap();
    assert_eq!(read_live(&library, engine, TEMPERATURE), 0);
    read_live(&library, engine, SM);
    println!("still alive");
}

#[test]
fn a_live_read_kills_a_remote_engine_and_3_3_runs_through() {
    let mut scenario = Scenario { engine: Some(engine("4.6.0")), ..h200s("4.6.0", 1) };
    let turn = Turn::with(&scenario);
    let remote = turn.connect("127.0.0.1").unwrap();
    assert_eq!(read_live(&turn.library, remote, SM), DcgmError::CONNECTION_NOT_VALID.code);
    assert_eq!(turn.library.all_devices(remote), Err(DcgmError::CONNECTION_NOT_VALID));
    assert_eq!(turn.connect("127.0.0.1"), Err(DcgmError::CONNECTION_NOT_VALID), "nobody listens any more");
    scenario.engine = Some(engine("4.6.0"));
    turn.write(&scenario);
    let restarted = turn.connect("127.0.0.1").unwrap();
    assert_eq!(turn.library.all_devices(restarted), Ok(vec![0]));
    drop(turn);

    let turn = Turn::with(&h200s("3.3.9", 1));
    let embedded = turn.automatic();
    assert_eq!(read_live(&turn.library, embedded, SM), 0);
}
