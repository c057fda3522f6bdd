//! `up`: agent, aggregator and throw-away mutual TLS in this process, and a look at them.

use std::time::{Duration, Instant};

use gpufleet_embed::{RunningFleet, UpOptions};

use super::top::{self, Mode};
use crate::cli::Up;
use crate::config::Endpoint;
use crate::exit::{CtlError, Exit, Result};
use crate::interrupts::Interrupts;
use crate::screen::{Screen, print};
use crate::source::{Want, collect, host_name};

/// How long the aggregator may take to have every agent.
const PATIENCE: Duration = Duration::from_secs(15);

/// Brings it up, shows it, and takes it down, also when asked to end meanwhile: the certificates must not stay.
pub(crate) async fn run(up: Up, screen: Screen) -> Result<Exit> {
    let mut interrupts = Interrupts::listen()?;
    let options = UpOptions { host_name: host_name(), simulate: up.simulate, interval: up.interval, seed: up.seed };
    let fleet = tokio::select! {
        fleet = gpufleet_embed::up(options) => fleet.map_err(|error| CtlError::failed(error.to_string()))?,
        () = interrupts.next() => return Ok(Exit::Interrupted),
    };
    let shown = tokio::select! {
        shown = show(&up, &fleet, screen) => shown,
        // Serving lasts until it is ended.
        () = interrupts.next() => Ok(if up.serve { Exit::Ok } else { Exit::Interrupted }),
    };
    tokio::select! {
        () = fleet.shutdown() => {}
        // Asked twice: the agents need not end in order.
        () = interrupts.next() => {}
    }
    shown
}

async fn show(up: &Up, fleet: &RunningFleet, screen: Screen) -> Result<Exit> {
    let endpoint = Endpoint::Aggregator {
        address: fleet.aggregator_address().to_string(),
        tls_dir: fleet.credentials_dir().to_owned(),
    };
    until_connected(&endpoint).await?;
    if up.serve {
        return serve(&endpoint).await;
    }
    let mode = match (up.json, up.once || !screen.terminal) {
        (true, _) => Mode::Json,
        (false, true) => Mode::Once,
        (false, false) => Mode::Live,
    };
    top::run(&endpoint, &up.selection, mode, up.interval, screen).await
}

/// Waits until every host is connected; what is not by then is shown as it is.
async fn until_connected(endpoint: &Endpoint) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let want = Want { interval: Duration::from_millis(100), ..Want::default() };
    loop {
        let view = collect(endpoint, want.clone()).await?;
        if view.is_complete() || Instant::now() >= deadline {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn serve(endpoint: &Endpoint) -> Result<Exit> {
    let Endpoint::Aggregator { address, tls_dir } = endpoint else { return Ok(Exit::Failed) };
    print(&format!(
        "serving; from another terminal:\n\n  export GPUFLEET_AGGREGATOR={address} GPUFLEET_TLS_DIR={}\n  \
         gpuctl top --cluster\n\nor keep it as a context:\n\n  gpuctl context set up --aggregator {address} --tls-dir {}\n\n\
         Ctrl-C ends it and removes the certificates.\n",
        tls_dir.display(),
        tls_dir.display()
    ))?;
    std::future::pending().await
}
