//! The system, freestanding: each system call once, behind a typed function.
//!
//! `portable.rs` offers the same functions on every other unix.

use core::mem::MaybeUninit;

use crate::Process;
use crate::arch::{self, Stat, nr, syscall3, syscall6};
use crate::arena::Arena;
use crate::errno::{Errno, Result};
use crate::zstr::{Vector, ZStr};

/// The longest path that the kernel takes, its NUL counted.
pub const PATH_MAX: usize = 4096;

/// `e_machine` of the programs that this machine runs.
pub const ELF_MACHINE: Option<u16> = Some(arch::ELF_MACHINE);

/// How far the kernel looks for the end of the name behind `#!`.
pub const SHEBANG_ROOM: usize = 253;

const AT_FDCWD: usize = -100_isize as usize;

/// Where `_start` leads: `stack` is the stack pointer as the kernel set it.
///
/// From there lie argc, the argument vector and its NULL, the environment and its NULL, and the
/// auxiliary vector, pairs of words up to one of type `AT_NULL`. The shim has no use for the
/// auxiliary vector, and `execve` makes a new one: its words are where the environment may grow.
pub unsafe extern "C" fn entry(stack: *mut usize) -> ! {
    // SAFETY: the kernel put argc here.
    let argc = unsafe { stack.read() };
    let args = stack.wrapping_add(1);
    let env = args.wrapping_add(argc).wrapping_add(1);
    let mut auxv = env;
    // SAFETY: the walk has not met the NULL that ends the environment.
    while unsafe { auxv.read() } != 0 {
        auxv = auxv.wrapping_add(1);
    }
    auxv = auxv.wrapping_add(1);
    // SAFETY: the walk has not met the pair that ends the auxiliary vector.
    while unsafe { auxv.read() } != 0 {
        auxv = auxv.wrapping_add(2);
    }
    let env_slots = (auxv.addr() - env.addr()) / size_of::<usize>();
    // SAFETY: argc pointers to strings and their NULL, which nothing else refers to; `Option<ZStr>`
    // is such a pointer. The strings stay as they are until `execve` replaces the process.
    let args = unsafe { core::slice::from_raw_parts_mut(args.cast::<Option<ZStr>>(), argc + 1) };
    // SAFETY: the same for the environment. The words behind its NULL belong to the same stack,
    // any word is a valid `Option<ZStr>` as long as the string is not read, and `Vector` reads no
    // slot behind the NULL that it did not write.
    let env = unsafe { core::slice::from_raw_parts_mut(env.cast::<Option<ZStr>>(), env_slots) };
    let mut room = [0; Arena::ROOM];
    match (Vector::new(args), Vector::new(env)) {
        (Some(args), Some(env)) => {
            crate::main(&mut Process { args, env, arena: Arena::new(&mut room) })
        }
        _ => exit(crate::fail::OWN_ERROR),
    }
}

/// Ends the process.
pub fn exit(status: u8) -> ! {
    loop {
        // SAFETY: takes no pointer.
        unsafe { syscall3(nr::EXIT_GROUP, [usize::from(status), 0, 0]) };
    }
}

/// Becomes the program at `path`; returns only if it cannot.
pub fn execve(path: ZStr, args: &Vector, env: &Vector) -> Errno {
    let args = [
        path.as_ptr().expose_provenance(),
        args.as_ptr().expose_provenance(),
        env.as_ptr().expose_provenance(),
    ];
    // SAFETY: a NUL-terminated path and two NULL-terminated vectors of NUL-terminated strings.
    match check(unsafe { syscall3(nr::EXECVE, args) }) {
        Ok(_) => Errno::EINVAL,
        Err(errno) => errno,
    }
}

/// `CLOCK_REALTIME` in nanoseconds since the epoch. A clock before the epoch cannot be a stamp.
pub fn realtime_ns() -> Result<u64> {
    const CLOCK_REALTIME: usize = 0;
    let mut time = [0_i64; 2];
    let args = [CLOCK_REALTIME, (&raw mut time).expose_provenance(), 0];
    // SAFETY: the kernel writes a `struct timespec`, on 64-bit machines two 64-bit numbers.
    check(unsafe { syscall3(nr::CLOCK_GETTIME, args) })?;
    let [seconds, ns] = time;
    let total = seconds.checked_mul(1_000_000_000).and_then(|whole| whole.checked_add(ns));
    total.and_then(|total| u64::try_from(total).ok()).ok_or(Errno::EINVAL)
}

/// Writes once, as far as it goes; may block.
pub fn write(fd: i32, bytes: &[u8]) -> Result<usize> {
    // SAFETY: the kernel reads `bytes`.
    check(unsafe {
        syscall3(nr::WRITE, [fd as usize, bytes.as_ptr().expose_provenance(), bytes.len()])
    })
}

/// Whether `fd` has a position, as files have and what may make its writer wait has not.
pub fn seekable(fd: i32) -> bool {
    const SEEK_CUR: usize = 1;
    // SAFETY: takes no pointer, and moves the position by nothing.
    check(unsafe { syscall3(nr::LSEEK, [fd as usize, 0, SEEK_CUR]) }).is_ok()
}

/// Writes once without waiting for whoever reads at the other end: `EAGAIN` if there is no room,
/// other errors if the kernel has no such write to this descriptor, or at all.
pub fn write_nowait(fd: i32, bytes: &[u8]) -> Result<usize> {
    const RWF_NOWAIT: usize = 8;
    const HERE: usize = usize::MAX;
    let iovec = [bytes.as_ptr().expose_provenance(), bytes.len()];
    let args = [fd as usize, (&raw const iovec).expose_provenance(), 1, HERE, HERE, RWF_NOWAIT];
    // SAFETY: one `struct iovec`, which spans `bytes`; the kernel reads both.
    check(unsafe { syscall6(nr::PWRITEV2, args) })
}

/// Whether a write to `fd` would go through now, or does within `ms`. A broken pipe would not.
pub fn writable(fd: i32, ms: u16) -> bool {
    #[repr(C)]
    struct PollFd {
        fd: i32,
        events: i16,
        revents: i16,
    }
    const POLLOUT: i16 = 4;
    let mut poll = PollFd { fd, events: POLLOUT, revents: 0 };
    let mut timeout = [i64::from(ms / 1000), i64::from(ms % 1000) * 1_000_000];
    let args =
        [(&raw mut poll).expose_provenance(), 1, (&raw mut timeout).expose_provenance(), 0, 0, 0];
    // SAFETY: one `struct pollfd`, read and written; a `struct timespec`, read or written; no mask.
    let ready = check(unsafe { syscall6(nr::PPOLL, args) });
    ready == Ok(1) && poll.revents == POLLOUT
}

/// The signals that a write raises against its writer, held back.
pub struct Signals {
    /// Those that were not blocked before.
    blocked: u64,
    /// Those that were pending before.
    pending: u64,
}

impl Signals {
    const SIZE: usize = size_of::<u64>();
    const SIGPIPE: u64 = 1 << (13 - 1);
    const SIGTTOU: u64 = 1 << (22 - 1);
    const SIGXFSZ: u64 = 1 << (25 - 1);
    const FROM_WRITING: u64 = Self::SIGPIPE | Self::SIGTTOU | Self::SIGXFSZ;

    /// Blocks them. With SIGTTOU blocked, a terminal takes words from the background too.
    pub fn hold_from_writing() -> Result<Self> {
        const SIG_BLOCK: usize = 0;
        let before = Self::change_mask(SIG_BLOCK, Self::FROM_WRITING)?;
        Ok(Self { blocked: Self::FROM_WRITING & !before, pending: Self::pending() })
    }

    /// Takes back those that were raised meanwhile, and unblocks what was not blocked before.
    pub fn release(self) {
        const SIG_UNBLOCK: usize = 1;
        let raised = Self::pending() & !self.pending;
        let timeout = [0_i64; 2];
        let args = [
            (&raw const raised).expose_provenance(),
            0,
            (&raw const timeout).expose_provenance(),
            Self::SIZE,
            0,
            0,
        ];
        let mut rest = raised;
        while rest != 0 {
            // SAFETY: a signal set of the size that is given and a `struct timespec`, both read;
            // the kernel may be asked to write no details.
            unsafe { syscall6(nr::RT_SIGTIMEDWAIT, args) };
            rest &= rest.wrapping_sub(1);
        }
        let _ = Self::change_mask(SIG_UNBLOCK, self.blocked);
    }

    fn change_mask(how: usize, set: u64) -> Result<u64> {
        let mut old = 0_u64;
        let args = [
            how,
            (&raw const set).expose_provenance(),
            (&raw mut old).expose_provenance(),
            Self::SIZE,
            0,
            0,
        ];
        // SAFETY: two signal sets of the size that is given, one read and one written.
        check(unsafe { syscall6(nr::RT_SIGPROCMASK, args) }).map(|_| old)
    }

    /// Those of them that wait to be delivered; none where the kernel does not say.
    fn pending() -> u64 {
        let mut pending = 0_u64;
        let args = [(&raw mut pending).expose_provenance(), Self::SIZE, 0];
        // SAFETY: the kernel writes a signal set of the size that is given.
        unsafe { syscall3(nr::RT_SIGPENDING, args) };
        pending & Self::FROM_WRITING
    }
}

/// An open file that is closed when dropped, and by `execve`.
pub struct File(usize);

impl File {
    /// Opens `path` for reading; never waits, as opening a FIFO would.
    pub fn open(path: ZStr) -> Result<Self> {
        const O_NOCTTY: usize = 0o400;
        const O_NONBLOCK: usize = 0o4000;
        const O_CLOEXEC: usize = 0o2_000_000;
        let flags = O_NOCTTY | O_NONBLOCK | O_CLOEXEC;
        // SAFETY: the kernel reads a NUL-terminated path.
        check(unsafe { syscall3(nr::OPENAT, [AT_FDCWD, path.as_ptr().expose_provenance(), flags]) })
            .map(Self)
    }

    /// Reads the file from its start, as far as `room` goes.
    pub fn read_start<'r>(&self, room: &'r mut [u8]) -> Result<&'r [u8]> {
        let mut len = 0_usize;
        loop {
            let rest = room.get_mut(len..).unwrap_or_default();
            let args = [self.0, rest.as_mut_ptr().expose_provenance(), rest.len()];
            // SAFETY: the kernel writes `rest`.
            match check(unsafe { syscall3(nr::READ, args) }) {
                Ok(0) => return Ok(room.get(..len).unwrap_or_default()),
                Ok(read) => len = len.wrapping_add(read),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: takes no pointer, and the descriptor is this file's own.
        unsafe { syscall3(nr::CLOSE, [self.0, 0, 0]) };
    }
}

/// Whether there is something at `path`, links followed.
pub fn exists(path: ZStr) -> bool {
    access(path, 0).is_ok()
}

/// Whether the file at `path` may be executed.
pub fn executable(path: ZStr) -> Result<()> {
    const X_OK: usize = 1;
    access(path, X_OK)
}

/// As `execve` will see it, with the effective ids; where the kernel is too old, with the real ones.
fn access(path: ZStr, mode: usize) -> Result<()> {
    const AT_EACCESS: usize = 0x200;
    let path = path.as_ptr().expose_provenance();
    // SAFETY: the kernel reads a NUL-terminated path.
    let seen = check(unsafe { syscall6(nr::FACCESSAT2, [AT_FDCWD, path, mode, AT_EACCESS, 0, 0]) });
    // A sandbox that has not heard of it refuses it.
    if !matches!(seen, Err(Errno::ENOSYS | Errno::EPERM)) {
        return seen.map(drop);
    }
    // SAFETY: the kernel reads a NUL-terminated path.
    check(unsafe { syscall3(nr::FACCESSAT, [AT_FDCWD, path, mode]) }).map(drop)
}

/// What a file is.
pub struct Metadata {
    /// Permissions and type, as `st_mode`.
    pub mode: u32,
    /// Which file it is, on this machine.
    pub identity: (u64, u64),
}

/// What the file at `path` is, links followed.
pub fn metadata(path: ZStr) -> Result<Metadata> {
    let mut stat = MaybeUninit::<Stat>::zeroed();
    let args = [
        AT_FDCWD,
        path.as_ptr().expose_provenance(),
        stat.as_mut_ptr().expose_provenance(),
        0,
        0,
        0,
    ];
    // Every kernel and every sandbox knows this call, unlike `statx`.
    // SAFETY: the kernel reads a NUL-terminated path and writes a `struct stat`.
    check(unsafe { syscall6(nr::NEWFSTATAT, args) })?;
    // SAFETY: all its fields are numbers, and zeroes before the kernel wrote them.
    let stat = unsafe { stat.assume_init() };
    Ok(Metadata { mode: stat.mode, identity: (stat.dev, stat.ino) })
}

/// Whether the filesystem of the file at `path` is mounted so that nothing on it may be executed.
pub fn mounted_noexec(path: ZStr) -> bool {
    const ST_NOEXEC: u64 = 8;
    const FLAGS_WORD: usize = 10;
    let mut statfs = [0_u64; 15];
    let args = [path.as_ptr().expose_provenance(), (&raw mut statfs).expose_provenance(), 0];
    // SAFETY: the kernel reads a NUL-terminated path and writes a `struct statfs`, on 64-bit
    // machines 120 bytes.
    let called = check(unsafe { syscall3(nr::STATFS, args) });
    called.is_ok() && statfs.get(FLAGS_WORD).is_some_and(|flags| flags & ST_NOEXEC != 0)
}

/// The path of the current directory.
pub fn getcwd(room: &mut [u8]) -> Result<ZStr<'_>> {
    // SAFETY: the kernel writes `room`.
    check(unsafe { syscall3(nr::GETCWD, [room.as_mut_ptr().expose_provenance(), room.len(), 0]) })?;
    ZStr::in_bytes(room).ok_or(Errno::ERANGE)
}

/// Where the symbolic link at `path` leads.
pub fn readlink<'r>(path: ZStr, room: &'r mut [u8]) -> Result<&'r [u8]> {
    let args = [
        AT_FDCWD,
        path.as_ptr().expose_provenance(),
        room.as_mut_ptr().expose_provenance(),
        room.len(),
        0,
        0,
    ];
    // SAFETY: the kernel reads a NUL-terminated path and writes `room`.
    let len = check(unsafe { syscall6(nr::READLINKAT, args) })?;
    room.get(..len).ok_or(Errno::ERANGE)
}

/// Memory that stays until `execve`, filled with zeroes.
pub fn memory<'a>(len: usize) -> Result<&'a mut [u8]> {
    const PROT_READ_WRITE: usize = 3;
    const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
    const NO_FILE: usize = usize::MAX;
    let args = [0, len, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, NO_FILE, 0];
    // SAFETY: a new mapping, wherever the kernel finds room, disturbs nothing.
    let address = check(unsafe { syscall6(nr::MMAP, args) })?;
    let start = core::ptr::with_exposed_provenance_mut(address);
    // SAFETY: `len` bytes that the kernel has just mapped, readable and writable, zeroed, never
    // unmapped, and nobody else's.
    Ok(unsafe { core::slice::from_raw_parts_mut(start, len) })
}

fn check(result: isize) -> Result<usize> {
    match usize::try_from(result) {
        Ok(value) => Ok(value),
        // The kernel's errors are -4095..0.
        Err(_) => Err(Errno(result.unsigned_abs())),
    }
}
