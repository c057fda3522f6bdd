//! `gpufleet-aggregator`: parse, check, start, wait for a signal, drain.
//!
//! Exit codes: 0 after a shutdown that was asked for, 1 when it cannot start or its server fails, 2 for a wrong flag or
//! configuration.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use gpufleet_aggregator::config::{Config, Flags};
use gpufleet_aggregator::{Aggregator, RunningAggregator};
use gpufleet_transport::{Credentials, Role};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let flags = Flags::parse();
    start_logging();
    let check_only = flags.check_config;
    let config = match Config::load(flags, std::env::vars_os().filter_map(utf8)) {
        Ok(config) => config,
        Err(error) => return fail(2, &error.into()),
    };
    let credentials = match load_credentials(&config) {
        Ok(credentials) => credentials,
        Err(error) => return fail(2, &error),
    };
    if check_only {
        info!(identity = %credentials.identity(), "configuration, inventory and certificates are valid");
        return ExitCode::SUCCESS;
    }
    raise_descriptor_limit(config.hosts);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(1, &error.into()),
    };
    match runtime.block_on(run(config, credentials)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(1, &error),
    }
}

fn load_credentials(config: &Config) -> anyhow::Result<Credentials> {
    let credentials = Credentials::load_for_fleet(&config.tls_dir, config.hosts)?;
    let identity = credentials.identity();
    // Agents would refuse another role later, one by one.
    anyhow::ensure!(
        identity.role == Role::Aggregator,
        "the certificate in `{}` is of role `{}`; the aggregator needs one of role `aggregator`: issue it with \
         `gpuctl pki issue aggregator NAME`",
        config.tls_dir.display(),
        identity.role
    );
    Ok(credentials)
}

/// Variables of ours are ASCII; others are none of our business.
fn utf8((name, value): (std::ffi::OsString, std::ffi::OsString)) -> Option<(String, String)> {
    Some((name.into_string().ok()?, value.into_string().ok()?))
}

/// Descriptors beside one for each host: clients, files, the runtime's own.
const SPARE_DESCRIPTORS: u64 = 4_352;

/// Every host takes a descriptor, and the usual soft limit of 1,024 is there for programs that use `select`.
fn raise_descriptor_limit(hosts: usize) {
    let limits = getrlimit(Resource::Nofile);
    if limits.current != limits.maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, maximum: limits.maximum })
    {
        warn!(%error, "cannot raise the limit of open files");
    }
    let needed = u64::try_from(hosts).unwrap_or(u64::MAX).saturating_add(SPARE_DESCRIPTORS);
    if let Some(limit) = getrlimit(Resource::Nofile).current
        && limit < needed
    {
        warn!(limit, needed, "the limit of open files is low for this many hosts; raise it (LimitNOFILE in systemd)");
    }
}

fn start_logging() {
    let filter = EnvFilter::try_from_env("GPUFLEET_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr()) && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(terminal).init();
}

fn fail(code: u8, error: &anyhow::Error) -> ExitCode {
    error!("{error:#}");
    ExitCode::from(code)
}

async fn run(config: Config, credentials: Credentials) -> anyhow::Result<()> {
    let listener = TcpListener::bind(config.listen)
        .await
        .with_context(|| format!("cannot listen on `{}`; choose another with --listen", config.listen))?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let (reloads, stop_reloads) = (TaskTracker::new(), CancellationToken::new());
    credentials.watch(&reloads, stop_reloads.clone());
    let identity = credentials.identity();
    let mut aggregator = Aggregator::start(config.settings, credentials, listener).await?;
    info!(address = %aggregator.local_addr(), %identity, "serving");
    if let Some(path) = &config.ready_file {
        tell_ready(path, &aggregator)?;
    }
    let failed = tokio::select! {
        _ = interrupt.recv() => None,
        _ = terminate.recv() => None,
        ended = aggregator.finished() => Some(ended),
    };
    if let Some(ended) = failed {
        return ended.context("the server ended");
    }
    info!("shutting down");
    stop_reloads.cancel();
    aggregator.shutdown().await;
    reloads.close();
    reloads.wait().await;
    Ok(())
}

/// Written next to the file and renamed, so that whoever waits for it never reads half of it.
fn tell_ready(path: &Path, aggregator: &RunningAggregator) -> anyhow::Result<()> {
    let partial = path.with_extension("partial");
    std::fs::write(&partial, format!("{}\n", aggregator.local_addr()))
        .and_then(|()| std::fs::rename(&partial, path))
        .with_context(|| format!("cannot write the ready file `{}`", path.display()))
}
