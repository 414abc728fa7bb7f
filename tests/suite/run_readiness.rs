//! What `gym-startup run` sees of servers from outside: readiness, stamps, what ran in setup.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rstest::rstest;

use crate::support::Run;
use crate::support::certificates::Authority;
use crate::support::startup::{Startup, Trace, attribute, duration_ms, serve, startup};
use crate::support::toolbox::{free_port, program};

fn until_ready(startup: Startup) -> Trace {
    startup.args(["--exit-when-ready"]).run().exits(0).outcome("ready").trace()
}

#[rstest]
#[case::tcp("tcp://127.0.0.1:PORT")]
#[case::by_name("tcp://localhost:PORT")]
#[case::http_by_name("http://localhost:PORT/health?a=b")]
fn over_tcp(#[case] ready: &str) {
    let port = free_port();
    let ready = ready.replace("PORT", &port.to_string());
    until_ready(startup().server("one", &serve(port, "after=0.2"), &ready, ""));
}

#[test]
fn over_a_unix_socket() {
    let command = serve(1, "unix=socket after=0.2");
    until_ready(startup().server("one", &command, "unix:socket", ""));
    until_ready(startup().server("one", &command, "unix:socket", "expect = 200"));
}

#[test]
fn with_the_status_that_is_expected() {
    let port = free_port();
    let ready = format!("http://127.0.0.1:{port}/");
    let expecting = |status| {
        let command = serve(port, "status=404");
        startup().server("one", &command, &ready, &format!("expect = {status}"))
    };
    until_ready(expecting(404));
    expecting(200).args(["--timeout", "1s"]).run().exits(124).outcome("timeout");
}

/// Gives every request the same bytes: `raw.py PORT ANSWER`.
const RAW: &str = r#"
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
answer = sys.argv[2].encode().decode("unicode_escape").encode()
while True:
    peer, _ = server.accept()
    if peer.recv(4096):
        peer.sendall(answer)
    peer.close()
"#;

#[rstest]
#[case::an_early_hint(
    r"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 503 No\r\n\r\n",
    "",
    false
)]
#[case::nothing_else(r"HTTP/1.1 103 Early Hints\r\n\r\n", "", false)]
#[case::before_the_expected(
    r"HTTP/1.1 100 Go on\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    "expect = 200",
    true
)]
#[case::several(
    r"HTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 E\r\nA: b\r\n\r\nHTTP/1.1 404 N\r\n\r\n",
    "",
    true
)]
fn an_interim_answer_is_none(#[case] answer: &str, #[case] more: &str, #[case] is_ready: bool) {
    let port = free_port();
    let ready = format!("http://127.0.0.1:{port}/");
    let run = startup().with(|run| run.file("raw.py", 0o644, RAW)).server(
        "one",
        &format!("exec python3 -S raw.py {port} '{answer}'"),
        &ready,
        more,
    );
    if is_ready {
        until_ready(run);
    } else {
        run.args(["--timeout", "3s"]).run().exits(124).outcome("timeout");
    }
}

#[test]
fn over_tls_with_any_certificate() {
    let port = free_port();
    let serve = format!(
        "import socket, ssl\n\
         context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n\
         context.load_cert_chain('client.pem', 'client.key')\n\
         listener = socket.create_server(('127.0.0.1', {port}))\n\
         while True:\n \
         try:\n  \
         stream = context.wrap_socket(listener.accept()[0], server_side=True)\n  \
         stream.recv(4096)\n  \
         stream.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n')\n \
         except OSError:\n  \
         pass\n"
    );
    let startup = startup().with(|run| run.file("tls.py", 0o644, serve)).server(
        "one",
        "exec python3 tls.py",
        &format!("https://127.0.0.1:{port}/"),
        "",
    );
    Authority::new().expired_server().write(startup.folder());
    until_ready(startup);
}

#[test]
fn never_through_a_proxy() {
    let port = free_port();
    let ready = format!("http://127.0.0.1:{port}/");
    let mut startup = startup().server("one", &serve(port, ""), &ready, "");
    for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        startup = startup.var(name, "http://127.0.0.1:9");
    }
    until_ready(startup);
}

#[test]
fn the_stamp_parts_setup_from_start() {
    let port = free_port();
    let command =
        format!("sleep 1000; exec ./gym-stamp {}", serve(port, "after=0.4").replace("exec ", ""));
    let started = startup()
        .server("one", &command, &format!("http://127.0.0.1:{port}/"), "")
        .args(["--exit-when-ready"])
        .spawn()
        .until_it_says("one: sleep is running\n");
    let [sleep] = started.processes_with("sleep\u{0}1000")[..] else { panic!("no sleep") };
    kill(Pid::from_raw(sleep), Signal::SIGKILL).unwrap();
    let trace = started.wait().exits(0).outcome("ready").trace();
    let server = trace.only("gym.startup.server");
    let setup = trace.of_server("one", "gym.startup.server.venv_setup");
    let start = trace.of_server("one", "gym.startup.server.server_start");
    for stage in [setup, start] {
        assert_eq!(stage.parent_span_id, server.span_id);
    }
    assert_eq!(attribute(setup, "nemo.gym.startup.stage"), "venv_setup");
    assert_eq!(setup.start_time_unix_nano, server.start_time_unix_nano);
    assert_eq!(setup.end_time_unix_nano, start.start_time_unix_nano);
    assert_eq!(start.end_time_unix_nano, server.end_time_unix_nano);
    assert!(duration_ms(setup) >= 200.0, "{setup:?}");
    assert!(duration_ms(start) >= 400.0, "{start:?}");
    let [sleep] = trace.children(setup)[..] else { panic!("{:#?}", trace.spans) };
    assert_eq!(sleep.name, "sleep");
    assert!(duration_ms(sleep) >= 200.0, "{sleep:?}");
}

#[test]
fn what_is_seen_to_be_over_when_the_stamp_is_already_set_ends_with_it() {
    let port = free_port();
    let command = format!(
        "tail -f /dev/null & until [ -e set ]; do sleep 0.01; done; done=$(date +%s%N); touch done; wait; \
         until [ -e go ]; do sleep 0.01; done; \
         NEMO_GYM_STARTUP_SETUP_DONE_NS=$done {}",
        serve(port, "")
    );
    let started = startup()
        .server("one", &command, &format!("http://127.0.0.1:{port}/"), "")
        .args(["--exit-when-ready"])
        .spawn()
        .until_it_says("one: tail is running\n")
        .write("set")
        .until_there_is("done");
    let [tail] = started.processes_with("tail\u{0}-f")[..] else { panic!("no tail") };
    kill(Pid::from_raw(tail), Signal::SIGKILL).unwrap();
    let over = started.until_it_says("one: tail took ").write("go").wait().exits(0);
    let trace = over.trace();
    let setup = trace.of_server("one", "gym.startup.server.venv_setup");
    assert_eq!(trace.only("tail").end_time_unix_nano, setup.end_time_unix_nano);
}

#[test]
fn two_servers_of_one_folder_have_their_own_stages() {
    let ports = [free_port(), free_port()];
    let ready = |port: u16| format!("http://127.0.0.1:{port}/");
    let one = format!("exec ./gym-stamp bash -c 'touch one; {}'", serve(ports[0], ""));
    let two = format!(
        "until [ -e one ]; do sleep 0.01; done; sleep 0.2; exec ./gym-stamp {}",
        serve(ports[1], "").replace("exec ", "")
    );
    let trace = until_ready(startup().server("one", &one, &ready(ports[0]), "").server(
        "two",
        &two,
        &ready(ports[1]),
        "",
    ));
    let setup = |name| trace.of_server(name, "gym.startup.server.venv_setup");
    let (one, two) = (setup("one").end_time_unix_nano, setup("two").end_time_unix_nano);
    assert!(two >= one + 200_000_000, "{:#?}", trace.spans);
}

#[test]
fn what_ran_in_setup_is_told_by_its_name_and_never_by_its_arguments() {
    let port = free_port();
    let wait = "import os, time\nwhile not os.path.exists(os.environ['UNTIL']): time.sleep(0.01)\n";
    let command = format!(
        "UNTIL=1 ./bin/uv --quiet secret; \
         UNTIL=2 ./bin/uv pip install --index-url https://user:secret@host x; \
         UNTIL=3 ./bin/git clone https://secret@host; \
         UNTIL=4 python3 -c \"{wait}\" secret; \
         true; exec ./gym-stamp {}",
        serve(port, "").replace("exec ", "")
    );
    let fake = format!("#!{}\n{wait}", program("python3", "python3").display());
    let mut startup = startup();
    for tool in ["uv", "git"] {
        startup = startup.with(|run| run.file(format!("bin/{tool}"), 0o755, &fake));
    }
    let mut started = startup
        .server("one", &command, &format!("http://127.0.0.1:{port}/"), "")
        .args(["--exit-when-ready"])
        .spawn();
    for (until, name) in
        [("1", "uv"), ("2", "uv pip install"), ("3", "git clone"), ("4", "python3")]
    {
        started = started.until_it_says(&format!("one: {name} is running\n")).write(until);
    }
    let over = started.wait().exits(0);
    let trace = over.trace();
    let setup = trace.of_server("one", "gym.startup.server.venv_setup");
    let mut steps = trace.children(setup);
    steps.sort_by_key(|span| span.start_time_unix_nano);
    let names: Vec<_> = steps.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["uv", "uv pip install", "git clone", "python3"]);
    for step in steps {
        assert!(step.start_time_unix_nano >= setup.start_time_unix_nano, "{step:?}");
        assert!(step.end_time_unix_nano <= setup.end_time_unix_nano, "{step:?}");
    }
    let record = std::fs::read_to_string(over.ended.folder().join("out.jsonl")).unwrap();
    assert!(!record.contains("secret"), "{record}");
    assert!(!String::from_utf8_lossy(&over.ended.stderr).contains("secret"), "{}", over.ended);
}

/// Neither how many processes there are, nor that they are others', keeps a step from being seen.
#[test]
fn short_steps_are_seen_on_a_crowded_machine() {
    const STEPS: usize = 10;
    let crowd = "import os, signal\n\
                 for _ in range(1000):\n \
                 if os.fork() == 0:\n  \
                 signal.pause()\n\
                 open('there', 'w')\nsignal.pause()\n";
    let crowd = crate::support::command(crate::support::toolbox::program("python3", "python3"))
        .args(["-S", "-c", crowd])
        .spawn();
    let there = crowd.folder().join("there");
    crowd.wait_until(|| there.exists());
    let port = free_port();
    let command = format!(
        "for i in $(seq {STEPS}); do sleep 0.3; done; exec ./gym-stamp {}",
        serve(port, "").replace("exec ", "")
    );
    let trace =
        until_ready(startup().server("one", &command, &format!("http://127.0.0.1:{port}/"), ""));
    let seen = trace.named("sleep").len();
    assert!((STEPS * 7 / 10..=STEPS).contains(&seen), "{seen} of {STEPS}");
}

#[test]
fn waiting_for_a_lock_is_told_from_work() {
    let port = free_port();
    let lock = "import fcntl, os, sys, time\nf = open('lock', 'w')\n\
                fcntl.flock(f, fcntl.LOCK_EX)\nopen('locked', 'w')\n\
                while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n";
    // A known name tells the one from the other.
    let command = format!(
        "python3 lock.py one & while [ ! -e locked ]; do sleep 0.01; done; \
         python3 uv other; exec ./gym-stamp {}",
        serve(port, "").replace("exec ", "")
    );
    let over = startup()
        .with(|run| run.file("lock.py", 0o644, lock).file("uv", 0o644, lock))
        .server("one", &command, &format!("http://127.0.0.1:{port}/"), "")
        .args(["--exit-when-ready"])
        .spawn()
        .until_it_says("one: uv, waiting for a lock is running\n")
        .write("one")
        .until_it_says("one: uv is running\n")
        .write("other")
        .wait()
        .exits(0)
        .outcome("ready");
    let trace = over.trace();
    assert_eq!(trace.named("uv, waiting for a lock").len(), 1, "{:#?}", trace.spans);
    for name in ["python3", "uv"] {
        assert!(!trace.named(name).is_empty(), "{name}: {:#?}", trace.spans);
    }
}

#[test]
fn a_setup_that_never_ends_shows_what_it_was_at() {
    let ready = format!("tcp://127.0.0.1:{}", free_port());
    let over = startup()
        .server("one", "sleep 1000; true", &ready, "")
        .spawn()
        .until_it_says("one: sleep is running\n")
        .signal(Signal::SIGTERM)
        .wait()
        .exits(143)
        .outcome("interrupted");
    let trace = over.trace();
    let server = trace.only("gym.startup.server");
    let [step] = trace.children(server)[..] else { panic!("{:#?}", trace.spans) };
    assert_eq!(step.name, "sleep");
}

#[test]
fn one_without_a_stamp_is_one_bar() {
    let trace = until_ready(startup().serves("one", "after=0.3"));
    assert!(trace.children(trace.only("gym.startup.server")).is_empty());
}

#[test]
fn one_that_writes_over_its_environment_is_said_to_be_unknown() {
    let port = free_port();
    // As after setproctitle, but whenever it is looked at.
    let command = format!(
        "exec env -i PATH=\"$PATH\" GYM_TEST_RUN=$GYM_TEST_RUN {}",
        serve(port, "").replace("exec ", "")
    );
    let over = startup()
        .server("one", &command, &format!("http://127.0.0.1:{port}/"), "")
        .args(["--exit-when-ready"])
        .run()
        .exits(0)
        .says(&["unknown"]);
    let trace = over.trace();
    assert!(trace.children(trace.only("gym.startup.server")).is_empty());
}

#[test]
fn one_that_writes_over_its_environment_later_keeps_its_stamp() {
    let port = free_port();
    // As setproctitle does. The stamp is looked for all the time, long before that.
    let wipe = "import os, time\n\
                time.sleep(3)\n\
                stat = open('/proc/self/stat').read().rsplit(')', 1)[1].split()\n\
                start, end = int(stat[47]), int(stat[48])\n\
                with open('/proc/self/mem', 'r+b', buffering=0) as memory:\n \
                memory.seek(start)\n \
                memory.write(bytes(end - start))\n\
                assert b'NEMO' not in open('/proc/self/environ', 'rb').read()\n\
                open('wiped', 'w')\n\
                exec(open('serve.py').read())\n";
    let over = startup()
        .with(|run| run.file("wipe.py", 0o644, wipe))
        .server(
            "one",
            &format!("sleep 0.3; exec ./gym-stamp python3 -S wipe.py port={port}"),
            &format!("http://127.0.0.1:{port}/"),
            "",
        )
        .args(["--exit-when-ready"])
        .run();
    // What is left of it is not found by its environment.
    let over = over.exits(0).outcome("ready");
    assert!(over.ended.folder().join("wiped").exists());
    let trace = over.trace();
    let setup = duration_ms(trace.of_server("one", "gym.startup.server.venv_setup"));
    assert!((300.0..2500.0).contains(&setup), "{setup} ms");
    assert!(duration_ms(trace.of_server("one", "gym.startup.server.server_start")) >= 2500.0);
    assert!(!over.ended.stderr_text().contains("unknown"), "{}", over.ended);
}

#[rstest]
#[case::out_of_order(
    "exec env NEMO_GYM_STARTUP_SETUP_DONE_NS=1 SERVE",
    |run| run,
    "one: its stamp is before its spawn or in the future: it does not count\n"
)]
#[case::forbidden(
    // Not even its own user may look at it then.
    "exec python3 -S -c 'import ctypes, sys\n\
     ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n\
     exec(open(\"serve.py\").read())' PORT",
    |run: Run| run.user(65534),
    "one: its environment may not be read: when its setup ended is unknown\n"
)]
#[case::unseen(
    "SERVE",
    |run: Run| run.under(["unshare", "-pf", "--kill-child"]),
    "one: its processes are not seen here: when its setup ended is unknown\n"
)]
fn a_stamp_that_is_not_to_be_had_is_told_of(
    #[case] command: &str,
    #[case] change: fn(Run) -> Run,
    #[case] words: &str,
) {
    let port = free_port();
    let command = command
        .replace("SERVE", &serve(port, "").replace("exec ", ""))
        .replace("PORT", &format!("port={port}"));
    let over = startup()
        .with(change)
        .server("one", &command, &format!("http://127.0.0.1:{port}/"), "")
        .args(["--exit-when-ready"])
        .run()
        .exits(0)
        .outcome("ready")
        .says(&[words]);
    let trace = over.trace();
    assert!(trace.children(trace.only("gym.startup.server")).is_empty());
}

#[test]
fn readiness_is_seen_soon_after_the_server_listens() {
    let over = startup()
        .serves("one", "after=0.7 notes=listens")
        .args(["--exit-when-ready"])
        .run()
        .exits(0)
        .outcome("ready");
    let listens = std::fs::read_to_string(over.ended.folder().join("listens")).unwrap();
    let listens_ns: u64 = listens.parse().unwrap();
    let ready_ns = over.trace().only("gym.startup.server").end_time_unix_nano;
    let late = std::time::Duration::from_nanos(ready_ns.checked_sub(listens_ns).unwrap());
    assert!(late < std::time::Duration::from_secs(30), "{late:?}");
}

#[test]
fn a_daemon_keeps_its_stamp() {
    let port = free_port();
    let serve = serve(port, "").replace("exec ", "");
    let command = format!("sleep 0.3; (setsid ./gym-stamp {serve} >/dev/null 2>&1 &)");
    let trace =
        until_ready(startup().server("one", &command, &format!("http://127.0.0.1:{port}/"), ""));
    let setup = trace.of_server("one", "gym.startup.server.venv_setup");
    assert!(duration_ms(setup) >= 300.0, "{setup:?}");
}

/// As Slurm does it, and others whose processes are not below those who ask for them.
#[test]
fn whoever_has_the_servers_environment_is_the_server() {
    let port = free_port();
    let command = "echo $NEMO_GYM_STARTUP_SPAWN_NS >new; mv new spawn; exec sleep 1000";
    let started = startup()
        .server("one", command, &format!("http://127.0.0.1:{port}/"), "")
        .args(["--exit-when-ready"])
        .spawn()
        .until_there_is("spawn");
    let spawn = std::fs::read_to_string(started.folder().join("spawn")).unwrap();
    let mut server = std::process::Command::new("python3")
        .args(["-S", "serve.py", &format!("port={port}")])
        .current_dir(started.folder())
        .env("NEMO_GYM_STARTUP_SPAWN_NS", spawn.trim())
        .spawn()
        .unwrap();
    let over = started.wait();
    server.kill().unwrap();
    server.wait().unwrap();
    over.exits(0).outcome("ready");
}

#[test]
fn a_callers_trace_is_joined() {
    let caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let trace = until_ready(startup().serves("one", "").var("TRACEPARENT", caller));
    let root = trace.only("gym.startup");
    assert_eq!(hex(&root.trace_id), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(hex(&root.parent_span_id), "b7ad6b7169203331");
    let none = "00-00000000000000000000000000000000-0000000000000000-01";
    let over = startup()
        .serves("one", "")
        .var("TRACEPARENT", none)
        .args(["--exit-when-ready"])
        .run()
        .exits(0)
        .says(&["TRACEPARENT"]);
    assert!(over.trace().only("gym.startup").parent_span_id.is_empty());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn servers_are_told_the_span_that_is_recorded() {
    let port = free_port();
    let command = format!("echo $NEMO_GYM_STARTUP_TRACEPARENT >parent; {}", serve(port, ""));
    let over = startup()
        .server("one", &command, &format!("http://127.0.0.1:{port}/"), "")
        .args(["--exit-when-ready"])
        .run()
        .exits(0);
    let told = std::fs::read_to_string(over.ended.folder().join("parent")).unwrap();
    let trace = over.trace();
    let span = trace.only("gym.startup.server");
    assert_eq!(told.trim(), format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id)));
}
