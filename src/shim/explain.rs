//! Why a program could not be executed: the kernel says it in one number, the file says the rest.

use crate::arena::PathRoom;
use crate::errno::{Errno, Result};
use crate::fail::Failure;
use crate::script::{Head, Program};
use crate::sys::{self, Metadata};
use crate::zstr::ZStr;

/// The kernel found nothing to execute at `path`, or something that lacks what it runs under.
#[cold]
#[inline(never)]
pub fn absent(path: ZStr, errno: Errno) -> Failure {
    let name = path.bytes();
    if !sys::exists(path) {
        return match sys::readlink(path, PathRoom::new().bytes()) {
            Ok(target) if errno == Errno::ENOENT => Failure::dangling_link(name, target),
            _ => Failure::absent(name, errno),
        };
    }
    blame(path, NESTED, false).unwrap_or_else(|| match errno {
        Errno::ENOENT | Errno::ENOTDIR => Failure::no_unnamed_interpreter(name, errno),
        _ => Failure::cannot_execute(name, errno),
    })
}

/// As many interpreters of interpreters as the kernel follows.
const NESTED: usize = 5;

/// Tells on the first file, from `file` on, whose interpreter is not there, or may not be executed
/// if something was `denied`.
fn blame(file: ZStr, nested: usize, denied: bool) -> Option<Failure> {
    let head = Head::read(file).ok()?;
    let (by, is_loader) = match head.program() {
        Program::Script { interpreter, .. } => (interpreter, false),
        Program::Elf { loader: Some(loader), .. } => (loader, true),
        // The kernel takes no name for the current directory.
        Program::EmptyScript => return Some(Failure::empty_interpreter(file.bytes())),
        _ => return None,
    };
    let mut room = PathRoom::new();
    if let Ok(next) = room.join(&[by])
        && if denied { sys::executable(next).is_ok() } else { sys::exists(next) }
    {
        let deeper = blame(next, nested.checked_sub(1)?, denied);
        if deeper.is_some() || !denied {
            return deeper;
        }
    }
    Some(if denied {
        Failure::denied_interpreter(file.bytes(), by)
    } else if is_loader {
        Failure::no_loader(file.bytes(), by)
    } else {
        Failure::no_interpreter(file.bytes(), by)
    })
}

/// The part of `st_mode` that is the type of a file, and two types.
const TYPE: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;

/// Whether nothing but what is in the file at `path` could keep the kernel from executing it.
pub fn seems_executable(path: ZStr) -> bool {
    // A folder has the permission too.
    let is_regular = |it: Metadata| it.mode & TYPE == REGULAR;
    sys::executable(path).is_ok() && sys::metadata(path).is_ok_and(is_regular)
}

/// Executing the file at `path` is not permitted.
#[cold]
#[inline(never)]
pub fn denied(path: ZStr) -> Failure {
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
    blame(path, NESTED, true).unwrap_or_else(|| Failure::cannot_execute(name, Errno::EACCES))
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
        Ok(Program::Elf { machine, .. }) if Some(machine) != sys::ELF_MACHINE.map(usize::from) => {
            Failure::alien(path, machine_name(machine).as_bytes())
        }
        Ok(Program::Elf { .. }) => Failure::damaged(path),
        Ok(Program::Text | Program::Binary) => Failure::no_program(path),
    }
}

/// What an ELF file's `e_machine` stands for.
fn machine_name(machine: usize) -> &'static str {
    match machine {
        62 => "x86-64",
        183 => "aarch64",
        _ => "other",
    }
}
