//! `gpuctl kill` through the whole chain, on real processes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it fails"
)]

use std::time::Duration;

use gpufleet_tests::scenario::{Device, Process};
use gpufleet_tests::terminal::Terminal;
use gpufleet_tests::{Fleet, Workload, eventually, json, never_within};

const GIB: u64 = 1 << 30;

/// One host with one device, on it a process of ours, seen by the aggregator.
struct Scene {
    fleet: Fleet,
    workload: Workload,
}

impl Scene {
    fn with(workload: Workload) -> Self {
        let fleet = Fleet::start(vec![("host1", vec![Device::h200(0)])]);
        fleet.agents[0].driver.add_process(0, Process::busy(workload.pid(), 2 * GIB, 90));
        fleet.until_listed(workload.pid());
        Self { fleet, workload }
    }

    fn new(mark: &str) -> Self {
        Self::with(Workload::start(mark))
    }

    fn target(&self) -> String {
        format!("host1:{}", self.workload.pid())
    }

    fn device_memory(&self) -> u64 {
        let answer = self.fleet.ask(&["devices"]);
        json::row(&answer, "devices", "host", "host1")["memory_used_bytes"].as_u64().unwrap()
    }

    fn terminal(&self, arguments: &[&str]) -> Terminal {
        let target = self.target();
        let all: Vec<_> = ["kill", &target].iter().chain(arguments).copied().collect();
        Terminal::start(&self.fleet.gpuctl(all))
    }

    /// Fails if the process is hit within a moment.
    fn not_hit(&mut self) {
        let workload = &mut self.workload;
        never_within(Duration::from_millis(500), "the process was hit", || workload.runs());
    }
}

#[test]
fn after_a_yes_the_process_is_hit() {
    let mut scene = Scene::new("kill-after-yes");
    let mut terminal = scene.terminal(&[]);
    let shown = terminal.sees("[y/N]");
    for part in ["host1", &scene.workload.pid().to_string(), "kill-after-yes", "root"] {
        assert!(shown.contains(part), "`{part}` is not shown before the question:\n{shown}");
    }
    terminal.types("y");
    let (rest, code) = terminal.ends();
    assert_eq!(code, 0, "{rest}");
    assert_eq!(scene.workload.ended_by(), Some(15), "{rest}");
}

#[test]
fn anything_but_yes_declines() {
    let mut scene = Scene::new("kill-declined");
    for answer in ["n", "", "no", "yikes", "Y please"] {
        let mut terminal = scene.terminal(&[]);
        terminal.sees("[y/N]");
        terminal.types(answer);
        let (rest, code) = terminal.ends();
        assert_eq!(code, 6, "after `{answer}`: {rest}");
    }
    scene.not_hit();
}

#[test]
fn ctrl_c_at_the_question_interrupts() {
    let mut scene = Scene::new("kill-interrupted");
    let mut terminal = scene.terminal(&[]);
    terminal.sees("[y/N]");
    terminal.control('c');
    match terminal.end() {
        gpufleet_tests::terminal::End::Exited(130) | gpufleet_tests::terminal::End::Signalled(2) => {}
        other => panic!("{other:?}"),
    }
    scene.not_hit();
}

#[test]
fn without_a_terminal_yes_must_be_given() {
    let mut scene = Scene::new("kill-no-terminal");
    let finished = scene.fleet.gpuctl(["kill", &scene.target()]).run().expect_code(2);
    assert!(finished.stderr.contains("--yes"), "{}", finished.stderr);
    scene.not_hit();
    scene.fleet.gpuctl(["kill", &scene.target(), "--yes", "--signal", "KILL"]).run().expect_code(0);
    assert_eq!(scene.workload.ended_by(), Some(9));
}

#[test]
fn a_dry_run_shows_and_hits_nothing() {
    let mut scene = Scene::new("kill-dry-run");
    let finished = scene.fleet.gpuctl(["kill", &scene.target(), "--dry-run"]).run().expect_code(0);
    assert!(finished.stdout.contains("kill-dry-run"), "{}", finished.stdout);
    scene.not_hit();
}

#[test]
fn wait_lasts_until_the_process_is_gone_and_its_memory_free() {
    let mut scene = Scene::new("kill-wait");
    let before = scene.device_memory();
    scene.fleet.agents[0].driver.update(|scenario| scenario.release_on_exit_ms = Some(1_000));
    let finished = scene.fleet.gpuctl(["kill", &scene.target(), "--yes", "--wait", "30s"]).run().expect_code(0);
    assert_eq!(scene.workload.ended_by(), Some(15), "{}{}", finished.stdout, finished.stderr);
    eventually("the memory is free", || {
        let now = scene.device_memory();
        if before - now == 2 * GIB { Ok(()) } else { Err(now) }
    });
}

#[test]
fn a_wait_that_is_too_short_fails_and_does_not_escalate() {
    let mut scene = Scene::with(Workload::stubborn("kill-stubborn"));
    let finished = scene.fleet.gpuctl(["kill", &scene.target(), "--yes", "--wait", "1s"]).run().expect_code(1);
    let said = finished.stdout + &finished.stderr;
    assert!(said.contains("still") || said.contains("not gone"), "{said}");
    scene.not_hit();
}

#[test]
fn a_process_that_vanishes_at_the_question_is_reported_and_nothing_is_hit() {
    let mut scene = Scene::new("kill-vanished");
    let mut terminal = scene.terminal(&[]);
    terminal.sees("[y/N]");
    let pid = rustix::process::Pid::from_raw(scene.workload.pid().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert_eq!(scene.workload.ended_by(), Some(9));
    terminal.types("y");
    let (rest, code) = terminal.ends();
    assert_eq!(code, 1, "{rest}");
}

/// Needs the right to choose pids; where it lacks, the forged identity of `wrong_identities_hit_nothing` stands for it.
#[test]
fn a_reused_pid_is_reported_and_nothing_is_hit() {
    let mut scene = Scene::new("kill-reused");
    let pid = scene.workload.pid();
    let mut terminal = scene.terminal(&[]);
    terminal.sees("[y/N]");
    let old = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(old, rustix::process::Signal::KILL).unwrap();
    scene.workload.ended_by();
    let Some(mut heir) = Workload::start_as(pid, "kill-heir") else {
        eprintln!("not shown here: this machine does not let us choose a pid");
        return;
    };
    terminal.types("y");
    let (rest, code) = terminal.ends();
    assert_eq!(code, 1, "{rest}");
    never_within(Duration::from_millis(500), "the heir of the pid was hit", || heir.runs());
}

#[test]
fn what_does_not_exist_is_an_error() {
    let mut scene = Scene::new("kill-unknown");
    let pid = scene.workload.pid();
    for (target, part) in [(format!("host9:{pid}"), "host9"), ("host1:4194303".to_owned(), "4194303")] {
        let finished = scene.fleet.gpuctl(["kill", &target, "--yes"]).run().expect_code(1);
        assert!(finished.stderr.contains(part), "{}", finished.stderr);
    }
    for target in ["host1", "host1:", ":1", "host1:x", "host1:0", "host1:-5"] {
        scene.fleet.gpuctl(["kill", target, "--yes"]).run().expect_code(2);
    }
    scene.not_hit();
    // One of two does not exist: that is told, and the other is hit.
    let finished = scene.fleet.gpuctl(["kill", &scene.target(), "host1:4194303", "--yes"]).run().expect_code(3);
    assert!(finished.stderr.contains("host1:4194303"), "{}", finished.stderr);
    assert_eq!(scene.workload.ended_by(), Some(15));
}

#[test]
fn who_may_not_signal_is_refused() {
    let mut scene = Scene::new("kill-refused");
    let stranger = scene.fleet.sandbox.gpuctl("mallory", scene.fleet.address);
    let finished = stranger.args(["kill", &scene.target(), "--yes"]).run().expect_code(4);
    assert!(finished.stderr.contains("mallory"), "{}", finished.stderr);
    scene.not_hit();
}

#[test]
fn init_and_the_agent_itself_are_protected() {
    let scene = Scene::new("kill-protected");
    let agent = scene.fleet.agents[0].program.pid();
    scene.fleet.agents[0].driver.update(|scenario| {
        scenario.devices[0].processes.extend([Process::idle(1, GIB), Process::idle(agent, GIB)]);
    });
    for pid in [1, agent] {
        scene.fleet.until_listed(pid);
        let target = format!("host1:{pid}");
        let finished = scene.fleet.gpuctl(["kill", &target, "--yes", "--signal", "CONT"]).run();
        assert!([1, 4].contains(&finished.code()), "{finished:?}");
    }
}

#[test]
fn people_may_signal_processes_of_their_own_name() {
    let mut scene = Scene::new("kill-own");
    let answer = scene.fleet.ask(&["ps"]);
    let owner = json::row(&answer, "processes", "pid", scene.workload.pid())["user"].as_str().unwrap().to_owned();
    let owner = scene.fleet.sandbox.gpuctl(&owner, scene.fleet.address);
    owner.args(["kill", &scene.target(), "--yes", "--signal", "INT"]).run().expect_code(0);
    assert_eq!(scene.workload.ended_by(), Some(2));
}

#[test]
fn a_host_that_does_not_answer_is_not_reported_as_done() {
    let scene = Scene::new("kill-frozen");
    scene.fleet.agents[0].program.signal(rustix::process::Signal::STOP);
    let finished = scene.fleet.gpuctl(["kill", &scene.target(), "--yes", "--signal", "USR1"]).run();
    assert!([1, 3, 5].contains(&finished.code()), "{finished:?}");
    let said = finished.stdout + &finished.stderr;
    assert!(!said.contains("delivered\n"), "{said}");
    scene.fleet.agents[0].program.signal(rustix::process::Signal::CONT);
    scene.fleet.until_host_is("host1", "connected");
}
