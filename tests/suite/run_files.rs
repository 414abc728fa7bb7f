//! The files that a run writes: logs, records, and what can be no such file.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::os::unix::net::UnixListener;

use nix::libc;
use nix::sys::resource::Resource;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use rstest::rstest;

use crate::support::full_pipe;
use crate::support::startup::{Over, Startup, Trace, startup};

/// A run whose only server would leave a file, and be ready.
fn starts() -> Startup {
    startup().serves("one", "").args(["--exit-when-ready"])
}

/// It has said `words` and no other, and nothing was started.
#[track_caller]
fn refused(over: Over, words: &str) {
    let over = over.exits(2);
    over.ended.prints("").says(format!("gym-startup: {words}\n"));
}

#[test]
fn log_files_get_all_of_it_and_we_nothing() {
    let command = "echo out; echo err >&2; printf part; exit 3";
    let over = startup()
        .args(["--log-dir", "logs/of/today"])
        .server("one", command, "tcp://127.0.0.1:9", "")
        .run()
        .exits(1)
        .says(&["err", "part"]);
    let log = fs::read_to_string(over.ended.folder().join("logs/of/today/one.log")).unwrap();
    assert_eq!(log, "out\nerr\npart");
    over.ended.prints("");
}

#[rstest]
#[case("a FIFO")]
#[case("a socket")]
#[case("a directory")]
fn what_is_no_log_is_refused(#[case] what: &str) {
    let starts = starts().args(["--log-dir", "."]);
    let log = starts.folder().join("one.log");
    let _listener = match what {
        "a FIFO" => mkfifo(&log, Mode::S_IRWXU).map(|()| None).unwrap(),
        "a socket" => Some(UnixListener::bind(&log).unwrap()),
        _ => fs::create_dir(&log).map(|()| None).unwrap(),
    };
    let why = format!("it is {what}, and a log is a regular file, or a device such as /dev/null");
    refused(starts.out("").run(), &format!("--log-dir: ./one.log: {why}"));
}

#[test]
fn a_log_that_became_a_pipe_is_not_read() {
    startup()
        .args(["--log-dir", "."])
        .server("one", "rm one.log; mkfifo one.log; exit 3", "tcp://127.0.0.1:9", "")
        .run()
        .exits(1)
        .says(&["one exited with status 3"])
        .within(30);
}

#[test]
fn a_device_takes_a_log() {
    let starts = starts().args(["--log-dir", "."]);
    symlink("/dev/null", starts.folder().join("one.log")).unwrap();
    starts.run().exits(0).outcome("ready");
}

#[rstest]
#[case::no_folder("no/out.jsonl", "No such file or directory")]
#[case::no_folder_but_a_file("serve.py/out.jsonl", "Not a directory")]
#[case::a_folder(".", "Is a directory")]
#[case::a_link_to_no_folder("link", "No such file or directory")]
fn a_record_that_could_not_be_written_is_refused(#[case] out: &str, #[case] why: &str) {
    let starts = starts().out(out);
    symlink("no/out.jsonl", starts.folder().join("link")).unwrap();
    refused(starts.run(), &format!("--out: {out}: {why}"));
}

#[test]
fn a_record_is_appended_to_those_before() {
    let starts = starts();
    let out = starts.folder().join("out.jsonl");
    let before = format!("{}\n\n", r#"{"resourceSpans":[]}"#);
    fs::write(&out, &before).unwrap();
    let over = starts.run().exits(0);
    let text = fs::read_to_string(over.ended.folder().join("out.jsonl")).unwrap();
    let added = text.strip_prefix(&before).unwrap();
    Trace::of(gym_stamp::telemetry::json::read_line(added.as_bytes()).unwrap()).only("gym.startup");
}

#[rstest]
#[case::text("a line of text\n")]
#[case::a_fleet("[[server]]\n")]
#[case::other_json("{\"a\": 1}\n")]
fn what_is_no_record_is_not_appended_to(#[case] text: &str) {
    let starts = starts();
    let out = starts.folder().join("out.jsonl");
    fs::write(&out, text).unwrap();
    let over = starts.run().exits(2);
    assert_eq!(fs::read_to_string(over.ended.folder().join("out.jsonl")).unwrap(), text);
    over.ended.prints("").says(
        "gym-startup: --out: out.jsonl: it holds something else than OTLP JSON lines, and nothing is \
         appended to that\n",
    );
}

#[test]
fn a_record_is_not_what_a_dash_stands_for_elsewhere() {
    let words = "- would be a file of that name, not standard output: ./- is, or /dev/stdout";
    refused(starts().out("-").run(), &format!("--out: {words}"));
    assert!(starts().out("./-").run().exits(0).ended.folder().join("-").exists());
}

#[test]
fn a_record_may_be_a_link_to_what_is_not_there_yet() {
    let starts = starts().out("link");
    symlink("out.jsonl", starts.folder().join("link")).unwrap();
    let over = starts.run().exits(0).outcome("ready");
    assert!(over.ended.folder().join("link").is_symlink());
}

#[test]
fn a_record_may_be_no_file() {
    starts().out("/dev/null").run().exits(0);
    let over = starts().out("/dev/stdout").run().exits(0);
    let line = gym_stamp::telemetry::json::read_line(&over.ended.stdout).unwrap();
    Trace::of(line).only("gym.startup");
}

#[test]
fn a_record_that_nobody_takes_holds_up_nobody() {
    let starts = starts().out("fifo");
    mkfifo(&starts.folder().join("fifo"), Mode::S_IRWXU).unwrap();
    let words = "gym-startup: --out: fifo: nobody reads it\n";
    starts.run().exits(0).says(&[words]).within(30);

    let (_reader, full) = full_pipe();
    let starts = self::starts().out("/dev/stdout").with(|run| run.fd(1, full));
    let words = "gym-startup: --out: /dev/stdout: not all of it was taken in time\n";
    starts.run().exits(0).says(&[words]).within(30);
}

#[test]
fn a_record_goes_to_whoever_reads_the_pipe() {
    let starts = starts().out("fifo");
    let fifo = starts.folder().join("fifo");
    mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    let mut reader = fs::File::options();
    let mut reader = reader.read(true).custom_flags(libc::O_NONBLOCK).open(fifo).unwrap();
    starts.run().exits(0);
    let mut line = Vec::new();
    reader.read_to_end(&mut line).unwrap();
    let line = gym_stamp::telemetry::json::read_line(&line).unwrap();
    Trace::of(line).only("gym.startup");
}

/// Of a disk that is full they would get the same error, and no signal.
#[test]
fn files_that_may_not_grow_end_nobody() {
    let starts = starts().server("two", "yes; sleep 60", "tcp://127.0.0.1:9", "");
    let stdout = fs::File::create(starts.folder().join("stdout")).unwrap();
    let over = starts
        .args(["--timeout", "2"])
        .with(|run| run.fd(1, stdout).limit(Resource::RLIMIT_FSIZE, 1000, 1000))
        .run()
        .exits(124)
        .says(&["gym-startup: --out: out.jsonl: File too large\n"])
        .says(&["gym-startup: standard output: File too large: not all of it is there\n"])
        .says(&["gym-startup: two was not ready "]);
    assert_eq!(fs::metadata(over.ended.folder().join("stdout")).unwrap().len(), 1000);
    assert!(!over.ended.folder().join("out.jsonl").exists());
}
