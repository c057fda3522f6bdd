//! Files of the authority: private, never half written, never overwritten unasked.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::PkiError;

fn failed(path: &Path) -> impl FnOnce(io::Error) -> PkiError + use<> {
    let path = path.to_owned();
    move |cause| PkiError::Io { path, cause }
}

pub(super) fn read(path: &Path) -> Result<String, PkiError> {
    fs::read_to_string(path).map_err(failed(path))
}

pub(super) fn make_private_directory(path: &Path) -> Result<(), PkiError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed(path))
}

pub(super) fn refuse_existing(paths: impl IntoIterator<Item = PathBuf>) -> Result<(), PkiError> {
    match paths.into_iter().find(|path| path.symlink_metadata().is_ok()) {
        Some(path) => Err(PkiError::Exists(path)),
        None => Ok(()),
    }
}

/// Writes beside the target and moves into place; without `replace`, whoever came first stays.
pub(super) fn write(path: &Path, text: &str, mode: u32, replace: bool) -> Result<(), PkiError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}.new", std::process::id()));
    let written = write_new(&temporary, text, mode).and_then(|()| {
        if replace {
            return fs::rename(&temporary, path);
        }
        fs::hard_link(&temporary, path)?;
        fs::remove_file(&temporary)
    });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => PkiError::Exists(path.to_owned()),
        _ => failed(path)(source),
    })
}

fn write_new(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let _ = fs::remove_file(path);
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
