//! Who listens where a URL looks, in every network namespace that can be seen.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::fleet::Ready;
use crate::proc;

/// Where a server would listen.
#[derive(Clone, Debug)]
pub enum Place {
    Tcp {
        port: u16,
        /// None, if the name has none.
        addresses: Vec<IpAddr>,
    },
    Unix(PathBuf),
}

/// The processes that hold a socket that listens there.
#[derive(Debug, Default)]
pub struct Holders {
    /// In our own network namespace, at that very address.
    pub here: Vec<i32>,
    /// In others: at that address, or, if the address is ours, on that port, which may be a
    /// container's that is published under its own number.
    pub elsewhere: Vec<i32>,
    /// Somebody listens, and how many processes did not let us see whether it is they.
    pub unseen: Option<usize>,
}

/// Listening sockets by inode, which is the same in all namespaces.
#[derive(Default)]
struct Sockets {
    here: HashSet<u64>,
    elsewhere: HashSet<u64>,
    /// Those that are bound to a path of this last name.
    by_name: HashMap<u64, PathBuf>,
}

impl Place {
    pub fn of(ready: &Ready) -> Self {
        match ready {
            Ready::Http { host, port, .. } | Ready::Tcp { host, port } => {
                Self::Tcp { port: *port, addresses: addresses(host, *port) }
            }
            Ready::Unix { path, .. } => Self::Unix(path.to_path_buf()),
        }
    }

    /// Who listens there now.
    pub fn holders(&self) -> Holders {
        let sockets = self.sockets();
        let mut holders = Holders::default();
        if sockets.is_empty() {
            return holders;
        }
        let mut unseen = 0;
        for pid in proc::pids() {
            match proc::open_sockets(pid) {
                Ok(open) => {
                    let holds = |all: &HashSet<u64>| open.iter().any(|inode| all.contains(inode));
                    let paths = open.iter().filter_map(|inode| sockets.by_name.get(inode));
                    if holds(&sockets.here) || self.is_one_of(paths, pid) {
                        holders.here.push(pid);
                    } else if holds(&sockets.elsewhere) {
                        holders.elsewhere.push(pid);
                    }
                }
                Err(error) if error.kind() == ErrorKind::PermissionDenied => unseen += 1,
                Err(_) => {}
            }
        }
        if holders.here.is_empty() && holders.elsewhere.is_empty() {
            holders.unseen = Some(unseen);
        }
        holders
    }

    fn sockets(&self) -> Sockets {
        let mut sockets = Sockets::default();
        let own = proc::namespace(proc::own_pid(), "net");
        let mut seen = HashSet::from([own.clone()]);
        let others = proc::pids().filter_map(|pid| {
            let namespace = proc::namespace(pid, "net")?;
            seen.insert(Some(namespace)).then_some(pid)
        });
        let mut published = false;
        for pid in [proc::own_pid()].into_iter().chain(others) {
            let is_own = pid == proc::own_pid();
            let table = |name| fs::read(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
            match self {
                Self::Tcp { port, addresses } => {
                    let its_own: Vec<_> =
                        addresses.iter().copied().filter(|&it| is_address_of(it, pid)).collect();
                    // What is for us may be passed on to anybody.
                    published |= is_own && !its_own.is_empty();
                    for table in [table("tcp"), table("tcp6")] {
                        let listeners = table.split(|&byte| byte == b'\n').filter_map(listener);
                        for it in listeners.filter(|it| it.port == *port) {
                            let is_met = addresses.is_empty() || it.answers_at(&its_own);
                            if is_own && is_met {
                                sockets.here.insert(it.inode);
                            } else if !is_own && (is_met || published) {
                                sockets.elsewhere.insert(it.inode);
                            }
                        }
                    }
                }
                Self::Unix(path) => {
                    let table = table("unix");
                    let bound = table.split(|&byte| byte == b'\n').filter_map(bound_listener);
                    let named = bound.filter(|(_, bound)| bound.file_name() == path.file_name());
                    sockets.by_name.extend(named.map(|(inode, bound)| (inode, bound.to_owned())));
                }
            }
        }
        sockets
    }

    /// Whether one of `paths`, as the process `pid` sees them, is the socket that we see.
    fn is_one_of<'a>(&self, paths: impl Iterator<Item = &'a PathBuf>, pid: i32) -> bool {
        let Self::Unix(own) = self else { return false };
        let identity = |path: &Path| fs::metadata(path).map(|it| (it.dev(), it.ino())).ok();
        let Some(own) = identity(own) else { return false };
        let mut paths = paths;
        paths.any(|path| {
            let seen = match path.strip_prefix("/") {
                Ok(path) => Path::new(&format!("/proc/{pid}/root")).join(path),
                Err(_) => Path::new(&format!("/proc/{pid}/cwd")).join(path),
            };
            identity(&seen) == Some(own)
        })
    }
}

impl Sockets {
    fn is_empty(&self) -> bool {
        self.here.is_empty() && self.elsewhere.is_empty() && self.by_name.is_empty()
    }
}

fn addresses(host: &str, port: u16) -> Vec<IpAddr> {
    if let Ok(address) = host.parse() {
        return vec![address];
    }
    if host.eq_ignore_ascii_case("localhost") {
        return vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    }
    let found = (host, port).to_socket_addrs().into_iter().flatten();
    found.map(|address| address.ip()).collect()
}

/// Whether `address` leads into the network namespace of the process `pid`.
fn is_address_of(address: IpAddr, pid: i32) -> bool {
    let table = |name| fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
    match address.to_canonical() {
        address if address.is_loopback() || address.is_unspecified() => pid == proc::own_pid(),
        IpAddr::V4(address) => {
            let leaf = format!("|-- {address}");
            let trie = table("fib_trie");
            let mut lines = trie.lines().map(str::trim);
            // Broadcast addresses are leaves too.
            while lines.any(|line| line == leaf) {
                if lines.next().is_some_and(|kind| kind.ends_with("host LOCAL")) {
                    return true;
                }
            }
            false
        }
        IpAddr::V6(address) => {
            let digits = format!("{:032x}", address.to_bits());
            table("if_inet6").lines().any(|line| line.starts_with(&digits))
        }
    }
}

struct Listener {
    address: IpAddr,
    port: u16,
    inode: u64,
}

impl Listener {
    /// Whether who connects to one of `addresses` meets it.
    fn answers_at(&self, addresses: &[IpAddr]) -> bool {
        let own = self.address.to_canonical();
        addresses.iter().map(IpAddr::to_canonical).any(|wanted| match own {
            _ if wanted.is_unspecified() || own == wanted => true,
            IpAddr::V6(own) if own.is_unspecified() => true,
            IpAddr::V4(own) => own.is_unspecified() && wanted.is_ipv4(),
            IpAddr::V6(_) => false,
        })
    }
}

/// What a line such as `0: 0100007F:1F90 00000000:0000 0A … inode …` tells, where `0A` is LISTEN.
fn listener(line: &[u8]) -> Option<Listener> {
    let line = std::str::from_utf8(line).ok()?;
    let mut fields = line.split_ascii_whitespace();
    let (address, port) = fields.nth(1)?.split_once(':')?;
    if fields.nth(1)? != "0A" {
        return None;
    }
    let inode = fields.nth(5)?.parse().ok()?;
    Some(Listener {
        address: self::address(address)?,
        port: u16::from_str_radix(port, 16).ok()?,
        inode,
    })
}

/// An address is one number, or four, of the machine's byte order, though its bytes are the
/// network's.
fn address(hex: &str) -> Option<IpAddr> {
    let words = hex.as_bytes().chunks(8).map(|word| {
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        Some(word.to_ne_bytes())
    });
    let bytes = words.collect::<Option<Vec<_>>>()?.concat();
    match <[u8; 4]>::try_from(bytes.as_slice()) {
        Ok(four) => Some(IpAddr::from(four)),
        Err(_) => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
    }
}

/// Inode and path in a line such as `0000000000000000: 00000002 00000000 00010000 0001 01 4711
/// /run/a.sock`, where `00010000` says that it listens.
fn bound_listener(line: &[u8]) -> Option<(u64, &Path)> {
    const LISTENS: u32 = 0x1_0000;
    let mut rest = line;
    let mut word = || {
        let text = rest.trim_ascii_start();
        let end = text.iter().position(|&byte| byte == b' ').unwrap_or(text.len());
        let (word, after) = text.split_at_checked(end)?;
        rest = after;
        std::str::from_utf8(word).ok()
    };
    for _ in 0..3 {
        word()?;
    }
    let flags = u32::from_str_radix(word()?, 16).ok()?;
    for _ in 0..2 {
        word()?;
    }
    let inode = word()?.parse().ok().filter(|_| flags & LISTENS != 0)?;
    Some((inode, Path::new(OsStr::from_bytes(rest.strip_prefix(b" ")?))))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn place(url: &str) -> io::Result<Place> {
        let ready = Ready::parse(url, None, Path::new("/")).map_err(io::Error::other)?;
        Ok(Place::of(&ready))
    }

    #[test]
    fn whoever_listens_is_found_at_the_addresses_that_lead_there() -> io::Result<()> {
        let own = proc::own_pid();
        for (listens, leads, misses) in [
            ("127.0.0.1", &["127.0.0.1", "localhost", "0.0.0.0"][..], &["127.0.0.2", "[::1]"][..]),
            ("0.0.0.0", &["127.0.0.1", "127.0.0.2"], &["[::1]", "198.51.100.7"]),
            ("[::1]", &["[::1]", "localhost"], &["127.0.0.1"]),
            ("[::]", &["[::1]", "127.0.0.1"], &["198.51.100.7", "[2001:db8::7]"]),
        ] {
            let listener = TcpListener::bind(format!("{listens}:0"))?;
            let port = listener.local_addr()?.port();
            for host in leads {
                let holders = place(&format!("tcp://{host}:{port}"))?.holders();
                assert!(holders.here.contains(&own), "{host} leads to {listens}: {holders:?}");
            }
            for host in misses {
                let holders = place(&format!("tcp://{host}:{port}"))?.holders();
                assert!(holders.here.is_empty(), "{host} misses {listens}: {holders:?}");
            }
        }
        Ok(())
    }

    #[test]
    fn a_socket_is_found_by_what_its_path_leads_to() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let (path, other) = (folder.path().join("a b.sock"), folder.path().join("other"));
        std::os::unix::fs::symlink(folder.path(), &other)?;
        let _listener = UnixListener::bind(&path)?;
        let _connected = std::os::unix::net::UnixStream::connect(&path)?;
        for path in [path.clone(), other.join("a b.sock")] {
            assert!(Place::Unix(path).holders().here.contains(&proc::own_pid()));
        }
        let same_name = folder.path().join("sub");
        fs::create_dir(&same_name)?;
        assert!(Place::Unix(same_name.join("a b.sock")).holders().here.is_empty());
        Ok(())
    }
}
