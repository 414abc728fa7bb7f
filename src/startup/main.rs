//! Launches servers, watches them from outside, shows where their startup time went, exports it.
#![forbid(unsafe_code)]

mod args;
mod export;
mod fleet;
mod say;
mod waterfall;
mod words;

use std::process::ExitCode;

use args::{Args, Command};
use clap::Parser;

fn main() -> ExitCode {
    let args = Args::parse();
    match args.command {
        Command::Run(_) => ExitCode::FAILURE,
        Command::Export(args) => export::export(&args),
    }
}
