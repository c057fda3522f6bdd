//! `kill`: resolve → show → ask → signal what was shown → say what happened.
//!
//! A pid is what a person types. It is resolved once; from then on the process is pinned by boot and start, so a pid
//! that is reused between the question and the answer is never hit. Nothing is retried.

use std::collections::BTreeSet;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
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
use crate::view::{Filter, View};

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
    let (found, lost): (Vec<_>, Vec<_>) =
        targets.into_iter().map(|target| (find(&view, &target), target)).partition(|(row, _)| row.is_some());
    for (_, target) in &lost {
        eprintln!("gpuctl: {}: {}", name(target), why_not_found(&view, target));
    }
    let rows: Vec<(ProcessRow<'_>, Target)> =
        found.into_iter().filter_map(|(row, target)| Some((row?, target))).collect();
    if rows.is_empty() {
        return Ok(Exit::Failed);
    }
    print(&describe(&rows, kill.signal, screen))?;
    if kill.dry_run {
        print("dry run: nothing was signalled\n")?;
        return Ok(if lost.is_empty() { Exit::Ok } else { Exit::Partial });
    }
    if !kill.yes && !confirmed(rows.len(), kill.signal)? {
        eprintln!("gpuctl: declined; nothing was signalled");
        return Ok(Exit::Declined);
    }
    let mut ends: Vec<Ended> = lost.iter().map(|_| Ended::Failed).collect();
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
            (Endpoint::Local, Some(host)) if *host != here => {
                return Err(CtlError::failed(format!(
                    "`{host}` is not this host (`{here}`), and no aggregator was given; use --aggregator or a context"
                )));
            }
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

/// A view with the targets' processes, on devices or not.
async fn look_up(endpoint: &Endpoint, targets: &BTreeSet<Target>) -> Result<View> {
    let Endpoint::Aggregator { address, tls_dir } = endpoint else {
        let want = Want { all: true, contents: true, interval: Duration::from_secs(1), ..Want::default() };
        return collect(endpoint, want).await;
    };
    let hosts: BTreeSet<String> = targets.iter().filter_map(|target| target.host.clone()).collect();
    let selection = crate::cli::Selection { hosts: hosts.into_iter().collect(), ..crate::cli::Selection::default() };
    let want =
        Want { filter: Filter::from(&selection), contents: true, interval: Duration::from_secs(1), ..Want::default() };
    let mut view = collect(endpoint, want).await?;
    let absent: Vec<&Target> = targets.iter().filter(|target| find(&view, target).is_none()).collect();
    if absent.is_empty() {
        return Ok(view);
    }
    // Not on a device: the agents are asked for every process.
    let mut client = fleet_client(dial_aggregator(&dialer(tls_dir)?, address).await?);
    let hosts: BTreeSet<String> = absent.iter().filter_map(|target| target.host.clone()).collect();
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

fn find<'v>(view: &'v View, target: &Target) -> Option<ProcessRow<'v>> {
    let host = view.hosts.get(target.host.as_deref()?)?;
    let process = host.processes.values().find(|process| process.identity.pid == target.pid)?;
    Some(ProcessRow { host, process })
}

fn why_not_found(view: &View, target: &Target) -> String {
    match target.host.as_ref().and_then(|host| view.hosts.get(host)) {
        Some(host) if host.connection != crate::view::Connection::Connected => {
            format!("the host is {}", host.connection.as_str())
        }
        _ => "no such process".to_owned(),
    }
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

/// Asks. Only `y` or `yes` is yes.
fn confirmed(count: usize, signal: u32) -> Result<bool> {
    let what = if count == 1 { "it".to_owned() } else { format!("all {count}") };
    let mut error = std::io::stderr().lock();
    write!(error, "send {} to {what}? [y/N] ", signals::name(signal))?;
    error.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    if !answer.ends_with('\n') {
        writeln!(error)?;
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

    #[test]
    fn one_exit_code_of_many_ends() {
        assert_eq!(exit(&[Ended::Ok, Ended::Ok]), Exit::Ok);
        assert_eq!(exit(&[Ended::Ok, Ended::Failed]), Exit::Partial);
        assert_eq!(exit(&[Ended::Denied, Ended::Denied]), Exit::Denied);
        assert_eq!(exit(&[Ended::Denied, Ended::Ok]), Exit::Partial);
        assert_eq!(exit(&[Ended::Unreachable]), Exit::Unreachable);
        assert_eq!(exit(&[Ended::Failed, Ended::Denied]), Exit::Failed);
    }

    #[test]
    fn request_ids_differ() {
        assert_ne!(request_id().unwrap(), request_id().unwrap());
        assert_eq!(request_id().unwrap().len(), 32);
    }
}
