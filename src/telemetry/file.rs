//! A file of OTLP JSON lines, as a collector's file exporter writes it.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::unistd::{AccessFlags, access};

use super::json;
use super::patient::write_by;
use super::request::Request;
use super::way_out::{Accepted, ExportError, WayOut};

/// Into a file of OTLP JSON lines, one request a line.
///
/// The lines gather in memory, and are appended to the file all at once when finished. What was there
/// stays: a file may hold many startups. Those that append at the same time wait for each other. If
/// not all of it can be written, nothing of it is. A file that is no regular one, such as a pipe or
/// `/dev/stdout`, is written to as it is, whole lines at a time.
///
/// Disks have no deadline: writing takes what it takes. A pipe's reader has to be there from the
/// beginning, and to take what is sent by the deadline.
///
/// ```
/// use std::time::Instant;
/// use gym_stamp::telemetry::{JsonLines, Request, Resource, WayOut, json};
///
/// # let path = std::env::temp_dir().join(format!("startup-{}.jsonl", std::process::id()));
/// let file = JsonLines::append_to(&path)?;
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
    /// Lines gather until they are appended to a regular file.
    Gathering(Vec<u8>),
    /// Lines go straight into what is no regular file.
    Straight(File),
    Finished,
}

impl JsonLines {
    /// Begins what is to be appended to the file at `path`.
    ///
    /// # Errors
    ///
    /// The folder or file that cannot be written to; a pipe that nobody reads.
    pub fn append_to(path: impl Into<PathBuf>) -> Result<Self, ExportError> {
        let path = path.into();
        let state = open(&path).map_err(|error| fault(&path, &error))?;
        Ok(Self { path, state: Mutex::new(state) })
    }

    /// Whether something could be appended at `path`, for whoever does it much later. Nothing
    /// changes there.
    ///
    /// # Errors
    ///
    /// As for [`append_to`](Self::append_to), but a pipe's reader may come later; a file that holds
    /// something else than records.
    pub fn check(path: &Path) -> Result<(), ExportError> {
        let result = match fs::metadata(path).map(|there| there.file_type()) {
            Ok(kind) if kind.is_dir() => Err(Errno::EISDIR.into()),
            Ok(kind) if kind.is_socket() => Err(Errno::ENXIO.into()),
            // To open a pipe is to wait for its reader, and to close it ends what is read.
            Ok(kind) if !kind.is_file() => access(path, AccessFlags::W_OK).map_err(Into::into),
            Ok(_) => holds_records(path),
            Err(_) => open(path).map(drop),
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
            State::Gathering(lines) => {
                lines.extend(line);
                Ok(())
            }
            State::Straight(file) => write_by(deadline, file, &line),
            State::Finished => Err(io::Error::other("finished already")),
        }
        .map(|()| Accepted::default())
        .map_err(|error| fault(&self.path, &error))
    }

    fn finish(&self) -> Result<(), ExportError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::Finished) {
            State::Gathering(lines) => {
                append(&self.path, lines).map_err(|error| fault(&self.path, &error))
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
    match fs::metadata(path) {
        Ok(there) if !there.is_file() => return open_straight(path).map(State::Straight),
        Ok(_) => File::options().append(true).open(path).map(drop)?,
        // Whether there can be one: it is made when there is something to write.
        Err(_) => {
            let target = end_of_links(path)?;
            target.file_name().ok_or(io::ErrorKind::IsADirectory)?;
            let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            if !fs::metadata(folder)?.is_dir() {
                return Err(Errno::ENOTDIR.into());
            }
            access(folder, AccessFlags::W_OK | AccessFlags::X_OK)?;
        }
    }
    Ok(State::Gathering(Vec::new()))
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

/// The longest line that is looked at to see whether a file holds records.
const LONGEST_LINE: u64 = 16 * 1024 * 1024;

fn holds_records(path: &Path) -> io::Result<()> {
    File::options().append(true).open(path)?;
    let mut lines = BufReader::new(File::open(path)?.take(LONGEST_LINE));
    let mut line = Vec::new();
    while line.trim_ascii().is_empty() {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        // What a log rotation that copies and truncates leaves where somebody went on writing.
        line.retain(|&byte| byte != 0);
    }
    let why = "it holds something else than OTLP JSON lines, and nothing is appended to that";
    match json::read_parts(&line) {
        (requests, Some(_)) if requests.is_empty() => Err(io::Error::other(why)),
        _ => Ok(()),
    }
}

/// All of `lines`, or nothing of them.
fn append(path: &Path, mut lines: Vec<u8>) -> io::Result<()> {
    let (file, is_new) = open_locked(path)?;
    let length = file.metadata()?.len();
    if let Some(last) = length.checked_sub(1) {
        let mut byte = [0];
        file.read_exact_at(&mut byte, last)?;
        if byte != *b"\n" {
            // Somebody's torn line is not to be part of ours.
            lines.insert(0, b'\n');
        }
    }
    let written = (&file).write_all(&lines).and_then(|()| file.sync_all());
    if written.is_err() {
        // The error that counts is the first.
        let _ = file.set_len(length);
        if is_new {
            let _ = fs::remove_file(end_of_links(path)?);
        }
    }
    written
}

/// The file at `path`, which nobody else appends to as long as it is open, and whether it was made.
fn open_locked(path: &Path) -> io::Result<(File, bool)> {
    /// What somebody else who appends may take.
    const LIMIT: Duration = Duration::from_secs(10);
    const PAUSE: Duration = Duration::from_millis(10);
    let deadline = Instant::now() + LIMIT;
    let mut options = File::options();
    options.read(true).append(true);
    loop {
        let target = end_of_links(path)?;
        let (file, is_new) = match options.clone().create_new(true).open(&target) {
            Ok(file) => (file, true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                match options.open(path) {
                    Ok(file) => (file, false),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                }
            }
            Err(error) => return Err(error),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                thread::sleep(PAUSE);
                continue;
            }
            Err(TryLockError::WouldBlock) => {
                let why = "another process has held its lock for 10 s";
                return Err(io::Error::other(why));
            }
            // Some network file systems have no locks: what is appended at once mostly stays whole.
            Err(TryLockError::Error(_)) => return Ok((file, is_new)),
        }
        // Whoever held the lock may have removed it.
        let identity = |it: fs::Metadata| (it.dev(), it.ino());
        if fs::metadata(path).map(identity).ok() == file.metadata().map(identity).ok() {
            return Ok((file, is_new));
        }
    }
}

fn fault(path: &Path, error: &io::Error) -> ExportError {
    ExportError::File { path: path.to_owned(), cause: error.to_string() }
}
