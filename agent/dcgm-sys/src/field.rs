//! Fields: their numbers, what the library knows of them, and this crate's own catalogue of those that gpufleet uses,
//! with the units that the library mostly does not tell.

use crate::code::layout;
use crate::entity::EntityGroup;
use crate::value::ValueType;
use crate::version::Zeroable;

mod device;
mod links;
mod reliability;

/// A field of DCGM. No number known in 3.3 has another meaning or is lost in 4.6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct FieldId(pub u16);

/// A value's unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A text, or a number that is not measured: an id, code, state or bit mask.
    None,
    /// 0 or 1.
    Flag,
    /// A count, or a counter.
    Count,
    /// 0 to 1.
    Ratio,
    /// 0 to 100.
    Percent,
    /// MHz.
    Megahertz,
    /// Mebibytes.
    Mebibytes,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// 1000 bytes per second.
    KilobytesPerSecond,
    /// 1000 kibibytes per second.
    MegabytesPerSecond,
    /// Degrees Celsius.
    Celsius,
    /// Watts.
    Watts,
    /// Millijoules.
    Millijoules,
    /// Nanoseconds.
    Nanoseconds,
}

/// What this crate knows of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldFacts {
    /// The field.
    pub id: FieldId,
    /// DCGM's name in 3.3 to 4.5, without `DCGM_FI_`.
    pub name: &'static str,
    /// The library's tag.
    pub tag: &'static str,
    /// The type of its values.
    pub kind: ValueType,
    /// The lowest kind of entity it is kept for. One of a compute instance can be asked of a GPU too.
    pub level: EntityGroup,
    /// The unit of its values.
    pub unit: Unit,
    /// The first version that has it; (3, 0) stands for every 3.x.
    pub since: (u32, u32),
}

impl FieldId {
    /// What this crate knows of it; `None` for fields that gpufleet has no use for.
    pub fn facts(self) -> Option<&'static FieldFacts> {
        FieldFacts::all().find(|facts| facts.id == self)
    }

    /// Whether it is a profiling field. These have values only while watched, must be in a field group of their own,
    /// and must never be read live: that crashes DCGM 4, and with an embedded engine the whole process.
    pub const fn is_profiling(self) -> bool {
        self.0 > 1000 && self.0 < 1200
    }

    /// Bytes sent per second on one NVLink, for links 0 to 17.
    #[doc(alias = "DCGM_FI_PROF_NVLINK_L0_TX_BYTES")]
    pub const fn prof_nvlink_tx_bytes(link: u16) -> Option<Self> {
        if link > 17 { None } else { Some(Self(1040 + 2 * link)) }
    }

    /// Bytes received per second on one NVLink, for links 0 to 17.
    #[doc(alias = "DCGM_FI_PROF_NVLINK_L0_RX_BYTES")]
    pub const fn prof_nvlink_rx_bytes(link: u16) -> Option<Self> {
        if link > 17 { None } else { Some(Self(1041 + 2 * link)) }
    }
}

impl FieldFacts {
    /// The whole catalogue, by number.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        device::FIELDS.iter().chain(reliability::FIELDS).chain(links::FIELDS)
    }
}

/// One row per field: the constant, its number, type, level, unit, first version, tag, C names, and what it means.
macro_rules! fields {
    ($($name:ident $id:literal $kind:ident $level:ident $unit:ident ($major:literal, $minor:literal)
        $tag:literal [$($alias:literal),*] $doc:literal;)*
    ) => {
        use super::{FieldFacts, FieldId, Unit};
        use crate::entity::EntityGroup;
        use crate::value::ValueType;

        impl FieldId {
            $(#[doc = $doc] $(#[doc(alias = $alias)])* pub const $name: Self = Self($id);)*
        }

        pub(super) const FIELDS: &[FieldFacts] = &[$(FieldFacts {
            id: FieldId($id),
            name: stringify!($name),
            tag: $tag,
            kind: ValueType::$kind,
            level: EntityGroup::$level,
            unit: Unit::$unit,
            since: ($major, $minor),
        }),*];
    };
}
use fields;

/// What the library knows of a field. It lies in a table of the library.
#[doc(alias = "dcgm_field_meta_t")]
#[repr(C)]
pub struct RawFieldMeta {
    /// The field.
    pub id: FieldId,
    /// The type of its values.
    pub kind: u8,
    /// The size of its values.
    pub size: u8,
    /// Its name.
    pub tag: [u8; 48],
    /// Not used any more.
    pub scope: i32,
    /// The NVML field it comes from, or 0.
    pub nvml_id: i32,
    /// The lowest kind of entity it is kept for.
    pub level: EntityGroup,
    /// How it is printed.
    pub format: *const RawFieldFormat,
}

/// How a field is printed.
#[doc(alias = "dcgm_field_output_format_t")]
#[repr(C)]
pub struct RawFieldFormat {
    /// A short name.
    pub short_name: [u8; 10],
    /// The unit, mostly empty: use [`FieldFacts::unit`].
    pub unit: [u8; 4],
    /// Width in characters.
    pub width: i16,
}

layout!(RawFieldMeta: size 72, align 8;
    id @ 0, 2; kind @ 2, 1; size @ 3, 1; tag @ 4, 48; scope @ 52, 4; nvml_id @ 56, 4; level @ 60, 4; format @ 64, 8;
);
layout!(RawFieldFormat: size 16, align 2; short_name @ 0, 10; unit @ 10, 4; width @ 14, 2;);
// SAFETY: numbers and a nullable pointer.
unsafe impl Zeroable for RawFieldMeta {}

/// What the library knows of a field, copied out of its table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldMeta {
    /// The field.
    pub id: FieldId,
    /// The type of its values.
    pub kind: ValueType,
    /// Its name.
    pub tag: String,
    /// The NVML field it comes from.
    pub nvml_id: Option<i32>,
    /// The lowest kind of entity it is kept for.
    pub level: EntityGroup,
}

impl From<&RawFieldMeta> for FieldMeta {
    fn from(raw: &RawFieldMeta) -> Self {
        Self {
            id: raw.id,
            kind: ValueType(u16::from(raw.kind)),
            tag: crate::text::text(&raw.tag).into_owned(),
            nvml_id: (raw.nvml_id != 0).then_some(raw.nvml_id),
            level: raw.level,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_is_in_order_and_complete() {
        let all: Vec<_> = FieldFacts::all().collect();
        assert!(all.is_sorted_by(|a, b| a.id < b.id));
        assert_eq!(all.len(), 177);
        assert_eq!(
            FieldId::DEV_POWER_USAGE.facts().map(|facts| (facts.tag, facts.unit)),
            Some(("power_usage", Unit::Watts))
        );
        assert_eq!(FieldId(0).facts(), None);
    }

    #[test]
    fn profiling_fields_are_known_as_such() {
        for facts in FieldFacts::all() {
            assert_eq!(facts.id.is_profiling(), facts.name.starts_with("PROF_"), "{}", facts.name);
        }
        assert_eq!(FieldId::prof_nvlink_rx_bytes(17), Some(FieldId(1075)));
        assert_eq!(FieldId::prof_nvlink_tx_bytes(0), Some(FieldId::PROF_NVLINK_L0_TX_BYTES));
        assert_eq!(FieldId::prof_nvlink_tx_bytes(18), None);
    }
}
