//! Rebuilds a host's state from the messages of its stream.
//!
//! In: decoded messages, from a peer that is authenticated but not trusted to be correct. Out: [`Step`]s for the host's
//! writer, or a [`Violation`] that ends the stream. Pure: no I/O, no clock. Invariant: what one host may occupy is
//! bounded by [`HostLimits`], and a state that broke a rule is never published.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpufleet_model::{ApplyError, BackendStatus, HostDelta, HostSnapshot, ProcessInfo};
use gpufleet_proto::v1::WatchPhase;
use thiserror::Error;

use crate::settings::HostLimits;
use crate::state::Changed;

/// What to do after a message.
#[derive(Debug)]
pub(crate) enum Step {
    /// Nothing: the snapshot is not complete yet.
    Wait,
    /// A complete first state.
    Begin(Arc<HostSnapshot>),
    /// The next state.
    Advance(Arc<HostSnapshot>, Changed),
}

/// What an agent did against the contract.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum Violation {
    #[error("the agent sent changes before its snapshot was complete")]
    Early,
    #[error("the agent sent a message of unknown phase {0}")]
    Phase(i32),
    #[error("the agent sent a snapshot without the host")]
    NoHost,
    #[error(
        "the agent calls itself `{claimed}`; its certificate and the inventory say `{expected}`: set its `host_name`"
    )]
    Name { claimed: String, expected: Arc<str> },
    #[error("the agent sent changes that do not fit what it sent before: {0}")]
    Misfit(#[from] ApplyError),
    #[error("the agent reports {count} {what}; the most that is accepted of one host is {limit}")]
    TooMany { what: &'static str, count: usize, limit: usize },
}

/// The state of one stream.
#[derive(Debug)]
pub(crate) struct Assembly {
    name: Arc<str>,
    limits: HostLimits,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Empty,
    Snapshot(HostSnapshot),
    Live(Arc<HostSnapshot>),
}

impl Assembly {
    pub(crate) fn new(name: Arc<str>, limits: HostLimits) -> Self {
        Self { name, limits, stage: Stage::Empty }
    }

    /// Takes one message: its phase and its changes.
    pub(crate) fn take(&mut self, phase: i32, delta: &HostDelta) -> Result<Step, Violation> {
        match WatchPhase::try_from(phase) {
            Ok(WatchPhase::Snapshot) => self.snapshot(delta),
            Ok(WatchPhase::Synced) => self.synced(),
            Ok(WatchPhase::Update) => self.update(delta),
            Ok(WatchPhase::Reset) => {
                self.stage = Stage::Empty;
                Ok(Step::Wait)
            }
            Ok(WatchPhase::Unspecified) | Err(_) => Err(Violation::Phase(phase)),
        }
    }

    fn snapshot(&mut self, delta: &HostDelta) -> Result<Step, Violation> {
        let mut snapshot = match std::mem::replace(&mut self.stage, Stage::Empty) {
            Stage::Snapshot(snapshot) => snapshot,
            Stage::Empty | Stage::Live(_) => HostSnapshot {
                sequence: delta.sequence,
                sampled_at: delta.sampled_at,
                host: delta.host.clone().ok_or(Violation::NoHost)?,
                devices: BTreeMap::new(),
                processes: BTreeMap::new(),
            },
        };
        self.apply(&mut snapshot, delta)?;
        self.stage = Stage::Snapshot(snapshot);
        Ok(Step::Wait)
    }

    fn synced(&mut self) -> Result<Step, Violation> {
        match std::mem::replace(&mut self.stage, Stage::Empty) {
            Stage::Snapshot(snapshot) => {
                let snapshot = Arc::new(snapshot);
                self.stage = Stage::Live(Arc::clone(&snapshot));
                Ok(Step::Begin(snapshot))
            }
            Stage::Empty | Stage::Live(_) => Err(Violation::NoHost),
        }
    }

    fn update(&mut self, delta: &HostDelta) -> Result<Step, Violation> {
        let Stage::Live(before) = &self.stage else { return Err(Violation::Early) };
        // Devices and processes that do not change stay shared with the state that readers hold.
        let mut after = HostSnapshot::clone(before);
        self.apply(&mut after, delta)?;
        let devices = !(delta.devices.is_empty() && delta.removed_devices.is_empty());
        let processes = !(delta.processes.is_empty() && delta.removed_processes.is_empty());
        let counts = before.devices.len() != after.devices.len() || before.processes.len() != after.processes.len();
        let changed = Changed { host: delta.host.is_some() || counts, devices, processes };
        let after = Arc::new(after);
        self.stage = Stage::Live(Arc::clone(&after));
        Ok(Step::Advance(after, changed))
    }

    fn apply(&self, snapshot: &mut HostSnapshot, delta: &HostDelta) -> Result<(), Violation> {
        if let Some(host) = &delta.host
            && *host.name != *self.name
        {
            let claimed = host.name.chars().take(64).collect();
            return Err(Violation::Name { claimed, expected: Arc::clone(&self.name) });
        }
        snapshot.apply(delta)?;
        self.check(snapshot, delta)
    }

    /// Counts what the host occupies. Looks only where the delta can have added something.
    fn check(&self, snapshot: &HostSnapshot, delta: &HostDelta) -> Result<(), Violation> {
        let within = |what, count: usize, limit: usize| {
            if count > limit { Err(Violation::TooMany { what, count, limit }) } else { Ok(()) }
        };
        within("devices", snapshot.devices.len(), self.limits.devices)?;
        within("processes", snapshot.processes.len(), self.limits.processes)?;
        if delta.processes.iter().any(|change| change.uses.is_some()) {
            let uses = snapshot.processes.values().map(|process| process.uses.len()).sum();
            within("uses of devices by processes", uses, self.limits.device_uses)?;
        }
        let facts = delta.host.is_some()
            || delta.devices.iter().any(|change| change.info.is_some())
            || delta.processes.iter().any(|change| change.info.is_some());
        if facts {
            within("bytes of names and command lines", text_bytes(snapshot), self.limits.text_bytes)?;
        }
        Ok(())
    }
}

/// Bytes of variable length that the host occupies. An element of a list costs its place even when it is empty.
fn text_bytes(snapshot: &HostSnapshot) -> usize {
    let host = &snapshot.host;
    let backends = host.backends.iter().map(|backend| {
        size_of::<BackendStatus>()
            + present([
                &backend.driver_version,
                &backend.library_version,
                &backend.cuda_driver_version,
                &backend.problem,
            ])
    });
    let labels = host.labels.iter().map(|(key, value)| size_of::<(String, String)>() + key.len() + value.len());
    let own = host.boot_id.len() + host.kernel_version.len() + host.os_name.len() + host.agent_version.len();
    let devices = snapshot.devices.values().map(|device| {
        let info = &device.info;
        let mig = info.mig.as_ref().map_or(0, |mig| mig.parent_uuid.len());
        let options = [&info.pci_bus_id, &info.serial, &info.part_number, &info.vbios_version];
        info.uuid.len() + info.name.len() + mig + present(options)
    });
    let processes = snapshot.processes.values().map(|process| process_bytes(&process.info));
    own + backends.chain(labels).chain(devices).chain(processes).sum::<usize>()
}

fn process_bytes(info: &ProcessInfo) -> usize {
    let options = [
        &info.user,
        &info.cgroup,
        &info.systemd_unit,
        &info.container_id,
        &info.pod_uid,
        &info.slurm_job_id,
        &info.slurm_step,
    ];
    let arguments = info.arguments.iter().map(|argument| argument.len() + size_of::<Vec<u8>>()).sum::<usize>();
    info.name.len() + arguments + present(options)
}

/// Bytes of the texts that are there.
fn present<'a>(texts: impl IntoIterator<Item = &'a Option<String>>) -> usize {
    texts.into_iter().flatten().map(String::len).sum()
}

#[cfg(test)]
mod tests {
    use gpufleet_model::DeviceKey;

    use super::*;
    use crate::fixtures;

    const SNAPSHOT: i32 = WatchPhase::Snapshot as i32;
    const SYNCED: i32 = WatchPhase::Synced as i32;
    const UPDATE: i32 = WatchPhase::Update as i32;

    fn limits() -> HostLimits {
        HostLimits { devices: 4, processes: 4, device_uses: 8, text_bytes: 4096 }
    }

    fn empty(sequence: u64) -> HostDelta {
        let snapshot = fixtures::snapshot("host", 0, 0);
        HostDelta { sequence, ..HostDelta::between(&snapshot, &snapshot) }
    }

    fn live(snapshot: &HostSnapshot) -> Assembly {
        let mut assembly = Assembly::new("host".into(), limits());
        assembly.take(SNAPSHOT, &HostDelta::full(snapshot)).unwrap();
        assert!(matches!(assembly.take(SYNCED, &empty(1)), Ok(Step::Begin(begun)) if *begun == *snapshot));
        assembly
    }

    #[test]
    fn a_snapshot_in_parts_then_changes() {
        let before = fixtures::snapshot("host", 2, 3);
        let mut after = before.clone();
        after.sequence += 1;
        after.processes.pop_first();
        let mut assembly = live(&before);
        let Ok(Step::Advance(seen, changed)) = assembly.take(UPDATE, &HostDelta::between(&before, &after)) else {
            panic!("not an update")
        };
        assert_eq!(*seen, after);
        assert_eq!(
            changed,
            Changed { host: true, devices: false, processes: true },
            "the count of processes is the host's"
        );
        let same = HostDelta { sequence: 9, ..HostDelta::between(&after, &after) };
        let Ok(Step::Advance(_, changed)) = assembly.take(UPDATE, &same) else { panic!("not an update") };
        assert_eq!(changed, Changed { host: false, devices: false, processes: false });
    }

    #[test]
    fn a_reset_starts_over() {
        let first = fixtures::snapshot("host", 2, 3);
        let second = fixtures::snapshot("host", 1, 0);
        let mut assembly = live(&first);
        assert!(matches!(assembly.take(WatchPhase::Reset as i32, &empty(2)), Ok(Step::Wait)));
        assert_eq!(assembly.take(UPDATE, &empty(3)).unwrap_err(), Violation::Early);
        assembly.take(SNAPSHOT, &HostDelta::full(&second)).unwrap();
        assert!(matches!(assembly.take(SYNCED, &empty(4)), Ok(Step::Begin(begun)) if *begun == second));
    }

    #[test]
    fn violations_end_the_stream() {
        let new = || Assembly::new("host".into(), limits());
        assert_eq!(new().take(UPDATE, &empty(1)).unwrap_err(), Violation::Early);
        assert_eq!(new().take(99, &empty(1)).unwrap_err(), Violation::Phase(99));
        assert_eq!(new().take(SYNCED, &empty(1)).unwrap_err(), Violation::NoHost);
        assert_eq!(new().take(SNAPSHOT, &empty(1)).unwrap_err(), Violation::NoHost);
        let other = HostDelta::full(&fixtures::snapshot("other", 0, 0));
        assert_eq!(
            new().take(SNAPSHOT, &other).unwrap_err().to_string(),
            "the agent calls itself `other`; its certificate and the inventory say `host`: set its `host_name`"
        );
        let mut misfit = empty(2);
        let unknown = HostDelta::full(&fixtures::snapshot("host", 1, 0)).devices.remove(0);
        misfit.devices.push(gpufleet_model::DeviceChange { key: DeviceKey(77), info: None, ..unknown });
        assert_eq!(
            live(&fixtures::snapshot("host", 1, 0)).take(UPDATE, &misfit).unwrap_err().to_string(),
            "the agent sent changes that do not fit what it sent before: device `77` changed before it was introduced"
        );
    }

    #[test]
    fn what_one_host_may_occupy_is_bounded() {
        let refusal = |snapshot: &HostSnapshot| {
            let mut assembly = Assembly::new("host".into(), limits());
            assembly.take(SNAPSHOT, &HostDelta::full(snapshot)).unwrap_err().to_string()
        };
        assert_eq!(
            refusal(&fixtures::snapshot("host", 5, 0)),
            "the agent reports 5 devices; the most that is accepted of one host is 4"
        );
        assert!(refusal(&fixtures::snapshot("host", 1, 5)).contains("5 processes"));
        let mut long = fixtures::snapshot("host", 1, 1);
        let process = Arc::make_mut(long.processes.values_mut().next().unwrap());
        Arc::make_mut(&mut process.info).arguments = vec![vec![b'x'; 5000]];
        assert!(refusal(&long).contains("bytes of names and command lines"));
        let mut many = fixtures::snapshot("host", 1, 1);
        let process = Arc::make_mut(many.processes.values_mut().next().unwrap());
        process.uses = vec![process.uses[0].clone(); 9];
        assert!(refusal(&many).contains("9 uses of devices"));
    }
}
