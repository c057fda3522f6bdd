//! What the library remembers between calls: the scenario it has read, handles given out, event sets, how often each
//! rule was applied. One lock guards it; nothing sleeps while holding it.

use std::collections::{HashMap, HashSet};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::Code;
use crate::liveness::Liveness;
use crate::scenario::{Rule, Scenario};

/// What a handle stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    /// The physical device of this UUID.
    Device(String),
    /// The MIG instance of this UUID on the device of that one.
    Mig { parent: String, instance: String },
}

impl Named {
    pub(crate) fn uuid(&self) -> &str {
        match self {
            Self::Device(uuid) => uuid,
            Self::Mig { instance, .. } => instance,
        }
    }
}

/// An event set.
#[derive(Debug, Default)]
pub(crate) struct EventSet {
    /// Event type bits by device UUID.
    pub(crate) registered: HashMap<String, u64>,
    /// Ids of events that are past for this set.
    pub(crate) past: HashSet<u64>,
}

#[derive(PartialEq, Eq, Clone)]
struct Stamp {
    modified: (i64, i64),
    inode: u64,
    size: u64,
}

/// All state of the library.
#[derive(Default)]
pub(crate) struct Registry {
    /// How often the library was initialised and not shut down.
    pub(crate) users: u32,
    pub(crate) liveness: Liveness,
    scenario: Arc<Scenario>,
    stamp: Option<Stamp>,
    complained_of: Option<Stamp>,
    handles: Vec<Named>,
    event_sets: HashMap<usize, EventSet>,
    made_event_sets: usize,
    applied: HashMap<Rule, u64>,
}

/// Handles look like addresses, are never dereferenced, and are never null.
const HANDLE_BASE: usize = 0x6e76_0000;
const EVENT_SET_BASE: usize = 0x6e76_8000_0000;
const HANDLE_STEP: usize = 0x40;

/// The one registry of the process.
pub(crate) fn registry() -> MutexGuard<'static, Registry> {
    static REGISTRY: OnceLock<Mutex<Registry>> = OnceLock::new();
    REGISTRY.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

fn scenario_path() -> Result<PathBuf, String> {
    std::env::var_os(crate::SCENARIO_VARIABLE)
        .map(PathBuf::from)
        .ok_or_else(|| format!("the environment variable `{}` is not set", crate::SCENARIO_VARIABLE))
}

fn stamp(path: &Path) -> Result<Stamp, String> {
    let data = std::fs::metadata(path).map_err(|e| format!("cannot read `{}`: {e}", path.display()))?;
    Ok(Stamp { modified: (data.mtime(), data.mtime_nsec()), inode: data.ino(), size: data.size() })
}

fn complain(message: &str) {
    // A test library's only way to say why it refuses to work. Nobody reads it when standard error is closed.
    let _ = writeln!(std::io::stderr(), "fake NVML: {message}");
}

impl Registry {
    /// Reads the scenario for `nvmlInit`: without a good one the library does not start.
    pub(crate) fn load(&mut self) -> Result<Arc<Scenario>, Code> {
        let loaded = scenario_path().and_then(|path| {
            let stamp = stamp(&path)?;
            Scenario::read(&path).map(|scenario| (scenario, stamp))
        });
        match loaded {
            Ok((scenario, stamp)) => {
                self.replace(scenario, stamp);
                Ok(Arc::clone(&self.scenario))
            }
            Err(message) => {
                complain(&message);
                Err(Code::UNKNOWN)
            }
        }
    }

    /// The scenario as it is now. A file that has become unreadable or malformed leaves the last good one in force.
    pub(crate) fn scenario(&mut self) -> Arc<Scenario> {
        let newest = scenario_path().and_then(|path| stamp(&path).map(|stamp| (path, stamp)));
        if let Ok((path, stamp)) = newest
            && self.stamp.as_ref() != Some(&stamp)
            && self.complained_of.as_ref() != Some(&stamp)
        {
            match Scenario::read(&path) {
                Ok(scenario) => self.replace(scenario, stamp),
                Err(message) => {
                    complain(&format!("{message}; the scenario before stays in force"));
                    self.complained_of = Some(stamp);
                }
            }
        }
        Arc::clone(&self.scenario)
    }

    fn replace(&mut self, scenario: Scenario, stamp: Stamp) {
        self.applied.retain(|rule, _| scenario.rules.contains(rule));
        self.scenario = Arc::new(scenario);
        self.stamp = Some(stamp);
        self.complained_of = None;
    }

    /// The handle of a device or instance: the same one for the same UUID, for the life of the process.
    pub(crate) fn handle_of(&mut self, named: &Named) -> usize {
        let place = self.handles.iter().position(|known| known == named).unwrap_or_else(|| {
            self.handles.push(named.clone());
            self.handles.len() - 1
        });
        HANDLE_BASE + place * HANDLE_STEP
    }

    /// What a handle stands for, or `None` when it was never given out.
    pub(crate) fn named(&self, handle: usize) -> Option<&Named> {
        let offset = handle.checked_sub(HANDLE_BASE)?;
        if offset % HANDLE_STEP != 0 { None } else { self.handles.get(offset / HANDLE_STEP) }
    }

    /// Counts one application of a rule and says whether it still holds.
    pub(crate) fn applies(&mut self, rule: &Rule) -> bool {
        let Some(times) = rule.times else { return true };
        let applied = self.applied.entry(rule.clone()).or_default();
        *applied += 1;
        *applied <= times
    }

    pub(crate) fn new_event_set(&mut self) -> usize {
        let past = self.scenario().events.iter().filter(|event| !event.replay).map(|event| event.id).collect();
        self.made_event_sets += 1;
        let set = EVENT_SET_BASE + self.made_event_sets * HANDLE_STEP;
        self.event_sets.insert(set, EventSet { past, ..EventSet::default() });
        set
    }

    pub(crate) fn event_set(&mut self, set: usize) -> Result<&mut EventSet, Code> {
        self.event_sets.get_mut(&set).ok_or(Code::INVALID_ARGUMENT)
    }

    pub(crate) fn free_event_set(&mut self, set: usize) -> Result<(), Code> {
        self.event_sets.remove(&set).map(|_| ()).ok_or(Code::INVALID_ARGUMENT)
    }

    pub(crate) fn free_event_sets(&mut self) {
        self.event_sets.clear();
    }
}

/// Appends one line to the scenario's call log. One write per line, so that lines of several processes do not mix.
pub(crate) fn log_call(scenario: &Scenario, function: &str, device: Option<&str>) {
    let Some(path) = &scenario.call_log else { return };
    let line = format!("{function} {}\n", device.unwrap_or("-"));
    let written = std::fs::OpenOptions::new().create(true).append(true).open(path);
    if let Err(error) = written.and_then(|mut file| file.write_all(line.as_bytes())) {
        complain(&format!("cannot write the call log `{}`: {error}", path.display()));
    }
}
