//! Who is watched: found by its pid or by where it listens, and followed from then on.

use std::collections::HashSet;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use gym_stamp::contract::MainStart;
use gym_stamp::timeline::{Clock, SystemClock};

use super::Plan;
use crate::events::Exit;
use crate::proc::{self, Process, Processes};
use crate::programs;
use crate::sockets::{Holders, Place};
use crate::stamped::{Census, Stamped, readable};
use crate::words::{duration, harmless};

/// The server that is watched, as far as it is known.
pub struct Target {
    place: Place,
    /// Whoever was named by --pid, or else listens without a stamp: that may be what passes
    /// connections on to a server that is yet to come.
    process: Option<Process>,
    is_named: bool,
    server: Option<Stamped>,
    given_name: Option<String>,
    /// What it was called when it was last seen.
    seen_name: Option<String>,
    /// Processes that did not let us see whether it is they who listen.
    unseen: Option<usize>,
    /// The last news of it.
    told: Option<String>,
}

/// What a look has brought.
#[derive(Debug, Default)]
pub struct Look {
    pub news: Option<String>,
    /// Nobody is left of it; and how it ended, if that could be seen.
    pub ended: Option<Option<Exit>>,
}

/// Who listens in place of the server, by name.
#[derive(Debug)]
pub enum Listener {
    OfAnotherLaunch(String),
    /// That may be what passes connections on to it.
    Unstamped(String),
}

impl Target {
    /// # Errors
    ///
    /// Why the process `pid` cannot be watched.
    pub fn new(plan: &Plan) -> Result<Self, String> {
        Ok(Self {
            place: Place::of(&plan.ready),
            process: plan.pid.map(readable).transpose().map_err(|why| format!("--pid: {why}"))?,
            is_named: plan.pid.is_some(),
            server: None,
            given_name: plan.name.clone(),
            seen_name: None,
            unseen: None,
            told: None,
        })
    }

    pub fn server(&self) -> Option<&Stamped> {
        self.server.as_ref()
    }

    /// The process that it is, stamped or not.
    pub fn process(&self) -> Option<Process> {
        self.server.as_ref().map(|server| server.process).or(self.process)
    }

    pub fn unseen(&self) -> Option<usize> {
        self.unseen
    }

    /// `hello (process 4711)`.
    pub fn name(&self) -> String {
        match (self.process(), self.short_name()) {
            (Some(process), Some(name)) => {
                format!("{} (process {})", harmless(name, true), process.pid)
            }
            (Some(process), None) => format!("process {}", process.pid),
            (None, name) => harmless(name.unwrap_or("the server"), true).into_owned(),
        }
    }

    /// As it was given, or else as the process tells.
    pub fn short_name(&self) -> Option<&str> {
        self.given_name.as_deref().or(self.seen_name.as_deref())
    }

    /// Looks at what there is now.
    ///
    /// # Errors
    ///
    /// Why it cannot be told who is to be watched.
    pub fn look(&mut self) -> Result<Look, String> {
        let known = self.process();
        if !self.is_named && self.server.is_none() {
            self.find()?;
        }
        let Some(known) = self.process().or(known) else { return Ok(Look::default()) };
        let root = self.process.filter(|&root| is_there(root));
        let found = self.server.as_ref().and_then(follow);
        let found = found.or_else(|| self.below(root?));
        if found.is_none() && root.is_none() {
            return Ok(Look { news: None, ended: Some(exit(known.pid)) });
        }
        self.server = found;
        self.learn_name();
        let news = self.news();
        let is_new = self.told.replace(news.clone()).as_ref() != Some(&news);
        Ok(Look { news: is_new.then_some(news), ended: None })
    }

    /// By who listens.
    fn find(&mut self) -> Result<(), String> {
        let Holders { here, elsewhere, unseen } = self.place.holders();
        self.unseen = unseen;
        for holders in [&here, &elsewhere] {
            let mut servers: Vec<Stamped> = Vec::new();
            for &pid in holders {
                if let Ok(Some(stamped)) = Stamped::read(pid) {
                    let server = stamped.into_main();
                    if !servers.iter().any(|it| it.pid() == server.pid()) {
                        servers.push(server);
                    }
                }
            }
            if servers.len() > 1 {
                let pids: Vec<_> = servers.iter().map(|it| it.pid().to_string()).collect();
                return Err(format!(
                    "several stamped servers listen there: say by --pid which of {} is meant",
                    pids.join(", ")
                ));
            }
            self.server = servers.pop();
            if self.server.is_some() {
                return Ok(());
            }
        }
        // Who opened the socket for somebody else, as systemd does, was there before.
        self.process = here
            .iter()
            .chain(&elsewhere)
            .filter_map(|&pid| proc::process(pid))
            .max_by_key(|it| it.start_ticks);
        Ok(())
    }

    /// Whoever listens there, if that is nobody of its launch.
    pub fn other_listener(&self) -> Option<Listener> {
        let process = self.process().filter(|_| self.is_named)?;
        let here = self.place.holders().here;
        let mut its_own: HashSet<_> =
            Processes::now().below(process.pid).iter().map(|it| it.pid).collect();
        its_own.insert(process.pid);
        let is_of_its_launch =
            |it: &Stamped| self.server.as_ref().is_some_and(|server| it.is_of_launch_of(server));
        let stamped: Vec<_> =
            here.iter().filter_map(|&pid| Stamped::read(pid).ok().flatten()).collect();
        if here.iter().any(|pid| its_own.contains(pid)) || stamped.iter().any(is_of_its_launch) {
            return None;
        }
        let named = |pid: i32| {
            let name = programs::program(&proc::command_line(pid)).unwrap_or_default();
            format!("{} (process {pid})", harmless(&name, true))
        };
        match stamped.first() {
            Some(other) => Some(Listener::OfAnotherLaunch(named(other.pid()))),
            None => here.first().map(|&pid| Listener::Unstamped(named(pid))),
        }
    }

    /// The latest stamp of what `root` is and what is below it; while there is none but what else
    /// the launch of a server that is gone has started, that server still.
    fn below(&self, root: Process) -> Option<Stamped> {
        let mut stamped = Stamped::from(root.pid);
        if let Some(server) = self.server.as_ref().filter(|server| server.setup_done.is_set()) {
            stamped.retain(|it| it.setup_done.is_set() || !it.is_of_launch_of(server));
            return latest(stamped).or_else(|| Some(server.clone()));
        }
        latest(stamped)
    }

    fn learn_name(&mut self) {
        let name = match &self.server {
            Some(server) => Some(server.name()).filter(|name| name != "?"),
            None => self.process.and_then(|it| programs::program(&proc::command_line(it.pid))),
        };
        self.seen_name = name.or_else(|| self.seen_name.take());
    }

    fn news(&self) -> String {
        let name = self.name();
        let now_ns = SystemClock.now_ns();
        let Some(server) = &self.server else {
            return format!("neither {name} nor anything below it has a stamp yet");
        };
        if let Some(why) = server.ignored(now_ns) {
            return format!("{name}: {why}");
        }
        match server.reading(now_ns) {
            MainStart::SetupSeen { spawn_ns, setup_done_ns } => {
                let setup = i128::from(setup_done_ns) - i128::from(spawn_ns);
                format!("{name} was set up in {}", duration(setup, false))
            }
            _ => format!("{name} is being set up"),
        }
    }
}

/// What has become of `server`: the latest stamp of its launch, below it, or, if it is gone,
/// wherever it left what it had launched. What else a launch script starts has the stamp of the
/// spawn too, but none of the end of the setup.
fn follow(server: &Stamped) -> Option<Stamped> {
    let is_there_still = is_there(server.process);
    let found = if is_there_still { Stamped::from(server.pid()) } else { Census::now().stamped };
    let may_be_it = |it: &Stamped| {
        it.setup_done.is_set()
            || if is_there_still { it.pid() == server.pid() } else { !server.setup_done.is_set() }
    };
    let of_its_launch =
        |it: &Stamped| it.is_of_launch_of(server) && may_be_it(it) && is_there(it.process);
    let latest = latest(found.into_iter().filter(of_its_launch).collect());
    // In the middle of an exec there is no environment, and some write over theirs.
    latest.or_else(|| is_there_still.then(|| server.clone()))
}

/// The one whose setup was done last; of a launch in setup, its top.
fn latest(stamped: Vec<Stamped>) -> Option<Stamped> {
    let now_ns = SystemClock.now_ns();
    let rank = |it: &Stamped| match it.reading(now_ns) {
        MainStart::SetupSeen { setup_done_ns, .. } => Some(setup_done_ns),
        MainStart::SpawnSeen { .. } => Some(0),
        MainStart::Nothing { .. } => None,
    };
    // Of several the first: whoever comes from the top, meets it first.
    let latest =
        stamped.into_iter().reduce(|best, it| if rank(&it) > rank(&best) { it } else { best });
    latest.map(Stamped::into_main)
}

/// Whether it is still the same process, and runs.
fn is_there(process: Process) -> bool {
    process.identity().now().is_some_and(|now| !now.ended)
}

/// How a process ended that its parent has not waited for yet.
fn exit(pid: i32) -> Option<Exit> {
    let status = ExitStatus::from_raw(proc::wait_status(pid)?);
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).ok().map(Exit::Status),
        (None, signal) => signal.map(Exit::Signal),
    }
}
