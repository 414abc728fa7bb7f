//! Startups as a file has them, made up to the millisecond.

use gym_stamp::spans::{SpanRecord, Status};
use gym_stamp::telemetry::{Request, Resource, json};
use opentelemetry::{KeyValue, SpanId, TraceFlags, TraceId};

/// When they begin: 2027-01-15 08:00:00 UTC.
pub const BEGAN_NS: u64 = 1_800_000_000_000_000_000;
const MS: u64 = 1_000_000;

/// A span of trace 1, from and to so many milliseconds after the beginning; `parent` 0 is none.
pub fn span(id: u64, parent: u64, name: &str, from_ms: u64, to_ms: u64) -> SpanRecord {
    SpanRecord {
        trace_id: TraceId::from(1),
        span_id: SpanId::from(id),
        parent_span_id: (parent != 0).then(|| SpanId::from(parent)),
        flags: TraceFlags::SAMPLED,
        name: name.to_owned(),
        start_ns: BEGAN_NS + from_ms * MS,
        end_ns: BEGAN_NS + to_ms * MS,
        attributes: Vec::new(),
        status: Status::Unset,
    }
}

/// Changes that read well behind the span.
pub trait Change: Sized {
    fn with(self, key: &'static str, value: &str) -> Self;

    fn of(self, server: &str) -> Self {
        self.with("nemo.gym.server.name", server)
    }

    fn outcome(self, outcome: &str) -> Self {
        self.with("nemo.gym.startup.outcome", outcome)
    }

    fn stage(self, stage: &str) -> Self {
        self.with("nemo.gym.startup.stage", stage)
    }

    fn failed(self, why: &str) -> Self;
}

impl Change for SpanRecord {
    fn with(mut self, key: &'static str, value: &str) -> Self {
        self.attributes.push(KeyValue::new(key, value.to_owned()));
        self
    }

    fn failed(mut self, why: &str) -> Self {
        self.status = Status::Error(why.to_owned());
        self
    }
}

/// A line of what `node` recorded.
pub fn line(node: &str, spans: &[SpanRecord]) -> Vec<u8> {
    let attributes = vec![
        KeyValue::new("service.name", "renamed-by-a-collector"),
        KeyValue::new("host.name", node.to_owned()),
    ];
    let mut line = json::write_line(&Request::of_spans(&Resource { attributes }, spans)).unwrap();
    line.push(b'\n');
    line
}

/// The supervisor's spans of a startup: of each server the name, and how long its setup and its
/// start took, in milliseconds.
pub fn startup(trace: u128, servers: &[(&str, u64, u64)]) -> Vec<SpanRecord> {
    let longest_ms = servers.iter().map(|(_, setup_ms, start_ms)| setup_ms + start_ms).max();
    let end_ms = longest_ms.unwrap_or(0) + 10;
    let mut spans = vec![
        span(1, 0, "gym.startup", 0, end_ms).outcome("ready"),
        span(2, 1, "gym.startup.load_config", 0, 10).stage("load_config"),
        span(3, 1, "gym.startup.wait_for_servers", 10, end_ms).stage("wait_for_servers"),
    ];
    for (number, (name, setup_ms, start_ms)) in servers.iter().enumerate() {
        let id = 100 * (number as u64 + 1);
        let (done_ms, ready_ms) = (10 + setup_ms, 10 + setup_ms + start_ms);
        let setup = span(id + 1, id, "gym.startup.server.venv_setup", 10, done_ms);
        let start = span(id + 2, id, "gym.startup.server.server_start", done_ms, ready_ms);
        spans.extend([
            span(id, 1, "gym.startup.server", 10, ready_ms).of(name).outcome("ready"),
            setup.of(name).stage("venv_setup"),
            start.of(name).stage("server_start"),
        ]);
    }
    in_trace(trace, spans)
}

/// The spans in another trace, that begins so many seconds after trace 1.
pub fn in_trace(trace: u128, spans: Vec<SpanRecord>) -> Vec<SpanRecord> {
    let later_ns = (trace as u64 - 1) * 1_000 * MS;
    let moved = |span: SpanRecord| SpanRecord {
        trace_id: TraceId::from(trace),
        start_ns: span.start_ns + later_ns,
        end_ns: span.end_ns + later_ns,
        ..span
    };
    spans.into_iter().map(moved).collect()
}
