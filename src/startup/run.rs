//! `gym-startup run`: the front. It has the terminal, the records and the last word on how it went;
//! the servers are the keeper's.
//!
//! Whatever happens here touches no server: the keeper never waits for this process. If this
//! process goes, the keeper ends the servers, and if the keeper goes, this process does.

mod forwarding;
mod keeper;
mod telling;

use std::io;
use std::os::unix::net::UnixStream;
use std::process::{self, ExitCode};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use gym_stamp::supervisor::Failure;
use gym_stamp::telemetry::JsonLines;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::args;
use crate::ending::{Ending, Progress};
use crate::events::{Event, Exit, Trouble};
use crate::exporter;
use crate::fleet::{self, Plan, WhenReady};
use crate::keeper::OUTER;
use crate::keeper::link::{Command, Orders};
use crate::logs;
use crate::process::{
    Blocking, Inherited, Role, ended_children, hear_signals, spawn, wait_for_signals,
};
use crate::record::{Record, Ways};
use crate::say::say;
use crate::status::{FAILED, NOT_FOUND, TIMED_OUT, WRONG_USAGE};
use crate::words::plain;
use crate::{verdict, view};
use keeper::Keeper;
use telling::Telling;

/// What wrappers need to signal both their child and its group for one Ctrl-C; a person who presses it
/// again takes longer.
const ONE_KEYPRESS: Duration = Duration::from_millis(200);

/// Launches what `args` ask for, and stays until it has ended.
pub fn run(args: &args::Run) -> ExitCode {
    let record = Record::new();
    let plan = match fleet::plan(args) {
        Ok(plan) => plan,
        Err(problems) => {
            problems.iter().for_each(say);
            return ExitCode::from(WRONG_USAGE);
        }
    };
    if let Err(error) = check_files(&plan) {
        say(error);
        return ExitCode::from(WRONG_USAGE);
    }
    match Front::start(plan, record) {
        Ok(front) => ExitCode::from(front.run()),
        Err(error) => {
            say(format_args!("nothing was started: {}", plain(error)));
            ExitCode::from(FAILED)
        }
    }
}

/// Finds out at once what could not be written.
fn check_files(plan: &Plan) -> Result<(), String> {
    if let Some(out) = plan.out.as_deref() {
        JsonLines::check(out).map_err(|error| format!("--out: {}", plain(error)))?;
    }
    let logs = plan.log_dir.as_deref().map(|folder| logs::prepare(folder, &plan.servers));
    logs.unwrap_or(Ok(())).map_err(|error| format!("--log-dir: {}", plain(error)))
}

/// What the front acts on.
enum Message {
    Event(Event),
    Signal { signal: Signal, from_terminal: bool },
    KeeperGone,
}

struct Front {
    plan: Plan,
    inherited: Inherited,
    record: Record,
    ways: Ways,
    telling: Telling,
    inbox: Receiver<Message>,
    keeper: Keeper,
    then: Option<Pid>,
    export: Option<Export>,
    ready: Vec<bool>,
    /// All servers were ready once.
    up: bool,
    /// How it went, when that is clear.
    status: Option<u8>,
    /// The first SIGINT.
    interrupted: Option<Instant>,
}

/// An exporter at work.
struct Export {
    pid: Pid,
    deadline: Instant,
    given_up: bool,
}

impl Front {
    fn start(plan: Plan, mut record: Record) -> io::Result<Self> {
        let inherited = Inherited::here();
        let signals = wait_for_signals(&inherited, Blocking::Yes)?;
        nix::sys::prctl::set_child_subreaper(true)?;
        let ways = Ways::new(&plan);
        let warning = record.planned(&plan);

        let (control, its_control) = UnixStream::pair()?;
        let (out, its_out) = UnixStream::pair()?;
        let (err, its_err) = UnixStream::pair()?;
        // Before the keeper: where there can be no threads, nothing is left to end.
        let telling = Telling::start(view::screen(&plan), out, err)?;
        let (sender, inbox) = channel();
        let (events, to) = (control.try_clone()?, sender.clone());
        thread::Builder::new().spawn(move || {
            let messages = keeper::events(events).map(Message::Event);
            messages.chain([Message::KeeperGone]).for_each(|it| to.send(it).unwrap_or_default());
        })?;
        thread::Builder::new().spawn(move || {
            hear_signals(&signals, |signal, from_terminal| {
                sender.send(Message::Signal { signal, from_terminal }).unwrap_or_default();
            });
        })?;
        let mut keeper = Keeper::spawn(control, [its_control, its_out, its_err])?;
        ways.warnings.iter().chain(&warning).for_each(|warning| telling.say(warning));

        let traced = ways.are_any();
        let orders = Orders {
            traceparents: if traced { record.traceparents() } else { Vec::new() },
            env: if traced || ways.is_telemetry_on() { ways.server_env() } else { Vec::new() },
            inherited: inherited.clone(),
            plan,
        };
        keeper.order(&orders)?;
        let plan = orders.plan;
        let ready = vec![false; plan.servers.len()];
        Ok(Self {
            plan,
            inherited,
            record,
            ways,
            telling,
            inbox,
            keeper,
            then: None,
            export: None,
            ready,
            up: false,
            status: None,
            interrupted: None,
        })
    }

    fn run(mut self) -> u8 {
        while self.keeper.connected {
            let message = self.next(self.next_deadline());
            self.take(message);
            self.look_at_deadlines();
        }
        self.end_what_is_left();
        while self.export.is_some() {
            let message = self.next(self.next_deadline());
            self.take(message);
            self.look_at_deadlines();
        }
        self.telling.finish();
        self.status.unwrap_or(FAILED)
    }

    fn next(&self, until: Option<Instant>) -> Option<Message> {
        let Some(until) = until else { return self.inbox.recv().ok() };
        self.inbox.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
    }

    fn next_deadline(&self) -> Option<Instant> {
        let export = self.export.as_ref().map(|export| export.deadline);
        self.keeper.due().into_iter().chain(export).min()
    }

    fn take(&mut self, message: Option<Message>) {
        match message {
            Some(Message::Event(event)) => self.take_event(event),
            Some(Message::Signal { signal: Signal::SIGCHLD, .. }) => self.reap(),
            Some(Message::Signal {
                signal: signal @ (Signal::SIGUSR1 | Signal::SIGUSR2), ..
            }) => {
                self.keeper.command(Command::Pass(signal as i32));
            }
            Some(Message::Signal { signal, from_terminal }) => self.end_for(signal, from_terminal),
            Some(Message::KeeperGone) => {
                self.keeper.is_gone();
                if !self.keeper.over {
                    self.decide(FAILED, Failure::Failed, Trouble::KeeperLost);
                }
            }
            None => {}
        }
    }

    fn take_event(&mut self, event: Event) {
        self.keeper.heard();
        self.record.take(&event, &self.plan);
        self.telling.event(event.clone());
        match event {
            Event::PortTaken { server, holder } => {
                self.keeper.over = true;
                self.decide(FAILED, Failure::Failed, Trouble::PortTaken { server, holder });
            }
            Event::PortTakenLater { server, holder, .. } => {
                self.decide(FAILED, Failure::Failed, Trouble::PortTakenLater { server, holder });
            }
            Event::NotSpawned { server, error, .. } => {
                let status = if self.plan.one_server { error.status } else { FAILED };
                self.decide(status, Failure::Failed, Trouble::NotSpawned { server, error });
            }
            Event::Ready { server, .. } => {
                self.ready.get_mut(server).into_iter().for_each(|ready| *ready = true);
                if self.status.is_none() && !self.up && self.ready.iter().all(|&ready| ready) {
                    self.be_up();
                }
            }
            Event::TimedOut { server, last_look, listens, last_lines, .. } if !self.up => {
                let others = self.ready.iter().enumerate();
                let also = others.filter(|&(it, &ready)| it != server && !ready);
                let also = also.map(|(it, _)| it).collect();
                let trouble = Trouble::TimedOut { server, also, last_look, listens, last_lines };
                self.decide(TIMED_OUT, Failure::Timeout, trouble);
            }
            Event::Exited { server, exit, last_lines, .. } if self.up => {
                let trouble = Trouble::ExitedLater { server, exit, last_lines };
                self.decide(FAILED, Failure::Failed, trouble);
            }
            Event::Exited { server, exit, stray, last_lines, .. } => {
                // One that ended well was not ready all the same.
                let own = exit.status().max(FAILED);
                let status = if self.plan.one_server { own } else { FAILED };
                let ready = self.ready.get(server).copied().unwrap_or_default();
                let trouble = Trouble::ExitedEarly { server, ready, exit, stray, last_lines };
                self.decide(status, Failure::Failed, trouble);
            }
            Event::Ended { .. } => {
                self.keeper.over = true;
                // If nobody here has told the keeper to end them, somebody else has.
                self.decide(FAILED, Failure::Failed, Trouble::KeeperLost);
            }
            _ => {}
        }
    }

    /// Every server is ready.
    fn be_up(&mut self) {
        self.up = true;
        self.keeper.waits_for_no_server();
        let spans = self.record.finish();
        self.keep_and_show(spans);
        match self.plan.when_ready.clone() {
            WhenReady::Stay => {}
            WhenReady::End => self.end_with(0),
            WhenReady::Then(line) => {
                let mut command = process::Command::new("bash");
                command.arg("-c").arg(line);
                for name in OUTER {
                    command.env_remove(name);
                }
                match spawn(&mut command, Role::Companion(&self.inherited)) {
                    Ok(pid) => {
                        self.keeper.command(Command::Mind(pid.as_raw()));
                        self.then = Some(pid);
                    }
                    Err(error) => {
                        self.telling.say(format_args!("--then: bash: {}", plain(error)));
                        self.then_ended(NOT_FOUND);
                    }
                }
            }
        }
    }

    fn then_ended(&mut self, status: u8) {
        if status != 0 && self.status.is_none() {
            self.telling.trouble(Trouble::ThenFailed { status });
        }
        self.end_with(status);
    }

    fn end_for(&mut self, signal: Signal, from_terminal: bool) {
        if self.is_meant(signal) {
            self.keeper.kill();
            self.signal_then(Signal::SIGKILL);
            self.export.iter_mut().for_each(|export| export.deadline = Instant::now());
        }
        if self.status.is_some() {
            return;
        }
        let trouble = Trouble::Interrupted { signal: signal as i32, ready: self.up };
        let status = Exit::Signal(signal as i32).status();
        self.conclude(status, Failure::Interrupted, trouble);
        // The terminal has told it already.
        if !from_terminal {
            self.signal_then(signal);
        }
    }

    /// Who presses Ctrl-C again means it, however the end began.
    fn is_meant(&mut self, signal: Signal) -> bool {
        if signal != Signal::SIGINT {
            return false;
        }
        self.interrupted.get_or_insert_with(Instant::now).elapsed() >= ONE_KEYPRESS
    }

    /// It did not go as it was meant to, if that was not clear before.
    fn decide(&mut self, status: u8, failure: Failure, trouble: Trouble) {
        if self.status.is_none() {
            self.conclude(status, failure, trouble);
            self.signal_then(Signal::SIGTERM);
        }
    }

    fn conclude(&mut self, status: u8, failure: Failure, trouble: Trouble) {
        if !self.up {
            let spans =
                self.record.abort(failure, &verdict::in_short(&trouble, &self.plan.servers));
            self.keep_and_show(spans);
        }
        self.telling.trouble(trouble);
        self.end_with(status);
    }

    fn end_with(&mut self, status: u8) {
        self.status.get_or_insert(status);
        self.keeper.end(self.plan.grace);
    }

    fn signal_then(&self, signal: Signal) {
        if let Some(pid) = self.then {
            kill(pid, signal).unwrap_or_default();
        }
    }

    fn keep_and_show(&mut self, spans: Vec<gym_stamp::spans::SpanRecord>) {
        if let Err(error) = self.ways.write(&spans) {
            self.telling.say(format_args!("--out: {}", plain(error)));
        }
        if let Some(line) = self.ways.to_export(&spans) {
            match exporter::start(line, &self.inherited) {
                Ok(pid) => {
                    self.keeper.command(Command::Mind(pid.as_raw()));
                    let deadline = Instant::now() + self.ways.timeout() + exporter::SLACK;
                    self.export = Some(Export { pid, deadline, given_up: false });
                }
                Err(error) => {
                    self.telling.say(format_args!("nothing was exported: {}", plain(error)))
                }
            }
        }
        self.telling.startup(spans);
    }

    fn reap(&mut self) {
        for (pid, exit) in ended_children() {
            if Some(pid) == self.then {
                self.then = None;
                self.then_ended(exit.status());
            }
            if let Some(export) = self.export.take_if(|export| export.pid == pid) {
                // With a status it has told itself what went wrong.
                if let (Exit::Signal(_), false) = (exit, export.given_up) {
                    self.telling.say(format_args!("nothing was exported: the exporter {exit}"));
                }
            }
        }
    }

    fn look_at_deadlines(&mut self) {
        let now = Instant::now();
        if self.keeper.is_given_up(now) {
            self.decide(FAILED, Failure::Failed, Trouble::KeeperSilent);
        }
        if let Some(export) = &mut self.export
            && now >= export.deadline
        {
            if !export.given_up {
                self.telling.say("nothing was exported: the exporter did not end in time");
            }
            export.given_up = true;
            export.deadline = now + exporter::SLACK;
            kill(export.pid, Signal::SIGKILL).unwrap_or_default();
        }
    }

    /// What the keeper left, if it was lost, and what `--then` did.
    fn end_what_is_left(&mut self) {
        let first = match self.keeper.over {
            true => Signal::SIGTERM,
            false => self.inherited.first_signal(),
        };
        let exporter = self.export.as_ref().map(|export| export.pid);
        let mut ending =
            Ending::new(first, self.plan.grace).sparing(exporter.into_iter().collect());
        loop {
            self.reap();
            match ending.step(&[]) {
                Progress::Over { .. } => return,
                Progress::Sent { .. } => {}
                Progress::Waiting { again } => {
                    let message = self.next(Some(again));
                    if let Some(Message::Signal { signal, .. }) = message
                        && self.is_meant(signal)
                    {
                        ending.kill_now();
                    }
                    self.look_at_deadlines();
                }
            }
        }
    }
}
