//! Remote engines: absent, of another version, killed, restarted, slow.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use dcgm_sys::module::{ModuleId, ModuleStatus};
use dcgm_sys::{
    Address, ConnectOptions, DcgmError, EmbeddedOptions, EntityGroup, FieldId, Group, GroupType, Handle, HealthReport,
};
use gpufleet_fake_dcgm::scenario::{FixedModule, Name, Rule, Scenario};

use crate::{OFTEN, Turn, VERSIONS, engine, eventually, h200s};

const TCP: &str = "127.0.0.1:5555";
const TEMPERATURE: FieldId = FieldId::DEV_GPU_TEMP;

fn rule(function: &str) -> Rule {
    Rule { function: function.to_owned(), ..Rule::default() }
}

#[test]
fn nobody_listens() {
    for version in VERSIONS {
        let mut scenario = h200s(version, 1);
        let turn = Turn::with(&scenario);
        assert_eq!(turn.connect(TCP), Err(DcgmError::CONNECTION_NOT_VALID));
        scenario.engine = Some(engine(version));
        turn.write(&scenario);
        assert_eq!(turn.connect("other:5555"), Err(DcgmError::CONNECTION_NOT_VALID));
        assert!(turn.connect(TCP).is_ok());
    }
}

#[test]
fn a_unix_socket_is_an_address_too() {
    let path = "/run/nv-hostengine.sock";
    let mut listening = engine("4.6.0");
    listening.addresses = vec![path.to_owned()];
    let turn = Turn::with(&Scenario { engine: Some(listening), ..h200s("4.6.0", 2) });
    let options = ConnectOptions { timeout: Some(Duration::from_millis(300)), persist: false };
    let remote = turn.library.connect(&Address::Unix(PathBuf::from(path)), options).unwrap();
    assert_eq!(turn.library.all_devices(remote), Ok(vec![0, 1]));
    assert_eq!(turn.library.engine_build(remote).unwrap().version.unwrap().to_string(), "4.6.0");
    assert_eq!(turn.library.engine_is_healthy(remote), Ok(true));
}

#[test]
fn an_engine_of_another_major_version_connects_and_then_answers_nothing() {
    for (library, running) in [("3.3.9", "4.6.0"), ("4.6.0", "3.3.9")] {
        let turn = Turn::with(&Scenario { engine: Some(engine(running)), ..h200s(library, 1) });
        let remote = turn.connect(TCP).unwrap();
        assert_eq!(turn.library.all_devices(remote), Err(DcgmError::VERSION_MISMATCH));
        assert_eq!(turn.library.engine_build(remote), Err(DcgmError::VERSION_MISMATCH));
        turn.library.disconnect(remote).unwrap();
    }
}

#[test]
fn a_killed_engine_invalidates_the_connection_and_a_new_one_has_forgotten_everything() {
    for version in VERSIONS {
        let mut scenario = Scenario { engine: Some(engine(version)), ..h200s(version, 1) };
        let turn = Turn::with(&scenario);
        let remote = turn.connect(TCP).unwrap();
        let fields = turn.watch(remote, &[TEMPERATURE]);
        let group = turn.library.group_create(remote, GroupType::ALL_GPUS, "mine").unwrap();
        scenario.engine = None;
        turn.write(&scenario);
        assert_eq!(turn.library.group_info(remote, group), Err(DcgmError::CONNECTION_NOT_VALID));
        scenario.engine = Some(engine(version));
        turn.write(&scenario);
        assert_eq!(turn.library.group_info(remote, group), Err(DcgmError::CONNECTION_NOT_VALID), "a handle stays dead");
        let again = turn.connect(TCP).unwrap();
        assert_eq!(turn.library.group_info(again, group), Err(DcgmError::NOT_CONFIGURED));
        let nothing = turn.library.latest_values(again, Group::ALL_GPUS, fields, |_, _| ControlFlow::Continue(()));
        assert_eq!(nothing, Err(DcgmError::NO_DATA));
    }
}

#[test]
fn what_a_connection_made_ends_with_it_unless_it_persists() {
    let turn = Turn::with(&Scenario { engine: Some(engine("4.6.0")), ..h200s("4.6.0", 1) });
    for persist in [false, true] {
        let options = ConnectOptions { timeout: None, persist };
        let remote = turn.library.connect(&Address::Tcp(TCP.to_owned()), options).unwrap();
        let group = turn.library.group_create(remote, GroupType::ALL_GPUS, "mine").unwrap();
        turn.library.disconnect(remote).unwrap();
        assert_eq!(turn.library.disconnect(remote), Err(DcgmError::BAD_PARAMETER));
        let next = turn.connect(TCP).unwrap();
        assert_eq!(turn.library.group_info(next, group).is_ok(), persist);
    }
}

#[test]
fn an_embedded_and_a_remote_engine_are_two() {
    let turn = Turn::with(&Scenario { engine: Some(engine("4.6.0")), ..h200s("4.6.0", 1) });
    let (embedded, remote) = (turn.automatic(), turn.connect(TCP).unwrap());
    assert_eq!(embedded, Handle(0x7fff_ffff));
    let group = turn.library.group_create(embedded, GroupType::ALL_GPUS, "mine").unwrap();
    assert!(turn.library.group_info(embedded, group).is_ok());
    assert!(turn.library.group_info(remote, group).is_err());
    turn.library.stop_embedded(embedded).unwrap();
    assert_eq!(turn.library.all_devices(embedded), Err(DcgmError::UNINITIALIZED));
    assert_eq!(turn.library.all_devices(remote), Ok(vec![0]));
}

#[test]
fn a_slow_answer_comes_late_and_another_thread_is_not_held_up() {
    let slow = Rule { hang_ms: Some(150), ..rule("dcgmHealthCheck") };
    let turn = Turn::with(&Scenario { rules: vec![slow], ..h200s("4.6.0", 1) });
    let engine = turn.automatic();
    let began = Instant::now();
    std::thread::scope(|scope| {
        let check = scope.spawn(|| turn.library.health_check(engine, Group::ALL_GPUS).map(|_| began.elapsed()));
        assert_eq!(turn.library.all_devices(engine), Ok(vec![0]));
        assert!(check.join().unwrap().unwrap() >= Duration::from_millis(150));
    });
}

#[test]
fn a_hung_call_ends_when_the_scenario_says_so() {
    let mut scenario = Scenario { rules: vec![Rule { hang: true, ..rule("*") }], ..h200s("4.6.0", 1) };
    let turn = Turn::with(&scenario);
    let engine = turn.automatic();
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel::<Result<HealthReport, DcgmError>>();
        let library = &turn.library;
        scope.spawn(move || sender.send(library.health_check(engine, Group::ALL_GPUS)).unwrap());
        assert!(receiver.recv_timeout(Duration::from_millis(50)).is_err(), "it hangs");
        scenario.rules.clear();
        turn.write(&scenario);
        assert!(receiver.recv_timeout(Duration::from_secs(20)).unwrap().is_ok());
    });
}

#[test]
fn a_rule_answers_for_so_many_calls() {
    let fails = Rule { code: Some(Name(DcgmError::TIMEOUT)), times: Some(2), ..rule("dcgmGetAllDevices") };
    let turn = Turn::with(&Scenario { rules: vec![fails], ..h200s("3.3.9", 1) });
    let engine = turn.automatic();
    let answers: Vec<_> = (0..3).map(|_| turn.library.all_devices(engine)).collect();
    assert_eq!(answers, [Err(DcgmError::TIMEOUT), Err(DcgmError::TIMEOUT), Ok(vec![0])]);
}

#[test]
fn modules_load_on_use_and_can_be_denied_or_broken() {
    for version in VERSIONS {
        let broken = FixedModule { module: Name(ModuleId::POLICY), status: Name(ModuleStatus::FAILED) };
        let turn = Turn::with(&Scenario { modules: vec![broken], ..h200s(version, 1) });
        let options = EmbeddedOptions { deny: vec![ModuleId::HEALTH], ..EmbeddedOptions::default() };
        let engine = turn.library.start_embedded(dcgm_sys::engine::OperationMode::AUTO, &options).unwrap();
        assert_eq!(turn.library.engine_memory_bytes(engine, true), Ok(38_000_000));
        assert!(turn.library.engine_cpu(engine, true).unwrap().total > 0.0);
        assert_eq!(turn.library.health_check(engine, Group::ALL_GPUS), Err(DcgmError::MODULE_NOT_LOADED));
        assert_eq!(turn.library.policy_get(engine, Group::ALL_GPUS, 1).err(), Some(DcgmError::MODULE_NOT_LOADED));
        let modules = turn.library.module_statuses(engine).unwrap();
        assert_eq!(modules.len(), if version.starts_with('3') { 10 } else { 11 });
        let status = |id| modules.iter().find(|module| module.id == id).map(|module| module.status);
        assert_eq!(status(ModuleId::CORE), Some(ModuleStatus::LOADED));
        assert_eq!(status(ModuleId::INTROSPECT), Some(ModuleStatus::LOADED));
        assert_eq!(status(ModuleId::HEALTH), Some(ModuleStatus::DENYLISTED));
        assert_eq!(status(ModuleId::POLICY), Some(ModuleStatus::FAILED));
        assert_eq!(status(ModuleId::DIAG), Some(ModuleStatus::NOT_LOADED));
    }
}

#[test]
fn calls_are_logged_and_a_bad_scenario_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("calls");
    let turn = Turn::with(&Scenario { call_log: Some(log.clone()), ..h200s("4.6.0", 3) });
    let engine = turn.automatic();
    crate::write(&turn.scenario, "devices = 3");
    assert_eq!(turn.library.entities(engine, EntityGroup::GPU, true), Ok(vec![0, 1, 2]));
    let logged = std::fs::read_to_string(log).unwrap();
    assert!(logged.ends_with("dcgmInit\ndcgmStartEmbedded_v2\ndcgmGetEntityGroupEntities\n"), "{logged}");
    turn.write(&h200s("4.6.0", 1));
    eventually(|| turn.library.all_devices(engine) == Ok(vec![0]));
    let fields = turn.fields(engine, &[TEMPERATURE]);
    assert_eq!(turn.library.watch_fields(engine, Group::ALL_GPUS, fields, OFTEN), Ok(()));
}
