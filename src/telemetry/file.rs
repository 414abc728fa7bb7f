//! A file of OTLP JSON lines, as a collector's file exporter writes it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use nix::errno::Errno;
use nix::libc;
use nix::unistd::{AccessFlags, access};
use tempfile::TempPath;

use super::json;
use super::patient::write_by;
use super::request::Request;
use super::way_out::{Accepted, ExportError, WayOut};

/// Into a file of OTLP JSON lines, one request a line.
///
/// The lines gather in a file beside it, which takes its place when finished: whoever reads the
/// file finds what was there before, or all of it, never a part. A file that is no regular one, such
/// as a pipe or `/dev/stdout`, is written to as it is, whole lines at a time. A symbolic link stays
/// one, and what it points to is replaced.
///
/// Disks have no deadline: writing takes what it takes. A pipe's reader has to be there from the
/// beginning, and to take what is sent by the deadline.
///
/// ```
/// use std::time::Instant;
/// use gym_stamp::telemetry::{JsonLines, Request, Resource, WayOut, json};
///
/// # let path = std::env::temp_dir().join(format!("startup-{}.jsonl", std::process::id()));
/// let file = JsonLines::create(&path)?;
/// let request = Request::of_spans(&Resource::default(), &[]);
/// file.send(request.clone(), Instant::now())?;
/// file.finish()?;
///
/// let line = std::fs::read(&path)?;
/// assert_eq!(json::read_line(&line), Ok(vec![request]));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct JsonLines {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// Lines gather beside the target.
    Beside {
        target: PathBuf,
        lines: BufWriter<File>,
        path: TempPath,
    },
    /// Lines go straight into what is no regular file.
    Straight(File),
    Finished,
}

impl JsonLines {
    /// Starts the file that is to be at `path`.
    ///
    /// # Errors
    ///
    /// The folder that cannot be written to; a pipe that nobody reads.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, ExportError> {
        let path = path.into();
        let state = open(&path).map_err(|error| fault(&path, &error))?;
        Ok(Self { path, state: Mutex::new(state) })
    }

    /// Whether a file could be started at `path`, for whoever starts it much later. Nothing of it
    /// is there after that.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create), but a pipe's reader may come later.
    pub fn check(path: &Path) -> Result<(), ExportError> {
        let result = match fs::metadata(path).map(|there| there.file_type()) {
            Ok(kind) if kind.is_dir() => Err(Errno::EISDIR.into()),
            Ok(kind) if kind.is_socket() => Err(Errno::ENXIO.into()),
            // To open a pipe is to wait for its reader, and to close it ends what is read.
            Ok(kind) if !kind.is_file() => access(path, AccessFlags::W_OK).map_err(Into::into),
            _ => open(path).map(drop),
        };
        result.map_err(|error| fault(path, &error))
    }
}

impl WayOut for JsonLines {
    fn send(&self, request: Request, deadline: Instant) -> Result<Accepted, ExportError> {
        let mut line = json::write_line(&request)
            .map_err(|error| ExportError::System { cause: error.to_string() })?;
        line.push(b'\n');
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *state {
            State::Beside { lines, .. } => lines.write_all(&line),
            State::Straight(file) => write_by(deadline, file, &line),
            State::Finished => Err(io::Error::other("finished already")),
        }
        .map(|()| Accepted::default())
        .map_err(|error| fault(&self.path, &error))
    }

    fn finish(&self) -> Result<(), ExportError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::Finished) {
            State::Beside { target, lines, path } => {
                put_in_place(lines, path, &target).map_err(|error| fault(&self.path, &error))
            }
            State::Straight(_) | State::Finished => Ok(()),
        }
    }
}

impl Drop for JsonLines {
    /// Finishes what was not: a startup that was recorded is kept, whatever its outcome.
    fn drop(&mut self) {
        self.finish().unwrap_or_default();
    }
}

fn open(path: &Path) -> io::Result<State> {
    let there = fs::metadata(path).ok();
    if there.as_ref().is_some_and(|there| !there.is_file()) {
        return open_straight(path).map(State::Straight);
    }
    let target = fs::canonicalize(path).or_else(|_| end_of_links(path))?;
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().ok_or(io::ErrorKind::IsADirectory)?);
    name.push(".");
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    // tempfile adds the name that it chose to all of its errors, which tells nobody anything: it
    // chooses the name, and what it says is not passed on.
    let mut why = None;
    let file = tempfile::Builder::new()
        .prefix(&name)
        .suffix(".tmp")
        .make_in(folder.unwrap_or(Path::new(".")), |path| {
            // Never what is there already, be it a link; readable as the umask has it.
            let file = File::options().write(true).create_new(true).open(path);
            file.inspect_err(|error| why = error.raw_os_error())
        })
        .map_err(|error| why.map_or(error, io::Error::from_raw_os_error))?;
    let (file, path) = file.into_parts();
    if let Some(there) = there {
        // The file that takes another's place is as readable as that one was.
        file.set_permissions(there.permissions())?;
    }
    Ok(State::Beside { target, lines: BufWriter::new(file), path })
}

/// Neither waits for a pipe's reader, nor has a terminal become ours.
fn open_straight(path: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = File::options().write(true).custom_flags(flags).open(path);
    file.map_err(|error| match fs::metadata(path).map(|there| there.file_type()) {
        Ok(kind) if kind.is_fifo() && error.raw_os_error() == Some(libc::ENXIO) => {
            io::Error::other("nobody reads it")
        }
        _ => error,
    })
}

/// What `path` leads to, which need not be there yet.
fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    const MOST_LINKS: usize = 40;
    let mut end = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&end) {
            Ok(next) => end = end.with_file_name("").join(next),
            Err(_) => return Ok(end),
        }
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

fn put_in_place(lines: BufWriter<File>, path: TempPath, target: &Path) -> io::Result<()> {
    let file = lines.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    path.persist(target).map_err(|error| error.error)
}

fn fault(path: &Path, error: &io::Error) -> ExportError {
    ExportError::File { path: path.to_owned(), cause: error.to_string() }
}
