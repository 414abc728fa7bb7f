//! The processes of `gym-startup run`: what a server is given, what is done to it, and that nothing
//! is left of it whatever happens to us.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::sys::resource::Resource;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rstest::rstest;

use crate::support::startup::{SERVING, Started, Startup, serve, startup};
use crate::support::toolbox::{free_port, program, python_venv, with_a_silent_name_server};
use crate::support::{Terminal, now_ns};

/// A server, what it started in a session of its own, and what it left behind.
fn with_strays() -> Startup {
    let port = free_port();
    let command = format!("setsid sleep 1000 & (setsid sleep 1000 &) ; {}", serve(port, ""));
    // What a shell starts with & ignores interrupts.
    let startup = startup().args(["--grace", "1s"]);
    startup.server("one", &command, &format!("http://127.0.0.1:{port}/"), "")
}

#[rstest]
fn nothing_outlives_a_front_that_is_killed(#[values(true, false)] ready: bool) {
    let started = if ready { with_strays().spawn().recorded() } else { unready() };
    let front = started.pid();
    started.all_gone_after(Signal::SIGKILL, front);
}

#[rstest]
fn nothing_outlives_a_keeper_that_is_killed(#[values(true, false)] ready: bool) {
    let started = if ready { with_strays().spawn().recorded() } else { unready() };
    let keeper = started.keeper();
    kill(Pid::from_raw(keeper), Signal::SIGKILL).unwrap();
    let over = started.wait().exits(1);
    over.outcome(if ready { "ready" } else { "failed" });
}

#[test]
fn what_the_front_itself_started_does_not_outlive_it() {
    let started = with_strays()
        .args(["--then", "sleep 1000 & sleep 1000"])
        .spawn()
        .until(4, "sleep\u{0}1000")
        .until_the_keeper_went_on();
    let front = started.pid();
    started.all_gone_after(Signal::SIGKILL, front);
}

#[test]
fn what_the_front_started_and_let_go_of_does_not_outlive_it() {
    let started = with_strays()
        .args(["--then", "(setsid sleep 1000 &); (sleep 1000 &); exec sleep 1000"])
        .spawn()
        .until(5, "sleep\u{0}1000")
        .until_the_keeper_went_on();
    let front = started.pid();
    started.all_gone_after(Signal::SIGKILL, front);
}

fn unready() -> Started {
    startup().serves("one", "after=1000").spawn().until(1, SERVING)
}

#[test]
fn nothing_outlives_a_front_that_is_stopped_and_killed() {
    let started = with_strays().spawn().recorded().signal(Signal::SIGSTOP);
    started.running.wait_stopped();
    thread::sleep(Duration::from_millis(200));
    assert_eq!(started.processes_with(SERVING).len(), 1, "stopped is not ended");
    let front = started.pid();
    started.all_gone_after(Signal::SIGKILL, front);
}

#[test]
fn a_keeper_that_is_stopped_does_not_keep_the_servers_from_ending() {
    let started = with_strays().spawn().recorded();
    kill(Pid::from_raw(started.keeper()), Signal::SIGSTOP).unwrap();
    started.signal(Signal::SIGTERM).wait().exits(143).outcome("ready");
}

#[test]
fn a_keeper_that_is_stopped_does_not_keep_a_timeout_from_coming() {
    let started =
        startup().serves("one", "after=1000").args(["--timeout", "10s"]).spawn().until(1, SERVING);
    kill(Pid::from_raw(started.keeper()), Signal::SIGSTOP).unwrap();
    started
        .wait()
        .exits(1)
        .outcome("failed")
        .says(&["the process that owns the servers was stopped"]);
}

#[test]
fn servers_of_a_stopped_front_go_on_and_their_readiness_is_seen_in_time() {
    let started = startup()
        .serves("one", "when=stopped")
        .args(["--timeout", "10s"])
        .spawn()
        .until(1, SERVING)
        .signal(Signal::SIGSTOP);
    started.running.wait_stopped();
    let started = started.write("stopped");
    // For longer than the keeper may be silent.
    thread::sleep(Duration::from_secs(11));
    let continued_ns = now_ns();
    let over = started
        .signal(Signal::SIGCONT)
        .recorded()
        .signal(Signal::SIGTERM)
        .wait()
        .exits(143)
        .outcome("ready");
    let ready_ns = over.trace().only("gym.startup.server").end_time_unix_nano;
    assert!(ready_ns < continued_ns, "{ready_ns} {continued_ns}");
}

#[test]
fn whoever_left_its_session_is_ended_too() {
    with_strays().spawn().recorded().signal(Signal::SIGINT).wait().exits(130);
}

#[test]
fn what_a_log_pipeline_keeps_alive_is_ended() {
    let port = free_port();
    let server = serve(port, "").replace("exec ", "");
    let command = format!("set -o pipefail; (./gym-stamp {server}) 2>&1 | tee -a LOG");
    startup()
        .server("one", &command, &format!("http://127.0.0.1:{port}/"), "")
        .spawn()
        .recorded()
        .signal(Signal::SIGINT)
        .wait()
        .exits(130);
}

#[test]
fn a_server_that_daemonises_is_the_server() {
    let port = free_port();
    let command =
        format!("({} >/dev/null 2>&1 &)", serve(port, "ends=end").replace("exec", "setsid"));
    startup()
        .server("one", &command, &format!("http://127.0.0.1:{port}/"), "")
        .spawn()
        .recorded()
        .write("end")
        .wait()
        .exits(1)
        .outcome("ready")
        .says(&["one exited with status 4 after all were ready"]);
}

#[test]
fn a_daemon_that_ends_is_told_of_with_its_own_status() {
    // In the end it is what the one that was left behind has left behind.
    let fails = "sleep 0.5; setsid bash -c 'sleep 1; exit 3' &";
    for daemon in ["sleep 1; exit 3", fails] {
        let command = format!("(setsid bash -c \"{daemon}\" >/dev/null 2>&1 &)");
        startup()
            .server("other", "exec sleep 1000", "tcp://127.0.0.1:8", "")
            .server("one", &command, "tcp://127.0.0.1:9", "")
            .run()
            .exits(1)
            .outcome("failed")
            .says(&["one exited with status 3 before it was ready"]);
    }
}

/// Its launch process has been waited for then, and its output, which the server holds open, not.
#[test]
fn a_daemon_that_answers_when_its_launch_has_just_ended_is_asked_again() {
    let port = free_port();
    let daemon = format!(
        "import os, socket, sys, time\n\
         listener = socket.create_server((\"127.0.0.1\", {port}))\n\
         while True:\n \
         connection, _ = listener.accept()\n \
         connection.recv(65536)\n \
         open(\"asked\", \"w\")\n \
         while os.path.exists(\"/proc/\" + sys.argv[1]): time.sleep(0.001)\n \
         connection.sendall(b\"HTTP/1.1 200 x\\r\\nContent-Length: 0\\r\\n\\r\\n\")\n \
         connection.close()\n"
    );
    startup()
        .with(|run| run.file("daemon.py", 0o644, daemon))
        .server(
            "one",
            "setsid python3 -S daemon.py $$ & until [ -e asked ]; do sleep 0.01; done",
            &format!("http://127.0.0.1:{port}/"),
            "",
        )
        .args(["--exit-when-ready", "--timeout", "20s"])
        .run()
        .exits(0)
        .outcome("ready");
}

/// A launch that leaves a server which has kept nothing of it but what the test needs; until `forgets`
/// is over, it has all.
fn forgetful_daemon(forgets: &str, server: &str) -> String {
    let forgetting = "exec env -i PATH=$PATH GYM_TEST_RUN=$GYM_TEST_RUN setsid";
    format!("({{ {forgets}; {forgetting} {server}; }} >/dev/null 2>&1 &)")
}

#[test]
fn a_daemon_that_lost_its_environment_can_only_be_that_of_the_one_server() {
    let port = free_port();
    let command = forgetful_daemon("true", &serve(port, "").replace("exec ", ""));
    startup()
        .server("one", &command, &format!("http://127.0.0.1:{port}/"), "")
        .args(["--exit-when-ready"])
        .run()
        .exits(0)
        .outcome("ready");
}

#[test]
fn a_daemon_that_lost_its_environment_is_told_of_among_several_servers() {
    let port = free_port();
    let daemon = format!("bash -c 'touch forgotten; {}'", serve(port, "after=1000"));
    let forgotten = "until [ -e forgotten ]; do sleep 0.02; done";
    let command = format!("{}; {forgotten}", forgetful_daemon("true", &daemon));
    startup()
        .server("one", &command, &format!("http://127.0.0.1:{port}/"), "")
        .serves("two", "after=1000")
        .run()
        .exits(1)
        .outcome("failed")
        .says(&["one exited with status 0 before it was ready, while", "of its launch: keep"]);
}

#[test]
fn a_daemon_that_loses_its_environment_when_its_launch_is_over_is_still_the_server() {
    let port = free_port();
    let when_over = "while [ -e /proc/$$ ]; do sleep 0.02; done; touch over; \
                     until [ -e forget ]; do sleep 0.02; done";
    let daemon = format!("bash -c 'touch forgotten; {}'", serve(port, "when=listen"));
    let command = forgetful_daemon(when_over, &daemon);
    let started = startup()
        .server("one", &command, &format!("http://127.0.0.1:{port}/"), "")
        .server("two", "(sleep 1000 &); exec sleep 999", "unix:two.sock", "")
        .args(["--timeout", "60s"])
        .spawn()
        .until_there_is("over")
        .until_the_keeper_went_on()
        .write("forget")
        .until_there_is("forgotten");
    // Whenever the keeper reaps a process, it looks which daemons are left.
    let [orphan] = started.processes_with("sleep\u{0}1000")[..] else { panic!("no orphan") };
    kill(Pid::from_raw(orphan), Signal::SIGKILL).unwrap();
    started
        .until(0, "sleep\u{0}1000")
        .until_the_keeper_went_on()
        .write("listen")
        .until_it_says("gym-startup: one: ready after ")
        .signal(Signal::SIGTERM)
        .wait()
        .exits(143)
        .outcome("interrupted");
}

#[test]
fn orphans_are_reaped() {
    let port = free_port();
    let command = format!("for i in 1 2 3; do (sleep 0.1 &); done; {}", serve(port, "after=0.5"));
    let started = startup()
        .server("one", &command, &format!("http://127.0.0.1:{port}/"), "")
        .spawn()
        .recorded();
    let keeper = started.keeper();
    let zombies = || -> usize {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let stats = all.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
        stats.filter(|stat| stat.contains(&format!(" Z {keeper} "))).count()
    };
    started.running.wait_until(|| started.processes_with("sleep").is_empty() && zombies() == 0);
    started.signal(Signal::SIGTERM).wait().exits(143);
}

#[test]
fn each_user_signal_reaches_the_launch_process() {
    let port = free_port();
    let command = "trap 'echo 1 >>usr' USR1; trap 'echo 2 >>usr' USR2; touch ready; \
                   while :; do sleep 0.05; done";
    let started = startup()
        .server("one", command, &format!("tcp://127.0.0.1:{port}"), "")
        .spawn()
        .until_there_is("ready");
    let mut expected = String::new();
    for (signal, line) in
        [(Signal::SIGUSR1, "1\n"), (Signal::SIGUSR1, "1\n"), (Signal::SIGUSR2, "2\n")]
    {
        expected.push_str(line);
        started.running.signal(signal);
        let file = started.folder().join("usr");
        started.running.wait_until(|| fs::read_to_string(&file).unwrap_or_default() == expected);
    }
    started.signal(Signal::SIGTERM).wait().exits(143);
}

#[test]
fn a_server_is_given_what_our_caller_gave_us() {
    let command = "grep -E '^(SigBlk|SigIgn)' /proc/self/status; ulimit -Sn; pwd; ls /proc/self/fd";
    let there = |run: crate::support::Run| {
        run.ignored(Signal::SIGPIPE)
            .ignored(Signal::SIGQUIT)
            .blocked(Signal::SIGUSR1 as i32)
            .blocked(Signal::SIGWINCH as i32)
            .limit(Resource::RLIMIT_NOFILE, 123, 456)
    };
    let ready = "tcp://127.0.0.1:9";
    for change in [there as fn(_) -> _, |run| run] {
        let one = startup().with(change).args(["--quiet"]).one(ready, &["bash", "-c", command]);
        let folder = one.folder().to_owned();
        let over = one.run().exits(1);
        let seen = over.ended.stdout_text().replace("(one) ", "");
        let plain = change(crate::support::command("/bin/bash").args(["-c", command]).cwd(folder));
        assert_eq!(seen, plain.run().stdout_text());
    }
}

#[test]
fn a_server_has_a_session_and_no_terminal() {
    let command = "ps -o pid=,pgid=,sid=,tty= -p $$; readlink /proc/self/fd/0";
    let over = startup().args(["--quiet"]).one("tcp://127.0.0.1:9", &["bash", "-c", command]).run();
    let text = over.exits(1).ended.stdout_text().replace("(one) ", "");
    let [ids, stdin] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    let [pid, group, session, tty] = ids.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{text}")
    };
    assert_eq!((pid, pid, "?"), (group, session, tty));
    assert_eq!(stdin, "/dev/null");
}

#[test]
fn the_stamps_of_an_outer_launch_are_not_a_servers() {
    let outer = |name: &str| format!("NEMO_GYM_STARTUP_{name}");
    let run = |traced: bool| {
        let mut one = startup().args(["--quiet"]);
        for name in ["SPAWN_NS", "SETUP_DONE_NS", "SERVE_NS", "TRACEPARENT"] {
            one = one.var(&outer(name), "1");
        }
        let out = if traced { "out.jsonl" } else { "" };
        let one = one.out(out).one("tcp://127.0.0.1:9", &["env"]);
        one.run().exits(1).ended.stdout_text()
    };
    let text = run(true);
    let value = |name: &str| {
        let prefix = format!("(one) {}=", outer(name));
        text.lines().find_map(|line| line.strip_prefix(&prefix)).map(str::to_owned)
    };
    assert!(value("SPAWN_NS").unwrap().parse::<u64>().unwrap() > 1_700_000_000_000_000_000);
    assert!(value("TRACEPARENT").unwrap().starts_with("00-"), "{text}");
    assert_eq!((value("SETUP_DONE_NS"), value("SERVE_NS")), (None, None));
    assert!(text.contains("NEMO_GYM_OTEL_RUN_ID="), "{text}");
    let text = run(false);
    assert!(!text.contains("TRACEPARENT"), "nobody would see that trace\n{text}");
}

#[rstest]
#[case::without_traces("NEMO_GYM_OTEL_TRACES_ENABLED", "0")]
#[case::of_other_spans("NEMO_GYM_OTEL_SPAN_GROUPS", "per_rollout")]
#[case::on_the_console("NEMO_GYM_OTEL_EXPORTER", "console")]
fn servers_with_telemetry_have_one_run_id_whoever_sees_our_trace(
    #[case] name: &str,
    #[case] value: &str,
) {
    let command = "echo id=$NEMO_GYM_OTEL_RUN_ID,$NEMO_GYM_STARTUP_TRACEPARENT; exec sleep 1000";
    let over = startup()
        .var("NEMO_GYM_OTEL_ENABLED", "1")
        .var(name, value)
        .out("")
        .args(["--quiet", "--timeout", "2s"])
        .server("one", command, "tcp://127.0.0.1:9", "")
        .server("two", command, "tcp://127.0.0.1:8", "")
        .run()
        .exits(124);
    let text = over.ended.stdout_text();
    let id = |server: &str| {
        let prefix = format!("({server}) id=");
        let line = text.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap();
        line.strip_suffix(',').unwrap_or_else(|| panic!("a traceparent: {text}")).to_owned()
    };
    assert!(!id("one").is_empty(), "{text}");
    assert_eq!(id("one"), id("two"));
}

#[rstest]
#[case::by_default(&[], "", "nemo-gym")]
#[case::empty(&["OTEL_SERVICE_NAME="], "", "nemo-gym")]
#[case::as_ours(&["OTEL_SERVICE_NAME=mine"], "", "mine")]
#[case::of_its_own(&["OTEL_SERVICE_NAME=mine"], "env = { OTEL_SERVICE_NAME = 'own' }", "own")]
fn servers_report_as_the_service_group_of_their_supervisor(
    #[case] ours: &[&str],
    #[case] more: &str,
    #[case] theirs: &str,
) {
    let command = "echo group=$OTEL_SERVICE_NAME; exec sleep 1000";
    let run = |enabled: &str| {
        startup()
            .var("NEMO_GYM_OTEL_ENABLED", enabled)
            .var("NEMO_GYM_OTEL_EXPORTER", "console")
            .with(|run| ours.iter().fold(run, |run, &entry| run.entry(entry)))
            .out("")
            .args(["--quiet", "--timeout", "2s"])
            .server("one", command, "tcp://127.0.0.1:9", more)
            .run()
            .exits(124)
            .ended
            .stdout_text()
    };
    assert!(run("1").contains(&format!("(one) group={theirs}\n")));
    if ours.is_empty() {
        assert!(run("0").contains("(one) group=\n"), "with telemetry off nothing is added");
    }
}

#[test]
fn as_process_1_it_does_what_an_init_does() {
    let unshare = program("unshare", "util-linux");
    let over = with_strays()
        .with(|run| run.under([unshare.to_str().unwrap(), "-pf", "--mount-proc", "--kill-child"]))
        .args(["--then", "ps -o pid= -p $PPID; sleep 0.3"])
        .run()
        .exits(0)
        .outcome("ready");
    let text = over.ended.stdout_text();
    assert!(text.lines().any(|line| line.trim() == "1"), "{text}");
}

#[test]
fn as_process_1_it_is_ended_by_a_signal() {
    let unshare = program("unshare", "util-linux");
    let started = with_strays()
        .with(|run| run.under([unshare.to_str().unwrap(), "-pf", "--mount-proc", "--kill-child"]))
        .spawn()
        .recorded();
    let is_1 = |pid: &i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("NSpid:") && line.ends_with("\t1"))
    };
    let [front] = started.processes().into_iter().filter(is_1).collect::<Vec<_>>()[..] else {
        panic!("no process 1")
    };
    kill(Pid::from_raw(front), Signal::SIGTERM).unwrap();
    started.wait().exits(143).outcome("ready").says(&["ended by SIGTERM"]);
}

#[test]
fn under_another_one() {
    let port = free_port();
    let inner = format!(
        "exec {} run --name inner --ready http://127.0.0.1:{port}/ -- python3 -S serve.py port={port}",
        env!("CARGO_BIN_EXE_gym-startup")
    );
    let started = startup()
        .server("outer", &inner, &format!("http://127.0.0.1:{port}/"), "")
        .spawn()
        .recorded();
    started.signal(Signal::SIGTERM).wait().exits(143).outcome("ready");
}

#[test]
fn uvicorn_with_two_workers_ends_within_the_grace_time() {
    let venv = python_venv("uvicorn", &["uvicorn==0.35.0"]);
    let port = free_port();
    let app = "async def app(scope, receive, send):\n    \
               if scope['type'] == 'http':\n        \
               await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n        \
               await send({'type': 'http.response.body', 'body': b''})\n";
    let command = format!(
        "exec ./gym-stamp --venv {} uvicorn app:app --host 127.0.0.1 --port {port} --workers 2 \
         --lifespan off",
        venv.display()
    );
    let started = startup()
        .with(|run| run.file("app.py", 0o644, app))
        .args(["--grace", "30s"])
        .server("one", &command, &format!("http://127.0.0.1:{port}/"), "")
        .spawn()
        .recorded();
    let over = started.signal(Signal::SIGINT).wait().exits(130).outcome("ready").within(30);
    let trace = over.trace();
    let stages = trace.children(trace.only("gym.startup.server"));
    assert_eq!(stages.len(), 2, "{stages:#?}");
}

#[test]
fn ctrl_z_stops_the_front_and_no_server() {
    let mut terminal = Terminal::new();
    let port = free_port();
    let script = "\"$@\"; touch stopped; while [ ! -e go-on ]; do sleep 0.05; done; fg; exit $?";
    let started = startup()
        .with(|run| run.on_terminal(&terminal).under(["bash", "-mc", script, "bash"]))
        .server("one", &serve(port, ""), &format!("http://127.0.0.1:{port}/"), "")
        .spawn()
        .recorded();
    terminal.write("\x1a");
    let started = started.until_there_is("stopped");
    let mut answer = TcpStream::connect(("127.0.0.1", port)).unwrap();
    answer.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    answer.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    let started = started.write("go-on");
    // The terminal is the front's again: no more that of the shell, or of what that waits with.
    let of_run = started.processes_with("gym-startup\u{0}run");
    let front = of_run.into_iter().find(|&pid| pid != started.pid()).unwrap();
    started.running.wait_until(|| {
        let stat = fs::read_to_string(format!("/proc/{front}/stat")).unwrap();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let (group, of_terminal) = (fields[2], fields[5]);
        group == of_terminal
    });
    assert_eq!(started.processes_with(SERVING).len(), 1);
    terminal.write("\x03");
    // What it shows has to be read, or the terminal fills up.
    started.running.wait_until(|| {
        terminal.read();
        started.processes().is_empty()
            || started.processes().iter().all(|&pid| pid == started.pid())
    });
    started.wait().exits(130).outcome("ready");
}

#[test]
fn children_of_a_caller_that_ignores_theirs_are_noticed() {
    let ignored = |run: crate::support::Run| run.ignored(Signal::SIGCHLD);
    let command = ["grep", "SigIgn", "/proc/self/status"];
    let over =
        startup().with(ignored).one("tcp://127.0.0.1:9", &command).run().exits(1).outcome("failed");
    let plain = ignored(
        crate::support::command("/bin/grep").args(command[1..].iter().copied()).arg0("grep"),
    )
    .run();
    assert_eq!(over.ended.stdout_text(), format!("(one) {}", plain.stdout_text()));
    let mask = plain.stdout_text();
    let mask = u64::from_str_radix(mask.trim().rsplit('\t').next().unwrap(), 16).unwrap();
    assert_ne!(mask & 1 << (Signal::SIGCHLD as u32 - 1), 0);
}

#[test]
fn servers_that_were_to_ignore_an_interrupt_are_terminated_at_once() {
    startup()
        .with(|run| run.ignored(Signal::SIGINT))
        .args(["--grace", "100s"])
        .server("one", "trap '' INT; sleep 1000 & wait", "tcp://127.0.0.1:9", "")
        .spawn()
        .until(1, "sleep\u{0}1000")
        .signal(Signal::SIGTERM)
        .wait()
        .exits(143)
        .within(30);
}

#[test]
fn so_they_are_where_the_keeper_is_lost() {
    let started = startup()
        .with(|run| run.ignored(Signal::SIGINT))
        .args(["--grace", "100s"])
        .server("one", "exec sleep 1000", "tcp://127.0.0.1:9", "")
        .spawn()
        .until(1, "sleep\u{0}1000");
    kill(Pid::from_raw(started.keeper()), Signal::SIGKILL).unwrap();
    started.wait().exits(1).within(30);
}

#[test]
fn a_name_server_that_does_not_answer_holds_up_no_end() {
    let run = startup().args(["--grace", "30s"]);
    let wrapper = with_a_silent_name_server(run.folder());
    run.with(|run| run.under(wrapper))
        .server("one", "exec sleep 1000", "http://server.example/", "")
        .spawn()
        .until(1, "sleep\u{0}1000")
        .signal(Signal::SIGTERM)
        .wait()
        .exits(143)
        .within(30);
}

#[test]
fn without_threads_nothing_is_started() {
    let over = startup()
        .with(|run| run.without_system_call(libc::SYS_clone3, Errno::EAGAIN))
        .server("one", "touch started", "tcp://127.0.0.1:9", "")
        .run()
        .exits(1)
        .says(&["gym-startup: nothing was started: Resource temporarily unavailable\n"]);
    assert!(!over.ended.folder().join("started").exists());
}

#[test]
fn a_keeper_that_is_told_to_end_ends_the_servers() {
    let started = with_strays().spawn().recorded();
    kill(Pid::from_raw(started.keeper()), Signal::SIGTERM).unwrap();
    started.wait().exits(1).outcome("ready");
}
