//! `kill`: resolve → show → ask → signal what was shown → say what happened.
//!
//! A pid is what a person types. It is resolved once; from then on the process is pinned by boot and start, so a pid
//! that is reused between the question and the answer is never hit. Nothing is retried.

use std::collections::BTreeSet;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use gpufleet_model::command::escape_text;
use gpufleet_proto::v1;

use crate::cli::{Kill, Target};
use crate::columns::process::{ProcessRow, columns};
use crate::config::Endpoint;
use crate::exit::{CtlError, Exit, Result};
use crate::output::table;
use crate::screen::{Screen, print, tell};
use crate::signals;
use crate::source::host_name;
use crate::view::{Connection, View};

mod outcome;
mod person;
mod reach;
#[cfg(test)]
mod tests;

use outcome::{Ended, exit, of_answer, of_error};
use person::{AtTerminal, Person, is_yes};
use reach::{Fleet, Here, Reach};

/// Signals processes.
pub(crate) async fn run(endpoint: &Endpoint, kill: Kill, screen: Screen) -> Result<Exit> {
    if let Endpoint::Agent { .. } = endpoint {
        return Err(CtlError::usage(
            "an agent takes signals only from an aggregator; use --aggregator, or run this on the host itself",
        ));
    }
    let targets = targets(endpoint, &kill)?;
    // Before anything else is done: without somebody to ask there is nothing to look up.
    let asks = !kill.yes && !kill.dry_run;
    let mut person = if asks { Some(AtTerminal::find()?) } else { None };
    match endpoint {
        Endpoint::Aggregator { address, tls_dir } => {
            let mut fleet = Fleet::connect(endpoint, address, tls_dir).await?;
            act(&mut fleet, person.as_mut(), targets, &kill, screen).await
        }
        _ => act(&mut Here::start()?, person.as_mut(), targets, &kill, screen).await,
    }
}

/// Looks the targets up, shows them, asks the person if there is one to ask, and signals them.
async fn act(
    reach: &mut impl Reach,
    person: Option<&mut impl Person>,
    targets: BTreeSet<Target>,
    kill: &Kill,
    screen: Screen,
) -> Result<Exit> {
    let view = reach.look_up(&targets).await?;
    let (rows, refused) = sort_out(&view, targets);
    for (target, why) in &refused {
        tell(format!("{}: {}", name(target), escape_text(&why.text)));
    }
    let mut ends: Vec<Ended> = refused.iter().map(|(_, why)| why.end).collect();
    if rows.is_empty() {
        return Ok(exit(&ends));
    }
    let shown = describe(&rows, kill.signal, screen);
    print(&shown)?;
    if kill.dry_run {
        print("dry run: nothing was signalled\n")?;
        return Ok(if ends.is_empty() { Exit::Ok } else { Exit::Partial });
    }
    if let Some(person) = person
        && !is_yes(person.ask(&shown, &question(rows.len(), kill.signal))?.as_deref())
    {
        tell("declined; nothing was signalled");
        return Ok(Exit::Declined);
    }
    let mut attempts: FuturesUnordered<_> =
        rows.iter().map(|(row, target)| attempt(reach, row, target, kill)).collect();
    while let Some((end, line)) = attempts.next().await {
        report(&line, end)?;
        ends.push(end);
    }
    Ok(exit(&ends))
}

async fn attempt(reach: &impl Reach, row: &ProcessRow<'_>, target: &Target, kill: &Kill) -> (Ended, String) {
    let answer = match request_id() {
        Ok(id) => reach.signal(pinned(row), kill, id).await,
        Err(error) => Err(error),
    };
    let (end, line) = match answer {
        Ok(answer) => of_answer(&answer, kill.signal, kill.wait.is_some()),
        Err(error) => of_error(&error),
    };
    (end, format!("{}: {}", name(target), escape_text(&line)))
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
fn describe(rows: &[Found<'_>], signal: u32, screen: Screen) -> String {
    let rows: Vec<ProcessRow<'_>> = rows.iter().map(|(row, _)| *row).collect();
    let columns = columns();
    let shown: Vec<_> = ["host", "pid", "user", "gpu", "gpu-memory", "time", "command"]
        .iter()
        .filter_map(|name| columns.iter().find(|column| column.name == *name))
        .collect();
    let what = if rows.len() == 1 { "this process".to_owned() } else { format!("these {} processes", rows.len()) };
    let simulated = rows.iter().any(|row| row.host.host.as_ref().is_some_and(|host| host.simulated));
    let note = if simulated { "SIMULATED: not a real process\n" } else { "" };
    format!("{note}{} would go to {what}:\n\n{}\n", signals::name(signal), table::render(&rows, &shown, screen))
}

fn question(count: usize, signal: u32) -> String {
    let what = if count == 1 { "it".to_owned() } else { format!("all {count}") };
    format!("send {} to {what}? [y/N] ", signals::name(signal))
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

fn report(line: &str, end: Ended) -> Result<()> {
    if end == Ended::Ok {
        return print(&format!("{line}\n"));
    }
    tell(line);
    Ok(())
}

/// Unique for each attempt: 128 bits from the kernel.
fn request_id() -> Result<String> {
    let mut bytes = [0u8; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).map_err(std::io::Error::from)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
