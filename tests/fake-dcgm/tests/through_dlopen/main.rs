//! The fake library as a program under test meets it: loaded by `dlopen`, called through `dcgm-sys`. Both majors are
//! played in one process, from two copies of the file. The state of each is one per process, so tests take turns.

#![allow(unsafe_code, reason = "the raw C ABI is what is tested")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where it fails")]
#![allow(clippy::indexing_slicing, reason = "a test stops where it fails")]
#![allow(clippy::float_cmp, reason = "values come back as they were written")]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use dcgm_sys::engine::OperationMode;
use dcgm_sys::{
    Address, ConnectOptions, EmbeddedOptions, Entity, FieldGroup, FieldId, Group, Handle, Library, Missing,
    WatchOptions,
};
use gpufleet_fake_dcgm::SCENARIO_VARIABLE;
use gpufleet_fake_dcgm::scenario::{Device, RemoteEngine, Scenario};

mod devices;
mod engines;
mod health;
mod loading;
mod policy;
mod profiling;
mod values;

/// The versions that most tests run with.
const VERSIONS: [&str; 2] = ["3.3.9", "4.6.0"];

/// One test's turn with the library.
struct Turn {
    _alone: MutexGuard<'static, ()>,
    scenario: PathBuf,
    library: Library,
}

impl Turn {
    fn with(scenario: &Scenario) -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let path = folder().join("scenario.toml");
        write(&path, &scenario.to_toml().unwrap());
        let library = Library::open(Some(&library(scenario.soname()))).unwrap();
        library.init().unwrap();
        Self { _alone: turn, scenario: path, library }
    }

    fn write(&self, scenario: &Scenario) {
        write(&self.scenario, &scenario.to_toml().unwrap());
    }

    /// An embedded engine that reads when it is told to.
    fn manual(&self) -> Handle {
        self.library.start_embedded(OperationMode::MANUAL, &EmbeddedOptions::default()).unwrap()
    }

    /// An embedded engine that reads by itself.
    fn automatic(&self) -> Handle {
        self.library.start_embedded(OperationMode::AUTO, &EmbeddedOptions::default()).unwrap()
    }

    fn connect(&self, address: &str) -> Result<Handle, dcgm_sys::DcgmError> {
        self.library.connect(&Address::Tcp(address.to_owned()), ConnectOptions::default())
    }

    /// A field group of a name of its own.
    fn fields(&self, engine: Handle, fields: &[FieldId]) -> FieldGroup {
        self.library.field_group_create(engine, fields, &format!("fields-{}", unique())).unwrap()
    }

    /// Watches fields of every GPU, read each time the engine is told to.
    fn watch(&self, engine: Handle, fields: &[FieldId]) -> FieldGroup {
        let fields = self.fields(engine, fields);
        self.library.watch_fields(engine, Group::ALL_GPUS, fields, OFTEN).unwrap();
        fields
    }

    /// The newest values, as texts that can be compared.
    fn latest(&self, engine: Handle, fields: FieldGroup) -> Vec<(Entity, FieldId, Result<String, Missing>)> {
        let mut found = Vec::new();
        let each = |entity, values: &[dcgm_sys::FieldValueV1]| {
            for value in values {
                found.push((entity, value.field, value.read().map(|value| format!("{value:?}"))));
            }
            ControlFlow::Continue(())
        };
        self.library.latest_values(engine, Group::ALL_GPUS, fields, each).unwrap();
        found
    }

    /// The newest value of the only field of the only GPU.
    fn only(&self, engine: Handle, fields: FieldGroup) -> Result<String, Missing> {
        self.latest(engine, fields).remove(0).2
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.library.shutdown().unwrap();
    }
}

/// A watch whose values are read anew whenever they are asked for.
const OFTEN: WatchOptions =
    WatchOptions { every: Duration::from_micros(1), keep: Duration::from_hours(1), keep_samples: None };

fn h200s(version: &str, count: u32) -> Scenario {
    Scenario { version: version.to_owned(), devices: (0..count).map(Device::h200).collect(), ..Scenario::default() }
}

/// A running engine that no test had before.
fn engine(version: &str) -> RemoteEngine {
    RemoteEngine { version: version.to_owned(), incarnation: unique(), ..RemoteEngine::default() }
}

fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn write(path: &Path, text: &str) {
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, text).unwrap();
    std::fs::rename(fresh, path).unwrap();
}

/// Where the scenario is.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        // SAFETY: set once, before any test of this process has loaded the library.
        unsafe { std::env::set_var(SCENARIO_VARIABLE, folder.path().join("scenario.toml")) };
        folder
    });
    folder.path()
}

/// The library under the name of a major version. The two are copies, so that the loader does not take them for one.
fn library(soname: &str) -> PathBuf {
    static COPIES: OnceLock<()> = OnceLock::new();
    let copies = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fake-dcgm");
    COPIES.get_or_init(|| {
        std::fs::create_dir_all(&copies).unwrap();
        for name in ["libdcgm.so.3", "libdcgm.so.4"] {
            // Another process can be using the file that is replaced.
            let fresh = copies.join(format!("{name}-{}", std::process::id()));
            std::fs::copy(built(), &fresh).unwrap();
            std::fs::rename(fresh, copies.join(name)).unwrap();
        }
    });
    copies.join(soname)
}

/// Cargo puts the shared library beside the test binaries, because they depend on it.
fn built() -> PathBuf {
    let beside = std::env::current_exe().unwrap().with_file_name("libgpufleet_fake_dcgm.so");
    assert!(beside.exists(), "`{}` was not built", beside.display());
    beside
}

/// Names the environment variable that lets a test which is another test's child do its work.
const CHILD: &str = "FAKE_DCGM_TEST_CHILD";

/// Runs one test in a process of its own.
fn child(test: &str, scenario: &Scenario, libraries: &Path) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenario.toml");
    write(&path, &scenario.to_toml().unwrap());
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .env(SCENARIO_VARIABLE, path)
        .env("LD_LIBRARY_PATH", libraries)
        .output()
        .unwrap()
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Waits for a condition.
fn eventually(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "the condition did not come true");
        std::thread::sleep(Duration::from_millis(2));
    }
}
