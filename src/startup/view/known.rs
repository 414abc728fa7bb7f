//! What is known of a run from its events, and in words.

use crate::events::Event;
use crate::fleet::Server;
use crate::words::{counted, duration, harmless};

/// What is known of all servers.
pub struct Known {
    /// Names that cannot harm a terminal.
    pub names: Vec<String>,
    pub states: Vec<State>,
    pub began_ns: u64,
    pub unicode: bool,
}

/// What is known of one server.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub spawned_ns: Option<u64>,
    pub setup_done_ns: Option<u64>,
    /// What runs inside `venv_setup`, and since when.
    pub steps: Vec<(String, u64)>,
    /// Whether anything ever did: until a stamp says otherwise, it is still that.
    had_steps: bool,
    pub answer: Option<String>,
    pub ready_ns: Option<u64>,
    /// How it failed, and when.
    pub failed: Option<(String, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Waiting,
    /// Spawned, and nothing else seen yet.
    Launched,
    VenvSetup,
    ServerStart,
    Ready,
    Failed,
}

impl Stage {
    pub const ALL: [Self; 6] = [
        Self::Failed,
        Self::Waiting,
        Self::Launched,
        Self::VenvSetup,
        Self::ServerStart,
        Self::Ready,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Launched => "launched",
            Self::VenvSetup => "venv_setup",
            Self::ServerStart => "server_start",
            Self::Ready => "ready",
            Self::Failed => "failed",
        }
    }
}

impl State {
    pub fn stage(&self) -> Stage {
        if self.failed.is_some() {
            return Stage::Failed;
        }
        match (self.ready_ns, self.setup_done_ns, self.spawned_ns) {
            (Some(_), ..) => Stage::Ready,
            (_, Some(_), _) => Stage::ServerStart,
            (.., Some(_)) if self.had_steps => Stage::VenvSetup,
            (.., Some(_)) => Stage::Launched,
            _ => Stage::Waiting,
        }
    }
}

impl Known {
    pub fn new(servers: &[Server], began_ns: u64, unicode: bool) -> Self {
        let name = |server: &Server| harmless(&server.name, unicode).into_owned();
        Self {
            names: servers.iter().map(name).collect(),
            states: vec![State::default(); servers.len()],
            began_ns,
            unicode,
        }
    }

    pub fn name(&self, server: usize) -> &str {
        self.names.get(server).map_or("", String::as_str)
    }

    pub fn duration(&self, later_ns: u64, earlier_ns: u64) -> String {
        duration(since(later_ns, earlier_ns), self.unicode)
    }

    pub fn learn(&mut self, event: &Event) {
        let (server, learnt): (usize, &dyn Fn(&mut State)) = match event {
            Event::Spawned { server, at_ns, .. } => {
                (*server, &|state| state.spawned_ns = Some(*at_ns))
            }
            Event::NotSpawned { server, at_ns, error } => {
                (*server, &|state| state.failed = Some((error.to_string(), *at_ns)))
            }
            Event::StepBegan { server, name, start_ns } => (*server, &|state| {
                state.steps.push((name.clone(), *start_ns));
                state.had_steps = true;
            }),
            Event::StepEnded { server, name, start_ns, .. } => (*server, &|state| {
                state.steps.retain(|step| step.0 != *name || step.1 != *start_ns);
            }),
            Event::SetupDone { server, setup_done_ns } => {
                (*server, &|state| state.setup_done_ns = Some(*setup_done_ns))
            }
            Event::NotYet { server, answer, .. } => {
                (*server, &|state| state.answer = Some(answer.clone()))
            }
            Event::Ready { server, at_ns } => (*server, &|state| state.ready_ns = Some(*at_ns)),
            Event::PortTakenLater { server, at_ns, holder } => (*server, &move |state| {
                state.failed = Some((format!("{holder} answers in its place"), *at_ns));
            }),
            Event::TimedOut { server, at_ns, .. } => {
                (*server, &|state| state.failed = Some(("not ready in time".to_owned(), *at_ns)))
            }
            Event::Exited { server, at_ns, exit, .. } => {
                (*server, &|state| state.failed = Some((exit.to_string(), *at_ns)))
            }
            _ => return,
        };
        if let Some(state) = self.states.get_mut(server) {
            learnt(state);
        }
    }

    /// An event in words, where there is something to tell.
    pub fn words(&self, event: &Event) -> Option<String> {
        let spawned_ns = |server: usize| {
            let spawned_ns = self.states.get(server).and_then(|state| state.spawned_ns);
            spawned_ns.unwrap_or(self.began_ns)
        };
        let after = |server: usize, at_ns| self.duration(at_ns, spawned_ns(server));
        let (server, words) = match event {
            Event::Spawned { server, pid, .. } => (*server, format!("launched as process {pid}")),
            Event::StepBegan { server, name, .. } => (*server, format!("{name} is running")),
            Event::StepEnded { server, name, start_ns, end_ns } => {
                (*server, format!("{name} took {}", self.duration(*end_ns, *start_ns)))
            }
            Event::SetupDone { server, setup_done_ns } => {
                (*server, format!("venv_setup took {}", after(*server, *setup_done_ns)))
            }
            Event::NoStamp { server, why } => (*server, why.to_string()),
            Event::NotYet { server, answer, .. } => (*server, format!("{answer}: not ready yet")),
            Event::Ready { server, at_ns } => {
                (*server, format!("ready after {}", after(*server, *at_ns)))
            }
            Event::TimedOut { server, at_ns, .. } => {
                (*server, format!("not ready after {}", after(*server, *at_ns)))
            }
            Event::Exited { server, at_ns, exit, .. } => {
                (*server, format!("{exit} after {}", after(*server, *at_ns)))
            }
            Event::Ending { signal, processes, .. } => {
                return Some(format!(
                    "ending: {signal} to {}",
                    counted(*processes, "process", "processes")
                ));
            }
            Event::Ended { left: left @ 1.., .. } => {
                let left = counted(*left, "process", "processes");
                return Some(format!("{left} could not be ended, not even by SIGKILL"));
            }
            Event::Missed { events } => {
                return Some(format!("{} not told", counted(*events, "event", "events")));
            }
            Event::AllSpawned { .. }
            | Event::Ended { .. }
            | Event::PortTaken { .. }
            | Event::PortTakenLater { .. }
            | Event::NotSpawned { .. } => return None,
        };
        let words = harmless(&words, self.unicode).into_owned();
        Some(format!("{}: {words}", self.name(server)))
    }

    /// That all are ready, since `ready_ns`; `stays` if they are kept until somebody ends them.
    pub fn headline(&self, ready_ns: u64, stays: bool) -> String {
        let took = self.duration(ready_ns, self.began_ns);
        let (who, them) = match self.names.as_slice() {
            [_] => (format!("{} is", self.name(0)), "it"),
            [_, _] => ("both servers are".to_owned(), "them"),
            more => (format!("all {} servers are", more.len()), "them"),
        };
        let end = match stays {
            true => format!("; Ctrl-C ends {them}"),
            false => String::new(),
        };
        format!("gym-startup: {who} ready after {took}{end}\n")
    }
}

pub fn since(later_ns: u64, earlier_ns: u64) -> i128 {
    i128::from(later_ns).saturating_sub(i128::from(earlier_ns))
}
