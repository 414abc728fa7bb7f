//! How often to look.

use std::time::Duration;

use tokio::time::Instant;

use crate::proc::cpu_time;

/// How often the keeper looks at its servers.
pub const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// A look may take this part of the time: two percent of a core.
const SHARE: u32 = 50;

/// Looks that take a small part of the time, whatever one costs.
pub struct Rhythm {
    pub next: Instant,
    shortest_pause: Duration,
}

impl Rhythm {
    pub fn new() -> Self {
        Self::no_faster_than(SHORTEST_PAUSE)
    }

    pub fn no_faster_than(shortest_pause: Duration) -> Self {
        Self { next: Instant::now(), shortest_pause }
    }

    pub fn look<T>(&mut self, look: impl FnOnce() -> T) -> T {
        let before = cpu_time();
        let result = look();
        let cost = cpu_time().saturating_sub(before);
        let pause = cost.saturating_mul(SHARE).clamp(self.shortest_pause, LONGEST_PAUSE);
        self.next = Instant::now() + pause;
        result
    }
}
