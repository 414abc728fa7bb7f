//! Which TCP ports somebody listens on, and through which sockets, asked of the kernel in one go.
//!
//! `/proc/net/tcp` tells that too, and walks all of the kernel's table of connections for it: 4 ms
//! on a machine of 24 GB, where this takes some microseconds.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

/// linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const HEADER: usize = 16;
const REQUEST: usize = 56;
const LISTEN: u32 = 1 << 10;
/// In a message of the answer, behind its header: the local port, in network order, and the inode
/// of the socket.
const PORT: usize = 4;
const INODE: usize = 68;

/// The ports that are listened on, each with the inodes of the sockets that do.
pub type Ports = HashMap<u16, HashSet<u32>>;

/// The kernel's list of listeners.
pub struct Listeners(Option<OwnedFd>);

impl Listeners {
    /// Some sandboxes have no such list.
    pub fn new() -> Self {
        let protocol = SockProtocol::NetlinkSockDiag;
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        Self(socket(AddressFamily::Netlink, SockType::Datagram, flags, protocol).ok())
    }

    /// Those of IPv4 and IPv6 in our network namespace; `None` if it cannot be told.
    pub fn ports(&self) -> Option<Ports> {
        let socket = self.0.as_ref()?;
        let mut ports = Ports::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            ask(socket, u8::try_from(family).ok()?, &mut ports).ok()?;
        }
        Some(ports)
    }
}

fn ask(socket: &OwnedFd, family: u8, ports: &mut Ports) -> nix::Result<()> {
    send(socket.as_raw_fd(), &request(family), MsgFlags::empty())?;
    let mut answer = vec![0; 32 * 1024];
    loop {
        let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        let mut rest = answer.get(..length).unwrap_or_default();
        while let Some((kind, body, next)) = message(rest) {
            match i32::from(kind) {
                libc::NLMSG_DONE => return Ok(()),
                libc::NLMSG_ERROR => return Err(Errno::EPROTO),
                _ => {
                    if let Some((port, inode)) = listener(body) {
                        ports.entry(port).or_default().insert(inode);
                    }
                }
            }
            rest = next;
        }
    }
}

fn request(family: u8) -> Vec<u8> {
    let length = u32::try_from(HEADER + REQUEST).unwrap_or_default();
    let flags = u16::try_from(libc::NLM_F_REQUEST | libc::NLM_F_DUMP).unwrap_or_default();
    let mut request = Vec::with_capacity(HEADER + REQUEST);
    request.extend(length.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(flags.to_ne_bytes());
    request.extend([0; 8]);
    request.extend([family, libc::IPPROTO_TCP as u8, 0, 0]);
    request.extend(LISTEN.to_ne_bytes());
    request.resize(HEADER + REQUEST, 0);
    request
}

/// Kind and body of the first message, and what follows it.
fn message(from: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(*from.first_chunk()?);
    let length = usize::try_from(length).ok().filter(|&length| length >= HEADER)?;
    let kind = u16::from_ne_bytes(*from.get(4..)?.first_chunk()?);
    let body = from.get(HEADER..length)?;
    let next = from.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, body, next))
}

fn listener(body: &[u8]) -> Option<(u16, u32)> {
    let port = u16::from_be_bytes(*body.get(PORT..)?.first_chunk()?);
    Some((port, u32::from_ne_bytes(*body.get(INODE..)?.first_chunk()?)))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::TcpListener;
    use std::time::{Duration, Instant};

    use super::Listeners;
    use crate::proc;

    #[test]
    fn listeners_of_both_families_are_seen_and_no_others() -> io::Result<()> {
        let four = TcpListener::bind("127.0.0.1:0")?;
        let six = TcpListener::bind("[::1]:0")?;
        let gone = TcpListener::bind("127.0.0.1:0")?;
        let gone_port = gone.local_addr()?.port();
        drop(gone);
        let ports = Listeners::new().ports().unwrap_or_default();
        let ours = proc::sockets(proc::own_pid());
        for listener in [four, six] {
            let sockets = ports.get(&listener.local_addr()?.port());
            assert!(sockets.is_some_and(|it| it.is_subset(&ours)), "{ports:?} {ours:?}");
        }
        // What other tests start has the socket too, for as long as it is no other program yet.
        let deadline = Instant::now() + Duration::from_secs(60);
        while Listeners::new().ports().is_none_or(|ports| ports.contains_key(&gone_port)) {
            assert!(Instant::now() < deadline, "{ports:?}");
        }
        Ok(())
    }
}
