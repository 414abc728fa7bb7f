//! One startup is one tree, whoever reports which part of it: Rust here, the OpenTelemetry SDK of
//! Python there, and one real collector.

use std::ffi::OsString;
use std::process::{Child, Command, Stdio};

use gym_stamp::spans::Records;
use gym_stamp::supervisor::SupervisorStartup;
use gym_stamp::telemetry::Protocol::{self, Grpc, HttpJson, HttpProtobuf};
use gym_stamp::telemetry::{Policy, Process, Telemetry};
use rstest::rstest;

use crate::axum_example::EXAMPLE;
use crate::support::rotel::{Printed, Rotel, python, script};
use crate::support::toolbox::{spawn, succeed};

/// The tree beneath the spans that have no parent: names, deeper ones further in, in the order of
/// their start.
fn tree(spans: &[Printed]) -> String {
    fn add(text: &mut String, spans: &[Printed], parent: &str, depth: usize) {
        let mut here: Vec<_> = spans.iter().filter(|span| span.parent == parent).collect();
        here.sort_by_key(|span| span.start.parse::<u64>().unwrap());
        for span in here {
            text.push_str(&format!("{:depth$}{}\n", "", span.name, depth = depth * 2));
            add(text, spans, &span.id, depth + 1);
        }
    }
    let mut text = String::new();
    add(&mut text, spans, "", 0);
    text
}

fn one_trace(spans: &[Printed]) -> bool {
    spans.iter().all(|span| span.trace == spans[0].trace)
}

#[rstest]
fn rust_supervisor_and_python_server(#[values(Grpc, HttpProtobuf, HttpJson)] protocol: Protocol) {
    let rotel = Rotel::start(&format!("python-server-{protocol:?}"));
    let url = rotel.url(protocol);
    let env = |name: &str| -> Option<OsString> {
        match name {
            "NEMO_GYM_OTEL_ENABLED" => Some("1".into()),
            "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(url.clone().into()),
            "OTEL_EXPORTER_OTLP_PROTOCOL" => Some(protocol.as_str().into()),
            _ => None,
        }
    };
    let telemetry =
        Telemetry::from_env(&env, Policy::Library, &Process::supervisor(env!("CARGO_PKG_VERSION")));

    let mut startup = SupervisorStartup::new();
    startup.begin_trace(None);
    startup.mark("load_config");
    // Python's exporters have no JSON.
    let theirs = if protocol == Grpc { "grpc" } else { "http/protobuf" };
    let mut server = Command::new("sh");
    server
        .args(["-c", "export NEMO_GYM_STARTUP_SETUP_DONE_NS=$(date +%s%N); exec \"$0\" \"$1\""])
        .args([python(), script("server.py")])
        .env("NEMO_GYM_CONFIG_PATH", "reward model")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &url)
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", theirs)
        .envs(startup.server_env("reward model", Some("resources_servers")));
    startup.mark("spawn_servers");
    assert_eq!(succeed(&mut server), "ready\n");
    startup.server_ready("reward model");
    startup.mark("wait_for_servers");
    startup.finish();
    let records = Records { spans: startup.take_spans(), metrics: Vec::new() };
    assert_eq!(telemetry.export(&records), Ok(()));

    let spans = rotel.spans(9);
    assert_eq!(
        tree(&spans),
        "gym.startup
  gym.startup.load_config
  gym.startup.spawn_servers
  gym.startup.server
    gym.server.startup
      gym.server.startup.venv_setup
      gym.server.startup.interpreter_start
      gym.server.startup.init_server
  gym.startup.wait_for_servers
"
    );
    assert!(one_trace(&spans));
    let of = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    assert_eq!(of("gym.startup.server").start, of("gym.server.startup").start);
    assert!(of("gym.startup").resource.contains(&"service.name: Str(nemo-gym/supervisor)".into()));
    let theirs = &of("gym.server.startup").resource;
    assert!(theirs.contains(&"service.name: Str(nemo-gym/reward model)".into()));
}

/// A child that is killed when it goes out of scope.
struct Supervisor(Child);

impl Drop for Supervisor {
    fn drop(&mut self) {
        // The end of its input: it takes its server with it.
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

#[rstest]
fn python_supervisor_and_rust_server(#[values(Grpc, HttpProtobuf)] protocol: Protocol) {
    let rotel = Rotel::start(&format!("rust-server-{protocol:?}"));
    let mut supervisor = Command::new(python());
    supervisor
        .arg(script("supervisor.py"))
        .arg(&*EXAMPLE)
        .env("NEMO_GYM_OTEL_ENABLED", "1")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", rotel.url(protocol))
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol.as_str())
        .stdin(Stdio::piped());
    let _supervisor = Supervisor(spawn(&mut supervisor).unwrap());

    let spans = rotel.spans(8);
    assert_eq!(
        tree(&spans),
        "gym.startup
  gym.startup.server
    gym.server.startup
      gym.server.startup.venv_setup
      gym.server.startup.interpreter_start
      gym.server.startup.load_config
      gym.server.startup.configure_app
      gym.server.startup.uvicorn_startup
"
    );
    assert!(one_trace(&spans));
    let server = spans.iter().find(|span| span.name == "gym.server.startup").unwrap();
    assert!(server.resource.contains(&"service.name: Str(nemo-gym/reward)".into()));
    assert!(server.attributes.contains(&"nemo.gym.server.worker: Bool(false)".into()));
    rotel.printed("gym.server.startup_stage_duration_ms");
}
