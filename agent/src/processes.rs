//! Processes of this host: pid in, [`Process`] out.
//!
//! Each process is read once per sample, however many devices it uses. `/proc/PID/stat` stays open between samples:
//! reading it costs a tenth of opening it anew, and once the process is reaped it answers `ESRCH`, so it can never
//! describe a reused pid. Facts that rarely change are read when a process is new, after an exec, and every so often.
//! Owned by the sampler; blocking, so it runs where blocking is allowed.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use gpufleet_model::{Process, ProcessIdentity, ProcessInfo, ProcessReadings, ProcessState, Unknown, Visibility};

pub mod attribution;
mod entry;
mod user_names;

use entry::{Entry, Unreadable};
pub use user_names::UserNames;

/// Facts of a living process are read again after this many samples.
const FACTS_EVERY: u32 = 10;

/// What the readings are computed against.
#[derive(Debug, Clone, Copy)]
pub struct HostContext {
    /// When the kernel was booted.
    pub booted_at: SystemTime,
    /// Memory in all, when known.
    pub memory_total_bytes: Option<u64>,
    /// False when pids of other namespaces are not visible here.
    pub host_pid_namespace: bool,
}

/// The processes read so far.
#[derive(Debug)]
pub struct ProcessTable {
    entries: HashMap<u32, Entry>,
    users: UserNames,
    keep_open: bool,
    generation: u64,
}

impl ProcessTable {
    /// A table for a few processes that are read again and again: their files stay open.
    pub fn for_few(users: UserNames) -> Self {
        Self { entries: HashMap::new(), users, keep_open: true, generation: 0 }
    }

    /// A table for every process of the host: no file stays open.
    pub fn for_all(users: UserNames) -> Self {
        Self { entries: HashMap::new(), users, keep_open: false, generation: 0 }
    }

    /// Reads these processes, and forgets every other one.
    pub fn read(&mut self, pids: impl IntoIterator<Item = u32>, context: &HostContext) -> Vec<Process> {
        self.generation += 1;
        let now = Instant::now();
        let read = pids.into_iter().map(|pid| self.read_one(pid, context, now)).collect();
        self.entries.retain(|_, entry| entry.generation == self.generation);
        read
    }

    fn read_one(&mut self, pid: u32, context: &HostContext, now: Instant) -> Process {
        let mut known = self.entries.remove(&pid);
        let (mut entry, stat) = match Entry::current(&mut known, pid) {
            Ok(read) => read,
            Err(Unreadable::Gone) if known.is_some() => return self.ended(pid, known, context),
            Err(reason) => return unreadable(pid, reason, context),
        };
        entry.generation = self.generation;
        let info = entry.facts(&stat, &self.users, context);
        let readings = entry.readings(&stat, context, now);
        let identity = entry.identity();
        if self.keep_open {
            self.entries.insert(pid, entry);
        } else {
            self.entries.insert(pid, entry.without_file());
        }
        Process { identity, info, state: entry::state(stat.state), readings, uses: Vec::new() }
    }

    /// A process that was read before and has ended, while the driver still names it: it stays the same process, with
    /// the facts that were known.
    fn ended(&mut self, pid: u32, known: Option<Entry>, context: &HostContext) -> Process {
        let gone = unreadable(pid, Unreadable::Gone, context);
        let Some(mut entry) = known else { return gone };
        let Some(info) = entry.last_facts() else { return gone };
        let identity = entry.identity();
        entry.generation = self.generation;
        self.entries.insert(pid, entry);
        Process { identity, info, readings: ProcessReadings::unknown(Unknown::Lost), ..gone }
    }
}

/// A process of which nothing can be read, with the reason.
fn unreadable(pid: u32, reason: Unreadable, context: &HostContext) -> Process {
    let (visibility, unknown) = match reason {
        Unreadable::Denied => (Visibility::AccessDenied, Unknown::NoPermission),
        Unreadable::Failed => (Visibility::AccessDenied, Unknown::Failed),
        // In a namespace of its own the agent cannot tell a pid of elsewhere from one that is gone.
        Unreadable::Gone if context.host_pid_namespace => (Visibility::Exited, Unknown::Lost),
        Unreadable::Gone => (Visibility::NotVisible, Unknown::NotSupported),
    };
    let info = ProcessInfo {
        visibility,
        parent_pid: None,
        user_id: None,
        user: None,
        name: String::new(),
        arguments: Vec::new(),
        started_at: None,
        kernel_thread: false,
        cgroup: None,
        systemd_unit: None,
        container_id: None,
        pod_uid: None,
        slurm_job_id: None,
        slurm_step: None,
    };
    Process {
        identity: ProcessIdentity { pid, start_ticks: 0 },
        info: info.into(),
        state: ProcessState::Unknown,
        readings: ProcessReadings::unknown(unknown),
        uses: Vec::new(),
    }
}

/// Every pid of the host, as far as this process may see.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn every_pid() -> std::io::Result<Vec<u32>> {
    let entries = std::fs::read_dir("/proc")?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// Start ticks of a process now; `None` when there is no such process or it cannot be read.
pub fn start_ticks(pid: u32) -> Option<u64> {
    Entry::current(&mut None, pid).ok().map(|(entry, _)| entry.identity().start_ticks)
}

/// Clock ticks a second, the unit of start times and CPU times.
pub(crate) fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second().max(1)
}

pub(crate) fn ticks_to_duration(ticks: u64) -> Duration {
    let per_second = ticks_per_second();
    let nanos = (ticks % per_second) * 1_000_000_000 / per_second;
    Duration::new(ticks / per_second, u32::try_from(nanos).unwrap_or_default())
}
