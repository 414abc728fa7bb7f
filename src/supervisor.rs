//! The supervisor's view of one startup.

use std::fmt;
use std::process::Command;

use opentelemetry::KeyValue;

use crate::contract;
use crate::spans::{self, Ids, RandomIds, SpanRecord, Status};
use crate::timeline::{Clock, Stage, StageTimeline, SystemClock};
use crate::traceparent::TraceParent;

/// The stage that was running when a startup was aborted.
pub const UNFINISHED: &str = "unfinished";
/// The outcome of a server that answered, and of a startup whose servers all did.
pub const READY: &str = "ready";

const ROOT: &str = "gym.startup";
const SERVER_SPAN: &str = "gym.startup.server";

/// How a startup that did not finish ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Something went wrong: a server ended early, or could not be spawned.
    Failed,
    /// Not ready in time.
    Timeout,
    /// A signal ended it.
    Interrupted,
}

impl Failure {
    /// As the attribute `nemo.gym.startup.outcome` has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::Interrupted => "interrupted",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the supervisor knows of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerRecord {
    /// The server's name in the configuration.
    pub name: String,
    /// The server's type; an empty one is none.
    pub server_type: Option<String>,
    /// When it was spawned, in nanoseconds since the epoch.
    pub spawn_ns: u64,
    /// When it first answered a readiness probe, in nanoseconds since the epoch.
    pub ready_ns: Option<u64>,
    /// Why it was given up before it answered.
    pub failure: Option<Failure>,
    /// Its span, which the server's own stand under; `None` if it was spawned outside a trace.
    pub span: Option<TraceParent>,
}

impl ServerRecord {
    fn is_open(&self) -> bool {
        self.ready_ns.is_none() && self.failure.is_none()
    }

    fn give_up(
        &mut self,
        failure: Failure,
        error: &str,
        at_ns: u64,
        trace: Option<Trace>,
    ) -> Option<SpanRecord> {
        if !self.is_open() {
            return None;
        }
        self.failure = Some(failure);
        let status = Status::Error(error.to_owned());
        self.closed_span(failure.as_str(), status, at_ns, trace)
    }

    fn closed_span(
        &self,
        outcome: &'static str,
        status: Status,
        end_ns: u64,
        trace: Option<Trace>,
    ) -> Option<SpanRecord> {
        let (span, trace) = self.span.zip(trace)?;
        let mut attributes = spans::server_attributes(&self.name, self.server_type.as_deref());
        attributes.push(KeyValue::new(spans::OUTCOME, outcome));
        Some(SpanRecord {
            start_ns: self.spawn_ns,
            end_ns,
            attributes,
            status,
            ..SpanRecord::empty(span, Some(trace.root), SERVER_SPAN)
        })
    }
}

/// The supervisor's own stages and, for each server, when it was spawned and when it first
/// answered.
///
/// One startup is one trace: [`begin_trace`](Self::begin_trace) opens `gym.startup`,
/// [`prepare`](Self::prepare) a span beneath it for each server, and
/// [`finish`](Self::finish) or [`abort`](Self::abort) closes it. Closed spans wait in
/// [`take_spans`](Self::take_spans). The supervisor records no metric.
///
/// ```
/// use std::process::Command;
/// use gym_stamp::supervisor::SupervisorStartup;
///
/// let mut startup = SupervisorStartup::new();
/// startup.mark("load_config");
/// startup.begin_trace(None);
/// startup.mark("init_telemetry");
///
/// let mut command = Command::new("true");
/// startup.prepare(&mut command, "reward", Some("resources_servers"));
/// let mut server = command.spawn()?;
/// startup.mark("spawn_servers");
///
/// // … until it answers a readiness probe …
/// startup.server_ready("reward");
/// startup.mark("wait_for_servers");
/// startup.finish();
///
/// assert_eq!(startup.take_spans().len(), 6);
/// # server.wait()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SupervisorStartup<C = SystemClock, I = RandomIds> {
    timeline: StageTimeline<C>,
    ids: I,
    trace: Option<Trace>,
    servers: Vec<ServerRecord>,
    outcome: Option<&'static str>,
    closed: Vec<SpanRecord>,
}

#[derive(Clone, Copy, Debug)]
struct Trace {
    caller: Option<TraceParent>,
    root: TraceParent,
}

impl SupervisorStartup {
    /// A startup that begins now.
    pub fn new() -> Self {
        Self::with_parts(SystemClock, RandomIds)
    }
}

impl Default for SupervisorStartup {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clock, I: Ids> SupervisorStartup<C, I> {
    /// A startup that begins when `clock` says it is now, with ids made by `ids`.
    pub fn with_parts(clock: C, ids: I) -> Self {
        Self {
            timeline: StageTimeline::with_clock(clock),
            ids,
            trace: None,
            servers: Vec::new(),
            outcome: None,
            closed: Vec::new(),
        }
    }

    /// Ends the current stage here and names it. A repeated name adds a second stage. Once the
    /// startup is over there are no more stages.
    pub fn mark(&mut self, name: impl Into<String>) {
        if self.outcome.is_none() {
            self.timeline.mark(name);
        }
    }

    /// Records a stage measured elsewhere and moves the cursor to its end. Times are nanoseconds
    /// since the epoch. Once the startup is over there are no more stages.
    pub fn add(&mut self, name: impl Into<String>, start_ns: u64, end_ns: u64) {
        if self.outcome.is_none() {
            self.timeline.add(name, start_ns, end_ns);
        }
    }

    /// The supervisor's own stages so far.
    pub fn stages(&self) -> &[Stage] {
        self.timeline.stages()
    }

    /// When the startup began, in nanoseconds since the epoch.
    pub fn start_ns(&self) -> u64 {
        self.timeline.start_ns()
    }

    /// The end of the last stage, or the start where there is none, in nanoseconds since the epoch.
    pub fn end_ns(&self) -> u64 {
        self.timeline.end_ns()
    }

    /// The servers in the order in which they were first spawned.
    pub fn servers(&self) -> &[ServerRecord] {
        &self.servers
    }

    /// How the startup ended: [`READY`] or a [`Failure`]'s name; `None` while it goes on.
    pub fn outcome(&self) -> Option<&'static str> {
        self.outcome
    }

    /// Opens the span `gym.startup`, in the trace of `caller` where there is one.
    ///
    /// Only for a trace that is exported or recorded, and before the first server is spawned: a
    /// server that is spawned outside it has no span. Of two calls the second does nothing, and
    /// so does one that comes when the startup is over.
    ///
    /// `caller` is what [`TraceParent::from_env`] makes of
    /// [`TRACEPARENT_ENV`](crate::traceparent::TRACEPARENT_ENV). If it does not sample its trace,
    /// neither do the servers: the flag is passed on to them.
    pub fn begin_trace(&mut self, caller: Option<TraceParent>) {
        if self.outcome.is_none() && self.trace.is_none() {
            self.trace = Some(Trace { caller, root: spans::open(caller, &mut self.ids) });
        }
    }

    /// Records the spawn of the server that `command` starts, now, and sets its variables: what
    /// [`server_env`](Self::server_env) returns, and none of the contract's variables that an outer
    /// launch may have left in this process's environment. Spawn it right after.
    ///
    /// ```
    /// use std::process::Command;
    /// use gym_stamp::contract::{SETUP_DONE_NS, SPAWN_NS};
    /// use gym_stamp::supervisor::SupervisorStartup;
    ///
    /// let mut startup = SupervisorStartup::new();
    /// let mut command = Command::new("true");
    /// startup.prepare(&mut command, "reward", None);
    ///
    /// let set = |name: &str| command.get_envs().find(|(it, _)| *it == name);
    /// assert!(matches!(set(SPAWN_NS), Some((_, Some(_)))));
    /// assert!(matches!(set(SETUP_DONE_NS), Some((_, None))));
    /// ```
    pub fn prepare(&mut self, command: &mut Command, name: &str, server_type: Option<&str>) {
        for outer in
            [contract::SPAWN_NS, contract::SETUP_DONE_NS, contract::SERVE_NS, contract::TRACEPARENT]
        {
            command.env_remove(outer);
        }
        command.envs(self.server_env(name, server_type));
    }

    /// Records the spawn of a server, now, and returns the variables to set for it:
    /// [`contract::SPAWN_NS`] and, in a trace that is open, [`contract::TRACEPARENT`].
    ///
    /// Made for [`Command::envs`](std::process::Command::envs): setting them in this process would
    /// be unsafe, and wrong for the next server. The contract's variables of an outer launch are
    /// the caller's to remove, as [`prepare`](Self::prepare) does.
    ///
    /// A server that is spawned again starts anew; an attempt that had not answered by then has
    /// [`Failure::Failed`].
    pub fn server_env(
        &mut self,
        name: &str,
        server_type: Option<&str>,
    ) -> Vec<(&'static str, String)> {
        let spawn_ns = self.timeline.now_ns();
        let trace = self.trace.filter(|_| self.outcome.is_none());
        let span = trace.map(|trace| spans::open(Some(trace.root), &mut self.ids));
        let server = ServerRecord {
            name: name.to_owned(),
            server_type: server_type.map(str::to_owned),
            spawn_ns,
            ready_ns: None,
            failure: None,
            span,
        };
        match self.servers.iter_mut().find(|earlier| earlier.name == name) {
            Some(earlier) => {
                let why = "spawned again before it was ready";
                self.closed.extend(earlier.give_up(Failure::Failed, why, spawn_ns, self.trace));
                *earlier = server;
            }
            None => self.servers.push(server),
        }
        let traceparent = span.map(|span| (contract::TRACEPARENT, span.to_string()));
        [(contract::SPAWN_NS, spawn_ns.to_string())].into_iter().chain(traceparent).collect()
    }

    /// Records that the server `name` first answered a readiness probe, now.
    ///
    /// Counts once. A name that is unknown is ignored, and so is a server that was given up; one
    /// that answers after [`finish`](Self::finish) still closes its span.
    pub fn server_ready(&mut self, name: &str) {
        let Some(server) = self.servers.iter_mut().find(|server| server.name == name) else {
            return;
        };
        if server.is_open() {
            let now_ns = self.timeline.now_ns();
            server.ready_ns = Some(now_ns);
            self.closed.extend(server.closed_span(READY, Status::Unset, now_ns, self.trace));
        }
    }

    /// Closes the span `gym.startup` with the supervisor's own stages beneath it, when every server
    /// is ready. Does nothing once the startup is over.
    pub fn finish(&mut self) {
        self.close(READY, &Status::Unset);
    }

    /// Closes every span still open after a startup that did not finish, each with an error status
    /// and the outcome; the stage that was running is recorded as [`UNFINISHED`], so that stages
    /// still cover the whole startup.
    ///
    /// Without it nothing of a failed startup would be exported, or spans whose parent never was.
    /// Once the startup is over it only gives up the servers that have still not answered.
    pub fn abort(&mut self, failure: Failure, error: impl fmt::Display) {
        let error = error.to_string();
        let now_ns = if self.outcome.is_none() {
            self.timeline.mark(UNFINISHED);
            self.timeline.end_ns()
        } else {
            self.timeline.now_ns()
        };
        for server in &mut self.servers {
            self.closed.extend(server.give_up(failure, &error, now_ns, self.trace));
        }
        self.close(failure.as_str(), &Status::Error(error));
    }

    /// The spans that were closed since this was last called.
    pub fn take_spans(&mut self) -> Vec<SpanRecord> {
        std::mem::take(&mut self.closed)
    }

    fn close(&mut self, outcome: &'static str, status: &Status) {
        if self.outcome.is_some() {
            return;
        }
        self.outcome = Some(outcome);
        let Some(Trace { caller, root }) = self.trace else {
            return;
        };
        self.closed.push(SpanRecord {
            start_ns: self.timeline.start_ns(),
            end_ns: self.timeline.end_ns(),
            attributes: vec![KeyValue::new(spans::OUTCOME, outcome)],
            status: status.clone(),
            ..SpanRecord::empty(root, caller, ROOT)
        });
        let stages = self.timeline.stages();
        self.closed.extend(spans::stage_spans(ROOT, stages, root, &[], &mut self.ids));
    }
}
