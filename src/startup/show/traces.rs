//! Spans by their trace, as many as there is room for.

use std::collections::{HashMap, HashSet};

use opentelemetry::TraceId;

use super::startup::{Span, Startup};
use crate::words::counted;

/// More spans than this are not kept: the startup of three hundred servers has ten thousand.
const MOST_SPANS: usize = 50_000;
/// Nor more than this of their texts, in bytes: 1,000 of each.
const MOST_BYTES: usize = 48 << 20;

/// How much there is of spans.
#[derive(Clone, Copy, Default)]
struct Size {
    spans: usize,
    bytes: usize,
}

impl Size {
    fn of(spans: &[Span]) -> Self {
        Self { spans: spans.len(), bytes: spans.iter().map(Span::bytes).sum() }
    }

    fn is_full(self) -> bool {
        self.spans >= MOST_SPANS || self.bytes >= MOST_BYTES
    }

    /// Whether enough is gone: the oldest startups go until it is.
    fn has_room(self) -> bool {
        self.spans <= MOST_SPANS / 4 * 3 && self.bytes <= MOST_BYTES / 4 * 3
    }
}

/// Spans by their trace, each once.
#[derive(Default)]
pub struct Traces {
    traces: HashMap<TraceId, Trace>,
    size: Size,
    removed: HashSet<TraceId>,
    /// Spans of those that were removed.
    removed_spans: usize,
}

struct Trace {
    spans: Vec<Span>,
    by_id: HashMap<u64, usize>,
    start_ns: u64,
    left_out: usize,
}

impl Traces {
    pub fn len(&self) -> usize {
        self.size.spans
    }

    pub fn is_empty(&self) -> bool {
        self.traces.is_empty()
    }

    /// Takes the span, unless it is there already.
    pub fn take(&mut self, trace_id: TraceId, span: Span) {
        if self.size.is_full() {
            self.make_room(trace_id, span.entry.start_ns);
        }
        if self.removed.contains(&trace_id) {
            self.removed_spans = self.removed_spans.saturating_add(1);
            return;
        }
        let is_full = self.size.is_full();
        let bytes = span.bytes();
        let start_ns = span.entry.start_ns;
        let trace = self.traces.entry(trace_id).or_insert_with(|| Trace::from(start_ns));
        match trace.by_id.get(&span.entry.id).and_then(|index| trace.spans.get_mut(*index)) {
            // A file that was given twice, or an exporter that tried again.
            Some(known) if known.entry.end_ns.is_some() => {}
            Some(known) => {
                self.size.bytes =
                    self.size.bytes.saturating_add(bytes).saturating_sub(known.bytes());
                *known = span;
            }
            None if is_full => trace.left_out = trace.left_out.saturating_add(1),
            None => {
                trace.start_ns = start_ns.min(trace.start_ns);
                trace.by_id.insert(span.entry.id, trace.spans.len());
                trace.spans.push(span);
                self.size.spans = self.size.spans.saturating_add(1);
                self.size.bytes = self.size.bytes.saturating_add(bytes);
            }
        }
    }

    /// For a span of `trace_id` that starts at `start_ns`. The latest startup is kept, whatever its
    /// size.
    fn make_room(&mut self, trace_id: TraceId, start_ns: u64) {
        let mut by_start: Vec<_> =
            self.traces.iter().map(|(id, trace)| (trace.start_ns, *id)).collect();
        if !self.traces.contains_key(&trace_id) && !self.removed.contains(&trace_id) {
            by_start.push((start_ns, trace_id));
        }
        by_start.sort_unstable_by_key(|(start_ns, id)| (*start_ns, id.to_bytes()));
        by_start.pop();
        for (_, trace_id) in by_start {
            if self.size.has_room() {
                break;
            }
            if let Some(Trace { spans, left_out, .. }) = self.traces.remove(&trace_id) {
                let Size { spans: count, bytes } = Size::of(&spans);
                self.size.spans = self.size.spans.saturating_sub(count);
                self.size.bytes = self.size.bytes.saturating_sub(bytes);
                self.removed_spans =
                    self.removed_spans.saturating_add(spans.len()).saturating_add(left_out);
            }
            self.removed.insert(trace_id);
        }
    }

    /// What is not there because it was too much, as a sentence.
    pub fn left_out(&self) -> Option<String> {
        let spans = |count| counted(count, "span", "spans");
        let of_older = |count| {
            let startups = counted(self.removed.len(), "older startup", "older startups");
            format!("{} of {startups}", spans(count))
        };
        let of_kept = self.traces.values().map(|trace| trace.left_out).sum();
        let (what, hint) = match (of_kept, self.removed_spans) {
            (0, 0) => return None,
            (kept, 0) => (spans(kept), ""),
            (0, removed) => (of_older(removed), "; --trace chooses a startup"),
            (kept, removed) => (
                format!("{} of the latest startup and {}", spans(kept), of_older(removed)),
                "; --trace chooses a startup",
            ),
        };
        let mib = MOST_BYTES >> 20;
        Some(format!(
            "{what} left out, since {MOST_SPANS}, or {mib} MiB of their texts, are the most{hint}"
        ))
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

impl Trace {
    fn from(start_ns: u64) -> Self {
        Self { spans: Vec::new(), by_id: HashMap::new(), start_ns, left_out: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waterfall::Entry;

    fn taken(spans: impl IntoIterator<Item = (u64, u64, u64)>) -> (Vec<(u64, usize)>, String) {
        let mut traces = Traces::default();
        for (trace, id, start_ns) in spans {
            let entry = Entry { id, start_ns, ..Entry::default() };
            traces.take(TraceId::from(u128::from(trace)), Span { entry, ..Span::default() });
        }
        let note = traces.left_out().unwrap_or_default();
        let startups = traces.finish();
        (startups.iter().map(|it| (it.start_ns(), it.spans.len())).collect(), note)
    }

    #[test]
    fn the_latest_startup_is_kept_however_small_it_is() {
        let large = || (0..60_000).map(|id| (1, id, 1_000 + id));
        let most = "50000, or 48 MiB of their texts, are the most";
        for (others, startups, note) in [
            (vec![], vec![(1_000, 50_000)], format!("10000 spans left out, since {most}")),
            (
                vec![(2, 1, 2_000), (2, 2, 2_001)],
                vec![(2_000, 2)],
                format!(
                    "60000 spans of 1 older startup left out, since {most}; --trace chooses a \
                     startup"
                ),
            ),
            (
                vec![(2, 1, 500), (2, 2, 2_001)],
                vec![(1_000, 50_000)],
                format!(
                    "10000 spans of the latest startup and 2 spans of 1 older startup left out, \
                     since {most}; --trace chooses a startup"
                ),
            ),
        ] {
            assert_eq!(taken(large().chain(others)), (startups, note));
        }
    }
}
