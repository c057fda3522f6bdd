//! The library, loaded at run time and kept for the process's life, and its functions as safe calls by topic.
//!
//! Nothing is decided here: which fields are watched, how often, and what an answer means for a device is for the
//! caller. Every call may block for as long as the engine likes, so it belongs on a thread of its own. DCGM takes calls
//! from several threads.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libloading::os::unix::{Library as Loaded, RTLD_LOCAL, RTLD_NOW};

use crate::engine::VersionInfoV2;
use crate::error::{DcgmError, LoadError};
use crate::symbols::Symbols;
use crate::text::text;
use crate::version::{Major, Version, Versioned as _, Zeroable as _};

mod devices;
mod engines;
mod groups;
mod health;
mod policy;
mod values;

pub use devices::Links;
pub use engines::{Address, Build, ConnectOptions, EmbeddedOptions};
pub use groups::{GroupInfo, WatchOptions};
pub use health::{HealthReport, Incident};
pub use policy::{PolicySubscription, Violation, ViolationKind};
pub use values::{Source, ValueBuffer};

/// The answer of a call.
pub type Answer<T> = Result<T, DcgmError>;

/// A loaded `libdcgm`.
#[derive(Debug)]
pub struct Library {
    symbols: Symbols,
    major: Major,
    version: Option<Version>,
    path: PathBuf,
}

/// Held while the library's table of fields is read or thrown away.
static FIELD_TABLE: Mutex<()> = Mutex::new(());

fn field_table() -> MutexGuard<'static, ()> {
    FIELD_TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Library {
    /// Loads the library at a path, or, without one, `libdcgm.so.4` or else `libdcgm.so.3` from where the dynamic
    /// loader looks.
    pub fn open(path: Option<&Path>) -> Result<Self, LoadError> {
        match path {
            Some(path) => match load(path) {
                Ok(library) => Self::with(&library, path.to_owned(), major_in_name(path)),
                Err(reason) => Err(LoadError::Unusable { path: path.to_owned(), reason }),
            },
            None => Self::open_by_name(),
        }
    }

    fn open_by_name() -> Result<Self, LoadError> {
        let mut tried = Vec::new();
        for major in Major::ALL {
            match load(Path::new(major.soname())) {
                Ok(library) => return Self::with(&library, PathBuf::from(major.soname()), Some(major)),
                Err(reason) => tried.push((major.soname(), reason)),
            }
        }
        Err(LoadError::NotFound { tried })
    }

    fn with(library: &Loaded, path: PathBuf, named: Option<Major>) -> Result<Self, LoadError> {
        let symbols = match Symbols::resolve(library) {
            Ok(symbols) => symbols,
            Err(missing) => return Err(LoadError::MissingFunctions { path, names: missing }),
        };
        let version = build_text(&symbols).as_deref().and_then(Version::parse_build_text);
        let told = version.map(|version| (version, Major::from_number(version.major)));
        let major = match (named, told) {
            (_, Some((version, None))) => return Err(LoadError::UnsupportedVersion { path, version }),
            (Some(named), Some((version, Some(told)))) if named != told => {
                return Err(LoadError::Contradiction { path, named: named.number(), version });
            }
            (_, Some((_, Some(major)))) | (Some(major), None) => major,
            (None, None) => return Err(LoadError::UnknownVersion { path }),
        };
        Ok(Self { symbols, major, version, path })
    }

    /// The major version, which decides the versions of structs.
    pub fn major(&self) -> Major {
        self.major
    }

    /// The whole version, when the library tells it.
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// The path or name it was loaded by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The C functions themselves.
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// Starts the library. Once per process is enough.
    #[doc(alias = "dcgmInit")]
    pub fn init(&self) -> Answer<()> {
        // SAFETY: no arguments.
        DcgmError::check(unsafe { (self.symbols.dcgmInit)() })
    }

    /// Ends the library, with its embedded engine and connections.
    #[doc(alias = "dcgmShutdown")]
    pub fn shutdown(&self) -> Answer<()> {
        let _fields = field_table();
        // SAFETY: no arguments; nobody reads the table of fields meanwhile.
        DcgmError::check(unsafe { (self.symbols.dcgmShutdown)() })
    }

    /// DCGM's own text for a code.
    #[doc(alias = "errorString")]
    pub fn error_text(&self, error: DcgmError) -> Option<String> {
        // SAFETY: the answer is null or a static text.
        let text = unsafe { (self.symbols.errorString)(error.code).as_ref().map(|text| CStr::from_ptr(text)) };
        text.map(|text| text.to_string_lossy().into_owned())
    }
}

/// Loads a library for the life of the process: DCGM has threads of its own that nobody can wait for.
fn load(path: &Path) -> Result<std::mem::ManuallyDrop<Loaded>, String> {
    // SAFETY: the initialisers of libdcgm, and of what it needs, are sound to run on any thread.
    let library = unsafe { Loaded::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
    library.map(std::mem::ManuallyDrop::new).map_err(|error| error.to_string())
}

/// The major version told by a file's name, or by the name of what it links to.
fn major_in_name(path: &Path) -> Option<Major> {
    let named = |path: &Path| Major::from_file_name(path.file_name()?.to_str()?);
    named(path).or_else(|| named(&path.canonicalize().ok()?))
}

fn build_text(symbols: &Symbols) -> Option<String> {
    let mut info = VersionInfoV2::zeroed();
    info.set_version();
    // SAFETY: a struct of the version its word tells.
    DcgmError::check(unsafe { (symbols.dcgmVersionInfo)(&raw mut info) }).ok()?;
    Some(text(&info.build).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_with_the_reason() {
        let error = Library::open(Some(Path::new("/nonexistent/libdcgm.so.4"))).unwrap_err();
        assert!(matches!(error, LoadError::Unusable { .. }));
        let message = error.to_string();
        assert!(message.starts_with("cannot load `/nonexistent/libdcgm.so.4` as the DCGM library: "), "{message}");
    }

    #[test]
    fn a_file_that_is_no_library_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libdcgm.so.4");
        std::fs::write(&path, "not a library").unwrap();
        assert!(matches!(Library::open(Some(&path)), Err(LoadError::Unusable { .. })));
    }

    #[test]
    fn another_library_lacks_the_functions() {
        let error = Library::open(Some(Path::new("libc.so.6"))).unwrap_err();
        assert!(matches!(&error, LoadError::MissingFunctions { names, .. } if names.len() > 40), "{error}");
        assert!(error.to_string().starts_with("`libc.so.6` is not a usable DCGM library: it lacks `dcgmInit`, "));
    }

    #[test]
    fn a_link_tells_the_major_version_by_its_target() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("libdcgm.so.3.3.9");
        std::fs::write(&real, "").unwrap();
        let link = folder.path().join("libdcgm.so");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert_eq!(major_in_name(&link), Some(Major::V3));
        assert_eq!(major_in_name(Path::new("libother.so")), None);
    }
}
