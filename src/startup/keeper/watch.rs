//! What the keeper finds out about its servers, from outside.

use std::collections::HashMap;

use gym_stamp::timeline::{Clock, SystemClock};
use tokio::time::Instant;

use super::server::{Server, State};
use super::sight::{self, Look, Sight};
use super::{Keeper, Message, whose};
use crate::events::{Event, Unready};
use crate::probe::{self, Answer};
use crate::proc::{self, Process, Processes, own_pid};
use crate::rhythm::Rhythm;

impl Keeper {
    pub(super) fn look_at_ports(&mut self, now: Instant) {
        let local = |plan: &crate::fleet::Server| probe::local_port(&plan.ready);
        let ports = self.ports.look(|| self.listeners.ports());
        let mut due = Vec::new();
        for (number, (server, plan)) in
            self.servers.iter_mut().zip(&self.orders.plan.servers).enumerate()
        {
            let listening = local(plan).and_then(|port| Some(ports.as_ref()?.contains_key(&port)));
            if server.state.awaits_ready() && server.probe.is_due(now, listening) {
                server.probe.asking = true;
                due.push((number, plan.ready.clone()));
            }
        }
        for (server, ready) in due {
            let (inbox, tls) = (self.inbox.clone(), self.tls.clone());
            tokio::task::spawn_local(async move {
                let tell = |answer| {
                    let at_ns = SystemClock.now_ns();
                    inbox.send(Message::Answer { server, at_ns, answer }).unwrap_or_default();
                };
                probe::ask(&ready, tls.as_ref(), tell).await;
            });
        }
    }

    pub(super) fn answered(&mut self, number: usize, at_ns: u64, answer: Answer) {
        let waiting = self.servers.iter().filter(|server| server.state.awaits_ready()).count();
        let Some(server) = self.servers.get_mut(number) else { return };
        // Of one whose launch has just ended too: if that has left it, it is asked again.
        if answer != Answer::Awaited {
            server.probe.answered(&answer, waiting);
        }
        if self.ending.is_some() || !server.state.awaits_ready() {
            return;
        }
        match answer {
            Answer::Awaited => {
                if matches!(server.probe.last, None | Some(Unready::Nobody(_))) {
                    server.probe.last = Some(Unready::Silent);
                }
            }
            Answer::Counts => {
                server.state = match server.state {
                    State::Daemon { .. } => State::Daemon { was_ready: true },
                    _ => State::Ready,
                };
                self.just_ready.push((number, at_ns));
            }
            Answer::Unready(unready) => {
                server.probe.last = Some(unready.clone());
                let is_there = !matches!(unready, Unready::Nobody(_));
                if is_there && server.probe.told.as_ref() != Some(&unready) {
                    let answer = unready.to_string();
                    server.probe.told = Some(unready);
                    self.tell(&Event::NotYet { server: number, at_ns, answer });
                }
            }
        }
    }

    /// Tells of the servers that have become ready, with what was stamped since the last look; and
    /// of those that only seem to be.
    pub(super) fn tell_ready(&mut self) {
        let just_ready = std::mem::take(&mut self.just_ready);
        let processes = Processes::now();
        let by_server = self.by_server(&processes);
        let ports = self.listeners.ports().unwrap_or_default();
        let unstamped = |number, server: &Server| {
            server.sight.no_stamp().is_some() && just_ready.iter().any(|it| it.0 == number)
        };
        self.look_at_processes_of(&by_server, unstamped);
        for (number, at_ns) in just_ready {
            if let Some(stranger) = self.stranger(number, &ports, &processes, &by_server) {
                if let Some(server) = self.servers.get_mut(number) {
                    server.state = State::Gone;
                }
                let holder = stranger.to_string();
                self.tell(&Event::PortTakenLater { server: number, at_ns, holder });
                continue;
            }
            let sight = self.servers.get(number).map(|server| &server.sight);
            if let Some(why) = sight.and_then(Sight::no_stamp) {
                self.tell(&Event::NoStamp { server: number, why });
            }
            self.tell(&Event::Ready { server: number, at_ns });
        }
    }

    pub(super) fn look_at_processes(&mut self) {
        let mut looks = std::mem::replace(&mut self.looks, Rhythm::new());
        looks.look(|| {
            let by_server = self.by_server(&Processes::below_own());
            self.look_at_processes_of(&by_server, |_, server| server.state.awaits_ready());
        });
        self.looks = looks;
    }

    fn look_at_processes_of(
        &mut self,
        by_server: &HashMap<usize, Vec<Process>>,
        wanted: impl Fn(usize, &Server) -> bool,
    ) {
        let look =
            Look { at_ns: SystemClock.now_ns(), waiting_for_locks: proc::waiting_for_locks() };
        let mut events = Vec::new();
        for (number, server) in self.servers.iter_mut().enumerate() {
            let of_server = by_server.get(&number).map_or(&[][..], Vec::as_slice);
            if let Some(launch) = server.launch.filter(|_| wanted(number, server)) {
                events.extend(server.sight.look(number, launch, of_server, &look));
            }
        }
        events.iter().for_each(|event| self.tell(event));
    }

    /// Whose process is whose. What a server orphaned comes to us: by its session, by what its launch
    /// left, or else by its environment, it is still known.
    pub(super) fn by_server(&self, processes: &Processes) -> HashMap<usize, Vec<Process>> {
        let mut by_launch = HashMap::new();
        let mut by_spawn = HashMap::new();
        let mut left_behind = HashMap::new();
        for (number, server) in self.servers.iter().enumerate() {
            if let Some(launch) = server.launch {
                by_launch.insert(launch.pid, number);
                by_spawn.insert(launch.spawn_ns, number);
            }
            left_behind.extend(server.left_behind.iter().map(|it| (it.identity(), number)));
        }
        let only_server = (self.orders.plan.servers.len() == 1).then_some(0);
        let mut by_server: HashMap<usize, Vec<Process>> = HashMap::new();
        for child in processes.children(own_pid()) {
            let known = by_launch.get(&child.pid).or_else(|| by_launch.get(&child.session));
            let known = known.or_else(|| left_behind.get(&child.identity()));
            let server = known.or_else(|| by_spawn.get(&sight::spawn_ns(child.pid)?));
            // Where there is only one server, there is no doubt.
            let server = server.or(only_server.as_ref());
            if let Some(&server) = server {
                let all = by_server.entry(server).or_default();
                all.push(child);
                all.extend(processes.below(child.pid));
            }
        }
        by_server
    }

    pub(super) fn tell_timeouts(&mut self, now: Instant) {
        let mut late = Vec::new();
        for (number, server) in self.servers.iter_mut().enumerate() {
            let is_late = server.deadline.is_some_and(|deadline| now >= deadline);
            if is_late && server.state.awaits_ready() {
                server.deadline = None;
                late.push((number, server.probe.last.clone(), server.last_lines()));
            }
        }
        if late.is_empty() {
            return;
        }
        let by_server = self.by_server(&Processes::now());
        let ports = self.listeners.ports().unwrap_or_default();
        for (number, last_look, last_lines) in late {
            let its_own = by_server.get(&number).map_or(&[][..], Vec::as_slice);
            self.tell(&Event::TimedOut {
                server: number,
                at_ns: SystemClock.now_ns(),
                last_look,
                listens: whose::listens_on(its_own, &ports),
                last_lines,
            });
        }
    }
}
