//! What a run looks like, on a terminal and elsewhere.

use std::fs;

use rstest::rstest;

use crate::support::toolbox::free_port;
use crate::support::{Ended, Run, Terminal, command};

/// A server that says a word, and is ready a moment after there is a file `heard`.
fn gym_startup(term: &str, args: &[&str]) -> Run {
    let port = free_port();
    let path = std::env::var("PATH").unwrap();
    let serve = format!(
        "echo a word; until [ -e heard ]; do sleep 0.05; done; exec python3 -c \"import http.server as http; http.HTTPServer(\
         ('127.0.0.1', {port}), http.SimpleHTTPRequestHandler).serve_forever()\""
    );
    command(env!("CARGO_BIN_EXE_gym-startup"))
        .environ([format!("PATH={path}"), "LANG=C.UTF-8".into(), format!("TERM={term}")])
        .args(["run", "--exit-when-ready"])
        .args(args.iter().copied())
        .args(["--name", "reward", "--ready", &format!("http://127.0.0.1:{port}/")])
        .args(["--", "bash", "-c", &serve])
}

/// Where nobody waits for the word.
fn heard(run: Run) -> Run {
    run.file("heard", 0o644, "")
}

/// All that a run writes to a terminal, and how it ended.
fn on_terminal(run: Run) -> (String, Ended) {
    let mut terminal = Terminal::new();
    let running = run.on_terminal(&terminal).spawn();
    let heard = running.folder().join("heard");
    let mut bytes = Vec::new();
    // A terminal that nobody reads fills up, and its writers wait.
    running.wait_until(|| {
        bytes.extend(terminal.read());
        if bytes.windows(WORD.len()).any(|it| it == WORD.as_bytes()) {
            fs::write(&heard, "").unwrap();
        }
        let stat = fs::read_to_string(format!("/proc/{}/stat", running.pid())).unwrap();
        stat.rsplit(')').next().unwrap().starts_with(" Z")
    });
    bytes.extend(terminal.read());
    (String::from_utf8(bytes).unwrap(), running.wait())
}

/// What is left on the screen.
fn screen(text: &str) -> String {
    // Room for what Python says of an interrupt in the middle of a request, too.
    let [rows, columns] = [300, 80].map(|it| it.try_into().unwrap());
    let mut terminal = vt100::Parser::new(rows, columns, 0);
    terminal.process(text.as_bytes());
    terminal.screen().contents()
}

const WORD: &str = "a word";
const UP: &str = "\r\x1b[2A";

#[test]
fn a_terminal_gets_a_live_view_and_then_the_waterfall() {
    let (text, ended) = on_terminal(gym_startup("xterm", &[]));
    let ended = ended.exits(0);
    assert!(text.contains(UP) && text.contains("launched"), "{text}");
    let screen = screen(&text);
    assert!(screen.starts_with("(reward) a word\n"), "{ended}\n{screen}");
    assert!(screen.contains("\ngym.startup   "), "{screen}");
    assert!(screen.contains("\n├─ reward   "), "{screen}");
    assert!(screen.contains("\ngym-startup: reward is ready after "), "{screen}");
    assert!(!screen.contains("launched") && !screen.contains("1 ready"), "{screen}");
}

#[rstest]
#[case::no_movement(gym_startup("xterm", &["--no-progress"]))]
#[case::no_color(gym_startup("xterm", &[]).var("NO_COLOR", "1"))]
#[case::a_dumb_terminal(gym_startup("dumb", &[]))]
#[case::in_the_background(
    gym_startup("xterm", &[]).under(["bash", "-c", "set -m; \"$@\" & wait $!", "bash"])
)]
fn whoever_does_not_want_it_gets_lines(#[case] run: Run) {
    let (text, ended) = on_terminal(run);
    ended.exits(0);
    assert!(!text.contains("\x1b[2A"), "{text:?}");
    let text = screen(&text);
    for words in ["(reward) a word", "gym-startup: reward: launched", "reward: ready after", "├─"]
    {
        assert!(text.contains(words), "no '{words}'\n{text}");
    }
}

#[rstest]
#[case::no_color(gym_startup("xterm", &[]).var("NO_COLOR", "1"))]
#[case::a_dumb_terminal(gym_startup("dumb", &[]))]
fn whoever_does_not_want_colours_gets_no_escapes(#[case] run: Run) {
    let (text, ended) = on_terminal(run);
    ended.exits(0);
    assert!(!text.contains('\x1b'), "{text:?}");
}

#[test]
fn elsewhere_it_is_lines_on_stderr_in_the_characters_of_the_locale() {
    let ended = heard(gym_startup("xterm", &[]))
        .var("LC_ALL", "C")
        .run()
        .exits(0)
        .prints("(reward) a word\n");
    let text = ended.stderr_text();
    assert!(text.is_ascii(), "{ended}");
    for words in ["reward: launched as process ", "reward: ready after ", "\n|- reward "] {
        assert!(text.contains(words), "no '{words}'\n{ended}");
    }
}

#[test]
fn quiet_is_the_servers_output_alone() {
    let ended = heard(gym_startup("xterm", &["--quiet"]));
    let ended = ended.run().exits(0).prints("(reward) a word\n");
    assert!(!ended.stderr_text().contains("gym-startup"), "{ended}");
}
