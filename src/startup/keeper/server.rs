//! What the keeper knows of one server.

use std::time::Duration;

use nix::unistd::Pid;
use tokio::time::Instant;

use super::launch::Launched;
use super::sight::{Launch, Sight};
use crate::events::{Exit, Unready};
use crate::probe::Answer;
use crate::proc::Process;
use crate::rhythm::SHORTEST_PAUSE;

/// One server that was spawned, or will not be any more.
pub struct Server {
    /// Its launch process, until that has been waited for.
    pub root: Option<Pid>,
    pub launch: Option<Launch>,
    pub launched: Option<Launched>,
    pub state: State,
    /// What its launch process left when it ended well. Whatever name such a process takes later, it
    /// is still the server's.
    pub left_behind: Vec<Process>,
    /// How the last of those ended that came to us.
    pub left_exit: Exit,
    pub deadline: Option<Instant>,
    pub sight: Sight,
    pub probe: Probing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Starting,
    Ready,
    /// The launch process has ended, and its last output is awaited.
    Ending {
        was_ready: bool,
        exit: Exit,
        at_ns: u64,
        until: Instant,
    },
    /// The launch process has ended well, and left others that are the server now.
    Daemon {
        was_ready: bool,
    },
    Gone,
}

impl State {
    pub fn awaits_ready(self) -> bool {
        matches!(self, Self::Starting | Self::Daemon { was_ready: false })
    }
}

/// When the next probe is due.
pub struct Probing {
    pub asking: bool,
    next: Instant,
    /// The next one even if nobody seems to listen: some networks do not show it.
    blind: Instant,
    pause: Duration,
    /// What the last look found.
    pub last: Option<Unready>,
    /// What was told of it last.
    pub told: Option<Unready>,
}

impl Probing {
    const BLIND_PAUSE: Duration = Duration::from_secs(2);
    const LONGEST: Duration = Duration::from_millis(500);

    pub fn new() -> Self {
        let now = Instant::now();
        let blind = now + Self::BLIND_PAUSE;
        Self { asking: false, next: now, blind, pause: SHORTEST_PAUSE, last: None, told: None }
    }

    /// Whether it is time to ask, when `listening` says whether somebody listens, if it is known.
    pub fn is_due(&self, now: Instant, listening: Option<bool>) -> bool {
        !self.asking && now >= if listening == Some(false) { self.blind } else { self.next }
    }

    /// Slower and slower while somebody answers, and nothing that counts.
    pub fn answered(&mut self, answer: &Answer, waiting: usize) {
        let crowd = u32::try_from(waiting / 50).unwrap_or(u32::MAX).saturating_add(1);
        self.pause = match answer {
            Answer::Unready(Unready::Nobody(_)) => {
                SHORTEST_PAUSE.saturating_mul(crowd).min(Self::LONGEST)
            }
            _ => (self.pause * 5 / 4).min(Self::LONGEST),
        };
        self.asking = false;
        let now = Instant::now();
        (self.next, self.blind) = (now + self.pause, now + Self::BLIND_PAUSE);
    }
}

impl Server {
    /// The last lines that it wrote.
    pub fn last_lines(&self) -> Vec<String> {
        self.launched.as_ref().map(Launched::last_lines).unwrap_or_default()
    }
}
