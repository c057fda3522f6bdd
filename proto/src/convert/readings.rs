//! Readings ⇄ optional fields and the list of those that are unknown.

use gpufleet_model::fields::{DeviceReadingsPatch, ProcessReadingsPatch, Unit, UseReadings, UseReadingsPatch};
use gpufleet_model::{HostReadings, Reading, Unknown};

use crate::v1;

/// Collects the unknown fields of a message, grouped by reason.
#[derive(Default)]
struct UnknownFields(Vec<v1::UnknownReadings>);

impl UnknownFields {
    fn push(&mut self, field: u32, reason: Unknown) {
        let reason = reason_to_wire(reason);
        match self.0.iter_mut().find(|group| group.reason == reason as i32) {
            Some(group) => group.fields.push(field),
            None => self.0.push(v1::UnknownReadings { reason: reason.into(), fields: vec![field] }),
        }
    }

    /// Takes the value out, or notes why there is none.
    fn split<T>(&mut self, field: u32, reading: Reading<T>) -> Option<T> {
        reading.map_err(|reason| self.push(field, reason)).ok()
    }
}

fn reason_to_wire(reason: Unknown) -> v1::UnknownReason {
    match reason {
        Unknown::NotSupported => v1::UnknownReason::NotSupported,
        Unknown::NoPermission => v1::UnknownReason::NoPermission,
        Unknown::Lost => v1::UnknownReason::Lost,
        Unknown::Timeout => v1::UnknownReason::Timeout,
        Unknown::NotYet => v1::UnknownReason::NotYet,
        _ => v1::UnknownReason::Failed,
    }
}

/// A reason that a newer peer knows and we do not is a failure to us.
fn reason_from_wire(reason: i32) -> Unknown {
    match v1::UnknownReason::try_from(reason) {
        Ok(v1::UnknownReason::NotSupported) => Unknown::NotSupported,
        Ok(v1::UnknownReason::NoPermission) => Unknown::NoPermission,
        Ok(v1::UnknownReason::Lost) => Unknown::Lost,
        Ok(v1::UnknownReason::Timeout) => Unknown::Timeout,
        Ok(v1::UnknownReason::NotYet) => Unknown::NotYet,
        _ => Unknown::Failed,
    }
}

/// Refuses values that cannot be true.
trait Plausible: Sized + Copy {
    /// The value as a real number.
    fn number(self) -> f64;

    /// The value, or a failure when it cannot be one in this unit. A percentage over `most` cannot.
    fn plausible(self, unit: Unit, most: f64) -> Reading<Self> {
        let number = self.number();
        let fits = match unit {
            Unit::Percent => (0.0..=most).contains(&number),
            Unit::Celsius => number.is_finite(),
            _ => number.is_finite() && number >= 0.0,
        };
        if fits { Ok(self) } else { Err(Unknown::Failed) }
    }
}

macro_rules! plausible {
    ($($ty:ty => $number:expr),*) => { $(impl Plausible for $ty {
        fn number(self) -> f64 {
            let number: fn($ty) -> f64 = $number;
            number(self)
        }
    })* };
}

plausible!(u32 => f64::from, u64 => |v| v as f64, i32 => f64::from, f64 => |v| v, bool => |v| f64::from(u8::from(v)));

/// The highest percentage that a field can hold: CPU use counts each logical CPU, fans may exceed their nominal speed.
fn most_percent(field: &str) -> f64 {
    match field {
        "cpu_percent" => f64::MAX,
        "fan_speed_percent" => 1000.0,
        _ => 100.0,
    }
}

macro_rules! convert_patch {
    ([$patch:ident $wire:ident] $( $(#[$meta:meta])* $number:literal $field:ident : $ty:ty, $unit:ident, $tier:ident, $title:literal, $source:literal; )*) => {
        impl From<&$patch> for v1::$wire {
            fn from(patch: &$patch) -> Self {
                let mut unknown = UnknownFields::default();
                $( let $field = patch.$field.and_then(|reading| unknown.split($number, reading)); )*
                Self { $($field,)* unknown: unknown.0 }
            }
        }

        impl From<&v1::$wire> for $patch {
            fn from(wire: &v1::$wire) -> Self {
                let mut patch = Self {
                    $( $field: wire.$field.map(|value| value.plausible(Unit::$unit, most_percent(stringify!($field)))), )*
                };
                for group in &wire.unknown {
                    let reason = reason_from_wire(group.reason);
                    for number in &group.fields {
                        patch.forget(*number, reason);
                    }
                }
                patch
            }
        }
    };
}

gpufleet_model::for_each_device_reading!(convert_patch, DeviceReadingsPatch, DeviceReadings);
gpufleet_model::for_each_process_reading!(convert_patch, ProcessReadingsPatch, ProcessReadings);
gpufleet_model::for_each_use_reading!(convert_patch, UseReadingsPatch, UseReadings);

impl From<&UseReadings> for v1::UseReadings {
    fn from(readings: &UseReadings) -> Self {
        Self::from(&readings.full_patch())
    }
}

impl From<&v1::UseReadings> for UseReadings {
    fn from(wire: &v1::UseReadings) -> Self {
        let mut readings = Self::unknown(Unknown::NotSupported);
        readings.apply(&wire.into());
        readings
    }
}

impl From<&HostReadings> for v1::HostReadings {
    fn from(readings: &HostReadings) -> Self {
        let mut unknown = UnknownFields::default();
        let load = |[one_minute, five_minutes, fifteen_minutes]: [f64; 3]| v1::LoadAverages {
            one_minute,
            five_minutes,
            fifteen_minutes,
        };
        Self {
            cpu_percent: unknown.split(1, readings.cpu_percent),
            memory_used_bytes: unknown.split(2, readings.memory_used_bytes),
            memory_total_bytes: unknown.split(3, readings.memory_total_bytes),
            swap_used_bytes: unknown.split(4, readings.swap_used_bytes),
            swap_total_bytes: unknown.split(5, readings.swap_total_bytes),
            load_averages: unknown.split(6, readings.load_averages).map(load),
            unknown: unknown.0,
        }
    }
}

impl From<&v1::HostReadings> for HostReadings {
    fn from(wire: &v1::HostReadings) -> Self {
        let reason = |number: u32| {
            let group = wire.unknown.iter().find(|group| group.fields.contains(&number));
            group.map_or(Unknown::NotSupported, |group| reason_from_wire(group.reason))
        };
        let bytes = |value: Option<u64>, number| value.ok_or_else(|| reason(number));
        let percent = |value: f64| value.plausible(Unit::Percent, 100.0);
        let load = |load: v1::LoadAverages| {
            let averages = [load.one_minute, load.five_minutes, load.fifteen_minutes];
            if averages.iter().all(|value| value.is_finite() && *value >= 0.0) {
                Ok(averages)
            } else {
                Err(Unknown::Failed)
            }
        };
        Self {
            cpu_percent: wire.cpu_percent.ok_or_else(|| reason(1)).and_then(percent),
            memory_used_bytes: bytes(wire.memory_used_bytes, 2),
            memory_total_bytes: bytes(wire.memory_total_bytes, 3),
            swap_used_bytes: bytes(wire.swap_used_bytes, 4),
            swap_total_bytes: bytes(wire.swap_total_bytes, 5),
            load_averages: wire.load_averages.ok_or_else(|| reason(6)).and_then(load),
        }
    }
}
