//! Binds the socket so that it never exists with wider permissions than configured, and never takes a living one over.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tokio::net::UnixListener;

use super::SocketOptions;

/// Why the socket cannot be bound.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BindError {
    /// Another program answers there.
    #[error("health socket `{0}`: another program listens there; stop it or choose another path")]
    InUse(PathBuf),
    /// Something that is not a socket is there.
    #[error("health socket `{0}`: a file that is not a socket is there; remove it or choose another path")]
    NotASocket(PathBuf),
    /// The path has no directory part, or the directory cannot be used.
    #[error("health socket `{path}`: {cause}")]
    Io {
        /// The socket's path.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
}

/// Binds in a private directory beside the path, sets mode and owner, then moves the socket into place.
pub(super) fn bind(options: &SocketOptions) -> Result<UnixListener, BindError> {
    let path = &options.path;
    let failed = |source| BindError::Io { path: path.clone(), cause: source };
    let directory = path.parent().ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
    fs::DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(failed)?;
    clear(path)?;
    let private = directory.join(format!(".health-{}", std::process::id()));
    let _ = fs::remove_dir_all(&private);
    fs::DirBuilder::new().mode(0o700).create(&private).map_err(failed)?;
    let bound = bind_privately(&private.join("s"), options);
    let _ = fs::remove_dir_all(&private);
    bound.map_err(failed)
}

fn bind_privately(temporary: &Path, options: &SocketOptions) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(temporary)?;
    fs::set_permissions(temporary, fs::Permissions::from_mode(options.mode))?;
    if options.owner.is_some() || options.group.is_some() {
        chown(temporary, options.owner, options.group)?;
    }
    fs::rename(temporary, &options.path)?;
    Ok(listener)
}

/// Makes sure that nothing living is at the path. A socket that nobody answers is what a killed agent left.
fn clear(path: &Path) -> Result<(), BindError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(BindError::Io { path: path.to_owned(), cause: source }),
        Ok(found) if !found.file_type().is_socket() => Err(BindError::NotASocket(path.to_owned())),
        Ok(_) => match StdUnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            Ok(_) => Err(BindError::InUse(path.to_owned())),
            Err(source) => Err(BindError::Io { path: path.to_owned(), cause: source }),
        },
    }
}

/// Removes the socket at the end. A path that is gone already is fine.
pub(super) fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, path = %path.display(), "health socket: cannot be removed");
    }
}
