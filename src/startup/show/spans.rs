//! Spans as they are recorded become spans as they can be shown.

use gym_stamp::spans::{OUTCOME, PROCESS_PID, SERVER_NAME, STAGE};
use opentelemetry::TraceId;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{self as otlp, status::StatusCode};

use super::startup::Span;
use crate::waterfall::Entry;

const HOST_NAME: &str = "host.name";

/// What each name and each attribute of a startup has in it.
pub const STARTUP: &[u8] = b".startup";

/// Whether the span is one of a startup: by its name, or as a stage of something else.
pub fn is_of_startup(span: &otlp::Span) -> bool {
    let is_named = ["gym.startup", "gym.server.startup"].iter().any(|name| {
        let rest = span.name.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    });
    is_named || span.attributes.iter().any(|attribute| attribute.key == STAGE)
}

/// What a resource tells of all its spans.
pub struct Process {
    node: Option<String>,
    server: Option<String>,
}

impl From<Option<&Resource>> for Process {
    fn from(resource: Option<&Resource>) -> Self {
        let attributes = resource.map_or(&[][..], |resource| &resource.attributes);
        Self { node: found(attributes, HOST_NAME), server: found(attributes, SERVER_NAME) }
    }
}

/// The span, and the trace that it is in; `None` for ids that are none.
pub fn converted(span: otlp::Span, process: &Process) -> Option<(TraceId, Span)> {
    let trace_id = TraceId::from_bytes(span.trace_id.try_into().ok()?);
    let id = |bytes: Vec<u8>| bytes.try_into().ok().map(u64::from_be_bytes).filter(|id| *id != 0);
    let status = span.status.filter(|status| status.code() == StatusCode::Error);
    let entry = Entry {
        id: id(span.span_id)?,
        parent: id(span.parent_span_id),
        name: span.name,
        start_ns: span.start_time_unix_nano,
        end_ns: Some(span.end_time_unix_nano).filter(|end_ns| *end_ns != 0),
        server: found(&span.attributes, SERVER_NAME).or_else(|| process.server.clone()),
        pid: found(&span.attributes, PROCESS_PID).and_then(|pid| pid.parse().ok()),
        outcome: found(&span.attributes, OUTCOME),
        is_error: status.is_some(),
    };
    let error = status.map(|status| status.message);
    let attributes = span.attributes.into_iter().map(|it| (it.key, text(it.value.as_ref())));
    let attributes = attributes.collect();
    Some((trace_id, Span { entry, node: process.node.clone(), error, attributes }))
}

/// The value of an attribute that is there and not empty.
fn found(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    Some(text(found.value.as_ref())).filter(|value| !value.is_empty())
}

fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        None => String::new(),
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::BoolValue(value)) => value.to_string(),
        Some(Value::IntValue(value)) => value.to_string(),
        Some(Value::DoubleValue(value)) => value.to_string(),
        Some(Value::BytesValue(bytes)) => format!("{} bytes", bytes.len()),
        Some(Value::ArrayValue(list)) => {
            let items: Vec<_> = list.values.iter().map(|item| text(Some(item))).collect();
            format!("[{}]", items.join(", "))
        }
        Some(Value::KvlistValue(map)) => {
            let pair = |it: &KeyValue| format!("{}: {}", it.key, text(it.value.as_ref()));
            let pairs: Vec<_> = map.values.iter().map(pair).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        Some(_) => String::new(),
    }
}
