//! OTLP requests: made of records, and cut to a size that collectors take.

use opentelemetry::{Array, KeyValue, Value};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue as OtlpKeyValue, any_value,
};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Histogram, HistogramDataPoint, Metric, ResourceMetrics, ScopeMetrics,
    metric,
};
use opentelemetry_proto::tonic::resource::v1::Resource as OtlpResource;
use opentelemetry_proto::tonic::trace::v1::{
    ResourceSpans, ScopeSpans, Span, Status as OtlpStatus, span::SpanKind, status::StatusCode,
};
use prost::Message;

use super::resource::Resource;
use crate::spans::{METRIC_BOUNDARIES, METRIC_UNIT, MetricSample, SpanRecord, Status};

/// What goes out in one piece: the request of one of OTLP's two services that matter here.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Spans, with their resources and scopes.
    Traces(ExportTraceServiceRequest),
    /// Metrics, with their resources and scopes.
    Metrics(ExportMetricsServiceRequest),
}

impl Request {
    /// The request that carries `spans` of `resource`.
    pub fn of_spans(resource: &Resource, spans: &[SpanRecord]) -> Self {
        Self::Traces(ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(otlp_resource(resource)),
                scope_spans: vec![ScopeSpans {
                    scope: Some(scope()),
                    spans: spans.iter().map(otlp_span).collect(),
                    schema_url: String::new(),
                }],
                schema_url: String::new(),
            }],
        })
    }

    /// The request that carries `samples` of `resource`, one data point for each set of attributes.
    pub fn of_samples(
        resource: &Resource,
        samples: &[MetricSample],
        temporality: Temporality,
    ) -> Self {
        Self::Metrics(ExportMetricsServiceRequest {
            resource_metrics: vec![ResourceMetrics {
                resource: Some(otlp_resource(resource)),
                scope_metrics: vec![ScopeMetrics {
                    scope: Some(scope()),
                    metrics: histograms(samples, temporality),
                    schema_url: String::new(),
                }],
                schema_url: String::new(),
            }],
        })
    }

    /// The spans or metrics in it.
    pub fn len(&self) -> usize {
        match self {
            Self::Traces(request) => request
                .resource_spans
                .iter()
                .flat_map(|resource| &resource.scope_spans)
                .map(|scope| scope.spans.len())
                .sum(),
            Self::Metrics(request) => request
                .resource_metrics
                .iter()
                .flat_map(|resource| &resource.scope_metrics)
                .map(|scope| scope.metrics.len())
                .sum(),
        }
    }

    /// Whether it carries nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What it carries, for people: `3 spans`, `1 metric`.
    pub fn contents(&self) -> String {
        let count = self.len();
        let (one, many) = match self {
            Self::Traces(_) => ("span", "spans"),
            Self::Metrics(_) => ("metric", "metrics"),
        };
        format!("{count} {}", if count == 1 { one } else { many })
    }
}

/// What a histogram's data point counts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Temporality {
    /// From the process's start, as the servers have it.
    #[default]
    Cumulative,
    /// From the last export.
    Delta,
}

impl Temporality {
    /// `OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE`: `delta` and `lowmemory` mean
    /// [`Delta`](Self::Delta) for a histogram.
    pub fn from_env(env: super::settings::Lookup<'_>) -> Self {
        let preference = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
        match super::settings::value(env, preference).map(|value| value.to_lowercase()).as_deref() {
            Some("delta" | "lowmemory") => Self::Delta,
            _ => Self::Cumulative,
        }
    }
}

fn otlp_resource(resource: &Resource) -> OtlpResource {
    OtlpResource { attributes: otlp_attributes(&resource.attributes), ..OtlpResource::default() }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: env!("CARGO_PKG_NAME").to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

fn otlp_span(span: &SpanRecord) -> Span {
    let status = match &span.status {
        Status::Unset => OtlpStatus::default(),
        Status::Error(message) => {
            OtlpStatus { message: message.clone(), code: StatusCode::Error.into() }
        }
    };
    Span {
        trace_id: span.trace_id.to_bytes().to_vec(),
        span_id: span.span_id.to_bytes().to_vec(),
        parent_span_id: span.parent_span_id.map_or_else(Vec::new, |id| id.to_bytes().to_vec()),
        flags: span.flags.to_u8().into(),
        name: span.name.clone(),
        kind: SpanKind::Internal.into(),
        start_time_unix_nano: span.start_ns,
        end_time_unix_nano: span.end_ns,
        attributes: otlp_attributes(&span.attributes),
        status: Some(status),
        ..Span::default()
    }
}

/// The data points of one metric, each with the attributes that it counts.
type Points<'a> = Vec<(&'a [KeyValue], HistogramDataPoint)>;

fn histograms(samples: &[MetricSample], temporality: Temporality) -> Vec<Metric> {
    let mut metrics: Vec<(&str, Points<'_>)> = Vec::new();
    for sample in samples {
        let index = position_or_push(
            &mut metrics,
            |(name, _)| *name == sample.name,
            || (sample.name, Vec::new()),
        );
        let Some((_, points)) = metrics.get_mut(index) else { continue };
        let index = position_or_push(
            points,
            |(attributes, _)| *attributes == sample.attributes.as_slice(),
            || (&sample.attributes, empty_point(&sample.attributes)),
        );
        if let Some((_, point)) = points.get_mut(index) {
            record(point, sample);
        }
    }
    metrics
        .into_iter()
        .map(|(name, points)| Metric {
            name: name.to_owned(),
            unit: METRIC_UNIT.to_owned(),
            data: Some(metric::Data::Histogram(Histogram {
                data_points: points.into_iter().map(|(_, point)| point).collect(),
                aggregation_temporality: match temporality {
                    Temporality::Cumulative => AggregationTemporality::Cumulative,
                    Temporality::Delta => AggregationTemporality::Delta,
                }
                .into(),
            })),
            ..Metric::default()
        })
        .collect()
}

fn position_or_push<T>(
    list: &mut Vec<T>,
    is_it: impl FnMut(&T) -> bool,
    make: impl FnOnce() -> T,
) -> usize {
    list.iter().position(is_it).unwrap_or_else(|| {
        list.push(make());
        list.len().saturating_sub(1)
    })
}

fn empty_point(attributes: &[KeyValue]) -> HistogramDataPoint {
    HistogramDataPoint {
        attributes: otlp_attributes(attributes),
        start_time_unix_nano: u64::MAX,
        sum: Some(0.0),
        bucket_counts: vec![0; METRIC_BOUNDARIES.len().saturating_add(1)],
        explicit_bounds: METRIC_BOUNDARIES.to_vec(),
        min: Some(f64::INFINITY),
        max: Some(f64::NEG_INFINITY),
        ..HistogramDataPoint::default()
    }
}

fn record(point: &mut HistogramDataPoint, sample: &MetricSample) {
    let started_ns = sample.time_ns.saturating_sub((sample.value_ms * 1e6) as u64);
    point.start_time_unix_nano = point.start_time_unix_nano.min(started_ns);
    point.time_unix_nano = point.time_unix_nano.max(sample.time_ns);
    point.count = point.count.saturating_add(1);
    point.sum = point.sum.map(|sum| sum + sample.value_ms);
    point.min = point.min.map(|min| min.min(sample.value_ms));
    point.max = point.max.map(|max| max.max(sample.value_ms));
    // A boundary belongs to the bucket below it.
    let bucket = METRIC_BOUNDARIES.partition_point(|&boundary| boundary < sample.value_ms);
    if let Some(count) = point.bucket_counts.get_mut(bucket) {
        *count = count.saturating_add(1);
    }
}

fn otlp_attributes(attributes: &[KeyValue]) -> Vec<OtlpKeyValue> {
    attributes
        .iter()
        .map(|attribute| OtlpKeyValue {
            key: attribute.key.as_str().to_owned(),
            value: Some(AnyValue { value: Some(any_value(&attribute.value)) }),
            ..OtlpKeyValue::default()
        })
        .collect()
}

fn any_value(value: &Value) -> any_value::Value {
    fn list<T>(items: &[T], value: impl Fn(&T) -> any_value::Value) -> any_value::Value {
        let values = items.iter().map(|item| AnyValue { value: Some(value(item)) }).collect();
        any_value::Value::ArrayValue(ArrayValue { values })
    }
    match value {
        Value::Bool(it) => any_value::Value::BoolValue(*it),
        Value::I64(it) => any_value::Value::IntValue(*it),
        Value::F64(it) => any_value::Value::DoubleValue(*it),
        Value::String(it) => any_value::Value::StringValue(it.as_str().to_owned()),
        Value::Array(Array::Bool(items)) => list(items, |it| any_value::Value::BoolValue(*it)),
        Value::Array(Array::I64(items)) => list(items, |it| any_value::Value::IntValue(*it)),
        Value::Array(Array::F64(items)) => list(items, |it| any_value::Value::DoubleValue(*it)),
        Value::Array(Array::String(items)) => {
            list(items, |it| any_value::Value::StringValue(it.as_str().to_owned()))
        }
        other => any_value::Value::StringValue(other.as_str().into_owned()),
    }
}

/// What a request may weigh as protobuf, in bytes: a quarter of the 4 MiB that gRPC servers take by
/// default, so that there is room for what JSON adds, and little to keep in memory.
pub const BATCH_BYTES: usize = 1024 * 1024;

/// Gathers spans and metrics into requests of at most [`BATCH_BYTES`].
///
/// Resources and scopes stay around what they came with; what comes one after the other from the
/// same ones shares them. A single span, or the metrics of a single resource, that weigh more go out
/// alone, for the collector to judge.
#[derive(Debug, Default)]
pub struct Batches {
    traces: Vec<ResourceSpans>,
    traces_bytes: usize,
    metrics: Vec<ResourceMetrics>,
    metrics_bytes: usize,
}

impl Batches {
    /// Adds what `request` carries, and returns the requests that are full.
    pub fn add(&mut self, request: Request) -> Vec<Request> {
        let mut full = Vec::new();
        match request {
            Request::Traces(request) => {
                for resource in request.resource_spans {
                    self.add_spans(resource, &mut full);
                }
            }
            Request::Metrics(request) => {
                for resource in request.resource_metrics {
                    self.add_metrics(resource, &mut full);
                }
            }
        }
        full
    }

    /// All that `requests` carry, ready to go.
    pub fn of(requests: impl IntoIterator<Item = Request>) -> Vec<Request> {
        let mut batches = Self::default();
        let mut all = Vec::new();
        for request in requests {
            all.extend(batches.add(request));
        }
        all.extend(batches.finish());
        all
    }

    /// What is left, ready to go.
    pub fn finish(mut self) -> impl Iterator<Item = Request> {
        [self.take_traces(), self.take_metrics()].into_iter().filter(|request| !request.is_empty())
    }

    fn add_spans(&mut self, mut from: ResourceSpans, full: &mut Vec<Request>) {
        for mut of_scope in std::mem::take(&mut from.scope_spans) {
            let spans = std::mem::take(&mut of_scope.spans);
            let around = framed(from.encoded_len()).saturating_add(framed(of_scope.encoded_len()));
            let mut is_open = false;
            for span in spans {
                let bytes = framed(span.encoded_len());
                let opening = if is_open { 0 } else { around };
                let total = self.traces_bytes.saturating_add(opening).saturating_add(bytes);
                if total > BATCH_BYTES && self.traces_bytes > 0 {
                    full.push(self.take_traces());
                    is_open = false;
                }
                if !is_open && self.open(&from, &of_scope) {
                    self.traces_bytes = self.traces_bytes.saturating_add(around);
                }
                is_open = true;
                let resource = self.traces.last_mut();
                if let Some(scope) = resource.and_then(|resource| resource.scope_spans.last_mut()) {
                    scope.spans.push(span);
                    self.traces_bytes = self.traces_bytes.saturating_add(bytes);
                }
            }
        }
    }

    /// Makes `resource` and `scope`, both without content, the last of the batch. Whether that
    /// added anything.
    fn open(&mut self, resource: &ResourceSpans, scope: &ScopeSpans) -> bool {
        let same_resource = self.traces.last().is_some_and(|last| {
            last.resource == resource.resource && last.schema_url == resource.schema_url
        });
        if !same_resource {
            self.traces.push(resource.clone());
        }
        let Some(last) = self.traces.last_mut() else { return false };
        let same_scope = last
            .scope_spans
            .last()
            .is_some_and(|last| last.scope == scope.scope && last.schema_url == scope.schema_url);
        if !same_scope {
            last.scope_spans.push(scope.clone());
        }
        !(same_resource && same_scope)
    }

    fn add_metrics(&mut self, from: ResourceMetrics, full: &mut Vec<Request>) {
        let bytes = framed(from.encoded_len());
        if self.metrics_bytes.saturating_add(bytes) > BATCH_BYTES && self.metrics_bytes > 0 {
            full.push(self.take_metrics());
        }
        self.metrics_bytes = self.metrics_bytes.saturating_add(bytes);
        self.metrics.push(from);
    }

    fn take_traces(&mut self) -> Request {
        self.traces_bytes = 0;
        let resource_spans = std::mem::take(&mut self.traces);
        Request::Traces(ExportTraceServiceRequest { resource_spans })
    }

    fn take_metrics(&mut self) -> Request {
        self.metrics_bytes = 0;
        let resource_metrics = std::mem::take(&mut self.metrics);
        Request::Metrics(ExportMetricsServiceRequest { resource_metrics })
    }
}

/// The most that an embedded message of `len` bytes takes: itself, its tag, and its length, which
/// grows with what is put into it.
fn framed(len: usize) -> usize {
    const TAG_AND_LENGTH: usize = 6;
    len.saturating_add(TAG_AND_LENGTH)
}
