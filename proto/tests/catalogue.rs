//! The catalogue of readings and the schema say the same: number, name and type of every field.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::collections::BTreeMap;

use gpufleet_proto::FILE_DESCRIPTOR_SET;
use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FileDescriptorSet};

fn message(name: &str) -> DescriptorProto {
    let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
    let ours = set.file.into_iter().filter(|file| file.package() == "gpufleet.v1");
    ours.flat_map(|file| file.message_type).find(|message| message.name() == name).unwrap()
}

fn wire_type(rust: &str) -> Type {
    match rust {
        "u32" => Type::Uint32,
        "u64" => Type::Uint64,
        "i32" => Type::Sint32,
        "f64" => Type::Double,
        "bool" => Type::Bool,
        other => panic!("no wire type for `{other}`"),
    }
}

type Rows = BTreeMap<i32, (String, Type)>;

/// The optional scalar fields of a message; the list of unknown ones must be its only other field.
fn in_schema(name: &str) -> Rows {
    let (readings, others): (Vec<_>, Vec<_>) =
        message(name).field.into_iter().partition(prost_types::FieldDescriptorProto::proto3_optional);
    let others: Vec<_> = others.iter().map(|field| (field.number(), field.name(), field.label())).collect();
    assert_eq!(others, [(100, "unknown", Label::Repeated)], "{name}: a reading that is not optional?");
    readings.into_iter().map(|field| (field.number(), (field.name().to_owned(), field.r#type()))).collect()
}

macro_rules! rows {
    ([$name:ident] $( $(#[$meta:meta])* $number:literal $field:ident : $ty:ident, $unit:ident, $tier:ident, $title:literal, $source:literal; )*) => {
        fn $name() -> Rows {
            Rows::from([$( ($number, (stringify!($field).to_owned(), wire_type(stringify!($ty)))), )*])
        }
    };
}

gpufleet_model::for_each_device_reading!(rows, device_rows);
gpufleet_model::for_each_process_reading!(rows, process_rows);
gpufleet_model::for_each_use_reading!(rows, use_rows);

#[test]
fn every_row_is_a_field_and_every_field_a_row() {
    assert_eq!(in_schema("DeviceReadings"), device_rows());
    assert_eq!(in_schema("ProcessReadings"), process_rows());
    assert_eq!(in_schema("UseReadings"), use_rows());
}
