//! `gym-stamp` stamps the moment that setup is done into the environment of a server's command,
//! and becomes that command.
//!
//! Built for Linux with glibc on x86-64 and aarch64 it is freestanding: no libc, no std, no memory
//! of its own but what the kernel handed it (`sys.rs`). For every other unix the same program stands
//! on std and nix (`portable.rs`).

#![no_main]
#![cfg_attr(freestanding, no_std)]

#[cfg(freestanding)]
#[cfg_attr(target_arch = "x86_64", path = "arch/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "arch/aarch64.rs")]
mod arch;
mod arena;
mod args;
mod bytes;
#[allow(dead_code, reason = "the shim speaks of some of the variables only")]
#[path = "../contract.rs"]
mod contract;
mod errno;
mod explain;
mod fail;
mod line;
mod options;
mod pyvenv;
#[cfg(freestanding)]
mod rt;
mod script;
mod search;
mod stamp;
#[cfg_attr(not(freestanding), path = "portable.rs")]
mod sys;
mod venv;
mod zstr;

use crate::arena::Arena;
use crate::args::{Plan, Request};
use crate::contract::Decimal;
use crate::fail::Failure;
use crate::line::print;
use crate::search::Launch;
use crate::stamp::Outcome;
use crate::venv::Venv;
use crate::zstr::Vector;

/// What the kernel handed to this process.
pub struct Process<'a> {
    /// Its arguments, the name it was called by included.
    pub args: Vector<'a>,
    /// Its environment.
    pub env: Vector<'a>,
    /// Where strings are made to add to them.
    pub arena: Arena<'a>,
}

fn main(process: &mut Process) -> ! {
    let done = match args::parse(&process.args) {
        Ok(Request::Run(plan)) => Err(run(&plan, process)),
        Ok(Request::Now) => print_now(&mut process.arena),
        Ok(Request::Help) => print(&options::HELP).map_err(Failure::no_output),
        Ok(Request::Version) => print(options::VERSION.as_bytes()).map_err(Failure::no_output),
        Err(failure) => Err(failure),
    };
    sys::exit(match done {
        Ok(()) => 0,
        Err(failure) => failure.status,
    })
}

/// Becomes COMMAND; returns only if that cannot be.
fn run<'a>(plan: &Plan<'a>, process: &mut Process<'a>) -> Failure {
    process.args.skip(plan.command);
    let venv = match plan.venv.map(|folder| Venv::activate(folder, process)).transpose() {
        Ok(venv) => venv,
        Err(failure) => return failure,
    };
    let outcome = stamp::stamp(plan, process);
    if plan.verbose {
        stamp::explain(plan.stamp, &outcome, &process.env);
    }
    let unstamp = match outcome {
        Outcome::Stamped(undo) => Some(undo),
        Outcome::Kept | Outcome::Failed(_) => None,
    };
    Launch { process, unstamp, venv: venv.as_ref(), verbose: plan.verbose }.run()
}

fn print_now(arena: &mut Arena) -> Result<(), Failure> {
    let now = sys::realtime_ns().map_err(Failure::no_clock)?;
    let line = arena.concat(&[Decimal::new(now).as_bytes(), b"\n"]).map_err(Failure::no_room)?;
    print(line.bytes()).map_err(Failure::no_output)
}
