//! Launches servers, watches them from outside, shows where their startup time went, exports it.
#![deny(unsafe_code)]

mod args;
#[cfg(target_os = "linux")]
mod columns;
#[cfg(target_os = "linux")]
mod ending;
#[cfg(target_os = "linux")]
mod events;
mod export;
#[cfg(target_os = "linux")]
mod exporter;
#[cfg(target_os = "linux")]
mod fleet;
#[cfg(target_os = "linux")]
mod keeper;
mod lines;
#[cfg(target_os = "linux")]
mod logs;
mod manual;
#[cfg(target_os = "linux")]
mod probe;
#[cfg(target_os = "linux")]
mod proc;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod programs;
#[cfg(target_os = "linux")]
mod ps;
#[cfg(target_os = "linux")]
mod record;
#[cfg(target_os = "linux")]
mod rhythm;
#[cfg(target_os = "linux")]
mod run;
mod say;
#[cfg(target_os = "linux")]
mod show;
#[cfg(target_os = "linux")]
mod sockets;
#[cfg(target_os = "linux")]
mod stamped;
mod status;
mod stdout;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(target_os = "linux")]
mod tree;
#[cfg(target_os = "linux")]
mod verdict;
#[cfg(target_os = "linux")]
mod view;
#[cfg(target_os = "linux")]
mod watch;
#[cfg(target_os = "linux")]
mod waterfall;
#[cfg(target_os = "linux")]
mod words;

use std::process::ExitCode;

use args::{Args, Command};
use clap::Parser;
use status::WRONG_USAGE;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if std::env::args_os().nth(1).is_some_and(|word| word == keeper::WORD) {
        return keeper::main();
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(instead) => return print_instead(&instead),
    };
    match args.command {
        #[cfg(target_os = "linux")]
        Command::Run(args) => run::run(&args),
        #[cfg(target_os = "linux")]
        Command::Watch(args) => watch::watch(&args),
        #[cfg(target_os = "linux")]
        Command::Ps(args) => ps::ps(&args),
        #[cfg(target_os = "linux")]
        Command::Show(args) => show::show(&args),
        Command::Export(args) => export::export(&args),
        Command::Man(args) => manual::man(&args),
        Command::Completions(args) => manual::completions(&args),
        #[cfg(not(target_os = "linux"))]
        _ => {
            // Subreapers and /proc are what the others stand on.
            say::say("only export works here: the other commands need Linux");
            ExitCode::FAILURE
        }
    }
}

/// Prints the help or version that was asked for, or what is wrong with the command line.
fn print_instead(instead: &clap::Error) -> ExitCode {
    let status = u8::try_from(instead.exit_code()).unwrap_or(WRONG_USAGE);
    if instead.use_stderr() {
        // Without a stderr there is nobody to tell.
        let _ = instead.print();
        return ExitCode::from(status);
    }
    match stdout::whole(instead.print()) {
        Ok(()) => ExitCode::from(status),
        Err(why) => {
            say::say(why);
            ExitCode::FAILURE
        }
    }
}
