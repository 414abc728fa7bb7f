//! What is said when something went wrong: who, how, its last lines, what to try.

use std::fmt::Write as _;

use anstream::adapter::strip_str;
use anstyle::{AnsiColor, Style};
use nix::sys::signal::Signal;

use crate::events::{Exit, NO_COMMAND, Trouble, Unready};
use crate::fleet::{Ready, Server};
use crate::words::{harmless, wrapped};

/// How many names are told of those that have the same trouble.
const MOST_NAMES: usize = 5;

const STRAY_ADVICE: &str = "What goes to the background is known by the environment of its launch: \
                            keep that (no `env -i`), or have the server stay in the foreground.";

const LOUD: Style = AnsiColor::Red.on_default().bold();

/// A paragraph of lines, each with its newline, for a reader who has nothing else before them.
///
/// `one_server` if a command line describes it; `logs` is where the servers' output went, if it did
/// not come past here.
pub fn paragraph(
    trouble: &Trouble,
    servers: &[Server],
    one_server: bool,
    logs: Option<&str>,
    width: usize,
    unicode: bool,
    colour: bool,
) -> String {
    let verdict = Verdict::of(trouble, servers, one_server, logs);
    let style = if colour { LOUD } else { Style::new() };
    let mut text = String::new();
    for line in wrapped(&format!("gym-startup: {}", verdict.what), width, unicode).lines() {
        // A String takes everything.
        writeln!(text, "{style}{line}{style:#}").unwrap_or_default();
    }
    for line in verdict.last_lines {
        let line = strip_str(line).to_string();
        writeln!(text, "  | {}", harmless(line.trim_end(), unicode)).unwrap_or_default();
    }
    if !verdict.advice.is_empty() {
        text.push_str(&wrapped(&verdict.advice, width, unicode));
    }
    text
}

/// The same in one line: what the spans of an aborted startup say.
pub fn in_short(trouble: &Trouble, servers: &[Server]) -> String {
    let name = |server: usize| servers.get(server).map_or("", |it| it.name.as_str());
    match trouble {
        Trouble::PortTaken { server, .. } => {
            format!("{}: something else already answers where it would", name(*server))
        }
        Trouble::PortTakenLater { server, .. } => {
            format!("{}: something else answers where it was to", name(*server))
        }
        Trouble::NotSpawned { server, error } => {
            format!("{} could not be started: {}", name(*server), error.why)
        }
        Trouble::ExitedEarly { server, ready, exit, .. } => {
            format!("{} {exit} before {} ready", name(*server), who_was(*ready))
        }
        Trouble::ExitedLater { server, exit, .. } => format!("{} {exit}", name(*server)),
        Trouble::TimedOut { server, .. } => format!("{} was not ready in time", name(*server)),
        Trouble::Interrupted { signal, .. } => match Signal::try_from(*signal) {
            Ok(signal) => format!("interrupted by {signal}"),
            Err(_) => format!("interrupted by signal {signal}"),
        },
        Trouble::ThenFailed { status } => format!("--then ended with status {status}"),
        Trouble::KeeperLost => "the process that owns the servers was lost".to_owned(),
        Trouble::KeeperSilent => "the process that owns the servers fell silent".to_owned(),
    }
}

struct Verdict<'t> {
    what: String,
    last_lines: &'t [String],
    advice: String,
}

impl<'t> Verdict<'t> {
    fn of(trouble: &'t Trouble, servers: &[Server], one_server: bool, logs: Option<&str>) -> Self {
        let name = |server: usize| servers.get(server).map_or("", |server| &server.name);
        let ready = |server: usize| servers.get(server).map(|server| &server.ready);
        let url = |server| ready(server).map(ToString::to_string).unwrap_or_default();
        let bare = |what: String, advice: String| Self { what, last_lines: &[], advice };
        let quoting = |what: String, last_lines: &'t [String], name: &str, advice: String| {
            let lines = match (last_lines, logs) {
                ([], _) => "It wrote nothing.".to_owned(),
                ([_], _) => "It wrote:".to_owned(),
                _ => "Its last lines:".to_owned(),
            };
            let more = logs.filter(|_| !last_lines.is_empty());
            let more = more.map(|dir| format!("All its lines are in {dir}/{name}.log. "));
            let advice = format!("{}{advice}", more.unwrap_or_default());
            Self { what: format!("{what}. {lines}"), last_lines, advice: advice.trim().to_owned() }
        };
        match trouble {
            Trouble::PortTaken { server, holder } => {
                let by = holder.as_ref().map(|holder| format!(": {holder}")).unwrap_or_default();
                let what = format!(
                    "nothing was started, since something else already answers at {}{by}.",
                    url(*server),
                );
                let name = name(*server);
                bare(what, format!("End it, or have {name} and its `ready` use another place."))
            }
            Trouble::PortTakenLater { server, holder } => {
                let name = name(*server);
                let what = format!("what answers at {} is not {name} but {holder}.", url(*server));
                bare(what, format!("End it, or have {name} and its `ready` use another place."))
            }
            Trouble::NotSpawned { server, error } => {
                let what = format!("{} could not be started: {error}.", name(*server));
                let is_line = error.what.contains(' ');
                let advice = match error.why.as_str() {
                    NO_COMMAND if is_line && one_server => {
                        "Behind -- stand a program and its arguments; for a line that bash takes, \
                         write bash -c 'LINE' there."
                    }
                    NO_COMMAND if is_line => {
                        "A list is a program and its arguments; for a line that bash takes, write \
                         a string."
                    }
                    NO_COMMAND => {
                        "A program is found in PATH, or by its path from the folder that the \
                         server starts in."
                    }
                    _ => "",
                };
                bare(what, advice.to_owned())
            }
            Trouble::ExitedEarly { server, ready, exit, stray, last_lines } => {
                let name = name(*server);
                let what = format!("{name} {exit} before {} ready", who_was(*ready));
                match stray {
                    Some(stray) => {
                        let what = format!("{what}, while {stray} goes on in the background");
                        quoting(what, last_lines, name, STRAY_ADVICE.to_owned())
                    }
                    None => quoting(what, last_lines, name, exit_advice(*exit).to_owned()),
                }
            }
            Trouble::ExitedLater { server, exit, last_lines } => {
                let name = name(*server);
                let others = if servers.len() > 1 { ", so the others are ended" } else { "" };
                let what = format!("{name} {exit} after all were ready{others}");
                quoting(what, last_lines, name, exit_advice(*exit).to_owned())
            }
            Trouble::TimedOut { server, also, last_look, listens, last_lines } => {
                let waited = servers.get(*server).and_then(|server| server.timeout);
                let waited = waited.map(|it| format!(" within {}", humantime::format_duration(it)));
                let also = also_not_ready(also, name);
                let found = match last_look {
                    Some(Unready::Silent) => {
                        "it takes connections there and does not answer".into()
                    }
                    Some(unready) => format!("at the last look: {unready}"),
                    None => "nobody answered there".to_owned(),
                };
                let what = format!(
                    "{} was not ready at {}{}{also}; {found}",
                    name(*server),
                    url(*server),
                    waited.unwrap_or_default(),
                );
                let advice = timeout_advice(last_look.as_ref(), ready(*server), listens);
                quoting(what, last_lines, name(*server), advice)
            }
            Trouble::Interrupted { signal, ready } => {
                let by = Exit::Signal(*signal).to_string();
                let by = by.trim_start_matches("was ended by ");
                let when = if *ready { "" } else { " before all servers were ready" };
                bare(format!("ended by {by}{when}."), String::new())
            }
            Trouble::ThenFailed { status } => {
                let what = format!("the command of --then ended with status {status}.");
                let advice = match status {
                    126 | 127 => exit_advice(Exit::Status(*status)),
                    _ => "",
                };
                bare(what, advice.to_owned())
            }
            Trouble::KeeperLost => {
                let what = "the process that owns the servers is gone, and so they are ended.";
                bare(what.to_owned(), exit_advice(Exit::Signal(9)).to_owned())
            }
            Trouble::KeeperSilent => {
                let what = "the process that owns the servers was stopped, or hangs: it says \
                            nothing for longer than any server may take. It and they are ended.";
                bare(what.to_owned(), String::new())
            }
        }
    }
}

/// Of one that ended, whom all waited for.
fn who_was(ready: bool) -> &'static str {
    if ready { "all were" } else { "it was" }
}

fn also_not_ready<'n>(also: &[usize], name: impl Fn(usize) -> &'n str) -> String {
    if also.is_empty() {
        return String::new();
    }
    let names: Vec<_> = also.iter().take(MOST_NAMES).map(|server| name(*server)).collect();
    let others = match also.len().saturating_sub(names.len()) {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    let were = if also.len() == 1 { "was" } else { "were" };
    format!(", and neither {were} {}{others}", names.join(", "))
}

fn exit_advice(exit: Exit) -> &'static str {
    match exit {
        Exit::Status(0) => {
            "A server stays: if this one goes to the background by itself, have it stay in the \
             foreground."
        }
        Exit::Status(125) => "125 is gym-stamp's own failure; the line above says which.",
        Exit::Status(126) => "126 is a shell's status for a command that is no program.",
        Exit::Status(127) => {
            "127 is a shell's status for a command that is not there: is its environment \
             installed, and its folder in PATH?"
        }
        Exit::Status(137) | Exit::Signal(9) => {
            "SIGKILL is mostly the kernel's, for want of memory: see dmesg, and the limits of the \
             container or job."
        }
        Exit::Status(139) | Exit::Signal(11) => {
            "It is a fault in native code: PYTHONFAULTHANDLER=1 makes a Python show where."
        }
        Exit::Status(_) | Exit::Signal(_) => "",
    }
}

fn timeout_advice(last_look: Option<&Unready>, ready: Option<&Ready>, listens: &[u16]) -> String {
    let longer = "If it only needs longer: --timeout, or `timeout` in the fleet file.";
    let expects = matches!(
        ready,
        Some(Ready::Http { expect: Some(_), .. } | Ready::Unix { expect: Some(_), .. })
    );
    match last_look {
        Some(Unready::Status(_)) if expects => {
            format!("Only the status that `expect` names counts. {longer}")
        }
        Some(Unready::Status(_) | Unready::Says(_) | Unready::Silent) => longer.to_owned(),
        Some(Unready::Nobody(_)) | None => match listens {
            [] => format!("Does it listen there? {longer}"),
            ports => {
                let ports: Vec<_> = ports.iter().map(u16::to_string).collect();
                let what = if ports.len() == 1 { "port" } else { "ports" };
                format!("It listens on {what} {}. {longer}", ports.join(", "))
            }
        },
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a test says what is wrong by panicking")]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use insta::assert_snapshot;

    use super::*;
    use crate::events::NotRun;

    fn said(trouble: &Trouble) -> String {
        said_with(trouble, None)
    }

    fn said_with(trouble: &Trouble, logs: Option<&str>) -> String {
        paragraph(trouble, &servers(), false, logs, 80, true, false)
    }

    fn servers() -> Vec<Server> {
        let server = |name: &str, expect| Server {
            name: name.to_owned(),
            server_type: None,
            command: vec!["x".into()],
            cwd: PathBuf::from("/").into(),
            env: Vec::new(),
            ready: Ready::Http {
                tls: false,
                host: "127.0.0.1".to_owned(),
                port: 8001,
                target: "/".to_owned(),
                expect,
            },
            timeout: Some(Duration::from_secs(90)),
        };
        let servers = ["reward", "judge", "seed", "policy", "user", "critic", "tools"];
        servers.iter().map(|name| server(name, Some(200))).collect()
    }

    fn not_spawned(what: &str, why: &str) -> Trouble {
        let error = NotRun { what: what.to_owned(), why: why.to_owned(), status: 127 };
        Trouble::NotSpawned { server: 2, error }
    }

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn a_server_that_ended_is_quoted() {
        let last_lines = lines(&[
            "Traceback (most recent call last):",
            "\x1b[31mModuleNotFoundError: No module named 'fastapi'\x1b[0m\r\n",
        ]);
        let exit = Exit::Status(1);
        let early = Trouble::ExitedEarly {
            server: 0,
            ready: false,
            exit,
            stray: None,
            last_lines: last_lines.clone(),
        };
        assert_snapshot!(said(&early), @r"
        gym-startup: reward exited with status 1 before it was ready. Its last lines:
          | Traceback (most recent call last):
          | ModuleNotFoundError: No module named 'fastapi'
        ");
        assert_snapshot!(said_with(&early, Some("logs")), @r"
        gym-startup: reward exited with status 1 before it was ready. Its last lines:
          | Traceback (most recent call last):
          | ModuleNotFoundError: No module named 'fastapi'
        All its lines are in logs/reward.log.
        ");
        let later = Trouble::ExitedLater { server: 1, exit: Exit::Signal(9), last_lines };
        assert_snapshot!(said(&later), @r"
        gym-startup: judge was ended by SIGKILL after all were ready, so the others are
        ended. Its last lines:
          | Traceback (most recent call last):
          | ModuleNotFoundError: No module named 'fastapi'
        SIGKILL is mostly the kernel's, for want of memory: see dmesg, and the limits of
        the container or job.
        ");
        let exit = Exit::Status(127);
        let last_lines = lines(&["bash: line 1: uvicorn: command not found"]);
        assert_snapshot!(said(&Trouble::ExitedEarly { server: 0, ready: false, exit, stray: None, last_lines }), @r"
        gym-startup: reward exited with status 127 before it was ready. It wrote:
          | bash: line 1: uvicorn: command not found
        127 is a shell's status for a command that is not there: is its environment
        installed, and its folder in PATH?
        ");
        let ended_well = |stray: Option<&str>| Trouble::ExitedEarly {
            server: 0,
            ready: false,
            exit: Exit::Status(0),
            stray: stray.map(str::to_owned),
            last_lines: Vec::new(),
        };
        assert_snapshot!(said(&ended_well(None)), @r"
        gym-startup: reward exited with status 0 before it was ready. It wrote nothing.
        A server stays: if this one goes to the background by itself, have it stay in
        the foreground.
        ");
        assert_snapshot!(said(&ended_well(Some("python3 (process 4711)"))), @r"
        gym-startup: reward exited with status 0 before it was ready, while python3
        (process 4711) goes on in the background. It wrote nothing.
        What goes to the background is known by the environment of its launch: keep that
        (no `env -i`), or have the server stay in the foreground.
        ");
    }

    #[test]
    fn a_server_that_was_not_ready_in_time_gave_an_answer_or_none() {
        let trouble = |also: &[usize], last_look, listens: &[u16]| Trouble::TimedOut {
            server: 0,
            also: also.to_vec(),
            last_look,
            listens: listens.to_vec(),
            last_lines: lines(&["loading weights"]),
        };
        let refused = Some(Unready::Nobody("connection refused".to_owned()));
        assert_snapshot!(said(&trouble(&[], refused, &[8000, 9090])), @r"
        gym-startup: reward was not ready at http://127.0.0.1:8001/ within 1m 30s; at
        the last look: connection refused. It wrote:
          | loading weights
        It listens on ports 8000, 9090. If it only needs longer: --timeout, or `timeout`
        in the fleet file.
        ");
        assert_snapshot!(said(&trouble(&[1], Some(Unready::Status(404)), &[8001])), @r"
        gym-startup: reward was not ready at http://127.0.0.1:8001/ within 1m 30s, and
        neither was judge; at the last look: answers 404. It wrote:
          | loading weights
        Only the status that `expect` names counts. If it only needs longer: --timeout,
        or `timeout` in the fleet file.
        ");
        assert_snapshot!(said(&trouble(&[], Some(Unready::Silent), &[8001])), @r"
        gym-startup: reward was not ready at http://127.0.0.1:8001/ within 1m 30s; it
        takes connections there and does not answer. It wrote:
          | loading weights
        If it only needs longer: --timeout, or `timeout` in the fleet file.
        ");
        assert_snapshot!(said(&trouble(&[1, 2, 3, 4, 5, 6], None, &[])), @r"
        gym-startup: reward was not ready at http://127.0.0.1:8001/ within 1m 30s, and
        neither were judge, seed, policy, user, critic and 1 more; nobody answered
        there. It wrote:
          | loading weights
        Does it listen there? If it only needs longer: --timeout, or `timeout` in the
        fleet file.
        ");
    }

    #[test]
    fn who_else_answers_and_what_never_ran() {
        let holder = Some("python3 (pid 4711)".to_owned());
        assert_snapshot!(said(&Trouble::PortTaken { server: 1, holder }), @r"
        gym-startup: nothing was started, since something else already answers at
        http://127.0.0.1:8001/: python3 (pid 4711).
        End it, or have judge and its `ready` use another place.
        ");
        assert_snapshot!(said(&Trouble::PortTaken { server: 1, holder: None }), @r"
        gym-startup: nothing was started, since something else already answers at
        http://127.0.0.1:8001/.
        End it, or have judge and its `ready` use another place.
        ");
        let holder = "python3 (process 4711)".to_owned();
        assert_snapshot!(said(&Trouble::PortTakenLater { server: 1, holder }), @r"
        gym-startup: what answers at http://127.0.0.1:8001/ is not judge but python3
        (process 4711).
        End it, or have judge and its `ready` use another place.
        ");
        assert_snapshot!(said(&not_spawned("uvicorn", NO_COMMAND)), @r"
        gym-startup: seed could not be started: uvicorn: command not found.
        A program is found in PATH, or by its path from the folder that the server
        starts in.
        ");
        assert_snapshot!(said(&not_spawned("./serve", "Permission denied")), @"gym-startup: seed could not be started: ./serve: Permission denied.");
    }

    #[test]
    fn a_line_that_was_a_list_is_recognised() {
        let trouble = not_spawned("cd x && y", NO_COMMAND);
        assert_snapshot!(said(&trouble), @r"
        gym-startup: seed could not be started: cd x && y: command not found.
        A list is a program and its arguments; for a line that bash takes, write a
        string.
        ");
        assert_snapshot!(paragraph(&trouble, &servers(), true, None, 80, true, false), @r"
        gym-startup: seed could not be started: cd x && y: command not found.
        Behind -- stand a program and its arguments; for a line that bash takes, write
        bash -c 'LINE' there.
        ");
        assert_eq!(in_short(&trouble, &servers()), "seed could not be started: command not found");
    }

    #[test]
    fn what_came_from_elsewhere_is_said_in_a_line_or_two() {
        assert_snapshot!(said(&Trouble::Interrupted { signal: 2, ready: false }), @"gym-startup: ended by SIGINT before all servers were ready.");
        assert_snapshot!(said(&Trouble::Interrupted { signal: 15, ready: true }), @"gym-startup: ended by SIGTERM.");
        assert_snapshot!(said(&Trouble::ThenFailed { status: 7 }), @"gym-startup: the command of --then ended with status 7.");
        assert_snapshot!(said(&Trouble::ThenFailed { status: 127 }), @r"
        gym-startup: the command of --then ended with status 127.
        127 is a shell's status for a command that is not there: is its environment
        installed, and its folder in PATH?
        ");
        assert_snapshot!(said(&Trouble::KeeperSilent), @r"
        gym-startup: the process that owns the servers was stopped, or hangs: it says
        nothing for longer than any server may take. It and they are ended.
        ");
        assert_snapshot!(said(&Trouble::KeeperLost), @r"
        gym-startup: the process that owns the servers is gone, and so they are ended.
        SIGKILL is mostly the kernel's, for want of memory: see dmesg, and the limits of
        the container or job.
        ");
    }
}
