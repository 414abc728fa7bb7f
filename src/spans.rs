//! What a startup looks like from outside the process: span records and metric samples.
//!
//! Plain data, with the names and the attributes of the contract. Times are `CLOCK_REALTIME` in
//! nanoseconds since the epoch. How they get out is a [`Sink`]'s business.

use std::hash::{BuildHasher, RandomState};

use opentelemetry::{KeyValue, SpanId, TraceFlags, TraceId};

use crate::timeline::Stage;
use crate::traceparent::TraceParent;

/// Attribute: how a startup, or a server's, ended.
pub const OUTCOME: &str = "nemo.gym.startup.outcome";
/// Attribute: the name of the stage.
pub const STAGE: &str = "nemo.gym.startup.stage";
/// Attribute: the server's name.
pub const SERVER_NAME: &str = "nemo.gym.server.name";
/// Attribute: the server's type, where it has one.
pub const SERVER_TYPE: &str = "nemo.gym.server.type";
/// Attribute: whether the process is a worker of a multi-worker server.
pub const SERVER_WORKER: &str = "nemo.gym.server.worker";
/// Attribute: the process.
pub const PROCESS_PID: &str = "process.pid";

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
    /// The trace's flags. A trace that begins here has [`TraceFlags::SAMPLED`]; one that is joined
    /// has what its caller gave it. Without that flag the caller keeps the trace from its own
    /// collector, so a span may be shown and written to a file, but is not exported: the rule of
    /// the OpenTelemetry SDKs' default sampler.
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

impl SpanRecord {
    /// The span `context` under `parent`, without times and attributes.
    pub(crate) fn empty(
        context: TraceParent,
        parent: Option<TraceParent>,
        name: impl Into<String>,
    ) -> Self {
        Self {
            trace_id: context.trace_id,
            span_id: context.span_id,
            parent_span_id: parent.map(|parent| parent.span_id),
            flags: context.flags,
            name: name.into(),
            start_ns: 0,
            end_ns: 0,
            attributes: Vec::new(),
            status: Status::Unset,
        }
    }
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

/// Makes the ids of traces and spans. Neither is ever zero.
pub trait Ids {
    /// The id of a new trace.
    fn trace_id(&mut self) -> TraceId;
    /// The id of a new span.
    fn span_id(&mut self) -> SpanId;
}

/// Random ids, out of the keys that the standard library draws for its hash maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RandomIds;

impl RandomIds {
    fn draw() -> u64 {
        // The process id keeps the two sides of a fork apart: they share the keys.
        RandomState::new().hash_one(std::process::id()).max(1)
    }
}

impl Ids for RandomIds {
    fn trace_id(&mut self) -> TraceId {
        TraceId::from(u128::from(Self::draw()) << 64 | u128::from(Self::draw()))
    }

    fn span_id(&mut self) -> SpanId {
        SpanId::from(Self::draw())
    }
}

/// Opens a span under `parent`, or a trace of its own where there is none.
///
/// A trace that begins here is sampled; one that is joined is what its caller says it is.
pub(crate) fn open(parent: Option<TraceParent>, ids: &mut impl Ids) -> TraceParent {
    let span_id = ids.span_id();
    match parent {
        Some(parent) => TraceParent { span_id, ..parent },
        None => TraceParent { trace_id: ids.trace_id(), span_id, flags: TraceFlags::SAMPLED },
    }
}

/// A server process, as its spans and its metric name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerProcess {
    /// The server's name in the configuration.
    pub name: String,
    /// The server's type; an empty one is none.
    pub server_type: Option<String>,
    /// Whether this is a worker of a multi-worker server.
    pub worker: bool,
    /// The process id.
    pub pid: u32,
}

impl ServerProcess {
    fn metric_attributes(&self) -> Vec<KeyValue> {
        let mut attributes = server_attributes(&self.name, self.server_type.as_deref());
        attributes.push(KeyValue::new(SERVER_WORKER, self.worker));
        attributes
    }

    fn span_attributes(&self) -> Vec<KeyValue> {
        let mut attributes = self.metric_attributes();
        attributes.push(KeyValue::new(PROCESS_PID, i64::from(self.pid)));
        attributes
    }
}

pub(crate) fn server_attributes(name: &str, server_type: Option<&str>) -> Vec<KeyValue> {
    let mut attributes = vec![KeyValue::new(SERVER_NAME, name.to_owned())];
    if let Some(server_type) = server_type.filter(|server_type| !server_type.is_empty()) {
        attributes.push(KeyValue::new(SERVER_TYPE, server_type.to_owned()));
    }
    attributes
}

/// The spans of a server process: `gym.server.startup`, or `gym.server.startup.worker`, from the
/// first stage's start to the last stage's end, and one beneath it for each stage.
///
/// They stand under `parent`, or are a trace of their own where there is none. Without stages
/// there is nothing to tell.
pub fn server_spans(
    server: &ServerProcess,
    stages: &[Stage],
    parent: Option<TraceParent>,
    ids: &mut impl Ids,
) -> Vec<SpanRecord> {
    let (Some(first), Some(last)) = (stages.first(), stages.last()) else {
        return Vec::new();
    };
    let name = if server.worker { "gym.server.startup.worker" } else { "gym.server.startup" };
    let attributes = server.span_attributes();
    let root = open(parent, ids);
    let mut spans = vec![SpanRecord {
        start_ns: first.start_ns,
        end_ns: last.end_ns,
        attributes: attributes.clone(),
        ..SpanRecord::empty(root, parent, name)
    }];
    spans.extend(stage_spans(name, stages, root, &attributes, ids));
    spans
}

/// One span for each stage, called `<prefix>.<stage>`, under `parent`; each has `attributes` and
/// the stage's name.
pub fn stage_spans(
    prefix: &str,
    stages: &[Stage],
    parent: TraceParent,
    attributes: &[KeyValue],
    ids: &mut impl Ids,
) -> impl Iterator<Item = SpanRecord> {
    stages.iter().map(move |stage| SpanRecord {
        start_ns: stage.start_ns,
        end_ns: stage.end_ns,
        attributes: with_stage(attributes.to_vec(), stage),
        ..SpanRecord::empty(
            open(Some(parent), ids),
            Some(parent),
            format!("{prefix}.{}", stage.name),
        )
    })
}

/// One sample of [`METRIC_NAME`] for each stage.
///
/// Only for the process that ran the stages: a supervisor records no metric, since its readiness
/// is only as precise as its probe.
pub fn server_metrics(server: &ServerProcess, stages: &[Stage]) -> Vec<MetricSample> {
    stages
        .iter()
        .map(|stage| MetricSample {
            name: METRIC_NAME,
            value_ms: stage.duration_ms(),
            attributes: with_stage(server.metric_attributes(), stage),
            time_ns: stage.end_ns,
        })
        .collect()
}

fn with_stage(mut attributes: Vec<KeyValue>, stage: &Stage) -> Vec<KeyValue> {
    attributes.push(KeyValue::new(STAGE, stage.name.clone()));
    attributes
}
