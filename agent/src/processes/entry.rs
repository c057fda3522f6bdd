//! One process as it is known between samples.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpufleet_model::{ProcessIdentity, ProcessInfo, ProcessReadings, ProcessState, Reading, Unknown, Visibility};
use procfs::FromRead as _;
use procfs::process::Stat;
use rustix::io::Errno;

use super::attribution::Attribution;
use super::{FACTS_EVERY, HostContext, UserNames, ticks_per_second, ticks_to_duration};

/// Flag of kernel threads in `/proc/PID/stat`.
const PF_KTHREAD: u32 = 0x0020_0000;
/// The shortest time over which CPU use is measured: the kernel counts it in ticks of 10 ms.
const CPU_WINDOW: Duration = Duration::from_millis(200);
/// The most of a command line that is kept.
const MOST_ARGUMENT_BYTES: u64 = 32 * 1024;
/// The most of a control group file that is read.
const MOST_CGROUP_BYTES: u64 = 64 * 1024;

/// Why nothing of a process can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// It exists, and is closed to us.
    Denied,
    /// It exists, and reading it failed: no descriptor is left, for example.
    Failed,
    /// There is no such pid here.
    Gone,
}

#[derive(Debug)]
pub(super) struct Entry {
    pid: u32,
    file: Option<File>,
    start_ticks: u64,
    pub(super) generation: u64,
    facts: Option<Facts>,
    cpu: Option<CpuUse>,
}

/// CPU use over the newest window, and where the next one begins.
#[derive(Debug, Clone, Copy)]
struct CpuUse {
    ticks: u64,
    at: Instant,
    percent: Reading<f64>,
}

/// Facts, and when they go stale.
#[derive(Debug)]
struct Facts {
    info: Arc<ProcessInfo>,
    zombie: bool,
    /// Whether the command line could be read; see [`is_safe_to_ask`].
    complete: bool,
    age: u32,
}

impl Entry {
    /// Reads a process: `known` if it still lives, else whichever has the pid now.
    pub(super) fn current(known: &mut Option<Self>, pid: u32) -> Result<(Self, Stat), Unreadable> {
        if let Some(mut file) = known.as_mut().and_then(|entry| entry.file.take())
            && let Ok(stat) = read_stat(&mut file)
            && let Some(entry) = known.take_if(|entry| entry.start_ticks == stat.starttime)
        {
            return Ok((Self { file: Some(file), ..entry }, stat));
        }
        let mut file = open(pid).map_err(|error| reason(&error, pid))?;
        let stat = read_stat(&mut file).map_err(|error| reason(&error, pid))?;
        let (file, start_ticks) = (Some(file), stat.starttime);
        let entry = match known.take_if(|entry| entry.start_ticks == start_ticks) {
            Some(entry) => Self { file, ..entry },
            None => Self { pid, file, start_ticks, generation: 0, facts: None, cpu: None },
        };
        Ok((entry, stat))
    }

    /// What was known of a process that has ended meanwhile.
    pub(super) fn last_facts(&mut self) -> Option<Arc<ProcessInfo>> {
        let facts = self.facts.as_mut()?;
        if facts.info.visibility != Visibility::Exited {
            facts.info = Arc::new(ProcessInfo { visibility: Visibility::Exited, ..(*facts.info).clone() });
        }
        Some(Arc::clone(&facts.info))
    }

    pub(super) fn without_file(self) -> Self {
        Self { file: None, ..self }
    }

    pub(super) const fn identity(&self) -> ProcessIdentity {
        ProcessIdentity { pid: self.pid, start_ticks: self.start_ticks }
    }

    /// The facts, read again when they may have changed. The same `Arc` as long as they did not.
    pub(super) fn facts(&mut self, stat: &Stat, users: &UserNames, context: &HostContext) -> Arc<ProcessInfo> {
        let zombie = stat.state == 'Z';
        if let Some(facts) = &mut self.facts {
            facts.age += 1;
            let parent = u32::try_from(stat.ppid).ok();
            if (facts.age < FACTS_EVERY || !is_safe_to_ask(stat))
                && (facts.complete || !is_safe_to_ask(stat))
                && facts.zombie == zombie
                && facts.info.name == stat.comm
                && facts.info.parent_pid == parent
                && facts.info.user == facts.info.user_id.map(|uid| users.name(uid))
            {
                return Arc::clone(&facts.info);
            }
        }
        let read = self.read_facts(stat, users, context);
        let known = self.facts.take().map(|facts| facts.info);
        let info = known.filter(|known| **known == read).unwrap_or_else(|| Arc::new(read));
        self.facts = Some(Facts { info: Arc::clone(&info), zombie, complete: is_safe_to_ask(stat), age: 0 });
        info
    }

    fn read_facts(&self, stat: &Stat, users: &UserNames, context: &HostContext) -> ProcessInfo {
        let user_id = real_user(self.pid);
        let arguments = if is_safe_to_ask(stat) {
            let raw = read_bounded(self.pid, "cmdline", MOST_ARGUMENT_BYTES).unwrap_or_default();
            gpufleet_model::command::split(&raw)
        } else {
            self.facts.as_ref().map(|facts| facts.info.arguments.clone()).unwrap_or_default()
        };
        let cgroup = read_bounded(self.pid, "cgroup", MOST_CGROUP_BYTES).unwrap_or_default();
        let attribution = Attribution::of(&String::from_utf8_lossy(&cgroup));
        ProcessInfo {
            visibility: Visibility::Visible,
            parent_pid: u32::try_from(stat.ppid).ok(),
            user_id,
            user: user_id.map(|uid| users.name(uid)),
            name: stat.comm.clone(),
            arguments,
            started_at: context.booted_at.checked_add(ticks_to_duration(self.start_ticks)),
            kernel_thread: stat.flags & PF_KTHREAD != 0,
            cgroup: attribution.cgroup,
            systemd_unit: attribution.systemd_unit,
            container_id: attribution.container_id,
            pod_uid: attribution.pod_uid,
            slurm_job_id: attribution.slurm_job_id,
            slurm_step: attribution.slurm_step,
        }
    }

    pub(super) fn readings(&mut self, stat: &Stat, context: &HostContext, now: Instant) -> ProcessReadings {
        let ticks = stat.utime.saturating_add(stat.stime);
        let resident = stat.rss.saturating_mul(rustix::param::page_size() as u64);
        let memory_percent = match context.memory_total_bytes {
            Some(total) if total > 0 => Ok(100.0 * resident as f64 / total as f64),
            _ => Err(Unknown::Failed),
        };
        ProcessReadings {
            cpu_percent: self.cpu_percent(ticks, now),
            host_memory_bytes: Ok(resident),
            host_memory_percent: memory_percent.map(|percent| (percent * 100.0).round() / 100.0),
            cpu_time_seconds: Ok(ticks as f64 / ticks_per_second() as f64),
            thread_count: u32::try_from(stat.num_threads).map_err(|_| Unknown::Failed),
        }
    }

    /// CPU use since the sample before, in percent of one logical CPU, to one decimal.
    fn cpu_percent(&mut self, ticks: u64, now: Instant) -> Reading<f64> {
        let cpu = self.cpu.get_or_insert(CpuUse { ticks, at: now, percent: Err(Unknown::NotYet) });
        let window = now.duration_since(cpu.at);
        if window >= CPU_WINDOW {
            let used = ticks.saturating_sub(cpu.ticks) as f64 / ticks_per_second() as f64;
            let percent = Ok((1000.0 * used / window.as_secs_f64()).round() / 10.0);
            *cpu = CpuUse { ticks, at: now, percent };
        }
        cpu.percent
    }
}

/// To read a command line the kernel takes the lock of the process's memory map. One that hangs in the driver may hold
/// it for ever, and whoever asks then hangs with it.
const fn is_safe_to_ask(stat: &Stat) -> bool {
    stat.state != 'D'
}

fn open(pid: u32) -> io::Result<File> {
    File::open(format!("/proc/{pid}/stat"))
}

fn read_stat(file: &mut File) -> io::Result<Stat> {
    file.seek(SeekFrom::Start(0))?;
    Stat::from_read(file).map_err(|error| match error {
        procfs::ProcError::Io(error, _) => error,
        procfs::ProcError::PermissionDenied(_) => Errno::ACCESS.into(),
        procfs::ProcError::NotFound(_) => Errno::NOENT.into(),
        // The file ends early when the process is reaped meanwhile.
        _ => Errno::SRCH.into(),
    })
}

/// With `hidepid` the whole directory is missing; whether a process is there is then told by a signal that is none.
fn reason(error: &io::Error, pid: u32) -> Unreadable {
    match Errno::from_io_error(error) {
        Some(Errno::ACCESS | Errno::PERM) => Unreadable::Denied,
        Some(Errno::NOENT | Errno::SRCH) => {
            let number = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
            let hidden = number.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(Errno::PERM));
            if hidden { Unreadable::Denied } else { Unreadable::Gone }
        }
        _ => Unreadable::Failed,
    }
}

fn read_bounded(pid: u32, name: &str, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(format!("/proc/{pid}/{name}"))?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The real user id, from the line `Uid:` of `/proc/PID/status`.
fn real_user(pid: u32) -> Option<u32> {
    let status = read_bounded(pid, "status", 8192).ok()?;
    let text = String::from_utf8_lossy(&status);
    let line = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

pub(super) const fn state(letter: char) -> ProcessState {
    match letter {
        'R' => ProcessState::Running,
        'S' => ProcessState::Sleeping,
        'D' => ProcessState::DiskSleep,
        'T' | 't' => ProcessState::Stopped,
        'Z' | 'X' | 'x' => ProcessState::Zombie,
        'I' => ProcessState::Idle,
        _ => ProcessState::Unknown,
    }
}
