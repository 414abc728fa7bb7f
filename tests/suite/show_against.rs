//! `gym-startup show A --against B`: what got slower.

use gym_stamp::spans::SpanRecord;
use insta::assert_snapshot;

use crate::show::{document, show};
use crate::support::recorded::{Change, line, span, startup};
use crate::support::{Ended, Run};

fn against(now: &[SpanRecord], before: &[SpanRecord]) -> Run {
    let run = show(&[("now.jsonl", &line("head", now))]);
    run.file("before.jsonl", 0o644, line("head", before)).args(["--against", "before.jsonl"])
}

fn compared(now: &[SpanRecord], before: &[SpanRecord]) -> Ended {
    against(now, before).run().exits(0).says_nothing()
}

fn step(server: u64, id: u64, name: &str, from_ms: u64, to_ms: u64) -> SpanRecord {
    span(100 * server + id, 100 * server + 1, name, from_ms, to_ms).of("server").stage(name)
}

fn before() -> Vec<SpanRecord> {
    let mut spans = startup(1, &[("greeter", 2_000, 500), ("policy_model", 3_000, 900)]);
    spans.extend([step(1, 3, "uv venv", 20, 220), step(1, 4, "uv pip install", 220, 2_000)]);
    spans
}

/// Of the greeter the install takes longer, and is done twice.
fn now() -> Vec<SpanRecord> {
    let mut spans = startup(2, &[("greeter", 9_000, 520), ("policy_model", 2_500, 900)]);
    let steps = [
        step(1, 3, "uv venv", 20, 220),
        step(1, 4, "uv pip install", 220, 8_000),
        step(1, 5, "uv pip install", 8_000, 8_900),
    ];
    spans.extend(crate::support::recorded::in_trace(2, steps.into()));
    spans
}

#[test]
fn what_got_slower_is_the_first_thing_that_is_said() {
    assert_snapshot!(compared(&now(), &before()).stdout_text(), @r"
    before: trace 00000000: 2027-01-15 08:00:00 UTC, 3.91 s, ready, 2 servers, 1 node
    now: trace 00000000: 2027-01-15 08:00:01 UTC, 9.53 s, ready, 2 servers, 1 node

    5.62 s slower (+144%), most of all in greeter's venv_setup / uv pip install: +6.00 s

                                       before      now    change
    all                                3.91 s   9.53 s   +5.62 s  +144%
      wait_for_servers                 3.90 s   9.52 s   +5.62 s  +144%
      load_config                     10.0 ms  10.0 ms       0 s    +0%

    median of 2 servers                3.20 s   6.46 s   +3.26 s  +102%
      venv_setup / uv pip install      1.78 s   7.78 s   +6.00 s  +337%
      venv_setup                       2.50 s   5.75 s   +3.25 s  +130%
      venv_setup / uv pip install #2        -   900 ms   +900 ms    new
      server_start                     700 ms   710 ms  +10.0 ms    +1%
      venv_setup / uv venv             200 ms   200 ms       0 s    +0%

    greeter                            2.50 s   9.52 s   +7.02 s  +281%
      venv_setup                       2.00 s   9.00 s   +7.00 s  +350%
      venv_setup / uv pip install      1.78 s   7.78 s   +6.00 s  +337%
      venv_setup / uv pip install #2        -   900 ms   +900 ms    new
      server_start                     500 ms   520 ms  +20.0 ms    +4%
      venv_setup / uv venv             200 ms   200 ms       0 s    +0%

    policy_model                       3.90 s   3.40 s   -500 ms   -13%
      server_start                     900 ms   900 ms       0 s    +0%
      venv_setup                       3.00 s   2.50 s   -500 ms   -17%
    ");
}

#[test]
fn it_fits_40_columns() {
    let ended = against(&now(), &before()).var("COLUMNS", "40").run().exits(0);
    assert_snapshot!(ended.stdout_text(), @r"
    before: trace 00000000: 2027-01-15
    08:00:00 UTC, 3.91 s, ready, 2 servers,
    1 node
    now: trace 00000000: 2027-01-15 08:00:01
    UTC, 9.53 s, ready, 2 servers, 1 node

    5.62 s slower (+144%), most of all in
    greeter's venv_setup / uv pip install:
    +6.00 s

                   before      now    change
    all            3.91 s   9.53 s   +5.62 s
      wait_for_…   3.90 s   9.52 s   +5.62 s
      load_conf…  10.0 ms  10.0 ms       0 s

    median of 2…   3.20 s   6.46 s   +3.26 s
      uv pip in…   1.78 s   7.78 s   +6.00 s
      venv_setup   2.50 s   5.75 s   +3.25 s
      uv pip in…        -   900 ms   +900 ms
      server_st…   700 ms   710 ms  +10.0 ms
      uv venv      200 ms   200 ms       0 s

    greeter        2.50 s   9.52 s   +7.02 s
      venv_setup   2.00 s   9.00 s   +7.00 s
      uv pip in…   1.78 s   7.78 s   +6.00 s
      uv pip in…        -   900 ms   +900 ms
      server_st…   500 ms   520 ms  +20.0 ms
      uv venv      200 ms   200 ms       0 s

    policy_model   3.90 s   3.40 s   -500 ms
      server_st…   900 ms   900 ms       0 s
      venv_setup   3.00 s   2.50 s   -500 ms
    ");
}

#[test]
fn what_got_faster_is_said_too() {
    let text = compared(&before(), &now()).stdout_text();
    let verdict = text.split("\n\n").nth(1).unwrap();
    assert_snapshot!(verdict, @r"5.62 s faster (-59%), most of all in greeter's venv_setup / uv pip install: -6.00 s");
}

#[test]
fn nothing_is_made_of_nothing() {
    let text = compared(&before(), &before_again()).stdout_text();
    assert!(text.contains("\nas fast as before: 3.91 s, before 3.91 s\n"), "{text}");
}

fn before_again() -> Vec<SpanRecord> {
    crate::support::recorded::in_trace(2, before())
}

#[test]
fn servers_of_one_side_alone_are_named() {
    let now = startup(2, &[("greeter", 2_000, 500), ("judge", 10, 10)]);
    let before = startup(1, &[("greeter", 2_000, 500), ("old", 10, 10), ("older", 10, 10)]);
    let text = compared(&now, &before).stdout_text();
    assert!(text.contains("\nonly before: old, older\nonly now: judge\n"), "{text}");
    assert!(!text.contains("median"), "{text}");
}

#[test]
fn of_many_servers_the_worst_are_shown() {
    let names: Vec<_> = (0..12).map(|number| format!("s{number}")).collect();
    let of = |trace, setup_ms: fn(u64) -> u64| {
        let servers =
            names.iter().zip(0..).map(|(it, number)| (it.as_str(), setup_ms(number), 500));
        startup(trace, &servers.collect::<Vec<_>>())
    };
    let now = of(2, |number| if number < 3 { 4_000 + number } else { 1_000 + number });
    let text = compared(&now, &of(1, |_| 1_000)).stdout_text();
    let head: Vec<_> = text.split("\n\n").skip(1).take(4).collect();
    assert_snapshot!(head.join("\n\n"), @r"
    3.00 s slower (+199%), most of all in s2's venv_setup: +3.00 s

                                            before      now    change
    all                                     1.51 s   4.51 s   +3.00 s  +199%
      wait_for_servers                      1.50 s   4.50 s   +3.00 s  +200%
      load_config                          10.0 ms  10.0 ms       0 s    +0%

    median of 12 servers                    1.50 s   1.51 s  +8.50 ms    +1%
      venv_setup                            1.00 s   1.01 s  +8.50 ms    +1%
      server_start                          500 ms   500 ms       0 s    +0%

    s2                                      1.50 s   4.50 s   +3.00 s  +200%
      venv_setup                            1.00 s   4.00 s   +3.00 s  +300%
      server_start                          500 ms   500 ms       0 s    +0%
    ");
    assert!(text.ends_with("\n4 more servers, each +6.00 ms at most\n"), "{text}");
}

#[test]
fn replicas_of_one_name_are_compared_by_their_median() {
    let now = startup(2, &[("judge", 1_000, 500), ("judge", 3_000, 500), ("judge", 9_000, 500)]);
    let before = startup(1, &[("judge", 1_000, 500), ("judge", 1_000, 500)]);
    let text = compared(&now, &before).stdout_text();
    let row = text.lines().find(|line| line.starts_with("judge")).unwrap();
    assert_snapshot!(row, @r"judge, median of 2 before and 3 now   1.50 s   3.50 s  +2.00 s  +133%");
}

#[test]
fn of_several_startups_the_latest_is_taken() {
    let both = [before(), now()].concat();
    let third = startup(3, &[("greeter", 2_000, 500)]);
    let ended = against(&third, &both).run().exits(0);
    assert!(ended.stdout_text().starts_with("before: trace 00000000: 2027-01-15 08:00:01 UTC"));
    ended.says("gym-startup: before: of 2 startups the latest is taken\n");
    let chosen = against(&both, &third).args(["--trace", &format!("{:032x}", 1)]).run().exits(0);
    let text = chosen.says_nothing().stdout_text();
    assert!(text.contains("\nnow: trace 00000000: 2027-01-15 08:00:00 UTC, 3.91 s"), "{text}");
    let same = against(&now(), &now()).run().exits(0);
    same.says("gym-startup: both are the same startup: --trace chooses another\n");
}

/// One file of a collector, that grows with each startup.
#[test]
fn a_startup_is_compared_with_the_one_before_it() {
    let file = line("head", &[before(), now(), startup(3, &[("greeter", 1_000, 500)])].concat());
    let run = show(&[("a.jsonl", &file)]).args(["--against", "a.jsonl"]);
    let times = |ended: &Ended| {
        let text = ended.stdout_text();
        let time = |when: &str| {
            let line = text.lines().find(|line| line.starts_with(when)).unwrap();
            line.split(' ').nth(4).unwrap().to_owned()
        };
        [time("before: "), time("now: ")]
    };
    let ended = run.clone().run().exits(0);
    assert_eq!(times(&ended), ["08:00:01", "08:00:02"], "{ended}");
    ended.says(
        "gym-startup: before: of 3 startups the one before that of now is taken\n\
         gym-startup: now: of 3 startups the latest is taken\n",
    );
    let of = |trace: u128| run.clone().args(["--trace", &format!("{trace:032x}")]).run().exits(0);
    let second = of(2);
    assert_eq!(times(&second), ["08:00:00", "08:00:01"], "{second}");
    // Nothing is before the first.
    let first = of(1);
    assert_eq!(times(&first), ["08:00:02", "08:00:00"], "{first}");
    first.says(format!(
        "gym-startup: before: of 3 startups the latest is taken\n\
         gym-startup: before began later than now: --trace {:032x} turns that around\n",
        3
    ));
}

/// No supervisor's file is there: only what the servers say.
#[test]
fn reports_alone_are_compared() {
    let of = |trace, init_ms: u64, worker_ms: u64| {
        let worker = "gym.server.startup.worker";
        let spans = [
            span(10, 9, "gym.server.startup", 0, 500 + init_ms),
            span(11, 10, "gym.server.startup.venv_setup", 0, 500),
            span(12, 10, "gym.server.startup.init_server", 500, 500 + init_ms),
            span(20, 9, worker, 2_000, 2_000 + worker_ms),
            span(21, 20, "gym.server.startup.worker.worker_start", 2_000, 2_000 + worker_ms),
            span(30, 9, worker, 2_000, 2_010 + worker_ms),
            span(31, 30, "gym.server.startup.worker.worker_start", 2_000, 2_010 + worker_ms),
        ];
        let spans = spans.into_iter().map(|span| span.of("greeter")).collect();
        crate::support::recorded::in_trace(trace, spans)
    };
    let ended = against(&of(2, 1_000, 300), &of(1, 200, 200)).run().exits(0);
    let text = ended.stdout_text();
    let (_, table) = text.split_once("\n\n").unwrap();
    assert_snapshot!(table, @r"
    100 ms slower (+5%), most of all in greeter's init_server: +800 ms

                             before     now   change
    all                      2.21 s  2.31 s  +100 ms    +5%

    greeter                  700 ms  1.50 s  +800 ms  +114%
      init_server            200 ms  1.00 s  +800 ms  +400%
      worker                 205 ms  305 ms  +100 ms   +49%
      worker / worker_start  205 ms  305 ms  +100 ms   +49%
      venv_setup             500 ms  500 ms      0 s    +0%
    ");
}

#[test]
fn one_that_came_to_nothing_was_not_faster() {
    let root = span(1, 0, "gym.startup", 0, 20).outcome("failed");
    let failed = crate::support::recorded::in_trace(2, vec![root]);
    let verdict = "before: ready, now: failed: not comparable as a whole";
    let text = compared(&failed, &before()).stdout_text();
    assert!(text.contains(&format!("\n\n{verdict}\n")), "{text}");
    assert!(!text.contains("slower") && !text.contains("faster"), "{text}");
    let ended = against(&failed, &before()).arg("--json").run().exits(0);
    assert_eq!(document(&ended)["notes"], serde_json::json!([verdict]));
}

#[test]
fn nothing_is_no_part_of_anything() {
    let of = |trace, end_ms| {
        let root = span(1, 0, "gym.startup", 0, end_ms).outcome("ready");
        crate::support::recorded::in_trace(trace, vec![root])
    };
    let text = compared(&of(2, 50), &of(1, 0)).stdout_text();
    assert!(text.contains("\n\n50.0 ms slower\n"), "{text}");
}

#[test]
fn json() {
    let ended = against(&now(), &before()).arg("--json").run().exits(0).says_nothing();
    let document = document(&ended);
    let row = |row: &serde_json::Value| {
        let number = |key: &str| row[key].as_f64();
        (row["stage"].as_str().unwrap().to_owned(), number("before_ms"), number("now_ms"))
    };
    let total = &document["total"];
    assert_eq!(row(total), ("all".into(), Some(3_910.0), Some(9_530.0)));
    assert_eq!(total["difference_ms"], 5_620.0);
    let greeter = &document["servers"][0];
    assert_eq!(greeter["name"], "greeter");
    let stages: Vec<_> = greeter["stages"].as_array().unwrap().iter().map(row).collect();
    let stage = |name: &str, before_ms, now_ms| (name.to_owned(), before_ms, now_ms);
    assert_eq!(
        stages,
        [
            stage("venv_setup", Some(2_000.0), Some(9_000.0)),
            stage("venv_setup / uv pip install", Some(1_780.0), Some(7_780.0)),
            stage("venv_setup / uv pip install #2", None, Some(900.0)),
            stage("server_start", Some(500.0), Some(520.0)),
            stage("venv_setup / uv venv", Some(200.0), Some(200.0)),
        ]
    );
    assert_eq!(greeter["stages"][2]["percent"], serde_json::Value::Null);
}

#[test]
fn a_file_that_cannot_be_read_is_told() {
    let run = show(&[("now.jsonl", &line("head", &now()))]).args(["--against", "missing.jsonl"]);
    run.run().exits(1).prints("").says(
        "gym-startup: missing.jsonl: No such file or directory (os error 2)\n\
         gym-startup: --against: there is no span to show\n",
    );
}
