//! `gym-startup ps`: the stamped servers of this machine.

use std::process::ExitCode;

use crate::args;
use crate::say::say;

pub fn ps(_args: &args::Ps) -> ExitCode {
    say("ps is not there yet");
    ExitCode::FAILURE
}
