//! A fake driver for one test, and a worker on it.
//!
//! The fake library finds its scenario by an environment variable, which is one for a whole process. So each test runs
//! itself once more, alone in a process of its own with the variable set.

#![allow(clippy::unwrap_used, reason = "test support: where it cannot go on, the test has failed")]

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gpufleet_backend::sample::{BackendSample, DeviceSample};
use gpufleet_backend::{BackendChoice, BackendOptions, Worker};
use gpufleet_fake_nvml::SCENARIO_VARIABLE;
use gpufleet_fake_nvml::scenario::{Device, Rule, Scenario};
use gpufleet_model::DeviceStatus;

/// Generous: a machine under load is not a failure.
const PATIENCE: Duration = Duration::from_mins(1);
/// Interval of the workers under test.
pub(crate) const INTERVAL: Duration = Duration::from_millis(20);

/// Declares a test that has the fake driver for itself.
macro_rules! driver_test {
    ($(#[$meta:meta])* fn $name:ident($driver:ident) $body:block) => {
        $(#[$meta])*
        #[test]
        fn $name() {
            $crate::fixture::run(stringify!($name), |$driver: &$crate::fixture::Driver| $body);
        }
    };
}

/// The scenario file, and what it says.
pub(crate) struct Driver {
    path: PathBuf,
    scenario: Mutex<Scenario>,
}

/// Runs the body in a process of its own.
pub(crate) fn run(name: &str, body: impl FnOnce(&Driver)) {
    if let Some(path) = std::env::var_os(SCENARIO_VARIABLE) {
        let driver = Driver { path: PathBuf::from(path), scenario: Mutex::default() };
        driver.update(|_| {});
        body(&driver);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(SCENARIO_VARIABLE, folder.path().join("scenario.toml"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

impl Driver {
    /// Changes what the driver says, atomically.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Scenario)) {
        let mut scenario = self.scenario.lock().unwrap();
        change(&mut scenario);
        let fresh = self.path.with_extension("new");
        fs::write(&fresh, scenario.to_toml().unwrap()).unwrap();
        fs::rename(fresh, &self.path).unwrap();
    }

    /// Adds a rule.
    pub(crate) fn rule(&self, rule: Rule) {
        self.update(|scenario| scenario.rules.push(rule));
    }

    /// Takes all rules away.
    pub(crate) fn no_rules(&self) {
        self.update(|scenario| scenario.rules.clear());
    }

    /// A file beside the scenario.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.path.with_file_name(name)
    }

    /// A worker on these devices, with its first good sample.
    pub(crate) fn start(&self, devices: Vec<Device>) -> Fleet {
        let count = devices.len();
        self.update(|scenario| scenario.devices = devices);
        let fleet = Fleet::on(&library());
        fleet.wait("every device answers", |sample| {
            sample.devices.len() >= count && sample.devices.iter().all(|device| device.status == DeviceStatus::Ok)
        });
        fleet
    }
}

/// A worker under test.
pub(crate) struct Fleet {
    pub(crate) worker: Worker,
}

impl Fleet {
    /// A worker that loads this library.
    pub(crate) fn on(library: &Path) -> Self {
        let options = BackendOptions {
            nvml_library: Some(library.to_owned()),
            // Long enough that a machine under load passes for a driver that answers.
            deadline: Duration::from_secs(2),
            slow_interval: Duration::from_millis(100),
            retry_at_least: Duration::from_millis(20),
            retry_at_most: Duration::from_millis(200),
            ..BackendOptions::default()
        };
        Self { worker: Worker::spawn(BackendChoice::Nvml, options, INTERVAL).unwrap() }
    }

    /// Waits for a sample that satisfies the condition.
    #[track_caller]
    pub(crate) fn wait(&self, what: &str, condition: impl Fn(&BackendSample) -> bool) -> Arc<BackendSample> {
        let until = Instant::now() + PATIENCE;
        loop {
            let sample = self.worker.latest();
            if condition(&sample) {
                return sample;
            }
            assert!(Instant::now() < until, "{what}: not within {PATIENCE:?}; the newest sample is {sample:#?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits for a problem that contains this text.
    #[track_caller]
    pub(crate) fn wait_problem(&self, text: &str) -> Arc<BackendSample> {
        self.wait(text, |sample| sample.status.problem.as_deref().is_some_and(|problem| problem.contains(text)))
    }

    /// Waits until the device of this UUID satisfies the condition.
    #[track_caller]
    pub(crate) fn wait_device(
        &self,
        uuid: &str,
        what: &str,
        condition: impl Fn(&DeviceSample) -> bool,
    ) -> DeviceSample {
        let found = |sample: &BackendSample| {
            sample.devices.iter().find(|device| device.info.uuid == uuid && condition(device)).cloned()
        };
        found(&self.wait(what, |sample| found(sample).is_some())).unwrap()
    }

    /// Waits for this status of the device of this UUID.
    #[track_caller]
    pub(crate) fn wait_status(&self, uuid: &str, status: DeviceStatus) -> DeviceSample {
        self.wait_device(uuid, status.as_str(), |device| device.status == status)
    }
}

/// The fake library: cargo builds it beside this test, which depends on it.
pub(crate) fn library() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let library = deps.join(format!("{DLL_PREFIX}gpufleet_fake_nvml{DLL_SUFFIX}"));
    assert!(library.exists(), "cargo did not build `{}`", library.display());
    library
}
