#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

use insta::assert_snapshot;
use proptest::collection::vec;
use proptest::prelude::*;

use super::forest::SERVER;
use super::table::NARROWEST;
use super::*;
use crate::words::{duration, harmless};
use unicode_width::UnicodeWidthStr;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

fn look(width: usize) -> Look {
    Look { width, unicode: true, colour: false, most_children: 12 }
}

/// A span from and to some time after the beginning of all.
fn span(id: u64, parent: u64, name: &str, from_ns: u64, to_ns: u64) -> Entry {
    const EPOCH: u64 = 1_800_000_000 * S;
    Entry {
        id,
        parent: (parent != 0).then_some(parent),
        name: name.to_owned(),
        start_ns: EPOCH + from_ns,
        end_ns: Some(EPOCH + to_ns),
        ..Entry::default()
    }
}

fn server(id: u64, name: &str, from_ns: u64, to_ns: u64) -> Entry {
    let server = Some(name.to_owned());
    Entry { server, ..span(id, 1, SERVER, from_ns, to_ns) }
}

/// Two servers, one of which says more of itself.
fn startup() -> Vec<Entry> {
    let report = |span: Entry, pid| Entry { pid: Some(pid), ..span };
    vec![
        span(1, 0, "gym.startup", 0, 12_400 * MS),
        span(2, 1, "gym.startup.load_config", 0, 3 * MS),
        span(3, 1, "gym.startup.spawn_servers", 3 * MS, 15 * MS),
        span(4, 1, "gym.startup.wait_for_servers", 15 * MS, 12_400 * MS),
        server(5, "reward", 4 * MS, 12_390 * MS),
        span(6, 5, "gym.startup.server.venv_setup", 4 * MS, 9_100 * MS),
        span(7, 6, "uv venv", 40 * MS, 310 * MS),
        span(8, 6, "uv pip install", 330 * MS, 9_020 * MS),
        span(9, 5, "gym.startup.server.server_start", 9_100 * MS, 12_390 * MS),
        server(10, "policy_model", 8 * MS, 4_250 * MS),
        span(11, 10, "gym.startup.server.venv_setup", 8 * MS, 1_050 * MS),
        span(12, 10, "gym.startup.server.server_start", 1_050 * MS, 4_250 * MS),
        report(span(13, 10, "gym.server.startup", 8 * MS, 3_900 * MS), 4711),
        span(14, 13, "gym.server.startup.venv_setup", 8 * MS, 1_050 * MS),
        span(15, 13, "gym.server.startup.interpreter_start", 1_050 * MS, 1_090 * MS),
        span(16, 13, "gym.server.startup.init_server", 1_090 * MS, 3_900 * MS),
        report(span(17, 10, "gym.server.startup.worker", 3_900 * MS, 4_200 * MS), 4712),
        span(18, 17, "gym.server.startup.worker.worker_start", 3_900 * MS, 4_200 * MS),
    ]
}

/// All that is awkward.
fn extremes() -> Vec<Entry> {
    let failed = |span: Entry, outcome: Option<&str>| Entry {
        outcome: outcome.map(str::to_owned),
        is_error: true,
        ..span
    };
    vec![
        failed(span(1, 0, "gym.startup", 0, 600 * S), Some("timeout")),
        span(2, 1, "gym.startup.load_config", 0, 1_000),
        span(3, 1, "nothing at all", 300 * S, 300 * S),
        failed(server(4, "評価サーバー", S, 600 * S), Some("timeout")),
        server(5, &"very_long_name_".repeat(14), S, 400 * S),
        Entry { end_ns: None, ..span(6, 4, "model.load", 200 * S, 0) },
        failed(span(7, 6, "weights\u{1b}[2J", 500 * S, 599 * S), None),
        span(8, 1, "clock set back", 10 * S, 9 * S),
        span(9, 77, "orphan", 599 * S, 600 * S),
        span(10, 11, "circle a", 20 * S, 30 * S),
        span(11, 10, "circle b", 22 * S, 28 * S),
    ]
}

#[test]
fn a_startup_is_a_tree_with_bars() {
    assert_snapshot!(draw(&startup(), &look(80)), @r"
    ━ the longest path                              0 s          6.20 s       12.4 s
    gym.startup                       12.4 s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    ├─ load_config                   3.00 ms   <1%  ╸
    ├─ spawn_servers                 12.0 ms   <1%  ╸
    ├─ reward                         12.4 s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╸
    │  ├─ venv_setup                  9.10 s   73%  ━━━━━━━━━━━━━━━━━━━━━━━
    │  │  ├─ uv venv                  270 ms    2%  ╸
    │  │  └─ uv pip install           8.69 s   70%  ╺━━━━━━━━━━━━━━━━━━━━━━
    │  └─ server_start                3.29 s   27%                         ━━━━━━━━╸
    ├─ policy_model                   4.24 s   34%  ──────────╴
    │  ├─ venv_setup                  1.04 s    8%  ──╴
    │  ├─ server_start                3.20 s   26%    ╶───────╴
    │  ├─ its own report (pid 4711)   3.89 s   31%  ──────────
    │  │  ├─ venv_setup               1.04 s    8%  ──╴
    │  │  ├─ interpreter_start       40.0 ms   <1%    ╶
    │  │  └─ init_server              2.81 s   23%    ╶───────
    │  └─ worker (pid 4712)           300 ms    2%            ╴
    │     └─ worker_start             300 ms    2%            ╴
    └─ wait_for_servers               12.4 s  100%  ────────────────────────────────
    ");
}

#[test]
fn a_wide_terminal_gives_wide_bars() {
    assert_snapshot!(draw(&startup(), &look(200)), @r"
    ━ the longest path                              0 s                                3.10 s                                6.20 s                                9.30 s                             12.4 s
    gym.startup                       12.4 s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    ├─ load_config                   3.00 ms   <1%  ╸
    ├─ spawn_servers                 12.0 ms   <1%  ╸
    ├─ reward                         12.4 s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╸
    │  ├─ venv_setup                  9.10 s   73%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╸
    │  │  ├─ uv venv                  270 ms    2%  ━━━╸
    │  │  └─ uv pip install           8.69 s   70%      ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╸
    │  └─ server_start                3.29 s   27%                                                                                                                 ╺━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╸
    ├─ policy_model                   4.24 s   34%  ────────────────────────────────────────────────────
    │  ├─ venv_setup                  1.04 s    8%  ────────────╴
    │  ├─ server_start                3.20 s   26%              ╶───────────────────────────────────────
    │  ├─ its own report (pid 4711)   3.89 s   31%  ───────────────────────────────────────────────╴
    │  │  ├─ venv_setup               1.04 s    8%  ────────────╴
    │  │  ├─ interpreter_start       40.0 ms   <1%              ╶
    │  │  └─ init_server              2.81 s   23%               ──────────────────────────────────╴
    │  └─ worker (pid 4712)           300 ms    2%                                                 ╶───
    │     └─ worker_start             300 ms    2%                                                 ╶───
    └─ wait_for_servers               12.4 s  100%  ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
    ");
}

#[test]
fn a_narrow_terminal_gives_short_names() {
    assert_snapshot!(draw(&startup(), &look(40)), @r"
    gym.startup         12.4 s  ━━━━━━━━━━━━
    ├ load_config      3.00 ms  ╸
    ├ spawn_servers    12.0 ms  ╸
    ├ reward            12.4 s  ━━━━━━━━━━━╸
    │ ├ venv_setup      9.10 s  ━━━━━━━━╸
    │ │ ├ uv venv       270 ms  ╸
    │ │ └ uv pip ins…   8.69 s  ━━━━━━━━╸
    │ └ server_start    3.29 s          ╺━━╸
    ├ policy_model      4.24 s  ────
    │ ├ venv_setup      1.04 s  ─
    │ ├ server_start    3.20 s   ───
    │ ├ its own repo…   3.89 s  ───╴
    │ │ ├ venv_setup    1.04 s  ─
    │ │ ├ interprete…  40.0 ms   ╴
    │ │ └ init_server   2.81 s   ──╴
    │ └ worker (pid …   300 ms     ╶
    │   └ worker_sta…   300 ms     ╶
    └ wait_for_serve…   12.4 s  ────────────
    ");
}

#[test]
fn without_utf_8_it_is_ascii() {
    let text = draw(&startup(), &Look { unicode: false, ..look(80) });
    assert!(text.is_ascii());
    assert_snapshot!(text, @r"
    = the longest path                              0 s          6.20 s       12.4 s
    gym.startup                       12.4 s  100%  ================================
    |- load_config                   3.00 ms   <1%  =
    |- spawn_servers                 12.0 ms   <1%  =
    |- reward                         12.4 s  100%  ================================
    |  |- venv_setup                  9.10 s   73%  =======================
    |  |  |- uv venv                  270 ms    2%  =
    |  |  `- uv pip install           8.69 s   70%  =======================
    |  `- server_start                3.29 s   27%                         =========
    |- policy_model                   4.24 s   34%  -----------
    |  |- venv_setup                  1.04 s    8%  ---
    |  |- server_start                3.20 s   26%    ---------
    |  |- its own report (pid 4711)   3.89 s   31%  ----------
    |  |  |- venv_setup               1.04 s    8%  ---
    |  |  |- interpreter_start       40.0 ms   <1%    -
    |  |  `- init_server              2.81 s   23%    --------
    |  `- worker (pid 4712)           300 ms    2%            -
    |     `- worker_start             300 ms    2%            -
    `- wait_for_servers               12.4 s  100%  --------------------------------
    ");
    assert!(draw(&extremes(), &Look { unicode: false, ..look(80) }).is_ascii());
}

#[test]
fn what_is_awkward_at_80_columns() {
    assert_snapshot!(draw(&extremes(), &look(80)), @r"
    ━ the longest path                              0 s          5m 00s      10m 00s
    gym.startup ✗ timeout            10m 00s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    ├─ load_config                   1.00 µs   <1%  ╸
    ├─ 評価サーバー ✗ timeout         9m 59s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    │  └─ model.load not ended        6m 40s   67%            ╺━━━━━━━━━━━━━━━━━━━━━
    │     └─ weights�[2J ✗ error      1m 39s   16%                            ╺━━━━╸
    ├─ very_long_name_very_long_na…   6m 39s   66%  ─────────────────────
    ├─ clock set back                -1.00 s        ╎
    └─ nothing at all                    0 s    0%                  ╎
    circle a                          10.0 s    2%   ╸
    └─ circle b                       6.00 s    1%   ╸
    orphan                            1.00 s   <1%                                 ╺
    ");
}

#[test]
fn what_is_awkward_at_40_columns() {
    assert_snapshot!(draw(&extremes(), &look(40)), @r"
    gym.sta… ✗ timeo…  10m 00s  ━━━━━━━━━━━━
    ├ load_config      1.00 µs  ╸
    ├ 評価サ… ✗ time…   9m 59s  ━━━━━━━━━━━━
    │ └ model… not e…   6m 40s      ━━━━━━━━
    │   └ weig… ✗ er…   1m 39s            ━╸
    ├ very_long_name…   6m 39s  ────────
    ├ clock set back   -1.00 s  ╎
    └ nothing at all       0 s        ╎
    circle a            10.0 s  ╸
    └ circle b          6.00 s  ╸
    orphan              1.00 s             ╺
    ");
}

#[test]
fn what_is_awkward_at_200_columns() {
    assert_snapshot!(draw(&extremes(), &look(200)), @r"
    ━ the longest path                                                           0 s                        2m 30s                         5m 00s                         7m 30s                     10m 00s
    gym.startup ✗ timeout                                         10m 00s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    ├─ load_config                                                1.00 µs   <1%  ╸
    ├─ 評価サーバー ✗ timeout                                      9m 59s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    │  └─ model.load not ended                                     6m 40s   67%                                           ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    │     └─ weights�[2J ✗ error                                   1m 39s   16%                                                                                                        ╺━━━━━━━━━━━━━━━━━━━╸
    ├─ very_long_name_very_long_name_very_long_name_very_long_n…   6m 39s   66%  ──────────────────────────────────────────────────────────────────────────────────
    ├─ clock set back                                             -1.00 s          ╎
    └─ nothing at all                                                 0 s    0%                                                               ╎
    circle a                                                       10.0 s    2%      ━━
    └─ circle b                                                    6.00 s    1%      ╺╸
    orphan                                                         1.00 s   <1%                                                                                                                            ╺
    ");
}

#[test]
fn of_many_servers_the_slowest_are_drawn() {
    let mut spans = vec![span(1, 0, "gym.startup", 0, 30 * S)];
    for number in 0..300 {
        let took = 1_000 * MS + number * 7919 % 300 * 90 * MS;
        let failed = number == 42;
        let server = server(number + 2, &format!("server_{number}"), number * MS, took);
        spans.push(Entry { is_error: failed, ..server });
    }
    let look = Look { most_children: 6, ..look(80) };
    assert_snapshot!(draw(&spans, &look), @r"
    ━ the longest path                        0 s             15.0 s          30.0 s
    gym.startup                 30.0 s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    ├─ server_5                 27.5 s   92%  ──────────────────────────────────╴
    ├─ server_42 ✗ error        18.8 s   63%  ───────────────────────╴
    ├─ server_63                27.7 s   92%  ───────────────────────────────────
    ├─ server_121               27.8 s   93%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    ├─ server_184               27.5 s   92%  ───────────────────────────────────
    ├─ server_242               27.6 s   92%  ───────────────────────────────────
    └─ 294 more servers, up to  27.3 s   91%  ──────────────────────────────────╴
    ");
}

#[test]
fn colours_tell_the_path_and_what_failed() {
    let text = draw(&extremes(), &Look { colour: true, ..look(40) });
    assert_snapshot!(text.replace('\x1b', "^"), @r"
    ^[1mgym.sta…^[0m^[31m ✗ timeo…^[0m  ^[1m10m 00s^[0m  ^[31m━━━━━━━━━━━━^[0m
    ^[2m├ ^[0m^[1mload_config^[0m      ^[1m1.00 µs^[0m  ^[1m^[33m╸^[0m
    ^[2m├ ^[0m^[1m評価サ…^[0m^[31m ✗ time…^[0m  ^[1m 9m 59s^[0m  ^[31m━━━━━━━━━━━━^[0m
    ^[2m│ └ ^[0m^[1mmodel…^[0m^[31m not e…^[0m  ^[1m 6m 40s^[0m      ^[1m^[33m━━━━━━━━^[0m
    ^[2m│   └ ^[0m^[1mweig…^[0m^[31m ✗ er…^[0m  ^[1m 1m 39s^[0m            ^[31m━╸^[0m
    ^[2m├ ^[0mvery_long_name…   6m 39s  ^[34m────────^[0m
    ^[2m├ ^[0mclock set back   -1.00 s  ^[34m╎^[0m
    ^[2m└ ^[0mnothing at all       0 s        ^[34m╎^[0m
    ^[1mcircle a^[0m           ^[1m 10.0 s^[0m  ^[1m^[33m╸^[0m
    ^[2m└ ^[0m^[1mcircle b^[0m         ^[1m 6.00 s^[0m  ^[1m^[33m╸^[0m
    ^[1morphan^[0m             ^[1m 1.00 s^[0m             ^[1m^[33m╺^[0m
    ");
}

#[test]
fn no_line_is_longer_than_the_terminal_is_wide() {
    for spans in [startup(), extremes()] {
        for width in NARROWEST..240 {
            let text = draw(&spans, &look(width));
            for line in text.lines() {
                assert!(line.width() <= width, "{width}: {} {line}", line.width());
            }
        }
    }
}

fn any_entry(time: impl Strategy<Value = u64> + Clone) -> impl Strategy<Value = Entry> {
    let ids = (0..12_u64, proptest::option::of(0..12_u64));
    let times = (time.clone(), proptest::option::of(time));
    let name = prop_oneof![Just(SERVER.to_owned()), Just("gym.startup".to_owned()), ".{0,40}"];
    let said = (name, proptest::option::of(".{0,20}"), any::<bool>());
    (ids, times, said).prop_map(|((id, parent), (start_ns, end_ns), said)| Entry {
        id,
        parent,
        name: said.0,
        start_ns,
        end_ns,
        server: said.1.clone(),
        pid: None,
        outcome: said.1,
        is_error: said.2,
    })
}

proptest! {
    #[test]
    fn whatever_the_spans_say_they_are_drawn(
        entries in vec(any_entry(any::<u64>()), 0..30),
        width in 0..250_usize,
        unicode: bool,
        most_children in 0..5_usize,
    ) {
        let look = Look { width, unicode, colour: false, most_children };
        let text = draw(&entries, &look);
        prop_assert_eq!(text.is_empty(), entries.is_empty());
        prop_assert!(unicode || text.is_ascii());
    }

    #[test]
    fn whatever_the_names_are_lines_fit(
        entries in vec(any_entry(0..4_000_000_000_000_u64), 0..30),
        width in NARROWEST..250,
    ) {
        for line in draw(&entries, &look(width)).lines() {
            prop_assert!(line.width() <= width, "{} {}", line.width(), line);
        }
    }
}

#[test]
fn the_tree_is_what_is_drawn() {
    let look = Look { most_children: usize::MAX, ..look(200) };
    for spans in [startup(), extremes()] {
        let tree = tree(&spans);
        let text = draw(&spans, &look);
        let drawn: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(tree.lines.len(), spans.len());
        assert_eq!(tree.lines.len(), drawn.len());
        for (line, drawn) in tree.lines.iter().zip(drawn) {
            let label = drawn.trim_start_matches(['│', '├', '└', '─', ' ']);
            let indent = drawn.chars().count() - label.chars().count();
            assert_eq!(indent, line.level * 3, "{drawn}");
            let start: String = harmless(&line.label, true).chars().take(40).collect();
            assert!(label.starts_with(&start), "{line:?}\n{drawn}");
            assert!(drawn.contains(&duration(line.length_ns, true)), "{line:?}\n{drawn}");
            assert!(drawn.contains(&line.share), "{line:?}\n{drawn}");
            assert!(line.outcome.iter().all(|it| drawn.contains(it)), "{line:?}\n{drawn}");
            let heavy = drawn.contains(['━', '╸', '╺', '╏']);
            assert_eq!(heavy, line.critical, "{line:?}\n{drawn}");
        }
    }
}

#[test]
fn any_forest_is_drawn() {
    assert_eq!(draw(&[], &look(80)), "");
    let deep: Vec<_> = (1..2_000).map(|id| span(id, id - 1, "deep", 0, S)).collect();
    assert_eq!(draw(&deep, &look(40)).lines().count(), deep.len());
    assert_eq!(tree(&deep).lines.last().map(|line| line.level), Some(deep.len() - 1));
    let itself = [span(1, 1, "itself", 0, 0)];
    assert_eq!(draw(&itself, &look(40)).lines().count(), 1);
}
