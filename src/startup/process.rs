//! How our processes are made: with the state that our caller had, not the one that we need.
//!
//! All of what `gym-startup` cannot say without unsafe code is here.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::libc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::events::Exit;

/// The signals that a front or a keeper waits for. While it does, they are blocked.
const WAITED_FOR: [Signal; 6] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGCHLD,
];

/// What was ignored when this process began, a bit a signal.
static IGNORED: AtomicU64 = AtomicU64::new(0);

/// The signals that a write of ours may bring, and that end nothing here: what cannot be written is
/// told. Rust's runtime sees to SIGPIPE alone.
const OF_WRITES: [Signal; 2] = [Signal::SIGPIPE, Signal::SIGXFSZ];

/// Rust's runtime ignores SIGPIPE before `main`, whatever the caller had: this runs before that.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = arrange_signals;

extern "C" fn arrange_signals() {
    let ignored = (1..=64).filter(|&signal| is_ignored(signal));
    let bits = ignored.fold(0, |bits, signal| bits | bit(signal));
    IGNORED.store(bits, Ordering::Relaxed);
    for signal in OF_WRITES {
        set_disposition(signal, libc::SIG_IGN).unwrap_or_default();
    }
}

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action this only writes the present one to where it is told to, which
    // is large enough for it; a number that is no signal's is refused.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: all zeros is a valid `sigaction` too, if nothing was written.
    let action = unsafe { action.assume_init() };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// What our caller gave us, and what we change for ourselves: every server gets it back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Inherited {
    ignored: u64,
    /// Those of [`WAITED_FOR`] that were blocked, by number.
    blocked: Vec<i32>,
    descriptors: Option<(u64, u64)>,
}

impl Inherited {
    /// What this process was given.
    pub fn here() -> Self {
        let mask = SigSet::thread_get_mask().unwrap_or_else(|_| SigSet::empty());
        let blocked = WAITED_FOR.iter().filter(|&&signal| mask.contains(signal));
        Self {
            ignored: IGNORED.load(Ordering::Relaxed),
            blocked: blocked.map(|&signal| signal as i32).collect(),
            descriptors: getrlimit(Resource::RLIMIT_NOFILE).ok(),
        }
    }

    /// Whether `signal` does nothing to whoever was started as we were: nohup's SIGHUP, the SIGINT
    /// of a shell's `&`.
    pub fn ignores(&self, signal: Signal) -> bool {
        self.ignored & bit(signal as i32) != 0
    }

    /// What begins the end of servers: SIGINT, unless they were told to ignore it.
    pub fn first_signal(&self) -> Signal {
        if self.ignores(Signal::SIGINT) { Signal::SIGTERM } else { Signal::SIGINT }
    }

    fn give_back(&self) -> io::Result<()> {
        let mut others = SigSet::empty();
        for signal in WAITED_FOR {
            if !self.blocked.contains(&(signal as i32)) {
                others.add(signal);
            }
        }
        for signal in OF_WRITES.into_iter().chain([Signal::SIGCHLD]) {
            let disposition = if self.ignores(signal) { libc::SIG_IGN } else { libc::SIG_DFL };
            set_disposition(signal, disposition)?;
        }
        if let Some((soft, hard)) = self.descriptors {
            setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?;
        }
        Ok(sigprocmask(SigmaskHow::SIG_UNBLOCK, Some(&others), None)?)
    }
}

/// `disposition` is SIG_IGN or SIG_DFL.
fn set_disposition(signal: Signal, disposition: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: neither of the two dispositions runs a handler.
    let before = unsafe { libc::signal(signal as i32, disposition) };
    if before == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether reading a signal waits for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    Yes,
    No,
}

impl Blocking {
    fn flags(self) -> SfdFlags {
        match self {
            Self::Yes => SfdFlags::empty(),
            Self::No => SfdFlags::SFD_NONBLOCK,
        }
    }
}

/// Has the signals that matter here wait for [`SignalFd::read_signal`], in all threads made from
/// now on, and ended children for `waitpid`.
///
/// What the caller has us ignore stays ignored.
///
/// # Errors
///
/// The system's.
pub fn wait_for_signals(inherited: &Inherited, blocking: Blocking) -> io::Result<SignalFd> {
    let mut signals = SigSet::empty();
    for signal in WAITED_FOR {
        if signal == Signal::SIGCHLD || !inherited.ignores(signal) {
            signals.add(signal);
        }
    }
    // Where it is ignored the system reaps children itself, and tells nobody how they ended.
    set_disposition(Signal::SIGCHLD, libc::SIG_DFL)?;
    signals.thread_block()?;
    Ok(SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | blocking.flags())?)
}

/// Has `tell` know each of `signals` as it comes, and whether a terminal sent it.
pub fn hear_signals(signals: &SignalFd, tell: impl Fn(Signal, bool)) {
    while let Ok(Some(info)) = signals.read_signal() {
        let signal = i32::try_from(info.ssi_signo).ok();
        let Some(signal) = signal.and_then(|it| Signal::try_from(it).ok()) else { continue };
        // What the kernel itself sends: a terminal's, to all of its foreground group.
        tell(signal, info.ssi_code == libc::SI_KERNEL);
    }
}

/// `signals`, to be awaited.
///
/// # Errors
///
/// The system's.
pub fn awaited(signals: SignalFd) -> io::Result<AsyncFd<SignalFd>> {
    // SAFETY: a `SignalFd` owns its descriptor: it stays open, and the same, until it is dropped,
    // and the `AsyncFd` that it moves into takes it off its list before that.
    unsafe { AsyncFd::register_with_interest(signals, Interest::READABLE) }.map_err(Into::into)
}

/// Takes as many descriptors as the system allows: a fleet's pipes are many.
pub fn raise_descriptor_limit() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap_or_default();
    }
}

/// What a new process is to us.
#[derive(Clone, Copy, Debug)]
pub enum Role<'a> {
    /// Part of us, with the state that we have.
    Part,
    /// Started as our caller would have, in our session and group: it shares the terminal with us.
    Companion(&'a Inherited),
    /// Started as our caller would have, in a session of its own, without a terminal.
    Server(&'a Inherited),
}

/// Starts `command`. Who waits for it is [`ended_children`] alone.
///
/// # Errors
///
/// Why there is no process, or why it could not become the program.
pub fn spawn(command: &mut Command, role: Role<'_>) -> io::Result<Pid> {
    let (inherited, own_session) = match role {
        Role::Part => (None, false),
        Role::Companion(inherited) => (Some(inherited.clone()), false),
        Role::Server(inherited) => (Some(inherited.clone()), true),
    };
    let arrange = move || {
        if own_session {
            nix::unistd::setsid()?;
        }
        inherited.as_ref().map_or(Ok(()), Inherited::give_back)
    };
    // With nothing to arrange std would go by posix_spawn, and glibc's ignores two signals of its
    // own in the child, which every server would inherit.
    // SAFETY: between fork and exec the closure makes system calls alone; it neither allocates nor
    // takes a lock that another thread could have held.
    unsafe { command.pre_exec(arrange) };
    let child = command.spawn()?;
    let pid = i32::try_from(child.id()).map_err(|_| Errno::ERANGE)?;
    Ok(Pid::from_raw(pid))
}

/// The children that have ended and that nobody has waited for yet, orphans of others among them.
pub fn ended_children() -> Vec<(Pid, Exit)> {
    let mut ended = Vec::new();
    loop {
        let mut status = 0;
        // SAFETY: it writes one number to where it is told to. nix would lose the status of a
        // child that a real-time signal ended.
        let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
        match Errno::result(pid) {
            Ok(0) | Err(Errno::ECHILD) => return ended,
            Ok(pid) => ended.push((Pid::from_raw(pid), exit(ExitStatus::from_raw(status)))),
            Err(Errno::EINTR) => {}
            Err(_) => return ended,
        }
    }
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Status(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    }
}
