//! Reading and writing a caller's memory the way DCGM does: null pointers are BADPARAM, a struct whose version word is
//! not the one this version speaks is VER_MISMATCH and stays untouched.

use std::ffi::{CStr, c_char};

use dcgm_sys::DcgmError;
use dcgm_sys::version::Versioned;

use crate::gate::Answer;

/// Writes a value.
pub(crate) fn put<T>(out: *mut T, value: T) -> Answer {
    if out.is_null() {
        return Err(DcgmError::BAD_PARAMETER);
    }
    // SAFETY: DCGM's contract: an output pointer that is not null is valid for writing one value of its type.
    unsafe { out.write(value) };
    Ok(())
}

/// Writes values to an array that has room for them.
pub(crate) fn put_all<T>(out: *mut T, values: Vec<T>) -> Answer {
    if out.is_null() {
        return Err(DcgmError::BAD_PARAMETER);
    }
    for (place, value) in values.into_iter().enumerate() {
        // SAFETY: DCGM's contract: the array has as many places as the call says, and callers check that it is enough.
        unsafe { out.add(place).write(value) };
    }
    Ok(())
}

/// Reads what the caller wrote to an input or in-out pointer.
pub(crate) fn get<T: Copy>(pointer: *const T) -> Answer<T> {
    if pointer.is_null() {
        return Err(DcgmError::BAD_PARAMETER);
    }
    // SAFETY: DCGM's contract: an input pointer that is not null points to one initialised value of its type.
    Ok(unsafe { pointer.read() })
}

/// Reads an array.
pub(crate) fn get_all<T: Copy>(pointer: *const T, count: usize) -> Answer<Vec<T>> {
    if pointer.is_null() {
        return Err(DcgmError::BAD_PARAMETER);
    }
    // SAFETY: DCGM's contract: the array has as many values as the call says.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) }.to_vec())
}

/// Reads a text argument.
pub(crate) fn get_text(pointer: *const c_char) -> Answer<String> {
    if pointer.is_null() {
        return Err(DcgmError::BAD_PARAMETER);
    }
    // SAFETY: DCGM's contract: a text argument that is not null ends with a zero byte and lives as long as the call.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map(str::to_owned).map_err(|_| DcgmError::BAD_PARAMETER)
}

/// A caller's struct, after a look at its version word.
pub(crate) fn versioned<'a, T: Versioned>(pointer: *mut T) -> Answer<&'a mut T> {
    if word(pointer)? != T::VERSION {
        return Err(DcgmError::VERSION_MISMATCH);
    }
    // SAFETY: DCGM's contract: the word tells which struct it is, and the caller lets the call write to it.
    Ok(unsafe { &mut *pointer })
}

/// The version word of a struct.
pub(crate) fn word<T>(pointer: *const T) -> Answer<u32> {
    if pointer.is_null() || !pointer.cast::<u32>().is_aligned() {
        return Err(DcgmError::BAD_PARAMETER);
    }
    // SAFETY: DCGM's contract: a versioned struct starts with its word.
    Ok(unsafe { pointer.cast::<u32>().read() })
}
