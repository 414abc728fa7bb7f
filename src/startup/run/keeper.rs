//! The keeper, as the front has it: what it was told, and how long it may be silent.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::events::Event;
use crate::fleet::{Plan, Server};
use crate::keeper::WORD;
use crate::keeper::link::{Command, Orders};
use crate::process::{Role, spawn};

/// What the keeper may take to say that all is over, beyond what it waits for servers.
const SLACK: Duration = Duration::from_secs(8);
/// Orders are read at once by a keeper that is well.
const ORDERS_LIMIT: Duration = Duration::from_secs(10);

pub struct Keeper {
    pid: Pid,
    control: UnixStream,
    pub connected: bool,
    /// It was told to end the servers.
    ending: bool,
    /// It has said that they have ended.
    pub over: bool,
    /// When it is too late to say that, or to say anything.
    deadline: Option<Instant>,
    /// For how long it may have nothing to say.
    patience: Option<Duration>,
    /// When it will have been silent for longer.
    silent: Option<Instant>,
}

impl Keeper {
    /// Spawns a keeper that is told what to do, and tells of it, through `control`. The others are
    /// its own end of that, and where the output of the servers goes.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn spawn(control: UnixStream, its_own: [UnixStream; 3]) -> io::Result<Self> {
        let [its_control, out, err] = its_own.map(OwnedFd::from);
        let pid = spawn(
            process::Command::new("/proc/self/exe")
                .arg0("gym-startup")
                .arg(WORD)
                .stdin(its_control)
                .stdout(out)
                .stderr(err),
            Role::Part,
        )?;
        Ok(Self {
            pid,
            control,
            connected: true,
            ending: false,
            over: false,
            deadline: None,
            patience: None,
            silent: None,
        })
    }

    /// Has it start the servers.
    ///
    /// # Errors
    ///
    /// The system's, if it does not take its orders.
    pub fn order(&mut self, orders: &Orders) -> io::Result<()> {
        self.control.set_write_timeout(Some(ORDERS_LIMIT))?;
        write_line(&self.control, orders)?;
        self.patience = longest_wait(&orders.plan);
        self.heard();
        Ok(())
    }

    /// It has said something.
    pub fn heard(&mut self) {
        if !self.ending {
            self.deadline = None;
            self.silent = self.patience.and_then(|patience| Instant::now().checked_add(patience));
        }
    }

    /// It has told that all servers are ready, and may have nothing to say for ever.
    pub fn waits_for_no_server(&mut self) {
        (self.patience, self.silent) = (None, None);
    }

    /// It will say nothing more.
    pub fn is_gone(&mut self) {
        self.connected = false;
        (self.deadline, self.silent) = (None, None);
    }

    /// When it is to be [looked after](Self::is_given_up).
    pub fn due(&self) -> Option<Instant> {
        self.deadline.into_iter().chain(self.silent).min()
    }

    /// Whether it hangs, or is stopped. It is ended then, and what it leaves comes to us.
    pub fn is_given_up(&mut self, now: Instant) -> bool {
        if self.deadline.take_if(|deadline| now >= *deadline).is_some() {
            kill(self.pid, Signal::SIGKILL).unwrap_or_default();
            return true;
        }
        if self.silent.take_if(|silent| now >= *silent).is_some() {
            // Or we were stopped ourselves, and what it said meanwhile is still on its way.
            self.deadline.get_or_insert(now + SLACK);
        }
        false
    }

    pub fn command(&self, command: Command) {
        // If it is gone, that is told elsewhere.
        write_line(&self.control, &command).unwrap_or_default();
    }

    /// Has it end the servers, which may take `grace` twice.
    pub fn end(&mut self, grace: Duration) {
        if !self.ending && self.connected {
            (self.ending, self.silent) = (true, None);
            self.command(Command::End);
            self.deadline = Instant::now().checked_add(grace * 2 + SLACK);
        }
    }

    /// Has it end them at once.
    pub fn kill(&mut self) {
        if !self.connected {
            return;
        }
        self.command(Command::Kill);
        let deadline = Instant::now() + SLACK;
        self.deadline = Some(self.deadline.map_or(deadline, |before| before.min(deadline)));
    }
}

/// What the keeper says, to its end.
pub fn events(from: UnixStream) -> impl Iterator<Item = Event> {
    let lines = BufReader::new(from).split(b'\n').map_while(Result::ok);
    lines.filter_map(|line| serde_json::from_slice(&line).ok())
}

/// How long it may take until the keeper has told something of every server of `plan`.
fn longest_wait(plan: &Plan) -> Option<Duration> {
    let longer = |longest: Duration, server: &Server| Some(longest.max(server.timeout?));
    plan.servers.iter().try_fold(Duration::ZERO, longer)
}

fn write_line(mut to: &UnixStream, what: &impl serde::Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    to.write_all(&line)
}
