//! Servers as their stamps tell of them, read from the environments of their processes.

use std::io;

use gym_stamp::contract::{self, Ignored, MainStart, SETUP_DONE_NS, SPAWN_NS};
use gym_stamp::server::{NAME_ENV, WORKER_ENV};
use gym_stamp::spans::ServerProcess;
use gym_stamp::traceparent::{TraceParent, TraceParentError};

use crate::proc::{self, Process, Processes};
use crate::programs;
use crate::words;

/// A process that was started with a stamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamped {
    pub process: Process,
    pub spawn: Stamp,
    pub setup_done: Stamp,
    pub serve: Stamp,
    traceparent: Option<String>,
    name: Option<String>,
    /// Whether it is a worker of a multi-worker server.
    pub worker: bool,
}

/// A stamp as it stands in an environment, if it does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stamp(Option<Vec<u8>>);

/// What the processes of this machine tell.
#[derive(Debug, Default)]
pub struct Census {
    pub stamped: Vec<Stamped>,
    /// How many processes did not let us look.
    pub unreadable: usize,
}

impl Census {
    /// All stamped processes but this one.
    pub fn now() -> Self {
        let mut census = Self::default();
        // Elsewhere somebody else has our number.
        let own = proc::is_of_our_namespace().then(proc::own_pid);
        for pid in proc::pids().filter(|&pid| Some(pid) != own) {
            match Stamped::read(pid) {
                Ok(stamped) => census.stamped.extend(stamped),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    // Neither the kernel's own threads nor what has ended could be a server.
                    census.unreadable += usize::from(!proc::command_line(pid).is_empty());
                }
                Err(_) => {}
            }
        }
        census
    }
}

impl Stamped {
    /// The process `pid`, if it has a stamp: one that has ended, or has written over its
    /// environment, has none.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` where it may not be read; others where the process is gone.
    pub fn read(pid: i32) -> io::Result<Option<Self>> {
        let environ = proc::environ(pid)?;
        let value = |name| proc::variable(&environ, name);
        let stamp = |name| Stamp(value(name).map(<[u8]>::to_vec));
        let (spawn, setup_done) = (stamp(SPAWN_NS), stamp(SETUP_DONE_NS));
        if !spawn.is_set() && !setup_done.is_set() {
            return Ok(None);
        }
        let text = |name| {
            let value = value(name).filter(|value| !value.is_empty());
            value.map(|value| String::from_utf8_lossy(value).into_owned())
        };
        Ok(proc::process(pid).map(|process| Self {
            process,
            spawn,
            setup_done,
            serve: stamp(contract::SERVE_NS),
            traceparent: text(contract::TRACEPARENT),
            name: text(NAME_ENV),
            worker: value(WORKER_ENV) == Some(b"1"),
        }))
    }

    /// The stamped processes that `pid` is, and that are below it, but this one.
    pub fn from(pid: i32) -> Vec<Self> {
        let below = Processes::now().below(pid);
        let pids = [pid].into_iter().chain(below.iter().map(|process| process.pid));
        let others = pids.filter(|&pid| pid != proc::own_pid());
        others.filter_map(|pid| Self::read(pid).ok()?).collect()
    }

    /// The process that this one has its stamps from, all the way up: under Uvicorn with workers
    /// the main process, which is the server.
    pub fn into_main(self) -> Self {
        let above = proc::above(self.process).filter_map(|it| Self::read(it.pid).ok()?);
        above.fold(self, |main, above| if above.has_stamps_of(&main) { above } else { main })
    }

    pub fn has_stamps_of(&self, other: &Self) -> bool {
        self.spawn == other.spawn && self.setup_done == other.setup_done
    }

    /// Whether one launch has started both.
    pub fn is_of_launch_of(&self, other: &Self) -> bool {
        match other.spawn.is_set() {
            true => self.spawn == other.spawn,
            false => self.has_stamps_of(other),
        }
    }

    pub fn pid(&self) -> i32 {
        self.process.pid
    }

    /// Its name in Gym's configuration; elsewhere its program's.
    pub fn name(&self) -> String {
        let program = || programs::program(&proc::command_line(self.pid()));
        self.name.clone().or_else(program).unwrap_or_else(|| "?".to_owned())
    }

    /// What a server makes of the stamps that starts at `now_ns`.
    pub fn reading(&self, now_ns: u64) -> MainStart {
        contract::main_start(self.spawn.ns(), self.setup_done.ns(), now_ns)
    }

    /// Whether its setup has not ended yet, for all that the stamps tell.
    pub fn is_in_setup(&self, now_ns: u64) -> bool {
        !self.setup_done.is_set() && matches!(self.reading(now_ns), MainStart::SpawnSeen { .. })
    }

    /// Why servers ignore a stamp that it has.
    pub fn ignored(&self, now_ns: u64) -> Option<String> {
        let why = match self.reading(now_ns) {
            MainStart::SetupSeen { .. } => return None,
            MainStart::SpawnSeen { why: Ignored::NoSetupDone, .. } if !self.setup_done.is_set() => {
                return None;
            }
            MainStart::SpawnSeen { why, .. } | MainStart::Nothing { why } => why,
        };
        let (spawn_ns, setup_done_ns) = (self.spawn.ns(), self.setup_done.ns());
        let apart = |later: Option<u64>, earlier: Option<u64>| {
            let ns =
                i128::from(later.unwrap_or_default()) - i128::from(earlier.unwrap_or_default());
            words::duration(ns, false)
        };
        let future = |ns| match ns {
            Some(u64::MAX) => "in the far future".to_owned(),
            ns => format!("{} in the future", apart(ns, Some(now_ns))),
        };
        let (subject, why) = match why {
            Ignored::NoSpawn => (SPAWN_NS, self.spawn.fault().to_owned()),
            Ignored::SpawnInFuture => (SPAWN_NS, future(spawn_ns)),
            Ignored::NoSetupDone => (SETUP_DONE_NS, self.setup_done.fault().to_owned()),
            Ignored::SetupDoneInFuture => (SETUP_DONE_NS, future(setup_done_ns)),
            Ignored::OutOfOrder => {
                (SETUP_DONE_NS, format!("{} before {SPAWN_NS}", apart(spawn_ns, setup_done_ns)))
            }
        };
        Some(match (subject, self.spawn.is_set(), self.setup_done.is_set()) {
            (SPAWN_NS, false, _) => format!("servers ignore {SETUP_DONE_NS}: {SPAWN_NS} is {why}"),
            (SPAWN_NS, true, true) => format!("servers ignore both stamps: {SPAWN_NS} is {why}"),
            _ => format!("servers ignore {subject}: it is {why}"),
        })
    }

    /// The span that its own stand under.
    ///
    /// # Errors
    ///
    /// Why what is set is none.
    pub fn parent_span(&self) -> Result<Option<TraceParent>, TraceParentError> {
        TraceParent::from_env(contract::TRACEPARENT, |_| self.traceparent.clone().map(Into::into))
    }

    /// As spans name it.
    pub fn as_server(&self, name: &str, server_type: Option<&str>) -> ServerProcess {
        ServerProcess {
            name: name.to_owned(),
            server_type: server_type.map(str::to_owned),
            worker: false,
            pid: self.pid().unsigned_abs(),
        }
    }

    /// The variables of the contract that it has, as they stand there.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, String)> {
        let stamps = [
            (SPAWN_NS, &self.spawn),
            (SETUP_DONE_NS, &self.setup_done),
            (contract::SERVE_NS, &self.serve),
        ];
        let stamps = stamps.into_iter().filter_map(|(name, stamp)| Some((name, stamp.text()?)));
        stamps.chain(self.traceparent.clone().map(|it| (contract::TRACEPARENT, it)))
    }
}

impl Stamp {
    pub fn is_set(&self) -> bool {
        self.0.is_some()
    }

    /// The time that a server reads in it.
    pub fn ns(&self) -> Option<u64> {
        contract::read_ns(self.0.as_deref()?)
    }

    fn text(&self) -> Option<String> {
        self.0.as_deref().map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// What is wrong with one that no server reads a time in.
    fn fault(&self) -> &'static str {
        let Some(value) = &self.0 else { return "not set" };
        let digits = match value.trim_ascii() {
            b"" => return "empty",
            [b'+' | b'-', digits @ ..] | digits => digits,
        };
        // A zero is none that it reads, but one with a digit before it is.
        let with_digit = [b"1", digits].concat();
        let is_number = digits.first().is_some_and(|&first| first != b'_')
            && contract::read_ns(&with_digit).is_some();
        if is_number { "not greater than zero" } else { "not a number" }
    }
}

/// The process `pid`, if it runs and its environment may be read.
///
/// # Errors
///
/// Which of the two it is not, as a clause.
pub fn readable(pid: i32) -> Result<Process, String> {
    let none = || format!("there is no process {pid}");
    let process = proc::process(pid).filter(|process| !process.ended).ok_or_else(none)?;
    match proc::environ(pid) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(format!(
            "the environment of process {pid} may not be read: run as root, or as its user"
        )),
        _ => Ok(process),
    }
}

/// That `count` processes did not let us look, and what would help.
pub fn unreadable(count: usize) -> String {
    let processes = if count == 1 { "process" } else { "processes" };
    match nix::unistd::geteuid().is_root() {
        true => format!("{count} {processes} could not be read: that takes CAP_SYS_PTRACE"),
        false => {
            format!("{count} {processes} of other users could not be read: run as root to see them")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamped(spawn: Option<&str>, setup_done: Option<&str>) -> Stamped {
        let stamp = |value: Option<&str>| Stamp(value.map(|value| value.as_bytes().to_vec()));
        Stamped {
            process: Process {
                pid: 7,
                parent: 1,
                group: 7,
                session: 7,
                ended: false,
                start_ticks: 0,
            },
            spawn: stamp(spawn),
            setup_done: stamp(setup_done),
            serve: Stamp::default(),
            traceparent: None,
            name: None,
            worker: false,
        }
    }

    #[test]
    fn a_launch_is_known_by_its_spawn_or_else_by_the_end_of_its_setup() {
        for (one, other, is_one) in [
            ((Some("1"), None), (Some("1"), Some("3")), true),
            ((Some("1"), Some("3")), (Some("2"), Some("3")), false),
            ((None, Some("3")), (None, Some("3")), true),
            ((None, Some("3")), (None, Some("4")), false),
        ] {
            let [one, other] = [one, other].map(|(spawn, setup_done)| stamped(spawn, setup_done));
            assert_eq!(one.is_of_launch_of(&other), is_one, "{one:?} {other:?}");
        }
    }

    #[test]
    fn what_servers_ignore_is_said_by_its_name() {
        let (early, late) = (Some("1000000000"), Some("3000000000"));
        for (spawn, setup_done, words) in [
            (early, late, ""),
            (early, None, ""),
            (None, late, "servers ignore DONE: SPAWN is not set"),
            (Some(""), None, "servers ignore SPAWN: it is empty"),
            (Some(" "), late, "servers ignore both stamps: SPAWN is empty"),
            (Some("soon"), late, "servers ignore both stamps: SPAWN is not a number"),
            (Some("-1"), None, "servers ignore SPAWN: it is not greater than zero"),
            (Some("+0"), None, "servers ignore SPAWN: it is not greater than zero"),
            (Some("0_0"), None, "servers ignore SPAWN: it is not greater than zero"),
            (Some("-0"), None, "servers ignore SPAWN: it is not greater than zero"),
            (Some("- 5"), None, "servers ignore SPAWN: it is not a number"),
            (Some("-+5"), None, "servers ignore SPAWN: it is not a number"),
            (Some("0_"), None, "servers ignore SPAWN: it is not a number"),
            (Some("99999999999999999999"), None, "servers ignore SPAWN: it is in the far future"),
            (Some("6000000000"), None, "servers ignore SPAWN: it is 1.00 s in the future"),
            (Some("6000000000"), late, "servers ignore both stamps: SPAWN is 1.00 s in the future"),
            (early, Some(""), "servers ignore DONE: it is empty"),
            (early, Some("00"), "servers ignore DONE: it is not greater than zero"),
            (early, Some("1e9"), "servers ignore DONE: it is not a number"),
            (early, Some("6500000000"), "servers ignore DONE: it is 1.50 s in the future"),
            (late, early, "servers ignore DONE: it is 2.00 s before SPAWN"),
        ] {
            let ignored = stamped(spawn, setup_done).ignored(5_000_000_000).unwrap_or_default();
            let ignored = ignored.replace(SPAWN_NS, "SPAWN").replace(SETUP_DONE_NS, "DONE");
            assert_eq!(ignored, words, "{spawn:?} {setup_done:?}");
        }
    }
}
