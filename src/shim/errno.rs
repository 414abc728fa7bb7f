//! The errors of the kernel that the shim tells apart, with their words.

/// An error number as the kernel returned it: a word, so that a result with it is two registers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub usize);

pub type Result<T> = core::result::Result<T, Errno>;

macro_rules! errnos {
    ($($untold:ident)*; $($name:ident $words:literal)*) => {
        impl Errno {
            $(pub const $untold: Self = Self(number::$untold as usize);)*
            $(pub const $name: Self = Self(number::$name as usize);)*
        }

        /// The errors that have words.
        const TOLD: &[u8] = &[$(number::$name as u8),*];

        /// Their words, in the same order, a line each.
        const WORDS: &str = concat!($($words, "\n"),*);
    };
}

errnos! {
    EINTR EINVAL ENOEXEC ENOSYS ENOTSUP ERANGE;
    E2BIG "arguments and environment too long"
    EACCES "permission denied"
    EAGAIN "resource temporarily unavailable"
    EIO "input/output error"
    ELOOP "too many levels of symbolic links"
    ENAMETOOLONG "file name too long"
    ENODEV "no such device"
    ENOENT "no such file or directory"
    ENOMEM "not enough memory"
    ENOSPC "no space left on device"
    ENOTDIR "not a directory"
    EPERM "operation not permitted"
    ESTALE "stale file handle"
    ETIMEDOUT "timed out"
    ETXTBSY "the file is open for writing"
}

impl Errno {
    /// No error.
    pub const NONE: Self = Self(0);

    /// What the error means, in a few words; `None` for a rare one.
    pub fn words(self) -> Option<&'static [u8]> {
        let line = TOLD.iter().position(|&told| usize::from(told) == self.0)?;
        WORDS.as_bytes().split(|&byte| byte == b'\n').nth(line)
    }
}

#[cfg(not(freestanding))]
use nix::libc as number;

/// Linux's numbers, the same on every architecture that the shim is freestanding on.
#[cfg(freestanding)]
mod number {
    pub const EPERM: i32 = 1;
    pub const ENOENT: i32 = 2;
    pub const EINTR: i32 = 4;
    pub const EIO: i32 = 5;
    pub const E2BIG: i32 = 7;
    pub const ENOEXEC: i32 = 8;
    pub const EAGAIN: i32 = 11;
    pub const ENOMEM: i32 = 12;
    pub const EACCES: i32 = 13;
    pub const ENODEV: i32 = 19;
    pub const ENOTDIR: i32 = 20;
    pub const EINVAL: i32 = 22;
    pub const ETXTBSY: i32 = 26;
    pub const ENOSPC: i32 = 28;
    pub const ERANGE: i32 = 34;
    pub const ENAMETOOLONG: i32 = 36;
    pub const ENOSYS: i32 = 38;
    pub const ELOOP: i32 = 40;
    pub const ENOTSUP: i32 = 95;
    pub const ETIMEDOUT: i32 = 110;
    pub const ESTALE: i32 = 116;
}
