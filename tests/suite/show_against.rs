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
    assert_snapshot!(compared(&now(), &before()).stdout_text(), @"");
}

#[test]
fn it_fits_40_columns() {
    let ended = against(&now(), &before()).var("COLUMNS", "40").run().exits(0);
    assert_snapshot!(ended.stdout_text(), @"");
}

#[test]
fn what_got_faster_is_said_too() {
    let text = compared(&before(), &now()).stdout_text();
    let verdict = text.split("\n\n").nth(1).unwrap();
    assert_snapshot!(verdict, @"");
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
        let servers = names.iter().zip(0..).map(|(it, number)| (it.as_str(), setup_ms(number), 500));
        startup(trace, &servers.collect::<Vec<_>>())
    };
    let now = of(2, |number| if number < 3 { 4_000 + number } else { 1_000 + number });
    let text = compared(&now, &of(1, |_| 1_000)).stdout_text();
    let head: Vec<_> = text.split("\n\n").skip(1).take(4).collect();
    assert_snapshot!(head.join("\n\n"), @"");
    assert!(text.ends_with("\n4 more servers, each +6.00 ms at most\n"), "{text}");
}

#[test]
fn replicas_of_one_name_are_compared_by_their_median() {
    let now = startup(2, &[("judge", 1_000, 500), ("judge", 3_000, 500), ("judge", 9_000, 500)]);
    let before = startup(1, &[("judge", 1_000, 500), ("judge", 1_000, 500)]);
    let text = compared(&now, &before).stdout_text();
    let row = text.lines().find(|line| line.starts_with("judge")).unwrap();
    assert_snapshot!(row, @"");
}

#[test]
fn of_several_startups_the_latest_is_taken() {
    let both = [before(), now()].concat();
    let third = startup(3, &[("greeter", 2_000, 500)]);
    let ended = against(&third, &both).run().exits(0);
    assert!(ended.stdout_text().starts_with("before: trace 00000000: 2027-01-15 08:16:40 UTC"));
    ended.says("gym-startup: before: of 2 startups the latest is taken\n");
    let chosen = against(&both, &third).args(["--trace", &format!("{:032x}", 1)]).run().exits(0);
    let text = chosen.says_nothing().stdout_text();
    assert!(text.contains("\nnow: trace 00000000: 2027-01-15 08:00:00 UTC, 3.91 s"), "{text}");
    let same = against(&now(), &now()).run().exits(0);
    same.says("gym-startup: both are the same startup: --trace chooses another\n");
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
         gym-startup: there is no span to show\n",
    );
}
