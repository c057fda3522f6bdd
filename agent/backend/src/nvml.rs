//! NVIDIA devices, through NVML.
//!
//! The library is found at run time. A session lasts from `nvmlInit` to `nvmlShutdown`; devices outlive sessions: each
//! is known by its UUID, stays listed as lost while the driver does not give it, and goes on when it is back. All of
//! it runs on the worker's thread, except the wait for XID events. Invariant: a reading that was not read in this
//! session is never carried over from an earlier one.

mod errors;
mod events;
mod facts;
mod ffi;
mod presence;
mod processes;
mod readings;
mod session;
mod slot;
mod turn;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpufleet_model::{Backend, BackendStatus, DeviceInfo, DeviceStatus, Unknown};
use nvml_wrapper::error::NvmlError;

use crate::options::BackendOptions;
use crate::sample::{DeviceSample, XidError};
use crate::vendor::{Backoff, Round, VendorLibrary};
use errors::Trouble;
use events::{InDriver, Xids};
use readings::Reader;
use session::Session;
use slot::Slot;
use turn::{lost, read_tiers, read_uses};

const DEFAULT_LIBRARY: &str = "libnvidia-ml.so.1";
const PCI_DEVICES: &str = "/sys/bus/pci/devices";
const PROC_DRIVER: &str = "/proc/driver/nvidia";
/// A session is restarted for the sake of lost devices this many times more rarely than a library that is absent.
const LOST_PATIENCE: u32 = 10;

/// NVML, present or not.
#[derive(Debug)]
pub(crate) struct NvmlLibrary {
    library: Option<PathBuf>,
    quiet_when_absent: bool,
    deadline: Duration,
    slow_interval: Duration,
    session: Option<Session>,
    slots: Vec<Slot>,
    start_backoff: Backoff,
    lost_backoff: Backoff,
    needs: Need,
    /// A device that the driver counts could not be opened.
    unopened: bool,
    looked_at: Option<Instant>,
    problem: Option<String>,
    xids: Arc<Xids>,
    in_driver: Arc<InDriver>,
}

/// What the next round has to do about the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    Nothing,
    /// List the devices anew.
    List,
    /// End the session, which has become useless, and start another.
    Restart,
}

impl NvmlLibrary {
    /// Nothing is loaded yet. `quiet_when_absent`: a host without NVIDIA hardware is no problem.
    pub(crate) fn new(options: &BackendOptions, quiet_when_absent: bool) -> Self {
        let BackendOptions { retry_at_least, retry_at_most, .. } = *options;
        Self {
            library: options.nvml_library.clone(),
            quiet_when_absent,
            deadline: options.deadline,
            slow_interval: options.slow_interval,
            session: None,
            slots: Vec::new(),
            start_backoff: Backoff::new(retry_at_least, retry_at_most),
            lost_backoff: Backoff::new(retry_at_least, retry_at_most * LOST_PATIENCE),
            needs: Need::Nothing,
            unopened: false,
            looked_at: None,
            problem: None,
            xids: Arc::default(),
            in_driver: Arc::default(),
        }
    }

    fn library_path(&self) -> &Path {
        self.library.as_deref().unwrap_or(Path::new(DEFAULT_LIBRARY))
    }

    /// Starts a session, if it is time to try.
    fn start(&mut self, round: &Round<'_>) {
        if !self.start_backoff.is_due(round.now) {
            return;
        }
        // Whatever comes of it, the next try is not before the wait is over, unless the session proves good.
        self.start_backoff.failed(round.now);
        match Session::open(self.library_path(), round.meter) {
            Ok(mut session) => {
                tracing::info!(driver = session.versions.driver_version, "NVML session started");
                session.driver_view = self.driver_view();
                self.needs = Need::Nothing;
                self.looked_at = Some(round.now);
                self.session = Some(session);
                self.list(round);
                self.watch_events();
            }
            Err(error) => {
                let quiet = self.is_quiet_about(&error, Path::new(PCI_DEVICES));
                let problem = (!quiet).then(|| errors::start_problem(&error, &self.library_path().to_string_lossy()));
                self.tell(problem);
            }
        }
    }

    /// True when the error says no more than that this host has no NVIDIA hardware, and nobody asked for any.
    fn is_quiet_about(&self, error: &NvmlError, pci_devices: &Path) -> bool {
        self.quiet_when_absent
            && self.library.is_none()
            && self.slots.is_empty()
            && errors::is_absence(error)
            && !presence::has_nvidia_gpu(pci_devices)
    }

    /// Ends the session, unless its event thread still waits in the driver: then the next round tries again.
    fn end(&mut self) -> bool {
        let Some(session) = &mut self.session else { return true };
        if let Some(events) = &session.events {
            events.stop();
            if !events.has_ended() {
                return false;
            }
        }
        self.session = None;
        self.slots.iter_mut().for_each(Slot::detach);
        true
    }

    /// Lists the devices of the session and matches them with those known before.
    fn list(&mut self, round: &Round<'_>) {
        let Some(session) = &mut self.session else { return };
        let listing = session.list(round.meter);
        for slot in &mut self.slots {
            slot.detach();
        }
        // An instance that is not there any more was taken away on purpose; a physical device never is, as far as one
        // can tell.
        self.slots
            .retain(|slot| !slot.is_instance() || listing.found.iter().any(|found| found.info.uuid == slot.info.uuid));
        for found in listing.found {
            match self.slots.iter_mut().find(|slot| slot.info.uuid == found.info.uuid) {
                Some(slot) => slot.renew(found),
                None => self.slots.push(found),
            }
        }
        self.slots.sort_by_key(|slot| {
            (slot.info.index, slot.info.mig.as_ref().map(|mig| (mig.gpu_instance_id, mig.compute_instance_id)))
        });
        self.needs = Need::Nothing;
        // The events of the new set are waited for once the old thread, if any, has ended.
        session.events_outdated = true;
        // A device that is lost already is told by its status.
        let problem = listing.failed.iter().find(|(index, _)| self.slots.iter().all(|s| s.info.index != *index));
        let problem = problem.map(|(index, error)| {
            format!(
                "device with index `{index}` cannot be opened: {error}. Look into the kernel log for `NVRM`; it is \
                 tried again from time to time"
            )
        });
        self.unopened = !listing.failed.is_empty();
        if self.misses_devices() {
            self.lost_backoff.failed(round.now);
        } else {
            self.lost_backoff.succeeded();
        }
        self.tell(problem);
    }

    fn misses_devices(&self) -> bool {
        self.unopened || self.slots.iter().any(|slot| slot.lost || slot.handle.is_none())
    }

    fn watch_events(&mut self) {
        if let Some(session) = &mut self.session {
            session.watch_events(&self.slots, &self.xids, &self.in_driver, self.deadline);
        }
    }

    /// Looks whether the session still fits the hardware.
    fn check(&mut self, round: &Round<'_>) {
        let Some(session) = &mut self.session else { return };
        let looked_long_ago = self.looked_at.is_none_or(|at| round.now + round.interval / 2 >= at + self.slow_interval);
        if looked_long_ago {
            self.looked_at = Some(round.now);
            if session.instances_changed(&self.slots, round.meter) {
                self.needs = self.needs.max(Need::List);
            }
        }
        match session.count_changed(round.meter) {
            Ok(false) => {}
            Ok(true) => self.needs = self.needs.max(Need::List),
            Err(_) => self.needs = Need::Restart,
        }
        if looked_long_ago {
            let view = self.driver_view();
            if self.session.as_ref().is_some_and(|session| session.driver_view != view) {
                tracing::info!("the NVIDIA driver or its list of GPUs has changed; starting NVML anew");
                self.needs = Need::Restart;
            }
        }
        if self.misses_devices() && self.lost_backoff.is_due(round.now) {
            self.lost_backoff.failed(round.now);
            self.needs = Need::Restart;
        }
        if self.needs == Need::Restart {
            return;
        }
        self.start_backoff.succeeded();
        if self.needs == Need::List {
            self.list(round);
        }
        let Some(session) = &mut self.session else { return };
        if session.events_are_due() {
            self.watch_events();
        }
    }

    /// With a library of its own there is nothing to see under `/proc`.
    fn driver_view(&self) -> Option<String> {
        if self.library.is_some() { None } else { presence::driver_view(Path::new(PROC_DRIVER)) }
    }

    fn tell(&mut self, problem: Option<String>) {
        if self.problem != problem {
            match &problem {
                Some(problem) => tracing::warn!(problem, "NVML"),
                None if self.problem.is_some() => tracing::info!("NVML works again"),
                None => {}
            }
            self.problem = problem;
        }
    }

    fn read_slot(&mut self, position: usize, round: &Round<'_>) -> Option<DeviceSample> {
        let hanging = self.session.as_ref().is_some_and(|session| session.events_hang(self.deadline));
        let slot = self.slots.get_mut(position)?;
        let (Some(session), Some(handle)) = (&mut self.session, slot.handle) else {
            return Some(lost(slot));
        };
        let reader = Reader::new(&session.nvml, handle, round.meter);
        read_tiers(&reader, slot, round, self.slow_interval);
        let uses = read_uses(&reader, slot, round);
        if !slot.is_instance() {
            let xid = self.xids.newest(&slot.info.uuid);
            slot.readings.last_xid = if hanging && xid.is_err() { Err(Unknown::Timeout) } else { xid };
        }
        let trouble = reader.trouble();
        let was_lost = std::mem::replace(&mut slot.lost, trouble == Trouble::DeviceLost);
        let name = slot.info.uuid.as_str();
        match trouble {
            Trouble::None if was_lost => {
                tracing::info!(device = name, "the device is back");
                session.events_outdated = true;
            }
            Trouble::None => {}
            Trouble::StaleHandle if slot.is_instance() => self.needs = self.needs.max(Need::List),
            Trouble::StaleHandle | Trouble::Session => self.needs = Need::Restart,
            Trouble::DeviceLost => {
                if !was_lost {
                    tracing::warn!(device = name, "the device is lost");
                    self.lost_backoff.failed(round.now);
                    // An instance may only have been taken away.
                    if slot.is_instance() {
                        self.needs = self.needs.max(Need::List);
                    }
                }
                slot.forget();
                return Some(lost(slot));
            }
        }
        Some(DeviceSample {
            info: Arc::clone(&slot.info),
            status: DeviceStatus::Ok,
            readings: slot.readings.clone(),
            uses,
        })
    }
}

impl VendorLibrary for NvmlLibrary {
    fn backend(&self) -> Backend {
        Backend::Nvml
    }

    fn begin(&mut self, round: &Round<'_>) {
        self.in_driver.enter();
        if self.needs == Need::Restart && self.end() {
            self.needs = Need::Nothing;
        }
        if self.session.is_none() {
            self.start(round);
        } else if self.needs < Need::Restart {
            self.check(round);
        } else if self.session.as_ref().is_some_and(|session| session.events_hang(self.deadline)) {
            self.tell(Some(String::from(
                "NVML must be started anew, but the wait for its events does not return from the driver. If it stays \
                 so, look into the kernel log and restart the host",
            )));
        }
        self.in_driver.leave();
    }

    fn devices(&self) -> Vec<Arc<DeviceInfo>> {
        self.slots.iter().map(|slot| Arc::clone(&slot.info)).collect()
    }

    fn read(&mut self, position: usize, round: &Round<'_>) -> Option<DeviceSample> {
        self.in_driver.enter();
        let sample = self.read_slot(position, round);
        self.in_driver.leave();
        sample
    }

    fn status(&self) -> BackendStatus {
        let mut status = match &self.session {
            Some(session) => session.versions.clone(),
            None => session::no_versions(),
        };
        status.problem.clone_from(&self.problem);
        status
    }

    fn errors(&self) -> Vec<XidError> {
        self.xids.errors()
    }

    fn close(&mut self) {
        // An event thread that still waits keeps its share of the library until it returns.
        if let Some(events) = self.session.as_ref().and_then(|session| session.events.as_ref()) {
            events.stop();
        }
        self.session = None;
        self.slots.iter_mut().for_each(Slot::detach);
        self.start_backoff.failed(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_hardware_is_no_problem_unless_nvml_was_asked_for() {
        let empty = tempfile::tempdir().unwrap();
        let options = BackendOptions::default();
        let quiet = |library: &NvmlLibrary, error: NvmlError| library.is_quiet_about(&error, empty.path());
        assert!(quiet(&NvmlLibrary::new(&options, true), NvmlError::DriverNotLoaded));
        assert!(!quiet(&NvmlLibrary::new(&options, true), NvmlError::LibRmVersionMismatch));
        assert!(!quiet(&NvmlLibrary::new(&options, false), NvmlError::DriverNotLoaded));
        let named = BackendOptions { nvml_library: Some(PathBuf::from("/opt/driver/libnvidia-ml.so.1")), ..options };
        assert!(!quiet(&NvmlLibrary::new(&named, true), NvmlError::DriverNotLoaded));
    }
}
