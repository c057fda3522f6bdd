//! Processes of the test's own, joined with what a driver says about them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gpufleet_agent::processes::{HostContext, ProcessTable, UserNames};
use gpufleet_agent::sampler::Sampler;
use gpufleet_agent::{AgentSettings, BackendChoice, BackendOptions};
use gpufleet_backend::Worker;
use gpufleet_backend::sample::{BackendSample, PidUse};
use gpufleet_model::{ContextKind, Process, ProcessState, Unknown, UseReadings, Visibility};

const DEADLINE: Duration = Duration::from_mins(1);

/// A process of this test, gone with it.
struct Running(Child);

impl Running {
    fn shell(script: &str) -> Self {
        Self(Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    /// Waits until the script has printed a line.
    fn ready(&mut self) {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn collect(&mut self) {
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.collect();
    }
}

fn context() -> HostContext {
    HostContext { booted_at: SystemTime::UNIX_EPOCH, memory_total_bytes: Some(1 << 40), host_pid_namespace: true }
}

/// Reads a process again and again until the condition holds.
fn until(table: &mut ProcessTable, pid: u32, what: &str, condition: impl Fn(&Process) -> bool) -> Process {
    let start = Instant::now();
    loop {
        let process = table.read([pid], &context()).pop().unwrap();
        if condition(&process) {
            return process;
        }
        assert!(start.elapsed() < DEADLINE, "waited in vain for {what}: {process:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_process_is_read_and_its_cpu_use_needs_two_readings() {
    let mut busy = Running::shell("echo ready; while :; do :; done");
    busy.ready();
    let mut table = ProcessTable::for_few(UserNames::new());
    let first = table.read([busy.pid()], &context()).pop().unwrap();
    assert_eq!(first.info.visibility, Visibility::Visible);
    assert_eq!(first.info.name, "sh");
    assert_eq!(first.info.arguments[0], b"sh");
    assert_eq!(first.info.parent_pid, Some(std::process::id()));
    assert_eq!(first.info.user_id, Some(rustix::process::getuid().as_raw()));
    assert!(!first.info.kernel_thread);
    assert!(first.identity.start_ticks > 0);
    assert_eq!(first.readings.cpu_percent, Err(Unknown::NotYet));
    assert!(first.readings.host_memory_bytes.unwrap() > 100_000);
    assert_eq!(first.readings.thread_count, Ok(1));

    let second = until(&mut table, busy.pid(), "CPU use", |process| process.readings.cpu_percent.is_ok());
    assert_eq!(second.identity, first.identity);
    assert!(Arc::ptr_eq(&first.info, &second.info), "facts that did not change are shared");
    let used = until(&mut table, busy.pid(), "work", |process| process.readings.cpu_percent.unwrap() > 0.0);
    assert!(used.readings.cpu_percent.unwrap() < 150.0, "one thread: {:?}", used.readings.cpu_percent);
}

#[test]
fn an_ended_process_is_a_zombie_until_collected_and_then_exited() {
    let mut child = Running::shell("echo ready; exec sleep 600");
    child.ready();
    let mut table = ProcessTable::for_few(UserNames::new());
    let living = until(&mut table, child.pid(), "sleep", |process| process.info.name == "sleep");
    assert_eq!(living.info.arguments, [b"sleep".to_vec(), b"600".to_vec()], "an exec is noticed at once");

    child.0.kill().unwrap();
    let zombie = until(&mut table, child.pid(), "a zombie", |process| process.state == ProcessState::Zombie);
    assert_eq!(zombie.identity, living.identity);
    assert_eq!(zombie.info.visibility, Visibility::Visible);
    assert_eq!(zombie.info.arguments, Vec::<Vec<u8>>::new());

    child.collect();
    for _ in 0..2 {
        let gone = table.read([child.pid()], &context()).pop().unwrap();
        assert_eq!(gone.info.visibility, Visibility::Exited);
        assert_eq!(gone.identity, living.identity, "it stays the process that it was");
        assert_eq!(gone.info.user, living.info.user);
        assert_eq!(gone.readings.host_memory_bytes, Err(Unknown::Lost));
    }
    assert_eq!(table.read([], &context()), []);
    let forgotten = table.read([child.pid()], &context()).pop().unwrap();
    assert_eq!((forgotten.info.visibility, forgotten.identity.start_ticks), (Visibility::Exited, 0));
}

#[test]
fn a_pid_of_elsewhere_is_not_visible_in_a_namespace_of_ones_own() {
    let mut table = ProcessTable::for_few(UserNames::new());
    let own = HostContext { host_pid_namespace: false, ..context() };
    let process = table.read([4_000_000_000], &own).pop().unwrap();
    assert_eq!(process.info.visibility, Visibility::NotVisible);
    assert_eq!(process.readings.host_memory_bytes, Err(Unknown::NotSupported));
}

#[test]
fn a_changed_command_line_is_noticed_in_time() {
    let mut child = Running::shell("echo ready; read line; exec sh -c 'echo again; read line' renamed");
    child.ready();
    let mut table = ProcessTable::for_few(UserNames::new());
    let before = table.read([child.pid()], &context()).pop().unwrap();
    child.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    // The kernel's short name stays the same, so only the regular look at the facts can tell.
    let after =
        until(&mut table, child.pid(), "its new arguments", |process| process.info.arguments != before.info.arguments);
    assert_eq!(after.identity, before.identity);
    assert_eq!(after.info.arguments.last().unwrap(), b"renamed");
}

#[test]
fn every_process_can_be_read_without_keeping_files_open() {
    let open_files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mut table = ProcessTable::for_all(UserNames::new());
    let before = open_files();
    let pids = gpufleet_agent::processes::every_pid().unwrap();
    let processes = table.read(pids.iter().copied(), &context());
    assert_eq!(processes.len(), pids.len());
    assert!(open_files() <= before + 8, "other tests open a few");
    let kernel_thread = processes.iter().find(|process| process.info.kernel_thread);
    assert!(kernel_thread.is_none_or(|thread| thread.info.arguments.is_empty()));
}

/// What a driver with eight devices says when these processes use all of them.
fn sample(worker: &Worker, pids: &[u32]) -> BackendSample {
    let mut sample = (*worker.latest()).clone();
    sample.simulated_processes.clear();
    for device in &mut sample.devices {
        let readings = UseReadings::unknown(Unknown::NotSupported);
        let device_use = |pid: &u32| PidUse {
            pid: *pid,
            kind: ContextKind::Compute,
            gpu_instance_id: None,
            compute_instance_id: None,
            readings: readings.clone(),
        };
        device.uses = Ok(pids.iter().map(device_use).collect());
    }
    sample
}

fn worker() -> Worker {
    Worker::spawn(BackendChoice::Simulated { devices: 8 }, BackendOptions::default(), Duration::from_secs(1)).unwrap()
}

#[test]
fn a_process_on_eight_devices_is_one_process() {
    let child = Running::shell("read line");
    let worker = worker();
    let devices = worker.latest().devices.len();
    let mut sampler = Sampler::new(&AgentSettings::new("node1"), false, UserNames::new());
    let snapshot = sampler.sample(&sample(&worker, &[child.pid(), std::process::id()]));
    assert_eq!(snapshot.processes.len(), 2);
    for process in snapshot.processes.values() {
        let used: BTreeSet<_> = process.uses.iter().map(|device_use| device_use.device).collect();
        assert_eq!((used.len(), process.uses.len()), (devices, devices));
    }
    assert!(!snapshot.host.boot_id.is_empty() && snapshot.host.cpu_count > 0);
    assert_eq!(snapshot.host.readings.cpu_percent, Err(Unknown::NotYet));
    assert!(snapshot.host.readings.memory_used_bytes.unwrap() < snapshot.host.readings.memory_total_bytes.unwrap());
}

#[test]
fn what_does_not_change_is_shared_and_keys_are_kept() {
    let worker = worker();
    let mut sampler = Sampler::new(&AgentSettings::new("node1"), false, UserNames::new());
    let all = sample(&worker, &[]);
    let first = sampler.sample(&all);
    let second = sampler.sample(&all);
    assert_eq!(second.sequence, first.sequence + 1);
    for (key, device) in &first.devices {
        assert!(Arc::ptr_eq(device, &second.devices[key]));
    }
    let mut fewer = all.clone();
    fewer.devices.rotate_left(3);
    let missing = fewer.devices.pop().unwrap();
    assert_eq!(sampler.sample(&fewer).devices.len(), all.devices.len() - 1);
    let last = sampler.sample(&all);
    assert_eq!(last.devices, first.devices, "`{}` has its key again", missing.info.uuid);
}
