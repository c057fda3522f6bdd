//! One session of the library, from `nvmlInit` to `nvmlShutdown`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gpufleet_model::{Backend, BackendStatus};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{cuda_driver_version_major, cuda_driver_version_minor};
use nvml_wrapper_sys::bindings::NVML_DEVICE_MIG_ENABLE;

use super::errors::Trouble;
use super::events::{EventThread, InDriver, Watched, Xids};
use super::facts;
use super::ffi::{self, Handle};
use super::readings::Reader;
use super::slot::Slot;
use crate::vendor::Meter;

/// A started library.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) nvml: Arc<Nvml>,
    pub(crate) versions: BackendStatus,
    /// What the kernel said of the driver when the session began.
    pub(crate) driver_view: Option<String>,
    pub(crate) events: Option<EventThread>,
    /// The event thread waits for the events of a set of devices that has changed.
    pub(crate) events_outdated: bool,
    count: u32,
}

/// What the driver lists.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) found: Vec<Slot>,
    /// Indexes that could not be opened, and why.
    pub(crate) failed: Vec<(u32, NvmlError)>,
}

impl Session {
    /// Loads and starts the library.
    pub(crate) fn open(library: &Path, meter: &Meter) -> Result<Self, NvmlError> {
        let nvml = meter.call(|| Nvml::builder().lib_path(library.as_os_str()).init())?;
        if !ffi::can_shut_down(&nvml) {
            // Dropping it would call what is not there.
            std::mem::forget(nvml);
            return Err(NvmlError::FailedToLoadSymbol(String::from("`nvmlShutdown` is missing")));
        }
        let cuda = meter.call(|| nvml.sys_cuda_driver_version()).ok();
        let versions = BackendStatus {
            driver_version: meter.call(|| nvml.sys_driver_version()).ok(),
            library_version: meter.call(|| nvml.sys_nvml_version()).ok(),
            cuda_driver_version: cuda
                .map(|cuda| format!("{}.{}", cuda_driver_version_major(cuda), cuda_driver_version_minor(cuda))),
            ..no_versions()
        };
        Ok(Self { nvml: Arc::new(nvml), versions, driver_view: None, events: None, events_outdated: false, count: 0 })
    }

    /// Lists every device and every MIG instance, with their static facts.
    pub(crate) fn list(&mut self, meter: &Meter) -> Listing {
        let nvml = Arc::clone(&self.nvml);
        self.count = meter.call(|| nvml.device_count()).unwrap_or(0);
        let mut listing = Listing { found: Vec::new(), failed: Vec::new() };
        for index in 0..self.count {
            let handle = match meter.call(|| nvml.device_by_index(index)) {
                Ok(device) => Handle::of(&device),
                Err(error) => {
                    listing.failed.push((index, error));
                    continue;
                }
            };
            let reader = Reader::new(&nvml, handle, meter);
            let info = facts::physical(&reader, index);
            if reader.trouble() >= Trouble::DeviceLost {
                // Half of its facts would make it look like another device.
                listing.failed.push((index, NvmlError::GpuLost));
                continue;
            }
            let instances = instances(&nvml, handle, meter);
            let position = index as usize;
            let mut slot = Slot::new(info, handle, position, self.count as usize);
            let mut found_instances = Vec::new();
            for instance in instances {
                let reader = Reader::new(&nvml, instance, meter);
                if let Some(info) = facts::instance(&reader, &slot.info) {
                    found_instances.push(Slot::new(info, instance, position, self.count as usize));
                }
            }
            slot.has_instances = !found_instances.is_empty();
            listing.found.push(slot);
            listing.found.append(&mut found_instances);
        }
        listing
    }

    /// True when the driver counts other devices than when it listed them. Fails when it does not even count.
    pub(crate) fn count_changed(&self, meter: &Meter) -> Result<bool, NvmlError> {
        Ok(meter.call(|| self.nvml.device_count())? != self.count)
    }

    /// True when the MIG instances are not those in `slots`.
    pub(crate) fn instances_changed(&self, slots: &[Slot], meter: &Meter) -> bool {
        slots.iter().filter(|slot| !slot.is_instance()).any(|slot| {
            let Some(handle) = slot.handle else { return false };
            let of_this = |one: &&Slot| one.info.mig.as_ref().is_some_and(|mig| mig.parent_uuid == slot.info.uuid);
            let known: Vec<&str> = slots.iter().filter(of_this).map(|one| one.info.uuid.as_str()).collect();
            let now = instances(&self.nvml, handle, meter);
            now.len() != known.len()
                || now.iter().any(|instance| {
                    let uuid = meter.call(|| instance.device(&self.nvml).uuid());
                    uuid.is_ok_and(|uuid| !known.contains(&uuid.as_str()))
                })
        })
    }

    /// Starts to wait for the XID events of the physical devices.
    pub(crate) fn watch_events(
        &mut self,
        slots: &[Slot],
        xids: &Arc<Xids>,
        backend: &Arc<InDriver>,
        deadline: Duration,
    ) {
        let watched = slots
            .iter()
            .filter(|slot| !slot.is_instance())
            .filter_map(|slot| Some(Watched { handle: slot.handle?, uuid: slot.info.uuid.clone() }))
            .collect();
        self.events_outdated = false;
        self.events =
            EventThread::start(Arc::clone(&self.nvml), watched, Arc::clone(xids), Arc::clone(backend), deadline);
    }

    /// True when events are to be watched anew and the former thread has ended; asks it to, if it has not.
    pub(crate) fn events_are_due(&mut self) -> bool {
        if !self.events_outdated {
            return false;
        }
        let Some(events) = &self.events else { return true };
        events.stop();
        events.has_ended()
    }

    /// True when the event thread does not come back from the driver.
    pub(crate) fn events_hang(&self, deadline: Duration) -> bool {
        self.events.as_ref().is_some_and(|events| events.hangs(deadline))
    }
}

/// A backend of which nothing is known.
pub(crate) fn no_versions() -> BackendStatus {
    BackendStatus {
        backend: Backend::Nvml,
        driver_version: None,
        library_version: None,
        cuda_driver_version: None,
        problem: None,
    }
}

/// The MIG instances of a device; none without MIG, or when the driver does not say.
fn instances(nvml: &Nvml, parent: Handle, meter: &Meter) -> Vec<Handle> {
    let device = parent.device(nvml);
    let enabled = meter.call(|| device.mig_mode()).is_ok_and(|mode| mode.current == NVML_DEVICE_MIG_ENABLE);
    if !enabled {
        return Vec::new();
    }
    // Places that hold no instance answer "not found".
    let places = meter.call(|| device.mig_device_count()).unwrap_or(0);
    (0..places)
        .filter_map(|place| meter.call(|| device.mig_device_by_index(place)).ok())
        .map(|instance| Handle::of(&instance))
        .collect()
}
