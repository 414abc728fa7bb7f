//! Whose processes and sockets are: an answer is not always the server's.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsRawFd;

use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket};

use super::listeners::Ports;
use super::{Keeper, sight};
use crate::fleet::Ready;
use crate::probe;
use crate::proc::{self, Named, Process, Processes, own_pid};

impl Keeper {
    /// Who already listens where the server number `number` will, if that can be seen.
    pub(super) fn holder(&self, number: usize) -> Option<Named> {
        if let Some(pid) = self.unix_listener(number) {
            return Named::of(pid);
        }
        let ports = self.listeners.ports()?;
        let sockets = self.sockets(number, &ports)?;
        let processes = Processes::now();
        first(processes.all().filter(|it| !held(it.pid, sockets).is_empty()))
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
        if let Some(pid) = self.unix_listener(number) {
            let is_ours = || processes.below(own_pid()).iter().any(|it| it.pid == pid);
            return Named::of(pid).filter(|_| self.is_stranger(pid) && !is_ours());
        }
        let sockets = self.sockets(number, ports)?;
        let its_own = by_server.get(&number).map_or(&[][..], Vec::as_slice);
        if its_own.iter().any(|process| !held(process.pid, sockets).is_empty()) {
            return None;
        }
        let ours: HashSet<i32> = processes.below(own_pid()).iter().map(|it| it.pid).collect();
        let mut unseen = sockets.clone();
        let mut strangers = Vec::new();
        for process in processes.all() {
            let held = held(process.pid, sockets);
            if held.is_empty() {
                continue;
            }
            if ours.contains(&process.pid) || !self.is_stranger(process.pid) {
                return None;
            }
            unseen.retain(|socket| !held.contains(socket));
            strangers.push(process);
        }
        first(strangers).filter(|_| unseen.is_empty())
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

    /// Who listens on the Unix socket of the server number `number`: the kernel tells it to whoever
    /// connects.
    fn unix_listener(&self, number: usize) -> Option<i32> {
        let Ready::Unix { path, .. } = &self.orders.plan.servers.get(number)?.ready else {
            return None;
        };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None).ok()?;
        connect(socket.as_raw_fd(), &UnixAddr::new(&**path).ok()?).ok()?;
        let pid = getsockopt(&socket, PeerCredentials).ok()?.pid();
        // One that cannot be seen from here has none.
        (pid > 0).then_some(pid)
    }

    /// The sockets that listen where the server number `number` should, on this machine.
    fn sockets<'p>(&self, number: usize, ports: &'p Ports) -> Option<&'p HashSet<u32>> {
        let plan = self.orders.plan.servers.get(number)?;
        ports.get(&probe::local_port(&plan.ready)?)
    }
}

/// The ports that `processes` listen on.
pub fn listens_on(processes: &[Process], ports: &Ports) -> Vec<u16> {
    let open: HashSet<u32> = processes.iter().flat_map(|it| proc::sockets(it.pid)).collect();
    let listens = ports.iter().filter(|(_, sockets)| !open.is_disjoint(sockets));
    let mut listens: Vec<u16> = listens.map(|(port, _)| *port).collect();
    listens.sort_unstable();
    listens
}

/// Somebody below us whom nothing tells whose it is.
pub fn stray(processes: &Processes, by_server: &HashMap<usize, Vec<Process>>) -> Option<Named> {
    let known: HashSet<i32> = by_server.values().flatten().map(|it| it.pid).collect();
    let mut children = processes.children(own_pid()).into_iter();
    let stray = children.find(|it| !it.ended && !known.contains(&it.pid));
    stray.and_then(|it| Named::of(it.pid))
}

/// The one of `holders` that was there first: what it has forked since, for a moment or for good,
/// holds the same, and may have a lower number.
fn first<'p>(holders: impl IntoIterator<Item = &'p Process>) -> Option<Named> {
    let first = holders.into_iter().min_by_key(|it| (it.start_ticks, it.pid));
    first.and_then(|it| Named::of(it.pid))
}

/// Those of `sockets` that the process has.
fn held(pid: i32, sockets: &HashSet<u32>) -> HashSet<u32> {
    proc::sockets(pid).intersection(sockets).copied().collect()
}
