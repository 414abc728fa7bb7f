//! Where the output of servers goes, and where the records go.

use std::fs;
use std::io::{PipeReader, Read};
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rstest::rstest;

use gym_stamp::telemetry::Protocol;

use crate::support::collector::{Collector, HttpAnswer, closed, listener, silent};
use crate::support::full_pipe;
use crate::support::startup::{Startup, Trace, serve, startup};
use crate::support::toolbox::free_port;

fn ends_after(command: &str) -> Startup {
    startup().args(["--quiet"]).one("tcp://127.0.0.1:9", &["bash", "-c", command])
}

#[test]
fn lines_come_as_they_were_written() {
    let over =
        ends_after(r"printf 'out\n'; printf 'err\n' >&2; printf '\xff\x00\xfe\n\npart'").run();
    let over = over.exits(1);
    assert_eq!(over.ended.stdout, b"(one) out\n(one) \xff\x00\xfe\n(one) \n(one) part\n");
    // Before or after our own words.
    assert!(over.ended.stderr_text().lines().any(|line| line == "(one) err"), "{}", over.ended);
}

#[test]
fn lines_stay_whole_however_they_are_written() {
    let command = "python3 -c \"
import os, time
for i in range(50):
    for piece in b'a' * 3000, b'b' * 3000, b'\\n':
        os.write(1, piece)
        time.sleep(0.001)
\"";
    let one = format!("{command}; while [ ! -e done ]; do sleep 0.05; done");
    let two = format!("{command}; touch done; sleep 1000");
    let over = startup()
        .args(["--quiet"])
        .server("one", &one, "tcp://127.0.0.1:9", "")
        .server("two", &two, "tcp://127.0.0.1:8", "")
        .run()
        .exits(1);
    let whole = "a".repeat(3000) + &"b".repeat(3000);
    let text = over.ended.stdout_text();
    let of_one: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("(one) ")).collect();
    assert_eq!(of_one.len(), 50);
    for line in text.lines() {
        assert_eq!(&line[6..], whole);
    }
}

#[test]
fn much_output_is_forwarded_whole_and_without_growing() {
    const LINES: usize = 1_000_000;
    let port = free_port();
    // A hundred bytes a line, with the newline.
    let line = "x".repeat(99);
    let command = format!("yes {line} | head -n {LINES}; touch written; {}", serve(port, ""));
    let (reader, writer) = std::io::pipe().unwrap();
    let counting = thread::spawn(move || {
        let (mut count, mut reader, mut chunk) = (0, reader, vec![0; 1 << 20]);
        while let Ok(length @ 1..) = reader.read(&mut chunk) {
            count += chunk[..length].iter().filter(|&&byte| byte == b'\n').count();
        }
        count
    });
    let started = startup()
        .with(|run| run.fd(1, writer))
        .args(["--quiet"])
        .server("one", &command, &format!("http://127.0.0.1:{port}/"), "")
        .spawn()
        .until_there_is("written")
        .recorded();
    let peak_kib = |pid: i32| -> usize {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    let peak = peak_kib(started.pid()) + peak_kib(started.keeper());
    started.signal(Signal::SIGTERM).wait().exits(143);
    assert_eq!(counting.join().unwrap(), LINES);
    assert!(peak < 64 * 1024, "{peak} KiB");
}

#[test]
fn whoever_reads_nothing_loses_output_and_is_told() {
    let (reader, writer) = std::io::pipe().unwrap();
    let port = free_port();
    let command = format!("yes | head -c 50000000; touch written; {}", serve(port, ""));
    let started = startup()
        .with(|run| run.fd(1, writer))
        .server("one", &command, &format!("http://127.0.0.1:{port}/"), "")
        .spawn()
        .until_there_is("written")
        .recorded();
    let mut reader = reader;
    let reading = thread::spawn(move || {
        let mut text = Vec::new();
        reader.read_to_end(&mut text).unwrap();
        text
    });
    thread::sleep(Duration::from_millis(500));
    let over = started.signal(Signal::SIGTERM).wait().exits(143);
    let kept = reading.join().unwrap();
    assert!(kept.len() < 50_000_000 / 2 * 8, "{}", kept.len());
    assert!(String::from_utf8_lossy(&kept).lines().all(|line| line.starts_with("(one) ")));
    over.says(&["bytes"]);
}

/// Takes what comes, but not at once: what is written waits for it. Not to the end, which is not
/// waited for as long as that takes on a busy machine.
fn slowly(mut reader: PipeReader) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let (mut all, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
        while let Ok(length @ 1..) = reader.read(&mut chunk) {
            all.extend(&chunk[..length]);
            if all.len() < 10_000_000 {
                thread::sleep(Duration::from_millis(2));
            }
        }
        all
    })
}

#[test]
fn a_flood_on_stdout_costs_no_line_of_stderr() {
    let flood = "
import os
for i in range(1500):
    os.write(1, b'x' * 49_999 + b'\\n')
    if i % 100 == 0:
        os.write(2, b'ERR %d\\n' % i)
raise SystemError('the reason')";
    let (reader, writer) = std::io::pipe().unwrap();
    let reading = slowly(reader);
    let over = startup()
        .with(|run| run.fd(1, writer))
        .args(["--no-progress"])
        .one("tcp://127.0.0.1:9", &["python3", "-c", flood])
        .run()
        .exits(1)
        .says(&["\n(one) SystemError: the reason\n", "\n  | SystemError: the reason\n"]);
    let text = over.ended.stderr_text();
    let errors: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("(one) ERR ")).collect();
    let written: Vec<_> = (0..1500).step_by(100).map(|number| number.to_string()).collect();
    assert_eq!(errors, written);
    let out = reading.join().unwrap();
    assert_eq!(out.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).count(), 1500);
    assert!(!text.contains("lost") && !text.contains("missing"), "{}", over.ended);
}

#[test]
fn the_last_line_is_told_however_slowly_all_is_read() {
    // Writes until nothing more is taken, makes room in its own pipe for the last line, and ends:
    // long before the keeper loses its patience.
    let flood = "
import fcntl, os, time
os.set_blocking(1, False)
full = time.monotonic()
while time.monotonic() < full + 0.2:
    try:
        os.write(1, b'x' * 99 + b'\\n')
        full = time.monotonic()
    except BlockingIOError:
        time.sleep(0.01)
fcntl.fcntl(1, 1031, 1 << 20)
os.write(1, b'THE REASON\\n')
os._exit(3)";
    let (_reader, writer) = std::io::pipe().unwrap();
    startup()
        .with(|run| run.fd(1, writer))
        .one("tcp://127.0.0.1:9", &["python3", "-S", "-c", flood])
        .run()
        .exits(3)
        .outcome("failed")
        .says(&["\n  | THE REASON\n"]);
}

#[test]
fn floods_at_the_same_time_cost_nothing_while_somebody_reads() {
    let (reader, writer) = std::io::pipe().unwrap();
    let reading = slowly(reader);
    let line = "x".repeat(99);
    let flood = |number| format!("yes {line} | head -n 100000; touch {number}; yes {line}");
    let over = startup()
        .with(|run| run.fd(1, writer))
        .args(["--quiet"])
        .server("one", &flood(1), "tcp://127.0.0.1:9", "")
        .server("two", &flood(2), "tcp://127.0.0.1:8", "")
        .spawn()
        .until_there_is("1")
        .until_there_is("2")
        .signal(Signal::SIGTERM)
        .wait()
        .exits(143);
    over.ended.says("gym-startup: ended by SIGTERM before all servers were ready.\n");
    let out = String::from_utf8(reading.join().unwrap()).unwrap();
    for name in ["one", "two"] {
        let line = format!("({name}) {line}");
        assert!(out.lines().filter(|it| *it == line).count() >= 100_000, "{name}");
    }
}

#[test]
fn a_stdout_that_nobody_reads_keeps_nothing_from_stderr() {
    let (_reader, full) = full_pipe();
    startup()
        .with(|run| run.fd(1, full))
        .one("tcp://127.0.0.1:9", &["bash", "-c", "yes | head -c 5000000; echo why >&2; exit 3"])
        .run()
        .exits(3)
        .within(30)
        .outcome("failed")
        .says(&["(one) why\n", "gym-startup: one exited with status 3", "\n  | why\n"])
        .says(&["gym-startup: the end of the servers' output is missing\n"]);
}

#[test]
fn a_stdout_that_has_no_room_is_told_of_once() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let over = startup()
        .with(|run| run.fd(1, full))
        .one("tcp://127.0.0.1:9", &["bash", "-c", "echo a; sleep 0.2; echo b; exit 3"])
        .run()
        .exits(3);
    let words = "gym-startup: standard output: No space left on device: not all of it is there\n";
    assert_eq!(over.ended.stderr_text().matches(words).count(), 1, "{}", over.ended);
}

#[test]
fn lines_of_both_streams_in_one_pipe_stay_whole() {
    let (reader, writer) = std::io::pipe().unwrap();
    let reading = slowly(reader);
    let command = "
yes $(printf 'o%.0s' {1..4999}) | head -n 2000 & yes $(printf 'e%.0s' {1..4999}) | head -n 2000 >&2
wait";
    startup()
        .with(|run| run.fd(1, writer.try_clone().unwrap()).fd(2, writer))
        .args(["--quiet"])
        .one("tcp://127.0.0.1:9", &["bash", "-c", command])
        .run()
        .exits(1);
    let text = String::from_utf8(reading.join().unwrap()).unwrap();
    for letter in ["o", "e"] {
        let line = format!("(one) {}", letter.repeat(4999));
        assert_eq!(text.lines().filter(|it| *it == line).count(), 2000, "{letter}");
    }
}

fn exporting(to: SocketAddr) -> Startup {
    startup()
        .serves("one", "")
        .args(["--exit-when-ready"])
        .var("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{to}"))
}

#[rstest]
fn a_collector_gets_what_the_file_has(
    #[values(Protocol::Grpc, Protocol::HttpProtobuf)] protocol: Protocol,
) {
    let collector = Collector::willing(protocol);
    let over = exporting(collector.address)
        .var("OTEL_EXPORTER_OTLP_PROTOCOL", protocol.as_str())
        .run()
        .exits(0)
        .outcome("ready");
    let sent = Trace::of(collector.seen().into_iter().map(|seen| seen.request));
    assert_eq!(sent.spans, over.trace().spans);
}

#[test]
fn failures_are_exported_too() {
    let collector = Collector::willing(Protocol::Grpc);
    startup()
        .one("tcp://127.0.0.1:9", &["bash", "-c", "exit 3"])
        .out("")
        .var("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url())
        .run()
        .exits(3);
    let sent = Trace::of(collector.seen().into_iter().map(|seen| seen.request));
    assert_eq!(sent.only("gym.startup").status.as_ref().unwrap().code, 2);
}

#[test]
fn a_trace_that_its_caller_does_not_sample_is_recorded_and_not_sent() {
    let collector = Collector::willing(Protocol::Grpc);
    let caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    exporting(collector.address).var("TRACEPARENT", caller).run().exits(0).outcome("ready");
    assert!(collector.seen().is_empty());
}

#[rstest]
#[case::off("NEMO_LENS_ENABLED", "no")]
#[case::disabled("OTEL_SDK_DISABLED", "true")]
#[case::no_traces("NEMO_GYM_OTEL_TRACES_ENABLED", "0")]
#[case::another_group("NEMO_GYM_OTEL_SPAN_GROUPS", "per_rollout")]
fn nothing_is_sent_where_settings_say_so(#[case] name: &str, #[case] value: &str) {
    let collector = Collector::willing(Protocol::Grpc);
    exporting(collector.address).var(name, value).run().exits(0).outcome("ready");
    assert!(collector.seen().is_empty());
}

/// Whatever the collector does: the status and the record are the run's own, and the time is kept.
#[rstest]
fn no_collector_changes_anything(
    #[values("refuses", "hangs", "answers 503")] what: &str,
    #[values(0, 3)] status: i32,
) {
    let unwilling;
    let to = match what {
        "refuses" => closed(),
        "hangs" => silent(),
        _ => {
            unwilling = Collector::http([HttpAnswer::new("503 x", &[], b"")]);
            unwilling.address
        }
    };
    let run = if status == 0 {
        exporting(to)
    } else {
        startup()
            .one("tcp://127.0.0.1:9", &["bash", "-c", "exit 3"])
            .var("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{to}"))
    };
    run.var("OTEL_EXPORTER_OTLP_TIMEOUT", "1000")
        .var("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        .run()
        .exits(status)
        .outcome(if status == 0 { "ready" } else { "failed" })
        .says(&["not accepted"])
        .within(30);
}

#[rstest]
fn no_collector_changes_another_outcome(
    #[values("refuses", "hangs")] what: &str,
    #[values("interrupted", "timeout", "then")] outcome: &str,
) {
    let to = if what == "refuses" { closed() } else { silent() };
    let run = startup()
        .var("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{to}"))
        .var("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        .var("OTEL_EXPORTER_OTLP_TIMEOUT", "1000");
    let over = match outcome {
        "interrupted" => {
            let started = run.serves("one", "after=1000").spawn().until(1, "serve.py");
            started.signal(Signal::SIGTERM).wait().exits(143).outcome("interrupted")
        }
        "timeout" => {
            let run = run.serves("one", "after=1000").args(["--timeout", "2s"]);
            run.run().exits(124).outcome("timeout")
        }
        _ => run.serves("one", "").args(["--then", "exit 7"]).run().exits(7).outcome("ready"),
    };
    over.says(&["not accepted"]).within(30);
}

#[rstest]
fn an_exporter_that_crashes_or_hangs_changes_nothing(
    #[values(Signal::SIGABRT, Signal::SIGSTOP)] signal: Signal,
) {
    let (listener, address) = listener();
    let started = exporting(address).var("OTEL_EXPORTER_OTLP_TIMEOUT", "5000").spawn();
    let connection = listener.accept().unwrap();
    let [exporter] = started.processes_with("export\0-")[..] else { panic!("no exporter") };
    kill(Pid::from_raw(exporter), signal).unwrap();
    let over = started.wait().exits(0).outcome("ready").within(30);
    over.says(&["nothing was exported"]);
    drop(connection);
}

#[test]
fn an_exporter_at_work_does_not_hold_up_the_servers_end() {
    let started = startup()
        .serves("one", "")
        .var("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", silent()))
        .var("OTEL_EXPORTER_OTLP_TIMEOUT", "8000")
        .spawn()
        .recorded()
        .signal(Signal::SIGTERM)
        .until(0, "serve.py");
    assert_eq!(started.processes_with("export\0-").len(), 1);
    started.wait().exits(143).within(30);
}
