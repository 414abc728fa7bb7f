//! Why a program could not be executed: the kernel says it in one number, the file says the rest.

use crate::arena::PathRoom;
use crate::errno::{Errno, Result};
use crate::fail::Failure;
use crate::script::{Head, Program};
use crate::sys;
use crate::zstr::ZStr;

/// Nothing is at `path`.
#[cold]
#[inline(never)]
pub fn absent(path: ZStr, errno: Errno) -> Failure {
    match sys::readlink(path, PathRoom::new().bytes()) {
        Ok(target) if errno == Errno::ENOENT => Failure::dangling_link(path.bytes(), target),
        _ => Failure::absent(path.bytes(), errno),
    }
}

/// The file at `path` is there, what its `#!` line or ELF header names is not.
pub fn no_interpreter(path: ZStr, errno: Errno) -> Failure {
    /// The kernel follows no more.
    const NESTED: usize = 5;
    match blame(path, NESTED) {
        Some(failure) => failure,
        None if errno == Errno::ELOOP => Failure::cannot_execute(path.bytes(), errno),
        None => Failure::no_unnamed_interpreter(path.bytes(), errno),
    }
}

/// Tells on the first file, from `file` on, that lacks its interpreter.
fn blame(file: ZStr, nested: usize) -> Option<Failure> {
    match Head::read(file).ok()?.program() {
        Program::Script { interpreter, .. } => {
            let mut room = PathRoom::new();
            match room.join(&[interpreter]) {
                Ok(next) if sys::exists(next) => blame(next, nested.checked_sub(1)?),
                _ => Some(Failure::no_interpreter(file.bytes(), interpreter)),
            }
        }
        Program::Elf { loader: Some(loader), .. } => Some(Failure::no_loader(file.bytes(), loader)),
        _ => None,
    }
}

/// Executing the file at `path` is not permitted.
#[cold]
#[inline(never)]
pub fn denied(path: ZStr) -> Failure {
    const TYPE: u32 = 0o170_000;
    const DIRECTORY: u32 = 0o040_000;
    const REGULAR: u32 = 0o100_000;
    let name = path.bytes();
    let Ok(metadata) = sys::metadata(path) else { return Failure::denied_by_directory(name) };
    match metadata.mode & TYPE {
        DIRECTORY => return Failure::directory(name),
        REGULAR => {}
        _ => return Failure::irregular(name),
    }
    if sys::mounted_noexec(path) {
        return Failure::mounted_noexec(name);
    }
    if sys::executable(path).is_err() {
        return Failure::not_executable(name);
    }
    match Head::read(path).as_ref().map(Head::program) {
        Ok(Program::Script { interpreter: by, .. } | Program::Elf { loader: Some(by), .. }) => {
            Failure::denied_interpreter(name, by)
        }
        _ => Failure::cannot_execute(name, Errno::EACCES),
    }
}

/// The kernel knows no format that the file at `path` is of.
pub fn no_program(path: ZStr, head: Result<Head>) -> Failure {
    let path = path.bytes();
    match head.as_ref().map(Head::program) {
        Err(errno) => Failure::unreadable(path, *errno),
        Ok(Program::MarkedScript) => Failure::byte_order_mark(path),
        Ok(Program::LongScript) => Failure::long_interpreter(path),
        Ok(Program::EmptyScript) => Failure::empty_interpreter(path),
        Ok(Program::Script { interpreter, .. }) => Failure::alien_interpreter(path, interpreter),
        Ok(Program::Elf { machine, .. }) if Some(machine) != sys::ELF_MACHINE => {
            Failure::alien(path, machine_name(machine).as_bytes())
        }
        Ok(Program::Elf { .. }) => Failure::damaged(path),
        Ok(Program::Text | Program::Binary) => Failure::no_program(path),
    }
}

/// What an ELF file's `e_machine` stands for.
fn machine_name(machine: u16) -> &'static str {
    match machine {
        3 => "i386",
        21 => "ppc64",
        22 => "s390x",
        40 => "arm",
        62 => "x86-64",
        183 => "aarch64",
        243 => "RISC-V",
        _ => "another kind",
    }
}
