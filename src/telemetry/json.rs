//! OTLP JSON, a request a line: what a collector's file exporter writes.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, DataPointFlags, Exemplar, Metric, NumberDataPoint, ResourceMetrics,
    metric::Data,
};
use opentelemetry_proto::tonic::trace::v1::{
    ResourceSpans, Span, span::SpanKind, status::StatusCode,
};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, json};

use super::request::Request;
use super::way_out::one_line;

/// The requests of one line: none if it is blank, more than one if it carries both signals.
///
/// # Errors
///
/// What is wrong with the line, as a clause that can follow its place, even if only a part of it
/// cannot be sent.
pub fn read_line(line: &[u8]) -> Result<Vec<Request>, String> {
    match read_parts(line) {
        (requests, None) => Ok(requests),
        (_, Some(why)) => Err(why),
    }
}

/// What of one line can be sent, and why the rest of it cannot, if there is any: a clause that can
/// follow its place.
pub fn read_parts(line: &[u8]) -> (Vec<Request>, Option<String>) {
    match parse(line) {
        Ok(None) => (Vec::new(), None),
        Ok(Some(line)) => line.requests(),
        Err(why) => (Vec::new(), Some(why)),
    }
}

/// The spans of one line: `None` if it carries metrics or logs alone, or is blank.
///
/// # Errors
///
/// What is wrong with the line, as a clause that can follow its place.
pub fn read_spans(line: &[u8]) -> Result<Option<Vec<ResourceSpans>>, String> {
    let Some(line) = parse(line)? else { return Ok(None) };
    match line {
        Line {
            resource_spans: None,
            resource_metrics: None,
            resource_logs: None,
            resource_profiles: None,
            ..
        } => Err("neither resourceSpans nor resourceMetrics nor resourceLogs".to_owned()),
        Line { resource_spans, .. } => Ok(resource_spans),
    }
}

/// What the line carries: `None` if it is blank.
fn parse(line: &[u8]) -> Result<Option<Line>, String> {
    // Windows programs may begin a file with one.
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    if line.iter().filter(|&&byte| byte == b'{').count() > MOST_OBJECTS {
        return Err(format!("more than {MOST_OBJECTS} objects"));
    }
    let line = match serde_json::from_slice::<Line>(line) {
        // serde takes a list of its fields for a `Line` too, which no writer of OTLP means.
        Ok(sound) if line.starts_with(b"{") && sound.unread().is_none() => sound,
        _ => lenient(line)?,
    };
    line.check_ids()?;
    Ok(Some(line))
}

/// What a line may carry.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Line {
    resource_spans: Option<Vec<ResourceSpans>>,
    resource_metrics: Option<Vec<ResourceMetrics>>,
    resource_logs: Option<Vec<IgnoredAny>>,
    resource_profiles: Option<Vec<IgnoredAny>>,
    /// Why something of it is in neither of them.
    #[serde(skip)]
    left_out: Option<String>,
}

/// More than a line of 16 MiB has of any use. An empty one takes a hundred times the memory that it
/// takes in the file.
const MOST_OBJECTS: usize = 1_000_000;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Line {
    fn requests(self) -> (Vec<Request>, Option<String>) {
        if let Some(metric) = self.unread() {
            let name = one_line(&metric.name);
            let unread = || format!("metric {name}: its data cannot be read");
            return (Vec::new(), Some(self.left_out.unwrap_or_else(unread)));
        }
        let Self { resource_spans, resource_metrics, resource_logs, resource_profiles, left_out } =
            self;
        let spans = resource_spans
            .map(|resource_spans| Request::Traces(ExportTraceServiceRequest { resource_spans }));
        let metrics = resource_metrics.map(|resource_metrics| {
            Request::Metrics(ExportMetricsServiceRequest { resource_metrics })
        });
        let requests: Vec<_> = spans.into_iter().chain(metrics).collect();
        let others = [("resourceLogs", resource_logs), ("resourceProfiles", resource_profiles)];
        let is_other = |others: &Option<Vec<_>>| {
            others.as_ref().is_some_and(|others| requests.is_empty() || !others.is_empty())
        };
        let why = match others.iter().find(|(_, others)| is_other(others)) {
            Some((name, _)) => Some(format!("{name}: only spans and metrics are sent")),
            None if requests.is_empty() => {
                Some("neither resourceSpans nor resourceMetrics".to_owned())
            }
            None => left_out,
        };
        (requests, why)
    }

    /// The first metric with data that was there and is lost: `opentelemetry-proto` takes a field
    /// of a `oneof` that it cannot read for one that is not set.
    fn unread(&self) -> Option<&Metric> {
        self.resource_metrics
            .iter()
            .flatten()
            .flat_map(|resource| &resource.scope_metrics)
            .flat_map(|scope| &scope.metrics)
            .find(|metric| !is_read(metric))
    }

    /// Whatever takes in an id of another length cannot find it again.
    fn check_ids(&self) -> Result<(), String> {
        self.resource_spans
            .iter()
            .flatten()
            .flat_map(|resource| &resource.scope_spans)
            .flat_map(|scope| &scope.spans)
            .try_for_each(check_ids)
    }
}

fn is_read(metric: &Metric) -> bool {
    match &metric.data {
        None => false,
        Some(Data::Gauge(gauge)) => gauge.data_points.iter().all(is_number_read),
        Some(Data::Sum(sum)) => sum.data_points.iter().all(is_number_read),
        Some(Data::Histogram(histogram)) => {
            histogram.data_points.iter().all(|point| are_read(&point.exemplars))
        }
        Some(Data::ExponentialHistogram(histogram)) => {
            histogram.data_points.iter().all(|point| are_read(&point.exemplars))
        }
        Some(Data::Summary(_)) => true,
    }
}

fn is_number_read(point: &NumberDataPoint) -> bool {
    let no_value = DataPointFlags::NoRecordedValueMask as u32;
    (point.value.is_some() || point.flags & no_value != 0) && are_read(&point.exemplars)
}

fn are_read(exemplars: &[Exemplar]) -> bool {
    exemplars.iter().all(|exemplar| exemplar.value.is_some())
}

fn check_ids(span: &Span) -> Result<(), String> {
    const TRACE: usize = 16;
    const SPAN: usize = 8;
    let check = |what: &str, id: &[u8], bytes: usize| {
        if id.len() == bytes {
            return Ok(());
        }
        let name = one_line(&span.name);
        Err(format!("span {name}: its {what} has {} bytes, not {bytes}", id.len()))
    };
    check("traceId", &span.trace_id, TRACE)?;
    check("spanId", &span.span_id, SPAN)?;
    if !span.parent_span_id.is_empty() {
        check("parentSpanId", &span.parent_span_id, SPAN)?;
    }
    span.links.iter().try_for_each(|link| {
        check("link's traceId", &link.trace_id, TRACE)?;
        check("link's spanId", &link.span_id, SPAN)
    })
}

/// The request as a collector's file exporter writes it, without the newline.
///
/// # Errors
///
/// None in practice: every request has a form in JSON.
pub fn write_line(request: &Request) -> Result<Vec<u8>, serde_json::Error> {
    match request {
        Request::Traces(request) => without_nulls(request),
        Request::Metrics(request) => without_nulls(request),
    }
}

/// A `null` means "not set" in JSON's mapping of protobuf, but collectors written in Go refuse one
/// where a number could be.
fn without_nulls(request: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let line = serde_json::to_vec(request)?;
    // The way over a tree of values takes many times the line's memory: only for what needs it.
    if !line.windows(NULL.len()).any(|bytes| bytes == NULL) {
        return Ok(line);
    }
    let mut value = serde_json::to_value(request)?;
    drop_nulls(&mut value);
    serde_json::to_vec(&value)
}

/// A field that is null, or a text that looks like one.
const NULL: &[u8] = b":null";

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// `opentelemetry-proto` insists on fields that a writer may leave out, and trips over fields of
/// values that it does not know: both are put right beforehand.
fn lenient(line: &[u8]) -> Result<Line, String> {
    let mut value: Value = serde_json::from_slice(line).map_err(|error| not_json(&error))?;
    if !value.is_object() {
        return Err("not a JSON object".to_owned());
    }
    drop_nulls(&mut value);
    complete(&mut value);
    let mut left_out = None;
    read_doubles(&mut value, &mut left_out);
    let line = serde_json::from_value(value).map_err(|error| format!("not OTLP: {error}"))?;
    Ok(Line { left_out, ..line })
}

/// Makes numbers of the doubles that are written as strings, which JSON's mapping of protobuf
/// allows, and leaves out those that are no number in JSON.
fn read_doubles(value: &mut Value, left_out: &mut Option<String>) {
    match value {
        Value::Object(fields) => fields.retain(|name, field| match field {
            Value::String(text) if DOUBLES.contains(&name.as_str()) => {
                let Ok(double) = text.parse() else { return true };
                let Some(number) = Number::from_f64(double) else {
                    let why = format!("{name} {}: only finite numbers are sent", one_line(text));
                    left_out.get_or_insert(why);
                    return false;
                };
                *field = Value::Number(number);
                true
            }
            Value::Array(bounds) if name == "explicitBounds" => {
                for bound in bounds {
                    let double = bound.as_str().and_then(|text| text.parse().ok());
                    if let Some(number) = double.and_then(Number::from_f64) {
                        *bound = Value::Number(number);
                    }
                }
                true
            }
            field => {
                read_doubles(field, left_out);
                true
            }
        }),
        Value::Array(items) => items.iter_mut().for_each(|item| read_doubles(item, left_out)),
        _ => {}
    }
}

/// Those that `opentelemetry-proto` takes for nothing but numbers.
const DOUBLES: [&str; 6] = ["asDouble", "doubleValue", "sum", "min", "max", "zeroThreshold"];

fn complete(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match (name.as_str(), &mut *field) {
                    ("attributes" | "filteredAttributes" | "metadata", Value::Array(pairs)) => {
                        pairs.iter_mut().for_each(complete_pair);
                    }
                    ("entityRefs", Value::Array(entities)) => {
                        entities.iter_mut().for_each(complete_entity);
                    }
                    (enumeration, Value::String(text)) => {
                        if let Some(number) = read_enumerator(enumeration, text) {
                            *field = json!(number);
                        }
                    }
                    (_, field) => complete(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(complete),
        _ => {}
    }
}

/// JSON's mapping of protobuf has names for these numbers; OTLP's own has not, and some write them.
fn read_enumerator(field: &str, name: &str) -> Option<i32> {
    match field {
        "kind" => SpanKind::from_str_name(name).map(Into::into),
        "code" => StatusCode::from_str_name(name).map(Into::into),
        "aggregationTemporality" => AggregationTemporality::from_str_name(name).map(Into::into),
        _ => None,
    }
}

fn complete_pair(pair: &mut Value) {
    let Value::Object(fields) = pair else { return };
    fields.entry("key").or_insert_with(|| json!(""));
    if let Some(value) = fields.get_mut("value") {
        complete_value(value);
    }
}

fn complete_value(value: &mut Value) {
    let Value::Object(fields) = value else { return };
    fields.retain(|kind, _| VALUE_FIELDS.contains(&kind.as_str()));
    for (list, complete_item) in [
        ("arrayValue", complete_value as fn(&mut Value)),
        ("kvlistValue", complete_pair as fn(&mut Value)),
    ] {
        if let Some(Value::Object(list)) = fields.get_mut(list)
            && let Value::Array(items) = list.entry("values").or_insert_with(|| json!([]))
        {
            items.iter_mut().for_each(complete_item);
        }
    }
}

fn complete_entity(entity: &mut Value) {
    let Value::Object(fields) = entity else { return };
    for text in ["schemaUrl", "type"] {
        fields.entry(text).or_insert_with(|| json!(""));
    }
    for list in ["idKeys", "descriptionKeys"] {
        fields.entry(list).or_insert_with(|| json!([]));
    }
}

const VALUE_FIELDS: [&str; 7] = [
    "stringValue",
    "boolValue",
    "intValue",
    "doubleValue",
    "arrayValue",
    "kvlistValue",
    "bytesValue",
];

fn not_json(error: &serde_json::Error) -> String {
    if error.is_eof() { format!("cut short: {error}") } else { format!("not JSON: {error}") }
}
