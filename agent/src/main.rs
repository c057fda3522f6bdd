//! `gpufleet-agent`: parse, check, start, wait for a signal, drain.
//!
//! Exit codes: 0 after a shutdown that was asked for, 1 when it cannot start or its server fails, 2 for a wrong flag or
//! configuration.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use gpufleet_agent::config::{Config, Flags, LogFormat};
use gpufleet_agent::{Agent, AgentSettings, RunningAgent};
use gpufleet_transport::{Credentials, Role};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let flags = Flags::parse();
    if let Err(error) = start_logging(flags.log_format) {
        return fail(2, &error);
    }
    let check_only = flags.check_config;
    let (config, settings, credentials) = match prepare(flags) {
        Ok(prepared) => prepared,
        Err(error) => return fail(2, &error),
    };
    if check_only {
        info!(identity = %credentials.identity(), "configuration and certificates are valid");
        return ExitCode::SUCCESS;
    }
    // Two threads serve; the driver and `/proc` are read on threads of their own.
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(1, &error.into()),
    };
    match runtime.block_on(run(config, settings, credentials)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(1, &error),
    }
}

fn prepare(flags: Flags) -> anyhow::Result<(Config, AgentSettings, Credentials)> {
    let config = Config::load(flags, std::env::vars_os().filter_map(utf8))?;
    let credentials = Credentials::load(&config.tls_dir)?;
    let identity = credentials.identity();
    anyhow::ensure!(
        identity.role == Role::Agent,
        "the certificate in `{}` is of role `{}`; the agent needs one of role `agent`",
        config.tls_dir.display(),
        identity.role
    );
    let settings = config.settings(&identity.name)?;
    Ok((config, settings, credentials))
}

/// Variables of ours are ASCII; others are none of our business.
fn utf8((name, value): (std::ffi::OsString, std::ffi::OsString)) -> Option<(String, String)> {
    Some((name.into_string().ok()?, value.into_string().ok()?))
}

/// Logs whatever happens, and tells when the wish for what to log cannot be understood.
fn start_logging(format: LogFormat) -> anyhow::Result<()> {
    let wish = std::env::var("GPUFLEET_LOG").unwrap_or_else(|_| "info".to_owned());
    let parsed = EnvFilter::try_new(&wish);
    let unclear = parsed.as_ref().err().map(ToString::to_string);
    let filter = parsed.unwrap_or_else(|_| EnvFilter::new("info"));
    let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr()) && std::env::var_os("NO_COLOR").is_none();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.with_ansi(terminal).init(),
        LogFormat::Json => log.json().flatten_event(true).with_ansi(false).init(),
    }
    let problem = |error| {
        anyhow::anyhow!("environment variable `GPUFLEET_LOG`: `{wish}` is not a filter such as `info`: {error}")
    };
    unclear.map_or(Ok(()), |error| Err(problem(error)))
}

fn fail(code: u8, error: &anyhow::Error) -> ExitCode {
    error!("{error:#}");
    ExitCode::from(code)
}

async fn run(config: Config, settings: AgentSettings, credentials: Credentials) -> anyhow::Result<()> {
    let listener = TcpListener::bind(config.listen)
        .await
        .with_context(|| format!("cannot listen on `{}`; choose another with --listen", config.listen))?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let (reloads, stop_reloads) = (TaskTracker::new(), CancellationToken::new());
    credentials.watch(&reloads, stop_reloads.clone());
    let (identity, backend) = (credentials.identity(), settings.backend);
    let mut agent = Agent::start(settings, credentials, listener).await?;
    info!(address = %agent.local_addr(), %identity, %backend, "serving");
    if let Some(path) = &config.ready_file {
        tell_ready(path, &agent)?;
    }
    let failed = tokio::select! {
        _ = interrupt.recv() => None,
        _ = terminate.recv() => None,
        ended = agent.finished() => Some(ended),
    };
    if let Some(ended) = failed {
        return ended.context("the server ended");
    }
    info!("shutting down");
    stop_reloads.cancel();
    agent.shutdown().await;
    reloads.close();
    reloads.wait().await;
    Ok(())
}

/// Written next to the file and renamed, so that whoever waits for it never reads half of it.
fn tell_ready(path: &Path, agent: &RunningAgent) -> anyhow::Result<()> {
    let partial = path.with_extension("partial");
    std::fs::write(&partial, format!("{}\n", agent.local_addr()))
        .and_then(|()| std::fs::rename(&partial, path))
        .with_context(|| format!("cannot write the ready file `{}`", path.display()))
}
