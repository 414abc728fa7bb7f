//! A line for each span and metric, for people.

use std::fmt::Write as _;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric};
use opentelemetry_proto::tonic::trace::v1::{Span, status::StatusCode};

use super::patient::write_by;
use super::request::Request;
use super::way_out::{Accepted, ExportError, WayOut, one_line};

/// To people: `span NAME DURATION ms trace=… span=… parent=… KEY=VALUE…`, and for metrics
/// `metric NAME count=… sum=… KEY=VALUE…`. What nobody has taken by the deadline is lost.
#[derive(Debug)]
pub struct Console<W> {
    name: &'static str,
    out: Mutex<W>,
}

impl Console<io::Stdout> {
    /// To standard output.
    pub fn stdout() -> Self {
        Self { name: "standard output", out: Mutex::new(io::stdout()) }
    }
}

impl<W: AsFd> Console<W> {
    /// To `out`: a file, a pipe, a terminal.
    pub fn to(out: W) -> Self {
        Self { name: "console", out: Mutex::new(out) }
    }
}

impl<W: AsFd + Send> WayOut for Console<W> {
    fn send(&self, request: Request, deadline: Instant) -> Result<Accepted, ExportError> {
        let mut lines = String::new();
        match &request {
            Request::Traces(request) => request
                .resource_spans
                .iter()
                .flat_map(|resource| &resource.scope_spans)
                .flat_map(|scope| &scope.spans)
                .for_each(|span| describe_span(&mut lines, span)),
            Request::Metrics(request) => request
                .resource_metrics
                .iter()
                .flat_map(|resource| &resource.scope_metrics)
                .flat_map(|scope| &scope.metrics)
                .for_each(|metric| describe_metric(&mut lines, metric)),
        }
        let out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        write_by(deadline, &*out, lines.as_bytes()).map(|()| Accepted::default()).map_err(|error| {
            ExportError::File { path: PathBuf::from(self.name), cause: error.to_string() }
        })
    }
}

fn describe_span(lines: &mut String, span: &Span) {
    // Not a duration_since: a clock that was set back is shown as that.
    let ms = (span.end_time_unix_nano as f64 - span.start_time_unix_nano as f64) / 1e6;
    put(lines, format_args!("span {} {ms:.3} ms", one_line(&span.name)));
    for (what, id) in
        [("trace", &span.trace_id), ("span", &span.span_id), ("parent", &span.parent_span_id)]
    {
        if !id.is_empty() {
            put(lines, format_args!(" {what}="));
            id.iter().for_each(|byte| put(lines, format_args!("{byte:02x}")));
        }
    }
    describe_attributes(lines, &span.attributes);
    if let Some(status) = &span.status
        && status.code == StatusCode::Error as i32
    {
        put(lines, format_args!(" error={:?}", one_line(&status.message)));
    }
    lines.push('\n');
}

fn describe_metric(lines: &mut String, metric: &Metric) {
    let Some(metric::Data::Histogram(histogram)) = &metric.data else {
        put(lines, format_args!("metric {}\n", one_line(&metric.name)));
        return;
    };
    for point in &histogram.data_points {
        put(lines, format_args!("metric {} count={}", one_line(&metric.name), point.count));
        if let Some(sum) = point.sum {
            put(lines, format_args!(" sum={sum:.3} {}", one_line(&metric.unit)));
        }
        describe_attributes(lines, &point.attributes);
        lines.push('\n');
    }
}

fn describe_attributes(lines: &mut String, attributes: &[KeyValue]) {
    for attribute in attributes {
        put(lines, format_args!(" {}=", one_line(&attribute.key)));
        match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
            Some(any_value::Value::StringValue(text)) if is_word(text) => lines.push_str(text),
            Some(any_value::Value::StringValue(text)) => put(lines, format_args!("{text:?}")),
            Some(any_value::Value::BoolValue(it)) => put(lines, format_args!("{it}")),
            Some(any_value::Value::IntValue(it)) => put(lines, format_args!("{it}")),
            Some(any_value::Value::DoubleValue(it)) => put(lines, format_args!("{it}")),
            Some(any_value::Value::ArrayValue(list)) => describe_list(lines, &list.values),
            _ => lines.push('…'),
        }
    }
}

fn describe_list(lines: &mut String, values: &[AnyValue]) {
    put(lines, format_args!("[{} values]", values.len()));
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '"')
}

/// Writing to a `String` does not fail.
fn put(lines: &mut String, arguments: std::fmt::Arguments<'_>) {
    lines.write_fmt(arguments).unwrap_or_default();
}
