//! Writing to a caller's memory the way NVML does: null pointers are INVALID_ARGUMENT, a reading that is missing is
//! NOT_SUPPORTED, a buffer that is too small is INSUFFICIENT_SIZE and says how much is needed.

use std::ffi::{CStr, c_char, c_uint};

use crate::Code;
use crate::gate::{Answer, Call};

/// Writes a value, or answers NOT_SUPPORTED when there is none.
pub(crate) fn put<T>(out: *mut T, value: Option<T>) -> Answer {
    if out.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    let value = value.ok_or(Code::NOT_SUPPORTED)?;
    // SAFETY: NVML's contract: an output pointer that is not null is valid for writing one value of its type.
    unsafe { out.write(value) };
    Ok(())
}

/// Writes a value if the caller wants it.
pub(crate) fn put_if_wanted<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: as for `put`.
        unsafe { out.write(value) };
    }
}

/// Reads what the caller wrote to an input or in-out pointer.
pub(crate) fn get<T: Copy>(pointer: *const T) -> Result<T, Code> {
    if pointer.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    // SAFETY: NVML's contract: an input pointer that is not null points to one initialised value of its type.
    Ok(unsafe { pointer.read() })
}

/// Reads a text argument. One that is not UTF-8 names nothing the scenario knows.
pub(crate) fn get_text<'a>(pointer: *const c_char) -> Result<&'a str, Code> {
    if pointer.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    // SAFETY: NVML's contract: a text argument that is not null ends with a zero byte and lives as long as the call.
    unsafe { CStr::from_ptr(pointer) }.to_str().map_err(|_| Code::INVALID_ARGUMENT)
}

/// Writes a text with its final zero byte into a buffer of `length` bytes.
pub(crate) fn put_text(out: *mut c_char, length: c_uint, text: Option<&str>) -> Answer {
    if out.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    let text = text.ok_or(Code::NOT_SUPPORTED)?;
    if text.len() >= length as usize {
        return Err(Code::INSUFFICIENT_SIZE);
    }
    // SAFETY: `out` is valid for `length` bytes by NVML's contract, and text and final zero are no more than that.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), out, text.len());
        out.add(text.len()).write(0);
    }
    Ok(())
}

/// Writes a text into a fixed array, cut to fit, with a final zero byte.
pub(crate) fn text_array<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    for (place, byte) in array.iter_mut().zip(text.bytes()).take(N.saturating_sub(1)) {
        *place = c_char::from_ne_bytes([byte]);
    }
    array
}

/// Writes a list to `items`, whose capacity stands in `count`, and the number of items to `count`.
pub(crate) fn put_list<T: Copy>(call: &Call, count: *mut c_uint, items: *mut T, values: &[T]) -> Answer {
    let capacity = get(count)?;
    let needed = u32::try_from(values.len()).map_err(|_| Code::UNKNOWN)?;
    if call.grow {
        put(count, Some(needed.max(capacity).saturating_add(1)))?;
        return Err(Code::INSUFFICIENT_SIZE);
    }
    put(count, Some(needed))?;
    if needed == 0 {
        return Ok(());
    }
    if capacity < needed || items.is_null() {
        return Err(if items.is_null() && capacity >= needed {
            Code::INVALID_ARGUMENT
        } else {
            Code::INSUFFICIENT_SIZE
        });
    }
    // SAFETY: `items` is valid for `capacity` items by NVML's contract, and there are no more than that.
    unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), items, values.len()) };
    Ok(())
}
