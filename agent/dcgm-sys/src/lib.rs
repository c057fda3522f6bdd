//! FFI to NVIDIA DCGM 3.x and 4.x (`libdcgm`), hand-written and loaded at run time: no C headers, nothing to link.
//!
//! [`Library::open`] finds the library and knows by its version which versions of DCGM's structs it speaks; its methods
//! are thin, safe calls. The structs, constants and [`Symbols`] beneath them are public and named by topic; search the
//! documentation by DCGM's own names. The size of every struct and the place of every member is asserted at compile
//! time for 64-bit Linux. Traps of DCGM that could crash the process or pass for a value are closed here; what to watch
//! and how to judge it is the caller's.

#![allow(unsafe_code, reason = "this crate is the near side of a C ABI")]

mod code;

pub mod attributes;
pub mod blank;
pub mod clock_event;
pub mod engine;
pub mod entity;
pub mod error;
pub mod field;
pub mod health;
mod library;
pub mod module;
pub mod nvlink;
pub mod policy;
pub mod symbols;
pub mod text;
pub mod value;
pub mod version;

pub use blank::Blank;
pub use clock_event::ClockEvents;
pub use entity::{Entity, EntityGroup, FieldGroup, Group, GroupType, Handle};
pub use error::{Advice, DcgmError, LoadError};
pub use field::{FieldFacts, FieldId, FieldMeta, Unit};
pub use library::{
    Address, Answer, Build, ConnectOptions, EmbeddedOptions, GroupInfo, HealthReport, Incident, Library, Links,
    PolicySubscription, Source, ValueBuffer, Violation, ViolationKind, WatchOptions,
};
pub use symbols::Symbols;
pub use value::{FieldValueV1, FieldValueV2, Missing, Value, ValueType};
pub use version::{Major, Version};
