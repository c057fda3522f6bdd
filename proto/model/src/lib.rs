//! The domain of gpufleet: what a host, a device, a process and a reading are.
//!
//! Pure data and pure functions: no I/O, no async, no wire format. Backends produce these types, the agent joins
//! them into a [`HostSnapshot`], the wire carries a [`HostDelta`], and the aggregator and `gpuctl` rebuild the same
//! snapshot from it. Invariant: `a.apply(&HostDelta::between(&a, &b))` equals `b`.

pub mod clock_events;
pub mod command;
pub mod device;
pub mod fields;
pub mod health;
pub mod human;
pub mod process;
pub mod reading;
pub mod snapshot;

mod host;

pub use device::{Backend, Device, DeviceInfo, DeviceKey, DeviceLimits, DeviceStatus, MigInstance};
pub use fields::{
    DeviceReadings, DeviceReadingsPatch, FieldInfo, ProcessReadings, ProcessReadingsPatch, Tier, Unit, UseReadings,
    UseReadingsPatch, Value,
};
pub use host::{BackendStatus, Host, HostReadings};
pub use process::{ContextKind, DeviceUse, Process, ProcessIdentity, ProcessInfo, ProcessState, Visibility};
pub use reading::{Reading, Unknown};
pub use snapshot::{ApplyError, DeviceChange, HostDelta, HostSnapshot, ProcessChange};
