//! What a startup looks like from outside the process: span records and metric samples.
//!
//! Plain data, with the names and the attributes of the contract. Times are `CLOCK_REALTIME` in
//! nanoseconds since the epoch. Who delivers them is a [`Sink`]'s business.

use opentelemetry::{KeyValue, SpanId, TraceFlags, TraceId};

/// The histogram that every stage of a server is one sample of; its unit is [`METRIC_UNIT`].
pub const METRIC_NAME: &str = "gym.server.startup_stage_duration_ms";
/// The unit of [`METRIC_NAME`].
pub const METRIC_UNIT: &str = "ms";
/// The bucket boundaries of [`METRIC_NAME`], in milliseconds.
pub const METRIC_BOUNDARIES: [f64; 14] = [
    100.0,
    250.0,
    500.0,
    1_000.0,
    2_500.0,
    5_000.0,
    10_000.0,
    30_000.0,
    60_000.0,
    120_000.0,
    300_000.0,
    600_000.0,
    1_800_000.0,
    3_600_000.0,
];

/// One finished span.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanRecord {
    /// The startup that the span is part of: one startup is one trace.
    pub trace_id: TraceId,
    /// The span's own id.
    pub span_id: SpanId,
    /// The span above it; `None` for the root of a trace.
    pub parent_span_id: Option<SpanId>,
    /// The trace's flags. Without [`TraceFlags::SAMPLED`] the caller whose trace this joins keeps
    /// it from its own collector: such a span may be shown and written to a file, but is not
    /// exported.
    pub flags: TraceFlags,
    /// As the contract's table of spans has it.
    pub name: String,
    /// Nanoseconds since the epoch.
    pub start_ns: u64,
    /// Nanoseconds since the epoch; before `start_ns` if the clock was set back meanwhile.
    pub end_ns: u64,
    /// As the contract's table of spans has them.
    pub attributes: Vec<KeyValue>,
    /// Whether what the span stands for went wrong.
    pub status: Status,
}

/// Whether what a span stands for went wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// Nothing was said, as OpenTelemetry has it for all that went well.
    #[default]
    Unset,
    /// It went wrong, and why.
    Error(String),
}

/// One sample of a histogram: how long one stage of a server took.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSample {
    /// [`METRIC_NAME`].
    pub name: &'static str,
    /// The duration in milliseconds.
    pub value_ms: f64,
    /// As the contract has them.
    pub attributes: Vec<KeyValue>,
    /// When the stage ended, in nanoseconds since the epoch.
    pub time_ns: u64,
}

/// What one process reports of its startup.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Records {
    /// Delivered only where the span group `startup` is on.
    pub spans: Vec<SpanRecord>,
    /// Delivered whether or not the span group is on.
    pub metrics: Vec<MetricSample>,
}

/// Where a server's records go.
///
/// Nothing comes back: no telemetry may fail a server, so what goes wrong is the sink's own to
/// tell. It may take its time, within a deadline of its own.
pub trait Sink {
    /// Delivers `records`, once.
    fn emit(&self, records: Records);
}

/// A closure is a sink.
impl<F: Fn(Records)> Sink for F {
    fn emit(&self, records: Records) {
        self(records);
    }
}
