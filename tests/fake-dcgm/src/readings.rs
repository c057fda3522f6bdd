//! What a field gives at one moment, and how that is written into DCGM's structs.

use dcgm_sys::blank::{
    Blank, FP64_BLANK, INT64_BLANK, TEXT_BLANK, TEXT_NO_PERMISSION, TEXT_NOT_FOUND, TEXT_NOT_SUPPORTED,
};
use dcgm_sys::value::{FieldValueV1, FieldValueV2, RawValue};
use dcgm_sys::version::{Versioned as _, Zeroable as _};
use dcgm_sys::{DcgmError, Entity, EntityGroup, FieldId, Major, ValueType};

use crate::scenario::{Device, FieldName, MigInstance, Reading, Scenario};

/// A sample of a field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) at: i64,
    status: i32,
    kind: ValueType,
    content: Content,
}

#[derive(Debug, Clone, PartialEq)]
enum Content {
    Int(i64),
    Double(f64),
    Text(String),
}

/// What the field gives now.
pub(crate) fn read(scenario: &Scenario, entity: Entity, field: FieldId, at: i64) -> Sample {
    let kind = crate::fields::kind(field).unwrap_or(ValueType::INT64);
    let fields = match entity.group {
        EntityGroup::NONE => None,
        _ => match owner(scenario, entity) {
            None => return failed(kind, DcgmError::GPU_IS_LOST, at),
            Some((device, _)) if device.lost => return failed(kind, DcgmError::GPU_IS_LOST, at),
            Some((device, instance)) => Some(instance.map_or(&device.fields, |instance| &instance.fields)),
        },
    };
    if field == FieldId::DEV_COUNT {
        return Sample {
            at,
            status: 0,
            kind,
            content: Content::Int(i64::try_from(scenario.devices.len()).unwrap_or(0)),
        };
    }
    let name = FieldName(field);
    let reading = fields.and_then(|fields| fields.get(&name)).or_else(|| scenario.fields.get(&name));
    match reading.unwrap_or(&Reading::NOT_SUPPORTED) {
        Reading::Int(value) => number(kind, *value, at),
        Reading::Double(value) => Sample { at, status: 0, kind, content: Content::Double(*value) },
        Reading::Text(value) => Sample { at, status: 0, kind, content: Content::Text(value.clone()) },
        Reading::Blank { blank } => blank_sample(kind, blank.0, at),
        Reading::Status { status } => failed(kind, status.0, at),
    }
}

/// The device of a number.
pub(crate) fn device(scenario: &Scenario, id: u32) -> Option<&Device> {
    scenario.devices.get(usize::try_from(id).ok()?)
}

/// The device of an entity, and the MIG instance if it is one.
pub(crate) fn owner(scenario: &Scenario, entity: Entity) -> Option<(&Device, Option<&MigInstance>)> {
    match entity.group {
        EntityGroup::GPU => device(scenario, entity.id).map(|device| (device, None)),
        EntityGroup::GPU_INSTANCE | EntityGroup::COMPUTE_INSTANCE => {
            let (_, device, instance) = instances(scenario).nth(usize::try_from(entity.id).ok()?)?;
            Some((device, Some(instance)))
        }
        _ => None,
    }
}

/// Every MIG instance with its device and the device's number. An instance's number is its place.
pub(crate) fn instances(scenario: &Scenario) -> impl Iterator<Item = (u32, &Device, &MigInstance)> {
    let devices = (0_u32..).zip(&scenario.devices);
    devices.flat_map(|(id, device)| device.mig.iter().map(move |instance| (id, device, instance)))
}

/// A number, as the field's type holds it.
pub(crate) fn number(kind: ValueType, value: i64, at: i64) -> Sample {
    let content = if kind == ValueType::DOUBLE { Content::Double(value as f64) } else { Content::Int(value) };
    Sample { at, status: 0, kind, content }
}

/// A sentinel with a good status.
pub(crate) fn blank_sample(kind: ValueType, blank: Blank, at: i64) -> Sample {
    let (offset, text) = match blank {
        Blank::NotFound => (1_i32, TEXT_NOT_FOUND),
        Blank::NotSupported => (2, TEXT_NOT_SUPPORTED),
        Blank::NoPermission => (3, TEXT_NO_PERMISSION),
        Blank::Unknown | Blank::Other => (0, TEXT_BLANK),
    };
    let content = match kind {
        ValueType::DOUBLE => Content::Double(FP64_BLANK + f64::from(offset)),
        ValueType::TEXT => Content::Text(text.to_owned()),
        _ => Content::Int(INT64_BLANK + i64::from(offset)),
    };
    Sample { at, status: 0, kind, content }
}

/// An error as the value's status, with a blank.
pub(crate) fn failed(kind: ValueType, error: DcgmError, at: i64) -> Sample {
    Sample { status: error.code, ..blank_sample(kind, Blank::Unknown, at) }
}

/// What stands for a field that is not watched: in 3.x always the integer 0, which is why status comes before value.
pub(crate) fn not_watched(kind: ValueType, major: Major) -> Sample {
    match major {
        Major::V3 => {
            Sample { at: 0, status: DcgmError::NOT_WATCHED.code, kind: ValueType::INT64, content: Content::Int(0) }
        }
        Major::V4 => failed(kind, DcgmError::NOT_WATCHED, 0),
    }
}

impl Sample {
    fn raw(&self) -> RawValue {
        let mut raw = RawValue { blob: [0; 4096] };
        match &self.content {
            Content::Int(value) => raw.i64 = *value,
            Content::Double(value) => raw.f64 = *value,
            Content::Text(value) => raw.text = dcgm_sys::text::array(value),
        }
        raw
    }

    /// As a callback gets it.
    pub(crate) fn without_entity(&self, field: FieldId) -> FieldValueV1 {
        let mut value = FieldValueV1 {
            field,
            kind: self.kind,
            status: self.status,
            timestamp: self.at,
            value: self.raw(),
            ..FieldValueV1::zeroed()
        };
        value.set_version();
        value
    }

    /// As a buffer gets it.
    pub(crate) fn with_entity(&self, entity: Entity, field: FieldId) -> FieldValueV2 {
        let mut value = FieldValueV2 {
            entity,
            field,
            kind: self.kind,
            status: self.status,
            timestamp: self.at,
            value: self.raw(),
            ..FieldValueV2::zeroed()
        };
        value.set_version();
        value
    }
}
