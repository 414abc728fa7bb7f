//! A startup as it can be shown: the spans of one trace.

use gym_stamp::spans::STAGE;
use opentelemetry::TraceId;

use crate::waterfall::Entry;

/// The span of a whole startup.
pub const ROOT: &str = "gym.startup";
/// That of one server, as its supervisor saw it.
pub const SERVER: &str = "gym.startup.server";
/// What a server's main process, and a worker of it, say themselves.
pub const REPORT: &str = "gym.server.startup";
pub const WORKER: &str = "gym.server.startup.worker";

/// The outcome of a startup that only stages are recorded of.
pub const UNKNOWN: &str = "unknown";

/// The spans of one trace, or of a server that is in none. A parent that is not among them is in a file that was not given, or
/// never came to an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Startup {
    pub trace_id: Option<TraceId>,
    /// In the order in which they were recorded.
    pub spans: Vec<Span>,
}

/// One span, with what a drawing of it needs, and what else there is to tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub entry: Entry,
    /// The machine that recorded it: `host.name` of its resource.
    pub node: Option<String>,
    /// Why its status is an error.
    pub error: Option<String>,
    /// Its own attributes, as text, in the order in which they were recorded.
    pub attributes: Vec<(String, String)>,
}

impl Startup {
    /// Nanoseconds since the epoch.
    pub fn start_ns(&self) -> u64 {
        self.spans.iter().map(|span| span.entry.start_ns).min().unwrap_or(0)
    }

    /// Nanoseconds since the epoch. What has not ended counts with its start.
    pub fn end_ns(&self) -> u64 {
        let ends = self.spans.iter().map(|span| span.entry.end_ns.unwrap_or(span.entry.start_ns));
        ends.max().unwrap_or(0)
    }

    /// How long it took: as its supervisor says, else from the first start to the last end.
    pub fn length_ns(&self) -> i128 {
        let roots = self.spans.iter().filter(|span| span.entry.name == ROOT);
        let longest = roots.filter_map(Span::length_ns).max();
        longest.unwrap_or_else(|| i128::from(self.end_ns()) - i128::from(self.start_ns()))
    }

    /// How it ended, as its supervisor says: of several startups in one trace, the first that was
    /// not ready. [`UNKNOWN`] if [there are only stages](Self::is_in_parts).
    pub fn outcome(&self) -> Option<&str> {
        if self.is_in_parts() {
            return Some(UNKNOWN);
        }
        let roots = self.spans.iter().filter(|span| span.entry.name == ROOT);
        let outcomes = roots.filter_map(|span| span.entry.outcome.as_deref());
        outcomes.min_by_key(|outcome| *outcome == gym_stamp::supervisor::READY)
    }

    /// Whether no span is there that ends when a startup does: of a server that was watched too
    /// late, or whose other spans are in a file that was not given.
    pub fn is_in_parts(&self) -> bool {
        let is_whole = |span: &Span| [ROOT, SERVER, REPORT, WORKER].contains(&&*span.entry.name);
        let is_stage = |span: &Span| {
            let stages = [ROOT, REPORT].iter().any(|it| span.entry.name.starts_with(it));
            stages || span.attribute(STAGE).is_some()
        };
        !self.spans.iter().any(is_whole) && self.spans.iter().any(is_stage)
    }

    /// [`Self::outcome`] in words.
    pub fn ending(&self) -> Option<String> {
        Some(match self.outcome()? {
            UNKNOWN => format!("outcome {UNKNOWN}"),
            outcome => outcome.to_owned(),
        })
    }

    /// What it is called among others.
    pub fn title(&self) -> String {
        let pid = self.spans.iter().find_map(|span| span.entry.pid);
        match (self.trace_id, pid) {
            (Some(trace_id), _) => format!("trace {trace_id}"),
            (None, Some(pid)) => format!("process {pid}"),
            (None, None) => "no trace".to_owned(),
        }
    }

    pub fn entries(&self) -> Vec<Entry> {
        self.spans.iter().map(|span| span.entry.clone()).collect()
    }
}

impl Span {
    /// Negative where the clock was set back meanwhile; `None` for one that has not ended.
    pub fn length_ns(&self) -> Option<i128> {
        Some(i128::from(self.entry.end_ns?) - i128::from(self.entry.start_ns))
    }

    /// About how much its texts take.
    pub fn bytes(&self) -> usize {
        let Entry { name, server, outcome, .. } = &self.entry;
        let texts = [Some(name), server.as_ref(), outcome.as_ref(), self.node.as_ref()];
        let texts = texts.into_iter().chain([self.error.as_ref()]).flatten();
        let pairs = self.attributes.iter().flat_map(|(key, value)| [key, value]);
        let pairs = pairs.map(|text| text.len().saturating_add(size_of::<String>()));
        texts.map(String::len).chain(pairs).sum()
    }

    pub fn attribute(&self, key: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(it, _)| it == key);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}
