#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use insta::assert_snapshot;

use super::*;
use crate::events::{Exit, NoStamp};
use crate::fleet::Ready;

const MS: u64 = 1_000_000;
const EPOCH: u64 = 1_800_000_000_000_000_000;

fn plan(names: &[&str]) -> Plan {
    let server = |name: &&str| Server {
        name: (*name).to_owned(),
        server_type: None,
        command: vec!["x".into()],
        cwd: std::path::PathBuf::from("/").into(),
        env: Vec::new(),
        ready: Ready::Tcp { host: "h".to_owned(), port: 1 },
        timeout: None,
    };
    Plan {
        servers: names.iter().map(server).collect(),
        one_server: names.len() == 1,
        when_ready: WhenReady::Stay,
        grace: Duration::ZERO,
        out: None,
        log_dir: None,
        quiet: false,
        progress: true,
    }
}

/// Both streams, in the order of the writes.
#[derive(Clone, Default)]
struct Screen(Arc<Mutex<Vec<u8>>>);

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Screen {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// As a terminal shows it.
    fn shown(&self) -> String {
        let [rows, columns] = [10, 80].map(|it| it.try_into().unwrap());
        let mut terminal = vt100::Parser::new(rows, columns, 0);
        for line in self.0.lock().unwrap().split_inclusive(|byte| *byte == b'\n') {
            terminal.process(line);
            terminal.process(b"\r");
        }
        terminal.screen().contents()
    }
}

fn view(plan: &Plan, live: bool) -> (View, Screen) {
    let screen = Screen::default();
    let surroundings = Surroundings {
        size: || (80, 24),
        is_in_background: || false,
        clock: || EPOCH,
        unicode: true,
    };
    let out = Some(Channel::new("standard output", screen.clone(), live, false));
    let err = Channel::new("standard error", screen.clone(), live, false);
    (View::new(plan, out, err, live, surroundings), screen)
}

fn at(ms: u64) -> u64 {
    EPOCH + ms * MS
}

fn spawned(server: usize) -> Event {
    Event::Spawned { server, at_ns: at(0), pid: 4711 }
}

fn some_of_all() -> Vec<Event> {
    vec![
        spawned(0),
        spawned(1),
        spawned(2),
        Event::AllSpawned { at_ns: at(9) },
        Event::SetupDone { server: 1, setup_done_ns: at(1_050) },
        Event::StepBegan { server: 0, name: "uv pip install".to_owned(), start_ns: at(300) },
        Event::NotYet { server: 1, at_ns: at(2_000), answer: "answers 503".to_owned() },
        Event::Ready { server: 2, at_ns: at(2_500) },
        Event::NoStamp { server: 2, why: NoStamp::NotSet },
        Event::Exited {
            server: 3,
            at_ns: at(3_000),
            exit: Exit::Status(3),
            stray: None,
            last_lines: vec![],
        },
    ]
}

fn drawn(view: &View, after_ms: u64, width: usize, height: usize) -> String {
    let lines = frame(&view.known, at(after_ms), width, height);
    let lines: Vec<_> = lines.iter().map(|line| line.render(width, false, true).0).collect();
    lines.join("\n")
}

#[test]
fn the_view_has_every_server_its_stage_and_how_long() {
    let plan = plan(&["reward", "policy_model", "judge", "評価サーバー", "later"]);
    let (mut view, _) = view(&plan, true);
    some_of_all().iter().for_each(|event| view.known.learn(event));
    assert_snapshot!(drawn(&view, 9_300, 80, 24), @r"
    ⠸ reward        venv_setup      9.3 s  uv pip install 9.0 s
    ⠸ policy_model  server_start    8.2 s  answers 503
    ✓ judge         ready          2.50 s
    ✗ 評価サーバー  failed         3.00 s  exited with status 3
    · later         waiting
    1 of 5 ready, 9.3 s
    ");
    assert_snapshot!(drawn(&view, 69_300, 40, 24), @r"
    ⠸ reward        venv_setup     1m 09s  …
    ⠸ policy_model  server_start   1m 08s  …
    ✓ judge         ready          2.50 s
    ✗ 評価サーバー  failed         3.00 s  …
    · later         waiting
    1 of 5 ready, 1m 09s
    ");
}

#[test]
fn of_many_servers_those_that_are_not_ready_are_shown() {
    let names: Vec<_> = (0..300).map(|number| format!("server_{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let (mut view, _) = view(&plan(&names), true);
    for server in 0..280 {
        view.known.learn(&spawned(server));
        if server % 7 > 0 {
            view.known.learn(&Event::SetupDone { server, setup_done_ns: at(500) });
            view.known.learn(&Event::Ready { server, at_ns: at(800) });
        }
    }
    view.known.learn(&Event::Exited {
        server: 250,
        at_ns: at(900),
        exit: Exit::Signal(9),
        stray: None,
        last_lines: vec![],
    });
    assert_snapshot!(drawn(&view, 2_000, 80, 12), @r"
    ⠋ server_0    launched        2.0 s
    ⠋ server_7    launched        2.0 s
    ⠋ server_14   launched        2.0 s
    ⠋ server_21   launched        2.0 s
    ⠋ server_28   launched        2.0 s
    ⠋ server_35   launched        2.0 s
    ⠋ server_42   launched        2.0 s
    ⠋ server_49   launched        2.0 s
    ✗ server_250  failed         900 ms  was ended by SIGKILL
      291 more; of all 300: 1 failed, 20 waiting, 40 launched, 239 ready
    239 of 300 ready, 2.0 s
    ");
}

#[test]
fn elsewhere_every_event_is_a_line() {
    let (mut view, screen) = view(&plan(&["reward", "policy_model", "judge", "seed"]), false);
    for event in some_of_all() {
        view.event(&event);
    }
    let (name, end_ns) = ("uv pip install".to_owned(), at(9_020));
    view.event(&Event::StepEnded { server: 0, name, start_ns: at(330), end_ns });
    view.event(&Event::Ending { at_ns: at(0), signal: "SIGINT".to_owned(), processes: 5 });
    view.event(&Event::Ended { at_ns: at(0), left: 1 });
    view.event(&Event::Missed { events: 2 });
    assert_snapshot!(screen.text(), @r"
    gym-startup: reward: launched as process 4711
    gym-startup: policy_model: launched as process 4711
    gym-startup: judge: launched as process 4711
    gym-startup: policy_model: venv_setup took 1.05 s
    gym-startup: reward: uv pip install is running
    gym-startup: policy_model: answers 503: not ready yet
    gym-startup: judge: ready after 2.50 s
    gym-startup: judge: no gym-stamp in its launch: setup and start are not told apart
    gym-startup: seed: exited with status 3 after 3.00 s
    gym-startup: reward: uv pip install took 8.69 s
    gym-startup: ending: SIGINT to 5 processes
    gym-startup: 1 process could not be ended, not even by SIGKILL
    gym-startup: 2 events not told
    ");
}

#[test]
fn quiet_keeps_the_output_and_the_trouble() {
    let mut plan = plan(&["reward"]);
    plan.quiet = true;
    let (mut view, screen) = view(&plan, false);
    view.event(&spawned(0));
    view.lines(Stream::Out, b"(reward) hello\n");
    view.startup(&[]);
    view.trouble(&Trouble::Interrupted { signal: 2, ready: false });
    view.over();
    assert_snapshot!(screen.text(), @r"
    (reward) hello
    gym-startup: ended by SIGINT before all servers were ready.
    ");
}

#[test]
fn lines_go_above_the_view_and_the_view_goes_at_the_end() {
    let (mut view, screen) = view(&plan(&["reward", "judge"]), true);
    view.event(&spawned(0));
    view.lines(Stream::Out, b"(reward) first\n");
    view.lines(Stream::Err, b"(judge) \xff second\n");
    view.draw();
    view.tick();
    view.lines(Stream::Out, b"(judge) third\n");
    view.draw();
    assert_snapshot!(screen.shown(), @r"
    (reward) first
    (judge)  second
    (judge) third
    ⠋ reward  launched        0.0 s
    · judge   waiting
    0 of 2 ready, 0.0 s
    ");
    view.event(&Event::Ready { server: 0, at_ns: at(1_000) });
    view.event(&Event::Ready { server: 1, at_ns: at(2_000) });
    view.startup(&[]);
    view.event(&Event::Ended { at_ns: at(0), left: 0 });
    view.over();
    assert_snapshot!(screen.shown(), @r"
    (reward) first
    (judge)  second
    (judge) third


    gym-startup: both servers are ready after 2.00 s; Ctrl-C ends them
    ");
}

#[test]
fn a_view_that_a_narrower_terminal_has_wrapped_is_erased_whole() {
    static WIDTH: AtomicUsize = AtomicUsize::new(80);
    let (mut view, screen) = view(&plan(&["reward"]), true);
    view.surroundings.size = || (WIDTH.load(Ordering::Relaxed), 24);
    view.event(&spawned(0));
    view.event(&Event::NotYet { server: 0, at_ns: at(0), answer: "long ".repeat(20) });
    view.draw();
    WIDTH.store(30, Ordering::Relaxed);
    screen.0.lock().unwrap().clear();
    view.draw();
    // 79 columns in 3 rows of 30, and the last line.
    assert!(screen.text().starts_with("\r\x1b[4A"), "{:?}", screen.text());
    WIDTH.store(NARROWEST - 1, Ordering::Relaxed);
    view.draw();
    screen.0.lock().unwrap().clear();
    view.draw();
    assert_eq!(screen.text(), "");
}

#[test]
fn in_the_background_the_screen_is_somebody_elses() {
    let (mut view, screen) = view(&plan(&["reward"]), true);
    view.surroundings.is_in_background = || true;
    view.event(&spawned(0));
    view.draw();
    assert_eq!(screen.text(), "");
}

#[test]
fn names_have_colours_where_there_are_any() {
    let names = ["reward", "judge"].map(str::to_owned);
    let mut lines = Vec::new();
    Names::new(&names, true).add(1, b"\x1b[31mred", &mut lines);
    Names::new(&names, false).add(1, b"\x1b[31mas it came", &mut lines);
    let lines = String::from_utf8(lines).unwrap().replace('\x1b', "^");
    assert_snapshot!(lines, @r"
    ^[35m(judge)^[0m ^[31mred^[0m
    (judge) ^[31mas it came
    ");
}

#[test]
fn nobody_reads_and_nothing_else_happens() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (mut view, screen) = view(&plan(&["reward"]), true);
    view.err = Channel::new("standard error", Closed, true, true);
    view.event(&spawned(0));
    view.lines(Stream::Err, b"lost\n");
    view.lines(Stream::Out, b"kept\n");
    view.tick();
    view.startup(&[]);
    view.over();
    assert_eq!(screen.text(), "kept\n");
}

#[test]
fn what_could_not_be_written_is_told_once_where_it_can_be() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (mut view, screen) = view(&plan(&["reward"]), false);
    view.out = Some(Channel::new("standard output", Full, false, false));
    view.lines(Stream::Out, b"lost\n");
    view.lines(Stream::Out, b"lost too\n");
    view.say("more");
    view.over();
    assert_snapshot!(screen.text(), @r"
    gym-startup: standard output: no storage space: not all of it is there
    gym-startup: more
    ");
}
