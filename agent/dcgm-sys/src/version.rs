//! Versions: of structs, as the word that stands first in each, and of the library, as its build text tells it.

use std::fmt;

/// A major version of DCGM, which decides the versions of structs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Major {
    /// 3.x, `libdcgm.so.3`.
    V3,
    /// 4.x, `libdcgm.so.4`.
    V4,
}

impl Major {
    /// All that this crate knows, the newest first.
    pub const ALL: [Self; 2] = [Self::V4, Self::V3];

    /// The number.
    pub const fn number(self) -> u32 {
        match self {
            Self::V3 => 3,
            Self::V4 => 4,
        }
    }

    /// The name under which the dynamic loader finds the library of this major version.
    pub const fn soname(self) -> &'static str {
        match self {
            Self::V3 => "libdcgm.so.3",
            Self::V4 => "libdcgm.so.4",
        }
    }

    /// The major version of this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|major| major.number() == number)
    }

    /// The major version told by a file name such as `libdcgm.so.4.6.0`.
    pub fn from_file_name(name: &str) -> Option<Self> {
        let number = name.strip_prefix("libdcgm.so.")?.split('.').next()?;
        Self::from_number(number.parse().ok()?)
    }
}

/// The version of a library or engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second.
    pub minor: u32,
    /// The third.
    pub patch: u32,
}

impl Version {
    /// Finds the version in the build text, which reads like `version:4.6.0;arch:x86_64;…`.
    pub fn parse_build_text(text: &str) -> Option<Self> {
        let version = text.split(';').find_map(|part| part.trim().strip_prefix("version:"))?;
        let mut numbers = version.trim().split('.').map(|number| number.parse().ok());
        let mut next = || numbers.next().flatten();
        let version = Self { major: next()?, minor: next()?, patch: next()? };
        numbers.next().is_none().then_some(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The word of a struct: its size, with the version in the top byte.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the largest struct has 21 bits of size; `versioned!` asserts the word"
)]
pub(crate) const fn version_word<T>(version: u32) -> u32 {
    size_of::<T>() as u32 | (version << 24)
}

/// A struct whose first member is its version word.
pub trait Versioned: Zeroable {
    /// The word.
    const VERSION: u32;

    /// Sets the word, which the library looks at before it fills the struct.
    fn set_version(&mut self);

    /// A zeroed struct with its word set, allocated without passing through the stack: some have a megabyte.
    fn boxed() -> Box<Self> {
        let mut value = Self::boxed_zeroed();
        value.set_version();
        value
    }
}

/// A plain C struct to which all-zero bytes are a value.
///
/// # Safety
///
/// The implementor may hold only numbers, arrays of them, unions of them, and nullable pointers.
pub unsafe trait Zeroable: Sized {
    /// Allocates one, zeroed, without passing through the stack.
    fn boxed_zeroed() -> Box<Self> {
        // SAFETY: by the contract of this trait, all-zero bytes are a value.
        unsafe { Box::<Self>::new_zeroed().assume_init() }
    }

    /// One, zeroed, on the stack.
    fn zeroed() -> Self {
        // SAFETY: by the contract of this trait, all-zero bytes are a value.
        unsafe { std::mem::zeroed() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_text_gives_the_version() {
        let version = Version::parse_build_text("version:4.6.0;arch:x86_64;buildtype:Release;").unwrap();
        assert_eq!(version, Version { major: 4, minor: 6, patch: 0 });
        assert_eq!(version.to_string(), "4.6.0");
        for text in ["", "arch:x86_64", "version:4.6", "version:four.six.zero", "version:4.6.0.1", "version:"] {
            assert_eq!(Version::parse_build_text(text), None, "{text}");
        }
    }

    #[test]
    fn the_file_name_gives_the_major_version() {
        assert_eq!(Major::from_file_name("libdcgm.so.4"), Some(Major::V4));
        assert_eq!(Major::from_file_name("libdcgm.so.3.3.9"), Some(Major::V3));
        for name in ["libdcgm.so", "libdcgm.so.5", "libdcgm.so.", "libnvidia-ml.so.1"] {
            assert_eq!(Major::from_file_name(name), None, "{name}");
        }
    }
}
