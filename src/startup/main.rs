//! Launches servers, watches them from outside, shows where their startup time went, exports it.
#![deny(unsafe_code)]

mod args;
#[cfg(target_os = "linux")]
mod ending;
#[cfg(target_os = "linux")]
mod events;
mod export;
#[cfg(target_os = "linux")]
mod fleet;
#[cfg(target_os = "linux")]
mod keeper;
#[cfg(target_os = "linux")]
mod logs;
#[cfg(target_os = "linux")]
mod proc;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod record;
#[cfg(target_os = "linux")]
mod run;
mod say;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(target_os = "linux")]
mod verdict;
#[cfg(target_os = "linux")]
mod view;
#[cfg(target_os = "linux")]
mod waterfall;
#[cfg(target_os = "linux")]
mod words;

use std::process::ExitCode;

use args::{Args, Command};
use clap::Parser;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if std::env::args_os().nth(1).is_some_and(|word| word == keeper::WORD) {
        return keeper::main();
    }
    let args = Args::parse();
    match args.command {
        #[cfg(target_os = "linux")]
        Command::Run(args) => run::run(&args),
        #[cfg(not(target_os = "linux"))]
        Command::Run(_) => {
            // Subreapers and /proc are what it stands on.
            say::say("run: only on Linux; elsewhere a server is launched with gym-stamp alone");
            ExitCode::FAILURE
        }
        Command::Export(args) => export::export(&args),
    }
}
