//! Our own words, which go to standard error.

use std::fmt::Display;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gym_stamp::telemetry::write_by;

/// How long a process waits, all in all, for a standard error that is full: a pipe that nobody
/// reads must not outlast a deadline.
static PATIENCE: Mutex<Duration> = Mutex::new(Duration::from_millis(500));

/// Says `words` in a line of its own. A standard error that is closed or full loses them, no more.
pub fn say(words: impl Display) {
    write(&format!("gym-startup: {words}\n"));
}

/// Writes `text` as it is, with the same patience.
pub fn write(text: &str) {
    let stderr = io::stderr().lock();
    let mut patience = PATIENCE.lock().unwrap_or_else(PoisonError::into_inner);
    let began = Instant::now();
    write_by(began + *patience, &stderr, text.as_bytes()).unwrap_or_default();
    // What takes less has not waited.
    let waited_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    *patience = patience.saturating_sub(Duration::from_millis(waited_ms));
}
