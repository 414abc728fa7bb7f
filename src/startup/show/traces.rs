//! Spans by their trace, as many as there is room for.

use std::collections::{HashMap, HashSet};

use opentelemetry::TraceId;

use super::startup::{Span, Startup};
use crate::words::counted;

/// More spans than this are not kept: the startup of three hundred servers has ten thousand.
const MOST_SPANS: usize = 50_000;
/// When there are more, the oldest startups go until so many are left.
const AFTER_REMOVAL: usize = MOST_SPANS / 4 * 3;

/// Spans by their trace, each once.
#[derive(Default)]
pub struct Traces {
    traces: HashMap<TraceId, Trace>,
    len: usize,
    removed: HashSet<TraceId>,
    left_out: usize,
}

#[derive(Default)]
struct Trace {
    spans: Vec<Span>,
    by_id: HashMap<u64, usize>,
    start_ns: u64,
}

impl Traces {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.traces.is_empty()
    }

    /// Takes the span, unless it is there already.
    pub fn take(&mut self, trace_id: TraceId, span: Span) {
        if self.len >= MOST_SPANS {
            self.remove_oldest();
        }
        if self.removed.contains(&trace_id) {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        let is_full = self.len >= MOST_SPANS;
        let trace = self.traces.entry(trace_id).or_default();
        match trace.by_id.get(&span.entry.id).and_then(|index| trace.spans.get_mut(*index)) {
            // A file that was given twice, or an exporter that tried again.
            Some(known) if known.entry.end_ns.is_some() => {}
            Some(known) => *known = span,
            None if is_full => self.left_out = self.left_out.saturating_add(1),
            None => {
                let first = trace.spans.is_empty();
                let start_ns = span.entry.start_ns;
                trace.start_ns = if first { start_ns } else { start_ns.min(trace.start_ns) };
                trace.by_id.insert(span.entry.id, trace.spans.len());
                trace.spans.push(span);
                self.len = self.len.saturating_add(1);
            }
        }
    }

    /// The latest startup is kept, whatever its size.
    fn remove_oldest(&mut self) {
        let mut by_start: Vec<_> =
            self.traces.iter().map(|(id, trace)| (trace.start_ns, *id)).collect();
        by_start.sort_unstable_by_key(|(start_ns, id)| (*start_ns, id.to_bytes()));
        by_start.pop();
        for (_, trace_id) in by_start {
            if self.len <= AFTER_REMOVAL {
                break;
            }
            let spans = self.traces.remove(&trace_id).map_or(0, |trace| trace.spans.len());
            self.len = self.len.saturating_sub(spans);
            self.left_out = self.left_out.saturating_add(spans);
            self.removed.insert(trace_id);
        }
    }

    /// What is not there because it was too much, as a sentence.
    pub fn left_out(&self) -> Option<String> {
        if self.left_out == 0 {
            return None;
        }
        let spans = counted(self.left_out, "span", "spans");
        let (of, hint) = match self.removed.len() {
            0 => (String::new(), ""),
            count => {
                let startups = counted(count, "older startup", "older startups");
                (format!(" of {startups}"), "; --trace chooses a startup")
            }
        };
        Some(format!("{spans}{of} left out, since {MOST_SPANS} are the most{hint}"))
    }

    /// By their start.
    pub fn finish(self) -> Vec<Startup> {
        let startup = |(trace_id, trace): (TraceId, Trace)| Startup {
            trace_id: Some(trace_id),
            spans: trace.spans,
        };
        let mut startups: Vec<_> = self.traces.into_iter().map(startup).collect();
        startups.sort_by_cached_key(|startup| (startup.start_ns(), startup.title()));
        startups
    }
}
