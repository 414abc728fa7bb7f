//! How servers end, and are ended.

use std::collections::HashMap;
use std::time::Duration;

use gym_stamp::timeline::{Clock, SystemClock};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tokio::time::Instant;

use super::launch::Launched;
use super::server::{Server, State};
use super::{Keeper, whose};
use crate::ending::{Ending, Progress};
use crate::events::{Event, Exit};
use crate::proc::{Process, Processes};
use crate::process;

/// What an exit waits for output that is still in its pipes: the last words of a server.
const LAST_OUTPUT: Duration = Duration::from_millis(50);

impl Keeper {
    pub(super) fn reap(&mut self) {
        let at_ns = SystemClock.now_ns();
        for (pid, exit) in process::ended_children() {
            let left = |it: &Server| it.left_behind.iter().any(|left| left.pid == pid.as_raw());
            if let Some(server) = self.servers.iter_mut().find(|server| left(server)) {
                server.left_exit = exit;
            }
            let server = self.servers.iter_mut().find(|server| server.root == Some(pid));
            let Some(server) = server else { continue };
            server.root = None;
            let was_ready = server.state == State::Ready;
            if server.state.awaits_ready() || was_ready {
                let until = Instant::now() + LAST_OUTPUT;
                server.state = State::Ending { was_ready, exit, at_ns, until };
            }
        }
        self.ending_again = Instant::now();
        self.reap_daemons(at_ns);
    }

    /// A daemon's end is that of its last process.
    fn reap_daemons(&mut self, at_ns: u64) {
        let is_daemon = |server: &Server| matches!(server.state, State::Daemon { .. });
        if !self.servers.iter().any(is_daemon) {
            return;
        }
        let by_server = self.by_server(&Processes::now());
        for (number, server) in self.servers.iter_mut().enumerate() {
            let State::Daemon { was_ready } = server.state else { continue };
            let left = left(&by_server, number);
            if left.is_empty() {
                let (exit, until) = (server.left_exit, Instant::now() + LAST_OUTPUT);
                server.state = State::Ending { was_ready, exit, at_ns, until };
            } else {
                // What it has started since may be what is left of it in the end.
                server.left_behind = left;
            }
        }
    }

    /// Tells of the servers that have ended, when their last output is there.
    pub(super) fn tell_exits(&mut self, now: Instant) {
        let ended: Vec<_> = self
            .servers
            .iter()
            .enumerate()
            .filter_map(|(number, server)| {
                let State::Ending { was_ready, exit, at_ns, until } = server.state else {
                    return None;
                };
                let silent = server.launched.as_ref().is_none_or(Launched::is_silent);
                (silent || now >= until).then_some((number, was_ready, exit, at_ns))
            })
            .collect();
        if ended.is_empty() {
            return;
        }
        let processes = Processes::now();
        let by_server = self.by_server(&processes);
        for (number, was_ready, exit, at_ns) in ended {
            let left = left(&by_server, number);
            let Some(server) = self.servers.get_mut(number) else { continue };
            if exit == Exit::Status(0) && !left.is_empty() {
                server.state = State::Daemon { was_ready };
                server.left_behind = left;
                continue;
            }
            server.state = State::Gone;
            let last_lines = server.last_lines();
            let stray = match exit {
                Exit::Status(0) => whose::stray(&processes, &by_server).map(|it| it.to_string()),
                _ => None,
            };
            self.tell(&Event::Exited { server: number, at_ns, exit, stray, last_lines });
        }
    }

    pub(super) fn end(&mut self, first: Signal) {
        if self.ending.is_none() {
            self.ending = Some(Ending::new(first, self.orders.plan.grace));
            self.ending_again = Instant::now();
        }
    }

    /// A front that has said to end the servers waits for its own processes itself.
    pub(super) fn end_with_front(&mut self) {
        self.end(self.orders.inherited.first_signal());
        let minded = self.minded.known();
        self.ending = self.ending.take().map(|ending| ending.including(minded));
    }

    pub(super) fn go_on_ending(&mut self) {
        if Instant::now() < self.ending_again {
            return;
        }
        self.reap_all();
        let leaders: Vec<Pid> = self.servers.iter().filter_map(|server| server.root).collect();
        let Some(ending) = &mut self.ending else { return };
        match ending.step(&leaders) {
            Progress::Waiting { again } => self.ending_again = again.into(),
            Progress::Sent { signal, processes } => {
                let signal = signal.as_str().to_owned();
                self.tell(&Event::Ending { at_ns: SystemClock.now_ns(), signal, processes });
            }
            Progress::Over { left } => {
                self.tell(&Event::Ended { at_ns: SystemClock.now_ns(), left });
                self.over = true;
            }
        }
    }

    fn reap_all(&mut self) {
        for (pid, _) in process::ended_children() {
            if let Some(server) = self.servers.iter_mut().find(|it| it.root == Some(pid)) {
                server.root = None;
            }
        }
    }
}

/// Those of the server's processes that have not ended.
fn left(by_server: &HashMap<usize, Vec<Process>>, server: usize) -> Vec<Process> {
    let of_server = by_server.get(&server).into_iter().flatten();
    of_server.filter(|it| !it.ended).copied().collect()
}
