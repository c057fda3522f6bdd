//! Signals to real processes of the test's own.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gpufleet_agent::processes::start_ticks;
use gpufleet_model::ProcessIdentity;
use gpufleet_proto::status::Reason;
use gpufleet_proto::v1::{self, SignalOutcome, SignalProcessResponse};
use tokio::time::Instant;
use tonic::Code;

use crate::world::{Client, World, in_time, signal_request};

const TERM: u32 = 15;
const KILL: u32 = 9;

/// A process that sleeps until it is signalled, and is gone with the test.
struct Victim(Child);

impl Victim {
    fn sleeping() -> Self {
        Self(Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap())
    }

    fn identity(&self) -> ProcessIdentity {
        identity(self.0.id())
    }

    /// The signal that ended it.
    fn ended_by(&mut self) -> Option<i32> {
        self.0.wait().unwrap().signal()
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn identity(pid: u32) -> ProcessIdentity {
    ProcessIdentity { pid, start_ticks: start_ticks(pid).unwrap() }
}

type Change = fn(&mut v1::SignalProcessRequest);

async fn send(client: &mut Client, request: v1::SignalProcessRequest) -> SignalProcessResponse {
    in_time("an answer", client.signal_process(request)).await.unwrap().into_inner()
}

async fn signal(client: &mut Client, identity: ProcessIdentity, number: u32, id: &str) -> SignalProcessResponse {
    let request = signal_request(client, identity, number, id).await;
    send(client, request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pinned_process_gets_the_signal() {
    let world = World::real().await;
    let mut client = world.aggregator().await;
    let mut victim = Victim::sleeping();
    let answer = signal(&mut client, victim.identity(), TERM, "one").await;
    assert_eq!(answer.outcome(), SignalOutcome::Delivered, "{answer:?}");
    assert_eq!(answer.progress, None);
    assert_eq!(victim.ended_by(), Some(15));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reused_pid_is_not_hit() {
    let world = World::real().await;
    let mut client = world.aggregator().await;
    let mut victim = Victim::sleeping();
    let before = ProcessIdentity { start_ticks: victim.identity().start_ticks - 1, ..victim.identity() };
    let answer = signal(&mut client, before, KILL, "one").await;
    assert_eq!(answer.outcome(), SignalOutcome::IdentityChanged, "{answer:?}");
    assert!(victim.lives());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_ended_is_said_to_have_ended() {
    let world = World::real().await;
    let mut client = world.aggregator().await;
    let mut victim = Victim::sleeping();
    let identity = victim.identity();
    victim.0.kill().unwrap();
    // Not collected yet: a zombie takes signals, and nothing comes of them.
    in_time("a zombie", async {
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", identity.pid)).unwrap();
        while !state().contains(") Z ") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(signal(&mut client, identity, TERM, "zombie").await.outcome(), SignalOutcome::NotFound);
    victim.ended_by();
    assert_eq!(signal(&mut client, identity, TERM, "gone").await.outcome(), SignalOutcome::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn some_are_never_hit() {
    let world = World::real().await;
    let mut client = world.aggregator().await;
    let myself = identity(std::process::id());
    assert_eq!(signal(&mut client, myself, TERM, "myself").await.outcome(), SignalOutcome::Protected);
    let first = ProcessIdentity { pid: 1, start_ticks: start_ticks(1).unwrap().max(1) };
    let outcome = signal(&mut client, first, TERM, "first").await.outcome();
    // Where the first process started in the first tick, its start is 0 and cannot be named.
    assert!(matches!(outcome, SignalOutcome::Protected | SignalOutcome::IdentityChanged), "{outcome:?}");
    let nobody = ProcessIdentity { pid: 0, start_ticks: 1 };
    assert_eq!(signal(&mut client, nobody, TERM, "nobody").await.outcome(), SignalOutcome::Protected);
    let impossible = ProcessIdentity { pid: u32::MAX, start_ticks: 1 };
    let outcome = signal(&mut client, impossible, TERM, "impossible").await.outcome();
    assert!(matches!(outcome, SignalOutcome::NotFound | SignalOutcome::Protected), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protected_name_is_not_hit() {
    let world = World::start(gpufleet_agent::BackendChoice::Auto, |settings| {
        settings.backend_options.nvml_library = Some("/nonexistent".into());
        settings.protection = gpufleet_agent::signal::Protection::of(["slee*".to_owned()]).unwrap();
    })
    .await;
    let mut client = world.aggregator().await;
    let mut victim = Victim::sleeping();
    in_time("the program", async {
        let name = || std::fs::read_to_string(format!("/proc/{}/comm", victim.0.id())).unwrap();
        while name().trim() != "sleep" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let answer = signal(&mut client, victim.identity(), KILL, "one").await;
    assert_eq!(answer.outcome(), SignalOutcome::Protected, "{answer:?}");
    assert!(answer.message.contains("slee*"), "{}", answer.message);
    assert!(victim.lives());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_is_answered_and_not_executed() {
    let world = World::real().await;
    let mut client = world.aggregator().await;
    // Counts how often it was signalled, and says when it is ready.
    let script = "trap 'n=$((n+1)); echo $n' USR1; echo 0; while :; do sleep 0.01; done";
    let child = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut victim = Victim(child);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(victim.0.stdout.take().unwrap()));
    assert_eq!(lines.next().unwrap().unwrap(), "0");

    let request = signal_request(&mut client, victim.identity(), 10, "same").await;
    let first = send(&mut client, request.clone()).await;
    assert_eq!(first.outcome(), SignalOutcome::Delivered);
    assert_eq!(lines.next().unwrap().unwrap(), "1");
    assert_eq!(send(&mut client, request.clone()).await, first);

    // The next signal is the second one: the repetition sent none.
    signal(&mut client, victim.identity(), 10, "next").await;
    assert_eq!(lines.next().unwrap().unwrap(), "2");

    let mut other = request.clone();
    other.signal = KILL;
    let refused = client.signal_process(other).await.unwrap_err();
    assert_eq!((refused.code(), Reason::of(&refused)), (Code::InvalidArgument, Some(Reason::RequestIdReused)));
    // Another caller's ids are its own.
    let mut stranger = world.client(gpufleet_transport::Role::Aggregator, "second").await;
    assert_eq!(send(&mut stranger, request).await.outcome(), SignalOutcome::Delivered);
    assert_eq!(lines.next().unwrap().unwrap(), "3");
    assert!(victim.lives());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_while_the_first_waits_gets_the_same_answer() {
    let world = World::real().await;
    let (mut client, mut again) = (world.aggregator().await, world.aggregator().await);
    let script = "trap 'exit 0' TERM; trap : USR1; echo ready; while :; do sleep 0.01; done";
    let child = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut victim = Victim(child);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(victim.0.stdout.take().unwrap()));
    assert_eq!(lines.next().unwrap().unwrap(), "ready");

    let mut request = signal_request(&mut client, victim.identity(), 10, "slow").await;
    request.wait = Some(prost_types::Duration { seconds: 60, nanos: 0 });
    let first = tokio::spawn({
        let request = request.clone();
        async move { send(&mut client, request).await }
    });
    let second = tokio::spawn(async move { send(&mut again, request).await });
    let mut third = world.aggregator().await;
    // Ends it, in whatever order the requests arrive.
    assert_eq!(signal(&mut third, victim.identity(), TERM, "end").await.outcome(), SignalOutcome::Delivered);
    let (first, second) = (in_time("the first", first).await.unwrap(), in_time("the second", second).await.unwrap());
    assert_eq!(first, second);
    victim.ended_by();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_with_the_process_or_with_time() {
    let world = World::real().await;
    let mut client = world.aggregator().await;
    let mut victim = Victim::sleeping();
    let mut request = signal_request(&mut client, victim.identity(), 18, "continue").await;
    request.wait = Some(prost_types::Duration { seconds: 0, nanos: 300_000_000 });
    let start = Instant::now();
    let answer = send(&mut client, request).await;
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert_eq!(answer.progress.unwrap().process_gone, Some(false));
    assert!(victim.lives());

    // Nobody collects it meanwhile: it is gone all the same.
    let mut request = signal_request(&mut client, victim.identity(), KILL, "kill").await;
    request.wait = Some(prost_types::Duration { seconds: 60, nanos: 0 });
    let progress = send(&mut client, request).await.progress.unwrap();
    assert_eq!((progress.process_gone, progress.device_memory_released), (Some(true), Some(true)));
    assert_eq!(victim.ended_by(), Some(9));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_cuts_waits_short() {
    let world = World::real().await;
    let mut client = world.aggregator().await;
    let victim = Victim::sleeping();
    let mut request = signal_request(&mut client, victim.identity(), 18, "continue").await;
    request.wait = Some(prost_types::Duration { seconds: 240, nanos: 0 });
    let waiting = tokio::spawn(async move { client.signal_process(request).await });
    let mut other = world.aggregator().await;
    // Once another signal is answered, the first request has very likely arrived; either way the end must come soon.
    signal(&mut other, victim.identity(), 18, "other").await;
    in_time("the end", world.agent.shutdown()).await;
    if let Ok(answer) = in_time("the answer", waiting).await.unwrap() {
        assert_eq!(answer.into_inner().progress.unwrap().process_gone, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_cannot_be_meant_are_refused() {
    let world = World::real().await;
    let mut client = world.aggregator().await;
    let victim = Victim::sleeping();
    let valid = signal_request(&mut client, victim.identity(), TERM, "one").await;
    let wrong: [(&str, Change); 10] = [
        ("target", |request| request.target = None),
        ("target.start_ticks", |request| request.target.as_mut().unwrap().start_ticks = 0),
        ("signal", |request| request.signal = 0),
        ("signal", |request| request.signal = 65),
        ("signal", |request| request.signal = u32::MAX),
        ("request_id", |request| request.request_id.clear()),
        ("request_id", |request| request.request_id = "x".repeat(65)),
        ("reason", |request| request.reason = "x".repeat(1025)),
        ("wait", |request| request.wait = Some(prost_types::Duration { seconds: -1, nanos: 0 })),
        ("wait", |request| request.wait = Some(prost_types::Duration { seconds: 301, nanos: 0 })),
    ];
    for (field, change) in wrong {
        let mut request = valid.clone();
        change(&mut request);
        let refused = client.signal_process(request).await.unwrap_err();
        assert_eq!((refused.code(), Reason::of(&refused)), (Code::InvalidArgument, Some(Reason::InvalidArgument)));
        assert!(refused.message().contains(&format!("`{field}`")), "{field}: {}", refused.message());
    }
}
