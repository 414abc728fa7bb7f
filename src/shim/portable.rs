//! The system on every other unix: the functions of `sys.rs`, on std and nix.
//!
//! There is no Rust runtime before `main` here either: it would ignore SIGPIPE and open
//! `/dev/null` where descriptors 0 to 2 are closed, and a server would inherit both.

use std::ffi::{CStr, c_char, c_int};
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;

use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, open};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::stat::{Mode, stat};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{AccessFlags, faccessat};

use crate::Process;
use crate::arena::Arena;
use crate::errno::{Errno, Result};
use crate::zstr::{Vector, ZStr};

/// Room for the longest path that any of the systems takes, its NUL counted.
pub const PATH_MAX: usize = 4096;

/// How far the kernel looks for the end of the name behind `#!`: Linux's figure, where others take
/// more.
pub const SHEBANG_ROOM: usize = 253;

/// `e_machine` of the programs that this machine runs, where it is known.
pub const ELF_MACHINE: Option<u16> = if cfg!(target_arch = "x86_64") {
    Some(62)
} else if cfg!(target_arch = "aarch64") {
    Some(183)
} else if cfg!(target_arch = "x86") {
    Some(3)
} else if cfg!(target_arch = "arm") {
    Some(40)
} else if cfg!(target_arch = "s390x") {
    Some(22)
} else if cfg!(target_arch = "powerpc64") {
    Some(21)
} else if cfg!(target_arch = "riscv64") {
    Some(243)
} else {
    None
};

/// Slots behind the environment for what the shim adds to it, and a NULL.
const SPARE: usize = 8;

/// Where the C library starts the program.
#[unsafe(no_mangle)]
extern "C" fn main(argc: c_int, argv: *mut *const c_char, envp: *mut *const c_char) -> c_int {
    let argc = usize::try_from(argc).unwrap_or(0);
    // SAFETY: the C library passes argc strings, and leaves them alone.
    let mut args = unsafe { copy(argv, argc) };
    // SAFETY: the C library passes an environment that a NULL ends, and leaves it alone; this is
    // the only thread.
    let mut env = unsafe { copy(envp, usize::MAX) };
    let mut room = [0; Arena::ROOM];
    match (Vector::new(&mut args), Vector::new(&mut env)) {
        (Some(args), Some(env)) => {
            crate::main(&mut Process { args, env, arena: Arena::new(&mut room) })
        }
        _ => exit(crate::fail::OWN_ERROR),
    }
}

/// The strings of a C vector, `len` at the most, and spare slots behind them.
///
/// # Safety
/// `vector` must hold `len` strings or end in a NULL before, and neither it nor they may change for
/// `'a`.
unsafe fn copy<'a>(vector: *mut *const c_char, len: usize) -> Vec<Option<ZStr<'a>>> {
    let mut slots = Vec::new();
    for index in 0..len {
        // SAFETY: no NULL has been met before this slot, and there are `len` of them.
        let text = unsafe { vector.wrapping_add(index).read() };
        if text.is_null() {
            break;
        }
        // SAFETY: what is not NULL is a string.
        slots.push(Some(ZStr::new(unsafe { CStr::from_ptr(text) })));
    }
    slots.resize(slots.len().saturating_add(SPARE), None);
    slots
}

fn path_of<'a>(path: ZStr<'a>) -> &'a CStr {
    // SAFETY: a `ZStr` is NUL-terminated and unchanged for its lifetime.
    unsafe { CStr::from_ptr(path.as_ptr().cast()) }
}

impl From<nix::Error> for Errno {
    fn from(error: nix::Error) -> Self {
        Self(error as usize)
    }
}

/// Ends the process.
pub fn exit(status: u8) -> ! {
    // SAFETY: takes no pointer. Unlike `exit`, it runs nothing that the C library has registered.
    unsafe { libc::_exit(c_int::from(status)) }
}

/// Becomes the program at `path`; returns only if it cannot.
pub fn execve(path: ZStr, args: &Vector, env: &Vector) -> Errno {
    // SAFETY: a NUL-terminated path and two NULL-terminated vectors of NUL-terminated strings.
    // nix's own `execve` would copy both.
    unsafe { libc::execve(path.as_ptr().cast(), args.as_ptr().cast(), env.as_ptr().cast()) };
    nix::Error::last().into()
}

/// `CLOCK_REALTIME` in nanoseconds since the epoch. A clock before the epoch cannot be a stamp.
pub fn realtime_ns() -> Result<u64> {
    let time = clock_gettime(ClockId::CLOCK_REALTIME)?;
    let whole = u64::try_from(time.tv_sec()).ok().and_then(|sec| sec.checked_mul(1_000_000_000));
    let total = whole.zip(u64::try_from(time.tv_nsec()).ok());
    total.and_then(|(whole, ns)| whole.checked_add(ns)).ok_or(Errno::EINVAL)
}

/// Writes once, as far as it goes; may block.
pub fn write(fd: i32, bytes: &[u8]) -> Result<usize> {
    // SAFETY: the kernel reads `bytes`. The descriptor may be closed, which `BorrowedFd` rules out.
    let written = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
    Ok(nix::Error::result(written)?.unsigned_abs())
}

/// Whether `fd` has a position, as files have and what may make its writer wait has not.
pub fn seekable(fd: i32) -> bool {
    // SAFETY: takes no pointer, and moves the position by nothing.
    unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) >= 0 }
}

/// Writes once without waiting for whoever reads at the other end: `EAGAIN` if there is no room,
/// another error if it is no socket, since no unix has such a write for everything.
pub fn write_nowait(fd: i32, bytes: &[u8]) -> Result<usize> {
    // SAFETY: the kernel reads `bytes`.
    let sent = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT) };
    Ok(nix::Error::result(sent)?.unsigned_abs())
}

/// Whether a write to `fd` would go through now, or does within `ms`. A broken pipe would not.
pub fn writable(fd: i32, ms: u16) -> bool {
    // SAFETY: `poll` takes a closed descriptor, and says so.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let mut fds = [PollFd::new(fd, PollFlags::POLLOUT)];
    let ready = poll(&mut fds, PollTimeout::from(ms));
    let [polled] = fds;
    ready == Ok(1) && polled.revents() == Some(PollFlags::POLLOUT)
}

/// The signals that a write raises against its writer, held back.
pub struct Signals {
    /// Those that were not blocked before.
    blocked: SigSet,
    /// Those that were pending before.
    pending: SigSet,
}

impl Signals {
    const FROM_WRITING: [Signal; 3] = [Signal::SIGPIPE, Signal::SIGTTOU, Signal::SIGXFSZ];

    /// Blocks them. With SIGTTOU blocked, a terminal takes words from the background too.
    pub fn hold_from_writing() -> Result<Self> {
        let from_writing = SigSet::from_iter(Self::FROM_WRITING);
        // The mask is not put back as a whole: C libraries leave their own signals out of it.
        let before = from_writing.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let blocked = Self::FROM_WRITING.into_iter().filter(|&signal| !before.contains(signal));
        Ok(Self { blocked: blocked.collect(), pending: Self::pending() })
    }

    /// Takes back those that were raised meanwhile, and unblocks what was not blocked before.
    pub fn release(self) {
        for signal in Self::pending().iter().filter(|&signal| !self.pending.contains(signal)) {
            // The signal is pending and blocked: this does not wait.
            let _ = SigSet::from(signal).wait();
        }
        let _ = self.blocked.thread_unblock();
    }

    /// Those of them that wait to be delivered; none where the kernel does not say.
    fn pending() -> SigSet {
        let mut pending = *SigSet::empty().as_ref();
        // SAFETY: the kernel writes a signal set.
        unsafe { libc::sigpending(&raw mut pending) };
        // SAFETY: the set was made by `SigSet::empty`, and filled by the kernel if by anybody.
        let pending = unsafe { SigSet::from_sigset_t_unchecked(pending) };
        Self::FROM_WRITING.into_iter().filter(|&signal| pending.contains(signal)).collect()
    }
}

/// An open file that is closed when dropped, and by `execve`.
pub struct File(OwnedFd);

impl File {
    /// Opens `path` for reading; never waits, as opening a FIFO would.
    pub fn open(path: ZStr) -> Result<Self> {
        let flags = OFlag::O_NOCTTY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        Ok(Self(open(path_of(path), flags, Mode::empty())?))
    }

    /// Reads the file from its start, as far as `room` goes.
    pub fn read_start<'r>(&self, room: &'r mut [u8]) -> Result<&'r [u8]> {
        let mut len = 0_usize;
        loop {
            match nix::unistd::read(&self.0, room.get_mut(len..).unwrap_or_default()) {
                Ok(0) => return Ok(room.get(..len).unwrap_or_default()),
                Ok(read) => len = len.saturating_add(read),
                Err(nix::Error::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Whether there is something at `path`, links followed.
pub fn exists(path: ZStr) -> bool {
    access(path, AccessFlags::F_OK).is_ok()
}

/// Whether the file at `path` may be executed.
pub fn executable(path: ZStr) -> Result<()> {
    access(path, AccessFlags::X_OK)
}

/// As `execve` will see it, with the effective ids; where that is refused, with the real ones.
fn access(path: ZStr, mode: AccessFlags) -> Result<()> {
    let path = path_of(path);
    let seen = faccessat(AT_FDCWD, path, mode, AtFlags::AT_EACCESS);
    // A sandbox that has not heard of Linux's `faccessat2` refuses it.
    Ok(if seen == Err(nix::Error::EPERM) { nix::unistd::access(path, mode) } else { seen }?)
}

/// What a file is.
pub struct Metadata {
    /// Permissions and type, as `st_mode`.
    pub mode: u32,
    /// Which file it is, on this machine.
    pub identity: (u64, u64),
}

/// What the file at `path` is, links followed.
#[allow(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    reason = "the fields' types are each system's own"
)]
pub fn metadata(path: ZStr) -> Result<Metadata> {
    let stat = stat(path_of(path))?;
    Ok(Metadata {
        mode: u32::from(stat.st_mode),
        identity: (stat.st_dev as u64, stat.st_ino as u64),
    })
}

/// Whether the filesystem of the file at `path` is mounted so that nothing on it may be executed.
pub fn mounted_noexec(path: ZStr) -> bool {
    const ST_NOEXEC: libc::c_ulong = 8;
    let flags = statvfs(path_of(path)).map(|statvfs| statvfs.flags());
    cfg!(target_os = "linux") && flags.is_ok_and(|flags: FsFlags| flags.bits() & ST_NOEXEC != 0)
}

/// The path of the current directory.
pub fn getcwd(room: &mut [u8]) -> Result<ZStr<'_>> {
    // SAFETY: the C library writes `room`.
    if unsafe { libc::getcwd(room.as_mut_ptr().cast(), room.len()) }.is_null() {
        return Err(nix::Error::last().into());
    }
    ZStr::in_bytes(room).ok_or(Errno::ERANGE)
}

/// Where the symbolic link at `path` leads.
pub fn readlink<'r>(path: ZStr, room: &'r mut [u8]) -> Result<&'r [u8]> {
    // SAFETY: the kernel reads a NUL-terminated path and writes `room`.
    let len = unsafe { libc::readlink(path.as_ptr().cast(), room.as_mut_ptr().cast(), room.len()) };
    let len = nix::Error::result(len)?.unsigned_abs();
    room.get(..len).ok_or(Errno::ERANGE)
}

/// Memory that stays until `execve`, filled with zeroes.
pub fn memory<'a>(len: usize) -> Result<&'a mut [u8]> {
    Ok(Box::leak(vec![0; len].into_boxed_slice()))
}
