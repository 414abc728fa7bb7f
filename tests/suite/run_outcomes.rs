//! How a run of `gym-startup run` ends: statuses, records, and nothing left of it.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use nix::sys::signal::Signal;
use rstest::rstest;
use socket2::{Domain, Socket, Type};

use crate::support::startup::{SERVING, attribute, serve, startup};
use crate::support::toolbox::{free_port, program};
use crate::support::{now_ns, without_reader};

#[test]
fn all_ready() {
    let over = startup()
        .serves("one", "")
        .serves("two", "after=0.3")
        .args(["--exit-when-ready"])
        .run()
        .exits(0)
        .outcome("ready");
    let trace = over.trace();
    let root = trace.only("gym.startup");
    for name in ["load_config", "spawn_servers", "wait_for_servers"] {
        let stage = trace.only(&format!("gym.startup.{name}"));
        assert_eq!(stage.parent_span_id, root.span_id);
    }
    for server in ["one", "two"] {
        let span = trace.of_server(server, "gym.startup.server");
        assert_eq!(span.parent_span_id, root.span_id);
        assert_eq!(attribute(span, "nemo.gym.startup.outcome"), "ready");
    }
    assert_eq!(trace.spans.len(), 6, "{:#?}", trace.spans);
}

#[rstest]
#[case::with_a_status("exit 3", 3)]
#[case::with_success("true", 1)]
#[case::by_a_signal("kill -9 $$", 137)]
#[case::by_a_realtime_signal("kill -35 $$", 128 + 35)]
#[case::without_its_program("no-such-program", 127)]
fn one_ends_early(#[case] command: &str, #[case] status: i32) {
    let ready = format!("tcp://127.0.0.1:{}", free_port());
    let one = startup().one(&ready, &["bash", "-c", command]).run().exits(status).outcome("failed");
    let trace = one.trace();
    let span = trace.only("gym.startup.server");
    assert_eq!(attribute(span, "nemo.gym.startup.outcome"), "failed");
    assert_eq!(span.status.as_ref().unwrap().code, 2);
    startup()
        .serves("other", "")
        .server("one", command, &ready, "")
        .run()
        .exits(1)
        .outcome("failed");
}

#[test]
fn a_program_that_is_not_there() {
    let ready = format!("tcp://127.0.0.1:{}", free_port());
    startup().one(&ready, &["no-such-program"]).run().exits(127).outcome("failed");
    startup()
        .with(|run| run.file("plain", 0o644, "text"))
        .one(&ready, &["./plain"])
        .run()
        .exits(126)
        .outcome("failed");
}

#[test]
fn a_command_that_cannot_be_run_is_told_and_never_recorded() {
    let ready = format!("tcp://127.0.0.1:{}", free_port());
    let line = "TOKEN=s3cret ./serve --key abc";
    let over = startup()
        .one(&ready, &[line])
        .run()
        .exits(127)
        .outcome("failed")
        .says(&[&format!("{line}: command"), "bash -c 'LINE' there"]);
    let trace = over.trace();
    for span in ["gym.startup", "gym.startup.server"] {
        let status = trace.only(span).status.as_ref().unwrap();
        assert_eq!(status.message, "one could not be started: command not found");
    }
    let record = std::fs::read_to_string(over.ended.folder().join("out.jsonl")).unwrap();
    assert!(!record.contains("s3cret") && !record.contains("--key"), "{record}");
    startup()
        .fleet(&format!(
            "[[server]]\nname = \"one\"\ncommand = [\"{line}\"]\nready = \"{ready}\"\n"
        ))
        .run()
        .exits(1)
        .says(&["bash takes, write a\n"]);
}

#[rstest]
#[case::by_its_path("./serve", "/nope")]
#[case::found_in_path("serve", "/nope -u")]
#[case::with_a_carriage_return("./serve", "/bin/sh\r")]
fn an_interpreter_that_is_not_there_is_named(#[case] program: &str, #[case] interpreter: &str) {
    let ready = format!("tcp://127.0.0.1:{}", free_port());
    let named = interpreter.trim_end_matches(" -u").replace('\r', r"\r");
    let startup = startup();
    let path = format!("{}:{}", startup.folder().display(), std::env::var("PATH").unwrap());
    startup
        .with(|run| run.file("serve", 0o755, format!("#!{interpreter}\n")))
        .fleet(&format!(
            "[[server]]\nname = \"one\"\ncommand = [\"{program}\"]\nready = \"{ready}\"\n\
             env = {{ PATH = \"{path}\" }}\n"
        ))
        .run()
        .exits(1)
        .outcome("failed")
        .says(&[&format!("{program}: {named}, which its first"), "No such file or directory."]);
}

#[test]
fn the_last_words_of_one_that_ends_early_are_told() {
    let ready = format!("tcp://127.0.0.1:{}", free_port());
    startup()
        .server("one", "echo a hint >&2; printf 'no newline'; exit 3", &ready, "")
        .run()
        .exits(1)
        .says(&["one", "3", "a hint", "no newline"]);
}

#[rstest]
#[case::nobody_listens("after=100")]
#[case::only_503("status=503")]
#[case::only_502("status=502")]
fn not_ready_in_time(#[case] options: &str) {
    let late = startup().serves("late", options).args(["--timeout", "2s"]);
    let trace = late.run().exits(124).outcome("timeout").trace();
    let late = trace.only("gym.startup.server");
    assert_eq!(attribute(late, "nemo.gym.startup.outcome"), "timeout");
}

#[test]
fn one_that_is_ready_while_another_is_not_is_recorded_so() {
    let over = startup()
        .serves("ready", "")
        .serves("late", "after=1000")
        .spawn()
        .until_it_says("gym-startup: ready: ready after ")
        .signal(Signal::SIGTERM)
        .wait()
        .exits(143)
        .outcome("interrupted");
    let trace = over.trace();
    let outcome = |server| {
        attribute(trace.of_server(server, "gym.startup.server"), "nemo.gym.startup.outcome")
    };
    assert_eq!(outcome("late"), "interrupted");
    assert_eq!(outcome("ready"), "ready");
}

#[rstest]
#[case::at_the_first_probe("4s")]
#[case::at_a_later_one("7s")]
fn one_that_takes_connections_and_stays_silent(#[case] timeout: &str) {
    let port = free_port();
    let command = format!(
        "exec python3 -S -c 'import socket, time; \
         it = socket.create_server((\"127.0.0.1\", {port})); time.sleep(1000)'"
    );
    let over = startup()
        .server("one", &command, &format!("http://127.0.0.1:{port}/"), "")
        .args(["--timeout", timeout])
        .run()
        .exits(124)
        .outcome("timeout")
        .says(&["connections there and does not answer", "If it only needs longer"]);
    let text = over.ended.stderr_text();
    assert!(!text.contains("t listen"), "{text}");
    assert!(!text.contains("closes the connection"), "its end is no answer\n{text}");
}

#[test]
fn unready_answers_are_waited_out() {
    let started = startup()
        .serves("one", "until=go")
        .args(["--exit-when-ready"])
        .spawn()
        .until_it_says("one: answers 503: not ready yet\n");
    let before_ns = now_ns();
    let over = started.write("go").wait().exits(0);
    assert!(over.trace().only("gym.startup.server").end_time_unix_nano > before_ns);
}

#[test]
fn any_other_answer_counts() {
    startup().serves("one", "status=404").args(["--exit-when-ready"]).run().exits(0);
    startup().serves("one", "status=500").args(["--exit-when-ready"]).run().exits(0);
}

#[rstest]
#[case(Signal::SIGINT)]
#[case(Signal::SIGTERM)]
#[case(Signal::SIGHUP)]
fn a_signal_before_ready(#[case] signal: Signal) {
    startup()
        .serves("one", "after=100")
        .spawn()
        .until(1, SERVING)
        .signal(signal)
        .wait()
        .exits(128 + signal as i32)
        .outcome("interrupted");
}

#[rstest]
#[case(Signal::SIGINT)]
#[case(Signal::SIGTERM)]
#[case(Signal::SIGHUP)]
fn a_signal_after_ready(#[case] signal: Signal) {
    startup()
        .serves("one", "")
        .spawn()
        .recorded()
        .signal(signal)
        .wait()
        .exits(128 + signal as i32)
        .outcome("ready");
}

#[test]
fn what_nohup_ignores_stays_ignored() {
    let started = startup()
        .with(|run| run.ignored(Signal::SIGHUP))
        .serves("one", "")
        .spawn()
        .recorded()
        .signal(Signal::SIGHUP);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(started.processes_with(SERVING).len(), 1);
    started.signal(Signal::SIGTERM).wait().exits(143);
}

#[test]
fn a_second_interrupt_kills_at_once() {
    let command = "trap 'touch interrupted' INT; trap '' TERM; while :; do sleep 0.1; done";
    startup()
        .server("one", command, "tcp://127.0.0.1:9", "")
        .args(["--grace", "100s"])
        .spawn()
        .until(1, "sleep\u{0}")
        .signal(Signal::SIGINT)
        .until_there_is("interrupted")
        .signal(Signal::SIGTERM)
        .after(Duration::from_millis(300))
        .signal(Signal::SIGINT)
        .wait()
        .exits(130)
        .outcome("interrupted")
        .within(30);
}

/// A wrapper signals the child, and then the group.
#[rstest]
fn two_interrupts_of_one_keypress_are_one(#[values(0, 20, 60)] gap_ms: u64) {
    let command = "trap 'touch interrupted; sleep 1; touch clean; exit' INT
        touch trapped; while :; do sleep 0.05; done";
    let is_clean = || {
        let over = startup()
            .server("one", command, "tcp://127.0.0.1:9", "")
            .args(["--grace", "100s"])
            .spawn()
            .until_there_is("trapped")
            .signal(Signal::SIGINT)
            .after(Duration::from_millis(gap_ms))
            .signal(Signal::SIGINT)
            .wait()
            .exits(130)
            .outcome("interrupted");
        over.ended.folder().join("clean").exists()
    };
    // On a busy machine one of the two may come late, and be another keypress.
    assert!((0..5).any(|_| is_clean()));
}

/// bash has its jobs in the background ignore SIGINT.
#[test]
fn who_ignores_the_interrupt_is_not_given_the_grace_time() {
    let port = free_port();
    let command = format!("python3 -m http.server {port} --bind 127.0.0.1 & wait");
    startup()
        .server("one", &command, &format!("tcp://127.0.0.1:{port}"), "")
        .args(["--exit-when-ready", "--grace", "100s"])
        .run()
        .exits(0)
        .says(&["SIGINT to ", "SIGTERM to "])
        .within(60);
}

/// Nobody has interrupted it before.
#[test]
fn the_first_interrupt_of_an_end_kills_nobody() {
    let command =
        "trap 'touch interrupted; while [ ! -e go ]; do sleep 0.1; done; touch ended; exit' INT
        python3 -S serve.py unix=socket & while :; do sleep 0.1; done";
    let started = startup()
        .server("one", command, "unix:socket", "")
        .args(["--exit-when-ready", "--grace", "100s"])
        .spawn()
        .until_there_is("interrupted")
        .signal(Signal::SIGINT);
    std::thread::sleep(Duration::from_millis(300));
    std::fs::write(started.folder().join("go"), "").unwrap();
    started.until_there_is("ended").wait().exits(0).within(30);
}

#[test]
fn the_stubborn_are_killed_when_their_grace_is_over() {
    startup()
        .serves("one", "stubborn=1")
        .args(["--grace", "500ms"])
        .spawn()
        .recorded()
        .signal(Signal::SIGTERM)
        .wait()
        .exits(143)
        .within(30);
}

#[test]
fn a_server_that_ends_later_ends_the_fleet() {
    startup()
        .serves("one", "ends=end")
        .serves("two", "")
        .spawn()
        .recorded()
        .write("end")
        .wait()
        .exits(1)
        .outcome("ready")
        .says(&["one", "4"]);
}

#[test]
fn a_server_that_was_ready_and_ends_while_others_start_is_told_so() {
    let over = startup()
        .serves("one", "ends=end")
        .serves("two", "after=1000")
        .spawn()
        .until_it_says("gym-startup: one: ready after ")
        .write("end")
        .wait()
        .exits(1)
        .outcome("failed")
        .says(&["one exited with status 4 before all were ready"]);
    let trace = over.trace();
    let status = trace.only("gym.startup").status.as_ref().unwrap();
    assert_eq!(status.message, "one exited with status 4 before all were ready");
    let one = trace.of_server("one", "gym.startup.server");
    assert_eq!(attribute(one, "nemo.gym.startup.outcome"), "ready");
}

#[rstest]
#[case("exit 0", 0)]
#[case("exit 7", 7)]
#[case("kill -15 $$", 143)]
fn then_decides_the_status(#[case] command: &str, #[case] status: i32) {
    startup().serves("one", "").args(["--then", command]).run().exits(status).outcome("ready");
}

#[test]
fn then_has_our_input_and_group_and_none_of_the_contract() {
    let command = "cat; env | grep NEMO_GYM_STARTUP; ps -o pgid= -p $$; ps -o pgid= -p $PPID";
    let over = startup()
        .with(|run| run.stdin("typed\n").var("NEMO_GYM_STARTUP_SPAWN_NS", "1"))
        .serves("one", "")
        .args(["--then", command])
        .run()
        .exits(0);
    let text = over.ended.stdout_text();
    let [typed, own, parents] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert_eq!(typed, "typed");
    assert_eq!(own, parents);
}

#[test]
fn then_is_ended_with_the_fleet() {
    startup()
        .serves("one", "ends=end")
        .args(["--then", "sleep 100", "--grace", "2s"])
        .spawn()
        .until(1, "sleep\u{0}100")
        .write("end")
        .wait()
        .exits(1)
        .within(30);
    startup()
        .serves("one", "")
        .args(["--then", "sleep 100 & sleep 100", "--grace", "2s"])
        .spawn()
        .until(2, "sleep\u{0}100")
        .signal(Signal::SIGINT)
        .wait()
        .exits(130)
        .within(30);
}

#[test]
fn a_port_that_somebody_else_answers_on() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let over = startup()
        .server("free", "touch started; sleep 100", "tcp://127.0.0.1:9", "")
        .server("taken", &serve(port, ""), &format!("http://localhost:{port}/"), "")
        .run()
        .exits(1)
        .outcome("failed")
        .says(&["nothing was started", &format!("(process {})", std::process::id())]);
    assert!(!over.ended.folder().join("started").exists());
    assert!(over.trace().named("gym.startup.server").is_empty());
}

/// Pids begin anew when they have come to their end.
#[test]
fn who_was_there_first_is_named_whatever_the_number_of_what_it_forked() {
    let port = free_port();
    let holder = format!(
        "import os, socket, time\n\
         taken = socket.create_server((\"127.0.0.1\", {port}))\n\
         time.sleep(0.1)\n\
         open(\"/proc/sys/kernel/ns_last_pid\", \"w\").write(\"499\")\n\
         if os.fork(): open(\"taken\", \"w\")\n\
         time.sleep(1000)\n"
    );
    let script = "echo 999 >/proc/sys/kernel/ns_last_pid; python3 -S -c \"$0\" & \
                  until [ -e taken ]; do sleep 0.01; done; exec \"$@\"";
    let unshare = program("unshare", "util-linux");
    let namespace = [unshare.to_str().unwrap(), "-pf", "--mount-proc", "--kill-child"];
    startup()
        .with(|run| run.under(namespace).under(["bash", "-c", script, &holder]))
        .server("one", &serve(port, ""), &format!("http://127.0.0.1:{port}/"), "")
        .run()
        .exits(1)
        .says(&["nothing was started", "python3 (process 1000)"]);
}

#[test]
fn a_server_that_listens_elsewhere() {
    let port = free_port();
    startup()
        .server("one", &serve(port, ""), &format!("http://127.0.0.1:{}/", free_port()), "")
        .args(["--timeout", "6s"])
        .run()
        .exits(124)
        .outcome("timeout")
        .says(&["Connection refused", &format!("It listens on port {port}. If")]);
}

/// A server that only ever says that it was launched.
fn victim_at(port: u16) -> crate::support::startup::Startup {
    let command = "touch launched; exec sleep 1000";
    startup()
        .server("victim", command, &format!("http://127.0.0.1:{port}/"), "")
        .args(["--exit-when-ready"])
}

#[test]
fn the_server_of_another_run_is_not_ours() {
    let port = free_port();
    let victim = victim_at(port).spawn().until_there_is("launched");
    let other = startup()
        .server("other", &serve(port, ""), &format!("http://127.0.0.1:{port}/"), "")
        .spawn();
    let words = ["is not victim but python3", "End it, or have victim"];
    victim.wait().exits(1).outcome("failed").says(&words);
    other.recorded().signal(Signal::SIGTERM).wait().exits(143).outcome("ready");
}

#[test]
fn the_unix_socket_of_another_run_is_not_ours() {
    let victim = startup()
        .server("victim", "touch launched; exec sleep 1000", "unix:socket", "")
        .args(["--exit-when-ready"])
        .spawn()
        .until_there_is("launched");
    let path = victim.folder().join("socket").display().to_string();
    let command = serve(1, &format!("unix={path}"));
    let other = startup().server("other", &command, &format!("unix:{path}"), "").spawn();
    // With its folder, which the socket is in.
    let _victim = victim.wait().exits(1).outcome("failed").says(&["but python3 (process "]);
    other.recorded().signal(Signal::SIGTERM).wait().exits(143).outcome("ready");
}

#[test]
fn who_answers_on_a_unix_socket_and_is_of_no_launch_may_do_so_for_the_server() {
    let server = startup()
        .server("one", "touch launched; exec sleep 1000", "unix:socket", "")
        .args(["--exit-when-ready"])
        .spawn()
        .until_there_is("launched");
    let _listener = UnixListener::bind(server.folder().join("socket")).unwrap();
    server.wait().exits(0).outcome("ready");
}

#[test]
fn a_unix_socket_that_somebody_else_answers_on() {
    let startup = startup().server("one", "exec sleep 1000", "unix:socket", "");
    let _listener = UnixListener::bind(startup.folder().join("socket")).unwrap();
    let holder = format!("(process {})", std::process::id());
    startup.run().exits(1).outcome("failed").says(&["nothing was started", &holder]);
}

#[test]
fn who_answers_and_is_of_no_launch_may_do_so_for_the_server() {
    let port = free_port();
    let server = victim_at(port).spawn().until_there_is("launched");
    answer(TcpListener::bind(("127.0.0.1", port)).unwrap());
    server.wait().exits(0).outcome("ready");
}

#[test]
fn a_port_that_is_shared_is_ours_if_we_listen_too() {
    let port = free_port();
    let unready = format!(
        "exec python3 -S -c 'import socket\n\
         it = socket.create_server((\"127.0.0.1\", {port}), reuse_port=True)\n\
         while True:\n \
         open(\"listens\", \"w\")\n \
         taken = it.accept()[0]\n \
         taken.recv(9999)\n \
         taken.sendall(b\"HTTP/1.1 404 x\\r\\n\\r\\n\")\n \
         taken.close()'"
    );
    let ours = startup()
        .server("one", &unready, &format!("http://127.0.0.1:{port}/"), "expect = 200")
        .args(["--exit-when-ready"])
        .spawn()
        .until_there_is("listens");
    let shared = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    shared.set_reuse_port(true).unwrap();
    shared.bind(&SocketAddr::from(([127, 0, 0, 1], port)).into()).unwrap();
    shared.listen(16).unwrap();
    answer(shared.into());
    ours.wait().exits(0).outcome("ready");
}

/// Answers everybody from now on.
fn answer(listener: TcpListener) {
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            if stream.read(&mut request).is_ok_and(|count| count > 0) {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
            }
        }
    });
}

#[rstest]
#[case::closed(|run: crate::support::Run| run.closed(1).closed(2))]
#[case::broken(|run: crate::support::Run| run.fd(1, without_reader()).fd(2, without_reader()))]
#[case::full(|run: crate::support::Run| run.fd(1, full()).fd(2, full()))]
fn nobody_listens_to_our_words(
    #[case] change: fn(crate::support::Run) -> crate::support::Run,
    #[values("", "says=hello")] options: &str,
) {
    startup()
        .with(change)
        .serves("one", options)
        .args(["--exit-when-ready"])
        .run()
        .exits(0)
        .outcome("ready");
    let ready = format!("tcp://127.0.0.1:{}", free_port());
    startup()
        .with(change)
        .one(&ready, &["bash", "-c", "echo a; echo b >&2; exit 3"])
        .run()
        .exits(3)
        .outcome("failed");
}

fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

#[test]
fn a_reader_that_stalls_holds_up_nothing() {
    let (reader, writer) = nix::unistd::pipe().unwrap();
    let chatter = "for ((;;)); do echo chatter; done & ";
    let port = free_port();
    let command = format!("{chatter} {}", serve(port, ""));
    let started = startup()
        .with(|run| run.fd(1, writer.try_clone().unwrap()).fd(2, writer))
        .server("one", &command, &format!("http://127.0.0.1:{port}/"), "")
        .spawn()
        .recorded();
    started.signal(Signal::SIGTERM).wait().exits(143).outcome("ready").within(30);
    drop(reader);
}

#[test]
fn a_record_that_cannot_be_written_changes_nothing_else() {
    startup()
        .serves("one", "")
        .args(["--exit-when-ready"])
        .out("/dev/full")
        .run()
        .exits(0)
        .says(&["/dev/full: No space left on device"]);
}
