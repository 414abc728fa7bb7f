//! What is asked for, which goes to standard output.

use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};
use std::process::ExitCode;

use crate::say::say;

/// Has `write` write all of it. Whoever reads no further has seen enough.
///
/// # Errors
///
/// Why it is not all there.
pub fn print(
    write: impl FnOnce(&mut BufWriter<StdoutLock<'_>>) -> io::Result<()>,
) -> Result<(), String> {
    let mut out = BufWriter::new(io::stdout().lock());
    whole(write(&mut out).and_then(|()| out.flush()))
}

/// What writing to standard output came to, and that of what is still in its buffer.
///
/// # Errors
///
/// Why it is not all there.
pub fn whole(written: io::Result<()>) -> Result<(), String> {
    match written.and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("standard output: {error}"))
        }
        _ => Ok(()),
    }
}

/// Prints `text`; returns the status to exit with.
pub fn print_text(text: &str) -> ExitCode {
    match print(|out| out.write_all(text.as_bytes())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say(why);
            ExitCode::FAILURE
        }
    }
}
