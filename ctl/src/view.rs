//! What there is to see: hosts with their devices and processes, and how fresh each is.
//!
//! A [`View`] is built from [`Event`]s of any source, one after the other, and read by every command. It knows nothing of
//! networks or terminals. Data that is not current stays, with its age.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gpufleet_model::{Device, DeviceKey, Host, HostDelta, HostSnapshot, Process, ProcessIdentity};
use gpufleet_proto::convert::{decode_devices, decode_processes, std_duration, system_time};
use gpufleet_proto::v1;

use crate::exit::{CtlError, Result};

mod filter;
mod following;
#[cfg(test)]
mod tests;

pub(crate) use filter::Filter;
pub(crate) use following::Following;

/// How the source stands with a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Connection {
    Connected,
    Stale,
    Unreachable,
    NeverSeen,
}

impl Connection {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Stale => "stale",
            Self::Unreachable => "unreachable",
            Self::NeverSeen => "never-seen",
        }
    }

    pub(crate) fn from_wire(state: i32) -> Self {
        match v1::ConnectionState::try_from(state) {
            Ok(v1::ConnectionState::Connected) => Self::Connected,
            Ok(v1::ConnectionState::Stale) => Self::Stale,
            Ok(v1::ConnectionState::NeverSeen) => Self::NeverSeen,
            // A state that we do not know is not "connected".
            _ => Self::Unreachable,
        }
    }
}

/// A host and everything known of it.
#[derive(Debug, Clone)]
pub(crate) struct HostView {
    pub(crate) name: String,
    pub(crate) address: Option<String>,
    pub(crate) connection: Connection,
    /// Why it is not connected.
    pub(crate) problem: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    /// What it last said of itself; `None` when it was never seen.
    pub(crate) host: Option<Arc<Host>>,
    pub(crate) devices: BTreeMap<DeviceKey, Arc<Device>>,
    pub(crate) processes: BTreeMap<ProcessIdentity, Arc<Process>>,
    /// Age of the newest sample when this was received, and when that was.
    age: Option<(Duration, Instant)>,
}

impl HostView {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            address: None,
            connection: Connection::NeverSeen,
            problem: None,
            labels: BTreeMap::new(),
            host: None,
            devices: BTreeMap::new(),
            processes: BTreeMap::new(),
            age: None,
        }
    }

    /// Age of the newest sample; `None` when it was never seen.
    pub(crate) fn sample_age(&self) -> Option<Duration> {
        self.age.map(|(age, at)| age + at.elapsed())
    }

    pub(crate) fn boot_id(&self) -> Option<&str> {
        self.host.as_ref().map(|host| host.boot_id.as_str())
    }
}

/// Everything there is to see.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) hosts: BTreeMap<String, HostView>,
    pub(crate) collected_at: SystemTime,
    /// True for a fleet, false for one host.
    pub(crate) fleet: bool,
    /// Hosts that the inventory had and has no more.
    gone: BTreeSet<String>,
}

/// News from a source.
#[derive(Debug)]
pub(crate) enum Event {
    /// One host as it is now.
    Snapshot(Arc<HostSnapshot>),
    /// Changes of one host.
    Delta { host: String, delta: Box<HostDelta> },
    /// Everything known of one host's contents is void.
    HostReset(String),
    /// Hosts of the fleet.
    Hosts(v1::WatchFleetResponse),
    /// Devices of the fleet.
    Devices(v1::FleetServiceWatchDevicesResponse),
    /// Processes of the fleet.
    Processes(v1::FleetServiceWatchProcessesResponse),
    /// Every process that was asked for, in place of those known.
    ProcessList(Vec<v1::HostProcessChanges>),
    /// A stream's snapshot is complete.
    Synced,
    /// The connection was lost; what is shown ages.
    Lost(CtlError),
    /// The connection is back; everything known is void and comes anew.
    Back,
}

impl View {
    pub(crate) fn new(fleet: bool) -> Self {
        Self { hosts: BTreeMap::new(), collected_at: SystemTime::now(), fleet, gone: BTreeSet::new() }
    }

    /// Takes news in.
    ///
    /// # Errors
    /// When the news cannot be understood, or change what was never introduced: the source must start over.
    pub(crate) fn apply(&mut self, event: Event) -> Result<()> {
        self.collected_at = SystemTime::now();
        match event {
            Event::Snapshot(snapshot) => self.apply_snapshot(&snapshot),
            Event::Delta { host, delta } => self.apply_delta(&host, &delta)?,
            Event::HostReset(host) => self.host(&host).reset(),
            Event::Hosts(message) => self.apply_hosts(message)?,
            Event::Devices(message) => {
                for changes in message.hosts {
                    self.apply_devices(changes)?;
                }
            }
            Event::Processes(message) => {
                for changes in message.hosts {
                    self.apply_processes(changes)?;
                }
            }
            Event::ProcessList(hosts) => {
                // The list is of everything that was asked for.
                for host in self.hosts.values_mut() {
                    host.processes.clear();
                }
                for changes in hosts {
                    self.apply_processes(changes)?;
                }
            }
            Event::Back => {
                self.hosts.clear();
                self.gone.clear();
            }
            Event::Synced | Event::Lost(_) => {}
        }
        Ok(())
    }

    /// Adds processes to those known.
    ///
    /// # Errors
    /// When they cannot be understood.
    pub(crate) fn add_processes(&mut self, hosts: Vec<v1::HostProcessChanges>) -> Result<()> {
        for changes in hosts {
            self.apply_processes(v1::HostProcessChanges { reset: false, ..changes })?;
        }
        Ok(())
    }

    fn host(&mut self, name: &str) -> &mut HostView {
        self.hosts.entry(name.to_owned()).or_insert_with(|| HostView::new(name))
    }

    fn apply_snapshot(&mut self, snapshot: &HostSnapshot) {
        let view = self.host(&snapshot.host.name);
        view.connection = Connection::Connected;
        view.host = Some(Arc::clone(&snapshot.host));
        view.devices.clone_from(&snapshot.devices);
        view.processes.clone_from(&snapshot.processes);
        view.age = Some((Duration::ZERO, Instant::now()));
    }

    fn apply_delta(&mut self, name: &str, delta: &HostDelta) -> Result<()> {
        let view = self.host(name);
        view.connection = Connection::Connected;
        view.age = Some((Duration::ZERO, Instant::now()));
        if let Some(host) = &delta.host {
            view.host = Some(Arc::clone(host));
        }
        for key in &delta.removed_devices {
            view.devices.remove(key);
        }
        for change in &delta.devices {
            change.apply_to(&mut view.devices).map_err(misfit)?;
        }
        for identity in &delta.removed_processes {
            view.processes.remove(identity);
        }
        for change in &delta.processes {
            change.apply_to(&mut view.processes).map_err(misfit)?;
        }
        Ok(())
    }

    fn apply_hosts(&mut self, message: v1::WatchFleetResponse) -> Result<()> {
        for name in message.removed {
            self.hosts.remove(&name);
            self.gone.insert(name);
        }
        for connection in message.upserts {
            self.gone.remove(&connection.name);
            let view = self.host(&connection.name);
            view.connection = Connection::from_wire(connection.state);
            view.address = Some(connection.address);
            view.problem = connection.problem;
            view.labels = connection.labels.into_iter().collect();
            view.age = connection.sample_age.and_then(std_duration).map(|age| (age, Instant::now()));
            view.host = connection.host.map(Host::try_from).transpose().map_err(misfit)?.map(Arc::new);
        }
        Ok(())
    }

    /// True for late news of a host that the inventory no longer has, which must not bring it back: its streams end one
    /// after the other. A host that returns starts with a reset.
    fn is_late(&mut self, host: &str, reset: bool, nothing: bool) -> bool {
        if reset && !nothing {
            self.gone.remove(host);
        }
        !self.hosts.contains_key(host) && (nothing || self.gone.contains(host))
    }

    fn apply_devices(&mut self, message: v1::HostDeviceChanges) -> Result<()> {
        if self.is_late(&message.host, message.reset, message.changes.is_none()) {
            return Ok(());
        }
        let view = self.host(&message.host);
        if message.reset {
            view.devices.clear();
        }
        view.note_sample(message.sampled_at.and_then(system_time));
        let (changes, removed) = message.changes.map(decode_devices).transpose().map_err(misfit)?.unwrap_or_default();
        for key in removed {
            view.devices.remove(&key);
        }
        for change in changes {
            change.apply_to(&mut view.devices).map_err(misfit)?;
        }
        Ok(())
    }

    fn apply_processes(&mut self, message: v1::HostProcessChanges) -> Result<()> {
        if self.is_late(&message.host, message.reset, message.changes.is_none()) {
            return Ok(());
        }
        let view = self.host(&message.host);
        if message.reset {
            view.processes.clear();
        }
        let (changes, removed) = message.changes.map(decode_processes).transpose().map_err(misfit)?.unwrap_or_default();
        for identity in removed {
            view.processes.remove(&identity);
        }
        for change in changes {
            change.apply_to(&mut view.processes).map_err(misfit)?;
        }
        Ok(())
    }

    /// Every device with its host, in order.
    pub(crate) fn devices(&self) -> impl Iterator<Item = (&HostView, &Device)> {
        self.hosts.values().flat_map(|host| host.devices.values().map(move |device| (host, &**device)))
    }

    /// Every process with its host, in order.
    pub(crate) fn processes(&self) -> impl Iterator<Item = (&HostView, &Process)> {
        self.hosts.values().flat_map(|host| host.processes.values().map(move |process| (host, &**process)))
    }

    /// True when every host is connected and fresh.
    pub(crate) fn is_complete(&self) -> bool {
        self.hosts.values().all(|host| host.connection == Connection::Connected)
    }

    /// True when anything shown is not real.
    pub(crate) fn is_simulated(&self) -> bool {
        self.hosts.values().filter_map(|host| host.host.as_ref()).any(|host| host.simulated)
    }
}

impl HostView {
    fn reset(&mut self) {
        self.devices.clear();
        self.processes.clear();
    }

    /// Changes that come are from a sample taken just now: the aggregator sends none of a silent host.
    fn note_sample(&mut self, sampled_at: Option<SystemTime>) {
        if sampled_at.is_some() && self.connection == Connection::Connected {
            self.age = Some((Duration::ZERO, Instant::now()));
        }
    }
}

fn misfit(error: impl std::error::Error) -> CtlError {
    CtlError::unreachable(format!("the answer could not be understood: {error}"))
}
