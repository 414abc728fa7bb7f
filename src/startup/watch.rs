//! `gym-startup watch`: a server that something else launched, until it is ready.

use std::process::ExitCode;

use crate::args;
use crate::say::say;

pub fn watch(_args: &args::Watch) -> ExitCode {
    say("watch is not there yet");
    ExitCode::FAILURE
}
