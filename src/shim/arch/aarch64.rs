//! Linux on aarch64: the first instruction, and the one that calls the kernel.

use core::arch::{asm, global_asm};

// The kernel enters with argc at sp, which it has aligned to 16 bytes. A zero frame record ends
// the chain of frames.
global_asm!(
    ".globl _start",
    "_start:",
    "mov x29, xzr",
    "mov x30, xzr",
    "mov x0, sp",
    "bl {entry}",
    "brk #1",
    entry = sym crate::sys::entry,
);

/// System call numbers, from the kernel's `include/uapi/asm-generic/unistd.h`.
pub mod nr {
    pub const GETCWD: usize = 17;
    pub const STATFS: usize = 43;
    pub const FACCESSAT: usize = 48;
    pub const OPENAT: usize = 56;
    pub const CLOSE: usize = 57;
    pub const LSEEK: usize = 62;
    pub const READ: usize = 63;
    pub const WRITE: usize = 64;
    pub const PPOLL: usize = 73;
    pub const READLINKAT: usize = 78;
    pub const NEWFSTATAT: usize = 79;
    pub const EXIT_GROUP: usize = 94;
    pub const CLOCK_GETTIME: usize = 113;
    pub const RT_SIGPROCMASK: usize = 135;
    pub const RT_SIGPENDING: usize = 136;
    pub const RT_SIGTIMEDWAIT: usize = 137;
    pub const EXECVE: usize = 221;
    pub const MMAP: usize = 222;
    pub const PWRITEV2: usize = 287;
    pub const FACCESSAT2: usize = 439;
}

/// `struct stat`, from the kernel's `include/uapi/asm-generic/stat.h`.
#[repr(C)]
pub struct Stat {
    pub dev: u64,
    pub ino: u64,
    pub mode: u32,
    rest: [u32; 27],
}
const _: () = assert!(size_of::<Stat>() == 128);

/// `e_machine` of the programs that this machine runs.
pub const ELF_MACHINE: u16 = 183;

/// `svc #0` with these operands. The kernel preserves every register but x0 and some of SVE's, which
/// a build for a machine that has them may use.
macro_rules! svc {
    ($($operand:tt)*) => {
        asm!(
            "svc #0",
            $($operand)*
            out("p0") _, out("p1") _, out("p2") _, out("p3") _, out("p4") _, out("p5") _,
            out("p6") _, out("p7") _, out("p8") _, out("p9") _, out("p10") _, out("p11") _,
            out("p12") _, out("p13") _, out("p14") _, out("p15") _, out("ffr") _,
            options(nostack),
        )
    };
}

/// Calls the kernel with up to three arguments; a value in `-4095..0` is an errno, negated.
///
/// # Safety
/// The arguments must be what system call `nr` takes, no more, and every pointer among them must be
/// good for what the kernel does with it.
#[inline(always)]
pub unsafe fn syscall3(nr: usize, args: [usize; 3]) -> isize {
    let [a, b, c] = args;
    let result;
    // SAFETY: the kernel takes the number in x8 and returns in x0, and leaves the stack alone. What
    // it does to memory is the caller's promise.
    unsafe { svc!(in("x8") nr, inlateout("x0") a => result, in("x1") b, in("x2") c,) };
    result
}

/// As [`syscall3`], with up to six arguments.
///
/// # Safety
/// As [`syscall3`].
#[inline(always)]
pub unsafe fn syscall6(nr: usize, args: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = args;
    let result;
    // SAFETY: the same registers as in `syscall3`, and three more that the kernel preserves.
    unsafe {
        svc!(
            in("x8") nr,
            inlateout("x0") a => result,
            in("x1") b,
            in("x2") c,
            in("x3") d,
            in("x4") e,
            in("x5") f,
        );
    }
    result
}
