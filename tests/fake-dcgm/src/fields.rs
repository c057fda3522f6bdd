//! The library's table of fields, as each version has it.

use std::sync::OnceLock;

use dcgm_sys::field::RawFieldMeta;
use dcgm_sys::version::Zeroable as _;
use dcgm_sys::{EntityGroup, FieldFacts, FieldId, Major, ValueType, Version};

/// Fields beyond the catalogue, by the range of their numbers: further engines and links of those that are in it.
const RANGES: [(std::ops::RangeInclusive<u16>, ValueType); 4] = [
    (1018..=1024, ValueType::DOUBLE),
    (1026..=1032, ValueType::DOUBLE),
    (1034..=1034, ValueType::DOUBLE),
    (1041..=1075, ValueType::INT64),
];

/// The type of a field's values; `None` when no version has the field.
pub(crate) fn kind(field: FieldId) -> Option<ValueType> {
    let ranged = || RANGES.iter().find(|(range, _)| range.contains(&field.0)).map(|(_, kind)| *kind);
    field.facts().map(|facts| facts.kind).or_else(ranged)
}

/// The same for one version.
pub(crate) fn kind_in(field: FieldId, version: Version) -> Option<ValueType> {
    let since = field.facts().map_or((3, 0), |facts| facts.since);
    kind(field).filter(|_| since <= (version.major, version.minor))
}

/// Fields whose samples are events.
pub(crate) fn is_event(field: FieldId) -> bool {
    field == FieldId::DEV_XID_ERRORS || field == FieldId::DEV_GPU_NVLINK_ERRORS
}

/// The table of one major version.
struct Table(Vec<RawFieldMeta>);

// SAFETY: the only pointers in it are null, and it never changes.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

fn table(major: Major) -> &'static [RawFieldMeta] {
    static TABLES: OnceLock<[Table; 2]> = OnceLock::new();
    let [three, four] = TABLES.get_or_init(|| [Table(rows(Major::V3)), Table(rows(Major::V4))]);
    match major {
        Major::V3 => &three.0,
        Major::V4 => &four.0,
    }
}

fn rows(major: Major) -> Vec<RawFieldMeta> {
    let catalogue =
        FieldFacts::all().map(|facts| meta(facts.id, facts.kind, level(facts.id, facts.level, major), facts.tag));
    let further = RANGES.iter().flat_map(|(range, kind)| range.clone().map(move |id| (FieldId(id), *kind)));
    let further =
        further.map(|(id, kind)| meta(id, kind, level(id, EntityGroup::GPU, major), &format!("field_{}", id.0)));
    catalogue.chain(further).collect()
}

/// Per-link profiling fields changed their level.
fn level(field: FieldId, level: EntityGroup, major: Major) -> EntityGroup {
    if (1040..=1075).contains(&field.0) && major == Major::V3 { EntityGroup::LINK } else { level }
}

fn meta(id: FieldId, kind: ValueType, level: EntityGroup, tag: &str) -> RawFieldMeta {
    RawFieldMeta {
        id,
        kind: kind.0.to_le_bytes()[0],
        size: 8,
        tag: dcgm_sys::text::array(tag),
        level,
        ..RawFieldMeta::zeroed()
    }
}

/// The entry of a field.
pub(crate) fn by_id(field: FieldId, version: Version) -> Option<&'static RawFieldMeta> {
    kind_in(field, version)?;
    table(Major::from_number(version.major)?).iter().find(|row| row.id == field)
}

/// The entry of a tag.
pub(crate) fn by_tag(tag: &str, version: Version) -> Option<&'static RawFieldMeta> {
    let major = Major::from_number(version.major)?;
    table(major).iter().find(|row| dcgm_sys::text::text(&row.tag) == tag && kind_in(row.id, version).is_some())
}
