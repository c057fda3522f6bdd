//! XID errors, on a thread of their own: waiting for events blocks.
//!
//! The thread shares the session's library (and so keeps it open until it ends), waits in short stretches, writes the
//! newest XID of each device where the backend's thread reads it, and enters no new wait while that thread hangs in
//! the driver. If its own call hangs, the readings become unknown; no second thread is started beside it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use gpufleet_model::{Reading, Unknown};
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{EventSet, Nvml};

use super::ffi::{self, Handle};
use crate::sample;

/// How long one wait for events lasts at most: so long a new session may have to wait for the thread.
const WAIT: Duration = Duration::from_secs(1);
/// How long to stay out of the driver before looking again whether it answers.
const PAUSE: Duration = Duration::from_millis(100);

/// When a thread entered the driver; `None` while it is outside.
#[derive(Debug, Default)]
pub(crate) struct InDriver(Mutex<Option<Instant>>);

impl InDriver {
    pub(crate) fn enter(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    pub(crate) fn leave(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// True when it has been inside for longer than this.
    pub(crate) fn exceeds(&self, limit: Duration) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|since| since.elapsed() > limit)
    }
}

/// The newest XID of each device, since the agent started.
#[derive(Debug, Default)]
pub(crate) struct Xids(Mutex<Seen>);

/// Errors kept for receivers that miss samples.
const KEPT_ERRORS: usize = 64;

#[derive(Debug, Default)]
struct Seen {
    newest: HashMap<String, Reading<u32>>,
    watched: HashSet<String>,
    errors: VecDeque<sample::XidError>,
    count: u64,
}

impl Xids {
    /// The newest XID of a device: not yet known while there was none, not supported where none can be told.
    pub(crate) fn newest(&self, uuid: &str) -> Reading<u32> {
        let seen = self.lock();
        match seen.newest.get(uuid) {
            Some(reading) => *reading,
            None if seen.watched.contains(uuid) => Err(Unknown::NotYet),
            None => Err(Unknown::NotSupported),
        }
    }

    /// The newest errors, oldest first.
    pub(crate) fn errors(&self) -> Vec<sample::XidError> {
        self.lock().errors.iter().cloned().collect()
    }

    fn note(&self, uuid: &str, reading: Reading<u32>) {
        let mut seen = self.lock();
        seen.newest.insert(uuid.to_owned(), reading);
        let Ok(xid) = reading else { return };
        seen.count += 1;
        let error = sample::XidError { number: seen.count, uuid: uuid.to_owned(), xid, occurred_at: SystemTime::now() };
        if seen.errors.len() >= KEPT_ERRORS {
            seen.errors.pop_front();
        }
        seen.errors.push_back(error);
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A device whose events are wanted.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    pub(crate) handle: Handle,
    pub(crate) uuid: String,
}

/// The thread that waits for events.
#[derive(Debug)]
pub(crate) struct EventThread {
    stop: Arc<AtomicBool>,
    waiting: Arc<InDriver>,
    thread: JoinHandle<()>,
}

impl EventThread {
    /// Starts to wait for the events of these devices; `None` when the library knows no events.
    pub(crate) fn start(
        nvml: Arc<Nvml>,
        devices: Vec<Watched>,
        xids: Arc<Xids>,
        backend: Arc<InDriver>,
        deadline: Duration,
    ) -> Option<Self> {
        if devices.is_empty() || !ffi::has_events(&nvml) {
            return None;
        }
        let (stop, waiting) = (Arc::new(AtomicBool::new(false)), Arc::<InDriver>::default());
        let waiter =
            Waiter { devices, xids, stop: Arc::clone(&stop), backend, waiting: Arc::clone(&waiting), deadline };
        let thread = std::thread::Builder::new().name(String::from("nvml-events")).spawn(move || waiter.run(&nvml));
        match thread {
            Ok(thread) => Some(Self { stop, waiting, thread }),
            Err(error) => {
                tracing::warn!(%error, "cannot start a thread for events; XID errors stay unknown");
                None
            }
        }
    }

    /// Asks the thread to end, after its present wait.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// True once it has given the library back.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// True when its call has not come back long after it should have.
    pub(crate) fn hangs(&self, deadline: Duration) -> bool {
        self.waiting.exceeds(WAIT + deadline)
    }
}

struct Waiter {
    devices: Vec<Watched>,
    xids: Arc<Xids>,
    stop: Arc<AtomicBool>,
    backend: Arc<InDriver>,
    waiting: Arc<InDriver>,
    deadline: Duration,
}

impl Waiter {
    fn run(mut self, nvml: &Nvml) {
        while self.may_enter() {
            let Some(set) = self.register(nvml) else {
                self.xids.lock().watched.clear();
                return;
            };
            self.wait_on(&set);
            self.waiting.enter();
            drop(set);
            self.waiting.leave();
        }
    }

    /// Waits while the backend's thread hangs in the driver; false when told to stop.
    fn may_enter(&self) -> bool {
        while !self.stop.load(Ordering::Relaxed) {
            if !self.backend.exceeds(self.deadline) {
                return true;
            }
            std::thread::sleep(PAUSE);
        }
        false
    }

    /// A set with the events of every device that has them; `None` when there is none. Devices that refuse are left
    /// out from then on.
    fn register<'n>(&mut self, nvml: &'n Nvml) -> Option<EventSet<'n>> {
        self.waiting.enter();
        let set = self.register_all(nvml);
        self.waiting.leave();
        set
    }

    fn register_all<'n>(&mut self, nvml: &'n Nvml) -> Option<EventSet<'n>> {
        self.devices.retain(|watched| {
            let supported = watched.handle.device(nvml).supported_event_types();
            supported.is_ok_and(|types| types.contains(EventTypes::CRITICAL_XID_ERROR))
        });
        // A set that a device refuses to join is lost, so it takes a new one without that device.
        while !self.devices.is_empty() {
            match self.register_into(nvml.create_event_set().ok()?, nvml) {
                Ok(set) => {
                    self.xids.lock().watched = self.devices.iter().map(|watched| watched.uuid.clone()).collect();
                    return Some(set);
                }
                Err(refused) => {
                    self.devices.remove(refused);
                }
            }
        }
        None
    }

    /// Adds every device to the set; fails with the position of the first that refuses.
    fn register_into<'n>(&self, mut set: EventSet<'n>, nvml: &'n Nvml) -> Result<EventSet<'n>, usize> {
        for (position, watched) in self.devices.iter().enumerate() {
            set = match watched.handle.device(nvml).register_events(EventTypes::CRITICAL_XID_ERROR, set) {
                Ok(set) => set,
                Err(error) => {
                    tracing::debug!(uuid = watched.uuid, %error, "the device gives no events");
                    return Err(position);
                }
            };
        }
        Ok(set)
    }

    /// Takes events until told to stop, or until the set gives none any more.
    fn wait_on(&self, set: &EventSet<'_>) {
        while self.may_enter() {
            self.waiting.enter();
            let answer = set.wait(u32::try_from(WAIT.as_millis()).unwrap_or(1000));
            self.waiting.leave();
            match answer {
                Ok(event) => self.note(&event),
                Err(NvmlError::Timeout) => {}
                Err(error) => {
                    tracing::debug!(%error, "waiting for events failed; registering anew");
                    // A set that fails at once must not keep the processor busy.
                    std::thread::sleep(WAIT);
                    return;
                }
            }
        }
    }

    fn note(&self, event: &nvml_wrapper::struct_wrappers::event::EventData<'_>) {
        let Some(xid) = &event.event_data else { return };
        let handle = Handle::of(&event.device);
        let Some(watched) = self.devices.iter().find(|watched| watched.handle == handle) else { return };
        let reading = match xid {
            XidError::Value(value) => u32::try_from(*value).map_err(|_| Unknown::Failed),
            XidError::Unknown => Err(Unknown::Failed),
        };
        tracing::warn!(uuid = watched.uuid, xid = ?reading, "the driver reports an XID error");
        self.xids.note(&watched.uuid, reading);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_xid_is_not_yet_known_on_a_watched_device_and_not_supported_elsewhere() {
        let xids = Xids::default();
        assert_eq!(xids.newest("GPU-1"), Err(Unknown::NotSupported));
        xids.lock().watched.insert(String::from("GPU-1"));
        assert_eq!(xids.newest("GPU-1"), Err(Unknown::NotYet));
        xids.lock().newest.insert(String::from("GPU-1"), Ok(79));
        xids.lock().watched.clear();
        assert_eq!(xids.newest("GPU-1"), Ok(79));
    }
}
