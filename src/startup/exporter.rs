//! The exporter: a short-lived `gym-startup export -` that is handed what there is to send, so that
//! whatever a network does to it, it does to nobody else.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::unistd::Pid;

use crate::process::{Inherited, Role, spawn};

/// What it may take beyond its own deadline, to start and to end.
pub const SLACK: Duration = Duration::from_secs(2);

/// Hands `lines` to an exporter, which tells by itself what goes wrong.
///
/// # Errors
///
/// Why there is none.
pub fn start(lines: Vec<u8>, inherited: &Inherited) -> io::Result<Pid> {
    let (input, mut to_exporter) = io::pipe()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("gym-startup").args(["export", "--quiet", "-"]).stdin(input).stdout(Stdio::null());
    // The Ctrl-C that ends a fleet does not end what is told of its startup.
    command.process_group(0);
    let pid = spawn(&mut command, Role::Companion(inherited))?;
    // One that does not read is killed at its deadline, and this ends with it.
    thread::spawn(move || to_exporter.write_all(&lines).unwrap_or_default());
    Ok(pid)
}
