//! `gym-startup watch` on servers that something else launches.

use std::fs;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use gym_stamp::telemetry::Protocol;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use opentelemetry_proto::tonic::common::v1::any_value::Value;

use crate::example::{DEADLINE, Dockerfile, Example, Server};
use crate::ps::environment;
use crate::support::collector::closed;
use crate::support::rotel::Rotel;
use crate::support::startup::{SERVE, Trace, attribute};
use crate::support::toolbox::{free_port, program};
use crate::support::{Build, Ended, Run, Running, command, now_ns};

const SPAWN: &str = "NEMO_GYM_STARTUP_SPAWN_NS";
const SETUP_DONE: &str = "NEMO_GYM_STARTUP_SETUP_DONE_NS";
const TRACEPARENT: &str = "NEMO_GYM_STARTUP_TRACEPARENT";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}/")
}

fn watch(ready: &str) -> Run {
    let run = command(env!("CARGO_BIN_EXE_gym-startup")).args(["watch", "--ready", ready]);
    run.args(["--out", "out.jsonl"]).deadline(DEADLINE)
}

/// `serve.py` on `port`, with more of its options, in a launch of `setup`, a shell's line.
fn launch(port: u16, setup: &str, options: &str) -> Run {
    let gym_stamp = Build::Freestanding.binary().display();
    let line = format!("{setup}; exec {gym_stamp} python3 -S serve.py port={port} {options}");
    command("/bin/bash")
        .file("serve.py", 0o644, SERVE)
        .file("launch.sh", 0o755, line)
        .args(["launch.sh"])
        .entry(format!("{SPAWN}={}", now_ns()))
}

/// The setup of a launch that goes on until it is [`let_go`].
const GATE: &str = "until [ -e go ]; do sleep 0.01; done";

fn let_go(launch: &Running) {
    fs::write(launch.folder().join("go"), "").unwrap();
}

/// Watches `server`, which waits to be let go, until it is ready.
fn watched_from_setup(server: &Running, watch: Run) -> Ended {
    let mut watching = watch.args(["--pid", &server.pid().to_string()]).spawn();
    watching.until_it_says(WAITS);
    let_go(server);
    watching.wait().exits(0)
}

/// Whether the process `pid`, a child of the test, has ended.
fn is_over(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") Z ")
}

#[track_caller]
fn trace(ended: &Ended) -> Trace {
    let out = ended.folder().join("out.jsonl");
    assert!(out.exists(), "{ended}");
    Trace::read(&out)
}

fn pid(span: &opentelemetry_proto::tonic::trace::v1::Span) -> i64 {
    let pid = span.attributes.iter().find(|it| it.key == "process.pid").unwrap();
    let Some(Value::IntValue(pid)) = pid.value.as_ref().unwrap().value else { panic!("{pid:?}") };
    pid
}

/// What it says when it has asked, and nobody was there.
const WAITS: &str = "waiting until somebody answers at ";

/// The record is what the environment of the process `server` holds, and ends with the first answer.
#[track_caller]
fn tells_of(ended: &Ended, server: i32, name: &str) {
    let trace = trace(ended);
    let holds = environment(server);
    let root = trace.only("gym.server.startup");
    let setup = trace.only("gym.server.startup.venv_setup");
    let start = trace.only("gym.server.startup.server_start");
    assert_eq!(trace.spans.len(), 3, "{:#?}", trace.spans);
    assert_eq!(setup.start_time_unix_nano.to_string(), holds[SPAWN], "{ended}");
    assert_eq!(setup.end_time_unix_nano.to_string(), holds[SETUP_DONE], "{ended}");
    assert_eq!(start.start_time_unix_nano, setup.end_time_unix_nano);
    assert_eq!(root.start_time_unix_nano, setup.start_time_unix_nano);
    assert_eq!(root.end_time_unix_nano, start.end_time_unix_nano);
    assert!(root.end_time_unix_nano < ended.ended_ns, "{ended}");
    assert_eq!(pid(root), i64::from(server));
    assert_eq!(attribute(root, "nemo.gym.server.name"), name);
    for words in ["├─ venv_setup", "└─ server_start", "is ready, "] {
        assert!(ended.stderr_text().contains(words), "no '{words}'\n{ended}");
    }
}

/// Watches the example from before its launch until it is ready.
fn watched(example: Example, args: &[&str]) -> (Ended, Server) {
    let mut watching =
        watch(&url(example.port)).args(args.iter().copied()).var("LANG", "C.UTF-8").spawn();
    watching.until_it_says(WAITS);
    let server = example.start();
    (watching.wait().exits(0), server.answers())
}

#[test]
fn a_server_under_its_launch_script() {
    let example = Example::launched_by("./launch.sh").with_venv();
    let example = example.entry(format!("{SPAWN}={}", now_ns()));
    let (ended, server) = watched(example, &[]);
    tells_of(&ended, server.pid(), "uvicorn");
}

#[test]
fn a_uvicorn_with_workers_is_its_main_process() {
    let example = Example::launched_by("./launch.sh").with_venv().args(["--workers", "2"]);
    let example = example.entry(format!("{SPAWN}={}", now_ns()));
    let example = example.entry("NEMO_GYM_CONFIG_PATH=policy_model");
    let (ended, server) = watched(example, &["--type", "responses_api_models"]);
    tells_of(&ended, server.running.pid(), "policy_model");
    let root = trace(&ended).only("gym.server.startup").clone();
    assert_eq!(attribute(&root, "nemo.gym.server.type"), "responses_api_models");
}

#[test]
fn process_1_of_a_container_from_outside() {
    let dockerfile = Dockerfile::read();
    let example = Example::launched_by(program("unshare", "util-linux")).with_venv();
    let command = dockerfile.command_on(example.port);
    // The container is there for a while before its server is spawned.
    let example = example.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
    let example = example.args(["sh", "-c", "sleep 0.3; exec \"$@\"", "sh"]);
    let (ended, server) = watched(example.args(&dockerfile.entrypoint).args(&command), &[]);
    tells_of(&ended, server.pid(), "uvicorn");
    let note = "gym-startup: its container is ";
    assert!(ended.stderr_text().contains(note), "no '{note}'\n{ended}");
    assert!(
        ended.stderr_text().contains(" older than its spawn stamp: that time is not counted\n"),
        "{ended}"
    );
}

/// Nobody stamps its spawn before its launch has gone on for a while.
#[test]
fn a_process_that_is_older_than_its_spawn_stamp_says_so() {
    let port = free_port();
    let gym_stamp = Build::Freestanding.binary().display();
    let line =
        format!("{GATE}; exec {gym_stamp} --spawn {gym_stamp} python3 -S serve.py port={port}");
    let server = command("/bin/bash").file("serve.py", 0o644, SERVE).args(["-c", &line]).spawn();
    std::thread::sleep(Duration::from_millis(100));
    let watch = watch(&url(port)).var("LANG", "C.UTF-8");
    let ended = watched_from_setup(&server, watch);
    let said = ended.stderr_text();
    let note = said.lines().find_map(|line| line.strip_prefix("gym-startup: its process is "));
    let older = note
        .and_then(|it| it.strip_suffix(" older than its spawn stamp: that time is not counted"));
    assert!(older.is_some(), "{ended}");
    tells_of(&ended, server.pid(), "serve.py");
}

#[test]
fn process_1_of_a_container_from_within_it() {
    let dockerfile = Dockerfile::read();
    let example = Example::launched_by(program("unshare", "util-linux")).with_venv();
    let command = dockerfile.command_on(example.port);
    let watch = format!(
        "{} watch --pid 1 --ready {} --out out.jsonl 2>watch.log; echo $? >status",
        env!("CARGO_BIN_EXE_gym-startup"),
        url(example.port)
    );
    let folder = example.run.folder().to_owned();
    let example = example.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
    let asked = format!("until grep -qs '{WAITS}' watch.log; do sleep 0.01; done");
    let example = example.args(["sh", "-c", &format!("({watch}) & {asked}; exec \"$@\""), "sh"]);
    let server = example.args(&dockerfile.entrypoint).args(&command).start().answers();
    server.running.wait_until(|| folder.join("status").exists());
    let log = fs::read_to_string(folder.join("watch.log")).unwrap();
    server.running.wait_until(|| fs::read_to_string(folder.join("status")).unwrap() == "0\n");
    let trace = Trace::read(&folder.join("out.jsonl"));
    let setup = trace.only("gym.server.startup.venv_setup");
    assert_eq!(setup.start_time_unix_nano, server.stamp(SPAWN), "{log}");
    assert_eq!(setup.end_time_unix_nano, server.stamp(SETUP_DONE), "{log}");
    assert_eq!(pid(setup), 1);
    assert!(log.contains("uvicorn (process 1) is ready, "), "{log}");
}

#[test]
fn a_real_collector_gets_it_under_the_span_that_the_server_was_given() {
    for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
        let rotel = Rotel::start(&format!("watch-{protocol:?}"));
        let port = free_port();
        let server = launch(port, GATE, "").entry(format!("{TRACEPARENT}={PARENT}"));
        let server = server.entry("NEMO_GYM_CONFIG_PATH=judge").spawn();
        let watch = watch(&url(port)).args(["--type", "judges"]);
        let watch = watch.var("OTEL_EXPORTER_OTLP_ENDPOINT", rotel.url(protocol));
        let watch = watch.var("OTEL_EXPORTER_OTLP_PROTOCOL", protocol.as_str());
        let ended = watched_from_setup(&server, watch);
        let spans = rotel.spans(3);
        let root = spans.iter().find(|span| span.name == "gym.server.startup").unwrap();
        assert_eq!(root.trace, "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(root.parent, "b7ad6b7169203331");
        let holds = environment(server.pid());
        for (name, start) in [("venv_setup", SPAWN), ("server_start", SETUP_DONE)] {
            let name = format!("gym.server.startup.{name}");
            let stage = spans.iter().find(|span| span.name == name).unwrap();
            assert_eq!(stage.parent, root.id);
            assert_eq!(stage.start, holds[start], "{ended}");
        }
        let resource = root.resource.join("\n");
        for words in ["service.name: Str(nemo-gym/judge)", "nemo.gym.server.type: Str(judges)"] {
            assert!(resource.contains(words), "no '{words}' in\n{resource}");
        }
        assert!(resource.contains(&format!("process.pid: Int({})", server.pid())), "{resource}");
        assert!(!resource.contains("service.version"), "{resource}");
    }
}

#[test]
fn a_collector_that_is_not_there_is_a_line_and_no_more() {
    let port = free_port();
    let server = launch(port, GATE, "").spawn();
    let watch = watch(&url(port))
        .var("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", closed()))
        .var("OTEL_EXPORTER_OTLP_TIMEOUT", "500");
    let ended = watched_from_setup(&server, watch);
    assert!(ended.stderr_text().contains("3 spans not accepted: "), "{ended}");
    trace(&ended).only("gym.server.startup.server_start");
}

#[test]
fn a_bad_traceparent_is_warned_of_and_a_trace_of_its_own_begun() {
    let port = free_port();
    let server = launch(port, GATE, "").entry(format!("{TRACEPARENT}=00-0-0-00")).spawn();
    let ended = watched_from_setup(&server, watch(&url(port)));
    let words = format!("serve.py (process {}): its {TRACEPARENT} is ignored: not a", server.pid());
    assert!(ended.stderr_text().contains(&words), "{ended}");
    assert_eq!(trace(&ended).only("gym.server.startup").parent_span_id, b"");
}

#[test]
fn one_that_was_ready_before_has_no_time_of_it() {
    let port = free_port();
    let server = launch(port, "sleep 0.1", "").entry(format!("{TRACEPARENT}={PARENT}")).spawn();
    let address = ("127.0.0.1", port);
    server.wait_until(|| TcpStream::connect(address).is_ok());
    for args in [vec![], vec!["--pid".to_owned(), server.pid().to_string()]] {
        let words = format!(
            "gym-startup: serve.py (process {}) was ready when it was first asked: since when is \
             not known\n",
            server.pid()
        );
        // On a busy machine it may answer so late that it seems to have become ready then.
        let deadline = Instant::now() + DEADLINE;
        let ended = loop {
            let ended = watch(&url(port)).args(&args).run().exits(0);
            if ended.stderr_text().contains(&words) {
                break ended;
            }
            assert!(Instant::now() < deadline, "no '{words}'\n{ended}");
        };
        // Its setup is all: no span has the startup end with it.
        let trace = trace(&ended);
        let setup = trace.only("gym.server.startup.venv_setup");
        assert_eq!(trace.spans.len(), 1, "{ended}");
        assert_eq!(setup.parent_span_id, 0xb7ad_6b71_6920_3331_u64.to_be_bytes());
        assert_eq!(setup.end_time_unix_nano.to_string(), environment(server.pid())[SETUP_DONE]);
        let shown = command(env!("CARGO_BIN_EXE_gym-startup"));
        let shown = shown.arg("show").arg(ended.folder().join("out.jsonl")).run().exits(0);
        assert!(shown.stdout_text().contains(", outcome unknown, 1 server"), "{shown}");
        let words = "gym-startup: only stages are recorded, and no span of a whole startup: how \
                     it ended, and when, is not known\n";
        assert!(shown.stderr_text().contains(words), "{shown}");
    }
}

#[test]
fn one_that_answers_503_first_is_not_ready() {
    let port = free_port();
    let mut watching = watch(&url(port)).spawn();
    watching.until_it_says(WAITS);
    let server = launch(port, "true", "until=go").spawn();
    watching.until_it_says(": answers 503; not ready yet\n");
    let before_ns = now_ns();
    let_go(&server);
    let ended = watching.wait().exits(0);
    let start = trace(&ended).only("gym.server.startup.server_start").clone();
    assert!(start.end_time_unix_nano > before_ns, "{start:?}");
}

#[test]
fn one_that_ends_first_is_recorded_as_far_as_it_came() {
    for (in_setup, how, stages) in [
        (true, "exited with status 3", &["unfinished"][..]),
        (false, "was ended by SIGKILL", &["venv_setup", "unfinished"]),
    ] {
        let port = free_port();
        let setup = if in_setup { format!("{GATE}; exit 3") } else { "true".to_owned() };
        let server = launch(port, &setup, "after=1000").spawn();
        let mut watching = watch(&url(port)).args(["--pid", &server.pid().to_string()]).spawn();
        watching.until_it_says(if in_setup { "is being set up\n" } else { "was set up in " });
        // Its parent, which is the test, has not waited for it: how it ended is seen.
        match in_setup {
            true => let_go(&server),
            false => server.signal(Signal::SIGKILL),
        }
        let ended = watching.wait().exits(1);
        let words = format!("(process {}) {how} before it was ready\n", server.pid());
        assert!(ended.stderr_text().contains(&words), "no '{words}'\n{ended}");
        let trace = trace(&ended);
        let root = trace.only("gym.server.startup");
        let told: Vec<_> = trace
            .children(root)
            .iter()
            .map(|it| attribute(it, "nemo.gym.startup.stage").to_owned())
            .collect();
        assert_eq!(told, stages, "{ended}");
        let failed = [root, trace.only("gym.server.startup.unfinished")];
        for span in failed {
            let status = span.status.as_ref().unwrap();
            assert_eq!(status.code, 2, "{span:?}");
            assert!(status.message.contains(how), "{span:?}");
        }
    }
}

/// What a launch script has started beside the server has the stamp of its spawn too.
#[test]
fn what_runs_on_beside_a_server_that_has_ended_is_not_the_server() {
    for shell_waits in [false, true] {
        let port = free_port();
        let gym_stamp = Build::Freestanding.binary().display();
        let server =
            format!("{gym_stamp} /bin/sh -c 'until [ -e go ]; do sleep 0.01; done; exit 7'");
        let line = match shell_waits {
            false => format!("sleep 1000 >/dev/null 2>&1 & exec {server}"),
            true => format!("sleep 1000 >/dev/null 2>&1 & {server}; exit $?"),
        };
        let server =
            command("/bin/bash").args(["-c", &line]).entry(format!("{SPAWN}={}", now_ns()));
        let server = server.spawn();
        let watching = watch(&url(port)).args(["--pid", &server.pid().to_string()]);
        let mut watching = watching.args(["--timeout", "60"]).spawn();
        watching.until_it_says("was set up in ");
        let_go(&server);
        let ended = watching.wait().exits(1);
        let text = ended.stderr_text();
        assert!(text.contains(" before it was ready"), "{ended}");
        assert!(shell_waits || text.contains(" exited with status 7 before"), "{ended}");
        trace(&ended).only("gym.server.startup.venv_setup");
        trace(&ended).only("gym.server.startup.unfinished");
    }
}

#[test]
fn a_server_that_leaves_its_launch_is_followed() {
    let port = free_port();
    let gym_stamp = Build::Freestanding.binary().display();
    let line = format!(
        "setsid {gym_stamp} python3 -S serve.py port={port} when=listen >/dev/null 2>&1 & \
         until [ -e go ]; do sleep 0.01; done"
    );
    let launch = command("/bin/bash").file("serve.py", 0o644, SERVE).args(["-c", &line]);
    let launch = launch.entry(format!("{SPAWN}={}", now_ns())).spawn();
    let mut watching = watch(&url(port)).args(["--pid", &launch.pid().to_string()]).spawn();
    for words in ["was set up in ", WAITS] {
        watching.until_it_says(words);
    }
    let_go(&launch);
    launch.wait_until(|| is_over(launch.pid()));
    fs::write(launch.folder().join("listen"), "").unwrap();
    let ended = watching.wait().exits(0);
    let trace = trace(&ended);
    trace.only("gym.server.startup.server_start");
    kill(Pid::from_raw(pid(trace.only("gym.server.startup")) as i32), Signal::SIGKILL).unwrap();
}

/// A server that takes connections at once, and that takes, once it is [`let_go`], so many seconds for
/// each of its first `slow` answers.
fn slow(port: u16, slow: u32, seconds: f32) -> Running {
    let script = format!(
        "import os, socket, time\n\
         listener = socket.create_server(('127.0.0.1', {port}))\n\
         slow = {slow}\n\
         while True:\n    \
         connection, _ = listener.accept()\n    \
         if connection.recv(65536) and slow:\n        \
         slow -= 1\n        \
         while not os.path.exists('go'): time.sleep(0.01)\n        \
         time.sleep({seconds})\n    \
         try: connection.sendall(b'HTTP/1.1 200 x\\r\\nContent-Length: 0\\r\\n\\r\\n')\n    \
         except OSError: pass\n    \
         connection.close()\n"
    );
    let gym_stamp = Build::Freestanding.binary().to_str().unwrap();
    let server = command(gym_stamp).args(["python3", "-S", "-c", &script]);
    let server = server.entry(format!("{SPAWN}={}", now_ns())).spawn();
    server.wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok());
    server
}

/// Its socket is there before it is, as under systemd or a server that loads its application first.
#[test]
fn one_that_takes_connections_before_it_answers() {
    let port = free_port();
    let server = slow(port, 2, 2.0);
    let args = ["--pid", &server.pid().to_string()];
    let ended = watch(&url(port)).args(args).args(["--timeout", "4"]).run().exits(124);
    let words = " within 4.00 s: takes connections and does not answer\n";
    assert!(ended.stderr_text().contains(words), "{ended}");

    // It answers when it is let go, and then late.
    let_go(&server);
    let ended = watch(&url(port)).args(args).run().exits(0);
    assert!(ended.stderr_text().contains(" is ready, "), "{ended}");
    trace(&ended).only("gym.server.startup.server_start");
}

/// Each of its answers takes as long: that the first did says nothing of its startup.
#[test]
fn one_that_is_always_slow_was_ready_before() {
    let port = free_port();
    let server = slow(port, u32::MAX, 0.5);
    let_go(&server);
    let args = ["--pid", &server.pid().to_string()];
    let ended = watch(&url(port)).args(args).run().exits(0);
    let words = " was ready when it was first asked: since when is not known\n";
    assert!(ended.stderr_text().contains(words), "{ended}");
    assert_eq!(trace(&ended).spans.len(), 1, "{ended}");
}

#[test]
fn a_standard_error_that_nobody_reads_holds_nothing_up() {
    let port = free_port();
    let server = launch(port, "true", "after=1000").spawn();
    let full = "mkfifo p; exec 3<>p; head -c 65536 /dev/zero >&3; exec \"$@\" 2>&3";
    let watch = watch(&url(port)).under(["/bin/sh", "-c", full, "sh"]);
    watch.args(["--pid", &server.pid().to_string(), "--timeout", "0.4"]).run().exits(124);
}

#[test]
fn one_that_is_not_ready_in_time() {
    let port = free_port();
    let server = launch(port, "sleep 1000", "").spawn();
    let pid = server.pid().to_string();
    let watching = watch(&url(port)).args(["--pid", &pid, "--timeout", "4"]).spawn();
    let quiet = watch(&url(port)).args(["--quiet", "--timeout", "4000ms"]).spawn();
    let ended = watching.wait().exits(124);
    let words = format!("was not ready at {} within 4.00 s: Connection refused\n", url(port));
    assert!(ended.stderr_text().contains(&words), "no '{words}'\n{ended}");
    trace(&ended).only("gym.server.startup.unfinished");

    let words = format!(
        "gym-startup: --out: nothing was recorded\n\
         gym-startup: the server was not ready at {} within 4.00 s: Connection refused\n",
        url(port)
    );
    quiet.wait().exits(124).says(words);
}

#[test]
fn a_signal_ends_the_watch_and_leaves_the_server() {
    for (signal, status) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let port = free_port();
        let server = launch(port, "sleep 1000", "").spawn();
        let mut watching =
            watch(&url(port)).args(["--name", "judge", "--pid", &server.pid().to_string()]).spawn();
        watching.until_it_says(WAITS);
        watching.signal(signal);
        let ended = watching.wait().exits(status);
        let words =
            format!("ended by {signal} before judge (process {}) was ready\n", server.pid());
        assert!(ended.stderr_text().contains(&words), "no '{words}'\n{ended}");
        assert!(!ended.folder().join("out.jsonl").exists(), "{ended}");
        kill(Pid::from_raw(server.pid()), None).unwrap();
    }
}

#[test]
fn what_servers_ignore_is_said_and_what_is_true_is_shown() {
    let not_apart = "it has no stamp of the end of its setup: setup and start are not told apart";
    let unstamped = "it has no stamp in its environment, or has written over it, so nothing is \
                     known of its setup: put gym-stamp before its command";
    for (environment, words, spans) in [
        ("SPAWN=1700000000000000000 DONE=soon", "servers ignore DONE: it is not a number", 1),
        (
            "SPAWN=1700000000000000000 DONE=1600000000000000000",
            "servers ignore DONE: it is 27777h 47m before SPAWN",
            1,
        ),
        ("DONE=1600000000000000000", "servers ignore DONE: SPAWN is not set", 0),
        ("SPAWN= DONE=1600000000000000000", "servers ignore both stamps: SPAWN is empty", 0),
        ("SPAWN=1700000000000000000", not_apart, 1),
        ("", unstamped, 0),
    ] {
        let port = free_port();
        let environment = environment.replace("SPAWN", SPAWN).replace("DONE", SETUP_DONE);
        let words = words.replace("SPAWN", SPAWN).replace("DONE", SETUP_DONE);
        let line = format!("{GATE}; exec env {environment} python3 -S serve.py port={port}");
        let bash = command("/bin/bash").file("serve.py", 0o644, SERVE);
        let ended = watched_from_setup(&bash.args(["-c", &line]).spawn(), watch(&url(port)));
        let words = format!("gym-startup: {words}\n");
        assert!(ended.stderr_text().contains(&words), "no '{words}'\n{ended}");
        let since = if spans == 0 { "its process was started" } else { "it was spawned" };
        assert!(ended.stderr_text().contains(&format!(" after {since}\n")), "{ended}");
        let out = ended.folder().join("out.jsonl");
        match spans {
            0 => assert!(!out.exists(), "{ended}"),
            _ => assert_eq!(Trace::read(&out).spans.len(), spans, "{ended}"),
        }
    }
}

#[test]
fn a_port_of_ipv6_is_found_by_its_address() {
    let port = free_port();
    let watch = watch(&format!("http://[::1]:{port}/"));
    let mut watching = watch.var("LANG", "C.UTF-8").spawn();
    watching.until_it_says(WAITS);
    let server = launch(port, "true", "host=::1").spawn();
    let ended = watching.wait().exits(0);
    tells_of(&ended, server.pid(), "serve.py");
}

#[test]
fn a_unix_socket_is_found_by_its_path() {
    let server = launch(0, "sleep 0.3", "after=0.3 unix=a.sock");
    let path = server.folder().join("a.sock");
    let mut watching = watch(&format!("unix:{}", path.display())).spawn();
    watching.until_it_says(WAITS);
    let server = server.spawn();
    let ended = watching.wait().exits(0);
    let setup = trace(&ended).only("gym.server.startup.venv_setup").clone();
    assert_eq!(pid(&setup), i64::from(server.pid()));
    assert_eq!(setup.end_time_unix_nano.to_string(), environment(server.pid())[SETUP_DONE]);
}

/// Waits until somebody listens on `port` in the network namespace of `server`, which is another
/// than ours as soon as it has left ours.
fn until_listening_in_its_network(server: &Running, port: u16) {
    let network = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).unwrap();
    let pid = server.pid().to_string();
    server.wait_until(|| network(&pid) != network("self"));
    server.wait_until(|| {
        let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
        table.contains(&format!(":{port:04X} 00000000:0000 0A"))
    });
}

/// As behind the proxy of a port that a container publishes, which is there before the server is.
#[test]
fn a_stamped_server_in_another_network_namespace_goes_before_an_unstamped_one_here() {
    let port = free_port();
    let proxy = format!(
        "import http.server, os\n\
         class Proxy(http.server.BaseHTTPRequestHandler):\n    \
         def do_GET(self):\n        \
         self.send_response(200 if os.path.exists('go') else 503)\n        \
         self.end_headers()\n\
         http.server.HTTPServer(('127.0.0.1', {port}), Proxy).serve_forever()\n"
    );
    let proxy = command("/bin/bash").args(["-c", "exec python3 -S -c \"$0\"", &proxy]).spawn();
    proxy.wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok());
    let mut watching = watch(&url(port)).spawn();
    watching.until_it_says(": answers 503; not ready yet\n");
    let server = launch(port, "ip link set lo up", "").under(["unshare", "--net"]).spawn();
    until_listening_in_its_network(&server, port);
    fs::write(proxy.folder().join("go"), "").unwrap();
    let ended = watching.wait().exits(0);
    assert_eq!(pid(trace(&ended).only("gym.server.startup")), i64::from(server.pid()), "{ended}");
}

#[test]
fn of_two_containers_on_one_port_the_address_says_which() {
    let port = free_port();
    let in_container = |address: &str| {
        let setup = format!("ip link set lo up; ip address add {address} dev lo");
        let server = launch(port, &setup, "host=0.0.0.0").under(["unshare", "--net"]).spawn();
        until_listening_in_its_network(&server, port);
        server
    };
    let addresses = ["198.51.100.7", "198.51.100.8"];
    let servers = addresses.map(|address| in_container(&format!("{address}/32")));
    let watching = addresses.map(|address| {
        // Where there is no way to anywhere it can still be seen who is meant.
        let watch = watch(&format!("http://{address}:{port}/")).under(["unshare", "--net"]);
        watch.args(["--timeout", "4"]).spawn()
    });
    for ((address, server), watching) in addresses.iter().zip(&servers).zip(watching) {
        let ended = watching.wait().exits(124);
        let words = format!(
            "serve.py (process {}) was not ready at http://{address}:{port}/ within 4.00 s: Network \
             is unreachable\n",
            server.pid()
        );
        assert!(ended.stderr_text().contains(&words), "no '{words}'\n{ended}");
    }
}

#[test]
fn whoever_else_listens_there_is_named() {
    let port = free_port();
    let server = launch(port, "sleep 1000", "").spawn();
    let line = format!("exec python3 -S serve.py port={port}");
    let other = command("/bin/bash").file("serve.py", 0o644, SERVE).args(["-c", &line]).spawn();
    other.wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok());
    let watch = watch(&url(port)).args(["--pid", &server.pid().to_string()]);
    let words = format!(
        "gym-startup: but it is serve.py (process {}) that listens there, and it is ready only if \
         it is behind that\n",
        other.pid()
    );
    let ended = watch.clone().run().exits(0);
    assert!(ended.stderr_text().contains(&words), "no '{words}'\n{ended}");
    let text = watch.arg("--quiet").run().exits(0).stderr_text();
    // If it answers so late that it seems to have become ready, there is a record.
    let nothing = "gym-startup: --out: nothing was recorded\n";
    assert_eq!(text.strip_prefix(nothing).unwrap_or(&text), words);
}

#[test]
fn a_server_of_another_launch_is_not_the_one_that_is_watched() {
    let port = free_port();
    let server = launch(port, "true", "after=1000").spawn();
    server.wait_until(|| environment(server.pid()).contains_key(SETUP_DONE));
    let other = launch(port, "true", "").spawn();
    other.wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok());
    let watch = watch(&url(port)).args(["--pid", &server.pid().to_string()]);
    let ended = watch.arg("--quiet").run().exits(1);
    let ended = ended.says(format!(
        "gym-startup: serve.py (process {}) is not what answers at {}: serve.py (process {}) \
         listens there, which has the stamp of another launch\n",
        server.pid(),
        url(port),
        other.pid()
    ));
    let trace = trace(&ended);
    trace.only("gym.server.startup.venv_setup");
    trace.only("gym.server.startup.unfinished");
    assert_eq!(trace.spans.len(), 3);
}

#[test]
fn several_stamped_servers_at_one_place_are_not_guessed_at() {
    let port = free_port();
    // The first option is for the test's own socket, which holds the port.
    let both = "import socket, time\ns = socket.socket()\n\
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n\
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n\
                s.bind(('127.0.0.1', {}))\ns.listen()\ntime.sleep(1000)\n";
    let server = |done: u32| {
        let script = both.replace("{}", &port.to_string());
        let run = command(program("python3", "python3")).args(["-S", "-c", &script]);
        run.entry(format!("{SPAWN}=1")).entry(format!("{SETUP_DONE}={done}")).spawn()
    };
    let servers = [server(1), server(2)];
    servers[0].wait_until(|| {
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        table.matches(&format!("0100007F:{port:04X} 00000000:0000 0A")).count() == 2
    });
    let ended = watch(&format!("tcp://127.0.0.1:{port}")).run().exits(1);
    let text = ended.stderr_text();
    assert!(
        text.contains("several stamped servers listen there: say by --pid which of "),
        "{ended}"
    );
    assert!(servers.iter().all(|it| text.contains(&it.pid().to_string())), "{ended}");
}

#[test]
fn what_cannot_be_watched_says_why() {
    let port = free_port();
    let server = launch(port, "true", "").spawn();
    server.wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok());
    let pid = server.pid().to_string();
    watch(&url(port))
        .args(["--pid", "999999999"])
        .run()
        .exits(1)
        .says("gym-startup: --pid: there is no process 999999999\n");
    watch(&url(port)).args(["--pid", &pid]).user(65534).run().exits(1).says(format!(
        "gym-startup: --pid: the environment of process {pid} may not be read: run as root, or as \
         its user\n"
    ));
    let ended = watch(&url(port)).user(65534).run().exits(1);
    let words = format!(
        "gym-startup: {} answers, but no process that can be seen listens there: watch on its \
         machine, or name it by --pid; ",
        url(port)
    );
    assert!(ended.stderr_text().contains(&words), "no '{words}'\n{ended}");
    let end = " of other users could not be read: run as root to see them\n";
    assert!(ended.stderr_text().ends_with(end), "{ended}");
}

#[test]
fn a_wrong_command_line_says_all_that_is_wrong() {
    let args =
        ["watch", "--ready", "localhost:8000", "--expect", "1", "--timeout", "soon", "--pid=0"];
    command(env!("CARGO_BIN_EXE_gym-startup")).args(args).run().exits(2).says(
        "gym-startup: --expect: 1 is not an HTTP status; they are 100 to 599\n\
         gym-startup: --ready: \"localhost:8000\": no scheme; it is http://HOST:PORT/PATH, \
         https://HOST:PORT/PATH, tcp://HOST:PORT or unix:/PATH\n\
         gym-startup: --timeout: \"soon\" is not a time; it takes a number of seconds, or a time \
         such as 90s, 5m, 1m 30s, 500ms\n\
         gym-startup: --pid: a process has a number greater than zero\n",
    );
}
