//! The keeper: the process that owns the servers. It spawns, probes, signals and reaps them, tells
//! what happens, and does nothing else.
//!
//! It has no terminal, knows of no telemetry, and never waits for the front. When the front is
//! gone it ends the servers; when it is gone itself, the front does.

mod ends;
mod launch;
pub mod link;
mod listeners;
mod minded;
mod output;
mod server;
mod sight;
mod watch;
mod whose;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use gym_stamp::timeline::{Clock, SystemClock};
use nix::sys::signal::{Signal, kill};
use nix::sys::signalfd::SignalFd;
use tokio::net::UnixStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use crate::ending::Ending;
use crate::events::{Event, Exit};
use crate::fleet::Ready;
use crate::probe::Answer;
use crate::rhythm::Rhythm;
use crate::{probe, process};
pub use launch::OUTER;
use link::{Command, Lines, Orders, Outlet};
use listeners::Listeners;
use minded::Minded;
use output::Output;
use server::{Probing, Server, State};
use sight::{Launch, Sight};

/// The first argument that makes this program a keeper.
pub const WORD: &str = "__keeper";

/// What may wait for a front that does not listen, in bytes.
const EVENTS_CAPACITY: usize = 1024 * 1024;
const OUTPUT_CAPACITY: usize = 1024 * 1024;
/// The first look whether the ports of a fleet are free.
const TAKEN_LIMIT: Duration = Duration::from_secs(1);
/// How long the last events and the last output may take to reach the front.
const FAREWELL: Duration = Duration::from_secs(1);
/// How many servers are spawned before anything else is looked at again.
const SPAWNED_AT_ONCE: usize = 8;

/// Is the keeper, from the first order to the last server's end.
pub fn main() -> ExitCode {
    match keep() {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever would want to hear of it is the front, and it hears that we are gone.
        Err(_) => ExitCode::FAILURE,
    }
}

fn keep() -> io::Result<()> {
    let sockets = sockets()?;
    // Ctrl-C and Ctrl-Z are the front's.
    nix::unistd::setsid()?;
    nix::sys::prctl::set_child_subreaper(true)?;
    nix::sys::prctl::set_name(c"gym-keeper")?;
    process::raise_descriptor_limit();
    let signals = process::wait_for_signals(&process::Inherited::here(), process::Blocking::No)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = LocalSet::new().block_on(&runtime, serve(sockets, signals));
    // A name server that does not answer is not waited for.
    runtime.shutdown_background();
    result
}

/// The front's sockets.
struct Sockets {
    control: OwnedFd,
    out: OwnedFd,
    err: OwnedFd,
}

/// They came as stdin, stdout and stderr. Nothing of them is left to servers.
fn sockets() -> io::Result<Sockets> {
    let control = io::stdin().as_fd().try_clone_to_owned()?;
    let out = io::stdout().as_fd().try_clone_to_owned()?;
    let err = io::stderr().as_fd().try_clone_to_owned()?;
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    nix::unistd::dup2_stdin(&null)?;
    nix::unistd::dup2_stdout(&null)?;
    nix::unistd::dup2_stderr(&null)?;
    Ok(Sockets { control, out, err })
}

fn stream(socket: OwnedFd) -> io::Result<Rc<UnixStream>> {
    let socket = std::os::unix::net::UnixStream::from(socket);
    socket.set_nonblocking(true)?;
    Ok(Rc::new(UnixStream::from_std(socket)?))
}

async fn serve(sockets: Sockets, signals: SignalFd) -> io::Result<()> {
    let control = stream(sockets.control)?;
    let mut lines = Lines::new(Rc::clone(&control));
    let Some(orders) = lines.next().await else { return Ok(()) };
    let orders: Orders = serde_json::from_slice(&orders)?;

    let (sender, inbox) = unbounded_channel();
    let events = Outlet::new(control, EVENTS_CAPACITY);
    let [out, err] = [stream(sockets.out)?, stream(sockets.err)?]
        .map(|socket| Outlet::new(socket, OUTPUT_CAPACITY));
    let output = Output::new(out, err);
    let mut keeper = Keeper::new(orders, Rc::clone(&events), output, sender.clone());
    if keeper.ports_are_free().await {
        tokio::task::spawn_local(hear_front(lines, sender.clone()));
        tokio::task::spawn_local(hear_signals(signals, sender));
        keeper.run(inbox).await;
    }
    farewell(&events, keeper.output).await;
    Ok(())
}

async fn farewell(events: &Outlet, output: Output) {
    let deadline = Instant::now() + FAREWELL;
    drop(timeout_at(deadline, events.emptied()).await);
    drop(timeout_at(deadline, output.emptied()).await);
}

/// What the keeper acts on.
enum Message {
    Command(Command),
    FrontGone,
    Signal(Signal),
    Answer { server: usize, at_ns: u64, answer: Answer },
}

async fn hear_front(mut lines: Lines, to: UnboundedSender<Message>) {
    while let Some(line) = lines.next().await {
        if let Ok(command) = serde_json::from_slice(&line) {
            to.send(Message::Command(command)).unwrap_or_default();
        }
    }
    to.send(Message::FrontGone).unwrap_or_default();
}

async fn hear_signals(signals: SignalFd, to: UnboundedSender<Message>) {
    let Ok(signals) = process::awaited(signals) else { return };
    while let Ok(mut ready) = signals.readable().await {
        match signals.get_ref().read_signal() {
            Ok(Some(info)) => {
                let signal = i32::try_from(info.ssi_signo).ok();
                if let Some(signal) = signal.and_then(|it| Signal::try_from(it).ok()) {
                    to.send(Message::Signal(signal)).unwrap_or_default();
                }
            }
            _ => ready.clear_ready(),
        }
    }
}

struct Keeper {
    orders: Orders,
    events: Rc<Outlet>,
    /// Events that the front could not be told.
    missed: usize,
    output: Output,
    inbox: UnboundedSender<Message>,
    tls: Option<TlsConnector>,
    servers: Vec<Server>,
    /// With the times of their answers.
    just_ready: Vec<(usize, u64)>,
    listeners: Listeners,
    ports: Rhythm,
    looks: Rhythm,
    minded: Minded,
    ending: Option<Ending>,
    ending_again: Instant,
    over: bool,
}

impl Keeper {
    fn new(
        orders: Orders,
        events: Rc<Outlet>,
        output: Output,
        inbox: UnboundedSender<Message>,
    ) -> Self {
        let any_tls =
            |server: &crate::fleet::Server| matches!(server.ready, Ready::Http { tls: true, .. });
        let tls = orders.plan.servers.iter().any(any_tls).then(probe::any_certificate).flatten();
        Self {
            servers: Vec::with_capacity(orders.plan.servers.len()),
            orders,
            events,
            missed: 0,
            output,
            inbox,
            tls,
            just_ready: Vec::new(),
            listeners: Listeners::new(),
            ports: Rhythm::new(),
            looks: Rhythm::new(),
            minded: Minded::new(),
            ending: None,
            ending_again: Instant::now(),
            over: false,
        }
    }

    /// Whether nobody answers yet where the servers will; tells who does.
    async fn ports_are_free(&mut self) -> bool {
        let deadline = Instant::now() + TAKEN_LIMIT;
        let looks: Vec<_> = self
            .orders
            .plan
            .servers
            .iter()
            .map(|server| {
                let ready = server.ready.clone();
                tokio::task::spawn_local(async move { probe::is_taken(&ready).await })
            })
            .collect();
        for (server, look) in looks.into_iter().enumerate() {
            if matches!(timeout_at(deadline, look).await, Ok(Ok(true))) {
                let holder = self.holder(server).map(|holder| holder.to_string());
                self.tell(&Event::PortTaken { server, holder });
                return false;
            }
        }
        true
    }

    async fn run(&mut self, mut inbox: UnboundedReceiver<Message>) {
        while !self.over {
            match timeout_at(self.next_due(), inbox.recv()).await {
                Ok(Some(message)) => self.take(message),
                Ok(None) => return,
                Err(_) => {}
            }
            while let Ok(message) = inbox.try_recv() {
                self.take(message);
            }
            self.work();
        }
    }

    fn next_due(&self) -> Instant {
        if self.ending.is_some() {
            return self.ending_again;
        }
        if self.servers.len() < self.orders.plan.servers.len() {
            return Instant::now();
        }
        let mut due = Instant::now() + Duration::from_secs(60);
        due = self.minded.due().map_or(due, |look| due.min(look));
        for server in &self.servers {
            match server.state {
                state if state.awaits_ready() => {
                    due = due.min(self.ports.next).min(self.looks.next);
                    due = server.deadline.map_or(due, |deadline| due.min(deadline));
                }
                State::Ending { until, .. } => due = due.min(until),
                _ => {}
            }
        }
        due
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Command(Command::End) => self.end(self.orders.inherited.first_signal()),
            Message::Command(Command::Kill) => match &mut self.ending {
                Some(ending) => {
                    ending.kill_now();
                    self.ending_again = Instant::now();
                }
                None => self.end(Signal::SIGKILL),
            },
            Message::Command(Command::Pass(signal)) => {
                if let Ok(signal) = Signal::try_from(signal) {
                    self.pass(signal);
                }
            }
            Message::Command(Command::Mind(pid)) => self.minded.add(pid),
            Message::FrontGone => self.end_with_front(),
            Message::Signal(Signal::SIGCHLD) => self.reap(),
            Message::Signal(signal @ (Signal::SIGUSR1 | Signal::SIGUSR2)) => self.pass(signal),
            // Whoever means us alone means the servers.
            Message::Signal(_) => self.end(self.orders.inherited.first_signal()),
            Message::Answer { server, at_ns, answer } => self.answered(server, at_ns, answer),
        }
    }

    fn work(&mut self) {
        if !self.just_ready.is_empty() {
            self.tell_ready();
        }
        if self.minded.due().is_some_and(|due| Instant::now() >= due) {
            self.minded.look();
        }
        if self.ending.is_some() {
            return self.go_on_ending();
        }
        self.spawn_some();
        let now = Instant::now();
        self.tell_exits(now);
        if self.servers.iter().any(|server| server.state.awaits_ready()) {
            if now >= self.looks.next {
                self.look_at_processes();
            }
            if now >= self.ports.next {
                self.look_at_ports(now);
            }
            self.tell_timeouts(now);
        }
    }

    fn tell(&mut self, event: &Event) {
        let mut line = serde_json::to_vec(event).unwrap_or_default();
        line.push(b'\n');
        let mut missed = Vec::new();
        if self.missed > 0 {
            missed = serde_json::to_vec(&Event::Missed { events: self.missed }).unwrap_or_default();
            missed.push(b'\n');
        }
        if self.events.put(&[&missed, &line]) {
            self.missed = 0;
        } else {
            self.missed = self.missed.saturating_add(1);
        }
    }

    fn spawn_some(&mut self) {
        for _ in 0..SPAWNED_AT_ONCE {
            let number = self.servers.len();
            let Some(plan) = self.orders.plan.servers.get(number) else { return };
            let at_ns = SystemClock.now_ns();
            let deadline = plan.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
            let spawned = launch::launch(&self.orders, number, at_ns, &mut self.output);
            let mut server = Server {
                root: None,
                launch: None,
                launched: None,
                state: State::Gone,
                left_behind: Vec::new(),
                left_exit: Exit::Status(0),
                deadline,
                sight: Sight::default(),
                probe: Probing::new(),
            };
            match spawned {
                Ok(launched) => {
                    let pid = launched.pid;
                    server.root = Some(pid);
                    server.launch = Some(Launch { pid: pid.as_raw(), spawn_ns: at_ns });
                    server.launched = Some(launched);
                    server.state = State::Starting;
                    self.servers.push(server);
                    self.tell(&Event::Spawned { server: number, at_ns, pid: pid.as_raw() });
                }
                Err(error) => {
                    self.servers.push(server);
                    self.tell(&Event::NotSpawned { server: number, at_ns, error });
                }
            }
            if self.servers.len() == self.orders.plan.servers.len() {
                self.tell(&Event::AllSpawned { at_ns: SystemClock.now_ns() });
            }
        }
    }

    fn pass(&self, signal: Signal) {
        for root in self.servers.iter().filter_map(|server| server.root) {
            kill(root, signal).unwrap_or_default();
        }
    }
}
