//! The commands.

pub(crate) mod context;
pub(crate) mod kill;
pub(crate) mod list;
pub(crate) mod pki;
pub(crate) mod summary;
pub(crate) mod top;
pub(crate) mod up;
