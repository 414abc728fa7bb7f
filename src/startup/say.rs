//! Our own words, which go to standard error.

use std::fmt::Display;
use std::io::{self, StderrLock, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// How long a process waits, all in all, for a standard error that is full: a pipe that nobody
/// reads must not outlast a deadline.
static PATIENCE: Mutex<Duration> = Mutex::new(Duration::from_millis(500));

/// What a pipe takes without blocking when it is ready to be written to: PIPE_BUF.
const AT_ONCE: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };

/// Says `words` in a line of its own. A standard error that is closed or full loses them, no more.
pub fn say(words: impl Display) {
    write(&format!("gym-startup: {words}\n"));
}

/// Writes `text` as it is, with the same patience.
pub fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    for piece in text.as_bytes().chunks(AT_ONCE) {
        if !is_ready(&stderr) || stderr.write_all(piece).is_err() {
            return;
        }
    }
}

fn is_ready(stderr: &StderrLock<'_>) -> bool {
    let mut patience = PATIENCE.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let began = Instant::now();
        let mut waited_for = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
        let timeout = PollTimeout::try_from(*patience).unwrap_or(PollTimeout::ZERO);
        let ready = poll(&mut waited_for, timeout);
        *patience = patience.saturating_sub(began.elapsed());
        match ready {
            Err(Errno::EINTR) => {}
            Ok(0) => return false,
            // Whatever else is wrong with it, writing tells at once.
            _ => return true,
        }
    }
}
