//! Where a view comes from: this host, one agent, or a fleet. All give the same events.

use std::borrow::Cow;
use std::time::Duration;

use gpufleet_embed::LocalHost;
use gpufleet_transport::{Credentials, DialOptions, Dialer, ExpectedPeer, Role};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::Channel;

use crate::config::Endpoint;
use crate::exit::{CtlError, Result};
use crate::view::{Event, Filter, View};

mod agent;
mod fleet;
mod local;
#[cfg(test)]
mod tests;

pub(crate) use fleet::{Client as FleetClient, fleet_client};

/// Events made ahead of the reader.
const AHEAD: usize = 64;
/// How long a view may take to be complete.
const PATIENCE: Duration = Duration::from_secs(20);

/// What to watch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Want {
    pub(crate) filter: Filter,
    /// Every process of the hosts.
    pub(crate) all: bool,
    /// The devices and processes too, not only the hosts.
    pub(crate) contents: bool,
    /// Time between two refreshes.
    pub(crate) interval: Duration,
}

/// A running source. Dropping it ends its tasks.
pub(crate) struct Source {
    events: mpsc::Receiver<Event>,
    /// Synced streams that make a complete view.
    streams: usize,
    fleet: bool,
    selects: bool,
    filter: Filter,
    _stop: Option<DropGuard>,
}

impl Source {
    /// Starts to collect from an endpoint.
    ///
    /// # Errors
    /// When it cannot be reached, or refuses.
    pub(crate) async fn open(endpoint: &Endpoint, want: Want) -> Result<Self> {
        let (sender, events) = mpsc::channel(AHEAD);
        let stop = CancellationToken::new();
        let filter = want.filter.clone();
        let (streams, fleet) = match endpoint {
            Endpoint::Local => {
                local::start(&want, sender, stop.clone())?;
                (1, false)
            }
            Endpoint::Agent { address, tls_dir } => {
                let dialer = dialer(tls_dir)?;
                agent::start(dialer, address.clone(), want, sender, stop.clone()).await?;
                (1, false)
            }
            Endpoint::Aggregator { address, tls_dir } => {
                let dialer = dialer(tls_dir)?;
                let streams = if want.contents { 3 } else { 1 };
                fleet::start(dialer, address.clone(), want, sender, stop.clone()).await?;
                (streams, true)
            }
        };
        Ok(Self { _stop: Some(stop.drop_guard()), ..Self::of(events, streams, fleet, filter) })
    }

    fn of(events: mpsc::Receiver<Event>, streams: usize, fleet: bool, filter: Filter) -> Self {
        Self { events, streams, fleet, selects: fleet, filter, _stop: None }
    }

    /// Streams that make a complete view.
    pub(crate) const fn streams(&self) -> usize {
        self.streams
    }

    /// The next event; `None` when the source has ended.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// A complete view, of everything that the source tells: changes of what is not shown come too. See [`Source::cut`].
    ///
    /// # Errors
    /// When the view does not become complete in time, or something named does not exist.
    pub(crate) async fn view(&mut self) -> Result<View> {
        let collected = tokio::time::timeout(PATIENCE, self.collect()).await;
        let view = collected
            .unwrap_or_else(|_| Err(CtlError::unreachable(format!("no complete answer within {PATIENCE:?}"))))?;
        if !self.selects {
            self.filter.check_exists(&view)?;
        }
        Ok(view)
    }

    async fn collect(&mut self) -> Result<View> {
        let mut view = View::new(self.fleet);
        let mut synced = 0;
        while synced < self.streams {
            match self.events.recv().await {
                Some(Event::Synced) => synced += 1,
                Some(Event::Lost(error)) => return Err(error),
                Some(event) => view.apply(event)?,
                None => return Err(CtlError::unreachable("the source ended before its answer was complete")),
            }
        }
        Ok(view)
    }

    /// A view cut down to what was asked for, where the other side does not select. What was named may be gone meanwhile:
    /// that is no error.
    pub(crate) fn cut<'v>(&self, view: &'v View) -> Cow<'v, View> {
        if self.selects {
            return Cow::Borrowed(view);
        }
        let mut view = view.clone();
        self.filter.cut(&mut view);
        Cow::Owned(view)
    }
}

/// A view of an endpoint as it is now.
///
/// # Errors
/// As [`Source::open`] and [`Source::view`].
pub(crate) async fn collect(endpoint: &Endpoint, want: Want) -> Result<View> {
    let mut source = Source::open(endpoint, want).await?;
    let view = source.view().await?;
    Ok(source.cut(&view).into_owned())
}

/// This host's sampler, for acting on its processes.
///
/// # Errors
/// When a thread is not to be had.
pub(crate) fn local_host(interval: Duration) -> Result<LocalHost> {
    gpufleet_embed::local(&host_name(), interval, None).map_err(|error| CtlError::failed(error.to_string()))
}

/// This host's name, as `uname -n` gives it.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

pub(crate) fn dialer(tls_dir: &std::path::Path) -> Result<Dialer> {
    let credentials = Credentials::load(tls_dir).map_err(|error| CtlError::usage(error.to_string()))?;
    Ok(Dialer::new(credentials, DialOptions::default()))
}

/// Whom a fleet's address must lead to.
const AGGREGATOR: ExpectedPeer = ExpectedPeer::AnyOf(&[Role::Aggregator]);

/// Dials an aggregator, or says that something else answers.
pub(crate) async fn dial_aggregator(dialer: &Dialer, address: &str) -> Result<Channel> {
    Ok(dialer.connect(address, &AGGREGATOR).await?)
}

/// Tries to connect anew until it works or the reader is gone.
async fn redial(
    events: &mpsc::Sender<Event>,
    dialer: &Dialer,
    address: &str,
    expected: &ExpectedPeer,
) -> Option<Channel> {
    let mut backoff = gpufleet_transport::Backoff::new(Duration::from_millis(250), Duration::from_secs(2));
    loop {
        tokio::time::sleep(backoff.next_wait()).await;
        match dialer.connect(address, expected).await {
            Ok(channel) => return Some(channel),
            Err(error) => events.send(Event::Lost(error.into())).await.ok()?,
        }
    }
}
