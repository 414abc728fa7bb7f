//! The example server as a process of its own: variables in, OTLP out.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use gym_stamp::contract::{SERVE_NS, SETUP_DONE_NS};
use gym_stamp::server::{NAME_ENV, ServerStartupTimeline, WORKER_ENV};
use gym_stamp::supervisor::SupervisorStartup;
use gym_stamp::telemetry::{Protocol, Request};
use gym_stamp::timeline::{Clock, SystemClock};
use opentelemetry_proto::tonic::trace::v1::Span;

use crate::support::collector::Collector;
use crate::support::toolbox::{spawn, succeed};

/// Cargo builds no examples for a single test, so the test has it do so.
pub static EXAMPLE: LazyLock<PathBuf> = LazyLock::new(|| {
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

/// The spans of the one report that comes to `collector`, and how many requests carry metrics.
fn report(collector: &Collector) -> (Vec<Span>, usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while collector.seen().len() < 2 {
        assert!(Instant::now() < deadline, "{:?}", collector.seen());
        thread::sleep(Duration::from_millis(5));
    }
    let mut spans = Vec::new();
    let mut metrics = 0;
    for seen in collector.seen() {
        match seen.request {
            Request::Traces(traces) => spans.extend(
                traces
                    .resource_spans
                    .into_iter()
                    .flat_map(|resource| resource.scope_spans)
                    .flat_map(|scope| scope.spans),
            ),
            Request::Metrics(_) => metrics += 1,
        }
    }
    (spans, metrics)
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
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = spawn(command).unwrap();
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
    let collector = Collector::willing(Protocol::HttpJson);
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
    let (spans, metrics) = report(&collector);
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
    assert_eq!(metrics, 1);

    assert!(server.answers());
    assert_eq!(collector.seen().len(), 2, "reported once");
}

#[test]
fn a_worker_tells_of_its_own_start() {
    let collector = Collector::willing(Protocol::HttpJson);
    let main = ServerStartupTimeline::new("reward", None, true);
    let mut command = Server::command(&collector);
    command.env(WORKER_ENV, "1").envs(main.announce_serve()).env(SETUP_DONE_NS, "1");
    assert!(command.get_envs().any(|(name, _)| name == SERVE_NS));
    let _server = Server::spawn(&mut command);

    let (spans, _) = report(&collector);
    assert_eq!(spans[0].name, "gym.server.startup.worker");
    assert_eq!(spans[1].name, "gym.server.startup.worker.worker_start");
}

#[test]
fn with_telemetry_off_a_server_serves_and_tells_nothing() {
    let collector = Collector::willing(Protocol::HttpJson);
    let server = Server::spawn(Server::command(&collector).env_remove("NEMO_GYM_OTEL_ENABLED"));

    assert!(server.answers());
    thread::sleep(Duration::from_millis(300));
    assert_eq!(collector.seen().len(), 0);
}

#[test]
fn a_server_serves_though_its_records_go_nowhere() {
    let collector = Collector::willing(Protocol::HttpJson);
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
fn a_console_is_a_line_for_each_span() {
    let collector = Collector::willing(Protocol::HttpJson);
    let mut command = Server::command(&collector);
    command.env("NEMO_GYM_OTEL_EXPORTER", "console").stdout(Stdio::piped());
    let mut server = Server::spawn(&mut command);
    let lines = BufReader::new(server.child.stdout.take().unwrap()).lines();
    let (told, first) = mpsc::channel();
    thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| told.send(line)));
    let first = first.recv_timeout(Duration::from_secs(60)).expect("a line");
    assert!(first.starts_with("span gym.server.startup "), "{first}");
    assert_eq!(collector.seen().len(), 0);
}

#[test]
fn a_server_that_cannot_listen_reports_no_startup() {
    let collector = Collector::willing(Protocol::HttpJson);
    let first = Server::spawn(&mut Server::command(&collector));
    report(&collector);
    let (_, port) = first.address.rsplit_once(':').unwrap();
    let second = spawn(Server::command(&collector).env("PORT", port));
    let second = second.and_then(Child::wait_with_output).unwrap();

    assert_eq!(second.status.code(), Some(1));
    thread::sleep(Duration::from_millis(300));
    assert_eq!(collector.seen().len(), 2, "the first server's");
}
