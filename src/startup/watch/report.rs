//! What is told of the startup that was watched: spans, and words.

use std::io;
use std::time::Duration;

use gym_stamp::contract::{self, MainStart};
use gym_stamp::server::VENV_SETUP;
use gym_stamp::spans::{RandomIds, SpanRecord, Status, server_spans};
use gym_stamp::telemetry::Process;
use gym_stamp::timeline::{Clock, Stage, SystemClock};
use nix::sys::signal::Signal;

use super::target::Target;
use super::{Plan, span_of};
use crate::events::{Exit, Unready};
use crate::proc;
use crate::record::{SERVER_START, Ways};
use crate::say::{self, say};
use crate::stamped::{Stamped, unreadable};
use crate::status::{FAILED, TIMED_OUT};
use crate::terminal::{self, Channel};
use crate::waterfall::{self, Entry, Look};
use crate::words::duration;

/// The span of a server's whole startup.
const WHOLE: &str = "gym.server.startup";
/// The stage that a startup was in when it came to nothing.
const UNFINISHED: &str = "unfinished";
/// Starts are as coarse as a hundredth of a second.
const WORTH_A_WORD_NS: u64 = 20_000_000;
/// linux/proc_ns.h: PROC_PID_INIT_INO.
const MACHINES_OWN: &str = "pid:[4026531836]";
/// Where no terminal says how wide it is.
const USUAL_WIDTH: usize = 80;

/// How it went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// `proxy` is who listens there, where that is none of its processes.
    Ready {
        at_ns: u64,
        proxy: Option<String>,
    },
    /// It was ready when it was first asked: since when, nobody can tell.
    Already {
        proxy: Option<String>,
    },
    /// A server of another launch listens where it would.
    AnotherAnswers {
        at_ns: u64,
        listener: String,
    },
    /// How, if that could be seen.
    Ended {
        at_ns: u64,
        exit: Option<Exit>,
    },
    TimedOut {
        at_ns: u64,
        last_look: Option<Unready>,
    },
    Interrupted(Signal),
}

/// What is known of the startup now that it is over.
pub struct Report<'a> {
    plan: &'a Plan,
    target: &'a Target,
    outcome: Outcome,
    now_ns: u64,
    spans: Vec<SpanRecord>,
}

impl<'a> Report<'a> {
    pub fn new(plan: &'a Plan, target: &'a Target, outcome: Outcome) -> Self {
        let now_ns = SystemClock.now_ns();
        let mut report = Self { plan, target, outcome, now_ns, spans: Vec::new() };
        if let Some(server) = target.server() {
            report.spans = report.spans(server);
        }
        report
    }

    /// Writes the record, if there is to be one; returns what an exporter is to be given, and how
    /// long it may take by its own reckoning.
    pub fn record(&self) -> Option<(Vec<u8>, Duration)> {
        let server = self.target.server().filter(|_| !self.spans.is_empty());
        let Some(server) = server else {
            if self.plan.out.is_some() {
                say("--out: nothing was recorded");
            }
            return None;
        };
        let process = Process {
            pid: server.pid().unsigned_abs(),
            // The version that is known here is ours.
            ..Process::server(&self.server_name(server), self.plan.server_type.as_deref(), "")
        };
        let ways = Ways::of(&process, self.plan.out.clone());
        ways.warnings.iter().for_each(say);
        if let Err(why) = server.parent_span() {
            let name = self.target.name();
            say(format_args!("{name}: its {} is ignored: {why}", contract::TRACEPARENT));
        }
        if let Err(error) = ways.write(&self.spans) {
            say(format_args!("--out: {error}"));
        }
        ways.to_export(&self.spans).map(|line| (line, ways.timeout()))
    }

    /// Shows where the time went.
    pub fn show(&self) {
        let is_ready = matches!(self.outcome, Outcome::Ready { .. } | Outcome::Already { .. });
        if self.plan.quiet {
            if !is_ready {
                say(self.headline());
            }
            self.doubt().iter().for_each(say);
            return;
        }
        let env = |name: &str| std::env::var_os(name);
        if !self.spans.is_empty() {
            let look = Look {
                width: terminal::width(io::stderr(), USUAL_WIDTH),
                unicode: terminal::is_unicode(&env),
                colour: Channel::stderr().colour,
                most_children: usize::MAX,
            };
            let entries: Vec<_> = self.spans.iter().map(Entry::from).collect();
            say::write(&format!("\n{}\n", waterfall::draw(&entries, &look)));
        }
        if self.target.process().is_some() || !is_ready {
            say(self.headline());
        }
        self.notes().iter().for_each(say);
    }

    /// The status to exit with.
    ///
    /// # Errors
    ///
    /// Why nothing could be found out of a server that is ready.
    pub fn status(&self) -> Result<u8, String> {
        match &self.outcome {
            Outcome::Ready { .. } | Outcome::Already { .. } if self.target.process().is_some() => {
                Ok(0)
            }
            Outcome::Ready { .. } | Outcome::Already { .. } => {
                let unseen = self.target.unseen().filter(|&unseen| unseen > 0).map(unreadable);
                Err(format!(
                    "{} answers, but no process that can be seen listens there: watch on its \
                     machine, or name it by --pid{}",
                    self.plan.ready,
                    unseen.map(|unseen| format!("; {unseen}")).unwrap_or_default()
                ))
            }
            Outcome::Ended { .. } | Outcome::AnotherAnswers { .. } => Ok(FAILED),
            Outcome::TimedOut { .. } => Ok(TIMED_OUT),
            Outcome::Interrupted(signal) => Ok(Exit::Signal(*signal as i32).status()),
        }
    }

    fn server_name(&self, server: &Stamped) -> String {
        self.target.short_name().map_or_else(|| server.name(), str::to_owned)
    }

    /// What the stamps tell, and how it ended. A server may be ready after all when somebody has
    /// lost patience: then nothing is told of it.
    fn spans(&self, server: &Stamped) -> Vec<SpanRecord> {
        let ready_ns = match self.outcome {
            Outcome::Ready { at_ns, .. } => at_ns,
            _ => u64::MAX,
        };
        let (spawn_ns, setup_done_ns) = match server.reading(self.now_ns) {
            // What answered before the setup was done was somebody else, such as a proxy.
            MainStart::SetupSeen { spawn_ns, setup_done_ns } => {
                (spawn_ns, Some(setup_done_ns).filter(|&it| it <= ready_ns))
            }
            MainStart::SpawnSeen { spawn_ns, .. } => (spawn_ns, None),
            MainStart::Nothing { .. } => return Vec::new(),
        };
        let stage =
            |name: &str, start_ns, end_ns| Stage { name: name.to_owned(), start_ns, end_ns };
        let setup = setup_done_ns.map(|end_ns| stage(VENV_SETUP, spawn_ns, end_ns));
        let rest = |name, end_ns| Some(stage(name, setup_done_ns.unwrap_or(spawn_ns), end_ns));
        let last = match self.outcome {
            Outcome::Interrupted(_) => return Vec::new(),
            Outcome::Already { .. } => None,
            Outcome::Ready { at_ns, .. } => rest(SERVER_START, at_ns),
            Outcome::Ended { at_ns, .. }
            | Outcome::TimedOut { at_ns, .. }
            | Outcome::AnotherAnswers { at_ns, .. } => rest(UNFINISHED, at_ns),
        };
        let stages: Vec<_> = setup.into_iter().chain(last).collect();
        let name = self.server_name(server);
        let process = server.as_server(&name, self.plan.server_type.as_deref());
        let parent = server.parent_span().unwrap_or_default();
        let mut spans = server_spans(&process, &stages, parent, &mut RandomIds);
        match self.outcome {
            // When the whole ended is not known: there is the setup, where the whole would stand.
            Outcome::Already { .. } => {
                spans.retain(|span| span.name != WHOLE);
                for span in &mut spans {
                    span.parent_span_id = parent.map(|parent| parent.span_id);
                }
            }
            // Setup and start are not told apart: there is the whole, and no stage.
            Outcome::Ready { .. } if setup_done_ns.is_none() => spans.truncate(1),
            Outcome::Ended { .. } | Outcome::TimedOut { .. } | Outcome::AnotherAnswers { .. } => {
                let last = spans.len().saturating_sub(1);
                for (number, span) in spans.iter_mut().enumerate() {
                    if number == 0 || number == last {
                        span.status = Status::Error(self.headline());
                    }
                }
            }
            _ => {}
        }
        spans
    }

    fn headline(&self) -> String {
        let (name, ready) = (self.target.name(), &self.plan.ready);
        match &self.outcome {
            Outcome::Ready { at_ns, .. } => match self.began() {
                Some((began_ns, how)) => {
                    let took = i128::from(*at_ns) - i128::from(began_ns);
                    format!("{name} is ready, {} after {how}", duration(took, false))
                }
                None => format!("{name} is ready"),
            },
            Outcome::Already { .. } => {
                format!("{name} was ready when it was first asked: since when is not known")
            }
            Outcome::AnotherAnswers { listener, .. } => format!(
                "{name} is not what answers at {ready}: {listener} listens there, which has the \
                 stamp of another launch"
            ),
            Outcome::Ended { exit: Some(exit), .. } => format!("{name} {exit} before it was ready"),
            Outcome::Ended { exit: None, .. } => {
                format!("{name} has ended before it was ready; how is not known")
            }
            Outcome::TimedOut { last_look, .. } => {
                let limit = span_of(self.plan.timeout.unwrap_or_default());
                let look = last_look.as_ref().map(ToString::to_string);
                let look = look.unwrap_or_else(|| "it was not asked".to_owned());
                format!("{name} was not ready at {ready} within {limit}: {look}")
            }
            Outcome::Interrupted(signal) => format!("ended by {signal} before {name} was ready"),
        }
    }

    /// Where the time of the whole begins.
    fn began(&self) -> Option<(u64, &'static str)> {
        let reading = self.target.server().map(|server| server.reading(self.now_ns));
        match reading {
            Some(MainStart::SetupSeen { spawn_ns, .. } | MainStart::SpawnSeen { spawn_ns, .. }) => {
                Some((spawn_ns, "it was spawned"))
            }
            _ => {
                let start_ns = proc::start_ns(self.target.process()?.start_ticks)?;
                Some((start_ns, "its process was started"))
            }
        }
    }

    /// Why it may not be ready after all.
    fn doubt(&self) -> Option<String> {
        let (Outcome::Ready { proxy, .. } | Outcome::Already { proxy }) = &self.outcome else {
            return None;
        };
        let proxy = proxy.as_ref()?;
        Some(format!(
            "but it is {proxy} that listens there, and it is ready only if it is behind that"
        ))
    }

    fn notes(&self) -> Vec<String> {
        let Some(server) = self.target.server() else {
            let unstamped = self.target.process().map(|_| {
                "it has no stamp in its environment, or has written over it, so nothing is known \
                 of its setup: put gym-stamp before its command"
            });
            return unstamped.into_iter().map(str::to_owned).chain(self.doubt()).collect();
        };
        let mut notes: Vec<_> = server.ignored(self.now_ns).into_iter().collect();
        if let MainStart::SpawnSeen { spawn_ns, .. } | MainStart::SetupSeen { spawn_ns, .. } =
            server.reading(self.now_ns)
        {
            if server.is_in_setup(self.now_ns) && matches!(self.outcome, Outcome::Ready { .. }) {
                let why =
                    "it has no stamp of the end of its setup: setup and start are not told apart";
                notes.push(why.to_owned());
            }
            notes.extend(starts(server.process, spawn_ns));
        }
        notes.extend(self.doubt());
        notes
    }
}

/// What the kernel shows of the time before the spawn.
fn starts(process: proc::Process, spawn_ns: u64) -> Vec<String> {
    let before = |who: &str, process: proc::Process| {
        let start_ns = proc::start_ns(process.start_ticks)?;
        let before_ns = spawn_ns.checked_sub(start_ns).filter(|&ns| ns >= WORTH_A_WORD_NS)?;
        let before = duration(before_ns.into(), false);
        Some(format!("{who} is {before} older than its spawn stamp: that time is not counted"))
    };
    let container = container(process);
    let own = before("its process", process).filter(|_| container != Some(process));
    container.and_then(|first| before("its container", first)).into_iter().chain(own).collect()
}

/// The first process of the container that `process` is in: number 1 of a pid namespace that is
/// not the machine's own.
fn container(process: proc::Process) -> Option<proc::Process> {
    let namespace = proc::namespace(process.pid, "pid")?;
    if namespace.as_os_str() == MACHINES_OWN {
        return None;
    }
    let mut from_here = [process].into_iter().chain(proc::above(process));
    let first = from_here.find(|it| proc::inner_pid(it.pid) == Some(1))?;
    (proc::namespace(first.pid, "pid")? == namespace).then_some(first)
}
