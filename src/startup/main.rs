//! Launches servers, watches them from outside, shows where their startup time went, exports it.
#![deny(unsafe_code)]

mod args;
mod ending;
mod events;
mod export;
mod fleet;
mod keeper;
mod proc;
mod process;
mod record;
mod run;
mod say;
mod terminal;
mod verdict;
mod view;
mod waterfall;
mod words;

use std::process::ExitCode;

use args::{Args, Command};
use clap::Parser;

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|word| word == keeper::WORD) {
        return keeper::main();
    }
    let args = Args::parse();
    match args.command {
        Command::Run(args) => run::run(&args),
        Command::Export(args) => export::export(&args),
    }
}
