//! How C enumerations are carried: as their number, so that one a newer library invents is not undefined behaviour,
//! with names for those that are known. Also how a struct's layout is held against the documented one.

/// Defines a C enumeration as a transparent number with named constants.
macro_rules! c_enum {
    (
        $(#[$outer:meta])*
        pub struct $type:ident($raw:ty) {
            $($(#[$inner:meta])* $name:ident = $value:expr;)*
        }
    ) => {
        $(#[$outer])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $type(pub $raw);

        impl $type {
            $($(#[$inner])* pub const $name: Self = Self($value);)*

            /// The constant's name, or `None` for a number this crate does not know.
            pub fn name(self) -> Option<&'static str> {
                $(if self.0 == $value { return Some(stringify!($name)); })*
                None
            }

            /// The number of a constant's name.
            pub fn from_name(name: &str) -> Option<Self> {
                $(if name == stringify!($name) { return Some(Self($value)); })*
                None
            }
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => write!(f, "{name}"),
                    None => write!(f, "{}({})", stringify!($type), self.0),
                }
            }
        }
    };
}

/// Defines a C bit mask as a transparent number with named bits.
macro_rules! c_mask {
    (
        $(#[$outer:meta])*
        pub struct $type:ident($raw:ty) {
            $($(#[$inner:meta])* $name:ident = $value:expr;)*
        }
    ) => {
        $crate::code::c_enum! {
            $(#[$outer])*
            pub struct $type($raw) {
                $($(#[$inner])* $name = $value;)*
            }
        }

        impl $type {
            /// No bit.
            pub const EMPTY: Self = Self(0);

            /// Whether every bit of `other` is set.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether any bit of `other` is set.
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }
        }

        impl std::ops::BitOr for $type {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }
    };
}

/// Does not compile unless the type has this size and alignment and its members lie where the ABI has them.
macro_rules! layout {
    ($type:ty: size $size:literal, align $align:literal; $($($member:ident).+ @ $offset:literal, $bytes:literal;)*) => {
        const _: () = {
            assert!(size_of::<$type>() == $size && align_of::<$type>() == $align);
            $(
                assert!(std::mem::offset_of!($type, $($member).+) == $offset);
                // SAFETY: only the type of the pointer is looked at; this is never called.
                let member = |value: *const $type| unsafe { &raw const (*value).$($member).+ };
                assert!($crate::code::pointee_size(member) == $bytes);
            )*
        };
    };
}

/// The size of a member, told by the type of the pointer to it.
pub(crate) const fn pointee_size<S, M>(_member: fn(*const S) -> *const M) -> usize {
    size_of::<M>()
}

/// Gives a struct its version word and a way to allocate it with that word set.
macro_rules! versioned {
    ($($type:ty = $version:literal => $word:literal;)*) => {$(
        const _: () = assert!($crate::version::version_word::<$type>($version) == $word);

        impl $crate::version::Versioned for $type {
            const VERSION: u32 = $word;

            fn set_version(&mut self) {
                self.version = $word;
            }
        }
    )*};
}

pub(crate) use {c_enum, c_mask, layout, versioned};
