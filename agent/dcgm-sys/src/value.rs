//! Values of fields. A value is only looked at after its status, and a blank is not a value.

use std::borrow::Cow;
use std::fmt;

use crate::blank::{self, Blank};
use crate::code::{c_enum, layout, versioned};
use crate::entity::Entity;
use crate::error::DcgmError;
use crate::field::FieldId;
use crate::text::text;
use crate::version::Zeroable;

c_enum! {
    /// The type of a value: an ASCII letter.
    pub struct ValueType(u16) {
        /// A 64-bit integer.
        #[doc(alias = "DCGM_FT_INT64")]
        INT64 = 0x69;
        /// A double.
        #[doc(alias = "DCGM_FT_DOUBLE")]
        DOUBLE = 0x64;
        /// A text of up to 256 bytes.
        #[doc(alias = "DCGM_FT_STRING")]
        TEXT = 0x73;
        /// Microseconds since 1970.
        #[doc(alias = "DCGM_FT_TIMESTAMP")]
        TIMESTAMP = 0x74;
        /// Up to 4096 bytes.
        #[doc(alias = "DCGM_FT_BINARY")]
        BLOB = 0x62;
    }
}

/// The bytes of a value, to be read by its type.
#[derive(Clone, Copy)]
#[repr(C)]
pub union RawValue {
    /// Of an integer or timestamp.
    pub i64: i64,
    /// Of a double.
    pub f64: f64,
    /// Of a text.
    pub text: [u8; 256],
    /// Of a blob; every byte of the union.
    pub blob: [u8; 4096],
}

/// A value without its entity, as callbacks get it.
#[doc(alias = "dcgmFieldValue_v1")]
#[derive(Clone, Copy)]
#[repr(C)]
pub struct FieldValueV1 {
    /// The version word, set by the library.
    pub version: u32,
    /// The field.
    pub field: FieldId,
    /// The value's type.
    pub kind: ValueType,
    /// 0, or why there is no value.
    pub status: i32,
    /// When it was measured, in microseconds since 1970.
    pub timestamp: i64,
    /// The value.
    pub value: RawValue,
}

/// A value with its entity.
#[doc(alias = "dcgmFieldValue_v2")]
#[derive(Clone, Copy)]
#[repr(C)]
pub struct FieldValueV2 {
    /// The version word, set by the library.
    pub version: u32,
    /// What it was measured on.
    pub entity: Entity,
    /// The field.
    pub field: FieldId,
    /// The value's type.
    pub kind: ValueType,
    /// 0, or why there is no value.
    pub status: i32,
    /// Not used.
    pub unused: u32,
    /// When it was measured, in microseconds since 1970.
    pub timestamp: i64,
    /// The value.
    pub value: RawValue,
}

layout!(RawValue: size 4096, align 8; i64 @ 0, 8; f64 @ 0, 8; text @ 0, 256; blob @ 0, 4096;);
layout!(FieldValueV1: size 4120, align 8;
    version @ 0, 4; field @ 4, 2; kind @ 6, 2; status @ 8, 4; timestamp @ 16, 8; value @ 24, 4096;
);
layout!(FieldValueV2: size 4128, align 8;
    version @ 0, 4; entity.group @ 4, 4; entity.id @ 8, 4; field @ 12, 2; kind @ 14, 2; status @ 16, 4; unused @ 20, 4;
    timestamp @ 24, 8; value @ 32, 4096;
);
// SAFETY: numbers and a union of numbers.
unsafe impl Zeroable for FieldValueV1 {}
// SAFETY: numbers and a union of numbers.
unsafe impl Zeroable for FieldValueV2 {}
versioned! {
    FieldValueV1 = 1 => 0x0100_1018;
    FieldValueV2 = 2 => 0x0200_1020;
}

/// A value by its type.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// A number or timestamp.
    Int(i64),
    /// A number.
    Double(f64),
    /// A text.
    Text(Cow<'a, str>),
    /// Bytes; how many are meant depends on the field.
    Blob(&'a [u8; 4096]),
}

/// Why a field gave no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The status is an error.
    Status(DcgmError),
    /// The status is good and the value a sentinel.
    Blank(Blank),
    /// The value is of a type this crate does not know.
    Type(ValueType),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(error) => error.fmt(f),
            Self::Blank(Blank::NotFound) => f.write_str("not found"),
            Self::Blank(Blank::NotSupported) => f.write_str("not supported"),
            Self::Blank(Blank::NoPermission) => f.write_str("the engine's rights do not suffice"),
            Self::Blank(Blank::Unknown | Blank::Other) => f.write_str("not known"),
            Self::Type(kind) => write!(f, "a value of the unknown type {}", kind.0),
        }
    }
}

impl std::error::Error for Missing {}

/// Reads a value: status first, then type, then blankness.
fn read(status: i32, kind: ValueType, value: &RawValue) -> Result<Value<'_>, Missing> {
    DcgmError::check(status).map_err(Missing::Status)?;
    match kind {
        ValueType::INT64 | ValueType::TIMESTAMP => {
            // SAFETY: every byte of the union was written by the library or zeroed, and any bytes are an integer.
            let number = unsafe { value.i64 };
            blank::of_i64(number).map_or(Ok(Value::Int(number)), |blank| Err(Missing::Blank(blank)))
        }
        ValueType::DOUBLE => {
            // SAFETY: as above; any bytes are a double.
            let number = unsafe { value.f64 };
            blank::of_f64(number).map_or(Ok(Value::Double(number)), |blank| Err(Missing::Blank(blank)))
        }
        ValueType::TEXT => {
            // SAFETY: as above; any bytes are bytes.
            let text = text(unsafe { &value.text });
            blank::of_text(&text).map_or(Ok(Value::Text(text)), |blank| Err(Missing::Blank(blank)))
        }
        // SAFETY: as above; any bytes are bytes.
        ValueType::BLOB => Ok(Value::Blob(unsafe { &value.blob })),
        other => Err(Missing::Type(other)),
    }
}

impl FieldValueV1 {
    /// The value, or why there is none.
    pub fn read(&self) -> Result<Value<'_>, Missing> {
        read(self.status, self.kind, &self.value)
    }
}

impl FieldValueV2 {
    /// The value, or why there is none.
    pub fn read(&self) -> Result<Value<'_>, Missing> {
        read(self.status, self.kind, &self.value)
    }
}

impl fmt::Debug for FieldValueV1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {:?}", self.field.0, self.timestamp, self.read())
    }
}

impl fmt::Debug for FieldValueV2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {:?} at {}: {:?}", self.field.0, self.entity, self.timestamp, self.read())
    }
}

impl Value<'_> {
    /// The number as a double, whichever numeric type it has.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(*number as f64),
            Self::Double(number) => Some(*number),
            Self::Text(_) | Self::Blob(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(status: i32, kind: ValueType, raw: &RawValue) -> FieldValueV1 {
        FieldValueV1 { status, kind, value: *raw, ..FieldValueV1::zeroed() }
    }

    #[test]
    fn the_status_comes_before_the_value() {
        // DCGM 3 answers so for a field that is not watched, whatever the field's type.
        let unwatched = value(-16, ValueType::INT64, &RawValue { i64: 0 });
        assert_eq!(unwatched.read(), Err(Missing::Status(DcgmError::NOT_WATCHED)));
        assert_eq!(value(0, ValueType::INT64, &RawValue { i64: 0 }).read(), Ok(Value::Int(0)));
    }

    #[test]
    fn a_blank_is_not_a_value_though_its_status_is_good() {
        let blank = value(0, ValueType::INT64, &RawValue { i64: blank::INT64_BLANK + 2 });
        assert_eq!(blank.read(), Err(Missing::Blank(Blank::NotSupported)));
        let blank = value(0, ValueType::DOUBLE, &RawValue { f64: blank::FP64_BLANK });
        assert_eq!(blank.read(), Err(Missing::Blank(Blank::Unknown)));
        let blank = value(0, ValueType::TEXT, &RawValue { text: crate::text::array(blank::TEXT_NOT_FOUND) });
        assert_eq!(blank.read(), Err(Missing::Blank(Blank::NotFound)));
    }

    #[test]
    fn values_are_read_by_their_type() {
        let text = value(0, ValueType::TEXT, &RawValue { text: crate::text::array("NVIDIA H200") });
        assert_eq!(text.read(), Ok(Value::Text("NVIDIA H200".into())));
        assert_eq!(value(0, ValueType::DOUBLE, &RawValue { f64: 692.065 }).read(), Ok(Value::Double(692.065)));
        let odd = value(0, ValueType(0x7a), &RawValue { i64: 1 });
        assert_eq!(odd.read(), Err(Missing::Type(ValueType(0x7a))));
        assert_eq!(Value::Int(3).as_f64(), Some(3.0));
    }
}
