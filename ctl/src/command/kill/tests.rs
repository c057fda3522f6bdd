//! The flow against a script: what is asked, what is sent, and what is said to have happened.

use std::cell::RefCell;
use std::time::Duration;

use gpufleet_proto::v1::{SignalOutcome, SignalProcessResponse};

use super::*;
use crate::output::fixtures::{fleet, without_devices};

/// A fleet that answers as it is told, and remembers what it was asked.
#[derive(Default)]
struct Script {
    answers: Vec<(u32, Result<SignalOutcome>)>,
    sent: RefCell<Vec<(v1::ProcessTarget, String)>>,
}

impl Reach for Script {
    async fn look_up(&mut self, _: &BTreeSet<Target>) -> Result<View> {
        Ok(fleet())
    }

    async fn signal(&self, target: v1::ProcessTarget, _: &Kill, request_id: String) -> Result<SignalProcessResponse> {
        let answer = self.answers.iter().find(|(pid, _)| *pid == target.pid).map(|(_, answer)| answer);
        self.sent.borrow_mut().push((target, request_id));
        let outcome = match answer {
            Some(Err(error)) => return Err(CtlError::unreachable(error.to_string())),
            Some(Ok(outcome)) => *outcome,
            None => SignalOutcome::Delivered,
        };
        Ok(SignalProcessResponse { outcome: outcome.into(), message: String::new(), progress: None })
    }
}

/// Somebody who gives one answer, and what was shown before.
struct Says(Option<&'static str>, String);

impl Person for Says {
    fn ask(&mut self, shown: &str, question: &str) -> Result<Option<String>> {
        self.1 = format!("{shown}{question}");
        Ok(self.0.map(str::to_owned))
    }
}

fn kill(targets: &[&str], flags: &[&str]) -> Kill {
    use clap::Parser as _;
    let arguments = ["gpuctl", "kill"].iter().chain(targets).chain(flags);
    match crate::cli::Cli::try_parse_from(arguments).unwrap().command {
        crate::cli::Command::Kill(kill) => kill,
        other => panic!("{other:?}"),
    }
}

async fn acted(script: &mut Script, person: Option<&mut Says>, kill: &Kill) -> Exit {
    let endpoint = Endpoint::Aggregator { address: String::new(), tls_dir: ".".into() };
    let targets = targets(&endpoint, kill).unwrap();
    act(script, person, targets, kill, Screen::plain()).await.unwrap()
}

#[tokio::test]
async fn what_was_shown_is_what_is_sent_pinned_and_each_once() {
    let mut script = Script::default();
    let mut person = Says(Some("y\n"), String::new());
    let exit = acted(&mut script, Some(&mut person), &kill(&["node1:440", "node1:441", "node1:440"], &[])).await;
    assert_eq!(exit, Exit::Ok);
    let sent = script.sent.borrow();
    let mut pids: Vec<_> = sent.iter().map(|(target, _)| (target.pid, target.start_ticks)).collect();
    pids.sort_unstable();
    assert_eq!(pids, [(440, 1440), (441, 1441)]);
    assert!(sent.iter().all(|(target, _)| target.boot_id == "11111111-2222-4333-8444-555555555555"));
    assert_ne!(sent[0].1, sent[1].1, "each attempt has an id of its own");
    insta::assert_snapshot!("kill_asks", person.1);
}

#[tokio::test]
async fn nothing_is_sent_unless_the_answer_is_yes() {
    for answer in [None, Some("\n"), Some("n\n"), Some("yess\n")] {
        let mut script = Script::default();
        let exit = acted(&mut script, Some(&mut Says(answer, String::new())), &kill(&["node1:440"], &[])).await;
        assert_eq!((exit, script.sent.borrow().len()), (Exit::Declined, 0), "{answer:?}");
    }
    let mut script = Script::default();
    let exit = acted(&mut script, None, &kill(&["node1:440"], &["--dry-run"])).await;
    assert_eq!((exit, script.sent.borrow().len()), (Exit::Ok, 0));
}

#[tokio::test]
async fn what_does_not_exist_is_told_and_the_rest_is_hit() {
    let mut script = Script::default();
    let exit = acted(&mut script, None, &kill(&["node1:440", "node1:9999"], &["--yes"])).await;
    assert_eq!((exit, script.sent.borrow().len()), (Exit::Partial, 1));
    let exit = acted(&mut script, None, &kill(&["node1:9999"], &["--yes"])).await;
    assert_eq!((exit, script.sent.borrow().len()), (Exit::Failed, 1));
    // Nothing is known of what runs on a host that was never seen.
    let exit = acted(&mut script, None, &kill(&["node3:1"], &["--yes"])).await;
    assert_eq!((exit, script.sent.borrow().len()), (Exit::Unreachable, 1));
}

#[tokio::test]
async fn mixed_ends_are_a_partial_success_and_nothing_is_sent_twice() {
    let lost = || Err(CtlError::unreachable("the connection was lost"));
    for (first, second, exit) in [
        (Ok(SignalOutcome::Delivered), Ok(SignalOutcome::IdentityChanged), Exit::Partial),
        (Ok(SignalOutcome::Denied), Ok(SignalOutcome::Protected), Exit::Denied),
        (Ok(SignalOutcome::NotFound), Ok(SignalOutcome::IdentityChanged), Exit::Failed),
        (Ok(SignalOutcome::Delivered), lost(), Exit::Partial),
        (lost(), lost(), Exit::Unreachable),
        (Ok(SignalOutcome::Indeterminate), Ok(SignalOutcome::Indeterminate), Exit::Failed),
    ] {
        let mut script = Script { answers: vec![(440, first), (441, second)], ..Script::default() };
        assert_eq!(acted(&mut script, None, &kill(&["node1:440", "node1:441"], &["--yes"])).await, exit);
        assert_eq!(script.sent.borrow().len(), 2);
    }
}

#[test]
fn targets_need_a_host_unless_they_are_of_this_one() {
    let fleet = Endpoint::Aggregator { address: String::new(), tls_dir: ".".into() };
    assert!(targets(&fleet, &kill(&["440"], &[])).is_err());
    let here = host_name();
    let named = targets(&Endpoint::Local, &kill(&["440", &format!("{here}:440")], &[])).unwrap();
    assert_eq!(named.len(), 1, "the same process, named twice");
}

fn target(host: &str, pid: u32) -> Target {
    Target { host: Some(host.to_owned()), pid }
}

#[test]
fn what_cannot_be_signalled_is_refused_and_the_rest_is_found() {
    let view = fleet();
    let wanted =
        [target("node1", 440), target("node1", 9999), target("node2", 9), target("node3", 1), target("nodeX", 1)];
    let (rows, refused) = sort_out(&view, wanted.into_iter().collect());
    assert_eq!(rows.iter().map(|(_, target)| name(target)).collect::<Vec<_>>(), ["node1:440"]);
    let refused: Vec<_> = refused.iter().map(|(target, why)| (name(target), why.end, why.text.as_str())).collect();
    assert_eq!(refused[0], ("node1:9999".to_owned(), Ended::Failed, "no such process"));
    assert_eq!((refused[1].0.as_str(), refused[1].1), ("node2:9", Ended::Unreachable));
    assert!(refused[1].2.starts_with("refused: the host is stale, last seen 0:42 ago"), "{}", refused[1].2);
    assert!(refused[2].2.starts_with("refused: the host is never-seen"), "{}", refused[2].2);
    assert_eq!((refused[3].1, refused[3].2), (Ended::Failed, "no such host in the fleet; `gpuctl hosts` lists them"));
}

#[test]
fn on_one_host_another_host_is_no_target() {
    let view = without_devices();
    let (rows, refused) = sort_out(&view, [target("login1", 99), target("other", 99)].into_iter().collect());
    assert_eq!(rows.len(), 1);
    assert!(refused[0].1.text.starts_with("not this host (`login1`)"), "{}", refused[0].1.text);
}

#[test]
fn request_ids_differ() {
    assert_ne!(request_id().unwrap(), request_id().unwrap());
    assert_eq!(request_id().unwrap().len(), 32);
    let long = Duration::from_mins(5);
    assert_eq!(kill(&["1"], &["--wait", "5m"]).wait, Some(long));
}
