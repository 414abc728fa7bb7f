//! A file of OTLP JSON lines, as a collector's file exporter writes it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::json;
use super::request::Request;
use super::way_out::{Accepted, ExportError, WayOut};

/// Into a file of OTLP JSON lines, one request a line.
///
/// The lines gather in a file beside it, which takes its place when finished: whoever reads the
/// file finds what was there before, or all of it, never a part. A file that is no regular one, such
/// as a pipe or `/dev/stdout`, is written to as it is, whole lines at a time. A symbolic link stays
/// one, and what it points to is replaced.
///
/// Disks have no deadline: writing takes what it takes.
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
        beside: PathBuf,
        lines: BufWriter<File>,
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
    /// The folder that cannot be written to.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, ExportError> {
        let path = path.into();
        let state = open(&path).map_err(|error| fault(&path, &error))?;
        Ok(Self { path, state: Mutex::new(state) })
    }
}

impl WayOut for JsonLines {
    fn send(&self, request: Request, _deadline: Instant) -> Result<Accepted, ExportError> {
        let mut line = json::write_line(&request)
            .map_err(|error| ExportError::System { cause: error.to_string() })?;
        line.push(b'\n');
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *state {
            State::Beside { lines, .. } => lines.write_all(&line),
            State::Straight(file) => file.write_all(&line),
            State::Finished => Err(io::Error::other("finished already")),
        }
        .map(|()| Accepted::default())
        .map_err(|error| fault(&self.path, &error))
    }

    fn finish(&self) -> Result<(), ExportError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State::Beside { target, beside, lines } =
            std::mem::replace(&mut *state, State::Finished)
        else {
            return Ok(());
        };
        let result = put_in_place(lines, &beside, &target);
        if result.is_err() {
            // What is left of it helps nobody; the first error is the one to tell.
            fs::remove_file(&beside).unwrap_or_default();
        }
        result.map_err(|error| fault(&self.path, &error))
    }
}

impl Drop for JsonLines {
    /// Finishes what was not: a startup that was recorded is kept, whatever its outcome.
    fn drop(&mut self) {
        self.finish().unwrap_or_default();
    }
}

fn open(path: &Path) -> io::Result<State> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let there = fs::metadata(&target).ok();
    if there.as_ref().is_some_and(|there| !there.is_file()) {
        return Ok(State::Straight(File::options().write(true).open(&target)?));
    }
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().ok_or(io::ErrorKind::IsADirectory)?);
    name.push(format!(".{}.tmp", std::process::id()));
    let beside = target.with_file_name(name);
    let file = File::create(&beside)?;
    if let Some(there) = there {
        // The file that takes another's place is as readable as that one was.
        file.set_permissions(there.permissions())?;
    }
    Ok(State::Beside { target, beside, lines: BufWriter::new(file) })
}

fn put_in_place(lines: BufWriter<File>, beside: &Path, target: &Path) -> io::Result<()> {
    let file = lines.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    fs::rename(beside, target)
}

fn fault(path: &Path, error: &io::Error) -> ExportError {
    ExportError::File { path: path.to_owned(), cause: error.to_string() }
}
