//! Sizes and lengths of time for people: `5098MiB`, `140.4GiB`, `0:28`, `1:02:03`, `3.5 days`.
//!
//! Units are binary and chosen after rounding, so that no size shows as 1024 of a smaller unit. Rounding is half up, in
//! whole numbers: no floating point decides a digit.

use std::time::Duration;

use thiserror::Error;

const UNITS: [(&str, u32); 5] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40), ("PiB", 50)];

/// A size: whole bytes and KiB, MiB up to 20 GiB, then GiB, TiB and PiB.
pub fn bytes(size: u64) -> String {
    if size < 1024 {
        return format!("{size}B");
    }
    // Decimals, and the value above which a format is not used any more, in its own last digit.
    let formats: [(usize, &[(u32, u128)]); 5] = [
        (0, &[(0, 1024)]),
        (1, &[(2, 10_000), (1, 10_000), (0, 20_480)]),
        (2, &[(2, 10_000), (1, 10_000)]),
        (3, &[(2, 10_000), (1, 10_000)]),
        (4, &[(2, 10_000), (1, u128::MAX)]),
    ];
    for (unit, choices) in formats {
        let Some((name, shift)) = UNITS.get(unit) else { continue };
        for (decimals, limit) in choices {
            let scaled = rounded(size, *shift, *decimals);
            if scaled < *limit {
                return format!("{}{name}", with_point(scaled, *decimals));
            }
        }
    }
    format!("{size}B")
}

/// `size / 2^shift` to so many decimals, half up, as a whole number of the last digit.
fn rounded(size: u64, shift: u32, decimals: u32) -> u128 {
    let scaled = u128::from(size) * 10u128.pow(decimals);
    (scaled + (1u128 << shift) / 2) >> shift
}

fn with_point(scaled: u128, decimals: u32) -> String {
    let one = 10u128.pow(decimals);
    match usize::try_from(decimals) {
        Ok(width) if width > 0 => format!("{}.{:0width$}", scaled / one, scaled % one),
        _ => scaled.to_string(),
    }
}

const DAY: u64 = 86_400;

/// A length of time, fractions of the last digit cut off: `M:SS` below an hour, `H:MM:SS` below four days, then days.
pub fn duration(length: Duration) -> String {
    clock_or_days(length, 4 * DAY)
}

/// How long a host is up: as [`duration`], but in days from one day on.
pub fn uptime(length: Duration) -> String {
    clock_or_days(length, DAY)
}

fn clock_or_days(length: Duration, days_from: u64) -> String {
    let seconds = length.as_secs();
    if seconds >= days_from {
        let tenths = seconds / (DAY / 10);
        return format!("{}.{} days", tenths / 10, tenths % 10);
    }
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{rest:02}") } else { format!("{minutes}:{rest:02}") }
}

/// A text that is not a size.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseBytesError {
    /// No number, or one that is not written as digits with at most one point.
    #[error("`{0}` is not a size; write a number and a unit, such as `40GiB`")]
    Form(String),
    /// A bare letter, which means 1000 to some and 1024 to others.
    #[error("`{text}` is ambiguous; write `{binary}` or `{decimal}`")]
    Ambiguous {
        /// What was written.
        text: String,
        /// The binary reading.
        binary: String,
        /// The decimal reading.
        decimal: String,
    },
    /// Not a unit.
    #[error("`{0}` is not a unit; units are B, KiB, MiB, GiB, TiB, PiB, and KB, MB, GB, TB, PB by thousands")]
    Unit(String),
    /// More than fits.
    #[error("`{0}` is too large")]
    TooLarge(String),
}

/// Reads a size: a number, and a unit in either case. Without a unit it is in bytes.
///
/// # Errors
/// When it is not a size, or its unit is ambiguous.
pub fn parse_bytes(text: &str) -> Result<u64, ParseBytesError> {
    let form = || ParseBytesError::Form(text.to_owned());
    let trimmed = text.trim();
    let end = trimmed.bytes().position(|byte| !(byte.is_ascii_digit() || byte == b'.')).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at_checked(end).ok_or_else(form)?;
    let factor = unit_factor(number, unit.trim(), text)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 9 || fraction.contains('.') {
        return Err(form());
    }
    let too_large = || ParseBytesError::TooLarge(text.to_owned());
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let one = 10u128.pow(u32::try_from(fraction.len()).map_err(|_| form())?);
    let parts: u128 = fraction.parse().map_err(|_| form())?;
    let size = u128::from(whole) * u128::from(factor) + (parts * u128::from(factor) + one / 2) / one;
    u64::try_from(size).map_err(|_| too_large())
}

fn unit_factor(number: &str, unit: &str, text: &str) -> Result<u64, ParseBytesError> {
    let lower = unit.to_ascii_lowercase();
    if lower.is_empty() || lower == "b" {
        return Ok(1);
    }
    let place = "kmgtp".find(lower.get(..1).unwrap_or_default()).and_then(|place| u32::try_from(place).ok());
    let unknown = || ParseBytesError::Unit(unit.to_owned());
    let power = place.ok_or_else(unknown)? + 1;
    match lower.get(1..) {
        Some("ib" | "i") => Ok(1 << (10 * power)),
        Some("b") => Ok(1000u64.pow(power)),
        Some("") => {
            let letter = unit.to_ascii_uppercase();
            let (binary, decimal) = (format!("{number}{letter}iB"), format!("{number}{letter}B"));
            Err(ParseBytesError::Ambiguous { text: text.to_owned(), binary, decimal })
        }
        _ => Err(unknown()),
    }
}
