//! `gym-startup show`: recorded startups, or a running server's.

mod live;
mod page;
mod startup;

use std::process::ExitCode;

use crate::args;
use crate::say::say;

pub fn show(_args: &args::Show) -> ExitCode {
    say("show is not there yet");
    ExitCode::FAILURE
}
