//! A startup as it can be shown: the spans of one trace.

use opentelemetry::TraceId;

use crate::waterfall::Entry;

/// The spans of one trace. A parent that is not among them is in a file that was not given, or
/// never came to an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Startup {
    pub trace_id: TraceId,
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
