//! The fake library as a program under test meets it: loaded by `dlopen`, called through `nvml-wrapper` and the raw
//! bindings. The library's state is one per process, so the tests of this file take turns.

#![allow(unsafe_code, reason = "the raw C ABI is what is tested")]
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]
#![allow(clippy::unused_self, reason = "whoever loads the library must hold the turn")]

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use gpufleet_fake_nvml::SCENARIO_VARIABLE;
use gpufleet_fake_nvml::scenario::{Device, Scenario};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper_sys::bindings::NvmlLib;

mod abi;
mod devices;
mod faults;
mod processes;

/// One test's turn with the library.
struct Turn {
    _turn: MutexGuard<'static, ()>,
    scenario: PathBuf,
}

impl Turn {
    fn with(scenario: &Scenario) -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = FOLDER.get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            // SAFETY: set once, under the lock that every test of this process takes first.
            unsafe { std::env::set_var(SCENARIO_VARIABLE, folder.path().join("scenario.toml")) };
            folder
        });
        let turn = Self { _turn: turn, scenario: folder.path().join("scenario.toml") };
        turn.write(scenario);
        turn
    }

    fn one(device: Device) -> Self {
        Self::with(&Scenario { devices: vec![device], ..Scenario::default() })
    }

    fn write(&self, scenario: &Scenario) {
        self.write_text(&scenario.to_toml().unwrap());
    }

    fn write_text(&self, text: &str) {
        let fresh = self.scenario.with_extension("new");
        std::fs::write(&fresh, text).unwrap();
        std::fs::rename(fresh, &self.scenario).unwrap();
    }

    fn folder(&self) -> &Path {
        self.scenario.parent().unwrap()
    }

    fn init(&self) -> Result<Nvml, NvmlError> {
        Nvml::builder().lib_path(library().as_os_str()).init()
    }

    fn nvml(&self) -> Nvml {
        self.init().unwrap()
    }

    fn raw(&self) -> NvmlLib {
        // SAFETY: loading runs no code of ours.
        unsafe { NvmlLib::new(library()) }.unwrap()
    }
}

/// Cargo puts the shared library beside the test binaries, because they depend on it.
fn library() -> PathBuf {
    let beside = std::env::current_exe().unwrap().with_file_name("libgpufleet_fake_nvml.so");
    assert!(beside.exists(), "`{}` was not built", beside.display());
    beside
}
