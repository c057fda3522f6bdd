//! `gpuctl`: looks at every GPU and GPU process of this host or of a fleet, and acts on them.
//!
//! `source` (this host, an agent, an aggregator) → `view` → `columns` and `output` → `screen`. `command` ties them
//! together, one file for each command.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

mod cli;
mod columns;
mod command;
mod config;
mod exit;
mod interrupts;
mod output;
mod screen;
mod signals;
mod source;
mod view;

use cli::{Cli, Command, Top};
use command::top::Mode;
use config::{Config, Endpoint, Environment};
use exit::{CtlError, Exit, Result};
use output::Records;
use screen::Screen;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match start(cli) {
        Ok(exit) => exit.into(),
        Err(error) => {
            if let Some(message) = error.message() {
                screen::tell(message);
            }
            error.exit.into()
        }
    }
}

fn start(cli: Cli) -> Result<Exit> {
    let screen = Screen::detect(cli.no_color);
    match cli.command {
        Command::Version => screen::print(&format!("gpuctl {}\n", env!("CARGO_PKG_VERSION"))).map(|()| Exit::Ok),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "gpuctl", &mut script);
            screen::print(&String::from_utf8_lossy(&script)).map(|()| Exit::Ok)
        }
        Command::Pki(pki) => command::pki::run(pki),
        Command::Context(context) => command::context::run(context, cli.connection),
        command => runtime(&command)?.block_on(run(command, &cli.connection, screen)),
    }
}

/// One thread is enough for everything but a whole fleet in this process.
fn runtime(command: &Command) -> Result<tokio::runtime::Runtime> {
    let mut builder = match command {
        Command::Up(_) => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder.enable_all().build()?;
    start_logging();
    Ok(runtime)
}

/// Quiet unless asked: what matters is said by the commands themselves.
fn start_logging() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("GPUFLEET_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}

async fn run(command: Command, connection: &cli::Connection, screen: Screen) -> Result<Exit> {
    let endpoint = || Config::load()?.endpoint(connection, &Environment::read());
    match command {
        Command::Up(up) => command::up::run(up, screen).await,
        Command::Top(top) => {
            let endpoint = top_endpoint(&top, connection)?;
            let mode = match (top.json, top.once || !screen.terminal) {
                (true, _) => Mode::Json,
                (false, true) => Mode::Once,
                (false, false) => Mode::Live,
            };
            command::top::run(&endpoint, &top.selection, mode, top.interval, screen).await
        }
        Command::Ps(ps) => command::list::run(&endpoint()?, ps.list, Records::Processes, ps.all, screen).await,
        Command::Devices(list) => command::list::run(&endpoint()?, list, Records::Devices, false, screen).await,
        Command::Hosts(list) => command::list::run(&endpoint()?, list, Records::Hosts, false, screen).await,
        Command::Summary(summary) => command::summary::run(&endpoint()?, summary, screen).await,
        Command::Kill(kill) => command::kill::run(&endpoint()?, kill, screen).await,
        Command::Pki(_) | Command::Context(_) | Command::Completion { .. } | Command::Version => Ok(Exit::Ok),
    }
}

/// This host, unless the command line asks for the fleet, a context or one agent. What is set for every command, in the
/// environment or the file, needs `--cluster`.
fn top_endpoint(top: &Top, connection: &cli::Connection) -> Result<Endpoint> {
    if top.cluster && connection.agent.is_some() {
        return Err(CtlError::usage("--cluster asks an aggregator, and --agent one agent; give one of them"));
    }
    let asked = [&connection.aggregator, &connection.agent, &connection.context].into_iter().any(Option::is_some);
    if !top.cluster && !asked {
        return Ok(Endpoint::Local);
    }
    match Config::load()?.endpoint(connection, &Environment::read())? {
        Endpoint::Local => Err(CtlError::usage(
            "no aggregator to ask; give --aggregator HOST:PORT, or make a context with `gpuctl context set`",
        )),
        Endpoint::Agent { address, .. } if top.cluster => {
            Err(CtlError::usage(format!("the context is of one agent, `{address}`; --cluster asks an aggregator")))
        }
        endpoint => Ok(endpoint),
    }
}
