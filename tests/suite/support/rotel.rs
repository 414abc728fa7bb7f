//! A real collector, rotel, that prints what it receives; and a real OpenTelemetry SDK.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use gym_stamp::telemetry::Protocol;

use super::collector::closed;
use super::export::folder;
use super::toolbox::{python_venv, spawn};

/// Everything on a loaded machine is done by then.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running rotel; it is killed when it goes out of scope.
pub struct Rotel {
    agent: Child,
    grpc: SocketAddr,
    http: SocketAddr,
    printed: PathBuf,
}

/// A span as rotel prints it: ids in hex, times in ns, attributes as `key: Type(value)`.
#[derive(Clone, Debug, Default)]
pub struct Printed {
    pub trace: String,
    pub id: String,
    pub parent: String,
    pub name: String,
    pub start: String,
    pub end: String,
    pub status: String,
    pub attributes: Vec<String>,
    pub resource: Vec<String>,
}

impl Rotel {
    pub fn start(test: &str) -> Self {
        let venv = python_venv("rotel", &["rotel==0.0.1a15", "typing_extensions==4.16.0"]);
        let mut command = Command::new("sh");
        // The agent is no console script of its wheel.
        command.args(["-c", "exec \"$0\"/lib/python3*/site-packages/rotel/rotel-agent \"$@\""]);
        command.arg(venv);
        let printed = folder(test).join("printed");
        let errors = printed.with_extension("errors");
        let (grpc, http) = (closed(), closed());
        command
            .args(["start", "--exporter", "blackhole", "--debug-log-verbosity", "detailed"])
            .args(["--debug-log", "traces", "--debug-log", "metrics"])
            .args(["--otlp-grpc-endpoint", &grpc.to_string()])
            .args(["--otlp-http-endpoint", &http.to_string()])
            .stdin(Stdio::null())
            .stdout(File::create(&printed).unwrap())
            .stderr(File::create(&errors).unwrap());
        let mut rotel = Self { agent: spawn(&mut command).unwrap(), grpc, http, printed };
        assert!(rotel.is_up(), "{}", fs::read_to_string(errors).unwrap());
        rotel
    }

    pub fn url(&self, protocol: Protocol) -> String {
        match protocol {
            Protocol::Grpc => format!("http://{}", self.grpc),
            _ => format!("http://{}", self.http),
        }
    }

    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// Waits for `count` spans; more are as wrong as less.
    #[track_caller]
    pub fn spans(&self, count: usize) -> Vec<Printed> {
        self.wait(&format!("{count} spans"), |text| {
            Some(parse(text)).filter(|spans| spans.len() >= count)
        })
    }

    /// Waits for `words` among what is printed.
    #[track_caller]
    pub fn printed(&self, words: &str) {
        self.wait(words, |text| text.contains(words).then_some(()));
    }

    #[track_caller]
    fn wait<T>(&self, what: &str, mut found: impl FnMut(&str) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = fs::read_to_string(&self.printed).unwrap();
            // What is not printed to its end yet is not read.
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            if let Some(found) = found(whole) {
                return found;
            }
            assert!(Instant::now() < deadline, "expected {what} in:\n{text}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_up(&mut self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if self.agent.try_wait().unwrap().is_some() {
                return false;
            }
            if [self.grpc, self.http].iter().all(|port| TcpStream::connect(port).is_ok()) {
                return true;
            }
            thread::sleep(Duration::from_millis(20));
        }
        false
    }
}

impl Drop for Rotel {
    fn drop(&mut self) {
        self.agent.kill().unwrap_or_default();
        self.agent.wait().ok();
    }
}

fn parse(text: &str) -> Vec<Printed> {
    let mut spans: Vec<Printed> = Vec::new();
    let mut resource = Vec::new();
    let mut in_resource = false;
    for line in text.lines() {
        if line == "Resource attributes:" {
            (resource, in_resource) = (Vec::new(), true);
        } else if line.starts_with("Span #") {
            in_resource = false;
            spans.push(Printed { resource: resource.clone(), ..Printed::default() });
        } else if let Some(attribute) = line.trim().strip_prefix("-> ") {
            match spans.last_mut() {
                _ if in_resource => resource.push(attribute.to_owned()),
                Some(span) => span.attributes.push(attribute.to_owned()),
                None => {}
            }
        } else if let (Some(span), Some((field, value))) = (spans.last_mut(), line.split_once(':'))
        {
            let value = value.trim().to_owned();
            match field.trim() {
                "Trace ID" => span.trace = value,
                "Parent ID" => span.parent = value,
                "ID" => span.id = value,
                "Name" => span.name = value,
                "Start time" => span.start = value,
                "End time" => span.end = value,
                "Status code" => span.status = value,
                _ => {}
            }
        }
    }
    spans
}

/// `python`, with the OpenTelemetry SDK and its OTLP exporters.
pub fn python() -> PathBuf {
    let requirements = [
        "certifi==2026.10.19.post1",
        "charset-normalizer==3.5.3",
        "googleapis-common-protos==1.76.0",
        "grpcio==1.85.3",
        "idna==3.20",
        "opentelemetry-api==1.45.2",
        "opentelemetry-exporter-http-transport==0.66b2",
        "opentelemetry-exporter-otlp==1.45.2",
        "opentelemetry-exporter-otlp-common==0.66b2",
        "opentelemetry-exporter-otlp-proto-common==1.45.2",
        "opentelemetry-exporter-otlp-proto-grpc==1.45.2",
        "opentelemetry-exporter-otlp-proto-http==1.45.2",
        "opentelemetry-proto==1.45.2",
        "opentelemetry-sdk==1.45.2",
        "opentelemetry-semantic-conventions==0.66b2",
        "protobuf==7.36.2",
        "requests==2.34.2",
        "typing_extensions==4.16.0",
        "urllib3==2.8.0",
    ];
    python_venv("opentelemetry", &requirements).join("bin/python")
}

/// A script of the tests.
pub fn script(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/suite/python", name].iter().collect()
}
