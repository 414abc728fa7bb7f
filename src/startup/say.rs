//! Our own words, which go to standard error.

use std::fmt::Display;
use std::io::{self, Write};

/// Says `words` in a line of its own. A standard error that is closed or full loses them, no more.
pub fn say(words: impl Display) {
    writeln!(io::stderr().lock(), "gym-startup: {words}").unwrap_or_default();
}
