//! What the library remembers between calls: the scenario it has read, whether it was started, its engines and
//! connections, how often each rule was applied. One lock guards it; nothing sleeps or calls back while holding it.

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use dcgm_sys::engine::OperationMode;
use dcgm_sys::{DcgmError, Handle};

use crate::engine::Engine;
use crate::scenario::{RemoteEngine, Rule, Scenario, parse_version};

/// The handle of the embedded engine.
pub(crate) const EMBEDDED: Handle = Handle(0x7fff_ffff);

#[derive(PartialEq, Eq, Clone)]
struct Stamp {
    modified: (i64, i64),
    inode: u64,
    size: u64,
}

/// A connection to the remote engine.
struct Connection {
    incarnation: u64,
    persist: bool,
}

/// The engine that listens, in the run that connections were made to.
struct Remote {
    incarnation: u64,
    crashed: bool,
    engine: Engine,
}

/// All state of the library.
#[derive(Default)]
pub(crate) struct Registry {
    pub(crate) started: bool,
    pub(crate) embedded: Option<Engine>,
    remote: Option<Remote>,
    connections: BTreeMap<usize, Connection>,
    made_connections: usize,
    scenario: Arc<Scenario>,
    stamp: Option<Stamp>,
    complained_of: Option<Stamp>,
    applied: HashMap<Rule, u64>,
}

/// The one registry of the process.
pub(crate) fn registry() -> MutexGuard<'static, Registry> {
    static REGISTRY: OnceLock<Mutex<Registry>> = OnceLock::new();
    REGISTRY.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Microseconds since 1970.
pub(crate) fn now() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX)
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
    let _ = writeln!(std::io::stderr(), "fake DCGM: {message}");
}

impl Registry {
    /// The scenario as it is now. A file that has become unreadable or malformed leaves the last good one in force;
    /// without a good one so far the library does not work.
    pub(crate) fn scenario(&mut self) -> Result<Arc<Scenario>, DcgmError> {
        match scenario_path().and_then(|path| stamp(&path).map(|stamp| (path, stamp))) {
            Err(message) if self.stamp.is_none() => complain(&message),
            Err(_) => {}
            Ok((_, stamp)) if self.stamp.as_ref() == Some(&stamp) || self.complained_of.as_ref() == Some(&stamp) => {}
            Ok((path, stamp)) => match Scenario::read(&path) {
                Ok(scenario) => {
                    self.applied.retain(|rule, _| scenario.rules.contains(rule));
                    self.scenario = Arc::new(scenario);
                    self.stamp = Some(stamp);
                    self.complained_of = None;
                }
                Err(message) => {
                    complain(&message);
                    self.complained_of = Some(stamp);
                }
            },
        }
        if self.stamp.is_some() { Ok(Arc::clone(&self.scenario)) } else { Err(DcgmError::INIT) }
    }

    /// Counts one application of a rule and says whether it still holds.
    pub(crate) fn applies(&mut self, rule: &Rule) -> bool {
        let Some(times) = rule.times else { return true };
        let applied = self.applied.entry(rule.clone()).or_default();
        *applied += 1;
        *applied <= times
    }

    /// Connects to the engine that listens at an address.
    pub(crate) fn connect(&mut self, scenario: &Scenario, address: &str, persist: bool) -> Result<Handle, DcgmError> {
        let listening = scenario.engine.as_ref().ok_or(DcgmError::CONNECTION_NOT_VALID)?;
        if !listening.addresses.iter().any(|known| known == address) {
            return Err(DcgmError::CONNECTION_NOT_VALID);
        }
        if self.remote(listening)?.crashed {
            return Err(DcgmError::CONNECTION_NOT_VALID);
        }
        self.made_connections += 1;
        self.connections.insert(self.made_connections, Connection { incarnation: listening.incarnation, persist });
        Ok(Handle(self.made_connections))
    }

    pub(crate) fn disconnect(&mut self, handle: Handle) -> Result<(), DcgmError> {
        let connection = self.connections.remove(&handle.0).ok_or(DcgmError::BAD_PARAMETER)?;
        if let Some(remote) = &mut self.remote
            && remote.incarnation == connection.incarnation
            && !connection.persist
        {
            remote.engine.forget(handle);
        }
        Ok(())
    }

    /// The engine behind a handle.
    pub(crate) fn engine(&mut self, scenario: &Scenario, handle: Handle) -> Result<&mut Engine, DcgmError> {
        if handle == EMBEDDED {
            return self.embedded.as_mut().ok_or(DcgmError::UNINITIALIZED);
        }
        let incarnation = self.connections.get(&handle.0).ok_or(DcgmError::CONNECTION_NOT_VALID)?.incarnation;
        let listening = scenario.engine.as_ref().filter(|engine| engine.incarnation == incarnation);
        let listening = listening.ok_or(DcgmError::CONNECTION_NOT_VALID)?;
        let library = scenario.version().major;
        let remote = self.remote(listening)?;
        if remote.crashed {
            return Err(DcgmError::CONNECTION_NOT_VALID);
        }
        if remote.engine.version.major != library {
            return Err(DcgmError::VERSION_MISMATCH);
        }
        Ok(&mut remote.engine)
    }

    /// The remote engine in its present run: a new one has forgotten everything.
    fn remote(&mut self, listening: &RemoteEngine) -> Result<&mut Remote, DcgmError> {
        let version = parse_version(&listening.version).ok_or(DcgmError::GENERIC)?;
        let kept = self.remote.take().filter(|remote| remote.incarnation == listening.incarnation);
        Ok(self.remote.insert(kept.unwrap_or_else(|| Remote {
            incarnation: listening.incarnation,
            crashed: false,
            engine: Engine::new(version, OperationMode::AUTO, [].into()),
        })))
    }

    /// Ends the remote engine as a crash would.
    pub(crate) fn crash_remote(&mut self) {
        if let Some(remote) = &mut self.remote {
            remote.crashed = true;
        }
    }

    /// Every engine that runs.
    pub(crate) fn engines(&mut self) -> impl Iterator<Item = &mut Engine> {
        let remote = self.remote.as_mut().filter(|remote| !remote.crashed).map(|remote| &mut remote.engine);
        self.embedded.as_mut().into_iter().chain(remote)
    }

    /// Ends the embedded engine and every connection.
    pub(crate) fn shut_down(&mut self) {
        self.started = false;
        self.embedded = None;
        let handles: Vec<usize> = self.connections.keys().copied().collect();
        for handle in handles {
            // It was just found.
            let _ = self.disconnect(Handle(handle));
        }
    }
}

/// Appends one line to the scenario's call log. One write per line, so that lines of several processes do not mix.
pub(crate) fn log_call(scenario: &Scenario, function: &str) {
    let Some(path) = &scenario.call_log else { return };
    let written = std::fs::OpenOptions::new().create(true).append(true).open(path);
    if let Err(error) = written.and_then(|mut file| file.write_all(format!("{function}\n").as_bytes())) {
        complain(&format!("cannot write the call log `{}`: {error}", path.display()));
    }
}
