//! Whose processes and sockets are: an answer is not always the server's.

use std::collections::{HashMap, HashSet};

use super::listeners::Ports;
use super::{Keeper, sight};
use crate::probe;
use crate::proc::{self, Named, Process, Processes, own_pid};

impl Keeper {
    /// Who already listens where the server number `number` will, if that can be seen.
    pub(super) fn holder(&self, number: usize) -> Option<Named> {
        let ports = self.listeners.ports()?;
        let sockets = self.sockets(number, &ports)?;
        let processes = Processes::now();
        let holders = processes.pids().filter(|&pid| !held(pid, sockets).is_empty());
        holders.min().and_then(Named::of)
    }

    /// Who listens where the server number `number` should, if it is certain that all who do are
    /// strangers. Whom we cannot see may be at work for the server, as a container's runtime is.
    pub(super) fn stranger(
        &self,
        number: usize,
        ports: &Ports,
        processes: &Processes,
        by_server: &HashMap<usize, Vec<Process>>,
    ) -> Option<Named> {
        let sockets = self.sockets(number, ports)?;
        let its_own = by_server.get(&number).map_or(&[][..], Vec::as_slice);
        if its_own.iter().any(|process| !held(process.pid, sockets).is_empty()) {
            return None;
        }
        let ours: HashSet<i32> = processes.below(own_pid()).iter().map(|it| it.pid).collect();
        let mut unseen = sockets.clone();
        let mut strangers = Vec::new();
        for pid in processes.pids() {
            let held = held(pid, sockets);
            if held.is_empty() {
                continue;
            }
            if ours.contains(&pid) || !self.is_stranger(pid) {
                return None;
            }
            unseen.retain(|socket| !held.contains(socket));
            strangers.push(pid);
        }
        strangers.into_iter().min().filter(|_| unseen.is_empty()).and_then(Named::of)
    }

    /// The ports that the server number `number` listens on.
    pub(super) fn listens_on(&self, number: usize) -> Vec<u16> {
        let by_server = self.by_server(&Processes::now());
        let its_own = by_server.get(&number).map_or(&[][..], Vec::as_slice);
        let ports = self.listeners.ports().unwrap_or_default();
        let is_its_own = |sockets: &HashSet<u32>| {
            its_own.iter().any(|process| !held(process.pid, sockets).is_empty())
        };
        let mut listens: Vec<u16> = ports
            .iter()
            .filter(|(_, sockets)| is_its_own(sockets))
            .map(|(port, _)| *port)
            .collect();
        listens.sort_unstable();
        listens
    }

    /// Whether a process that is not below us is another launch's. What Slurm, a container's runtime
    /// or a service manager starts at a server's request has the server's environment, or none of a
    /// launch; so has what serves for it and was there before, such as a cluster's proxy.
    fn is_stranger(&self, pid: i32) -> bool {
        sight::spawn_ns(pid).is_some_and(|spawn_ns| {
            let mut launches = self.servers.iter().filter_map(|server| server.launch);
            launches.all(|launch| launch.spawn_ns != spawn_ns)
        })
    }

    /// The sockets that listen where the server number `number` should, on this machine.
    fn sockets<'p>(&self, number: usize, ports: &'p Ports) -> Option<&'p HashSet<u32>> {
        let plan = self.orders.plan.servers.get(number)?;
        ports.get(&probe::local_port(&plan.ready)?)
    }
}

/// Somebody below us whom nothing tells whose it is.
pub fn stray(processes: &Processes, by_server: &HashMap<usize, Vec<Process>>) -> Option<Named> {
    let known: HashSet<i32> = by_server.values().flatten().map(|it| it.pid).collect();
    let mut children = processes.children(own_pid()).into_iter();
    let stray = children.find(|it| !it.ended && !known.contains(&it.pid));
    stray.and_then(|it| Named::of(it.pid))
}

/// Those of `sockets` that the process has.
fn held(pid: i32, sockets: &HashSet<u32>) -> HashSet<u32> {
    proc::sockets(pid).intersection(sockets).copied().collect()
}
