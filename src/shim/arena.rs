//! Where the strings that the shim adds are made: a little room at hand, the system's memory
//! beyond. Nothing is freed; `execve` takes it all.

use core::mem;

use crate::errno::{Errno, Result};
use crate::sys;
use crate::zstr::ZStr;

pub struct Arena<'a> {
    room: &'a mut [u8],
}

impl<'a> Arena<'a> {
    /// Room at hand that takes a stamp, so that the plain case asks the system for nothing.
    pub const ROOM: usize = 64;

    pub fn new(room: &'a mut [u8]) -> Self {
        Self { room }
    }

    /// Joins `parts`, none of which holds a NUL, to one string.
    pub fn concat(&mut self, parts: &[&[u8]]) -> Result<ZStr<'a>> {
        let len = parts.iter().fold(1_usize, |len, part| len.saturating_add(part.len()));
        join(self.bytes(len)?, parts).ok_or(Errno::EINVAL)
    }

    /// `len` bytes, all zero.
    pub fn bytes(&mut self, len: usize) -> Result<&'a mut [u8]> {
        if len > self.room.len() {
            return sys::memory(len);
        }
        let (taken, rest) =
            mem::take(&mut self.room).split_at_mut_checked(len).ok_or(Errno::ENOMEM)?;
        self.room = rest;
        Ok(taken)
    }
}

/// Room for one path at a time, as long as the kernel takes them.
pub struct PathRoom([u8; sys::PATH_MAX]);

impl PathRoom {
    pub const fn new() -> Self {
        Self([0; sys::PATH_MAX])
    }

    /// Joins `parts` to one path; `ENAMETOOLONG`, as the kernel would say, if it is too long.
    pub fn join(&mut self, parts: &[&[u8]]) -> Result<ZStr<'_>> {
        join(&mut self.0, parts).ok_or(Errno::ENAMETOOLONG)
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// Joins `parts` at the start of `room`; `None` if they and a NUL do not fit.
fn join<'r>(room: &'r mut [u8], parts: &[&[u8]]) -> Option<ZStr<'r>> {
    let mut to = room.iter_mut();
    for from in parts.iter().copied().flatten() {
        *to.next()? = *from;
    }
    *to.next()? = 0;
    ZStr::in_bytes(room)
}
