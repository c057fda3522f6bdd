//! The health socket's bytes: exact layouts, unknown against zero, and everything that can be thrown at the parser.

use gpufleet_proto::health_socket::{BadRequest, Record, Request, Status, encode_hello, mask};
use proptest::prelude::*;

#[test]
fn a_request_is_nine_bytes_big_endian() {
    let bytes = Request::Device { gpu: 0x0102_0304, mask: 0x0000_0405 }.encode();
    assert_eq!(bytes, [0x01, 1, 2, 3, 4, 0, 0, 4, 5]);
    assert_eq!(Request::Subscribe { gpu: None, mask: 1 }.encode(), [0x03, 255, 255, 255, 255, 0, 0, 0, 1]);
}

#[test]
fn commands_and_fields_of_other_versions_are_refused() {
    assert_eq!(Request::decode([0x44; 9]), Err(BadRequest::Mask(0x4444_4444 & !mask::ALL)));
    assert_eq!(Request::decode([0x44, 0, 0, 0, 0, 0, 0, 0, 1]), Err(BadRequest::Command(0x44)));
}

#[test]
fn a_record_is_thirteen_bytes_and_tells_unknown_from_zero() {
    let record = Record {
        status: Status::Healthy,
        temperature_centicelsius: Some(8500),
        power_watts: Some(691),
        ecc_uncorrected: Some(0),
        pcie_replays: None,
    };
    assert_eq!(record.encode(), [0, 0x21, 0x34, 0x02, 0xB3, 0, 0, 0, 0, 255, 255, 255, 255]);
    assert_eq!(Record::status_only(Status::UnknownDevice).encode()[0], 5);
}

#[test]
fn hello_states_version_devices_interval_and_capabilities() {
    assert_eq!(encode_hello(8, 1000), [0, 1, 0, 0, 0, 8, 0, 0, 3, 0xE8, 0, 0, 0, 3]);
}

fn short() -> impl Strategy<Value = Option<u16>> {
    prop::option::of(0..u16::MAX)
}

fn long() -> impl Strategy<Value = Option<u32>> {
    prop::option::of(0..u32::MAX)
}

proptest! {
    #[test]
    fn any_nine_bytes_are_a_request_or_a_clear_refusal(bytes: [u8; 9]) {
        if let Ok(request) = Request::decode(bytes) {
            prop_assert_eq!(Request::decode(request.encode()), Ok(request));
        }
    }

    #[test]
    fn a_record_survives_the_wire(t in short(), p in short(), e in long(), r in long()) {
        let record = Record {
            status: Status::Degraded,
            temperature_centicelsius: t,
            power_watts: p,
            ecc_uncorrected: e,
            pcie_replays: r,
        };
        prop_assert_eq!(Record::decode(record.encode()), Some(record));
    }
}
