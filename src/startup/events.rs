//! What happens to a fleet, as the keeper tells it: what the view shows and the record is made of.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One thing that happened. Servers are counted as in the plan, times are nanoseconds since the
/// epoch on the keeper's clock: a front that hears of it late still records it right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// Nothing was started: what is not there yet already answers.
    PortTaken { server: usize, holder: Option<String> },
    /// The server's launch process is there, and `venv_setup` begins.
    Spawned { server: usize, at_ns: u64, pid: i32 },
    /// There will be no process.
    NotSpawned { server: usize, at_ns: u64, error: NotRun },
    /// Every server was spawned, or failed to be.
    AllSpawned { at_ns: u64 },
    /// A program has been running inside `venv_setup` for long enough to be told of, and still is.
    StepBegan { server: usize, name: String, start_ns: u64 },
    /// A program that ran inside `venv_setup` has ended, or become another one.
    StepEnded { server: usize, name: String, start_ns: u64, end_ns: u64 },
    /// The stamp was seen in the server's environment: `venv_setup` ended then, and `server_start`
    /// goes on. A later one replaces it.
    SetupDone { server: usize, setup_done_ns: u64 },
    /// No stamp was seen by the time the server was ready.
    NoStamp { server: usize, why: NoStamp },
    /// What is looked at for readiness gives another answer than before, and it does not count yet.
    NotYet { server: usize, at_ns: u64, answer: String },
    /// The first answer that counts.
    Ready { server: usize, at_ns: u64 },
    /// An answer that would count came from somebody else, who was not there at first.
    PortTakenLater { server: usize, at_ns: u64, holder: String },
    /// Not ready within the server's timeout; the ports that it listens on.
    TimedOut {
        server: usize,
        at_ns: u64,
        last_look: Option<Unready>,
        listens: Vec<u16>,
        last_lines: Vec<String>,
    },
    /// None of the server's own processes is left, or its launch process failed. `stray` runs on,
    /// and may be the server's: nothing tells whose it is.
    Exited { server: usize, at_ns: u64, exit: Exit, stray: Option<String>, last_lines: Vec<String> },
    /// The servers are being ended: the processes that are still there get `signal`.
    Ending { at_ns: u64, signal: String, processes: usize },
    /// No process is left, or just those that not even SIGKILL ends.
    Ended { at_ns: u64, left: usize },
    /// Telling was given up for a while, since nobody listened.
    Missed { events: usize },
}

/// The kind of error where there is no such program.
pub const NO_COMMAND: &str = "command not found";

/// Why a program could not be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotRun {
    /// What it is about: words of a command line, which may hold secrets and are never exported.
    pub what: String,
    /// The kind of error.
    pub why: String,
    /// What a shell would exit with.
    pub status: u8,
}

impl fmt::Display for NotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what.as_str() {
            "" => f.write_str(&self.why),
            what => write!(f, "{what}: {}", self.why),
        }
    }
}

/// Why a server's setup has no known end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoStamp {
    /// None of its processes has one.
    NotSet,
    /// A process wrote over its environment, as setproctitle does, before it was looked at.
    Overwritten,
    /// The system does not let us read it: the server has capabilities that we lack, or is
    /// another user's.
    Forbidden,
    /// It has one that no server would believe: before its spawn, or in the future.
    OutOfOrder,
    /// No process is on this machine, or none can be seen.
    Unseen,
}

impl fmt::Display for NoStamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotSet => "no gym-stamp in its launch: setup and start are not told apart",
            Self::Overwritten => "it wrote over its environment: when its setup ended is unknown",
            Self::Forbidden => "its environment may not be read: when its setup ended is unknown",
            Self::OutOfOrder => "its stamp is before its spawn or in the future: it does not count",
            Self::Unseen => "its processes are not seen here: when its setup ended is unknown",
        })
    }
}

/// What a look found instead of a server that is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unready {
    /// Nobody takes a connection, and why.
    Nobody(String),
    /// A connection is taken, and nothing comes of it.
    Silent,
    /// It answers with an HTTP status that does not count.
    Status(u16),
    /// Something else comes of it.
    Says(String),
}

impl fmt::Display for Unready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody(what) | Self::Says(what) => f.write_str(what),
            Self::Silent => f.write_str("takes connections and does not answer"),
            Self::Status(status) => write!(f, "answers {status}"),
        }
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    Status(u8),
    /// With the signal's number.
    Signal(i32),
}

impl Exit {
    /// As a shell has it.
    pub fn status(self) -> u8 {
        match self {
            Self::Status(status) => status,
            Self::Signal(signal) => u8::try_from(signal).map_or(u8::MAX, |it| it.wrapping_add(128)),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Status(status) => write!(f, "exited with status {status}"),
            Self::Signal(signal) => match nix::sys::signal::Signal::try_from(signal) {
                Ok(signal) => write!(f, "was ended by {signal}"),
                Err(_) => write!(f, "was ended by signal {signal}"),
            },
        }
    }
}

/// One of a server's two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Out,
    Err,
}

/// Why a run did not go as it was meant to: what the paragraph about it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Somebody else answers where `server` would; nothing was started.
    PortTaken { server: usize, holder: Option<String> },
    /// Somebody else answered where `server` was to, once it was started.
    PortTakenLater { server: usize, holder: String },
    /// The server's program could not be run.
    NotSpawned { server: usize, error: NotRun },
    /// It ended before all were ready, `ready` itself or not, and left `stray` if anything.
    ExitedEarly {
        server: usize,
        ready: bool,
        exit: Exit,
        stray: Option<String>,
        last_lines: Vec<String>,
    },
    /// It was not ready in time. The others that were not either are in `also`.
    TimedOut {
        server: usize,
        also: Vec<usize>,
        last_look: Option<Unready>,
        listens: Vec<u16>,
        last_lines: Vec<String>,
    },
    /// All were ready, and one ended.
    ExitedLater { server: usize, exit: Exit, last_lines: Vec<String> },
    /// A signal came, by number; `ready` if it was after all were.
    Interrupted { signal: i32, ready: bool },
    /// The command of `--then` failed with this status, or could not be run.
    ThenFailed { status: u8 },
    /// The process that owns the servers is gone.
    KeeperLost,
    /// It was stopped or hangs, and was ended for that.
    KeeperSilent,
}

/// Who is told of a run, at the terminal or in lines.
///
/// It is called by one thread at a time, which may block in it for as long as a terminal does:
/// nothing waits for it but the last words, and those not for long.
pub trait Watcher: Send {
    /// In the order in which the keeper tells.
    fn event(&mut self, event: &Event);
    /// Whole lines that servers wrote, each with its server's name before it.
    fn lines(&mut self, stream: Stream, lines: &[u8]);
    /// This many bytes of a server's output were not kept, as they were not taken in time.
    fn dropped(&mut self, server: usize, stream: Stream, bytes: u64);
    /// A line of our own words, as [`say`](crate::say::say) has it.
    fn say(&mut self, words: &str);
    /// Ten times a second, for what moves.
    fn tick(&mut self);
    /// The startup is over, well or not: all of its spans, as they are recorded.
    fn startup(&mut self, spans: &[gym_stamp::spans::SpanRecord]);
    /// Something went wrong. Comes after [`startup`](Self::startup) if both do.
    fn trouble(&mut self, trouble: &Trouble);
    /// Nothing comes after this.
    fn over(&mut self);
}
