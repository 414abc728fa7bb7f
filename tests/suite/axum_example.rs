//! The example server as a process of its own: variables in, records out.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::LazyLock;

use gym_stamp::contract::{SERVE_NS, SETUP_DONE_NS};
use gym_stamp::server::{NAME_ENV, ServerStartupTimeline, WORKER_ENV};
use gym_stamp::supervisor::SupervisorStartup;
use gym_stamp::timeline::{Clock, SystemClock};

use crate::support::toolbox::succeed;

/// Cargo builds no examples for a single test, so the test has it do so.
static EXAMPLE: LazyLock<PathBuf> = LazyLock::new(|| {
    let messages = succeed(
        Command::new(env!("CARGO"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(["build", "--quiet", "--no-default-features", "--example", "axum_server"])
            .arg("--message-format=json"),
    );
    let (_, rest) = messages.rsplit_once(r#""executable":""#).unwrap();
    PathBuf::from(rest.split_once('"').unwrap().0)
});

/// The running example; it is killed when it goes out of scope.
struct Server {
    child: Child,
    stdout: Option<BufReader<ChildStdout>>,
    address: String,
}

impl Server {
    fn command() -> Command {
        let mut command = Command::new(&*EXAMPLE);
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines
            .map(Result::unwrap)
            .find_map(|line| line.strip_prefix("listening on http://").map(str::to_owned));
        let stdout = child.stdout.take().map(BufReader::new);
        Self { child, stdout, address: address.unwrap() }
    }

    fn answers(&self) -> bool {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.starts_with("HTTP/1.0 200 OK\r\n") && answer.ends_with("\r\n\r\nok\n")
    }

    /// The next `count` lines of standard output, word by word; they come once it serves.
    fn says(&mut self, count: usize) -> Vec<Vec<String>> {
        let lines = self.stdout.as_mut().unwrap().lines().take(count).map(Result::unwrap);
        lines.map(|line| line.split(' ').map(str::to_owned).collect()).collect()
    }

    /// What more it says until it is killed.
    fn last_words(mut self) -> String {
        self.child.kill().unwrap();
        let mut words = String::new();
        self.stdout.take().unwrap().read_to_string(&mut words).unwrap();
        words
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
    let mut supervisor = SupervisorStartup::new();
    supervisor.begin_trace(None);
    let mut command = Server::command();
    command.envs(supervisor.server_env("reward", None)).env(NAME_ENV, "reward");
    let setup_done_ns = SystemClock.now_ns();
    let mut server = Server::spawn(command.env(SETUP_DONE_NS, setup_done_ns.to_string()));
    assert!(server.answers());
    supervisor.server_ready("reward");
    supervisor.finish();

    let spans = supervisor.take_spans();
    let above = spans.iter().find(|span| span.name == "gym.startup.server").unwrap();
    let records = server.says(11);
    let (spans, metrics) = records.split_at(6);
    let names: Vec<_> = spans.iter().map(|span| span[4].as_str()).collect();
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
    assert!(spans.iter().all(|span| span[1] == above.trace_id.to_string()));
    assert_eq!(spans[0][3], above.span_id.to_string());
    assert!(spans[1..].iter().all(|span| span[3] == spans[0][2]));

    let times: Vec<(u64, u64)> =
        spans.iter().map(|span| (span[5].parse().unwrap(), span[6].parse().unwrap())).collect();
    assert_eq!(times[1], (above.start_ns, setup_done_ns));
    assert!(times[1..].windows(2).all(|pair| pair[0].1 == pair[1].0), "{times:?}");
    assert_eq!(times[0], (times[1].0, times[5].1));
    assert!(times[0].1 <= above.end_ns, "it serves before it answers");
    assert!(metrics.iter().all(|sample| sample[0] == "metric"));
    assert!(server.answers());
    assert_eq!(server.last_words(), "", "reported once");
}

#[test]
fn a_worker_tells_of_its_own_start() {
    let mut command = Server::command();
    let main = ServerStartupTimeline::new("reward", None, true);
    command.env(WORKER_ENV, "1").envs(main.announce_serve()).env(SETUP_DONE_NS, "1");
    assert!(command.get_envs().any(|(name, _)| name == SERVE_NS));
    let records = Server::spawn(&mut command).says(2);

    assert_eq!(records[0][4], "gym.server.startup.worker");
    assert_eq!(records[1][4], "gym.server.startup.worker.worker_start");
}

#[test]
fn a_server_serves_though_nobody_takes_its_records() {
    let mut server = Server::spawn(&mut Server::command());
    drop(server.stdout.take());
    assert!(server.answers() && server.answers());

    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    assert!(Server::spawn(Server::command().stdout(full)).answers());
}

#[test]
fn a_server_that_cannot_listen_reports_no_startup() {
    let first = Server::spawn(&mut Server::command());
    let (_, port) = first.address.rsplit_once(':').unwrap();
    let second = Server::command().env("PORT", port).output().unwrap();

    assert_eq!(second.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&second.stdout), "");
}
