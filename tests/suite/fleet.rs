//! Fleet files and the one-server form, as the built program takes them: what cannot be meant
//! starts nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rstest::rstest;

use crate::support::{Run, command};

/// `gym-startup run`, which would leave a trace of anything that it starts.
fn gym_startup() -> Run {
    let path = std::env::var("PATH").unwrap();
    command(env!("CARGO_BIN_EXE_gym-startup")).environ([format!("PATH={path}")]).arg("run")
}

/// A server that leaves a trace, and is ready at once.
const GOOD: &str = r#"
[[server]]
name = "good"
command = "touch started; exec python3 -m http.server $PORT --bind 127.0.0.1"
ready = "tcp://127.0.0.1:1"
"#;

#[test]
fn a_wrong_fleet_starts_nothing_and_tells_all_that_is_wrong() {
    let fleet = format!("{GOOD}[[server]]\nname = \"good\"\nredy = \"tcp://h\"\ntimeout = \"x\"\n");
    let ended = gym_startup().file("fleet.toml", 0o644, fleet).arg("fleet.toml").run().exits(2);
    let text = ended.stderr_text();
    for line in [
        "gym-startup: fleet.toml:6: command: missing; ",
        "gym-startup: fleet.toml:6: ready: missing; ",
        "gym-startup: fleet.toml:8: redy: no such key; did you mean ready? ",
        "gym-startup: fleet.toml:9: timeout: \"x\" is not a time; it takes ",
    ] {
        assert!(text.lines().any(|it| it.starts_with(line)), "no '{line}'\n{ended}");
    }
    assert!(!ended.folder().join("started").exists(), "{ended}");
    assert_eq!(ended.stdout_text(), "");
}

#[test]
fn a_folder_that_may_not_be_entered_starts_nothing() {
    let fleet = format!("{GOOD}cwd = \"closed\"\n");
    let run = gym_startup().file("fleet.toml", 0o644, fleet).arg("fleet.toml");
    let closed = run.folder().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o644)).unwrap();
    let ended = run.user(65534).run().exits(2).prints("");
    let line = format!(
        "gym-startup: fleet.toml:6: cwd: {}: Permission denied, from the fleet file's folder\n",
        closed.display()
    );
    ended.says(line);
}

#[rstest]
#[case::nothing(&[], "run: give a fleet file, or --name NAME --ready URL -- COMMAND")]
#[case::no_fleet_there(&["nowhere.toml"], "nowhere.toml: No such file or directory")]
#[case::both_forms(
    &["fleet.toml", "--name", "a", "--ready", "tcp://h:1", "--", "true"],
    "run: a fleet file describes its servers itself"
)]
#[case::no_dashes(&["--name", "a", "--ready", "tcp://h:1", "./launch.sh"], "<COMMAND>...\n\nUsage: gym-startup run [OPTION]... FLEET.toml\n")]
#[case::no_readiness(&["--name", "a", "--", "true"], "--ready <URL>")]
#[case::no_command(&["--name", "a", "--ready", "tcp://h:1"], "COMMAND")]
#[case::an_empty_command(&["--name", "a", "--ready", "tcp://h:1", "--", ""], "COMMAND: empty;")]
#[case::no_name(&["--name", "", "--ready", "tcp://h:1", "--", "true"], "--name: empty;")]
#[case::a_bad_url(&["--name", "a", "--ready", "h:1", "--", "true"], "--ready: \"h:1\": no scheme;")]
#[case::a_bad_status(
    &["--name", "a", "--ready", "http://h", "--expect", "20", "--", "true"],
    "--expect: 20 is not an HTTP status"
)]
#[case::a_bad_time(&["fleet.toml", "--timeout", "soon"], "--timeout: \"soon\" is not a time;")]
#[case::a_bad_grace(&["fleet.toml", "--grace=-1"], "--grace: \"-1\" is not a time;")]
#[case::two_ends(&["fleet.toml", "--then", "true", "--exit-when-ready"], "cannot be used with")]
fn a_wrong_command_line_starts_nothing(#[case] args: &[&str], #[case] words: &str) {
    let run = gym_startup().file("fleet.toml", 0o644, GOOD);
    let ended = run.args(args.iter().copied()).run().exits(2).prints("");
    assert!(ended.stderr_text().contains(words), "no '{words}'\n{ended}");
    assert!(!ended.folder().join("started").exists(), "{ended}");
}

#[test]
fn paths_of_a_fleet_file_begin_at_its_folder() {
    let fleet = r#"
        [[server]]
        name = "a"
        command = "pwd >seen; exec python3 serve.py"
        cwd = "inner"
        ready = "unix:inner/a.sock"
        [[server]]
        name = "b"
        command = ["./here.sh", "$HOME is only words", 7]
        env = { NUMBER = 8, TEXT = "two words" }
        ready = "unix:b.sock"
    "#;
    let serve = "import socket\nlistener = socket.socket(socket.AF_UNIX)\n\
        listener.bind('a.sock')\nlistener.listen()\nwhile True: listener.accept()\n";
    let here = "#!/bin/sh\nprintf '%s|' \"$@\" \"$NUMBER\" \"$TEXT\" >seen\ncd inner\n\
        sed 's/a.sock/..\\/b.sock/' serve.py | exec python3 -\n";
    let ended = gym_startup()
        .file("sub/fleet.toml", 0o644, fleet)
        .file("sub/inner/serve.py", 0o644, serve)
        .file("sub/here.sh", 0o755, here)
        .args(["--exit-when-ready", "sub/fleet.toml"])
        .run()
        .exits(0);
    let folder = fs::canonicalize(ended.folder()).unwrap();
    let seen = |path: &str| fs::read_to_string(folder.join(path)).unwrap();
    assert_eq!(seen("sub/inner/seen"), format!("{}\n", folder.join("sub/inner").display()));
    assert_eq!(seen("sub/seen"), "$HOME is only words|7|8|two words|");
}
