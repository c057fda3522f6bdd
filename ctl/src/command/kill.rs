//! `kill`: resolve → show → ask → signal what was shown → say what happened.
//!
//! A pid is what a person types. It is resolved once; from then on the process is pinned by boot and start, so a pid
//! that is reused between the question and the answer is never hit. Nothing is retried.

use std::collections::BTreeSet;
use std::io::{BufRead, IsTerminal as _, Write};
use std::time::Duration;

use gpufleet_proto::convert::{duration, std_duration};
use gpufleet_proto::v1::{self, ProcessScope, SignalOutcome};

use crate::cli::{Kill, Target};
use crate::columns::process::{ProcessRow, columns};
use crate::config::Endpoint;
use crate::exit::{CtlError, Exit, Result};
use crate::output::table;
use crate::screen::{Screen, print};
use crate::signals;
use crate::source::{Want, collect, dial_aggregator, dialer, fleet_client, host_name, local_host};
use crate::view::{Connection, Filter, View};

/// How one target ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Ok,
    Failed,
    Denied,
    Unreachable,
}

/// Signals processes.
pub(crate) async fn run(endpoint: &Endpoint, kill: Kill, screen: Screen) -> Result<Exit> {
    if let Endpoint::Agent { .. } = endpoint {
        return Err(CtlError::usage(
            "an agent takes signals only from an aggregator; use --aggregator, or run this on the host itself",
        ));
    }
    let targets = targets(endpoint, &kill)?;
    if !kill.yes && !kill.dry_run && !std::io::stdin().is_terminal() {
        return Err(CtlError::usage("there is no terminal to ask on; look with --dry-run, then give --yes"));
    }
    let view = look_up(endpoint, &targets).await?;
    let (rows, refused) = sort_out(&view, targets);
    for (target, why) in &refused {
        eprintln!("gpuctl: {}: {}", name(target), why.text);
    }
    let mut ends: Vec<Ended> = refused.iter().map(|(_, why)| why.end).collect();
    if rows.is_empty() {
        return Ok(exit(&ends));
    }
    print(&describe(&rows, kill.signal, screen))?;
    if kill.dry_run {
        print("dry run: nothing was signalled\n")?;
        return Ok(if refused.is_empty() { Exit::Ok } else { Exit::Partial });
    }
    let question = question(rows.len(), kill.signal);
    if !kill.yes && !confirmed(&question, &mut std::io::stdin().lock(), &mut std::io::stderr().lock())? {
        eprintln!("gpuctl: declined; nothing was signalled");
        return Ok(Exit::Declined);
    }
    if let Endpoint::Aggregator { address, tls_dir } = endpoint {
        let client = fleet_client(dial_aggregator(&dialer(tls_dir)?, address).await?);
        let ids = rows.iter().map(|_| request_id()).collect::<Result<Vec<_>>>()?;
        let attempts = rows.iter().zip(ids).map(|((row, target), id)| remote(client.clone(), row, target, &kill, id));
        for (end, line) in futures_util::future::join_all(attempts).await {
            report(&line, end)?;
            ends.push(end);
        }
    } else {
        let host = local_host(Duration::from_millis(250))?;
        for (row, target) in &rows {
            let (end, line) = local(&host, row, target, &kill, request_id()?).await;
            report(&line, end)?;
            ends.push(end);
        }
    }
    Ok(exit(&ends))
}

/// The targets with their hosts, each once.
fn targets(endpoint: &Endpoint, kill: &Kill) -> Result<BTreeSet<Target>> {
    let here = host_name();
    let mut targets = BTreeSet::new();
    for target in &kill.targets {
        let host = match (endpoint, &target.host) {
            (_, Some(host)) => host.clone(),
            (Endpoint::Local, None) => here.clone(),
            (_, None) => return Err(CtlError::usage(format!("{}: which host? write HOST:{}", target.pid, target.pid))),
        };
        targets.insert(Target { host: Some(host), pid: target.pid });
    }
    Ok(targets)
}

fn name(target: &Target) -> String {
    format!("{}:{}", target.host.as_deref().unwrap_or_default(), target.pid)
}

/// A view with every host, and the targets' processes, on devices or not, of those hosts that are connected.
async fn look_up(endpoint: &Endpoint, targets: &BTreeSet<Target>) -> Result<View> {
    let interval = Duration::from_secs(1);
    let Endpoint::Aggregator { address, tls_dir } = endpoint else {
        return collect(endpoint, Want { all: true, contents: true, interval, ..Want::default() }).await;
    };
    let mut view = collect(endpoint, Want { interval, ..Want::default() }).await?;
    let connected = |host: &&String| view.hosts.get(*host).is_some_and(|host| host.connection == Connection::Connected);
    let hosts: BTreeSet<String> =
        targets.iter().filter_map(|target| target.host.as_ref()).filter(connected).cloned().collect();
    if hosts.is_empty() {
        return Ok(view);
    }
    let selection = crate::cli::Selection { hosts: hosts.into_iter().collect(), ..crate::cli::Selection::default() };
    let want = Want { filter: Filter::from(&selection), contents: true, interval, ..Want::default() };
    view.hosts.extend(collect(endpoint, want).await?.hosts);
    // Not on a device: the agents are asked for every process.
    let absent = targets.iter().filter(|target| matches!(find(&view, target), Err(why) if why.end == Ended::Failed));
    let hosts: BTreeSet<String> =
        absent.filter_map(|target| target.host.clone()).filter(|host| selection.hosts.contains(host)).collect();
    if hosts.is_empty() {
        return Ok(view);
    }
    let mut client = fleet_client(dial_aggregator(&dialer(tls_dir)?, address).await?);
    let filter = v1::FleetFilter { hosts: hosts.into_iter().collect(), ..v1::FleetFilter::default() };
    let request = v1::FleetServiceListProcessesRequest { filter: Some(filter), scope: ProcessScope::All.into() };
    let mut batches = client.list_processes(request).await?.into_inner();
    let mut listed = Vec::new();
    while let Some(batch) = batches.message().await? {
        listed.extend(batch.hosts);
    }
    view.add_processes(listed)?;
    Ok(view)
}

/// Why a target is not signalled.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    end: Ended,
    text: String,
}

/// A process, and the target that named it.
type Found<'v> = (ProcessRow<'v>, Target);

/// What can be signalled, and what cannot and why.
fn sort_out(view: &View, targets: BTreeSet<Target>) -> (Vec<Found<'_>>, Vec<(Target, Refusal)>) {
    let (mut rows, mut refused) = (Vec::new(), Vec::new());
    for target in targets {
        match find(view, &target) {
            Ok(row) => rows.push((row, target)),
            Err(why) => refused.push((target, why)),
        }
    }
    (rows, refused)
}

/// The process that is meant, on a host that is connected: what is known of another is too old to act on.
fn find<'v>(view: &'v View, target: &Target) -> std::result::Result<ProcessRow<'v>, Refusal> {
    let failed = |text: String| Refusal { end: Ended::Failed, text };
    let host = target.host.as_deref().and_then(|host| view.hosts.get(host)).ok_or_else(|| {
        failed(match view.hosts.keys().next() {
            Some(here) if !view.fleet => {
                format!("not this host (`{here}`), and no aggregator was given; use --aggregator or a context")
            }
            _ => "no such host in the fleet; `gpuctl hosts` lists them".to_owned(),
        })
    })?;
    if host.connection != Connection::Connected {
        let age = host.sample_age().map(|age| format!(", last seen {} ago", gpufleet_model::human::duration(age)));
        let problem = host.problem.as_deref().map(|problem| format!(" ({problem})")).unwrap_or_default();
        let (state, age) = (host.connection.as_str(), age.unwrap_or_default());
        let text = format!("refused: the host is {state}{age}{problem}; what is known of its processes is too old");
        return Err(Refusal { end: Ended::Unreachable, text });
    }
    let process = host.processes.values().find(|process| process.identity.pid == target.pid);
    process.map(|process| ProcessRow { host, process }).ok_or_else(|| failed("no such process".to_owned()))
}

/// Who and what would be hit.
fn describe(rows: &[(ProcessRow<'_>, Target)], signal: u32, screen: Screen) -> String {
    let rows: Vec<ProcessRow<'_>> = rows.iter().map(|(row, _)| *row).collect();
    let columns = columns();
    let shown: Vec<_> = ["host", "pid", "user", "gpu", "gpu-memory", "time", "command"]
        .iter()
        .filter_map(|name| columns.iter().find(|column| column.name == *name))
        .collect();
    let what = if rows.len() == 1 { "this process".to_owned() } else { format!("these {} processes", rows.len()) };
    format!("{} would go to {what}:\n\n{}\n", signals::name(signal), table::render(&rows, &shown, screen))
}

fn question(count: usize, signal: u32) -> String {
    let what = if count == 1 { "it".to_owned() } else { format!("all {count}") };
    format!("send {} to {what}? [y/N] ", signals::name(signal))
}

/// Asks. Only `y` or `yes` is yes.
fn confirmed(question: &str, answers: &mut impl BufRead, prompt: &mut impl Write) -> Result<bool> {
    write!(prompt, "{question}")?;
    prompt.flush()?;
    let mut answer = String::new();
    answers.read_line(&mut answer)?;
    if !answer.ends_with('\n') {
        writeln!(prompt)?;
    }
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

async fn remote(
    mut client: crate::source::FleetClient,
    row: &ProcessRow<'_>,
    target: &Target,
    kill: &Kill,
    request_id: String,
) -> (Ended, String) {
    let request = v1::FleetServiceSignalProcessRequest {
        target: Some(pinned(row)),
        signal: kill.signal,
        request_id,
        reason: kill.reason.clone(),
        wait: kill.wait.map(duration),
    };
    let (result, text) = match client.signal_process(request).await {
        Ok(answer) => {
            let answer = answer.into_inner();
            outcome(answer.outcome(), &answer.message, answer.progress.as_ref(), kill)
        }
        Err(status) => {
            let error = CtlError::from(status);
            let result = match error.exit {
                Exit::Denied => Ended::Denied,
                Exit::Unreachable => Ended::Unreachable,
                _ => Ended::Failed,
            };
            let unknown =
                if result == Ended::Unreachable { "; whether the signal was delivered is not known" } else { "" };
            (result, format!("{error}{unknown}"))
        }
    };
    (result, format!("{}: {text}", name(target)))
}

fn pinned(row: &ProcessRow<'_>) -> v1::ProcessTarget {
    let identity = row.process.identity;
    v1::ProcessTarget {
        host: row.host.name.clone(),
        boot_id: row.host.boot_id().unwrap_or_default().to_owned(),
        pid: identity.pid,
        start_ticks: identity.start_ticks,
    }
}

async fn local(
    host: &gpufleet_embed::LocalHost,
    row: &ProcessRow<'_>,
    target: &Target,
    kill: &Kill,
    request_id: String,
) -> (Ended, String) {
    let attempted = host.signal(row.process.identity, kill.signal, request_id, kill.wait).await;
    let (result, text) = match attempted {
        Ok(report) => {
            let answer = v1::SignalProcessResponse::from(report);
            outcome(answer.outcome(), &answer.message, answer.progress.as_ref(), kill)
        }
        Err(status) => (Ended::Failed, status.message().to_owned()),
    };
    (result, format!("{}: {text}", name(target)))
}

/// What to say of an answer, and whether it is what was asked for.
fn outcome(
    outcome: SignalOutcome,
    message: &str,
    progress: Option<&v1::SignalProgress>,
    kill: &Kill,
) -> (Ended, String) {
    match outcome {
        SignalOutcome::Delivered => match (kill.wait, progress) {
            (Some(_), Some(progress)) => ended(progress, kill.signal),
            _ => (Ended::Ok, format!("{} delivered", signals::name(kill.signal))),
        },
        SignalOutcome::NotFound => (Ended::Failed, "had already ended; nothing was signalled".to_owned()),
        SignalOutcome::IdentityChanged => {
            (Ended::Failed, format!("is not the process that was shown; nothing was signalled ({message})"))
        }
        SignalOutcome::Protected => (Ended::Denied, format!("refused: {message}")),
        SignalOutcome::Denied => (Ended::Denied, format!("refused by policy: {message}")),
        SignalOutcome::Unreachable => (Ended::Unreachable, format!("unreachable, nothing was sent: {message}")),
        SignalOutcome::Indeterminate => {
            (Ended::Failed, format!("OUTCOME UNKNOWN: {message}; look with `gpuctl ps` before trying again"))
        }
        _ => (Ended::Failed, message.to_owned()),
    }
}

fn ended(progress: &v1::SignalProgress, signal: u32) -> (Ended, String) {
    let waited = progress.waited.and_then(std_duration).map(|waited| format!("{:.1} s", waited.as_secs_f64()));
    let waited = waited.unwrap_or_else(|| "the wait".to_owned());
    let signal = signals::name(signal);
    match (progress.process_gone, progress.device_memory_released) {
        (Some(true), Some(true)) => {
            (Ended::Ok, format!("{signal} delivered; gone and its device memory free after {waited}"))
        }
        (Some(true), _) => (
            Ended::Failed,
            format!("{signal} delivered; gone, but its device memory was not seen free within {waited}"),
        ),
        (Some(false), _) => (Ended::Failed, format!("{signal} delivered; still running after {waited}")),
        (None, _) => (Ended::Failed, format!("{signal} delivered; whether it ended is not known")),
    }
}

fn report(line: &str, result: Ended) -> Result<()> {
    if result == Ended::Ok {
        print(&format!("{line}\n"))?;
    } else {
        eprintln!("gpuctl: {line}");
    }
    Ok(())
}

/// One exit code of many ends: all the same, or mixed.
fn exit(ends: &[Ended]) -> Exit {
    let all = |wanted| ends.iter().all(|end| *end == wanted);
    if all(Ended::Ok) {
        Exit::Ok
    } else if all(Ended::Denied) {
        Exit::Denied
    } else if all(Ended::Unreachable) {
        Exit::Unreachable
    } else if ends.contains(&Ended::Ok) {
        Exit::Partial
    } else {
        Exit::Failed
    }
}

/// Unique for each attempt: 128 bits from the kernel.
fn request_id() -> Result<String> {
    let mut bytes = [0u8; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).map_err(std::io::Error::from)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::fixtures::{fleet, without_devices};

    #[test]
    fn one_exit_code_of_many_ends() {
        assert_eq!(exit(&[Ended::Ok, Ended::Ok]), Exit::Ok);
        assert_eq!(exit(&[Ended::Ok, Ended::Failed]), Exit::Partial);
        assert_eq!(exit(&[Ended::Denied, Ended::Denied]), Exit::Denied);
        assert_eq!(exit(&[Ended::Denied, Ended::Ok]), Exit::Partial);
        assert_eq!(exit(&[Ended::Unreachable]), Exit::Unreachable);
        assert_eq!(exit(&[Ended::Failed, Ended::Denied]), Exit::Failed);
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
        assert_eq!(
            (refused[3].1, refused[3].2),
            (Ended::Failed, "no such host in the fleet; `gpuctl hosts` lists them")
        );
    }

    #[test]
    fn on_one_host_another_host_is_no_target() {
        let view = without_devices();
        let (rows, refused) = sort_out(&view, [target("login1", 99), target("other", 99)].into_iter().collect());
        assert_eq!(rows.len(), 1);
        assert!(refused[0].1.text.starts_with("not this host (`login1`)"), "{}", refused[0].1.text);
    }

    #[test]
    fn only_yes_is_yes() {
        for (answer, yes) in [
            ("y\n", true),
            ("YES\n", true),
            (" y \n", true),
            ("n\n", false),
            ("\n", false),
            ("", false),
            ("yy\n", false),
        ] {
            let mut prompt = Vec::new();
            assert_eq!(confirmed(&question(2, 15), &mut answer.as_bytes(), &mut prompt).unwrap(), yes, "{answer:?}");
            let newline = if answer.is_empty() { "\n" } else { "" };
            assert_eq!(String::from_utf8(prompt).unwrap(), format!("send SIGTERM to all 2? [y/N] {newline}"));
        }
    }

    #[test]
    fn what_would_be_hit_is_shown() {
        let view = fleet();
        let (rows, _) = sort_out(&view, [target("node1", 440)].into_iter().collect());
        let shown = describe(&rows, 9, Screen::plain());
        for part in ["SIGKILL would go to this process:", "node1", "440", "alice", "0,1", "90.00GiB", "train.py"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }

    #[test]
    fn each_outcome_is_told() {
        let kill =
            |wait| Kill { targets: Vec::new(), signal: 15, wait, dry_run: false, yes: true, reason: String::new() };
        let told = |of, progress: Option<v1::SignalProgress>, wait| outcome(of, "why", progress.as_ref(), &kill(wait));
        assert_eq!(told(SignalOutcome::Delivered, None, None), (Ended::Ok, "SIGTERM delivered".to_owned()));
        for (of, end) in [
            (SignalOutcome::NotFound, Ended::Failed),
            (SignalOutcome::IdentityChanged, Ended::Failed),
            (SignalOutcome::Protected, Ended::Denied),
            (SignalOutcome::Denied, Ended::Denied),
            (SignalOutcome::Unreachable, Ended::Unreachable),
            (SignalOutcome::Indeterminate, Ended::Failed),
            (SignalOutcome::Unspecified, Ended::Failed),
        ] {
            assert_eq!(told(of, None, None).0, end, "{of:?}");
        }
        let wait = Some(Duration::from_secs(5));
        for (gone, released, end) in [
            (Some(true), Some(true), Ended::Ok),
            (Some(true), Some(false), Ended::Failed),
            (Some(true), None, Ended::Failed),
            (Some(false), Some(false), Ended::Failed),
            (None, None, Ended::Failed),
        ] {
            let progress =
                v1::SignalProgress { process_gone: gone, device_memory_released: released, ..Default::default() };
            assert_eq!(told(SignalOutcome::Delivered, Some(progress), wait).0, end, "{gone:?} {released:?}");
        }
    }

    #[test]
    fn request_ids_differ() {
        assert_ne!(request_id().unwrap(), request_id().unwrap());
        assert_eq!(request_id().unwrap().len(), 32);
    }
}
