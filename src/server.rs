//! A server process's own startup.

use std::ffi::OsString;
use std::future::{IntoFuture, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::thread;

use crate::contract::{self, MainStart};
use crate::spans::{self, Ids, RandomIds, Records, ServerProcess, Sink};
use crate::timeline::{Clock, Stage, StageTimeline, SystemClock};
use crate::traceparent::{TraceParent, TraceParentError};

/// The variable that holds the server's name in a Gym server's environment.
pub const NAME_ENV: &str = "NEMO_GYM_CONFIG_PATH";
/// The variable that is `1` in a worker process of a multi-worker server.
pub const WORKER_ENV: &str = "IS_NEMO_GYM_FASTAPI_WORKER";

/// From the supervisor's spawn to the end of venv setup.
pub const VENV_SETUP: &str = "venv_setup";
/// From there, or from the spawn, to the server's own code.
pub const INTERPRETER_START: &str = "interpreter_start";
/// From the main process's hand-off to the worker's own code.
pub const WORKER_START: &str = "worker_start";
/// From the end of the app's configuration to the first connection it can accept.
pub const UVICORN_STARTUP: &str = "uvicorn_startup";

/// The startup stages of a server process, a main one or a worker.
///
/// It starts with what the stamps in its environment tell of the time before it
/// ([`contract::main_start`] for a main process; a worker has [`WORKER_START`] from
/// [`contract::SERVE_NS`], and never counts the venv setup that its main process did), goes on with
/// what it [marks](Self::mark), and is reported once, when the server serves.
///
/// One that is not enabled holds nothing, and every method of it does nothing.
///
/// ```
/// use gym_stamp::server::ServerStartupTimeline;
/// use gym_stamp::spans::Records;
///
/// let mut startup = ServerStartupTimeline::new("reward", Some("resources_servers"), true);
/// // … read the configuration …
/// startup.mark("load_config");
/// startup.report(&|records: Records| {
///     assert_eq!(records.spans[0].name, "gym.server.startup");
///     assert_eq!(records.metrics.len(), 1);
/// });
/// ```
///
/// It is no `Clone`: two of them would report one startup twice.
#[derive(Debug)]
pub struct ServerStartupTimeline<C = SystemClock, I = RandomIds>(Option<Enabled<C, I>>);

#[derive(Debug)]
struct Enabled<C, I> {
    server: ServerProcess,
    timeline: StageTimeline<C>,
    parent: Result<Option<TraceParent>, TraceParentError>,
    ids: I,
    reported: bool,
}

impl ServerStartupTimeline {
    /// The timeline of this process, which starts now; [`WORKER_ENV`] tells whether it is a
    /// worker.
    ///
    /// Make it early: what comes before it is counted as [`INTERPRETER_START`]. `enabled` is
    /// whether telemetry is on.
    pub fn new(name: impl Into<String>, server_type: Option<&str>, enabled: bool) -> Self {
        if !enabled {
            return Self::disabled();
        }
        let env = |name: &str| std::env::var_os(name);
        let server = ServerProcess {
            name: name.into(),
            server_type: server_type.map(str::to_owned),
            worker: is_worker(env),
            pid: std::process::id(),
        };
        Self::with_parts(server, env, SystemClock, RandomIds)
    }
}

impl<C: Clock, I: Ids> ServerStartupTimeline<C, I> {
    /// The timeline of `server`, whose environment is `env`, starting when `clock` says it is now.
    pub fn with_parts(
        server: ServerProcess,
        env: impl Fn(&str) -> Option<OsString>,
        clock: C,
        ids: I,
    ) -> Self {
        let mut timeline = StageTimeline::with_clock(clock);
        let read = |name| env(name).and_then(|value| contract::read_ns(value.as_encoded_bytes()));
        if server.worker {
            add_worker_start(&mut timeline, read(contract::SERVE_NS));
        } else {
            add_main_start(&mut timeline, read(contract::SPAWN_NS), read(contract::SETUP_DONE_NS));
        }
        let parent = TraceParent::from_env(contract::TRACEPARENT, env);
        Self(Some(Enabled { server, timeline, parent, ids, reported: false }))
    }

    /// A timeline for a server whose telemetry is off.
    pub fn disabled() -> Self {
        Self(None)
    }

    /// Ends the current stage here and names it. A repeated name adds a second stage.
    pub fn mark(&mut self, name: impl Into<String>) {
        if let Some(enabled) = &mut self.0 {
            enabled.timeline.mark(name);
        }
    }

    /// Records a stage measured elsewhere and moves the cursor to its end. Times are nanoseconds
    /// since the epoch.
    pub fn add(&mut self, name: impl Into<String>, start_ns: u64, end_ns: u64) {
        if let Some(enabled) = &mut self.0 {
            enabled.timeline.add(name, start_ns, end_ns);
        }
    }

    /// The stages so far; none where telemetry is off.
    pub fn stages(&self) -> &[Stage] {
        self.0.as_ref().map_or(&[], |enabled| enabled.timeline.stages())
    }

    /// Why [`contract::TRACEPARENT`] is ignored, if it is: worth a warning. The server's spans are
    /// then a trace of their own.
    pub fn traceparent_error(&self) -> Option<TraceParentError> {
        self.0.as_ref().and_then(|enabled| enabled.parent.err())
    }

    /// Stamps the hand-off to the workers: the variable to set for each worker that is spawned,
    /// [`contract::SERVE_NS`]. Nothing where telemetry is off.
    ///
    /// Setting a variable of a process with threads is unsafe, so this sets none: it goes straight
    /// to the worker.
    ///
    /// ```
    /// use std::process::Command;
    /// # use gym_stamp::server::ServerStartupTimeline;
    /// # let startup = ServerStartupTimeline::new("reward", None, true);
    ///
    /// let mut worker = Command::new("true");
    /// worker.envs(startup.announce_serve());
    /// assert_eq!(worker.get_envs().count(), 1);
    /// ```
    #[must_use = "a worker learns of it by this variable alone"]
    pub fn announce_serve(&self) -> Option<(&'static str, String)> {
        let now_ns = self.0.as_ref()?.timeline.now_ns();
        Some((contract::SERVE_NS, now_ns.to_string()))
    }

    /// What there is to report, the first time that there is any stage; nothing after that.
    pub fn take_records(&mut self) -> Option<Records> {
        let enabled = self.0.as_mut()?;
        let stages = enabled.timeline.stages();
        if enabled.reported || stages.is_empty() {
            return None;
        }
        enabled.reported = true;
        let parent = enabled.parent.unwrap_or_default();
        let spans = spans::server_spans(&enabled.server, stages, parent, &mut enabled.ids);
        Some(Records { spans, metrics: spans::server_metrics(&enabled.server, stages) })
    }

    /// Emits spans and metrics once, and only if there is a stage. Takes as long as `sink` takes;
    /// one that panics loses the report, and nothing else.
    pub fn report(&mut self, sink: &impl Sink) {
        if let Some(records) = self.take_records() {
            let _ = catch_unwind(AssertUnwindSafe(|| sink.emit(records)));
        }
    }

    /// Runs `server` to its end, and reports when it accepts connections, adding the stage
    /// [`UVICORN_STARTUP`].
    ///
    /// `server` is the future that serves, such as axum's `serve(listener, app)`; the app's own
    /// startup belongs before it. The first time it waits there is nothing left for it to wait for
    /// but connections: that is the moment. A `server` that ends before it ever waits did not
    /// serve, and nothing is reported.
    ///
    /// `sink` runs on a thread of its own, so the server never waits for it; what it has not
    /// delivered when the process ends is lost. For a server without a future:
    /// `mark(UVICORN_STARTUP)`, then [`report`](Self::report).
    pub async fn report_when_serving<S: IntoFuture>(
        mut self,
        server: S,
        sink: impl Sink + Send + 'static,
    ) -> S::Output {
        let mut server = pin!(server.into_future());
        let mut sink = Some(sink);
        poll_fn(|context| {
            let progress = server.as_mut().poll(context);
            if progress.is_pending()
                && let Some(sink) = sink.take()
            {
                self.mark(UVICORN_STARTUP);
                if let Some(records) = self.take_records() {
                    // No thread to be had: the report is lost, the server is not.
                    let _ = thread::Builder::new()
                        .name("startup-report".to_owned())
                        .spawn(move || sink.emit(records));
                }
            }
            progress
        })
        .await
    }
}

/// Whether `env` is that of a worker process.
pub fn is_worker(env: impl Fn(&str) -> Option<OsString>) -> bool {
    env(WORKER_ENV).is_some_and(|value| value == "1")
}

fn add_worker_start(timeline: &mut StageTimeline<impl Clock>, serve_ns: Option<u64>) {
    let entered_ns = timeline.start_ns();
    if let Some(serve_ns) = serve_ns.filter(|&serve_ns| serve_ns <= entered_ns) {
        timeline.add(WORKER_START, serve_ns, entered_ns);
    }
}

fn add_main_start(
    timeline: &mut StageTimeline<impl Clock>,
    spawn_ns: Option<u64>,
    setup_done_ns: Option<u64>,
) {
    let entered_ns = timeline.start_ns();
    match contract::main_start(spawn_ns, setup_done_ns, entered_ns) {
        MainStart::SetupSeen { spawn_ns, setup_done_ns } => {
            timeline.add(VENV_SETUP, spawn_ns, setup_done_ns);
            timeline.add(INTERPRETER_START, setup_done_ns, entered_ns);
        }
        MainStart::SpawnSeen { spawn_ns, .. } => {
            timeline.add(INTERPRETER_START, spawn_ns, entered_ns);
        }
        MainStart::Nothing { .. } => {}
    }
}
