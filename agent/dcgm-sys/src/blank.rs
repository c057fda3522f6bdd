//! The sentinels that stand where there is no value. A status of 0 beside one is normal.

/// Why there is no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Blank {
    /// Not known, without a reason.
    Unknown,
    /// Not found.
    NotFound,
    /// The device does not have it.
    NotSupported,
    /// The engine's rights do not suffice.
    NoPermission,
    /// A sentinel newer than this crate.
    Other,
}

/// Blank, in 32 bits. The kinds of blank follow in the order of [`Blank`].
#[doc(alias = "DCGM_INT32_BLANK")]
pub const INT32_BLANK: i32 = 0x7fff_fff0;
/// Blank, in 64 bits.
#[doc(alias = "DCGM_INT64_BLANK")]
pub const INT64_BLANK: i64 = 0x7fff_ffff_ffff_fff0;
/// Blank, as a double: 2 to the power of 47.
#[doc(alias = "DCGM_FP64_BLANK")]
pub const FP64_BLANK: f64 = 140_737_488_355_328.0;
/// Blank, in 8 bits.
#[doc(alias = "DCGM_INT8_BLANK")]
pub const INT8_BLANK: i8 = 0x70;
/// Blank, as a text.
#[doc(alias = "DCGM_STR_BLANK")]
pub const TEXT_BLANK: &str = "<<<NULL>>>";
/// Not found, as a text.
#[doc(alias = "DCGM_STR_NOT_FOUND")]
pub const TEXT_NOT_FOUND: &str = "<<<NOT_FOUND>>>";
/// Not supported, as a text.
#[doc(alias = "DCGM_STR_NOT_SUPPORTED")]
pub const TEXT_NOT_SUPPORTED: &str = "<<<NOT_SUPPORTED>>>";
/// No permission, as a text.
#[doc(alias = "DCGM_STR_NOT_PERMISSIONED")]
pub const TEXT_NO_PERMISSION: &str = "<<<NOT_PERM>>>";

/// Every kind in the order of its sentinel above the first.
const IN_ORDER: [Blank; 4] = [Blank::Unknown, Blank::NotFound, Blank::NotSupported, Blank::NoPermission];

fn by_offset(offset: Option<usize>) -> Blank {
    offset.and_then(|offset| IN_ORDER.get(offset)).copied().unwrap_or(Blank::Other)
}

/// What kind of blank a 32-bit value is; `None` when it is a value.
#[doc(alias = "DCGM_INT32_IS_BLANK")]
pub fn of_i32(value: i32) -> Option<Blank> {
    (value >= INT32_BLANK).then(|| by_offset(usize::try_from(value - INT32_BLANK).ok()))
}

/// What kind of blank an unsigned member of the device attributes is; `None` when it is a value.
pub fn of_u32(value: u32) -> Option<Blank> {
    i32::try_from(value).map_or(Some(Blank::Other), of_i32)
}

/// What kind of blank a 64-bit value is; `None` when it is a value.
#[doc(alias = "DCGM_INT64_IS_BLANK")]
pub fn of_i64(value: i64) -> Option<Blank> {
    (value >= INT64_BLANK).then(|| by_offset(usize::try_from(value - INT64_BLANK).ok()))
}

/// What kind of blank a double is; `None` when it is a value.
#[doc(alias = "DCGM_FP64_IS_BLANK")]
pub fn of_f64(value: f64) -> Option<Blank> {
    const STEPS: [f64; 4] = [FP64_BLANK, FP64_BLANK + 1.0, FP64_BLANK + 2.0, FP64_BLANK + 3.0];
    let same = |step: &f64| step.to_bits() == value.to_bits();
    (value >= FP64_BLANK).then(|| by_offset(STEPS.iter().position(same)))
}

/// What kind of blank a text is; `None` when it is a value.
#[doc(alias = "DCGM_STR_IS_BLANK")]
pub fn of_text(text: &str) -> Option<Blank> {
    let kind = match text {
        TEXT_BLANK => Blank::Unknown,
        TEXT_NOT_FOUND => Blank::NotFound,
        TEXT_NOT_SUPPORTED => Blank::NotSupported,
        TEXT_NO_PERMISSION => Blank::NoPermission,
        _ => Blank::Other,
    };
    (text.starts_with("<<<") && text.contains(">>>")).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sentinel_is_told_from_a_value() {
        for (offset, kind) in (0_i32..).zip(IN_ORDER) {
            assert_eq!(of_i32(INT32_BLANK + offset), Some(kind));
            assert_eq!(of_u32(0x7fff_fff0 + offset.unsigned_abs()), Some(kind));
            assert_eq!(of_i64(INT64_BLANK + i64::from(offset)), Some(kind));
            assert_eq!(of_f64(FP64_BLANK + f64::from(offset)), Some(kind));
        }
        assert_eq!(of_i64(9_223_372_036_854_775_794), Some(Blank::NotSupported), "as a real H200 answers for its fan");
        assert_eq!(of_i64(i64::MAX), Some(Blank::Other));
        assert_eq!(of_f64(f64::INFINITY), Some(Blank::Other));
        assert_eq!(of_u32(u32::MAX), Some(Blank::Other));
        assert_eq!(of_text("<<<NOT_PERM>>>"), Some(Blank::NoPermission));
        assert_eq!(of_text("<<<SOMETHING_NEW>>>"), Some(Blank::Other));
    }

    #[test]
    fn values_are_values() {
        for value in [0, -1, 700, INT64_BLANK - 1, i64::MIN] {
            assert_eq!(of_i64(value), None);
        }
        for value in [0.0, 692.065, FP64_BLANK - 1.0, f64::NEG_INFINITY, f64::NAN] {
            assert_eq!(of_f64(value), None);
        }
        for value in ["", "NVIDIA H200", "<<<"] {
            assert_eq!(of_text(value), None);
        }
        assert_eq!(of_u32(0x7fff_ffef), None);
    }
}
