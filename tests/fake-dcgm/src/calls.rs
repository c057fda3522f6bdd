//! The exported functions, by topic. Each is checked at compile time to have the signature of the binding.

mod devices;
mod groups;
mod health;
mod introspection;
mod lifecycle;
mod policy;
mod values;

/// Exports functions: `fn NAME(args…) -> ANSWER { answer }`.
macro_rules! exports {
    ($($(#[$optional:ident])? fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $answer:ty $body:block)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $ty),*) -> $answer $body

        // Does not compile unless the function has the type the binding gives it.
        const _: fn(&mut dcgm_sys::Symbols) = |symbols| symbols.$name = $crate::calls::some!($name $($optional)?);
    )*};
}

/// Exports calls to an engine, whose handle comes first: `fn NAME(call, args…) { answer }`.
macro_rules! engine_calls {
    ($(fn $name:ident($call:ident $(, $arg:ident: $ty:ty)* $(,)?) $body:block)*) => {
        $crate::calls::exports! {$(
            fn $name(engine: dcgm_sys::Handle $(, $arg: $ty)*) -> i32 {
                $crate::gate::code($crate::gate::on_engine(stringify!($name), engine, |$call| $body))
            }
        )*}
    };
}

macro_rules! some {
    ($name:ident optional) => {
        Some($name)
    };
    ($name:ident) => {
        $name
    };
}

use {engine_calls, exports, some};
