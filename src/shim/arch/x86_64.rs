//! Linux on x86-64: the first instruction, and the one that calls the kernel.

use core::arch::{asm, global_asm};

// The kernel enters with argc at rsp and no return address. The ABI wants a zero frame pointer at
// the outermost frame and a 16-byte-aligned stack at a call.
global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {entry}",
    "ud2",
    entry = sym crate::sys::entry,
);

/// System call numbers, from the kernel's `arch/x86/entry/syscalls/syscall_64.tbl`.
pub mod nr {
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const CLOSE: usize = 3;
    pub const LSEEK: usize = 8;
    pub const MMAP: usize = 9;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const EXECVE: usize = 59;
    pub const GETCWD: usize = 79;
    pub const RT_SIGPENDING: usize = 127;
    pub const RT_SIGTIMEDWAIT: usize = 128;
    pub const STATFS: usize = 137;
    pub const CLOCK_GETTIME: usize = 228;
    pub const EXIT_GROUP: usize = 231;
    pub const OPENAT: usize = 257;
    pub const NEWFSTATAT: usize = 262;
    pub const READLINKAT: usize = 267;
    pub const FACCESSAT: usize = 269;
    pub const PPOLL: usize = 271;
    pub const PWRITEV2: usize = 328;
    pub const FACCESSAT2: usize = 439;
}

/// `struct stat`, from the kernel's `arch/x86/include/uapi/asm/stat.h`.
#[repr(C)]
pub struct Stat {
    pub dev: u64,
    pub ino: u64,
    nlink: u64,
    pub mode: u32,
    rest: [u32; 29],
}
const _: () = assert!(size_of::<Stat>() == 144);

/// `e_machine` of the programs that this machine runs.
pub const ELF_MACHINE: u16 = 62;

/// Calls the kernel with up to three arguments; a value in `-4095..0` is an errno, negated.
///
/// # Safety
/// The arguments must be what system call `nr` takes, no more, and every pointer among them must be
/// good for what the kernel does with it.
#[inline(always)]
pub unsafe fn syscall3(nr: usize, args: [usize; 3]) -> isize {
    let [a, b, c] = args;
    let result;
    // SAFETY: `syscall` clobbers rcx and r11 and returns in rax, as declared; it leaves the stack
    // alone. What it does to memory is the caller's promise.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") nr => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
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
        asm!(
            "syscall",
            inlateout("rax") nr => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            in("r9") f,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}
