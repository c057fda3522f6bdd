//! The exported functions, by topic. Each is checked at compile time to have the signature of the binding.

mod events;
mod memory;
mod mig;
mod processes;
mod readings;
mod reliability;
mod statics;
mod system;

/// Exports functions about no device: `fn NAME(call, args…) { answer }`.
macro_rules! system_calls {
    ($(fn $name:ident($call:ident $(, $arg:ident: $ty:ty)* $(,)?) $body:block)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $ty),*) -> nvml_wrapper_sys::bindings::nvmlReturn_t {
            $crate::gate::on_system(stringify!($name), |$call| $body)
        }
        $crate::calls::same_signature!($name);
    )*};
}

/// Exports functions through `$gate`, which has a device handle first: `fn NAME(call, args…) { answer }`.
macro_rules! device_calls {
    ($gate:ident: $(fn $name:ident($call:ident $(, $arg:ident: $ty:ty)* $(,)?) $body:block)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(
            device: nvml_wrapper_sys::bindings::nvmlDevice_t
            $(, $arg: $ty)*
        ) -> nvml_wrapper_sys::bindings::nvmlReturn_t {
            $crate::gate::$gate(stringify!($name), device, |$call| $body)
        }
        $crate::calls::same_signature!($name);
    )*};
}

/// Does not compile unless the function has the type the binding gives it.
macro_rules! same_signature {
    ($name:ident) => {
        const _: fn(&mut nvml_wrapper_sys::bindings::NvmlLib) = |library| library.$name = Ok($name);
    };
}

use {device_calls, same_signature, system_calls};
