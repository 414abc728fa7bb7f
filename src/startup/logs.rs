//! The files of `--log-dir`, which servers write to themselves.

use std::fs::{self, File, FileType};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;

use crate::fleet::Server;

/// Where the output of `server` goes.
pub fn path(folder: &Path, server: &Server) -> PathBuf {
    folder.join(format!("{}.log", server.name))
}

/// Makes `folder`, and in it the logs of `servers`, or says why not.
pub fn prepare(folder: &Path, servers: &[Server]) -> Result<(), String> {
    let named = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(folder).map_err(|error| named(folder, error))?;
    for server in servers {
        let path = path(folder, server);
        open(&path).map_err(|error| named(&path, error))?;
    }
    Ok(())
}

/// Opens the log at `path`, to be added to.
///
/// # Errors
///
/// The system's; and that it would be no log, as a server that writes to a pipe waits for a reader.
pub fn open(path: &Path) -> io::Result<File> {
    if let Some(other) = fs::metadata(path).ok().and_then(|there| no_log(there.file_type())) {
        let what = "and a log is a regular file, or a device such as /dev/null";
        return Err(io::Error::other(format!("it is {other}, {what}")));
    }
    // What came there meanwhile is not waited for, and a terminal does not become the keeper's.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let log = File::options().create(true).append(true).custom_flags(flags).open(path)?;
    // A server waits for a slow terminal, as for any other.
    fcntl(&log, FcntlArg::F_SETFL(OFlag::O_APPEND))?;
    Ok(log)
}

/// Opens the log at `path`, to be read, if it is still one that can be: servers may do with it
/// what they like.
///
/// # Errors
///
/// The system's; and that it is no regular file.
pub fn read(path: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let log = File::options().read(true).custom_flags(flags).open(path)?;
    if log.metadata()?.is_file() { Ok(log) } else { Err(io::ErrorKind::Unsupported.into()) }
}

fn no_log(kind: FileType) -> Option<&'static str> {
    if kind.is_file() || kind.is_char_device() {
        return None;
    }
    Some(match kind {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_socket() => "a socket",
        _ => "a block device",
    })
}
