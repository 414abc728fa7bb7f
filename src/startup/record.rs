//! The record of one startup: made of the keeper's events, written to a file, handed on for export.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use gym_stamp::server::VENV_SETUP;
use gym_stamp::spans::{
    Ids, RandomIds, SERVER_NAME, SERVER_TYPE, STAGE, SpanRecord, Status, stage_spans,
};
use gym_stamp::supervisor::{Failure, ServerRecord, SupervisorStartup};
use gym_stamp::telemetry::{
    Batches, ExportError, Exporter, JsonLines, Policy, Process, Request, Resource, Settings,
    WayOut, json,
};
use gym_stamp::timeline::{Clock, Stage, SystemClock};
use gym_stamp::traceparent::{TRACEPARENT_ENV, TraceParent};
use opentelemetry::{KeyValue, SpanId, TraceFlags, TraceId};

use crate::events::Event;
use crate::fleet::Plan;

/// A server's own spans from outside: `gym.startup.server.venv_setup` and `….server_start`.
const SERVER_SPAN: &str = "gym.startup.server";
/// From the stamp until the server was ready: what can be told of it from outside.
pub const SERVER_START: &str = "server_start";

/// The record of the startup of `plan`.
pub struct Record {
    startup: SupervisorStartup<EventClock, IdsAhead>,
    clock: EventClock,
    ids: IdsAhead,
    servers: Vec<Seen>,
    /// The latest time that an event told: the end of a startup is not before it.
    latest_ns: u64,
}

/// What the keeper saw of one server, beyond spawn and readiness.
#[derive(Default)]
struct Seen {
    span: Option<TraceParent>,
    setup_done_ns: Option<u64>,
    steps: Vec<Stage>,
    /// Those that have not ended yet.
    running: Vec<Stage>,
}

/// Stands where an event says, and goes with the system's otherwise.
#[derive(Clone, Default)]
struct EventClock(Rc<Cell<Option<u64>>>);

impl Clock for EventClock {
    fn now_ns(&self) -> u64 {
        self.0.get().unwrap_or_else(|| SystemClock.now_ns())
    }
}

/// Random ids, some of them drawn ahead: a server is told its span's id before it is spawned, and
/// the span itself begins at the spawn.
#[derive(Clone)]
struct IdsAhead {
    trace: TraceId,
    next: Rc<RefCell<VecDeque<SpanId>>>,
}

impl Ids for IdsAhead {
    fn trace_id(&mut self) -> TraceId {
        self.trace
    }

    fn span_id(&mut self) -> SpanId {
        let ahead = self.next.borrow_mut().pop_front();
        ahead.unwrap_or_else(|| RandomIds.span_id())
    }
}

impl Record {
    /// A record that begins now.
    pub fn new() -> Self {
        let clock = EventClock::default();
        let ids = IdsAhead { trace: RandomIds.trace_id(), next: Rc::default() };
        Self {
            startup: SupervisorStartup::with_parts(clock.clone(), ids.clone()),
            clock,
            ids,
            servers: Vec::new(),
            latest_ns: 0,
        }
    }

    /// The plan is made. Returns what is wrong with the caller's traceparent, if anything is.
    pub fn planned(&mut self, plan: &Plan) -> Option<String> {
        self.startup.mark("load_config");
        let env = |name: &str| std::env::var_os(name);
        let (caller, warning) = match TraceParent::from_env(TRACEPARENT_ENV, env) {
            Ok(caller) => (caller, None),
            Err(error) => (None, Some(format!("{TRACEPARENT_ENV} is ignored: {error}"))),
        };
        self.startup.begin_trace(caller);
        self.servers = plan
            .servers
            .iter()
            .map(|_| {
                let span = TraceParent {
                    trace_id: caller.map_or(self.ids.trace, |caller| caller.trace_id),
                    span_id: RandomIds.span_id(),
                    flags: caller.map_or(TraceFlags::SAMPLED, |caller| caller.flags),
                };
                Seen { span: Some(span), ..Seen::default() }
            })
            .collect();
        warning
    }

    /// What each server is told that its spans stand under.
    pub fn traceparents(&self) -> Vec<Option<String>> {
        self.servers.iter().map(|server| server.span.map(|span| span.to_string())).collect()
    }

    /// Takes down what happened.
    pub fn take(&mut self, event: &Event, plan: &Plan) {
        match event {
            Event::Spawned { server, at_ns, .. } | Event::NotSpawned { server, at_ns, .. } => {
                self.spawned(*server, *at_ns, plan);
            }
            Event::AllSpawned { at_ns } => self.at(*at_ns, |startup| startup.mark("spawn_servers")),
            Event::Ready { server, at_ns } => {
                if let Some(server) = plan.servers.get(*server) {
                    self.at(*at_ns, |startup| startup.server_ready(&server.name));
                }
            }
            Event::StepBegan { server, name, start_ns } => {
                let step = Stage { name: name.clone(), start_ns: *start_ns, end_ns: *start_ns };
                self.servers
                    .get_mut(*server)
                    .into_iter()
                    .for_each(|it| it.running.push(step.clone()));
            }
            Event::StepEnded { server, name, start_ns, end_ns } => {
                let step = Stage { name: name.clone(), start_ns: *start_ns, end_ns: *end_ns };
                if let Some(server) = self.servers.get_mut(*server) {
                    server
                        .running
                        .retain(|it| it.name != step.name || it.start_ns != step.start_ns);
                    server.steps.push(step);
                }
            }
            Event::SetupDone { server, setup_done_ns } => {
                if let Some(server) = self.servers.get_mut(*server) {
                    server.setup_done_ns = Some(*setup_done_ns);
                }
            }
            Event::PortTakenLater { at_ns, .. }
            | Event::TimedOut { at_ns, .. }
            | Event::Exited { at_ns, .. } => self.saw(*at_ns),
            _ => {}
        }
    }

    /// All servers are ready: the spans of the startup.
    pub fn finish(&mut self) -> Vec<SpanRecord> {
        let latest_ns = self.latest_ns;
        self.at(latest_ns, |startup| {
            startup.mark("wait_for_servers");
            startup.finish();
        });
        self.spans()
    }

    /// The startup has not succeeded: its spans.
    pub fn abort(&mut self, failure: Failure, error: &str) -> Vec<SpanRecord> {
        let now_ns = SystemClock.now_ns().max(self.latest_ns);
        self.at(now_ns, |startup| startup.abort(failure, error));
        self.spans()
    }

    fn at(&mut self, at_ns: u64, act: impl FnOnce(&mut SupervisorStartup<EventClock, IdsAhead>)) {
        self.saw(at_ns);
        self.clock.0.set(Some(at_ns));
        act(&mut self.startup);
        self.clock.0.set(None);
    }

    fn saw(&mut self, at_ns: u64) {
        self.latest_ns = self.latest_ns.max(at_ns);
    }

    fn spawned(&mut self, number: usize, at_ns: u64, plan: &Plan) {
        let span = self.servers.get(number).and_then(|server| server.span);
        if let Some((server, span)) = plan.servers.get(number).zip(span) {
            self.ids.next.borrow_mut().push_back(span.span_id);
            self.at(at_ns, |startup| {
                startup.server_env(&server.name, server.server_type.as_deref());
            });
        }
    }

    fn spans(&mut self) -> Vec<SpanRecord> {
        let mut spans = self.startup.take_spans();
        for server in self.startup.servers() {
            let Some(span) = server.span else { continue };
            let seen =
                self.servers.iter().find(|it| it.span.map(|it| it.span_id) == Some(span.span_id));
            if let Some(seen) = seen {
                let end_ns = server.ready_ns.unwrap_or(self.latest_ns);
                spans.extend(seen.spans(server, span, end_ns, &mut self.ids));
            }
        }
        // As it went: whoever reads the file meets a parent before what is beneath it.
        spans.sort_by_key(|span| (span.start_ns, Reverse(span.end_ns)));
        spans
    }
}

impl Seen {
    /// The stages of `server` that were seen, whose own span is `span` and ended at `end_ns`.
    fn spans(
        &self,
        server: &ServerRecord,
        span: TraceParent,
        end_ns: u64,
        ids: &mut impl Ids,
    ) -> Vec<SpanRecord> {
        let mut attributes = vec![KeyValue::new(SERVER_NAME, server.name.clone())];
        let server_type = server.server_type.iter().filter(|it| !it.is_empty());
        attributes.extend(server_type.map(|it| KeyValue::new(SERVER_TYPE, it.clone())));
        let stage =
            |name: &str, start_ns, end_ns| Stage { name: name.to_owned(), start_ns, end_ns };
        // What answered before the setup was done was somebody else, such as a proxy.
        let setup_done_ns = self.setup_done_ns.filter(|&setup_done_ns| setup_done_ns <= end_ns);
        let stages: Vec<_> = setup_done_ns.map_or_else(Vec::new, |setup_done_ns| {
            vec![
                stage(VENV_SETUP, server.spawn_ns, setup_done_ns),
                stage(SERVER_START, setup_done_ns, end_ns),
            ]
        });
        let mut spans: Vec<_> = stage_spans(SERVER_SPAN, &stages, span, &attributes, ids).collect();
        // A setup that never came to its end has no bar of its own for its steps to stand under.
        let parent = spans.first().map_or(span.span_id, |setup| setup.span_id);
        let unfinished = self.running.iter().map(|step| Stage { end_ns, ..step.clone() });
        // That a step is over may have been seen before the stamp was, and later than it was set.
        let setup_end_ns = self.setup_done_ns.unwrap_or(u64::MAX);
        let steps = self.steps.iter().cloned().chain(unfinished);
        for step in steps.filter(|step| step.start_ns < setup_end_ns) {
            let mut attributes = attributes.clone();
            attributes.push(KeyValue::new(STAGE, step.name.clone()));
            spans.push(SpanRecord {
                trace_id: span.trace_id,
                span_id: ids.span_id(),
                parent_span_id: Some(parent),
                flags: span.flags,
                name: step.name,
                start_ns: step.start_ns,
                end_ns: step.end_ns.min(setup_end_ns),
                attributes,
                status: Status::Unset,
            });
        }
        spans
    }
}

/// What a reader of the file may take where it is a pipe: meanwhile nothing else is seen to.
const OUT_LIMIT: Duration = Duration::from_secs(3);

/// Where records go, as the environment and the plan have it.
pub struct Ways {
    settings: Settings,
    resource: Resource,
    out: Option<PathBuf>,
    /// What was wrong with the environment, a sentence each.
    pub warnings: Vec<String>,
}

impl Ways {
    /// Those of a run.
    pub fn new(plan: &Plan) -> Self {
        let process = Process::supervisor(env!("CARGO_PKG_VERSION"));
        Self::of(&process, plan.out.as_deref().map(Path::to_owned))
    }

    /// Those of `process`, and the file `out`.
    pub fn of(process: &Process, out: Option<PathBuf>) -> Self {
        let env = &|name: &str| std::env::var_os(name);
        let mut settings = Settings::from_env(env, Policy::Companion);
        let mut warnings = std::mem::take(&mut settings.warnings);
        let resource = Resource::new(env, &settings, process, &mut warnings);
        // Of a process that exports nothing, only what turned that off is worth a word.
        Self { settings, resource, out, warnings }
    }

    /// Whether anybody will ever see the trace.
    pub fn are_any(&self) -> bool {
        self.out.is_some() || self.exports()
    }

    /// Whether servers may have something to report, whoever sees this trace.
    pub fn is_telemetry_on(&self) -> bool {
        self.settings.enabled
    }

    /// What every server is told, so that all have one run id and service group.
    pub fn server_env(&self) -> Vec<(String, String)> {
        let env = self.settings.server_env();
        env.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    /// How long an export may take, by its own reckoning.
    pub fn timeout(&self) -> Duration {
        let endpoints = [&self.settings.traces_endpoint, &self.settings.metrics_endpoint];
        endpoints.into_iter().flatten().map(|endpoint| endpoint.timeout).max().unwrap_or_default()
    }

    /// Writes `spans` to the file, if there is to be one.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub fn write(&self, spans: &[SpanRecord]) -> Result<(), ExportError> {
        let Some(path) = &self.out else { return Ok(()) };
        let file = JsonLines::append_to(path)?;
        let deadline = Instant::now() + OUT_LIMIT;
        for request in self.requests(spans) {
            file.send(request, deadline)?;
        }
        file.finish()
    }

    /// What an exporter is to be given of `spans`; `None` if nothing is exported. A trace that its
    /// caller does not sample stays here.
    pub fn to_export(&self, spans: &[SpanRecord]) -> Option<Vec<u8>> {
        let sampled = |span: &&SpanRecord| span.flags.is_sampled();
        let spans: Vec<_> = spans.iter().filter(sampled).cloned().collect();
        if !self.exports() || spans.is_empty() {
            return None;
        }
        let mut lines = Vec::new();
        for request in self.requests(&spans) {
            lines.extend(json::write_line(&request).ok()?);
            lines.push(b'\n');
        }
        Some(lines)
    }

    /// `spans`, in lines that are not too long for whoever reads them.
    fn requests(&self, spans: &[SpanRecord]) -> Vec<Request> {
        Batches::of([Request::of_spans(&self.resource, spans)])
    }

    fn exports(&self) -> bool {
        let settings = &self.settings;
        // People at a terminal see the startup anyway.
        let over_otlp = settings.exporter == Exporter::Otlp;
        settings.enabled && settings.traces && settings.startup_spans() && over_otlp
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::path::Path;

    use opentelemetry::{SpanId, TraceFlags, TraceId};

    use super::*;
    use crate::lines::Lines;

    #[test]
    fn no_span_ends_before_it_starts_where_somebody_else_answered() {
        let server = ServerRecord {
            name: "one".to_owned(),
            server_type: None,
            spawn_ns: 1,
            ready_ns: Some(5),
            failure: None,
            span: None,
        };
        let span = TraceParent {
            trace_id: TraceId::from(1),
            span_id: SpanId::from(1),
            flags: TraceFlags::SAMPLED,
        };
        let spans = |setup_done_ns| {
            let seen = Seen { setup_done_ns: Some(setup_done_ns), ..Seen::default() };
            let spans = seen.spans(&server, span, 5, &mut RandomIds);
            spans.iter().map(|span| (span.start_ns, span.end_ns)).collect::<Vec<_>>()
        };
        assert_eq!(spans(3), [(1, 3), (3, 5)]);
        assert_eq!(spans(6), []);
    }

    /// Where a startup takes more than a line may be long, what is written can be read again.
    #[test]
    fn a_long_record_is_read_again() -> Result<(), Box<dyn Error>> {
        let spans: Vec<_> = (1..=20_u64).map(|id| span(id, &"x".repeat(1_000_000))).collect();
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("startup.jsonl");
        let env = |name: &str| (name == "NEMO_LENS_ENABLED").then(|| "1".into());
        let ways = Ways {
            settings: Settings::from_env(&env, Policy::Companion),
            resource: Resource::default(),
            out: Some(path.clone()),
            warnings: Vec::new(),
        };
        ways.write(&spans)?;
        assert_eq!(spans_in(&path)?, 20);
        std::fs::write(&path, ways.to_export(&spans).unwrap_or_default())?;
        assert_eq!(spans_in(&path)?, 20);
        Ok(())
    }

    fn spans_in(path: &Path) -> Result<usize, String> {
        let mut lines = Lines::open(path)?;
        let mut count = 0;
        while let Some(line) = lines.next() {
            count += json::read_line(line)?.iter().map(Request::len).sum::<usize>();
        }
        assert!(lines.finish());
        Ok(count)
    }

    fn span(id: u64, name: &str) -> SpanRecord {
        SpanRecord {
            trace_id: TraceId::from(1),
            span_id: SpanId::from(id),
            parent_span_id: None,
            flags: TraceFlags::SAMPLED,
            name: name.to_owned(),
            start_ns: 1,
            end_ns: 2,
            attributes: Vec::new(),
            status: Status::Unset,
        }
    }
}
