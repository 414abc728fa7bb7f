//! `gym-startup watch`: a server that something else launched, until it is ready.
//!
//! It looks at processes and asks the server, and does nothing else to either.

mod report;
mod target;

use std::cell::{Cell, RefCell};
use std::path::{self, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use gym_stamp::timeline::{Clock, SystemClock};
use nix::sys::signal::{Signal, kill};
use tokio_rustls::TlsConnector;

use crate::args;
use crate::events::{Exit, Unready};
use crate::exporter;
use crate::fleet::{Ready, check, time};
use crate::probe::{self, Answer};
use crate::proc;
use crate::process::{Blocking, Inherited, ended_children, hear_signals, wait_for_signals};
use crate::rhythm::{Rhythm, SHORTEST_PAUSE};
use crate::say::say;
use crate::status::{FAILED, WRONG_USAGE};
use crate::words::duration;
use report::{Outcome, Report};
use target::{Listener, Target};

/// A server that answers, and nothing that counts, is asked less and less often.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

pub fn watch(args: &args::Watch) -> ExitCode {
    let plan = match Plan::new(args) {
        Ok(plan) => plan,
        Err(problems) => {
            problems.iter().for_each(say);
            return ExitCode::from(WRONG_USAGE);
        }
    };
    match watch_to_the_end(&plan) {
        Ok(status) => ExitCode::from(status),
        Err(why) => {
            say(why);
            ExitCode::from(FAILED)
        }
    }
}

/// What the command line asks for, checked.
struct Plan {
    ready: Ready,
    pid: Option<i32>,
    name: Option<String>,
    server_type: Option<String>,
    timeout: Option<Duration>,
    out: Option<PathBuf>,
    quiet: bool,
}

impl Plan {
    fn new(args: &args::Watch) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        if let Some(expect) = args.expect
            && let Err(why) = check::status(expect.into())
        {
            problems.push(format!("--expect: {why}"));
        }
        let here = path::absolute(".").map_err(|error| error.to_string());
        let ready = here.and_then(|here| Ready::parse(&args.ready, args.expect, &here));
        let ready = ready.map_err(|why| problems.push(format!("--ready: {why}")));
        let timeout = time::from_text(&args.timeout);
        let timeout = timeout.map_err(|why| problems.push(format!("--timeout: {why}")));
        if args.pid.is_some_and(|pid| pid <= 0) {
            problems.push("--pid: a process has a number greater than zero".to_owned());
        }
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        match (ready, timeout) {
            (Ok(ready), Ok(timeout)) if problems.is_empty() => Ok(Self {
                ready,
                pid: args.pid,
                name: given(&args.name),
                server_type: given(&args.server_type),
                timeout: time::unless_zero(timeout),
                out: args.out.clone(),
                quiet: args.quiet,
            }),
            _ => Err(problems),
        }
    }
}

impl Plan {
    fn waits(&self) -> String {
        let limit = self.timeout.map(|timeout| format!(", for {} at most", span_of(timeout)));
        let limit = limit.unwrap_or_default();
        format!("waiting until somebody answers at {}{limit}", self.ready)
    }
}

fn span_of(time: Duration) -> String {
    duration(i128::try_from(time.as_nanos()).unwrap_or(i128::MAX), false)
}

/// A server that takes so long to answer for the first time may not have been ready when it was
/// asked, or it always takes as long.
const AT_ONCE: Duration = Duration::from_millis(100);
/// It was not ready if it answers in so small a part of that time when it is asked once more.
const CLEARLY_SOONER: u32 = 4;

/// What is acted on.
enum Message {
    Answer {
        at_ns: u64,
        answer: Answer,
    },
    /// Whether it answers clearly sooner than the first time, which was [`slow`].
    Again {
        is_sooner: bool,
    },
    Signal(Signal),
}

/// How long an answer was awaited, if it was not there at once.
fn slow(awaited_ns: Option<u64>, at_ns: u64) -> Option<Duration> {
    let took = Duration::from_nanos(at_ns.saturating_sub(awaited_ns?));
    (took >= AT_ONCE).then_some(took)
}

/// Returns the status to exit with.
///
/// # Errors
///
/// Why the server cannot be watched.
fn watch_to_the_end(plan: &Plan) -> Result<u8, String> {
    if !proc::is_of_our_namespace() {
        return Err("/proc is that of another PID namespace: mount it anew \
                    (unshare --mount-proc), or watch from there"
            .to_owned());
    }
    let inherited = Inherited::here();
    let signals = wait_for_signals(&inherited, Blocking::Yes).map_err(|error| error.to_string())?;
    let mut target = Target::new(plan)?;
    let (sender, inbox) = channel();
    let (to, ready) = (sender.clone(), plan.ready.clone());
    thread::spawn(move || {
        hear_signals(&signals, |signal, _| {
            sender.send(Message::Signal(signal)).unwrap_or_default();
        });
    });
    thread::spawn(move || ask_until_ready(&ready, &to));

    let outcome = wait(plan, &mut target, &inbox)?;
    let report = Report::new(plan, &target, outcome);
    let export = report.record().map(|(line, limit)| (exporter::start(line, &inherited), limit));
    report.show();
    match export {
        Some((Ok(exporter), limit)) => wait_for_exporter(exporter, limit, &inbox),
        Some((Err(error), _)) => say(format_args!("nothing was exported: {error}")),
        None => {}
    }
    report.status()
}

/// Looks at the processes, and hears what else there is, until it is clear how it went.
fn wait(plan: &Plan, target: &mut Target, inbox: &Receiver<Message>) -> Result<Outcome, String> {
    let deadline = plan.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut looks = Rhythm::new();
    let mut last_look = None;
    let mut awaited_ns = None;
    loop {
        let look = looks.look(|| target.look())?;
        if !plan.quiet {
            look.news.iter().for_each(say);
        }
        if let Some(exit) = look.ended {
            return Ok(Outcome::Ended { at_ns: SystemClock.now_ns(), exit });
        }
        let next = looks.next.into_std();
        loop {
            let until = deadline.map_or(next, |deadline| next.min(deadline));
            // What came in time is heard, however late it is by now.
            let message = inbox.recv_timeout(until.saturating_duration_since(Instant::now()));
            match message {
                Ok(Message::Answer { at_ns, answer: Answer::Counts }) => {
                    // Its stamps may be younger than the last look.
                    target.look()?;
                    let proxy = match target.other_listener() {
                        Some(Listener::OfAnotherLaunch(listener)) => {
                            return Ok(Outcome::AnotherAnswers { at_ns, listener });
                        }
                        Some(Listener::Unstamped(proxy)) => Some(proxy),
                        None => None,
                    };
                    let was_not_ready = match (&last_look, slow(awaited_ns, at_ns)) {
                        (Some(_), _) => Ok(true),
                        (None, Some(_)) => answers_sooner_again(inbox),
                        (None, None) => Ok(false),
                    };
                    return Ok(match was_not_ready {
                        Ok(true) => Outcome::Ready { at_ns, proxy },
                        Ok(false) => Outcome::Already { proxy },
                        Err(signal) => Outcome::Interrupted(signal),
                    });
                }
                Ok(Message::Answer { at_ns, answer: Answer::Awaited }) => awaited_ns = Some(at_ns),
                Ok(Message::Answer { answer: Answer::Unready(unready), .. }) => {
                    awaited_ns = None;
                    let is_somebody = !matches!(unready, Unready::Nobody(_));
                    if is_somebody && !plan.quiet && last_look.as_ref() != Some(&unready) {
                        say(format_args!("{}: {unready}; not ready yet", target.name()));
                    }
                    if !is_somebody && !plan.quiet && last_look.is_none() {
                        say(plan.waits());
                    }
                    if is_somebody || last_look.is_none() {
                        last_look = Some(unready);
                    }
                }
                Ok(Message::Signal(Signal::SIGCHLD) | Message::Again { .. }) => {}
                Ok(Message::Signal(signal)) => return Ok(Outcome::Interrupted(signal)),
                Err(_) if deadline.is_some_and(|deadline| Instant::now() >= deadline) => {
                    let last_look = match last_look {
                        None | Some(Unready::Nobody(_)) if awaited_ns.is_some() => {
                            Some(Unready::Silent)
                        }
                        last_look => last_look,
                    };
                    return Ok(Outcome::TimedOut { at_ns: SystemClock.now_ns(), last_look });
                }
                Err(_) if Instant::now() >= next => break,
                Err(_) => {}
            }
        }
    }
}

/// Whether the server was clearly sooner when it was asked once more.
///
/// # Errors
///
/// The signal that came first.
fn answers_sooner_again(inbox: &Receiver<Message>) -> Result<bool, Signal> {
    loop {
        match inbox.recv() {
            Ok(Message::Again { is_sooner }) => return Ok(is_sooner),
            Ok(Message::Signal(Signal::SIGCHLD) | Message::Answer { .. }) => {}
            Ok(Message::Signal(signal)) => return Err(signal),
            Err(_) => return Ok(false),
        }
    }
}

fn ask_until_ready(ready: &Ready, to: &Sender<Message>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return };
    let tls = match ready {
        Ready::Http { tls: true, .. } => probe::any_certificate(),
        _ => None,
    };
    runtime.block_on(async {
        let mut pause = SHORTEST_PAUSE;
        let mut was_not_ready = false;
        loop {
            let last = RefCell::new(Answer::Awaited);
            let (awaited_ns, took) = (Cell::new(None), Cell::new(None));
            let tell = |answer: Answer| {
                last.replace(answer.clone());
                let at_ns = SystemClock.now_ns();
                match answer {
                    Answer::Awaited => awaited_ns.set(Some(at_ns)),
                    _ => took.set(slow(awaited_ns.get(), at_ns)),
                }
                to.send(Message::Answer { at_ns, answer }).unwrap_or_default();
            };
            probe::ask(ready, tls.as_ref(), tell).await;
            pause = match last.into_inner() {
                Answer::Counts => {
                    if let Some(took) = took.get().filter(|_| !was_not_ready) {
                        let limit = took / CLEARLY_SOONER;
                        let is_sooner = answers_within(limit, ready, tls.as_ref()).await;
                        to.send(Message::Again { is_sooner }).unwrap_or_default();
                    }
                    return;
                }
                Answer::Unready(Unready::Nobody(_)) => SHORTEST_PAUSE,
                _ => (pause * 5 / 4).min(LONGEST_PAUSE),
            };
            was_not_ready = true;
            tokio::time::sleep(pause).await;
        }
    });
}

async fn answers_within(limit: Duration, ready: &Ready, tls: Option<&TlsConnector>) -> bool {
    let counts = Cell::new(false);
    let ask = probe::ask(ready, tls, |answer| counts.set(answer == Answer::Counts));
    // What is left of a long answer is not waited for.
    drop(tokio::time::timeout(limit, ask).await);
    counts.get()
}

fn wait_for_exporter(exporter: nix::unistd::Pid, limit: Duration, inbox: &Receiver<Message>) {
    let deadline = Instant::now() + limit + exporter::SLACK;
    loop {
        match ended_children().into_iter().find(|(pid, _)| *pid == exporter) {
            // With a status it has told itself what went wrong.
            Some((_, Exit::Status(_))) => return,
            Some((_, exit)) => {
                return say(format_args!("nothing was exported: the exporter {exit}"));
            }
            None => {}
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let why = match inbox.recv_timeout(left) {
            Ok(
                Message::Signal(Signal::SIGCHLD) | Message::Answer { .. } | Message::Again { .. },
            ) => continue,
            Ok(Message::Signal(signal)) => format!("{signal} came first"),
            Err(_) => "the exporter did not end in time".to_owned(),
        };
        kill(exporter, Signal::SIGKILL).unwrap_or_default();
        return say(format_args!("nothing was exported: {why}"));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn an_answer_that_is_there_when_the_time_is_over_counts() -> Result<(), String> {
        let plan = Plan {
            ready: Ready::parse("tcp://127.0.0.1:9", None, Path::new("/"))?,
            pid: None,
            name: None,
            server_type: None,
            timeout: Some(Duration::ZERO),
            out: None,
            quiet: true,
        };
        let (sender, inbox) = channel();
        sender.send(Message::Answer { at_ns: 1, answer: Answer::Counts }).unwrap_or_default();
        let outcome = wait(&plan, &mut Target::new(&plan)?, &inbox)?;
        assert_eq!(outcome, Outcome::Already { proxy: None });
        let outcome = wait(&plan, &mut Target::new(&plan)?, &inbox)?;
        assert!(matches!(outcome, Outcome::TimedOut { .. }), "{outcome:?}");
        Ok(())
    }
}
