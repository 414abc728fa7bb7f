//! What can be seen of a server from outside: its stamp, and what runs until it is set.

use std::collections::{HashMap, HashSet};
use std::io;

use gym_stamp::contract;

use crate::events::{Event, NoStamp};
use crate::proc::{self, Identity, Process};
use crate::programs;

/// A program that runs inside `venv_setup` is told of when it has run for this long.
const TELLING_NS: u64 = 200_000_000;

/// What was seen of one server so far.
#[derive(Debug, Default)]
pub struct Sight {
    setup_done_ns: Option<u64>,
    forbidden: bool,
    overwritten: bool,
    out_of_order: bool,
    seen: bool,
    running: HashMap<Identity, Step>,
}

#[derive(Debug)]
struct Step {
    name: String,
    start_ns: u64,
    told: bool,
}

/// One look at everything: what is the same for all servers.
pub struct Look {
    pub at_ns: u64,
    pub waiting_for_locks: HashSet<i32>,
}

/// A server's launch process.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    pub pid: i32,
    pub spawn_ns: u64,
}

impl Sight {
    /// Looks at the `processes` of the server number `server`; returns what is new.
    pub fn look(
        &mut self,
        server: usize,
        launch: Launch,
        processes: &[Process],
        look: &Look,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        let before = self.setup_done_ns;
        let mut at_work = HashMap::new();
        let missed: Vec<_> = self.running.keys().filter_map(|it| missed(*it, processes)).collect();
        for process in processes.iter().chain(&missed).filter(|process| !process.ended) {
            self.seen = true;
            let stamped = self.read_stamp(process.pid, launch, look.at_ns);
            if !stamped
                && process.pid != launch.pid
                && before.is_none()
                && let Some(name) = name(process.pid, look)
            {
                at_work.insert(process.identity(), name);
            }
        }
        match self.setup_done_ns {
            None => self.compare(server, launch, at_work, look.at_ns, &mut events),
            Some(setup_done_ns) if before != Some(setup_done_ns) => {
                // Whatever goes on beyond the stamp is no longer setup.
                for (_, step) in self.running.drain() {
                    events.extend(step.ended(server, setup_done_ns.min(look.at_ns)));
                }
                events.push(Event::SetupDone { server, setup_done_ns });
            }
            Some(_) => {}
        }
        events
    }

    /// Why there is no stamp, if there is none.
    pub fn no_stamp(&self) -> Option<NoStamp> {
        if self.setup_done_ns.is_some() {
            return None;
        }
        Some(match self {
            Self { out_of_order: true, .. } => NoStamp::OutOfOrder,
            Self { forbidden: true, .. } => NoStamp::Forbidden,
            Self { overwritten: true, .. } => NoStamp::Overwritten,
            Self { seen: true, .. } => NoStamp::NotSet,
            _ => NoStamp::Unseen,
        })
    }

    /// Whether the process has a stamp of this launch. The latest one counts.
    fn read_stamp(&mut self, pid: i32, launch: Launch, now_ns: u64) -> bool {
        let environ = match proc::environ(pid) {
            Ok(environ) => environ,
            Err(error) => {
                self.forbidden |= error.kind() == io::ErrorKind::PermissionDenied;
                return false;
            }
        };
        let Some(spawn) = proc::variable(&environ, contract::SPAWN_NS) else {
            // In the middle of an exec there is none at all.
            self.overwritten |= !environ.is_empty();
            return false;
        };
        let ours = contract::read_ns(spawn) == Some(launch.spawn_ns);
        let stamp = proc::variable(&environ, contract::SETUP_DONE_NS).and_then(contract::read_ns);
        let Some(stamp) = stamp.filter(|_| ours) else { return false };
        if (launch.spawn_ns..=now_ns).contains(&stamp) {
            self.setup_done_ns = self.setup_done_ns.max(Some(stamp));
        } else {
            self.out_of_order = true;
        }
        true
    }

    fn compare(
        &mut self,
        server: usize,
        launch: Launch,
        mut at_work: HashMap<Identity, String>,
        now_ns: u64,
        events: &mut Vec<Event>,
    ) {
        let mut changed = HashSet::new();
        let over = self.running.extract_if(|identity, step| match at_work.get(identity) {
            None => true,
            Some(name) if *name != step.name => changed.insert(*identity),
            Some(_) => {
                at_work.remove(identity);
                false
            }
        });
        events.extend(over.filter_map(|(_, step)| step.ended(server, now_ns)));
        for (identity, name) in at_work {
            let start_ns =
                proc::start_ns(identity.start_ticks).filter(|_| !changed.contains(&identity));
            let start_ns = start_ns.unwrap_or(now_ns).max(launch.spawn_ns);
            self.running.insert(identity, Step { name, start_ns, told: false });
        }
        for step in self.running.values_mut().filter(|step| !step.told) {
            if now_ns.saturating_sub(step.start_ns) >= TELLING_NS {
                step.told = true;
                let (name, start_ns) = (step.name.clone(), step.start_ns);
                events.push(Event::StepBegan { server, name, start_ns });
            }
        }
    }
}

impl Step {
    fn ended(self, server: usize, end_ns: u64) -> Option<Event> {
        let Self { name, start_ns, told } = self;
        let long = end_ns.saturating_sub(start_ns) >= TELLING_NS;
        (told || long).then_some(Event::StepEnded { server, name, start_ns, end_ns })
    }
}

/// A step that goes on, though it is not among `processes`: a quick look may miss one.
fn missed(step: Identity, processes: &[Process]) -> Option<Process> {
    if processes.iter().any(|it| it.identity() == step) {
        return None;
    }
    step.now()
}

fn name(pid: i32, look: &Look) -> Option<String> {
    let name = programs::name(&proc::command_line(pid))?;
    Some(if look.waiting_for_locks.contains(&pid) {
        format!("{name}, waiting for a lock")
    } else {
        name
    })
}

/// The spawn that the process `pid` comes from, as its environment has it.
pub fn spawn_ns(pid: i32) -> Option<u64> {
    contract::read_ns(proc::variable(&proc::environ(pid).ok()?, contract::SPAWN_NS)?)
}
