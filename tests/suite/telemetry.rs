//! A process's own records on their way out: what goes, what stays, and how long it may take.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use gym_stamp::spans::{METRIC_NAME, MetricSample, Records, Sink};
use gym_stamp::telemetry::{
    Memory, Policy, Process, Protocol, Request, Resource, Settings, Telemetry,
};
use opentelemetry::TraceFlags;
use rstest::rstest;

use crate::support::collector::{Collector, GrpcAnswer, closed, silent};
use crate::support::export::span;
use crate::support::full_pipe;

fn env<'a>(variables: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
    move |name| variables.iter().find(|(it, _)| *it == name).map(|(_, value)| value.into())
}

fn records() -> Records {
    let sample = MetricSample {
        name: METRIC_NAME,
        value_ms: 7.0,
        attributes: Vec::new(),
        time_ns: 1_700_000_001_000_000_000,
    };
    Records { spans: vec![span(1, "gym.server.startup")], metrics: vec![sample] }
}

/// What of the records goes out with these settings: `spans`, `metrics`.
fn goes_out(variables: &[(&str, &str)], records: &Records) -> String {
    let memory = Memory::default();
    let settings = Settings::from_env(&env(variables), Policy::Library);
    let way_out = Some(Box::new(memory.clone()) as _);
    let telemetry = Telemetry::with_parts(settings, Resource::default(), way_out);
    assert_eq!(telemetry.export(records), Ok(()));
    let what = |request: &Request| match request {
        Request::Traces(_) => "spans",
        Request::Metrics(_) => "metrics",
    };
    memory.requests().iter().map(what).collect::<Vec<_>>().join(", ")
}

const ON: (&str, &str) = ("NEMO_LENS_ENABLED", "1");

#[rstest]
#[case::off(&[], "")]
#[case::on(&[ON], "spans, metrics")]
#[case::disabled(&[ON, ("OTEL_SDK_DISABLED", "true")], "")]
#[case::no_traces(&[ON, ("NEMO_LENS_TRACES_ENABLED", "0")], "metrics")]
#[case::no_metrics(&[ON, ("NEMO_LENS_METRICS_ENABLED", "0")], "spans")]
#[case::group_off(&[ON, ("NEMO_LENS_SPAN_GROUPS", "per_rollout")], "metrics")]
#[case::nonsense(&[ON, ("NEMO_LENS_METRICS_ENABLED", "2")], "")]
fn what_goes_out(#[case] variables: &[(&str, &str)], #[case] what: &str) {
    assert_eq!(goes_out(variables, &records()), what);
}

#[test]
fn nothing_is_no_request() {
    assert_eq!(goes_out(&[ON], &Records::default()), "");
}

/// The caller decided for the whole trace; metrics are no part of it.
#[test]
fn a_trace_that_is_not_sampled_stays_here() {
    let mut records = records();
    records.spans[0].flags = TraceFlags::default();
    assert_eq!(goes_out(&[ON], &records), "metrics");
}

/// A process's sentences, as they are told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn telemetry(&self, variables: &[(&str, &str)]) -> Telemetry {
        let told = self.clone();
        Telemetry::from_env_telling(
            &env(variables),
            Policy::Library,
            &Process::server("judge", None, "1"),
            move |words| told.0.lock().unwrap().push(words.to_owned()),
        )
    }

    fn words(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[test]
fn warnings_are_told_at_once() {
    let told = Told::default();
    let telemetry = told.telemetry(&[
        ("NEMO_GYM_OTEL_ENABLED", "perhaps"),
        ("OTEL_RESOURCE_ATTRIBUTES", "nonsense"),
    ]);
    assert!(!telemetry.is_on());
    let words = told.words();
    assert_eq!(words.len(), 2, "{words:?}");
    assert!(words[0].starts_with("NEMO_GYM_OTEL_ENABLED=perhaps: "), "{words:?}");
    assert!(words[1].starts_with("OTEL_RESOURCE_ATTRIBUTES: entry 1"), "{words:?}");
}

#[test]
fn records_carry_the_resource() {
    let collector = Collector::willing(Protocol::Grpc);
    let told = Told::default();
    let url = collector.url();
    told.telemetry(&[ON, ("OTEL_EXPORTER_OTLP_ENDPOINT", &url)]).emit(records());
    assert_eq!(told.words(), Vec::<String>::new());
    let seen = collector.seen();
    assert_eq!(seen.len(), 2);
    for request in seen.iter().map(|seen| &seen.request) {
        let resource = match request {
            Request::Traces(request) => &request.resource_spans[0].resource,
            Request::Metrics(request) => &request.resource_metrics[0].resource,
        };
        assert!(format!("{resource:?}").contains("nemo-gym/judge"), "{resource:?}");
    }
}

#[test]
fn every_failure_is_told_and_goes_no_further() {
    let told = Told::default();
    let url = format!("http://{}", closed());
    told.telemetry(&[ON, ("OTEL_EXPORTER_OTLP_ENDPOINT", &url)]).emit(records());
    let words = told.words();
    assert_eq!(words.len(), 2, "{words:?}");
    assert!(words.iter().all(|words| words.contains("Connection refused")), "{words:?}");
}

/// Both signals, from within a runtime that must not be run again, and its end.
#[tokio::test]
async fn one_deadline_for_all_of_it() {
    let told = Told::default();
    let url = format!("http://{}", silent());
    let variables =
        [ON, ("OTEL_EXPORTER_OTLP_ENDPOINT", &*url), ("OTEL_EXPORTER_OTLP_TIMEOUT", "15000")];
    let telemetry = told.telemetry(&variables);
    let started = Instant::now();
    telemetry.emit(records());
    drop(telemetry);
    let elapsed = started.elapsed();
    assert!(elapsed >= Duration::from_secs(15), "{elapsed:?}");
    // One after the other would have taken as long.
    assert!(elapsed < Duration::from_secs(30), "{elapsed:?}");
    let words = told.words();
    assert_eq!(words.len(), 2, "{words:?}");
    assert!(words.iter().all(|it| it.contains("no answer within ")), "{words:?}");
}

#[test]
fn spans_that_nobody_takes_cost_no_metric() {
    let told = Told::default();
    let metrics = Collector::willing(Protocol::Grpc);
    let (silent, url) = (format!("http://{}", silent()), metrics.url());
    let telemetry = told.telemetry(&[
        ON,
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &silent),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &url),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "5000"),
    ]);
    assert_eq!(telemetry.export(&records()).unwrap_err().len(), 1);
    assert_eq!(metrics.seen().len(), 1);
}

/// More than a gRPC server takes in one message.
#[test]
fn many_spans_go_out_in_batches() {
    let collector = Collector::grpc([GrpcAnswer::ok()]);
    let told = Told::default();
    let url = collector.url();
    let telemetry = told.telemetry(&[
        ON,
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &url),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "120000"),
    ]);
    let spans = (1..=30_000).map(|id| span(id, "gym.startup.server")).collect();
    assert_eq!(telemetry.export(&Records { spans, ..Records::default() }), Ok(()));
    let seen = collector.seen();
    assert_eq!(seen.iter().map(|seen| seen.request.len()).sum::<usize>(), 30_000);
    assert!(seen.len() > 1, "{}", seen.len());
}

/// A console has a deadline too, though no variable sets it.
#[test]
fn what_a_console_has() {
    let told = Told::default();
    let console = told.telemetry(&[ON, ("NEMO_LENS_EXPORTER", "console")]);
    assert_eq!(console.timeout(), Duration::from_secs(10));
}

#[test]
#[ignore = "a process of its own, for the one below"]
fn warns() {
    let process = Process::server("judge", None, "1");
    Telemetry::from_env(&env(&[("NEMO_LENS_ENABLED", "perhaps")]), Policy::Library, &process);
}

#[test]
fn warnings_on_a_standard_error_that_nobody_reads() {
    let (_reader, full) = full_pipe();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "telemetry::warns", "--ignored"])
        .stdout(Stdio::null())
        .stderr(full)
        .spawn()
        .unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it waits for a reader");
        }
        thread::sleep(Duration::from_millis(20));
    }
    assert!(child.wait().unwrap().success());
}

/// A way out is good for more than one report, even after its collector was away.
#[test]
fn a_collector_that_comes_back() {
    let told = Told::default();
    let address = closed();
    let url = format!("http://{address}");
    let telemetry = told.telemetry(&[ON, ("OTEL_EXPORTER_OTLP_ENDPOINT", &url)]);
    assert!(telemetry.export(&records()).is_err());
    let listener = std::net::TcpListener::bind(address).unwrap();
    let collector = Collector::grpc_on(listener, None, [GrpcAnswer::ok()]);
    assert_eq!(telemetry.export(&records()), Ok(()));
    assert_eq!(telemetry.export(&records()), Ok(()));
    assert_eq!(collector.seen().len(), 4);
}
