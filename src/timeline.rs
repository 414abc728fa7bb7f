//! Stages of a startup, one after the other.

use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the time that stamps and stages are measured in.
///
/// A closure is a clock: tests hand in one that stands still or jumps.
pub trait Clock {
    /// Nanoseconds since the epoch.
    fn now_ns(&self) -> u64;
}

impl<F: Fn() -> u64> Clock for F {
    fn now_ns(&self) -> u64 {
        self()
    }
}

/// `CLOCK_REALTIME`, which every process of a startup reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SystemClock;

impl Clock for SystemClock {
    /// A clock set before 1970 reads as zero, which nobody takes for a stamp.
    fn now_ns(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// One contiguous slice of startup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// What went on in it, in the caller's own words.
    pub name: String,
    /// Nanoseconds since the epoch.
    pub start_ns: u64,
    /// Nanoseconds since the epoch.
    pub end_ns: u64,
}

impl Stage {
    /// `(end_ns - start_ns) / 1e6`, in milliseconds.
    ///
    /// Negative if the wall clock was set back meanwhile: what was measured is not mended.
    pub fn duration_ms(&self) -> f64 {
        (i128::from(self.end_ns) - i128::from(self.start_ns)) as f64 / 1e6
    }
}

/// Contiguous stages: each [`mark`](Self::mark) closes the stage that began at the previous one,
/// or at the timeline's start, so they add up to the whole.
///
/// ```
/// use gym_stamp::timeline::StageTimeline;
///
/// let mut timeline = StageTimeline::new();
/// // … read the configuration …
/// timeline.mark("load_config");
/// // … connect to the database …
/// timeline.mark("connect");
///
/// let [load_config, connect] = timeline.stages() else { unreachable!() };
/// assert_eq!(load_config.start_ns, timeline.start_ns());
/// assert_eq!(load_config.end_ns, connect.start_ns);
/// assert_eq!(connect.end_ns, timeline.end_ns());
/// ```
#[derive(Clone, Debug)]
pub struct StageTimeline<C = SystemClock> {
    clock: C,
    start_ns: u64,
    cursor_ns: u64,
    stages: Vec<Stage>,
}

impl StageTimeline {
    /// A timeline that starts now.
    pub fn new() -> Self {
        Self::with_clock(SystemClock)
    }
}

impl Default for StageTimeline {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clock> StageTimeline<C> {
    /// A timeline that starts when `clock` says it is now.
    pub fn with_clock(clock: C) -> Self {
        let start_ns = clock.now_ns();
        Self { clock, start_ns, cursor_ns: start_ns, stages: Vec::new() }
    }

    /// Ends the current stage here and names it. A repeated name adds a second stage.
    pub fn mark(&mut self, name: impl Into<String>) {
        let now_ns = self.clock.now_ns();
        self.add(name, self.cursor_ns, now_ns);
    }

    /// Records a stage measured elsewhere and moves the cursor to its end. Times are nanoseconds
    /// since the epoch.
    pub fn add(&mut self, name: impl Into<String>, start_ns: u64, end_ns: u64) {
        self.stages.push(Stage { name: name.into(), start_ns, end_ns });
        self.cursor_ns = end_ns;
    }

    /// The stages in the order in which they were recorded.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// When the timeline started, in nanoseconds since the epoch.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// The end of the last stage, or the start where there is none, in nanoseconds since the epoch.
    pub fn end_ns(&self) -> u64 {
        self.stages.last().map_or(self.start_ns, |stage| stage.end_ns)
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }
}
