//! Startups for programs: one JSON document.

use opentelemetry::SpanId;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::stages::timed;
use super::startup::{Span, Startup};
use super::summary::{self, Row};
use crate::waterfall;

/// All that is shown.
#[derive(Serialize)]
pub struct Document<'s> {
    pub startups: Vec<One<'s>>,
    /// Sentences about all of it.
    pub notes: &'s [String],
}

/// A startup. Times are nanoseconds since the epoch.
#[derive(Serialize)]
pub struct One<'s> {
    trace_id: Option<String>,
    start_ns: u64,
    end_ns: u64,
    duration_ms: f64,
    outcome: Option<&'s str>,
    servers: usize,
    summary: Vec<Stage>,
    notes: Vec<String>,
    spans: Vec<Shown<'s>>,
}

#[derive(Serialize)]
struct Stage {
    stage: String,
    count: usize,
    p50_ms: f64,
    max_ms: f64,
    slowest_server: String,
    node: Option<String>,
}

#[derive(Serialize)]
struct Shown<'s> {
    span_id: String,
    parent_span_id: Option<String>,
    name: &'s str,
    start_ns: u64,
    end_ns: Option<u64>,
    duration_ms: Option<f64>,
    server: Option<&'s str>,
    node: Option<&'s str>,
    pid: Option<i64>,
    outcome: Option<&'s str>,
    error: Option<&'s str>,
    critical: bool,
    attributes: Attributes<'s>,
}

struct Attributes<'s>(&'s [(String, String)]);

impl Serialize for Attributes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'s> One<'s> {
    pub fn new(startup: &'s Startup, notes: Vec<String>) -> Self {
        let timed = timed(startup);
        let critical = waterfall::critical(&startup.entries());
        let spans = startup.spans.iter().zip(critical).map(|(span, it)| Shown::new(span, it));
        Self {
            trace_id: startup.trace_id.map(|it| it.to_string()),
            start_ns: startup.start_ns(),
            end_ns: startup.end_ns(),
            duration_ms: ms(startup.length_ns()),
            outcome: startup.outcome(),
            servers: summary::servers(&timed),
            summary: summary::rows(&timed).into_iter().map(Stage::from).collect(),
            notes,
            spans: spans.collect(),
        }
    }
}

impl From<Row> for Stage {
    fn from(row: Row) -> Self {
        Self {
            stage: row.place,
            count: row.count,
            p50_ms: ms(row.p50_ns),
            max_ms: ms(row.max_ns),
            slowest_server: row.slowest,
            node: row.node,
        }
    }
}

impl<'s> Shown<'s> {
    fn new(span: &'s Span, critical: bool) -> Self {
        let entry = &span.entry;
        let id = |id: u64| SpanId::from(id).to_string();
        Self {
            span_id: id(entry.id),
            parent_span_id: entry.parent.map(id),
            name: &entry.name,
            start_ns: entry.start_ns,
            end_ns: entry.end_ns,
            duration_ms: span.length_ns().map(ms),
            server: entry.server.as_deref(),
            node: span.node.as_deref(),
            pid: entry.pid,
            outcome: entry.outcome.as_deref(),
            error: span.error.as_deref(),
            critical,
            attributes: Attributes(&span.attributes),
        }
    }
}

pub fn ms(ns: i128) -> f64 {
    ns as f64 / 1e6
}
