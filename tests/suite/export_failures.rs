//! Every way in which sending goes wrong: what is said, with which status, and how soon.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gym_stamp::telemetry::Protocol::{self, Grpc, HttpJson, HttpProtobuf};
use gym_stamp::telemetry::{
    BATCH_BYTES, Endpoint, Otlp, Overrides, Request, Resource, Signal, WayOut,
};
use rstest::rstest;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::support::certificates::Authority;
use crate::support::collector::{
    Collector, GrpcAnswer, HttpAnswer, closed, full, full_on, listener, silent, tunnel,
};
use crate::support::export::{Export, a_span, folder, line, span};
use crate::support::toolbox::{program, spawn, succeed, with_a_silent_name_server};

fn http(address: SocketAddr) -> String {
    format!("http://{address}")
}

fn https(address: SocketAddr) -> String {
    format!("https://localhost:{}", address.port())
}

#[rstest]
fn refused(#[values(Grpc, HttpProtobuf, HttpJson)] protocol: Protocol) {
    Export::of_a_span()
        .to(http(closed()))
        .over(protocol)
        .run()
        .failed()
        .at_once()
        .in_lines(1)
        .said("1 span not accepted: http://127.0.0.1:")
        .said("Connection refused");
}

#[rstest]
fn accepts_and_never_answers(#[values(Grpc, HttpProtobuf, HttpJson)] protocol: Protocol) {
    Export::of_a_span()
        .to(http(silent()))
        .over(protocol)
        .in_vain()
        .run()
        .was_late("connected, but no answer")
        .in_lines(1);
}

#[rstest]
fn never_finishes_the_tls_handshake(#[values(Grpc, HttpProtobuf)] protocol: Protocol) {
    let ca = Authority::new().write(&folder(&format!("handshake-{protocol:?}")));
    Export::of_a_span()
        .to(https(silent()))
        .over(protocol)
        .env("OTEL_EXPORTER_OTLP_CERTIFICATE", ca.to_str().unwrap())
        .in_vain()
        .run()
        .was_late("no TLS handshake")
        .in_lines(1);
}

#[rstest]
fn connection_that_never_completes(#[values(Grpc, HttpProtobuf)] protocol: Protocol) {
    let (address, _held) = full();
    Export::of_a_span()
        .to(http(address))
        .over(protocol)
        .in_vain()
        .run()
        .was_late("no connection")
        .in_lines(1);
}

#[rstest]
fn name_that_never_resolves(#[values(Grpc, HttpProtobuf)] protocol: Protocol) {
    let wrapper = with_a_silent_name_server(&folder(&format!("resolve-{protocol:?}")));
    let wrapper: Vec<_> = wrapper.iter().map(String::as_str).collect();
    Export::of_a_span()
        .to("http://collector.example:4317")
        .over(protocol)
        .in_vain()
        .by(&wrapper)
        .run()
        .was_late("name not resolved")
        .in_lines(1)
        .said("http://collector.example:4317/");
}

#[rstest]
fn name_that_does_not_exist(#[values(Grpc, HttpProtobuf)] protocol: Protocol) {
    Export::of_a_span()
        .to("http://collector.invalid:4317")
        .over(protocol)
        .run()
        .failed()
        .in_lines(1)
        .said("failed to lookup address information");
}

#[rstest]
fn unauthorized_over_http(#[values(HttpProtobuf, HttpJson)] protocol: Protocol) {
    let body = br#"{"code": 16, "message": "no token"}"#;
    let answer = HttpAnswer::new("401 Unauthorized", &["Content-Type: application/json"], body);
    let collector = Collector::http([answer]);
    Export::of_a_span()
        .to(collector.url())
        .over(protocol)
        .run()
        .failed()
        .at_once()
        .in_lines(1)
        .said("refused it: 401 Unauthorized: no token");
    assert_eq!(collector.seen().len(), 1);
}

#[test]
fn unauthenticated_over_grpc() {
    let collector = Collector::grpc([GrpcAnswer::Refused(Status::unauthenticated("no token"))]);
    Export::of_a_span()
        .to(collector.url())
        .run()
        .failed()
        .at_once()
        .in_lines(1)
        .said("refused it: Unauthenticated: no token");
    assert_eq!(collector.seen().len(), 1);
}

fn too_many_requests(seconds: u32) -> HttpAnswer {
    HttpAnswer::new("429 Too Many Requests", &[&format!("Retry-After: {seconds}")], b"")
}

fn exhausted(seconds: u64) -> GrpcAnswer {
    let mut details = ErrorDetails::new();
    details.set_retry_info(Some(Duration::from_secs(seconds)));
    let status = Status::with_error_details(Code::ResourceExhausted, "too fast", details);
    GrpcAnswer::Refused(status)
}

#[rstest]
#[case(HttpProtobuf, Collector::http([too_many_requests(1), HttpAnswer::ok()]))]
#[case(HttpJson, Collector::http([too_many_requests(1), HttpAnswer::ok()]))]
#[case(Grpc, Collector::grpc([exhausted(1), GrpcAnswer::ok()]))]
fn told_to_wait(#[case] protocol: Protocol, #[case] collector: Collector) {
    Export::of_a_span()
        .to(collector.url())
        .over(protocol)
        .run()
        .succeeded()
        .after(Duration::from_secs(1));
    assert_eq!(collector.seen().len(), 2);
}

#[rstest]
#[case(HttpProtobuf, Collector::http([too_many_requests(600)]))]
#[case(Grpc, Collector::grpc([exhausted(600)]))]
fn told_to_wait_beyond_the_deadline(#[case] protocol: Protocol, #[case] collector: Collector) {
    Export::of_a_span()
        .to(collector.url())
        .over(protocol)
        .run()
        .failed()
        .at_once()
        .in_lines(1)
        .said("to be tried again in 600 s), which is after the deadline");
    assert_eq!(collector.seen().len(), 1);
}

/// tonic's own word for a message that no collector with that limit will ever take.
#[test]
fn a_message_that_is_too_long_is_not_sent_again() {
    let status = Status::out_of_range("Error, decoded message length too large: found 5 bytes");
    let collector = Collector::grpc([GrpcAnswer::Refused(status)]);
    Export::of_a_span()
        .to(collector.url())
        .run()
        .failed()
        .at_once()
        .said("OutOfRange: Error, decoded message length too large");
    assert_eq!(collector.seen().len(), 1);
}

#[test]
fn out_of_range_is_tried_a_few_times() {
    let collector = Collector::grpc([GrpcAnswer::Refused(Status::out_of_range("past the end"))]);
    Export::of_a_span().to(collector.url()).run().failed();
    assert_eq!(collector.seen().len(), 3);
}

/// More than any socket buffers, to a collector that has had enough of it after the headers.
#[test]
fn an_early_answer_costs_its_connection() {
    let collector = Collector::http([unavailable().0.early(), HttpAnswer::ok()]);
    Export::of(line(&[span(1, &"x".repeat(14_000_000))]))
        .to(collector.url())
        .over(HttpProtobuf)
        .run()
        .succeeded();
    assert_eq!(collector.seen().len(), 1);
}

/// Whichever of the two comes first.
#[rstest]
fn a_name_with_two_addresses_one_of_which_never_answers(
    #[values(Grpc, HttpProtobuf)] protocol: Protocol,
    #[values(2, 3)] dead: u8,
) {
    let folder = folder(&format!("two-addresses-{protocol:?}-{dead}"));
    let (dead, alive) = (Ipv4Addr::new(127, 0, 0, dead), Ipv4Addr::new(127, 0, 0, 5 - dead));
    let (address, _held) = full_on(dead);
    let listener = TcpListener::bind((alive, address.port())).unwrap();
    let collector = match protocol {
        Grpc => Collector::grpc_on(listener, None, [GrpcAnswer::ok()]),
        _ => Collector::http_on(listener, None, [HttpAnswer::ok()]),
    };
    let hosts = folder.join("hosts");
    std::fs::write(&hosts, "127.0.0.2 collector.example\n127.0.0.3 collector.example\n").unwrap();
    let unshare = program("unshare", "util-linux");
    let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
    Export::of_a_span()
        .to(format!("http://collector.example:{}", address.port()))
        .over(protocol)
        // The one that never answers costs half of it.
        .within(Duration::from_secs(20))
        .by(&[unshare.to_str().unwrap(), "--mount", "sh", "-c", script, hosts.to_str().unwrap()])
        .run()
        .succeeded();
    assert_eq!(collector.seen().len(), 1);
}

/// Longer than gRPC's own header can say.
#[rstest]
fn a_deadline_that_never_comes(#[values(Grpc, HttpProtobuf)] protocol: Protocol) {
    let collector = Collector::willing(protocol);
    let overrides = Overrides {
        endpoint: Some(collector.url()),
        protocol: Some(protocol),
        timeout: Some(Duration::MAX),
    };
    let mut endpoint =
        Endpoint::from_env(&|_| None, Signal::Traces, &overrides, &mut Vec::new()).unwrap();
    endpoint.timeout = Duration::MAX;
    let request = Request::of_spans(&Resource::default(), &[span(1, "gym.startup")]);
    let never = Instant::now() + Duration::from_secs(1 << 40);
    Otlp::new(Some(endpoint), None).send(request, never).unwrap();
    assert_eq!(collector.seen().len(), 1);
}

/// Whoever answers one signal's requests is not to be without them because of the other's.
#[test]
fn traces_that_hang_leave_metrics_their_time() {
    let metrics = Collector::http([HttpAnswer::ok()]);
    let input = [a_span(), METRIC.into()].concat();
    Export::of(input)
        .over(HttpProtobuf)
        .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", http(silent()))
        .env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", metrics.url())
        .in_vain()
        .run()
        .failed()
        .in_lines(1)
        .said("1 span not accepted");
    assert_eq!(metrics.seen().len(), 1);
}

/// Spans that fill a batch are sent before the metric that comes after them is seen.
#[rstest]
fn batches_that_hang_leave_metrics_their_time(#[values(1, 2)] lines: u64) {
    let metrics = Collector::http([HttpAnswer::ok()]);
    let line_of = |id| line(&[span(id, &"x".repeat(2 * BATCH_BYTES)), span(id + 1, "last")]);
    let spans: Vec<u8> = (0..lines).flat_map(|it| line_of(2 * it + 1)).collect();
    Export::of([spans, METRIC.into()].concat())
        .over(HttpProtobuf)
        .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", http(silent()))
        .env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", metrics.url())
        .within(Duration::from_secs(8))
        .run()
        .failed()
        .in_lines(2)
        .said("1 span not accepted")
        .said(": of 8000 ms, 2000 are kept for the other signal")
        .said("the rest is not sent");
    assert_eq!(metrics.seen().len(), 1);
}

/// What the worker of a signal is stuck in holds up the caller once, not once a request.
#[test]
fn one_grace_for_all_that_is_stuck() {
    let pem = folder("stuck").join("ca.pem");
    succeed(Command::new("mkfifo").arg(&pem));
    let overrides = Overrides {
        endpoint: Some(https(silent())),
        timeout: Some(Duration::from_millis(200)),
        ..Overrides::default()
    };
    let env = |name: &str| (name == "OTEL_EXPORTER_OTLP_CERTIFICATE").then(|| pem.clone().into());
    let endpoint = Endpoint::from_env(&env, Signal::Traces, &overrides, &mut Vec::new()).unwrap();
    let request = Request::of_spans(&Resource::default(), &[span(1, "gym.startup")]);
    let started = Instant::now();
    let results = Otlp::new(Some(endpoint), None)
        .send_all(vec![request; 500], started + Duration::from_secs(1));
    // One after the other they would take 100.
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    let words: Vec<_> = results.into_iter().map(|it| it.unwrap_err().to_string()).collect();
    assert!(words.iter().all(|it| it.ends_with("not sent within 200 ms")), "{words:?}");
}

/// What a signal has for itself is not the last of what there is for both.
#[test]
fn a_signal_with_less_time_than_the_other() {
    Export::of_a_span()
        .to(http(silent()))
        .env("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "1000")
        .env("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "2000")
        .run()
        .failed()
        .in_lines(1)
        .never_said("for everything");
}

const METRIC: &str = concat!(
    r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"g","#,
    r#""gauge":{"dataPoints":[{"asInt":"1"}]}}]}]}]}"#,
    "\n"
);

/// A pipe that nobody reads costs words, not the deadline.
#[test]
fn standard_error_that_nobody_reads() {
    let file = folder("unread").join("no-otlp");
    std::fs::write(&file, "this is no OTLP\n".repeat(100)).unwrap();
    let (_unread, stderr) = std::io::pipe().unwrap();
    let started = Instant::now();
    let mut export = Command::new(env!("CARGO_BIN_EXE_gym-startup"));
    export
        .arg("export")
        .args(vec![&file; 200])
        .args(["--endpoint", &http(closed()), "--timeout", "1000"])
        .stderr(stderr);
    let mut export = spawn(&mut export).unwrap();
    let patience = Duration::from_secs(60);
    let status = loop {
        match export.try_wait().unwrap() {
            Some(status) => break status,
            None if started.elapsed() > patience => {
                export.kill().unwrap();
                export.wait().unwrap();
                panic!("it waits for somebody to read");
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    assert_eq!(status.code(), Some(1));
}

/// Without a word about when to come back, that is what a collector says to who sends too much.
#[test]
fn resource_exhausted_for_good() {
    let status = Status::resource_exhausted("message larger than max");
    let collector = Collector::grpc([GrpcAnswer::Refused(status)]);
    Export::of_a_span()
        .to(collector.url())
        .run()
        .failed()
        .at_once()
        .said("ResourceExhausted: message larger than max");
    assert_eq!(collector.seen().len(), 1);
}

fn unavailable() -> (HttpAnswer, GrpcAnswer) {
    (
        HttpAnswer::new("503 Service Unavailable", &["Content-Type: text/plain"], b"starting\n"),
        GrpcAnswer::Refused(Status::unavailable("starting")),
    )
}

#[rstest]
#[case(HttpProtobuf, Collector::http([unavailable().0, unavailable().0, HttpAnswer::ok()]))]
#[case(HttpJson, Collector::http([unavailable().0, unavailable().0, HttpAnswer::ok()]))]
#[case(Grpc, Collector::grpc([unavailable().1, unavailable().1, GrpcAnswer::ok()]))]
fn unavailable_then_success(#[case] protocol: Protocol, #[case] collector: Collector) {
    Export::of_a_span().to(collector.url()).over(protocol).run().succeeded();
    assert_eq!(collector.seen().len(), 3);
}

#[rstest]
#[case(HttpProtobuf, Collector::http([unavailable().0]))]
#[case(Grpc, Collector::grpc([unavailable().1]))]
fn unavailable_for_good(#[case] protocol: Protocol, #[case] collector: Collector) {
    Export::of_a_span()
        .to(collector.url())
        .over(protocol)
        .within(Duration::from_secs(12))
        .run()
        .failed()
        .in_lines(1)
        .said("navailable: starting");
    assert!(collector.seen().len() > 1);
}

#[rstest]
#[case(HttpProtobuf, Collector::http([HttpAnswer::partial(HttpProtobuf, 1, "too old")]))]
#[case(HttpJson, Collector::http([HttpAnswer::partial(HttpJson, 1, "too old")]))]
#[case(Grpc, Collector::grpc([GrpcAnswer::partial(1, "too old")]))]
fn partial_success(#[case] protocol: Protocol, #[case] collector: Collector) {
    Export::of_a_span()
        .to(collector.url())
        .over(protocol)
        .run()
        .failed()
        .at_once()
        .in_lines(1)
        .said("rejected 1 of 1 span: too old");
    assert_eq!(collector.seen().len(), 1);
}

#[rstest]
#[case(HttpProtobuf, Collector::http([HttpAnswer::partial(HttpProtobuf, 0, "send less")]))]
#[case(HttpJson, Collector::http([HttpAnswer::partial(HttpJson, 0, "send less")]))]
#[case(Grpc, Collector::grpc([GrpcAnswer::partial(0, "send less")]))]
fn remark_on_success(#[case] protocol: Protocol, #[case] collector: Collector) {
    Export::of_a_span()
        .to(collector.url())
        .over(protocol)
        .run()
        .ended_with(0)
        .in_lines(1)
        .said(&format!("gym-startup: {}/", collector.url()))
        .said(": send less");
}

#[rstest]
#[case(HttpProtobuf, Collector::http([html()]))]
#[case(HttpJson, Collector::http([html()]))]
#[case(Grpc, Collector::grpc([GrpcAnswer::OtherContent("text/html")]))]
fn wrong_content_type(#[case] protocol: Protocol, #[case] collector: Collector) {
    Export::of_a_span()
        .to(collector.url())
        .over(protocol)
        .run()
        .failed()
        .at_once()
        .in_lines(1)
        .said("does not speak OTLP: it answered 200 OK with text/html");
}

fn html() -> HttpAnswer {
    HttpAnswer::new("200 OK", &["Content-Type: text/html; charset=utf-8"], b"<html>Welcome</html>")
}

#[rstest]
#[case("application/json", b"<html>")]
#[case("application/x-protobuf", b"<html>")]
fn unreadable_answer(#[case] kind: &str, #[case] body: &[u8]) {
    let answer = HttpAnswer::new("200 OK", &[&format!("Content-Type: {kind}")], body);
    Export::of_a_span()
        .to(Collector::http([answer]).url())
        .over(HttpProtobuf)
        .run()
        .failed()
        .at_once()
        .said("its answer cannot be read");
}

#[test]
fn moved() {
    let answer = HttpAnswer::new(
        "301 Moved Permanently",
        &["Location: https://elsewhere.example/v1/traces"],
        b"",
    );
    Export::of_a_span()
        .to(Collector::http([answer]).url())
        .over(HttpProtobuf)
        .run()
        .failed()
        .said("moved to https://elsewhere.example/v1/traces");
}

#[rstest]
fn plain_text_on_a_tls_port(#[values(Grpc, HttpProtobuf)] protocol: Protocol) {
    let collector = Collector::http([HttpAnswer::ok()]);
    let ca = Authority::new().write(&folder(&format!("plain-{protocol:?}")));
    Export::of_a_span()
        .to(https(collector.address))
        .over(protocol)
        .env("OTEL_EXPORTER_OTLP_CERTIFICATE", ca.to_str().unwrap())
        .run()
        .failed()
        .in_lines(1)
        .said("TLS handshake failed")
        .said("write its endpoint with http://");
}

#[rstest]
fn tls_on_a_plain_text_port(#[values(Grpc, HttpProtobuf)] protocol: Protocol) {
    let server = Authority::new().server();
    let collector = Collector::https(server.config(), [HttpAnswer::ok()]);
    Export::of_a_span()
        .to(collector.url())
        .over(protocol)
        .run()
        .failed()
        .at_once()
        .in_lines(1)
        .said("is it an https://");
}

fn secure(
    protocol: Protocol,
    tls: std::sync::Arc<tokio_rustls::rustls::ServerConfig>,
) -> Collector {
    match protocol {
        Grpc => Collector::grpcs(tls, [GrpcAnswer::ok()]),
        _ => Collector::https(tls, [HttpAnswer::ok()]),
    }
}

#[rstest]
fn known_ca(#[values(Grpc, HttpProtobuf, HttpJson)] protocol: Protocol) {
    let authority = Authority::new();
    let collector = secure(protocol, authority.server().config());
    let ca = authority.write(&folder(&format!("known-{protocol:?}")));
    Export::of_a_span()
        .to(https(collector.address))
        .over(protocol)
        .env("OTEL_EXPORTER_OTLP_CERTIFICATE", ca.to_str().unwrap())
        .run()
        .succeeded();
    assert_eq!(collector.seen().len(), 1);
}

#[rstest]
fn unknown_ca(#[values(Grpc, HttpProtobuf)] protocol: Protocol) {
    let collector = secure(protocol, Authority::new().server().config());
    let other = Authority::new().write(&folder(&format!("unknown-{protocol:?}")));
    Export::of_a_span()
        .to(https(collector.address))
        .over(protocol)
        .env("OTEL_EXPORTER_OTLP_CERTIFICATE", other.to_str().unwrap())
        .run()
        .failed()
        .at_once()
        .in_lines(1)
        .said("invalid peer certificate")
        .said("set OTEL_EXPORTER_OTLP_CERTIFICATE");
    assert_eq!(collector.seen().len(), 0);
}

#[rstest]
fn expired_certificate(#[values(Grpc, HttpProtobuf)] protocol: Protocol) {
    let authority = Authority::new();
    let collector = secure(protocol, authority.expired_server().config());
    let ca = authority.write(&folder(&format!("expired-{protocol:?}")));
    Export::of_a_span()
        .to(https(collector.address))
        .over(protocol)
        .env("OTEL_EXPORTER_OTLP_CERTIFICATE", ca.to_str().unwrap())
        .run()
        .failed()
        .at_once()
        .in_lines(1)
        .said("expired");
}

/// As in an image without `ca-certificates`.
#[rstest]
fn no_ca_on_this_machine(#[values(Grpc, HttpProtobuf)] protocol: Protocol) {
    let empty = folder(&format!("no-ca-{protocol:?}"));
    Export::of_a_span()
        .to("https://localhost:1")
        .over(protocol)
        .env("SSL_CERT_DIR", empty.to_str().unwrap())
        .run()
        .failed()
        .at_once()
        .in_lines(1)
        .said("no CA certificates")
        .said("OTEL_EXPORTER_OTLP_CERTIFICATE");
}

#[test]
fn ca_file_that_is_missing() {
    Export::of_a_span()
        .to("https://localhost:1")
        .env("OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/such/ca.pem")
        .run()
        .failed()
        .in_lines(1)
        .said("/no/such/ca.pem: ")
        .said("No such file");
}

#[rstest]
fn client_certificate(#[values(Grpc, HttpProtobuf)] protocol: Protocol) {
    let authority = Authority::new();
    let tls = authority.asking_clients(&authority.server());
    let collector = secure(protocol, tls);
    let folder = folder(&format!("client-{protocol:?}"));
    let ca = authority.write(&folder);
    let (certificate, key) = authority.client().write(&folder);
    let trusting = || {
        Export::of_a_span()
            .to(https(collector.address))
            .over(protocol)
            .env("OTEL_EXPORTER_OTLP_CERTIFICATE", ca.to_str().unwrap())
    };
    trusting()
        .env("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", certificate.to_str().unwrap())
        .env("OTEL_EXPORTER_OTLP_CLIENT_KEY", key.to_str().unwrap())
        .run()
        .succeeded();
    trusting().run().failed().said("set OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE");
    trusting()
        .env("OTEL_EXPORTER_OTLP_CLIENT_KEY", key.to_str().unwrap())
        .run()
        .failed()
        .said("of no use without OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE");
    assert_eq!(collector.seen().len(), 1);
}

#[rstest]
#[case(HttpProtobuf, Collector::http([HttpAnswer::cut()]), "the answer was cut short")]
#[case(HttpJson, Collector::http([HttpAnswer::cut()]), "the answer was cut short")]
#[case(Grpc, Collector::grpc([GrpcAnswer::Hangup]), "it closed the connection")]
#[case(Grpc, Collector::grpc([GrpcAnswer::Cut]), "it closed the connection")]
fn closes_in_mid_answer(
    #[case] protocol: Protocol,
    #[case] collector: Collector,
    #[case] words: &str,
) {
    Export::of_a_span()
        .to(collector.url())
        .over(protocol)
        .run()
        .failed()
        .at_once()
        .in_lines(1)
        .said(words);
}

#[rstest]
#[case(HttpProtobuf, Collector::http([HttpAnswer::cut(), HttpAnswer::ok()]))]
#[case(Grpc, Collector::grpc([GrpcAnswer::Hangup, GrpcAnswer::ok()]))]
fn closes_once(#[case] protocol: Protocol, #[case] collector: Collector) {
    Export::of_a_span().to(collector.url()).over(protocol).run().succeeded();
}

#[rstest]
fn loopback_is_never_reached_through_a_proxy(
    #[values(Grpc, HttpProtobuf)] protocol: Protocol,
    #[values("127.0.0.1", "localhost")] host: &str,
) {
    let collector = Collector::willing(protocol);
    Export::of_a_span()
        .to(format!("http://{host}:{}", collector.address.port()))
        .over(protocol)
        .env("http_proxy", http(closed()))
        .env("HTTP_PROXY", http(closed()))
        .env("all_proxy", http(closed()))
        .run()
        .succeeded();
    assert_eq!(collector.seen().len(), 1);
}

#[test]
fn plain_http_is_passed_on_by_a_proxy() {
    let proxy = Collector::http([HttpAnswer::ok()]);
    Export::of_a_span()
        .to("http://collector.invalid:4318")
        .over(HttpProtobuf)
        .env("http_proxy", format!("http://user:pass@{}", proxy.address))
        .run()
        .succeeded();
    let seen = proxy.seen().remove(0);
    assert_eq!(seen.target, "POST http://collector.invalid:4318/v1/traces");
    assert!(seen.headers.contains(&"proxy-authorization: Basic dXNlcjpwYXNz".to_owned()));
    assert!(seen.headers.contains(&"host: collector.invalid:4318".to_owned()));
}

#[test]
fn grpc_goes_through_a_proxy_in_a_tunnel() {
    let collector = Collector::grpc([GrpcAnswer::ok()]);
    let (proxy, asked) = tunnel(collector.address);
    Export::of_a_span()
        .to("http://collector.invalid:4317")
        .over(Grpc)
        .env("http_proxy", http(proxy))
        .run()
        .succeeded();
    assert_eq!(asked.recv().unwrap(), "CONNECT collector.invalid:4317 HTTP/1.1");
    assert_eq!(collector.seen().len(), 1);
}

#[test]
fn a_proxy_that_is_not_there_is_named() {
    let proxy = closed();
    Export::of_a_span()
        .to("http://collector.invalid:4318")
        .over(HttpProtobuf)
        .env("http_proxy", format!("http://user:secret@{proxy}"))
        .run()
        .failed()
        .in_lines(1)
        .said(&format!("through the proxy http://{proxy}/"))
        .never_said("secret");
}

#[rstest]
#[case("https://127.0.0.1:1")]
#[case("socks5://127.0.0.1:1")]
fn a_proxy_of_another_kind(#[case] proxy: &str) {
    Export::of_a_span()
        .to("http://collector.invalid:4317")
        .env("http_proxy", proxy)
        .run()
        .failed()
        .at_once()
        .in_lines(1)
        .said("a proxy can only be http://");
}

/// An address of nobody's, which is reached through a proxy or not at all.
#[rstest]
fn no_proxy_star_is_for_addresses_too(#[values(Grpc, HttpProtobuf)] protocol: Protocol) {
    Export::of_a_span()
        .to("http://192.0.2.1:4318")
        .over(protocol)
        .env("http_proxy", http(closed()))
        .env("no_proxy", "*")
        .within(Duration::from_secs(1))
        .run()
        .failed()
        .in_lines(1)
        .never_said("proxy");
}

#[test]
fn a_proxy_that_is_no_address() {
    Export::of_a_span()
        .to("http://collector.invalid:4318")
        .env("http_proxy", "http://user:secret@:::")
        .run()
        .failed()
        .at_once()
        .in_lines(1)
        .said("http_proxy: not the address of a proxy")
        .never_said("secret");
}

/// They say how the message is framed, what it is and who sends it: ours to know.
#[rstest]
fn own_headers_do_not_replace_ours(#[values(Grpc, HttpProtobuf, HttpJson)] protocol: Protocol) {
    let collector = Collector::willing(protocol);
    let own = "content-length=1,transfer-encoding=chunked,content-type=text/plain,host=other,\
               user-agent=other,connection=close,x-tenant=a";
    Export::of_a_span()
        .to(collector.url())
        .over(protocol)
        .env("OTEL_EXPORTER_OTLP_HEADERS", own)
        .run()
        .succeeded();
    let seen = collector.seen().remove(0);
    let has = |header: &str| seen.headers.iter().any(|it| it == header);
    assert!(has("x-tenant: a"), "{seen:?}");
    assert!(!has("user-agent: other") && !has("content-type: text/plain"), "{seen:?}");
    assert!(!has("host: other") && !has("connection: close"), "{seen:?}");
}

#[test]
fn no_proxy_is_obeyed() {
    Export::of_a_span()
        .to("http://collector.invalid:4318")
        .over(HttpProtobuf)
        .env("http_proxy", Collector::http([HttpAnswer::ok()]).url())
        .env("no_proxy", ".invalid")
        .run()
        .failed()
        .said("failed to lookup address");
}

#[test]
fn endpoint_without_scheme() {
    let collector = Collector::grpc([GrpcAnswer::ok()]);
    let bare = collector.address.to_string();
    let endpoint = |protocol: &str| {
        Export::of_a_span()
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", bare.clone())
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    };
    // As the Python SDK has it: TLS, unless told otherwise.
    endpoint("grpc").run().failed().in_lines(1).said(&format!("https://{bare}/"));
    endpoint("grpc").env("OTEL_EXPORTER_OTLP_INSECURE", "true").run().succeeded();
    endpoint("http/protobuf")
        .run()
        .failed()
        .at_once()
        .in_lines(1)
        .said(&format!("OTEL_EXPORTER_OTLP_ENDPOINT: {bare} has no scheme: write http://{bare}"));
    Export::of_a_span().to(bare.clone()).over(HttpProtobuf).run().ended_with(2).in_lines(1);
}

#[rstest]
#[case("", "POST /v1/traces")]
#[case("/", "POST /v1/traces")]
#[case("/otlp", "POST /otlp/v1/traces")]
#[case("/otlp/", "POST /otlp/v1/traces")]
#[case("/otlp?key=1", "POST /otlp/v1/traces?key=1")]
fn endpoint_with_path(#[case] path: &str, #[case] target: &str) {
    let collector = Collector::http([HttpAnswer::ok()]);
    Export::of_a_span()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("{}{path}", collector.url()))
        .over(HttpProtobuf)
        .run()
        .succeeded();
    assert_eq!(collector.seen()[0].target, target);
}

#[rstest]
#[case("", "POST /")]
#[case("/otlp", "POST /otlp")]
#[case("/v1/traces", "POST /v1/traces")]
fn signals_own_endpoint_with_path(#[case] path: &str, #[case] target: &str) {
    let collector = Collector::http([HttpAnswer::ok()]);
    Export::of_a_span()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", http(closed()))
        .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("{}{path}", collector.url()))
        .over(HttpProtobuf)
        .run()
        .succeeded();
    assert_eq!(collector.seen()[0].target, target);
}

/// As in the Python SDK.
#[test]
fn endpoint_with_path_over_grpc() {
    let collector = Collector::grpc([GrpcAnswer::ok()]);
    Export::of_a_span().to(format!("{}/v1/traces", collector.url())).run().succeeded();
    assert_eq!(collector.seen().len(), 1);
}

#[rstest]
fn endpoint_with_ipv6(#[values(Grpc, HttpProtobuf)] protocol: Protocol) {
    let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
    let collector = match protocol {
        Grpc => Collector::grpc_on(listener, None, [GrpcAnswer::ok()]),
        _ => Collector::http_on(listener, None, [HttpAnswer::ok()]),
    };
    Export::of_a_span()
        .to(format!("http://[::1]:{}", collector.address.port()))
        .over(protocol)
        .env("http_proxy", http(closed()))
        .run()
        .succeeded();
    assert_eq!(collector.seen().len(), 1);
}

#[test]
fn empty_variables() {
    let collector = Collector::grpc([GrpcAnswer::ok()]);
    let mut export =
        Export::of_a_span().env("OTEL_EXPORTER_OTLP_ENDPOINT", format!(" {} ", collector.url()));
    for name in [
        "OTEL_SDK_DISABLED",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_COMPRESSION",
        "OTEL_EXPORTER_OTLP_TIMEOUT",
        "OTEL_EXPORTER_OTLP_CERTIFICATE",
        "OTEL_EXPORTER_OTLP_CLIENT_KEY",
        "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
        "http_proxy",
        "no_proxy",
    ] {
        export = export.env(name, if name.contains("OTEL") { " " } else { "" });
    }
    export.run().succeeded();
    assert_eq!(collector.seen().len(), 1);
}

#[test]
fn disabled_sdk() {
    let collector = Collector::grpc([GrpcAnswer::ok()]);
    Export::of_a_span()
        .to(collector.url())
        .env("OTEL_SDK_DISABLED", "true")
        .run()
        .failed()
        .in_lines(1)
        .said("OTEL_SDK_DISABLED=true: nothing is sent");
    assert_eq!(collector.seen().len(), 0);
}

#[rstest]
fn headers_and_gzip(#[values(Grpc, HttpProtobuf, HttpJson)] protocol: Protocol) {
    let collector = Collector::willing(protocol);
    Export::of_a_span()
        .to(collector.url())
        .over(protocol)
        .env("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        .env("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20abc%3D, x-tenant = a ,broken,")
        .run()
        .ended_with(0)
        .in_lines(1)
        .said("OTEL_EXPORTER_OTLP_HEADERS: entry 3 is left out");
    let seen = collector.seen().remove(0);
    assert!(seen.headers.contains(&"authorization: Basic abc=".to_owned()), "{seen:?}");
    assert!(seen.headers.contains(&"x-tenant: a".to_owned()), "{seen:?}");
    let encoding = if protocol == Grpc { "grpc-encoding: gzip" } else { "content-encoding: gzip" };
    assert!(seen.headers.contains(&encoding.to_owned()), "{seen:?}");
}

#[test]
fn without_an_endpoint_the_default_is_told() {
    let unshare = program("unshare", "util-linux");
    let export = || Export::of_a_span().by(&[unshare.to_str().unwrap(), "--net"]);
    let words = "gym-startup: no endpoint is given: sending to the default, http://localhost:4317 \
                 (grpc)\n";
    export().run().failed().in_lines(2).said(words).said("http://localhost:4317/: ");
    let words = "default, http://localhost:4318 (http/json)\n";
    export().over(HttpJson).run().failed().in_lines(2).said(words);
    export().arg("--quiet").run().failed().in_lines(1).never_said("default");
    let (name, url) = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://localhost:4317");
    export().env(name, url).run().failed().in_lines(1).never_said("default");
}

#[rstest]
#[case("1000")]
#[case("1000ms")]
#[case("1s")]
fn a_timeout_has_a_unit_or_is_in_milliseconds(#[case] timeout: &str) {
    let started = Instant::now();
    let url = format!("http://{}", silent());
    let mut export = Command::new(env!("CARGO_BIN_EXE_gym-startup"));
    export.args(["export", "--endpoint", &url, "--timeout", timeout, "-"]).stderr(Stdio::piped());
    let mut child = spawn(export.stdin(Stdio::piped())).unwrap();
    child.stdin.take().unwrap().write_all(METRIC.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert!(stderr.ends_with("no answer within 1000 ms\n"), "{stderr}");
    assert!(started.elapsed() >= Duration::from_secs(1));
}

#[rstest]
#[case(&["--timeout", "0"])]
#[case(&["--timeout", "soon"])]
#[case(&["--timeout", "999999999999999999"])]
#[case(&["--protocol", "http"])]
#[case(&["--endpoint", "ftp://127.0.0.1"])]
#[case(&["--endpoint", "http://"])]
#[case(&["--endpoint", "http://user:pass@127.0.0.1"])]
#[case(&["--nonsense"])]
fn wrong_usage(#[case] args: &[&str]) {
    let mut export = Export::of_a_span();
    for &arg in args {
        export = export.arg(arg);
    }
    export.run().ended_with(2).never_said("pass@");
}

/// A port that some HTTP/2 speaker listens on whose certificate is good, but that is no gRPC.
#[test]
fn tls_without_http2() {
    let authority = Authority::new();
    let mut tls = (*authority.server().config()).clone();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let collector = Collector::https(tls.into(), [HttpAnswer::ok()]);
    let ca = authority.write(&folder("no-http2"));
    Export::of_a_span()
        .to(https(collector.address))
        .over(Grpc)
        .env("OTEL_EXPORTER_OTLP_CERTIFICATE", ca.to_str().unwrap())
        .run()
        .failed()
        .in_lines(1);
}

#[test]
fn grpc_to_an_http_endpoint() {
    let collector = Collector::http([HttpAnswer::ok()]);
    Export::of_a_span().to(collector.url()).over(Grpc).run().failed().in_lines(1);
}

#[test]
fn http_to_a_grpc_endpoint() {
    let collector = Collector::grpc([GrpcAnswer::ok()]);
    Export::of_a_span()
        .to(collector.url())
        .over(HttpProtobuf)
        .run()
        .failed()
        .in_lines(1)
        // Either its own first words arrive, or no more than that it hung up on ours.
        .said("is it an https:// or a grpc endpoint?");
}

#[test]
fn what_follows_a_question_mark_is_not_repeated() {
    Export::of_a_span()
        .to(format!("{}/otlp?key=secret", http(closed())))
        .over(HttpProtobuf)
        .run()
        .failed()
        .said("/otlp/v1/traces?***: ")
        .never_said("secret");
}

/// Words of ours that nobody can read are no reason to fail, nor to crash.
#[test]
fn closed_standard_error() {
    let (_listener, address) = listener();
    let ended = Export::of_a_span()
        .to(http(address))
        .over(HttpProtobuf)
        .within(Duration::from_secs(1))
        .by(&["sh", "-c", "exec \"$0\" \"$@\" 2>&-"])
        .run();
    ended.ended_with(1);
}
