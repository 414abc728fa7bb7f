//! The example server as a process of its own: variables in, OTLP out.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use gym_stamp::contract::{SERVE_NS, SETUP_DONE_NS};
use gym_stamp::server::{NAME_ENV, ServerStartupTimeline, WORKER_ENV};
use gym_stamp::supervisor::SupervisorStartup;
use gym_stamp::telemetry::{Request, json};
use gym_stamp::timeline::{Clock, SystemClock};
use opentelemetry_proto::tonic::trace::v1::Span;

use crate::support::toolbox::succeed;

/// Cargo builds no examples for a single test, so the test has it do so.
static EXAMPLE: LazyLock<PathBuf> = LazyLock::new(|| {
    let messages =
        succeed(Command::new(env!("CARGO")).current_dir(env!("CARGO_MANIFEST_DIR")).args([
            "build",
            "--quiet",
            "--example",
            "axum_server",
            "--message-format=json",
        ]));
    let (_, rest) = messages.rsplit_once(r#""executable":""#).unwrap();
    PathBuf::from(rest.split_once('"').unwrap().0)
});

/// A collector for OTLP over HTTP/JSON that accepts everything.
struct Collector {
    endpoint: String,
    requests: Receiver<Request>,
}

impl Collector {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (sender, requests) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                while let Some(body) = next_body(&mut stream) {
                    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
                    stream.get_mut().write_all(answer.as_bytes()).unwrap();
                    for request in json::read_line(&body).unwrap() {
                        let _ = sender.send(request);
                    }
                }
            }
        });
        Self { endpoint, requests }
    }

    /// The spans and the metrics of one report, in whichever order they come.
    fn report(&self) -> (Vec<Span>, Vec<Request>) {
        let minute = Duration::from_secs(60);
        let requests = [(); 2].map(|()| self.requests.recv_timeout(minute).unwrap());
        let (traces, metrics): (Vec<_>, Vec<_>) =
            requests.into_iter().partition(|request| matches!(request, Request::Traces(_)));
        let spans = traces.into_iter().flat_map(|request| match request {
            Request::Traces(traces) => traces.resource_spans,
            Request::Metrics(_) => Vec::new(),
        });
        let spans = spans.flat_map(|resource| resource.scope_spans);
        (spans.flat_map(|scope| scope.spans).collect(), metrics)
    }
}

fn next_body(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        let line = line.trim().to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    Some(body)
}

/// The running example; it is killed when it goes out of scope.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn command(collector: &Collector) -> Command {
        let mut command = Command::new(&*EXAMPLE);
        command
            .env_clear()
            .env("NEMO_GYM_OTEL_ENABLED", "1")
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines
            .map(Result::unwrap)
            .find_map(|line| line.strip_prefix("listening on http://").map(str::to_owned));
        Self { child, address: address.unwrap() }
    }

    fn answers(&self) -> bool {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.starts_with("HTTP/1.0 200 OK\r\n") && answer.ends_with("\r\n\r\nok\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_supervisor_and_its_server_tell_one_startup() {
    let collector = Collector::new();
    let mut supervisor = SupervisorStartup::new();
    supervisor.begin_trace(None);
    let mut command = Server::command(&collector);
    command.envs(supervisor.server_env("reward", None)).env(NAME_ENV, "reward");
    let setup_done_ns = SystemClock.now_ns();
    let server = Server::spawn(command.env(SETUP_DONE_NS, setup_done_ns.to_string()));
    assert!(server.answers());
    supervisor.server_ready("reward");
    supervisor.finish();

    let above = supervisor.take_spans();
    let above = above.iter().find(|span| span.name == "gym.startup.server").unwrap();
    let (spans, metrics) = collector.report();
    let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "gym.server.startup",
            "gym.server.startup.venv_setup",
            "gym.server.startup.interpreter_start",
            "gym.server.startup.load_config",
            "gym.server.startup.configure_app",
            "gym.server.startup.uvicorn_startup",
        ]
    );
    let (root, stages) = spans.split_first().unwrap();
    assert!(spans.iter().all(|span| span.trace_id == above.trace_id.to_bytes()));
    assert_eq!(root.parent_span_id, above.span_id.to_bytes());
    assert!(stages.iter().all(|stage| stage.parent_span_id == root.span_id));

    let times = |span: &Span| (span.start_time_unix_nano, span.end_time_unix_nano);
    assert_eq!(times(&stages[0]), (above.start_ns, setup_done_ns));
    assert!(stages.windows(2).all(|pair| times(&pair[0]).1 == times(&pair[1]).0));
    assert_eq!(times(root), (times(&stages[0]).0, times(&stages[4]).1));
    assert!(times(root).1 <= above.end_ns, "it serves before it answers");
    assert_eq!(metrics.len(), 1);

    assert!(server.answers());
    assert!(collector.requests.try_recv().is_err(), "reported once");
}

#[test]
fn a_worker_tells_of_its_own_start() {
    let collector = Collector::new();
    let main = ServerStartupTimeline::new("reward", None, true);
    let mut command = Server::command(&collector);
    command.env(WORKER_ENV, "1").envs(main.announce_serve()).env(SETUP_DONE_NS, "1");
    assert!(command.get_envs().any(|(name, _)| name == SERVE_NS));
    let _server = Server::spawn(&mut command);

    let (spans, _) = collector.report();
    assert_eq!(spans[0].name, "gym.server.startup.worker");
    assert_eq!(spans[1].name, "gym.server.startup.worker.worker_start");
}

#[test]
fn with_telemetry_off_a_server_serves_and_tells_nothing() {
    let collector = Collector::new();
    let server = Server::spawn(Server::command(&collector).env_remove("NEMO_GYM_OTEL_ENABLED"));

    assert!(server.answers());
    assert!(collector.requests.recv_timeout(Duration::from_millis(300)).is_err());
}

#[test]
fn a_server_serves_though_its_records_go_nowhere() {
    let collector = Collector::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    for endpoint in ["http://127.0.0.1:1", "http://[::", &silent] {
        let mut command = Server::command(&collector);
        // Its words about it are lost as well: the reader of standard error goes away.
        let server = Server::spawn(command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint));
        assert!(server.answers() && server.answers(), "{endpoint}");
    }

    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = Server::command(&collector);
    let server = Server::spawn(command.env("NEMO_GYM_OTEL_EXPORTER", "console").stdout(full));
    assert!(server.answers() && server.answers());
}

#[test]
fn a_server_that_cannot_listen_reports_no_startup() {
    let collector = Collector::new();
    let first = Server::spawn(&mut Server::command(&collector));
    collector.report();
    let (_, port) = first.address.rsplit_once(':').unwrap();
    let second = Server::command(&collector).env("PORT", port).output().unwrap();

    assert_eq!(second.status.code(), Some(1));
    assert!(collector.requests.recv_timeout(Duration::from_millis(300)).is_err());
}
