//! What the system tells of processes, through `/proc`.
//!
//! Everything in it may be gone a moment later: what cannot be read is not there.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use nix::unistd::Pid;

/// What most environments have room in, in bytes.
const USUAL_ENVIRON: usize = 8 * 1024;

/// One process, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    pub group: i32,
    pub session: i32,
    /// It has ended, and nobody has waited for it yet.
    pub ended: bool,
    /// When it started, in ticks since the system did.
    pub start_ticks: u64,
}

/// Who a process is, however long it runs: its pid, and when it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    pub pid: i32,
    pub start_ticks: u64,
}

impl Identity {
    /// The process as it is now, if it is there.
    pub fn now(self) -> Option<Process> {
        process(self.pid).filter(|it| it.identity() == self)
    }
}

impl Process {
    pub fn identity(&self) -> Identity {
        Identity { pid: self.pid, start_ticks: self.start_ticks }
    }
}

/// The processes of this machine that can be seen.
#[derive(Debug, Default)]
pub struct Processes {
    by_pid: HashMap<i32, Process>,
    children: HashMap<i32, Vec<i32>>,
}

impl Processes {
    /// Those that are there now: none if `/proc` tells of another pid namespace than ours.
    pub fn now() -> Self {
        let mut processes = Self::default();
        if !is_of_our_namespace() {
            return processes;
        }
        for process in pids().filter_map(process) {
            processes.children.entry(process.parent).or_default().push(process.pid);
            processes.by_pid.insert(process.pid, process);
        }
        processes
    }

    /// Those below this process, itself not among them, where the kernel has lists of children; all
    /// where it has none. What it costs is theirs alone, not the machine's.
    ///
    /// While a process ends, one of its siblings may be missed.
    pub fn below_own() -> Self {
        let own = own_pid();
        if !is_of_our_namespace() || File::open(format!("/proc/{own}/task/{own}/children")).is_err()
        {
            return Self::now();
        }
        let mut processes = Self::default();
        let mut to_visit = vec![own];
        while let Some(parent) = to_visit.pop() {
            for process in children(parent).into_iter().filter_map(process) {
                if processes.by_pid.insert(process.pid, process).is_none() {
                    processes.children.entry(parent).or_default().push(process.pid);
                    to_visit.push(process.pid);
                }
            }
        }
        processes
    }

    pub fn get(&self, pid: i32) -> Option<&Process> {
        self.by_pid.get(&pid)
    }

    /// The very process that `earlier` is of.
    pub fn same(&self, earlier: &Process) -> Option<&Process> {
        self.get(earlier.pid).filter(|it| it.identity() == earlier.identity())
    }

    pub fn all(&self) -> impl Iterator<Item = &Process> {
        self.by_pid.values()
    }

    /// What `parent` started, or was left with.
    pub fn children(&self, parent: i32) -> Vec<Process> {
        let children = self.children.get(&parent).into_iter().flatten();
        children.filter_map(|&child| self.get(child).copied()).collect()
    }

    /// All that `ancestor` started, and what those started, and so on.
    pub fn below(&self, ancestor: i32) -> Vec<Process> {
        let mut found = Vec::new();
        let mut seen = HashSet::from([ancestor]);
        let mut to_visit = vec![ancestor];
        while let Some(pid) = to_visit.pop() {
            for &child in self.children.get(&pid).into_iter().flatten() {
                if seen.insert(child) {
                    found.extend(self.get(child));
                    to_visit.push(child);
                }
            }
        }
        found
    }
}

/// The processes that `/proc` shows, by their pids there.
pub fn pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// What the threads of `parent` started, or were left with.
fn children(parent: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|it| fs::read_to_string(it.path().join("children")).ok());
    lists
        .flat_map(|list| list.split(' ').filter_map(|it| it.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Whether `/proc` shows processes by the pids that we know them by.
pub fn is_of_our_namespace() -> bool {
    let shown = fs::read_link("/proc/self").ok();
    let shown = shown.as_deref().and_then(|path| path.to_str()).and_then(|pid| pid.parse().ok());
    shown == Some(std::process::id())
}

/// The process `pid`.
pub fn process(pid: i32) -> Option<Process> {
    let stat = stat(pid)?;
    let fields: Vec<&str> = stat.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse::<i32>().ok());
    Some(Process {
        pid,
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        ended: matches!(fields.first(), Some(&("Z" | "X"))),
        start_ticks: fields.get(19)?.parse().ok()?,
    })
}

/// What started `process`, or what it was left to, then what started that, and so on.
pub fn above(process: Process) -> impl Iterator<Item = Process> {
    std::iter::successors(self::process(process.parent), |it| self::process(it.parent))
}

/// The wait status of a process that has ended and that nobody has waited for yet. Zero may also
/// be what is shown to those who may not know.
pub fn wait_status(pid: i32) -> Option<i32> {
    let stat = stat(pid)?;
    let mut fields = stat.split_ascii_whitespace();
    fields.next().filter(|&state| state == "Z")?;
    fields.nth(48)?.parse().ok()
}

/// `/proc/PID/stat` behind the name, which is in parentheses and may have anything in it.
fn stat(pid: i32) -> Option<String> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after_name = stat.rsplitn(2, |&byte| byte == b')').next()?;
    String::from_utf8(after_name.to_vec()).ok()
}

/// The namespace of this `kind` that a process is in.
pub fn namespace(pid: i32, kind: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok()
}

/// What a process is called in its own pid namespace.
pub fn inner_pid(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    pids.split_ascii_whitespace().last()?.parse().ok()
}

/// Whether the process `pid` ignores `signal`; no, where that cannot be told.
pub fn ignores(pid: i32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let bit = u64::from((signal as i32).unsigned_abs().saturating_sub(1));
    ignored.is_some_and(|mask| mask >> bit & 1 == 1)
}

/// The wall clock, in ns, at which a process started that has these `start_ticks`. As coarse as
/// the system keeps it: a hundredth of a second, never too late.
pub fn start_ns(start_ticks: u64) -> Option<u64> {
    use nix::time::{ClockId, clock_gettime};
    let ticks_a_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    let tick_ns = 1_000_000_000_u64.checked_div(u64::try_from(ticks_a_second).ok()?)?;
    let ns = |clock| {
        let time = clock_gettime(clock).ok()?;
        let seconds = u64::try_from(time.tv_sec()).ok()?;
        Some(seconds * 1_000_000_000 + u64::try_from(time.tv_nsec()).ok()?)
    };
    let since_boot = ns(ClockId::CLOCK_BOOTTIME)?;
    let age = since_boot.checked_sub(start_ticks.checked_mul(tick_ns)?)?;
    ns(ClockId::CLOCK_REALTIME)?.checked_sub(age)
}

/// The environment that a process was started with, unless it has written over it.
///
/// # Errors
///
/// `PermissionDenied` where it may not be read; others where the process is gone.
pub fn environ(pid: i32) -> io::Result<Vec<u8>> {
    // The system does not tell its size, and fs::read would begin with a few bytes at a time.
    let mut environ = Vec::with_capacity(USUAL_ENVIRON);
    File::open(format!("/proc/{pid}/environ"))?.take(u64::MAX).read_to_end(&mut environ)?;
    Ok(environ)
}

/// The value of `name` in an environment as [`environ`] gives it.
pub fn variable<'a>(environ: &'a [u8], name: &str) -> Option<&'a [u8]> {
    environ.split(|&byte| byte == 0).find_map(|entry| {
        entry.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
    })
}

/// The words that a process was started with, unless it has written over them.
pub fn command_line(pid: i32) -> Vec<String> {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = words.strip_suffix(b"\0").unwrap_or(&words);
    if words.is_empty() {
        return Vec::new();
    }
    words
        .split(|&byte| byte == 0)
        .map(|word| OsStr::from_bytes(word).to_string_lossy().into_owned())
        .collect()
}

/// A process, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pid: i32,
    name: String,
}

impl Named {
    /// The process `pid`, if it is there.
    pub fn of(pid: i32) -> Option<Self> {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        Some(Self { pid, name: name.trim_end().to_owned() })
    }
}

impl fmt::Display for Named {
    /// As `python3 (process 4711)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.name, self.pid)
    }
}

/// The inodes of the sockets that a process has open.
///
/// # Errors
///
/// `PermissionDenied` where that may not be read; others where the process is gone.
pub fn open_sockets(pid: i32) -> io::Result<Vec<u64>> {
    let open = fs::read_dir(format!("/proc/{pid}/fd"))?.flatten();
    let links = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    let inode =
        |link: PathBuf| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    Ok(links.filter_map(inode).collect())
}

/// The same, as socket diagnostics number them; none where that may not be read.
pub fn sockets(pid: i32) -> HashSet<u32> {
    let open = open_sockets(pid).unwrap_or_default();
    open.into_iter().filter_map(|inode| inode.try_into().ok()).collect()
}

/// The processes that wait for somebody else's lock on a file.
pub fn waiting_for_locks() -> HashSet<i32> {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    // 1: -> FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF
    let waiting = locks.lines().filter(|line| line.contains(" -> "));
    waiting.filter_map(|line| line.split_ascii_whitespace().nth(5)?.parse().ok()).collect()
}

/// The CPU time of this thread: what a look costs, however busy the machine is.
pub fn cpu_time() -> std::time::Duration {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    nix::time::clock_gettime(clock).map_or_else(|_| std::time::Duration::ZERO, Into::into)
}

/// This process.
pub fn own_pid() -> i32 {
    Pid::this().as_raw()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_quick_look_finds_what_is_below_us_and_no_others() -> io::Result<()> {
        let line = "sleep 1000 & echo $!; wait";
        let mut command = Command::new("bash");
        let mut shell = command.args(["-c", line]).stdout(Stdio::piped()).spawn()?;
        let mut sleep = String::new();
        let out = shell.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        BufReader::new(out).read_line(&mut sleep)?;
        let pids = [shell.id().cast_signed(), sleep.trim().parse().unwrap_or_default()];
        // What another test started may end meanwhile.
        let deadline = Instant::now() + Duration::from_secs(60);
        let quick = loop {
            let quick = Processes::below_own();
            let below: HashSet<i32> = quick.below(own_pid()).iter().map(|it| it.pid).collect();
            if pids.iter().all(|pid| below.contains(pid)) {
                break quick;
            }
            assert!(Instant::now() < deadline, "{pids:?} {below:?}");
        };
        let whole = Processes::now();
        for pid in pids {
            assert_eq!(
                quick.get(pid).map(Process::identity),
                whole.get(pid).map(Process::identity)
            );
            nix::sys::signal::kill(Pid::from_raw(pid), nix::sys::signal::SIGKILL)?;
        }
        assert_eq!(quick.get(own_pid()), None);
        assert_eq!(quick.get(1), None);
        shell.wait()?;
        Ok(())
    }
}
