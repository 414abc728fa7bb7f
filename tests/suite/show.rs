//! `gym-startup show`: what it makes of startups.

use std::fs::{self, File};

use gym_stamp::spans::SpanRecord;
use insta::assert_snapshot;

use crate::support::recorded::{BEGAN_NS, Change, in_trace, line, span, startup};
use crate::support::startup::Startup;
use crate::support::toolbox::free_port;
use crate::support::{Ended, Run, Terminal, command, without_reader};

/// `gym-startup show` with these files, in a UTF-8 locale.
pub fn show(files: &[(&str, &[u8])]) -> Run {
    let mut run = command(env!("CARGO_BIN_EXE_gym-startup")).entry("LANG=C.UTF-8").arg("show");
    for (name, content) in files {
        run = run.file(name, 0o644, *content).arg(*name);
    }
    run
}

fn shown(spans: &[SpanRecord]) -> Ended {
    show(&[("a.jsonl", &line("head", spans))]).run().exits(0)
}

fn two() -> Vec<SpanRecord> {
    startup(1, &[("greeter", 2_000, 500), ("policy_model", 3_000, 900)])
}

#[test]
fn a_startup_has_a_heading_and_a_waterfall() {
    assert_snapshot!(shown(&two()).says_nothing().stdout_text(), @r"
    trace 00000000000000000000000000000001: 2027-01-15 08:00:00 UTC, 3.91 s, ready, 2 servers, 1 node

    ━ the longest path                  0 s          978 ms          1.96 s          2.93 s       3.91 s
    gym.startup           3.91 s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    ├─ load_config       10.0 ms   <1%  ╸
    ├─ wait_for_servers   3.90 s  100%  ────────────────────────────────────────────────────────────────
    ├─ greeter            2.50 s   64%  ─────────────────────────────────────────
    │  ├─ venv_setup      2.00 s   51%  ────────────────────────────────╴
    │  └─ server_start    500 ms   13%                                  ╶────────
    └─ policy_model       3.90 s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
       ├─ venv_setup      3.00 s   77%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
       └─ server_start    900 ms   23%                                                   ━━━━━━━━━━━━━━━
    ");
}

#[test]
fn a_startup_that_was_just_recorded_is_shown() {
    let port = free_port();
    let ready = format!("http://127.0.0.1:{port}/");
    let command = format!("exec ./gym-stamp python3 -S serve.py port={port}");
    let run: Startup = crate::support::startup::startup().args(["--exit-when-ready"]);
    let over = run.server("one", &command, &ready, "").run().exits(0);
    let recorded = fs::read(over.ended.folder().join("out.jsonl")).unwrap();
    let ended = show(&[("out.jsonl", &recorded)]).run().exits(0).says_nothing();
    let text = ended.stdout_text();
    let heading = format!("trace {}: ", hex(&over.trace().spans[0].trace_id));
    assert!(text.starts_with(&heading), "{ended}");
    assert!(text.lines().next().unwrap().ends_with(", ready, 1 server, 1 node"), "{ended}");
    for row in ["gym.startup ", "├─ one ", "│  ├─ venv_setup ", "│  └─ server_start "]
    {
        assert!(text.lines().any(|line| line.starts_with(row)), "no '{row}'\n{ended}");
    }
    let document = document(&show(&[("out.jsonl", &recorded)]).arg("--json").run().exits(0));
    let ids = |key: &str| -> Vec<_> {
        let spans = document["startups"][0]["spans"].as_array().unwrap().iter();
        spans.map(|span| span[key].as_str().unwrap_or("").to_owned()).collect()
    };
    let spans = over.trace().spans;
    assert_eq!(ids("span_id"), spans.iter().map(|it| hex(&it.span_id)).collect::<Vec<_>>());
    assert_eq!(
        ids("parent_span_id"),
        spans.iter().map(|it| hex(&it.parent_span_id)).collect::<Vec<_>>()
    );
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn document(ended: &Ended) -> serde_json::Value {
    serde_json::from_slice(&ended.stdout).unwrap()
}

/// All that is awkward.
fn extremes() -> Vec<u8> {
    let unfinished = SpanRecord { end_ns: 0, ..span(6, 4, "model.load", 200_000, 0) };
    let micro =
        SpanRecord { end_ns: BEGAN_NS + 1_000, ..span(2, 1, "gym.startup.load_config", 0, 0) };
    let wide = "評価サーバー";
    let long = "very_long_name_".repeat(14);
    line(
        "head",
        &[
            span(1, 0, "gym.startup", 0, 600_000).outcome("timeout").failed("not ready in time"),
            micro,
            span(3, 1, "nothing at all", 300_000, 300_000).stage("nothing at all"),
            span(4, 1, "gym.startup.server", 1_000, 600_000).of(wide).outcome("timeout").failed(""),
            span(5, 1, "gym.startup.server", 1_000, 400_000).of(&long).outcome("ready"),
            unfinished.of(wide).stage("model.load"),
            span(7, 6, "weights\u{1b}[2J", 500_000, 599_000).stage("weights").failed("disk"),
        ],
    )
}

#[test]
fn extremes_fit_40_columns() {
    assert_snapshot!(at(40).says_nothing().stdout_text(), @r"
    trace 00000000000000000000000000000001:
    2027-01-15 08:00:00 UTC, 10m 00s,
    timeout, 2 servers, 1 node

    gym.sta… ✗ timeo…  10m 00s  ━━━━━━━━━━━━
    ├ load_config      1.00 µs  ╸
    ├ 評価サ… ✗ time…   9m 59s  ━━━━━━━━━━━━
    │ └ model… not e…   6m 40s      ━━━━━━━━
    │   └ weig… ✗ er…   1m 39s            ━╸
    ├ very_long_name…   6m 39s  ────────
    └ nothing at all       0 s        ╎
    ");
}

#[test]
fn extremes_fit_80_columns() {
    assert_snapshot!(at(80).says_nothing().stdout_text(), @r"
    trace 00000000000000000000000000000001: 2027-01-15 08:00:00 UTC, 10m 00s,
    timeout, 2 servers, 1 node

    ━ the longest path                              0 s          5m 00s      10m 00s
    gym.startup ✗ timeout            10m 00s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    ├─ load_config                   1.00 µs   <1%  ╸
    ├─ 評価サーバー ✗ timeout         9m 59s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    │  └─ model.load not ended        6m 40s   67%            ╺━━━━━━━━━━━━━━━━━━━━━
    │     └─ weights�[2J ✗ error      1m 39s   16%                            ╺━━━━╸
    ├─ very_long_name_very_long_na…   6m 39s   66%  ─────────────────────
    └─ nothing at all                    0 s    0%                  ╎
    ");
}

#[test]
fn extremes_fit_200_columns() {
    assert_snapshot!(at(200).says_nothing().stdout_text(), @r"
    trace 00000000000000000000000000000001: 2027-01-15 08:00:00 UTC, 10m 00s, timeout, 2 servers, 1 node

    ━ the longest path                                                           0 s                        2m 30s                         5m 00s                         7m 30s                     10m 00s
    gym.startup ✗ timeout                                         10m 00s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    ├─ load_config                                                1.00 µs   <1%  ╸
    ├─ 評価サーバー ✗ timeout                                      9m 59s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    │  └─ model.load not ended                                     6m 40s   67%                                           ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    │     └─ weights�[2J ✗ error                                   1m 39s   16%                                                                                                        ╺━━━━━━━━━━━━━━━━━━━╸
    ├─ very_long_name_very_long_name_very_long_name_very_long_n…   6m 39s   66%  ──────────────────────────────────────────────────────────────────────────────────
    └─ nothing at all                                                 0 s    0%                                                               ╎
    ");
}

fn at(columns: usize) -> Ended {
    let columns = columns.to_string();
    show(&[("a.jsonl", &extremes())]).var("COLUMNS", columns).run().exits(0)
}

#[test]
fn a_terminal_has_its_width_and_its_colours() {
    let narrow = ["sh", "-c", "stty cols 60 rows 20; exec \"$@\"", "sh"];
    let run = show(&[("a.jsonl", &line("head", &two()))]);
    let run = run.var("TERM", "xterm").var("COLUMNS", "200").under(narrow);
    let written = |run: Run| {
        let mut terminal = Terminal::new();
        run.on_terminal(&terminal).run().exits(0);
        String::from_utf8(terminal.read()).unwrap()
    };
    let coloured = written(run.clone());
    assert!(coloured.starts_with("\u{1b}[1mtrace 0000"), "{coloured:?}");
    let plain = written(run.var("NO_COLOR", "1"));
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    let widest = plain.lines().map(|line| line.trim_end().chars().count()).max();
    assert_eq!(widest, Some(60), "{plain}");
}

#[test]
fn another_locale_gets_ascii() {
    let run = show(&[("a.jsonl", &extremes())]).var("LC_ALL", "C").var("COLUMNS", "80");
    let ended = run.run().exits(0);
    assert!(ended.stdout.is_ascii(), "{ended}");
    assert!(ended.stdout_text().contains("`- weights?[2J ! error"), "{ended}");
}

/// As if each had run into the same limit.
#[test]
fn stages_that_took_as_long_as_each_other_are_summed_up_too() {
    let mut spans = vec![span(1, 0, "gym.startup", 0, 5_000).outcome("ready")];
    for server in 1..=9 {
        let (id, name) = (100 * server, format!("s{server}"));
        spans.push(span(id, 1, "gym.startup.server", 0, 5_000).of(&name));
        for stage in 1..=30 {
            let stage_name = format!("gym.startup.server.stage_{stage}");
            spans.push(span(id + stage, id, &stage_name, 0, 1_000).of(&name));
        }
    }
    let text = shown(&spans).says_nothing().stdout_text();
    let table = text.split("\n\n").nth(1).unwrap();
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines.len(), 1 + 24 + 1, "{text}");
    assert!(lines[1].starts_with("until ready "), "{text}");
    assert!(lines[24].starts_with("stage_23 "), "{text}");
    assert_eq!(lines[25], "7 more stages, each 1.00 s at most");
}

#[test]
fn many_servers_are_summed_up_first() {
    let names: Vec<_> = (0..12).map(|number| format!("s{number}")).collect();
    let servers: Vec<_> =
        names.iter().zip(0..).map(|(it, n)| (it.as_str(), 1_000 + 100 * n, 500)).collect();
    let mut all = line("head", &startup(1, &servers));
    // The slowest import is another node's.
    for (number, name) in names.iter().enumerate() {
        let id = 100 * (number as u64 + 1);
        let import_ms = if number == 3 { 1_400 } else { 1_100 };
        let report = span(id + 3, id, "gym.server.startup", 10, 1_450).of(name);
        let import = span(id + 4, id + 3, "gym.server.startup.init_server", 1_000, import_ms);
        all.extend(line(&format!("node{number}"), &[report, import.of(name)]));
    }
    let ended = show(&[("a.jsonl", &all)]).run().exits(0).says_nothing();
    let text = ended.stdout_text();
    let summary: Vec<_> = text.split("\n\n").take(2).collect();
    assert_snapshot!(summary.join("\n\n"), @r"
    trace 00000000000000000000000000000001: 2027-01-15 08:00:00 UTC, 2.61 s, ready, 12 servers, 13 nodes

    stage         count     p50     max  slowest  node
    until ready      12  2.05 s  2.60 s  s11      node11
    venv_setup       12  1.55 s  2.10 s  s11      node11
    init_server      12  100 ms  400 ms  s3       node3
    server_start     12  500 ms  500 ms  s0       node0
    ");
}

#[test]
fn eight_servers_are_not_summed_up() {
    let names: Vec<_> = (0..8).map(|number| format!("s{number}")).collect();
    let servers: Vec<_> = names.iter().map(|it| (it.as_str(), 1_000, 500)).collect();
    assert!(!shown(&startup(1, &servers)).stdout_text().contains("p50"));
}

#[test]
fn files_are_joined_by_trace_and_startups_come_in_order() {
    let (first, second) = (two(), startup(2, &[("judge", 100, 100)]));
    let report = in_trace(
        2,
        vec![
            span(103, 100, "gym.server.startup", 10, 190).of("judge"),
            span(104, 103, "gym.server.startup.init_server", 100, 190).of("judge"),
        ],
    );
    let files = [
        ("b.jsonl", line("b", &report)),
        ("second.jsonl", line("head", &second)),
        ("first.jsonl", line("head", &first)),
    ];
    let files: Vec<_> = files.iter().map(|(name, it)| (*name, it.as_slice())).collect();
    let text = show(&files).run().exits(0).says_nothing().stdout_text();
    let headings: Vec<_> = text.lines().filter(|line| line.starts_with("trace ")).collect();
    assert_eq!(
        headings,
        [
            "trace 00000000000000000000000000000001: 2027-01-15 08:00:00 UTC, 3.91 s, ready, 2 servers, 1 node",
            "trace 00000000000000000000000000000002: 2027-01-15 08:00:01 UTC, 210 ms, ready, 1 server, 2 nodes",
        ]
    );
    assert!(text.contains("   └─ its own report"), "{text}");
}

#[test]
fn of_a_file_with_several_startups_the_latest_is_shown_and_the_others_are_named() {
    let spans = [two(), startup(2, &[("judge", 100, 100)])].concat();
    let ended = show(&[("a.jsonl", &line("head", &spans))]).run().exits(0).says(
        "gym-startup: of 2 startups the latest is shown; --trace shows another, and --json all:\n\
         gym-startup: trace 00000000000000000000000000000001: 2027-01-15 08:00:00 UTC, 3.91 s, ready, \
         2 servers, 1 node\n",
    );
    let text = ended.stdout_text();
    assert_eq!(text.matches("trace ").count(), 1, "{text}");
    assert!(text.starts_with("trace 00000000000000000000000000000002: "), "{text}");
}

#[test]
fn what_is_there_twice_counts_once() {
    let once = shown(&two()).stdout_text();
    let file = line("head", &two());
    let twice = show(&[("a.jsonl", &file), ("again.jsonl", &file)]).arg("a.jsonl").run().exits(0);
    assert_eq!(twice.stdout_text(), once);
}

#[test]
fn a_trace_is_chosen_by_the_beginning_of_its_id() {
    let spans = [two(), startup(0xab << 120 | 2, &[("judge", 100, 100)])].concat();
    let file = line("head", &spans);
    let chosen = |trace: &str| show(&[("a.jsonl", &file)]).args(["--trace", trace]).run();
    let text = chosen("AB").exits(0).says_nothing().stdout_text();
    assert_eq!(text.matches("trace ").count(), 1, "{text}");
    assert!(text.starts_with("trace ab00"), "{text}");
    chosen("0001").exits(1).prints("").says(
        "gym-startup: no trace begins with 0001; there are, the latest first:\n  \
         ab000000000000000000000000000002  2027-01-15 08:00:01 UTC\n  \
         00000000000000000000000000000001  2027-01-15 08:00:00 UTC\n",
    );
    for wrong in ["", "xyz", &"0".repeat(33)] {
        let why = "a trace id has 1 to 32 hexadecimal digits";
        chosen(wrong).exits(2).says(format!("gym-startup: --trace {wrong}: {why}\n"));
    }
}

#[test]
fn spans_without_their_parents_are_roots_and_named() {
    let report = |id, server: &str| {
        let stage = span(id + 1, id, "gym.server.startup.init_server", 100, 190).of(server);
        [span(id, 77, "gym.server.startup", 10, 190).of(server), stage]
    };
    // Whoever launched the supervisor may have a trace of its own.
    let under_a_job =
        SpanRecord { parent_span_id: Some(9.into()), ..span(1, 0, "gym.startup", 0, 5) };
    let one = [report(10, "a").to_vec(), vec![under_a_job]].concat();
    let ended = show(&[("a.jsonl", &line("n", &one))]).run().exits(0).says(
        "gym-startup: a's gym.server.startup stands under a span that is in none of these files: \
         give the supervisor's file as well\n",
    );
    assert!(ended.stdout_text().contains("\na  "), "{ended}");
    let many: Vec<_> =
        ["a", "b", "c", "d", "e"].iter().zip(1..).flat_map(|(it, n)| report(10 * n, it)).collect();
    show(&[("a.jsonl", &line("n", &many))]).run().exits(0).says(
        "gym-startup: 5 spans stand under spans that are in none of these files (a's \
         gym.server.startup, b's gym.server.startup, c's gym.server.startup, 2 more): give the \
         supervisor's file as well\n",
    );
}

/// A server on another node, whose clock is so many milliseconds ahead.
fn of_another_node(ahead_ms: i64) -> Ended {
    let report = |name: &str, id, parent, from_ms: i64, to_ms: i64| {
        let at = |ms: i64| u64::try_from(20_000 + ms + ahead_ms).unwrap();
        let span = span(id, parent, name, at(from_ms), at(to_ms));
        let back = |ns: u64| ns - 20_000_000_000;
        SpanRecord { start_ns: back(span.start_ns), end_ns: back(span.end_ns), ..span }
            .of("greeter")
    };
    let far = [
        report("gym.server.startup", 300, 100, 2_100, 2_400),
        report("gym.server.startup.init_server", 301, 300, 2_100, 2_400),
    ];
    let near = line("head", &two());
    show(&[("head.jsonl", &near), ("far.jsonl", &line("far", &far))]).run().exits(0)
}

#[test]
fn clocks_that_disagree_are_pointed_out() {
    of_another_node(0).says_nothing();
    of_another_node(100).says_nothing();
    of_another_node(-2_000).says_nothing();
    of_another_node(-4_000).says(
        "gym-startup: node far's clock is at least 1.91 s behind node head's: greeter's \
         gym.server.startup begins as long before what launched it, and so ignored its stamps: they \
         were times to come\n",
    );
    of_another_node(400).says(
        "gym-startup: node far's clock is at least 290 ms ahead of node head's, or the server \
         answered before its startup was over: greeter's gym.server.startup ends as long after the \
         first answer\n",
    );
}

#[test]
fn a_clock_that_was_set_back_is_pointed_out() {
    let mut spans = two();
    let setup = spans.iter_mut().find(|it| it.name.ends_with(".venv_setup")).unwrap();
    setup.end_ns = setup.start_ns - 1_500_000_000;
    let ended = shown(&spans).says(
        "gym-startup: 1 span ends before it begins (greeter's gym.startup.server.venv_setup), by \
         up to 1.50 s: a clock was set back meanwhile, or two clocks are in it; a server ignores \
         the stamp of a setup that ended before its spawn\n",
    );
    assert!(ended.stdout_text().contains("venv_setup     -1.50 s"), "{ended}");
}

#[test]
fn json() {
    let spans = [
        span(1, 0, "gym.startup", 0, 600).outcome("failed").failed("greeter: exit status 3"),
        span(2, 1, "gym.startup.server", 10, 600).of("greeter").with("k\"", "v\n"),
        SpanRecord { end_ns: 0, ..span(3, 9, "gym.server.startup", 20, 0) }.of("greeter"),
    ];
    let ended = show(&[("a.jsonl", &line("head", &spans))]).arg("--json").run().exits(0);
    let text = ended.says_nothing().stdout_text();
    assert_eq!(text.lines().count(), 1);
    assert_snapshot!(text.replace("},{", "},\n{").replace(",\"spans\":", ",\n\"spans\":"), @r#"
    {"startups":[{"trace_id":"00000000000000000000000000000001","start_ns":1800000000000000000,"end_ns":1800000000600000000,"duration_ms":600.0,"outcome":"failed","servers":1,"summary":[{"stage":"until ready","count":1,"p50_ms":590.0,"max_ms":590.0,"slowest_server":"greeter","node":"head"}],"notes":["greeter's gym.server.startup stands under a span that is in none of these files: give the supervisor's file as well"],
    "spans":[{"span_id":"0000000000000001","parent_span_id":null,"name":"gym.startup","start_ns":1800000000000000000,"end_ns":1800000000600000000,"duration_ms":600.0,"server":null,"node":"head","pid":null,"outcome":"failed","error":"greeter: exit status 3","critical":true,"attributes":{"nemo.gym.startup.outcome":"failed"}},
    {"span_id":"0000000000000002","parent_span_id":"0000000000000001","name":"gym.startup.server","start_ns":1800000000010000000,"end_ns":1800000000600000000,"duration_ms":590.0,"server":"greeter","node":"head","pid":null,"outcome":null,"error":null,"critical":true,"attributes":{"nemo.gym.server.name":"greeter","k\"":"v\n"}},
    {"span_id":"0000000000000003","parent_span_id":"0000000000000009","name":"gym.server.startup","start_ns":1800000000020000000,"end_ns":null,"duration_ms":null,"server":"greeter","node":"head","pid":null,"outcome":null,"error":null,"critical":true,"attributes":{"nemo.gym.server.name":"greeter"}}]}],"notes":[]}
    "#);
}

#[test]
fn several_startups_are_one_document() {
    let file = line("head", &[two(), startup(2, &[("judge", 100, 100)])].concat());
    let ended = show(&[("a.jsonl", &file)]).arg("--json").run().exits(0);
    let document = document(&ended);
    let startups = document["startups"].as_array().unwrap();
    let ids: Vec<_> = startups.iter().map(|it| it["trace_id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["00000000000000000000000000000001", "00000000000000000000000000000002"]);
}

#[test]
fn whoever_reads_no_further_is_not_bothered() {
    let file = line("head", &two());
    for args in [&[][..], &["--json"]] {
        let run = show(&[("a.jsonl", &file)]).args(args.iter().copied());
        run.clone().fd(1, without_reader()).run().exits(0).says_nothing();
        let full = File::options().write(true).open("/dev/full").unwrap();
        run.fd(1, full)
            .run()
            .exits(1)
            .says("gym-startup: standard output: No space left on device (os error 28)\n");
    }
}
