//! Ends processes and all that they started: asks, asks again, and then forces.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, getpgrp};

use crate::proc::{Process, Processes, ignores, own_pid};

/// After SIGKILL: for what hangs in the system itself there is nothing more to do.
const LAST_WAIT: Duration = Duration::from_secs(5);
/// How often it is looked whether somebody is left. Mostly SIGCHLD tells sooner.
const PAUSE: Duration = Duration::from_millis(50);
/// The same after SIGKILL, as what is forked meanwhile has to be found.
const SHORT_PAUSE: Duration = Duration::from_millis(5);

/// The end of everything below this process: SIGINT as from a terminal; SIGTERM when the grace time
/// is over, or all that are left ignore SIGINT; SIGKILL after as long again.
///
/// This process is a subreaper, so nothing below it escapes, and when no child is left nothing is.
#[derive(Debug)]
pub struct Ending {
    /// What is sent next, and when; after SIGKILL nothing is, and that is when we give up.
    next: Option<Signal>,
    at: Instant,
    grace: Duration,
    /// Whose end is somebody else's business, with all below them.
    spared: Vec<Pid>,
    /// Who is not below this process, and ends all the same.
    others: Vec<Process>,
}

/// What a step did.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// Somebody is left; look again when the time has come, or a child has ended.
    Waiting { again: Instant },
    /// So many processes were just sent a signal.
    Sent { signal: Signal, processes: usize },
    /// Nobody is left, or only those that nothing ends.
    Over { left: usize },
}

impl Ending {
    /// Begins with `first`: SIGINT, SIGTERM or SIGKILL. Nothing is sent yet.
    pub fn new(first: Signal, grace: Duration) -> Self {
        Self {
            next: Some(first),
            at: Instant::now(),
            grace,
            spared: Vec::new(),
            others: Vec::new(),
        }
    }

    /// Leaves `spared` alone, and all below them.
    pub fn sparing(mut self, spared: Vec<Pid>) -> Self {
        self.spared = spared;
        self
    }

    /// Ends `others` too, and all below them; not their groups, which others may be in.
    pub fn including(mut self, others: Vec<Process>) -> Self {
        self.others = others;
        self
    }

    /// Goes on to force.
    pub fn kill_now(&mut self) {
        if self.next.is_some() {
            (self.next, self.at) = (Some(Signal::SIGKILL), Instant::now());
        }
    }

    /// Does what is due. Ended children were waited for before. The processes `leaders`, children
    /// of ours, lead groups of their own: those are reached even where `/proc` tells nothing.
    pub fn step(&mut self, leaders: &[Pid]) -> Progress {
        let now = Instant::now();
        let below = self.below();
        let alone = if self.spared.is_empty() { !has_children() } else { leaders.is_empty() };
        if below.is_empty() && alone {
            return Progress::Over { left: 0 };
        }
        // As of a script's jobs in the background: no grace time is of any use to them.
        if self.next == Some(Signal::SIGTERM)
            && !below.is_empty()
            && below.iter().all(|process| ignores(process.pid, Signal::SIGINT))
        {
            self.at = now;
        }
        if now < self.at {
            let mut pause = PAUSE;
            if self.next.is_none() {
                self.send(Signal::SIGKILL, &below, leaders);
                pause = SHORT_PAUSE;
            }
            return Progress::Waiting { again: self.at.min(now + pause) };
        }
        let Some(signal) = self.next else {
            return Progress::Over { left: below.len().max(1) };
        };
        (self.next, self.at) = match signal {
            Signal::SIGKILL => (None, now + LAST_WAIT),
            Signal::SIGTERM => (Some(Signal::SIGKILL), now + self.grace),
            _ => (Some(Signal::SIGTERM), now + self.grace),
        };
        self.send(signal, &below, leaders);
        Progress::Sent { signal, processes: below.len().max(leaders.len()) }
    }

    /// Who is to end, and is there.
    fn below(&mut self) -> Vec<Process> {
        let processes = Processes::now();
        let mut spared: HashSet<i32> = self.spared.iter().map(|pid| pid.as_raw()).collect();
        for pid in &self.spared {
            spared.extend(processes.below(pid.as_raw()).iter().map(|process| process.pid));
        }
        let mut below = processes.below(own_pid());
        below.retain(|process| !spared.contains(&process.pid));
        // What was below the others once stays with them, whoever its parent is by now; but a pid
        // could have become somebody else's.
        let known = std::mem::take(&mut self.others);
        let is_there = |it: &&Process| processes.same(it).is_some();
        for other in known.iter().filter(is_there) {
            for process in
                processes.get(other.pid).copied().into_iter().chain(processes.below(other.pid))
            {
                if !self.others.iter().any(|it| it.pid == process.pid) {
                    self.others.push(process);
                }
            }
        }
        below.extend(&self.others);
        below.retain(|process| !process.ended);
        below
    }

    /// To groups, as a terminal does it; one by one to those that are in ours, or in that of
    /// somebody who is not to end. Whoever is gone by now needs no signal.
    fn send(&self, signal: Signal, to: &[Process], leaders: &[Pid]) {
        let mut not_ours: HashSet<i32> = self.others.iter().map(|other| other.group).collect();
        not_ours.insert(getpgrp().as_raw());
        let (singly, in_groups): (Vec<&Process>, Vec<&Process>) =
            to.iter().partition(|process| not_ours.contains(&process.group));
        let groups = in_groups.iter().map(|process| Pid::from_raw(process.group));
        let groups: HashSet<Pid> = groups.chain(leaders.iter().copied()).collect();
        let each = |signal| {
            for &group in &groups {
                killpg(group, signal).unwrap_or_default();
            }
            for process in &singly {
                kill(Pid::from_raw(process.pid), signal).unwrap_or_default();
            }
        };
        each(signal);
        if signal == Signal::SIGTERM {
            // One that is stopped would not hear of it.
            each(Signal::SIGCONT);
        }
    }
}

fn has_children() -> bool {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::All, look) != Err(Errno::ECHILD)
}
