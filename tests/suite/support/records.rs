//! Timelines on a clock and with ids that the test decides, and records as text.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::rc::Rc;

use gym_stamp::spans::{Ids, MetricSample, Records, Sink, SpanRecord, Status};
use gym_stamp::timeline::Clock;
use opentelemetry::{KeyValue, SpanId, TraceId, Value};

/// A clock that goes only where the test sets it.
#[derive(Clone, Default)]
pub struct FakeClock(Rc<Cell<u64>>);

impl FakeClock {
    /// A clock that stands at `ns`.
    pub fn at(ns: u64) -> Self {
        Self(Rc::new(Cell::new(ns)))
    }

    /// Moves the clock, forward or back.
    pub fn set(&self, ns: u64) {
        self.0.set(ns);
    }
}

impl Clock for FakeClock {
    fn now_ns(&self) -> u64 {
        self.0.get()
    }
}

/// Ids that count: trace 1, spans 1, 2, 3.
#[derive(Clone, Default)]
pub struct CountedIds {
    traces: u128,
    spans: u64,
}

impl Ids for CountedIds {
    fn trace_id(&mut self) -> TraceId {
        self.traces += 1;
        TraceId::from(self.traces)
    }

    fn span_id(&mut self) -> SpanId {
        self.spans += 1;
        SpanId::from(self.spans)
    }
}

/// The environment that holds just `variables`.
pub fn env<const N: usize>(variables: [(&str, &str); N]) -> impl Fn(&str) -> Option<OsString> {
    let variables = variables.map(|(name, value)| (name.to_owned(), OsString::from(value)));
    let variables = HashMap::from(variables);
    move |name| variables.get(name).cloned()
}

/// A sink that keeps what it is given.
#[derive(Default)]
pub struct Kept(pub RefCell<Vec<Records>>);

impl Sink for Kept {
    fn emit(&self, records: Records) {
        self.0.borrow_mut().push(records);
    }
}

/// `spans` as an indented tree, a line a span: name, times, attributes, status.
///
/// Fails unless they are one trace under one root with ids of their own.
pub fn tree(spans: &[SpanRecord]) -> String {
    let mut by_id = HashMap::new();
    for span in spans {
        assert!(by_id.insert(span.span_id, span).is_none(), "two spans have one id: {span:?}");
        assert_eq!(span.trace_id, spans[0].trace_id, "two traces");
    }
    let inner = |span: &&SpanRecord| span.parent_span_id.is_some_and(|id| by_id.contains_key(&id));
    let roots: Vec<_> = spans.iter().filter(|span| !inner(span)).collect();
    assert_eq!(roots.len(), 1, "one root: {roots:?}");
    let mut text = String::new();
    write_span(&mut text, roots[0], spans, 0);
    text
}

fn write_span(text: &mut String, span: &SpanRecord, spans: &[SpanRecord], depth: usize) {
    let indent = depth * 2;
    write!(text, "{:indent$}{} {}..{}", "", span.name, span.start_ns, span.end_ns).unwrap();
    text.push_str(&attributes(&span.attributes));
    if let Status::Error(message) = &span.status {
        write!(text, " error: {message}").unwrap();
    }
    text.push('\n');
    for child in spans.iter().filter(|child| child.parent_span_id == Some(span.span_id)) {
        write_span(text, child, spans, depth + 1);
    }
}

/// `samples`, a line each: name, value, attributes.
pub fn lines(samples: &[MetricSample]) -> String {
    samples.iter().fold(String::new(), |mut text, sample| {
        write!(text, "{} {}", sample.name, sample.value_ms).unwrap();
        text.push_str(&attributes(&sample.attributes));
        text.push('\n');
        text
    })
}

/// Quoted is a string, anything else is not.
fn attributes(attributes: &[KeyValue]) -> String {
    attributes.iter().fold(String::new(), |mut text, attribute| {
        match &attribute.value {
            Value::String(value) => write!(text, " {}={:?}", attribute.key, value.as_str()),
            value => write!(text, " {}={value}", attribute.key),
        }
        .unwrap();
        text
    })
}
