//! What a server's process makes of its environment, its stages and its report.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStringExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use gym_stamp::contract::{SERVE_NS, SETUP_DONE_NS, SPAWN_NS, TRACEPARENT, read_ns};
use gym_stamp::server::{ServerStartupTimeline, WORKER_ENV, is_worker};
use gym_stamp::spans::{self, RandomIds, Records, ServerProcess};
use gym_stamp::timeline::SystemClock;
use gym_stamp::traceparent::TraceParentError;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rstest::rstest;

use crate::support::records::{CountedIds, FakeClock, Kept, env, lines, tree};
use crate::support::toolbox::{program, spawn};

const ENTERED_NS: u64 = 1_000;
const NOTHING: &[(&str, u64, u64)] = &[];
const SPAWN_ONLY: &[(&str, u64, u64)] = &[("interpreter_start", 100, 1_000)];
const BOTH: &[(&str, u64, u64)] = &[("venv_setup", 100, 400), ("interpreter_start", 400, 1_000)];
const WORKER: &[(&str, u64, u64)] = &[("worker_start", 800, 1_000)];

type Startup = ServerStartupTimeline<FakeClock, CountedIds>;

fn main_process() -> ServerProcess {
    ServerProcess {
        name: "reward".to_owned(),
        server_type: Some("resources_servers".to_owned()),
        worker: false,
        pid: 42,
    }
}

fn worker_process() -> ServerProcess {
    ServerProcess { worker: true, ..main_process() }
}

fn startup(server: ServerProcess, env: impl Fn(&str) -> Option<OsString>) -> (Startup, FakeClock) {
    let clock = FakeClock::at(ENTERED_NS);
    (Startup::with_parts(server, env, clock.clone(), CountedIds::default()), clock)
}

#[track_caller]
fn assert_stages(startup: &Startup, expected: &[(&str, u64, u64)]) {
    let stages = startup.stages().iter();
    let stages: Vec<_> = stages.map(|s| (s.name.as_str(), s.start_ns, s.end_ns)).collect();
    assert_eq!(stages, expected);
}

#[rstest]
#[case::both("100", "400", BOTH)]
#[case::all_at_one_moment("1000", "1000", &[("venv_setup", 1_000, 1_000), ("interpreter_start", 1_000, 1_000)])]
#[case::no_setup_done("100", "", SPAWN_ONLY)]
#[case::no_spawn("", "400", NOTHING)]
#[case::neither("", "", NOTHING)]
#[case::out_of_order("100", "99", SPAWN_ONLY)]
#[case::setup_done_in_future("100", "1001", SPAWN_ONLY)]
#[case::spawn_in_future("1001", "1001", NOTHING)]
#[case::not_a_number("100", "soon", SPAWN_ONLY)]
#[case::spawn_not_a_number("0x64", "400", NOTHING)]
#[case::fraction("100", "400.0", SPAWN_ONLY)]
#[case::negative("100", "-400", SPAWN_ONLY)]
#[case::spawn_negative("-100", "400", NOTHING)]
#[case::zero("100", "0", SPAWN_ONLY)]
#[case::spawn_zero("000", "400", NOTHING)]
#[case::larger_than_i64("100", "9223372036854775808", SPAWN_ONLY)]
#[case::larger_than_u64("100", "18446744073709551616", SPAWN_ONLY)]
#[case::spawn_larger_than_u64("18446744073709551716", "400", NOTHING)]
#[case::not_unicode_digits("100", "٤٠½", SPAWN_ONLY)]
#[case::spaces(" 100\n", "\t400 ", BOTH)]
#[case::plus("+100", "+400", BOTH)]
#[case::two_pluses("100", "++400", SPAWN_ONLY)]
#[case::underscores("1_0_0", "4_00", BOTH)]
#[case::doubled_underscore("100", "4__00", SPAWN_ONLY)]
#[case::other_digits("١٠٠", "４００", BOTH)]
#[case::leading_zeros("0100", "000400", BOTH)]
fn a_main_process_starts_with_what_its_stamps_tell(
    #[case] spawn: &str,
    #[case] setup_done: &str,
    #[case] expected: &[(&str, u64, u64)],
) {
    // A worker's stamp in a main process says nothing: the main process of a nested launch.
    let env = env([(SPAWN_NS, spawn), (SETUP_DONE_NS, setup_done), (SERVE_NS, "800")]);

    assert_stages(&startup(main_process(), env).0, expected);
}

#[rstest]
#[case::handed_off("800", WORKER)]
#[case::this_moment("1000", &[("worker_start", 1_000, 1_000)])]
#[case::in_future("1001", NOTHING)]
#[case::not_set("", NOTHING)]
#[case::not_a_number("now", NOTHING)]
#[case::zero("0", NOTHING)]
#[case::as_int_takes_it(" +8_00 ", WORKER)]
fn a_worker_starts_at_its_main_processs_hand_off_and_counts_no_setup(
    #[case] serve: &str,
    #[case] expected: &[(&str, u64, u64)],
) {
    let env = env([(SPAWN_NS, "100"), (SETUP_DONE_NS, "400"), (SERVE_NS, serve)]);

    assert_stages(&startup(worker_process(), env).0, expected);
}

#[test]
fn without_any_variable_there_is_no_stage_and_nothing_to_report() {
    for server in [main_process(), worker_process()] {
        let (mut startup, _) = startup(server, env([]));
        let kept = Kept::default();
        startup.report(&kept);

        assert_stages(&startup, NOTHING);
        assert_eq!(kept.0.into_inner(), []);
    }
}

#[test]
fn a_stamp_that_is_not_text_is_as_if_not_set() {
    let env = |name: &str| match name {
        SPAWN_NS => Some(OsString::from("100")),
        SETUP_DONE_NS => Some(OsString::from_vec(b"400\xff".to_vec())),
        _ => None,
    };

    assert_stages(&startup(main_process(), env).0, SPAWN_ONLY);
}

#[rstest]
#[case("1", true)]
#[case("", false)]
#[case("0", false)]
#[case("true", false)]
#[case(" 1", false)]
fn only_a_one_makes_a_worker(#[case] value: &str, #[case] worker: bool) {
    assert_eq!(is_worker(env([(WORKER_ENV, value)])), worker);
    assert!(!is_worker(env([])));
}

#[test]
fn marks_go_on_where_the_stamps_end() {
    let env = env([(SPAWN_NS, "100"), (SETUP_DONE_NS, "400")]);
    let (mut startup, clock) = startup(main_process(), env);
    clock.set(1_500);
    startup.mark("load_config");
    startup.add("imports", 1_600, 1_700);
    clock.set(1_800);
    startup.mark("load_config");

    let more = [("load_config", 1_000, 1_500), ("imports", 1_600, 1_700)];
    assert_stages(&startup, &[BOTH, &more, &[("load_config", 1_700, 1_800)]].concat());
}

#[test]
fn a_main_process_reports_its_spans_and_a_sample_a_stage() {
    let env = env([(SPAWN_NS, "100"), (SETUP_DONE_NS, "400")]);
    let (mut startup, clock) = startup(main_process(), env);
    clock.set(2_501_000);
    startup.mark("load_config");
    let kept = Kept::default();
    startup.report(&kept);

    let records = kept.0.borrow();
    let [Records { spans, metrics }] = &records[..] else { panic!("{records:?}") };
    let server = r#"nemo.gym.server.name="reward" nemo.gym.server.type="resources_servers" nemo.gym.server.worker=false"#;
    assert_eq!(
        tree(spans),
        format!(
            r#"gym.server.startup 100..2501000 {server} process.pid=42
  gym.server.startup.venv_setup 100..400 {server} process.pid=42 nemo.gym.startup.stage="venv_setup"
  gym.server.startup.interpreter_start 400..1000 {server} process.pid=42 nemo.gym.startup.stage="interpreter_start"
  gym.server.startup.load_config 1000..2501000 {server} process.pid=42 nemo.gym.startup.stage="load_config"
"#
        )
    );
    assert_eq!(
        lines(metrics),
        format!(
            r#"gym.server.startup_stage_duration_ms 0.0003 {server} nemo.gym.startup.stage="venv_setup"
gym.server.startup_stage_duration_ms 0.0006 {server} nemo.gym.startup.stage="interpreter_start"
gym.server.startup_stage_duration_ms 2.5 {server} nemo.gym.startup.stage="load_config"
"#
        )
    );
    let times: Vec<_> = metrics.iter().map(|sample| sample.time_ns).collect();
    assert_eq!(times, [400, 1_000, 2_501_000]);
}

#[test]
fn a_worker_reports_under_names_of_its_own() {
    let (mut startup, _) = startup(worker_process(), env([(SERVE_NS, "800")]));
    let Records { spans, metrics } = startup.take_records().unwrap();

    let server = r#"nemo.gym.server.name="reward" nemo.gym.server.type="resources_servers" nemo.gym.server.worker=true"#;
    assert_eq!(
        tree(&spans),
        format!(
            r#"gym.server.startup.worker 800..1000 {server} process.pid=42
  gym.server.startup.worker.worker_start 800..1000 {server} process.pid=42 nemo.gym.startup.stage="worker_start"
"#
        )
    );
    assert_eq!(
        lines(&metrics),
        format!(
            r#"gym.server.startup_stage_duration_ms 0.0002 {server} nemo.gym.startup.stage="worker_start"
"#
        )
    );
}

#[rstest]
#[case::none(None)]
#[case::empty(Some(""))]
fn a_server_without_a_type_has_no_such_attribute(#[case] server_type: Option<&str>) {
    let server = ServerProcess { server_type: server_type.map(str::to_owned), ..main_process() };
    let (mut startup, _) = startup(server, env([(SPAWN_NS, "100")]));
    let Records { spans, metrics } = startup.take_records().unwrap();

    assert!(!tree(&spans).contains(spans::SERVER_TYPE));
    assert!(!lines(&metrics).contains(spans::SERVER_TYPE));
}

#[test]
fn odd_names_are_kept_to_the_letter() {
    let odd = "a \"b\" 'c' \\ é 🦀\n";
    let server = ServerProcess { name: odd.to_owned(), ..main_process() };
    let (mut startup, _) = startup(server, env([]));
    startup.mark(odd);
    startup.mark("");
    let Records { spans, metrics } = startup.take_records().unwrap();

    let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    let stage = format!("gym.server.startup.{odd}");
    assert_eq!(names, ["gym.server.startup", &stage, "gym.server.startup."]);
    let value = format!("={odd:?}");
    assert_eq!(tree(&spans).matches(&value).count(), 4);
    assert_eq!(lines(&metrics).matches(&value).count(), 3);
}

#[test]
fn a_report_comes_once() {
    let (mut startup, _) = startup(main_process(), env([]));
    let kept = Kept::default();
    startup.report(&kept);
    startup.mark("load_config");
    startup.report(&kept);
    startup.mark("late");
    startup.report(&kept);

    let reports = kept.0.into_inner();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert_eq!(reports[0].metrics.len(), 1);
}

#[test]
fn a_sink_that_panics_loses_the_report_alone() {
    let (mut startup, _) = startup(main_process(), env([(SPAWN_NS, "100")]));
    startup.report(&|_: Records| panic!("the sink"));
    startup.mark("load_config");

    assert_eq!(startup.stages().len(), 2);
    assert_eq!(startup.take_records(), None);
}

#[test]
fn telemetry_that_is_off_does_nothing() {
    let mut startup = Startup::disabled();
    startup.mark("load_config");
    startup.add("imports", 1, 2);
    let kept = Kept::default();
    startup.report(&kept);

    assert_eq!(kept.0.into_inner(), []);
    assert_stages(&startup, NOTHING);
    assert_eq!(startup.announce_serve(), None);
    assert_eq!(startup.take_records(), None);
    assert_eq!(startup.traceparent_error(), None);
    assert_eq!(ServerStartupTimeline::new("reward", None, false).stages(), []);
    let (clock, ids) = (size_of::<SystemClock>(), size_of::<RandomIds>());
    assert_eq!((clock, ids), (0, 0));
}

#[test]
fn a_worker_is_told_when_its_main_process_handed_off() {
    let (main, clock) = startup(main_process(), env([]));
    clock.set(ENTERED_NS + 1);
    let (name, value) = main.announce_serve().unwrap();
    assert_eq!((name, value.as_str()), (SERVE_NS, "1001"));

    clock.set(ENTERED_NS + 5);
    let parts = (env([(name, &value)]), clock, CountedIds::default());
    let worker = Startup::with_parts(worker_process(), parts.0, parts.1, parts.2);
    assert_stages(&worker, &[("worker_start", 1_001, 1_005)]);
}

#[test]
fn the_supervisors_span_is_the_parent() {
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let env = env([(SPAWN_NS, "100"), (TRACEPARENT, traceparent)]);
    let (mut startup, _) = startup(main_process(), env);
    let spans = startup.take_records().unwrap().spans;

    assert_eq!(spans[0].trace_id.to_string(), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(spans[0].parent_span_id.unwrap().to_string(), "b7ad6b7169203331");
    assert_eq!(spans[1].parent_span_id, Some(spans[0].span_id));
    assert!(spans.iter().all(|span| span.flags.is_sampled()));
    assert_eq!(startup.traceparent_error(), None);
}

#[rstest]
#[case::empty("", None)]
#[case::uppercase(
    "00-0AF7651916CD43DD8448EB211C80319C-B7AD6B7169203331-01",
    Some(TraceParentError::Malformed)
)]
#[case::zero_trace(
    "00-00000000000000000000000000000000-b7ad6b7169203331-01",
    Some(TraceParentError::ZeroId)
)]
fn what_is_no_traceparent_leaves_the_server_a_trace_of_its_own(
    #[case] traceparent: &str,
    #[case] error: Option<TraceParentError>,
) {
    let env = env([(SPAWN_NS, "100"), (TRACEPARENT, traceparent)]);
    let (mut startup, _) = startup(main_process(), env);
    let spans = startup.take_records().unwrap().spans;

    assert_eq!((spans[0].parent_span_id, spans.len()), (None, 2));
    assert!(spans[0].flags.is_sampled());
    assert_eq!(startup.traceparent_error(), error);
}

#[test]
fn the_spans_of_a_trace_that_its_caller_does_not_sample_say_so() {
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    let env = env([(SPAWN_NS, "100"), (TRACEPARENT, traceparent)]);
    let (mut startup, _) = startup(main_process(), env);
    let records = startup.take_records().unwrap();

    assert!(records.spans.iter().all(|span| !span.flags.is_sampled()));
    assert_eq!((records.spans.len(), records.metrics.len()), (2, 1));
}

#[test]
fn the_histograms_buckets_are_the_contracts() {
    let boundaries =
        "100 250 500 1000 2500 5000 10000 30000 60000 120000 300000 600000 1800000 3600000";
    let ours: Vec<_> = spans::METRIC_BOUNDARIES.iter().map(f64::to_string).collect();
    assert_eq!((ours.join(" ").as_str(), spans::METRIC_UNIT), (boundaries, "ms"));
}

/// Serves a future that waits once, as a server does for its first connection.
#[tokio::test]
async fn a_server_is_reported_when_it_waits_for_connections() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut startup = ServerStartupTimeline::new("reward", None, true);
    startup.mark("configure_app");
    let server = async {
        tokio::task::yield_now().await;
        receiver.recv().unwrap()
    };
    let sink = move |records: Records| sender.send(records).unwrap();
    let records = startup.report_when_serving(server, sink).await;

    let names: Vec<_> = records.spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "gym.server.startup",
            "gym.server.startup.configure_app",
            "gym.server.startup.uvicorn_startup"
        ]
    );
}

#[tokio::test]
async fn a_server_that_never_served_is_not_reported() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let startup = ServerStartupTimeline::new("reward", None, true);
    let sink = move |records: Records| sender.send(records).unwrap();
    let served = startup.report_when_serving(async { Err::<(), _>("port is taken") }, sink).await;

    assert_eq!(served, Err("port is taken"));
    assert!(receiver.recv().is_err(), "the sink was dropped unused");
}

#[tokio::test]
async fn a_server_whose_telemetry_is_off_serves_all_the_same() {
    let startup = ServerStartupTimeline::new("reward", None, false);
    let server = async {
        tokio::task::yield_now().await;
        7
    };
    let sink = |records: Records| panic!("{records:?}");

    assert_eq!(startup.report_when_serving(server, sink).await, 7);
}

#[tokio::test]
async fn a_sink_that_hangs_holds_up_no_server() {
    let minute = Duration::from_secs(60);
    let hanging = move |_: Records| std::thread::sleep(minute);
    let startup = ServerStartupTimeline::new("reward", None, true);
    let server = async {
        tokio::task::yield_now().await;
        7
    };

    let begun = Instant::now();
    assert_eq!(startup.report_when_serving(server, hanging).await, 7);
    assert!(begun.elapsed() < minute);
}

/// Python, answering for each line of hexadecimal what a server reads out of that variable.
struct Python {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Python {
    fn new() -> Self {
        let mut python = Command::new(program("python3", "python3"));
        python
            .args(["-X", "utf8", "-c"])
            .arg(
                r"
import os, sys, unicodedata
for line in sys.stdin:
    text = os.fsdecode(bytes.fromhex(line))
    try:
        value = int(text)
    except ValueError:
        value = 0
    assigned = all(unicodedata.category(c) != 'Cn' for c in text)
    print(min(max(value, 0), 2**64 - 1) if assigned else 'unassigned', flush=True)
",
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = spawn(&mut python).unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin, stdout }
    }

    /// `None` where this Python does not know a character yet, and so cannot say.
    fn reads(&mut self, value: &[u8]) -> Option<Option<u64>> {
        let mut line: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
        line.push('\n');
        self.stdin.write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).unwrap();
        match answer.trim() {
            "unassigned" => None,
            answer => Some(Some(answer.parse().unwrap()).filter(|&ns| ns > 0)),
        }
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_stamp_is_read_as_pythons_int_reads_it() {
    let mut python = Python::new();
    let digits = |count| "1".repeat(count);
    let table = [
        "",
        " ",
        "0",
        "00",
        "1",
        "01",
        "+1",
        "-1",
        "+-1",
        "-+1",
        "++1",
        "+ 1",
        "- 1",
        " + 1",
        "1 2",
        "1+",
        "_1",
        "1_",
        "1_1",
        "1__1",
        "+_1",
        "1_+1",
        "_",
        "+",
        "-",
        "-0",
        "+0",
        "1.0",
        "1.",
        "1e3",
        "0x1",
        "0b1",
        "0o1",
        "1L",
        "١٢٣",
        "１２",
        "1２٣",
        "߁",
        "𝟙",
        "½",
        "²",
        "Ⅷ",
        "一",
        "１_２",
        "１__２",
        "+１",
        "＋1",
        "＿1",
        "1\u{200b}",
        "\u{feff}1",
        "\u{85}1\u{85}",
        "\u{a0}1\u{a0}",
        "\u{3000}1",
        "\u{2028}1\u{2029}",
        "\u{1c}1",
        "\u{1c}１",
        "１\u{1f}",
        "\t\n\u{b}\u{c}\r 1\r\n",
        "1\n2",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999999999",
        "-99999999999999999999999999",
        "\"1\"",
        "'1'",
        "1;",
        "NaN",
        "inf",
        "True",
        "1٠_٠",
        "１ ",
    ];
    let long = [digits(640), digits(641), digits(4300), digits(4301), format!("{:0>4301}", 1)];
    let spaced = [
        format!("{}_1", digits(4299)),
        format!("{}_1", digits(4300)),
        format!("+{}", digits(4300)),
        format!("{}1", " ".repeat(5000)),
    ];
    let texts = table.iter().map(|text| text.as_bytes().to_vec());
    let texts = texts.chain(long.into_iter().chain(spaced).map(String::into_bytes));
    let raw =
        [&b"1\xff"[..], b"\xff", b"1\xc3", b"\xed\xb3\xbf1", b"\xd9\xa11"].map(<[u8]>::to_vec);
    for value in texts.chain(raw) {
        let shown = String::from_utf8_lossy(&value);
        assert_eq!(Some(read_ns(&value)), python.reads(&value), "{shown:?}");
    }
}

#[test]
fn every_character_counts_as_pythons_int_counts_it() {
    let mut python = Python::new();
    for c in ('\u{1}'..=char::MAX).filter(|&c| c.is_whitespace() || c.is_numeric() || c < '\u{800}')
    {
        for text in [format!("{c}"), format!("{c}7"), format!("7{c}"), format!("7{c}7")] {
            let Some(expected) = python.reads(text.as_bytes()) else { continue };
            assert_eq!(read_ns(text.as_bytes()), expected, "{text:?}");
        }
    }
}

#[test]
fn generated_stamps_are_read_as_pythons_int_reads_them() {
    let python = RefCell::new(Python::new());
    let likely = "[ \t\u{a0}]{0,2}[+-]?[0-9_٠-٩０-９]{1,24}[ \n\u{3000}]{0,2}";
    let value = prop_oneof![
        3 => likely.prop_map(String::into_bytes),
        1 => ".{0,8}".prop_map(String::into_bytes),
        1 => prop::collection::vec(1u8.., 0..8),
    ];
    // The file of failures that proptest would keep is for tests of src.
    let config = Config { cases: 3_000, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&value, |value| {
            if let Some(expected) = python.borrow_mut().reads(&value) {
                prop_assert_eq!(read_ns(&value), expected);
            }
            Ok(())
        })
        .unwrap();
}
