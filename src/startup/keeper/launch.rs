//! The launch of one server: its process, with nothing of ours in it, and its output.

use std::cell::RefCell;
use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::rc::{Rc, Weak};

use gym_stamp::contract;
use nix::errno::Errno;
use nix::unistd::Pid;
use tokio::net::unix::pipe::Receiver;

use super::link::Orders;
use super::output::{Output, Tail, last_lines, unread};
use crate::events::{NO_COMMAND, NotRun, Stream};
use crate::fleet::Server;
use crate::logs;
use crate::process::{self, Role};
use crate::status::{NOT_EXECUTABLE, NOT_FOUND};
use crate::words::plain;

/// The variables of an outer launch, which say nothing of this one.
pub const OUTER: [&str; 4] =
    [contract::SPAWN_NS, contract::SETUP_DONE_NS, contract::SERVE_NS, contract::TRACEPARENT];

/// A server's launch process and what it writes.
pub struct Launched {
    pub pid: Pid,
    writes: Writes,
}

enum Writes {
    /// The pipes are gone when they have ended.
    ToUs {
        tail: Rc<RefCell<Tail>>,
        pipes: Vec<(Stream, Weak<Receiver>)>,
    },
    ToFile {
        path: PathBuf,
        from: u64,
    },
}

impl Launched {
    /// Whether nothing more can come of its output.
    pub fn is_silent(&self) -> bool {
        match &self.writes {
            Writes::ToUs { pipes, .. } => pipes.iter().all(|(_, it)| it.strong_count() == 0),
            Writes::ToFile { .. } => true,
        }
    }

    pub fn last_lines(&self) -> Vec<String> {
        match &self.writes {
            Writes::ToUs { tail, pipes } => {
                let mut tail = tail.borrow().clone();
                for (stream, pipe) in pipes {
                    // What waits for a slow reader is still in there.
                    let rest = pipe.upgrade().and_then(|pipe| unread(&pipe).ok());
                    tail.take(*stream, &rest.unwrap_or_default());
                }
                tail.lines()
            }
            Writes::ToFile { path, from } => last_lines(path, *from),
        }
    }
}

/// Launches the server `number` of the plan, spawned at `at_ns`.
///
/// # Errors
///
/// Why it cannot be.
pub fn launch(
    orders: &Orders,
    number: usize,
    at_ns: u64,
    output: &mut Output,
) -> Result<Launched, NotRun> {
    let of_system = |error| not_executable(String::new(), error);
    let plan = orders.plan.servers.get(number).ok_or_else(|| of_system(Errno::EINVAL.into()))?;
    let mut command = command(orders, plan, number, at_ns);
    if let Some(folder) = orders.plan.log_dir.as_deref() {
        let path = logs::path(folder, plan);
        let named = |error| not_executable(path.display().to_string(), error);
        let log = logs::open(&path).map_err(named)?;
        let from = log.metadata().map_or(0, |it| it.len());
        command.stderr(log.try_clone().map_err(of_system)?).stdout(log);
        let pid = spawn(&mut command, orders, plan)?;
        return Ok(Launched { pid, writes: Writes::ToFile { path, from } });
    }
    let (out, out_end) = io::pipe().map_err(of_system)?;
    let (err, err_end) = io::pipe().map_err(of_system)?;
    command.stdout(out_end).stderr(err_end);
    let pid = spawn(&mut command, orders, plan)?;
    let tail = Rc::new(RefCell::new(Tail::default()));
    let mut pipes = Vec::new();
    for (stream, pipe) in [(Stream::Out, out), (Stream::Err, err)] {
        // One that cannot be read is one that nobody reads.
        if let Ok(pipe) = Receiver::from_owned_fd(OwnedFd::from(pipe)) {
            pipes.push((stream, output.forward(number, stream, pipe, Rc::clone(&tail))));
        }
    }
    Ok(Launched { pid, writes: Writes::ToUs { tail, pipes } })
}

fn command(orders: &Orders, plan: &Server, number: usize, at_ns: u64) -> Command {
    let mut words = plan.command.iter();
    let mut command = Command::new(words.next().map_or_else(Default::default, Clone::clone));
    command.args(words).current_dir(&*plan.cwd).stdin(Stdio::null());
    for name in OUTER {
        command.env_remove(name);
    }
    command.envs(orders.env.iter().map(|(name, value)| (name, value)));
    command.envs(plan.env.iter().map(|(name, value)| (name, value)));
    command.env(contract::SPAWN_NS, at_ns.to_string());
    if let Some(Some(traceparent)) = orders.traceparents.get(number) {
        command.env(contract::TRACEPARENT, traceparent);
    }
    command
}

fn spawn(command: &mut Command, orders: &Orders, plan: &Server) -> Result<Pid, NotRun> {
    process::spawn(command, Role::Server(&orders.inherited)).map_err(|error| {
        let program = plan.command.first().map(|it| it.to_string_lossy()).unwrap_or_default();
        if error.kind() != io::ErrorKind::NotFound {
            return not_executable(program.into_owned(), error);
        }
        let (what, why) = match missing_interpreter(plan) {
            Some(name) => (format!("{program}: {name}, which its first line names"), plain(error)),
            None => (program.into_owned(), NO_COMMAND.to_owned()),
        };
        NotRun { what, why, status: NOT_FOUND }
    })
}

fn not_executable(what: String, error: io::Error) -> NotRun {
    NotRun { what, why: plain(error), status: NOT_EXECUTABLE }
}

/// The interpreter that the first line of the server's program names, if it is not there.
fn missing_interpreter(plan: &Server) -> Option<String> {
    /// As much as Linux reads of it.
    const FIRST_LINE: u64 = 256;
    let program = plan.command.first()?;
    let folders = match program.as_bytes().contains(&b'/') {
        true => vec![PathBuf::new()],
        false => {
            let own = plan.env.iter().rfind(|(name, _)| name == "PATH");
            let path = own.map(|(_, path)| path.into()).or_else(|| env::var_os("PATH"));
            env::split_paths(&path.unwrap_or_default()).collect()
        }
    };
    let paths = folders.iter().map(|folder| plan.cwd.join(folder).join(program));
    let mut line = Vec::new();
    let file = paths.into_iter().find_map(|path| File::open(path).ok())?;
    file.take(FIRST_LINE).read_to_end(&mut line).ok()?;
    let line = line.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?.trim_ascii_start();
    let name = OsStr::from_bytes(line.split(|byte| b" \t".contains(byte)).next()?);
    (!plan.cwd.join(name).exists()).then(|| name.to_string_lossy().escape_debug().to_string())
}
