//! Files of OTLP JSON lines: written, read by others, sent again.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use gym_stamp::spans::{METRIC_NAME, MetricSample, SpanRecord, Status};
use gym_stamp::telemetry::Protocol::{self, Grpc, HttpJson, HttpProtobuf};
use gym_stamp::telemetry::{
    BATCH_BYTES, Console, JsonLines, Request, Resource, Temporality, WayOut, json,
};
use opentelemetry::{KeyValue, SpanId, Value};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use rstest::rstest;

use crate::support::collector::{Collector, GrpcAnswer, HttpAnswer, closed};
use crate::support::export::{Export, a_span, folder, line, span};
use crate::support::full_pipe;
use crate::support::rotel::{Rotel, python, script};
use crate::support::toolbox::succeed;

/// What a collector's file exporter writes of spans that were not made here: every field that the
/// protocol has, in the ways that JSON's mapping of protobuf leaves open.
const FOREIGN_SPANS: &str = r#"{"resourceSpans":[{"resource":{"attributes":[
    {"key":"service.name","value":{"stringValue":"other"}},
    {"key":"empty","value":{}},
    {"key":"none"},
    {"value":{"stringValue":"no key"}},
    {"key":"list","value":{"arrayValue":{"values":[{"intValue":"-9007199254740993"},{"intValue":7},{}]}}},
    {"key":"empty list","value":{"arrayValue":{}}},
    {"key":"map","value":{"kvlistValue":{"values":[{"key":"a","value":{"boolValue":false}}]}}},
    {"key":"empty map","value":{"kvlistValue":{}}},
    {"key":"bytes","value":{"bytesValue":"AAEC/w=="}},
    {"key":"double","value":{"doubleValue":0.1}},
    {"key":"newer","value":{"stringValue":"v","someNewField":1}}],
    "droppedAttributesCount":3,"entityRefs":[{"type":"host","idKeys":["host.id"]}],"newerField":{}},
  "scopeSpans":[
    {"scope":{"name":"s","version":"2","attributes":[{"key":"k","value":{"intValue":"1"}}]},
     "spans":[
      {"traceId":"0AF7651916CD43DD8448EB211C80319C","spanId":"b7ad6b7169203331",
       "parentSpanId":"00f067aa0ba902b7","traceState":"vendor=1","flags":257,"name":"näme \"1\"","kind":2,
       "startTimeUnixNano":"1700000000000000001","endTimeUnixNano":1700000001000000002,
       "attributes":[{"key":"k","value":{"stringValue":""}}],"droppedAttributesCount":1,
       "events":[{"timeUnixNano":"1700000000500000000","name":"e",
                  "attributes":[{"key":"k","value":{"boolValue":true}}],"droppedAttributesCount":2}],
       "droppedEventsCount":4,
       "links":[{"traceId":"0af7651916cd43dd8448eb211c80319d","spanId":"b7ad6b7169203332",
                 "traceState":"l=1","attributes":[],"droppedAttributesCount":5,"flags":1}],
       "droppedLinksCount":6,"status":{"code":2,"message":"it failed"}},
      {"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203333","parentSpanId":"",
       "name":"second","status":{},"attributes":null}],
     "schemaUrl":"https://example.com/scope"},
    {"spans":[{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203334"}]}],
  "schemaUrl":"https://example.com/resource"}]}"#;

const FOREIGN_METRICS: &str = r#"{"resourceMetrics":[{"resource":{},"scopeMetrics":[{"scope":{"name":"m"},"metrics":[
    {"name":"g","unit":"By","description":"d","gauge":{"dataPoints":[{"asInt":"-5","timeUnixNano":"7"}]}},
    {"name":"s","sum":{"aggregationTemporality":1,"isMonotonic":true,"dataPoints":[
       {"asDouble":1.5,"startTimeUnixNano":"6","timeUnixNano":"7","attributes":[{"key":"k","value":{"intValue":"1"}}],
        "exemplars":[{"timeUnixNano":"7","asDouble":1,"spanId":"b7ad6b7169203331","traceId":"0af7651916cd43dd8448eb211c80319c"}]}]}},
    {"name":"h","histogram":{"aggregationTemporality":2,"dataPoints":[
       {"count":"2","sum":3,"bucketCounts":["1","1"],"explicitBounds":[2],"min":1,"max":2}]}},
    {"name":"e","exponentialHistogram":{"aggregationTemporality":2,"dataPoints":[
       {"count":"2","scale":-1,"zeroCount":"1","positive":{"offset":1,"bucketCounts":["1"]}}]}},
    {"name":"q","summary":{"dataPoints":[{"count":"2","sum":3,"quantileValues":[{"quantile":0.5,"value":1}]}]}}]}]}]}"#;

fn with_metric(data: &str) -> Vec<u8> {
    let metric = format!(r#"{{"name":"h",{data}}}"#);
    format!(r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{metric}]}}]}}]}}"#).into()
}

fn with_span(fields: &str) -> Vec<u8> {
    let span = format!(r#"{{"name":"s",{fields}}}"#);
    format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{span}]}}]}}]}}"#).into()
}

fn one_line(text: &str) -> Vec<u8> {
    let mut line = text.replace('\n', " ").into_bytes();
    line.push(b'\n');
    line
}

fn spans(collector: &Collector) -> Vec<opentelemetry_proto::tonic::trace::v1::Span> {
    collector
        .seen()
        .into_iter()
        .filter_map(|seen| match seen.request {
            Request::Traces(request) => Some(request.resource_spans),
            Request::Metrics(_) => None,
        })
        .flatten()
        .flat_map(|resource| resource.scope_spans)
        .flat_map(|scope| scope.spans)
        .collect()
}

/// Everything arrives as the protocol's own classes read it.
#[rstest]
fn foreign_spans_stay_what_they_are(#[values(Grpc, HttpProtobuf, HttpJson)] protocol: Protocol) {
    use opentelemetry_proto::tonic::common::v1::any_value::Value;

    let collector = Collector::willing(protocol);
    Export::of(one_line(FOREIGN_SPANS)).to(collector.url()).over(protocol).run().succeeded();
    let Request::Traces(request) = &collector.seen()[0].request else { panic!("spans") };
    let [from] = request.resource_spans.as_slice() else { panic!("{request:?}") };
    let resource = from.resource.as_ref().unwrap();
    let value = |key: &str| {
        let found = resource.attributes.iter().find(|it| it.key == key).unwrap();
        found.value.as_ref().and_then(|value| value.value.clone())
    };
    assert_eq!(value("service.name"), Some(Value::StringValue("other".into())));
    assert_eq!(value("empty"), None);
    assert_eq!(value("none"), None);
    assert_eq!(value(""), Some(Value::StringValue("no key".into())));
    let Some(Value::ArrayValue(list)) = value("list") else { panic!("{resource:?}") };
    let items: Vec<_> = list.values.into_iter().map(|item| item.value).collect();
    let ints = [Some(Value::IntValue(-9_007_199_254_740_993)), Some(Value::IntValue(7)), None];
    assert_eq!(items, ints);
    assert!(matches!(value("empty list"), Some(Value::ArrayValue(it)) if it.values.is_empty()));
    assert!(matches!(value("map"), Some(Value::KvlistValue(it)) if it.values.len() == 1));
    assert!(matches!(value("empty map"), Some(Value::KvlistValue(it)) if it.values.is_empty()));
    assert_eq!(value("bytes"), Some(Value::BytesValue(vec![0, 1, 2, 255])));
    assert_eq!(value("double"), Some(Value::DoubleValue(0.1)));
    assert_eq!(value("newer"), Some(Value::StringValue("v".into())));
    assert_eq!((resource.attributes.len(), resource.dropped_attributes_count), (11, 3));
    assert_eq!(resource.entity_refs[0].id_keys, ["host.id"]);
    assert_eq!(from.schema_url, "https://example.com/resource");

    let [scope, nameless] = from.scope_spans.as_slice() else { panic!("{from:?}") };
    assert_eq!(scope.schema_url, "https://example.com/scope");
    assert_eq!(nameless.spans.len(), 1);
    let about = scope.scope.as_ref().unwrap();
    assert_eq!((about.name.as_str(), about.version.as_str()), ("s", "2"));
    assert_eq!(about.attributes.len(), 1);
    let [first, second] = scope.spans.as_slice() else { panic!("{scope:?}") };
    assert_eq!(hex(&first.trace_id), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(hex(&first.span_id), "b7ad6b7169203331");
    assert_eq!(hex(&first.parent_span_id), "00f067aa0ba902b7");
    assert_eq!((first.flags, first.kind), (257, 2));
    assert_eq!((first.trace_state.as_str(), first.name.as_str()), ("vendor=1", "näme \"1\""));
    assert_eq!(first.start_time_unix_nano, 1_700_000_000_000_000_001);
    assert_eq!(first.end_time_unix_nano, 1_700_000_001_000_000_002);
    let kept = first.attributes[0].value.as_ref().unwrap().value.clone();
    assert_eq!(kept, Some(Value::StringValue(String::new())));
    let event = &first.events[0];
    assert_eq!((event.time_unix_nano, event.name.as_str()), (1_700_000_000_500_000_000, "e"));
    assert_eq!((event.attributes.len(), event.dropped_attributes_count), (1, 2));
    let link = &first.links[0];
    assert_eq!(hex(&link.span_id), "b7ad6b7169203332");
    assert_eq!((link.trace_state.as_str(), link.flags), ("l=1", 1));
    let dropped = (
        first.dropped_attributes_count,
        first.dropped_events_count,
        link.dropped_attributes_count,
        first.dropped_links_count,
    );
    assert_eq!(dropped, (1, 4, 5, 6));
    let status = first.status.as_ref().unwrap();
    assert_eq!((status.code, status.message.as_str()), (2, "it failed"));
    assert_eq!((second.name.as_str(), second.parent_span_id.len()), ("second", 0));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[rstest]
fn foreign_metrics_stay_what_they_are(#[values(Grpc, HttpProtobuf, HttpJson)] protocol: Protocol) {
    use opentelemetry_proto::tonic::metrics::v1::metric::Data;

    let collector = Collector::willing(protocol);
    Export::of(one_line(FOREIGN_METRICS)).to(collector.url()).over(protocol).run().succeeded();
    let Request::Metrics(request) = &collector.seen()[0].request else { panic!("metrics") };
    let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
    let [gauge, sum, histogram, exponential, summary] = metrics.as_slice() else {
        panic!("{metrics:?}")
    };
    assert_eq!((gauge.unit.as_str(), gauge.description.as_str()), ("By", "d"));
    let Some(Data::Gauge(it)) = &gauge.data else { panic!("{gauge:?}") };
    assert!(format!("{:?}", it.data_points[0].value).contains("AsInt(-5)"));
    let Some(Data::Sum(it)) = &sum.data else { panic!("{sum:?}") };
    assert!(it.is_monotonic && it.aggregation_temporality == 1);
    assert_eq!(hex(&it.data_points[0].exemplars[0].span_id), "b7ad6b7169203331");
    let Some(Data::Histogram(it)) = &histogram.data else { panic!("{histogram:?}") };
    assert_eq!(it.data_points[0].bucket_counts, [1, 1]);
    let Some(Data::ExponentialHistogram(it)) = &exponential.data else { panic!("{metrics:?}") };
    assert_eq!((it.data_points[0].scale, it.data_points[0].zero_count), (-1, 1));
    let Some(Data::Summary(it)) = &summary.data else { panic!("{summary:?}") };
    assert_eq!(it.data_points[0].quantile_values.len(), 1);
}

#[rstest]
#[case(b"{\"resourceSpans\":[{\"scopeSp", "cut short")]
#[case(b"nonsense", "not JSON")]
#[case(b"\xff\xfe", "not JSON")]
#[case(b"[]", "not a JSON object")]
#[case(b"7", "not a JSON object")]
#[case(b"{}", "neither resourceSpans nor resourceMetrics")]
#[case(b"{\"resourceLogs\":[]}", "resourceLogs: only spans and metrics are sent")]
#[case(b"{\"resourceProfiles\":[]}", "resourceProfiles: only spans and metrics are sent")]
#[case(b"{\"resourceSpans\":{}}", "not OTLP")]
#[case(br#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"xyz"}]}]}]}"#, "not OTLP")]
#[case(br#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"kind":"x"}]}]}]}"#, "not OTLP")]
#[case(b"[[]]", "not a JSON object")]
#[case(&with_metric(r#""histogram":{"dataPoints":"garbage"}"#), "metric h: its data cannot be read")]
#[case(&with_metric(r#""newKind":{}"#), "metric h: its data cannot be read")]
#[case(&with_metric(r#""gauge":{"dataPoints":[{"asInt":"x"}]}"#), "metric h: its data cannot")]
#[case(&with_metric(r#""sum":{"dataPoints":[{"asDouble":[]}]}"#), "metric h: its data cannot")]
#[case(&with_metric(r#""sum":{"dataPoints":[{"asDouble":"x"}]}"#), "metric h: its data cannot")]
#[case(
    &with_metric(r#""sum":{"dataPoints":[{"asDouble":"NaN"}]}"#),
    "asDouble NaN: only finite numbers are sent"
)]
#[case(
    &with_metric(r#""gauge":{"dataPoints":[{"asInt":"1","exemplars":[{"asInt":"x"}]}]}"#),
    "metric h: its data cannot be read"
)]
#[case(&with_span(r#""traceId":"0af7651916cd43dd","spanId":"b7ad6b7169203331""#), "span s: its traceId has 8 bytes, not 16")]
#[case(&with_span(r#""spanId":"b7ad6b7169203331""#), "span s: its traceId has 0 bytes")]
#[case(&with_span(r#""traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7""#), "span s: its spanId has 1 bytes, not 8")]
#[case(
    &with_span(r#""traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331","parentSpanId":"b7ad""#),
    "span s: its parentSpanId has 2 bytes, not 8"
)]
#[case(
    &with_span(r#""traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331","links":[{"traceId":"0a"}]"#),
    "span s: its link's traceId has 1 bytes, not 16"
)]
fn a_damaged_line_is_named_and_the_rest_is_sent(#[case] damaged: &[u8], #[case] why: &str) {
    let collector = Collector::grpc([GrpcAnswer::ok()]);
    let folder =
        folder(&format!("damaged-{:x}", damaged.iter().map(|&b| u32::from(b)).sum::<u32>()));
    let file = folder.join("recorded.jsonl");
    let mut content = [line(&[span(1, "first")]), b"\n  \r\n".to_vec()].concat();
    content.extend_from_slice(damaged);
    content.push(b'\n');
    content.extend(line(&[span(2, "last")]));
    // As after a crash: without the newline.
    content.pop();
    fs::write(&file, content).unwrap();

    Export::of("")
        .file(&file)
        .to(collector.url())
        .run()
        .failed()
        .in_lines(1)
        .said(&format!("gym-startup: {}:4: {why}", file.display()));
    let names: Vec<_> = spans(&collector).into_iter().map(|span| span.name).collect();
    assert_eq!(names, ["first", "last"]);
}

#[test]
fn points_without_a_value_and_fields_that_are_null() {
    let collector = Collector::grpc([GrpcAnswer::ok()]);
    let nothing_recorded = with_metric(r#""gauge":{"dataPoints":[{"flags":1}]}"#);
    let null = with_metric(r#""gauge":{"dataPoints":[{"asInt":"1","timeUnixNano":null}]}"#);
    let input = [&[0xef, 0xbb, 0xbf], &*nothing_recorded, b"\n", &*null, b"\n"].concat();
    Export::of(input).to(collector.url()).run().succeeded();
    assert_eq!(collector.seen().iter().map(|seen| seen.request.len()).sum::<usize>(), 2);
}

const OF_A_SPAN: &str =
    r#""traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331""#;

/// What goes out of one line, and what is said of the rest of it.
#[test]
fn what_of_a_line_cannot_be_sent_is_named() {
    let span_and = |fields: &str| {
        let mut line = with_span(OF_A_SPAN);
        line.truncate(line.len() - 1);
        [&*line, b",", fields.as_bytes(), b"}\n"].concat()
    };
    let collector = Collector::grpc([GrpcAnswer::ok()]);
    Export::of(span_and(r#""resourceLogs":[{}]"#))
        .to(collector.url())
        .run()
        .failed()
        .in_lines(1)
        .said("standard input:1: resourceLogs: only spans and metrics are sent");
    assert_eq!(spans(&collector).len(), 1);
    Export::of(span_and(r#""resourceLogs":[]"#)).to(collector.url()).run().succeeded();
    assert_eq!(spans(&collector).len(), 2);

    let infinite = r#""attributes":[{"key":"k","value":{"doubleValue":"-Infinity"}}]"#;
    Export::of(with_span(&[OF_A_SPAN, infinite].join(",")))
        .to(collector.url())
        .run()
        .failed()
        .in_lines(1)
        .said("standard input:1: doubleValue -Infinity: only finite numbers are sent");
    assert_eq!(spans(&collector)[2].attributes[0].key, "k");
}

/// As JSON's mapping of protobuf has it.
#[test]
fn doubles_may_be_written_as_strings() {
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::metrics::v1::metric::Data;
    use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value::AsDouble;

    let collector = Collector::grpc([GrpcAnswer::ok()]);
    let attribute = r#""attributes":[{"key":"k","value":{"doubleValue":"0.1"}}]"#;
    let histogram = r#""count":"1","sum":"3","bucketCounts":[1,0],"explicitBounds":["4.5"]"#;
    let input = [
        with_span(&[OF_A_SPAN, attribute].join(",")),
        with_metric(r#""gauge":{"dataPoints":[{"asDouble":"1.5e3"}]}"#),
        with_metric(&format!(r#""histogram":{{"dataPoints":[{{{histogram}}}]}}"#)),
    ];
    Export::of(input.join(&b'\n')).to(collector.url()).run().succeeded();
    let value = spans(&collector)[0].attributes[0].value.clone().unwrap().value;
    assert_eq!(value, Some(Value::DoubleValue(0.1)));
    let seen = collector.seen();
    let metrics = seen.iter().find_map(|seen| match &seen.request {
        Request::Metrics(request) => Some(&request.resource_metrics),
        Request::Traces(_) => None,
    });
    let data = |at: usize| metrics.unwrap()[at].scope_metrics[0].metrics[0].data.as_ref();
    let Some(Data::Gauge(gauge)) = data(0) else { panic!("{metrics:?}") };
    assert_eq!(gauge.data_points[0].value, Some(AsDouble(1500.0)));
    let Some(Data::Histogram(histogram)) = data(1) else { panic!("{metrics:?}") };
    let point = &histogram.data_points[0];
    assert_eq!((point.sum, &*point.explicit_bounds), (Some(3.0), [4.5].as_slice()));
}

/// Little to read, and a gigabyte of memory.
#[test]
fn a_line_of_countless_spans() {
    let empty = vec!["{}"; 1_000_000].join(",");
    let line = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{empty}]}}]}}]}}"#);
    Export::of(line)
        .to(format!("http://{}", closed()))
        .within(Duration::from_secs(30))
        .run()
        .failed()
        .in_lines(1)
        .said("standard input:1: more than 1000000 objects");
}

#[test]
fn many_damaged_lines_are_counted() {
    let collector = Collector::grpc([GrpcAnswer::ok()]);
    let input = [b"{]\n".repeat(1012), a_span()].concat();
    Export::of(input)
        .to(collector.url())
        .run()
        .failed()
        .in_lines(11)
        .said("standard input:10: not JSON")
        .said("standard input: and 1002 more damaged lines");
    assert_eq!(spans(&collector).len(), 1);
}

/// One who asks for an hour's peace has it.
#[test]
fn many_spans_to_a_collector_that_asks_for_patience() {
    let answer = HttpAnswer::new("429 Too Many Requests", &["Retry-After: 3600"], b"");
    let collector = Collector::http([answer]);
    Export::of(many(SOME, 1000))
        .to(collector.url())
        .over(HttpProtobuf)
        .run()
        .failed()
        .in_lines(2)
        .said("(to be tried again in 3600 s), which is after the deadline")
        .said("the rest is not sent");
    assert_eq!(collector.seen().len(), 1);
}

#[test]
fn a_line_without_end() {
    let collector = Collector::grpc([GrpcAnswer::ok()]);
    let mut input = vec![b' '; 17 * 1024 * 1024];
    input.push(b'\n');
    input.extend(a_span());
    Export::of(input)
        .to(collector.url())
        .run()
        .failed()
        .in_lines(1)
        .said("standard input:1: longer than 16 MiB");
    assert_eq!(spans(&collector).len(), 1);
}

#[test]
fn several_files() {
    let collector = Collector::grpc([GrpcAnswer::ok()]);
    let folder = folder("several");
    for (id, name) in [(1, "a"), (2, "b")] {
        fs::write(folder.join(name), line(&[span(id, name)])).unwrap();
    }
    Export::of(line(&[span(3, "c")]))
        .file(&folder.join("a"))
        .arg(folder.join("missing").to_str().unwrap())
        .arg("-")
        .arg(folder.to_str().unwrap())
        .arg(folder.join("b").to_str().unwrap())
        .to(collector.url())
        .run()
        .failed()
        .in_lines(2)
        .said("missing: No such file or directory")
        .said(&format!("{}: Is a directory", folder.display()));
    let names: Vec<_> = spans(&collector).into_iter().map(|span| span.name).collect();
    assert_eq!(names, ["a", "c", "b"]);
}

#[rstest]
#[case("")]
#[case("\n\n")]
#[case("{\"resourceSpans\":[]}\n")]
fn nothing_to_send(#[case] input: &str) {
    Export::of(input).to(format!("http://{}", closed())).run().succeeded();
}

#[test]
fn signals_go_to_endpoints_of_their_own() {
    let (traces, metrics) =
        (Collector::grpc([GrpcAnswer::ok()]), Collector::http([HttpAnswer::ok()]));
    let input = [one_line(FOREIGN_SPANS), one_line(FOREIGN_METRICS)].concat();
    Export::of(input)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", traces.url())
        .env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", metrics.url())
        .env("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/json")
        .run()
        .succeeded();
    assert_eq!((traces.seen().len(), metrics.seen().len()), (1, 1));
}

const MANY: u64 = 100_000;
/// Enough for several batches.
const SOME: u64 = 30_000;

fn many(count: u64, spans_a_line: usize) -> Vec<u8> {
    let ids: Vec<u64> = (1..=count).collect();
    ids.chunks(spans_a_line)
        .flat_map(|ids| {
            let spans: Vec<_> = ids.iter().map(|&id| span(id, "gym.startup.server")).collect();
            line(&spans)
        })
        .collect()
}

/// Its memory follows the batch, not the file; a collector takes every batch, and each span once.
#[rstest]
fn many_spans(#[values((Grpc, 1), (HttpProtobuf, 100), (HttpJson, 1000))] how: (Protocol, usize)) {
    let (protocol, spans_a_line) = how;
    let collector = Collector::willing(protocol);
    // Everything else is the same over HTTP.
    let count = if protocol == Grpc { MANY } else { MANY / 2 };
    let input = many(count, spans_a_line);
    let folder = folder(&format!("many-{protocol:?}"));
    let file = folder.join("many.jsonl");
    fs::write(&file, &input).unwrap();
    let peak = folder.join("peak");
    // The shell that waits for it knows what it took, in KiB.
    Export::of("")
        .file(&file)
        .to(collector.url())
        .over(protocol)
        .within(Duration::from_secs(600))
        .by(&[
            python().to_str().unwrap(),
            "-c",
            "import resource, subprocess, sys
status = subprocess.call(sys.argv[2:])
used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
open(sys.argv[1], 'w').write(str(used))
sys.exit(status)",
            peak.to_str().unwrap(),
        ])
        .run()
        .succeeded();

    let peak: u64 = fs::read_to_string(peak).unwrap().parse().unwrap();
    assert!(peak < 48 * 1024, "{peak} KiB for {} KiB", input.len() / 1024);
    let sizes: Vec<_> = collector
        .seen()
        .iter()
        .map(|seen| match &seen.request {
            Request::Traces(request) => request.encoded_len(),
            Request::Metrics(_) => 0,
        })
        .collect();
    assert!(sizes.iter().all(|&size| size <= BATCH_BYTES), "{sizes:?}");
    assert!(sizes.len() > 5, "{sizes:?}");
    let ids: HashSet<_> = spans(&collector).into_iter().map(|span| span.span_id).collect();
    assert_eq!(ids.len() as u64, count);
}

/// All in one line, which no batch could take.
#[test]
fn many_spans_in_one_line() {
    let collector = Collector::grpc([GrpcAnswer::ok()]);
    Export::of(many(SOME, 30_000))
        .to(collector.url())
        .within(Duration::from_secs(600))
        .run()
        .succeeded();
    let spans = spans(&collector);
    assert_eq!(spans.len() as u64, SOME);
    assert!(collector.seen().len() > 2);
}

/// A collector that is not there costs one deadline, however much there is to send.
#[test]
fn many_spans_to_nobody() {
    Export::of(many(SOME, 1000))
        .to(format!("http://{}", crate::support::collector::silent()))
        .in_vain()
        .run()
        .was_late("no answer")
        .in_lines(2)
        .said("the rest is not sent");
}

/// The deadline is for all requests together.
#[test]
fn later_requests_have_what_is_left() {
    let traces = Collector::http([
        HttpAnswer::new("429 Too Many Requests", &["Retry-After: 1"], b""),
        HttpAnswer::ok(),
    ]);
    let metrics = format!("http://{}", crate::support::collector::silent());
    // More than one request of spans, the first of which is sent before the end is seen.
    let spans = line(&[span(1, &"x".repeat(BATCH_BYTES)), span(2, "last")]);
    Export::of([spans, one_line(FOREIGN_METRICS)].concat())
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", traces.url())
        .env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", metrics)
        .within(Duration::from_secs(10))
        .run()
        .failed()
        .in_lines(1)
        .said("5 metrics not accepted")
        .said(", the last of 10000 ms for everything");
    assert_eq!(traces.seen().len(), 3);
}

/// One that refuses some of it is asked for the rest.
#[test]
fn a_batch_that_is_rejected_does_not_stop_the_others() {
    let collector = Collector::grpc([GrpcAnswer::partial(3, "too old"), GrpcAnswer::ok()]);
    Export::of(many(SOME, 1000))
        .to(collector.url())
        .within(Duration::from_secs(600))
        .run()
        .failed()
        .in_lines(1)
        .said("rejected 3 of ");
    assert_eq!(spans(&collector).len() as u64, SOME);
}

/// What a startup may well have in its names.
fn records() -> (Resource, Vec<SpanRecord>, Vec<MetricSample>) {
    let resource = Resource {
        attributes: vec![
            KeyValue::new("service.name", "nemo-gym/\"höst\" \\ 1"),
            KeyValue::new("process.pid", 4_194_304_i64),
        ],
    };
    let mut failed = span(0xfedc_ba98_7654_3210, "gym.startup.server");
    failed.parent_span_id = Some(SpanId::from(1));
    failed.status = Status::Error("judge: exit status 3\n\ttraceback…".to_owned());
    failed.end_ns = u64::MAX;
    failed.attributes = vec![
        KeyValue::new("nemo.gym.server.name", "a \"b\" ü 日本"),
        KeyValue::new("nemo.gym.server.worker", true),
        KeyValue::new("process.pid", i64::MIN),
        KeyValue::new("share", 0.1),
        KeyValue::new("list", Value::Array(vec![1_i64, 2].into())),
    ];
    let sample = |stage: &str, value_ms: f64| MetricSample {
        name: METRIC_NAME,
        value_ms,
        attributes: vec![KeyValue::new("nemo.gym.startup.stage", stage.to_owned())],
        time_ns: 1_700_000_001_000_000_000,
    };
    let samples = [sample("a", 100.0), sample("b", 100.1), sample("a", 5e9)];
    (resource, vec![span(1, "gym.startup"), failed], samples.to_vec())
}

fn write_records(path: &Path) {
    let (resource, spans, samples) = records();
    let file = JsonLines::append_to(path).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    file.send(Request::of_spans(&resource, &spans), deadline).unwrap();
    file.send(Request::of_samples(&resource, &samples, Temporality::Cumulative), deadline).unwrap();
    file.finish().unwrap();
}

#[test]
fn a_file_is_what_the_protobuf_classes_of_python_read() {
    let file = folder("python").join("startup.jsonl");
    write_records(&file);
    let read = succeed(Command::new(python()).arg(script("read_otlp.py")).arg(&file));
    let lines: Vec<_> = read.lines().collect();
    let buckets = |bucket: usize| {
        let mut counts = [0; 15];
        counts[0] = usize::from(bucket == 0);
        counts[bucket] = 1;
        format!("{counts:?}")
    };
    let bounds = "[100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10000.0, 30000.0, 60000.0, \
                  120000.0, 300000.0, 600000.0, 1800000.0, 3600000.0]";
    let mut of_a = [0; 15];
    (of_a[0], of_a[14]) = (1, 1);
    assert_eq!(
        lines,
        [
            r#"["resource", [["service.name", "string_value", "nemo-gym/\"h\u00f6st\" \\ 1"], ["process.pid", "int_value", 4194304]]]"#,
            r#"["span", "0af7651916cd43dd8448eb211c80319c", "0000000000000001", "", "gym.startup", 1, 1, 1700000000000000001, 1700000001000000002, 0, "", [["nemo.gym.startup.outcome", "string_value", "ready"]]]"#,
            r#"["span", "0af7651916cd43dd8448eb211c80319c", "fedcba9876543210", "0000000000000001", "gym.startup.server", 1, 1, 1700000000000000001, 18446744073709551615, 2, "judge: exit status 3\n\ttraceback…", [["nemo.gym.server.name", "string_value", "a \"b\" ü 日本"], ["nemo.gym.server.worker", "bool_value", true], ["process.pid", "int_value", -9223372036854775808], ["share", "double_value", 0.1], ["list", "array_value", [1, 2]]]]"#,
            &format!(
                r#"["metric", "gym.server.startup_stage_duration_ms", "ms", 2, 1695000001000000000, 1700000001000000000, 2, 5000000100.0, 100.0, 5000000000.0, {of_a:?}, {bounds}, [["nemo.gym.startup.stage", "string_value", "a"]]]"#
            ),
            &format!(
                r#"["metric", "gym.server.startup_stage_duration_ms", "ms", 2, 1700000000899900000, 1700000001000000000, 1, 100.1, 100.1, 100.1, {}, {bounds}, [["nemo.gym.startup.stage", "string_value", "b"]]]"#,
                buckets(1)
            ),
        ]
    );
}

/// As it is, a line a request.
#[test]
fn a_file_is_what_a_collector_takes_over_http_json() {
    let rotel = Rotel::start("file-to-rotel");
    let file = folder("rotel-file").join("startup.jsonl");
    write_records(&file);
    let content = fs::read_to_string(&file).unwrap();
    let lines: Vec<_> = content.lines().collect();
    assert_eq!(lines.len(), 2);
    for (line, path) in lines.iter().zip(["/v1/traces", "/v1/metrics"]) {
        let mut stream = TcpStream::connect(rotel.http()).unwrap();
        let length = line.len();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: rotel\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{line}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }
    let spans = rotel.spans(2);
    assert_eq!(spans[1].id, "fedcba9876543210");
    assert_eq!(spans[1].parent, "0000000000000001");
    assert_eq!(spans[1].end, "18446744073709551615");
    assert_eq!(spans[1].status, "STATUS_CODE_ERROR");
    assert!(spans[1].attributes.contains(&"process.pid: Int(-9223372036854775808)".to_owned()));
    rotel.printed(METRIC_NAME);
}

/// What was recorded is what is sent later.
#[rstest]
fn a_file_is_sent_as_it_was_recorded(#[values(Grpc, HttpProtobuf, HttpJson)] protocol: Protocol) {
    let file = folder(&format!("again-{protocol:?}")).join("startup.jsonl");
    write_records(&file);
    let collector = Collector::willing(protocol);
    Export::of("").file(&file).to(collector.url()).over(protocol).run().succeeded();
    let (resource, spans, samples) = records();
    let mut sent: Vec<_> = collector.seen().into_iter().map(|seen| seen.request).collect();
    // The two signals do not wait for each other.
    sent.sort_by_key(|request| matches!(request, Request::Metrics(_)));
    assert_eq!(
        sent,
        [
            Request::of_spans(&resource, &spans),
            Request::of_samples(&resource, &samples, Temporality::Cumulative)
        ]
    );
}

#[test]
fn nulls_are_not_written() {
    let request =
        Request::Traces(ExportTraceServiceRequest { resource_spans: vec![Default::default()] });
    let line = String::from_utf8(json::write_line(&request).unwrap()).unwrap();
    assert!(!line.contains("null"), "{line}");
    assert_eq!(json::read_line(line.as_bytes()).unwrap(), [request]);
}

fn one_request() -> Request {
    Request::of_spans(&Resource::default(), &[span(1, "gym.startup")])
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn names_in(folder: &Path) -> Vec<String> {
    let name =
        |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    fs::read_dir(folder).unwrap().map(name).collect()
}

#[test]
fn a_file_keeps_what_it_holds_and_gets_all_of_it_at_once() {
    let folder = folder("whole");
    let path = folder.join("startup.jsonl");
    fs::write(&path, "before").unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o604)).unwrap();
    let link = folder.join("link");
    symlink("startup.jsonl", &link).unwrap();

    let file = JsonLines::append_to(&link).unwrap();
    file.send(one_request(), soon()).unwrap();
    file.send(one_request(), soon()).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "before");
    file.finish().unwrap();
    let line = String::from_utf8(json::write_line(&one_request()).unwrap()).unwrap();
    // A line that somebody left torn is not made part of another.
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("before\n{line}\n{line}\n"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o604);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let mut names = names_in(&folder);
    names.sort();
    assert_eq!(names, ["link", "startup.jsonl"]);
    file.send(one_request(), soon()).unwrap_err();
}

#[test]
fn those_who_append_at_once_lose_nothing() {
    let path = folder("at-once").join("startup.jsonl");
    let many = 20;
    let writers: Vec<_> = (0..8)
        .map(|_| {
            let path = path.clone();
            thread::spawn(move || {
                for _ in 0..many {
                    let file = JsonLines::append_to(&path).unwrap();
                    file.send(one_request(), soon()).unwrap();
                    file.send(one_request(), soon()).unwrap();
                    file.finish().unwrap();
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 8 * many * 2);
    for line in text.lines() {
        assert_eq!(json::read_line(line.as_bytes()).unwrap(), [one_request()]);
    }
}

#[test]
fn a_lock_that_stays_held_is_told() {
    let path = folder("locked").join("startup.jsonl");
    let holder = File::create(&path).unwrap();
    holder.lock().unwrap();
    let file = JsonLines::append_to(&path).unwrap();
    file.send(one_request(), soon()).unwrap();
    let why = file.finish().unwrap_err().to_string();
    assert!(why.ends_with(": another process has held its lock for 10 s"), "{why}");
}

#[test]
fn a_link_to_what_is_not_there_yet_stays_one() {
    let folder = folder("dangling");
    let link = folder.join("link");
    symlink("startup.jsonl", &link).unwrap();
    JsonLines::append_to(&link).unwrap().finish().unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(folder.join("startup.jsonl").is_file());
}

#[test]
fn a_file_that_was_not_finished_is_so_when_dropped() {
    let folder = folder("dropped");
    let file = JsonLines::append_to(folder.join("startup.jsonl")).unwrap();
    file.send(one_request(), soon()).unwrap();
    drop(file);
    assert_eq!(names_in(&folder), ["startup.jsonl"]);
    assert_eq!(fs::read_to_string(folder.join("startup.jsonl")).unwrap().lines().count(), 1);
}

#[test]
fn files_that_cannot_be_written() {
    let error = JsonLines::append_to("/no/such/folder/startup.jsonl").unwrap_err().to_string();
    assert_eq!(error, "/no/such/folder/startup.jsonl: No such file or directory (os error 2)");
    let full = JsonLines::append_to("/dev/full").unwrap();
    let error = full.send(one_request(), soon()).unwrap_err().to_string();
    assert_eq!(error, "/dev/full: No space left on device (os error 28)");
    JsonLines::append_to(folder("folder")).unwrap_err();
}

#[test]
fn a_pipe_is_written_to_as_it_is() {
    let pipe = folder("pipe").join("pipe");
    succeed(Command::new("mkfifo").arg(&pipe));
    let nobody = JsonLines::append_to(&pipe).unwrap_err().to_string();
    assert!(nobody.ends_with(": nobody reads it"), "{nobody}");
    let nonblocking = nix::libc::O_NONBLOCK;
    let reader = File::options().read(true).custom_flags(nonblocking).open(&pipe).unwrap();
    let file = JsonLines::append_to(&pipe).unwrap();
    file.send(one_request(), soon()).unwrap();
    let late = (0..1000).find_map(|_| file.send(one_request(), Instant::now()).err()).unwrap();
    assert!(late.to_string().ends_with(": not all of it was taken in time"), "{late}");
    // Not to the end of it, which those that other tests fork put off.
    let mut line = String::new();
    BufReader::new(reader).read_line(&mut line).unwrap();
    assert!(line.ends_with("}\n"), "{line}");
}

#[test]
fn console() {
    let (resource, spans, samples) = records();
    let text = folder("console").join("text");
    let console = Console::to(File::create(&text).unwrap());
    console.send(Request::of_spans(&resource, &spans), soon()).unwrap();
    let samples = Request::of_samples(&resource, &samples, Temporality::Delta);
    console.send(samples, soon()).unwrap();
    assert_eq!(
        fs::read_to_string(text).unwrap(),
        "span gym.startup 1000.000 ms trace=0af7651916cd43dd8448eb211c80319c \
         span=0000000000000001 nemo.gym.startup.outcome=ready\n\
         span gym.startup.server 16746744073709.551 ms trace=0af7651916cd43dd8448eb211c80319c \
         span=fedcba9876543210 parent=0000000000000001 nemo.gym.server.name=\"a \\\"b\\\" ü 日本\" \
         nemo.gym.server.worker=true process.pid=-9223372036854775808 share=0.1 list=[2 values] \
         error=\"judge: exit status 3 traceback…\"\n\
         metric gym.server.startup_stage_duration_ms count=2 sum=5000000100.000 ms \
         nemo.gym.startup.stage=a\n\
         metric gym.server.startup_stage_duration_ms count=1 sum=100.100 ms \
         nemo.gym.startup.stage=b\n"
    );
    let full = File::options().write(true).open("/dev/full").unwrap();
    Console::to(full).send(one_request(), soon()).unwrap_err();
}

#[test]
fn a_console_that_nobody_reads() {
    let (_reader, full) = full_pipe();
    let console = Console::to(File::from(full));
    let (told, result) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let deadline = Instant::now() + Duration::from_millis(300);
        told.send(console.send(one_request(), deadline)).unwrap();
    });
    let late = result.recv_timeout(Duration::from_secs(60)).expect("it waits for a reader");
    let words = "console: not all of it was taken in time";
    assert_eq!(late.map_err(|error| error.to_string()), Err(words.to_owned()));
}
