//! The front's own processes: the command of `--then`, an exporter, and all that they start.
//!
//! The keeper is a child of the front, and so is what those orphan, for the front is a subreaper.
//! When it is gone its children go to whoever is above it, and nothing tells any more whose they
//! were. So they are noted down while it is there; what one started in the moment before the
//! front's end, and let go at once, is not known.

use std::collections::HashSet;
use std::time::Duration;

use nix::unistd::getppid;
use tokio::time::Instant;

use crate::proc::{Process, Processes, own_pid};
use crate::rhythm::Rhythm;

const PAUSE: Duration = Duration::from_millis(250);

/// Those that are to end with the front.
pub struct Minded {
    front: i32,
    known: Vec<Process>,
    looks: Rhythm,
}

impl Minded {
    pub fn new() -> Self {
        Self { front: getppid().as_raw(), known: Vec::new(), looks: Rhythm::no_faster_than(PAUSE) }
    }

    /// Minds `pid` too, a process that the front started.
    pub fn add(&mut self, pid: i32) {
        self.known.extend(Processes::now().get(pid));
        self.looks.next = Instant::now();
    }

    /// When to look again, if anybody is there.
    pub fn due(&self) -> Option<Instant> {
        (!self.known.is_empty()).then_some(self.looks.next)
    }

    /// Looks who has come and who has gone.
    pub fn look(&mut self) {
        let Self { front, known, looks } = self;
        looks.look(|| {
            let processes = Processes::now();
            let is_there = |it: &Process| processes.same(it).is_some_and(|now| !now.ended);
            known.retain(is_there);
            let keeper = own_pid();
            // If our parent is another one, so is that process by now.
            if processes.get(keeper).is_none_or(|it| it.parent != *front) {
                return;
            }
            let not_its_own = processes.below(keeper).into_iter().map(|it| it.pid);
            let mut others: HashSet<i32> = not_its_own.chain([keeper]).collect();
            others.extend(known.iter().map(|it| it.pid));
            let below = processes.below(*front).into_iter();
            known.extend(below.filter(|it| !it.ended && !others.contains(&it.pid)));
        });
    }

    /// Those that were there at the last look.
    pub fn known(&self) -> Vec<Process> {
        self.known.clone()
    }
}
