//! The small language that the tests are written in: arrange, act, expect, in one chain.
//!
//! ```ignore
//! #[apply(every_build)]
//! fn a_commands_status_is_the_shims(build: Build) {
//!     gym_stamp(build).args(["sh", "-c", "exit 42"]).run().exits(42).says_nothing();
//! }
//! ```
//!
//! - [`every_build`] turns the function into one test a [`Build`] that this host can run, named
//!   `a_commands_status_is_the_shims::freestanding` and so on; [`native_builds`] leaves out those
//!   that run under qemu, and a comment says what qemu alters there; [`freestanding_builds`] is
//!   about what only the freestanding ones promise.
//! - [`gym_stamp`] and [`command`] begin a [`Run`]: exact argv bytes, exact environ entries, and
//!   set-ups that the child makes between `fork` and a raw `execve`.
//! - [`Run::run`] waits for the end, never for longer than a deadline; [`Run::spawn`] hands over
//!   the [`Running`] process.
//! - A test that takes longer than its [`limit`] is named, and what it started is killed.
//! - [`Ended`] has the expectations. One that fails shows the whole run.
//! - [`Run::probe`] makes the command a program that tells all that exec passed on to it, and
//!   [`Ended::seen`] reads what it told. [`Run::without_gym_stamp`] is what to compare with.
#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "words of a language: not every subject needs every one"
)]

#[cfg(all(feature = "cli", target_os = "linux"))]
pub mod browser;
mod builds;
#[cfg(feature = "cli")]
pub mod certificates;
mod clock;
#[cfg(feature = "cli")]
pub mod collector;
#[cfg(feature = "cli")]
pub mod export;
#[cfg(target_os = "linux")]
pub mod limit;
#[cfg(all(feature = "cli", target_os = "linux"))]
pub mod page;
mod probe;
#[cfg(feature = "cli")]
pub mod recorded;
pub mod records;
#[cfg(feature = "cli")]
pub mod rotel;
mod run;
#[cfg(all(feature = "cli", target_os = "linux"))]
pub mod startup;
pub mod toolbox;

pub use builds::Build;
pub(crate) use builds::{builds, every_build, freestanding_builds, native_builds};
pub use clock::now_ns;
pub use probe::{Seen, expect_time_of, probe_program};
pub use run::{
    Bytes, Ended, Run, Running, Terminal, bare_exec, command, full_pipe, gym_stamp, without_reader,
};
pub use toolbox::write_file;
