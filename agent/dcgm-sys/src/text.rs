//! Fixed byte arrays that hold C texts, and texts handed to C.

use std::borrow::Cow;
use std::ffi::CString;

use crate::error::DcgmError;

/// The text of an array up to its first zero byte; all of it when there is none.
pub fn text(bytes: &[u8]) -> Cow<'_, str> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or(bytes))
}

/// A text into an array, cut to fit, with a final zero byte.
pub fn array<const N: usize>(text: &str) -> [u8; N] {
    let mut array = [0; N];
    for (place, byte) in array.iter_mut().zip(text.bytes()).take(N.saturating_sub(1)) {
        *place = byte;
    }
    array
}

/// A text for C. One with a zero byte inside is a bad parameter.
pub(crate) fn c_text(text: &str) -> Result<CString, DcgmError> {
    CString::new(text).map_err(|_| DcgmError::BAD_PARAMETER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_at_the_zero_byte_or_with_the_array() {
        assert_eq!(text(b"H200\0junk"), "H200");
        assert_eq!(text(b"full"), "full");
        assert_eq!(text(&[]), "");
        assert_eq!(array::<4>("H200"), *b"H20\0");
        assert_eq!(array::<6>("H200"), *b"H200\0\0");
    }
}
