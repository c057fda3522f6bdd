//! Which library is loaded, and that versions of structs and functions are kept apart.

use std::ffi::c_void;
use std::os::unix::fs::symlink;

use dcgm_sys::entity::{GroupInfoV2, GroupInfoV3};
use dcgm_sys::health::{HealthResponseV4, HealthResponseV5};
use dcgm_sys::version::Versioned;
use dcgm_sys::{ConnectOptions, DcgmError, FieldId, Group, Handle, Library, LoadError, Major, Version};

use crate::{Turn, VERSIONS, built, child, engine, h200s, is_child, library};

#[test]
fn the_version_is_told_by_the_library() {
    for (version, major) in VERSIONS.into_iter().zip([Major::V3, Major::V4]) {
        let turn = Turn::with(&h200s(version, 1));
        assert_eq!(turn.library.major(), major);
        assert_eq!(turn.library.version().unwrap().to_string(), version);
    }
}

#[test]
fn a_name_that_contradicts_the_version_is_refused() {
    let turn = Turn::with(&h200s("3.3.9", 1));
    let error = Library::open(Some(&library("libdcgm.so.4"))).unwrap_err();
    drop(turn);
    assert!(matches!(error, LoadError::Contradiction { named: 4, version: Version { major: 3, .. }, .. }), "{error}");
}

#[test]
fn by_name_the_newer_major_version_is_found_first() {
    let folder = tempfile::tempdir().unwrap();
    symlink(built(), folder.path().join("libdcgm.so.3")).unwrap();
    let outputs = |version| {
        let output = child("loading::opens_by_name", &h200s(version, 1), folder.path());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(outputs("3.3.9").contains("found libdcgm.so.3 3.3.9"));
    symlink(built(), folder.path().join("libdcgm.so.4")).unwrap();
    assert!(outputs("4.2.3").contains("found libdcgm.so.4 4.2.3"));
}

#[test]
fn nothing_to_find_is_said_with_both_names() {
    let folder = tempfile::tempdir().unwrap();
    let output = child("loading::opens_by_name", &h200s("4.6.0", 1), folder.path());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("no DCGM library found, tried `libdcgm.so.4`, `libdcgm.so.3`"), "{text}");
}

#[test]
fn opens_by_name() {
    if !is_child() {
        return;
    }
    match Library::open(None) {
        Ok(library) => println!("found {} {}", library.path().display(), library.version().unwrap()),
        Err(error) => println!("{error}"),
    }
}

#[test]
fn nothing_works_before_the_library_is_started() {
    for version in VERSIONS {
        let turn = Turn::with(&h200s(version, 1));
        let engine = turn.manual();
        assert!(turn.library.field_meta(FieldId::DEV_GPU_TEMP).is_some());
        turn.library.shutdown().unwrap();
        assert_eq!(turn.library.all_devices(engine), Err(DcgmError::UNINITIALIZED));
        assert_eq!(turn.library.field_meta(FieldId::DEV_GPU_TEMP), None);
        turn.library.init().unwrap();
        assert_eq!(turn.library.all_devices(engine), Err(DcgmError::UNINITIALIZED), "the engine ended too");
    }
}

fn refused<T: Versioned>(call: impl FnOnce(*mut c_void) -> i32) {
    let mut value = T::boxed();
    let pointer: *mut T = &raw mut *value;
    assert_eq!(call(pointer.cast()), DcgmError::VERSION_MISMATCH.code);
}

#[test]
fn structs_of_the_other_major_version_are_refused() {
    for version in VERSIONS {
        let turn = Turn::with(&h200s(version, 1));
        let engine = turn.manual();
        let group = turn.library.group_create(engine, dcgm_sys::GroupType::ALL_GPUS, "all").unwrap();
        let symbols = turn.library.symbols();
        // SAFETY: structs of the version that their word tells.
        unsafe {
            if turn.library.major() == Major::V3 {
                refused::<HealthResponseV5>(|pointer| (symbols.dcgmHealthCheck)(engine, group, pointer));
                refused::<GroupInfoV3>(|pointer| (symbols.dcgmGroupGetInfo)(engine, group, pointer));
            } else {
                refused::<HealthResponseV4>(|pointer| (symbols.dcgmHealthCheck)(engine, group, pointer));
                refused::<GroupInfoV2>(|pointer| (symbols.dcgmGroupGetInfo)(engine, group, pointer));
            }
        }
        assert_eq!(turn.library.group_info(engine, group).unwrap().name, "all");
        assert!(turn.library.health_check(engine, group).is_ok());
    }
}

#[test]
fn connecting_by_uri_came_with_4_5() {
    for (version, has) in [("3.3.9", false), ("4.2.3", false), ("4.5.3", true)] {
        let turn =
            Turn::with(&gpufleet_fake_dcgm::scenario::Scenario { engine: Some(engine(version)), ..h200s(version, 1) });
        let answer: Result<Handle, _> = turn.library.connect_uri("tcp://127.0.0.1:5555", ConnectOptions::default());
        if has {
            assert_eq!(turn.library.all_devices(answer.unwrap()), Ok(vec![0]));
        } else {
            assert_eq!(answer, Err(DcgmError::FUNCTION_NOT_FOUND));
        }
    }
}

#[test]
fn initialisation_and_start_fail_with_the_chosen_code() {
    let mut scenario = h200s("4.6.0", 1);
    let turn = Turn::with(&scenario);
    turn.library.shutdown().unwrap();
    scenario.init = Some(gpufleet_fake_dcgm::scenario::Name(DcgmError::LIBRARY_NOT_FOUND));
    turn.write(&scenario);
    assert_eq!(turn.library.init(), Err(DcgmError::LIBRARY_NOT_FOUND));
    scenario.init = None;
    scenario.embedded = Some(gpufleet_fake_dcgm::scenario::Name(DcgmError::INIT));
    turn.write(&scenario);
    turn.library.init().unwrap();
    let start =
        turn.library.start_embedded(dcgm_sys::engine::OperationMode::AUTO, &dcgm_sys::EmbeddedOptions::default());
    assert_eq!(start, Err(DcgmError::INIT));
    assert_eq!(turn.library.error_text(DcgmError::INIT).as_deref(), Some(DcgmError::INIT.meaning()));
    assert_eq!(turn.library.error_text(DcgmError { code: -999 }), None);
    assert_eq!(turn.library.all_devices(Handle(0x7fff_ffff)), Err(DcgmError::UNINITIALIZED));
    assert!(turn.library.group_destroy(Handle(3), Group::NULL).is_err());
}
