//! A Python venv: what activating it does to the environment, and which of its scripts are astray.

use crate::Process;
use crate::arena::{Arena, PathRoom};
use crate::bytes::{base_name, holds, parent};
use crate::errno::{Errno, Result};
use crate::fail::Failure;
use crate::pyvenv;
use crate::script::Head;
use crate::search::DEFAULT_PATH;
use crate::sys::{self, File};
use crate::zstr::{Full, ZStr};

/// Many times what any tool writes into `pyvenv.cfg`.
const CONFIG_ROOM: usize = 64 * 1024;

pub struct Venv<'a> {
    /// Absolute.
    pub folder: &'a [u8],
    /// Its `bin/python`.
    pub python: ZStr<'a>,
}

/// A script whose own Python is gone, or belongs to another venv.
pub struct Stray<'a> {
    /// The Python that its header names.
    pub python: &'a [u8],
    /// The argument that its header passes to Python.
    pub argument: Option<ZStr<'a>>,
}

impl<'a> Venv<'a> {
    /// Does to the environment that COMMAND inherits what `source bin/activate` would.
    #[inline(never)]
    pub fn activate(
        folder: ZStr<'a>,
        process: &mut Process<'a>,
    ) -> core::result::Result<Self, Failure> {
        let arena = &mut process.arena;
        let folder = absolute(folder.bytes(), arena).map_err(Failure::no_current_directory)?;
        if holds(b':', folder) {
            return Err(Failure::colon_in_venv(folder));
        }
        let config = PathRoom::new()
            .join(&[folder, b"/pyvenv.cfg"])
            .and_then(File::open)
            .and_then(|file| file.read_start(arena.bytes(CONFIG_ROOM)?))
            .map_err(|errno| Failure::no_venv(folder, errno))?;
        let python = arena.concat(&[folder, b"/bin/python"]).map_err(Failure::no_room)?;
        sys::executable(python).map_err(|errno| Failure::no_python(python.bytes(), errno))?;
        let prompt = pyvenv::prompt(config, arena).unwrap_or_else(|| base_name(folder));
        export(folder, prompt, process).map_err(Failure::no_room)?;
        Ok(Self { folder, python })
    }

    /// Whether the file at `path` is a script of this venv that would run under another Python, as
    /// after the venv was moved or copied: the headers that installers write hold absolute paths.
    #[inline(never)]
    pub fn stray(&self, path: ZStr, arena: &mut Arena<'a>) -> Option<Stray<'a>> {
        if !self.holds(path) || sys::executable(path).is_err() {
            return None;
        }
        // Who links to a tool elsewhere wants it as it is there.
        if sys::readlink(path, PathRoom::new().bytes()).is_ok_and(|target| holds(b'/', target)) {
            return None;
        }
        let head = Head::read(path).ok()?;
        let (python, argument) =
            head.python(arena).filter(|(python, _)| self.is_foreign(python))?;
        let argument =
            if argument.is_empty() { None } else { Some(arena.concat(&[argument]).ok()?) };
        Some(Stray { python: arena.concat(&[python]).ok()?.bytes(), argument })
    }

    fn holds(&self, path: ZStr) -> bool {
        parent(path.bytes()).is_some_and(|bin| self.owns(bin))
    }

    /// Whether `python` is gone or belongs to another venv.
    fn is_foreign(&self, python: &[u8]) -> bool {
        if PathRoom::new().join(&[python]).and_then(sys::executable).is_err() {
            return true;
        }
        let Some(bin) = parent(python) else { return false };
        !self.owns(bin) && PathRoom::new().join(&[bin, b"/../pyvenv.cfg"]).is_ok_and(sys::exists)
    }

    /// Whether `bin` is this venv's, by whatever name it is reached.
    fn owns(&self, bin: &[u8]) -> bool {
        let own = identity(&[self.folder, b"/bin"]);
        own.is_some() && own == identity(&[bin, b"/"])
    }
}

fn export<'a>(folder: &'a [u8], prompt: &[u8], process: &mut Process<'a>) -> Result<()> {
    let old = process.env.value("PATH").map_or(DEFAULT_PATH, ZStr::bytes);
    let colon: &[u8] = if old.is_empty() { b"" } else { b":" };
    let mut set = |name, entry: &[&[u8]]| {
        let entry = process.arena.concat(entry)?;
        process.env.set(name, entry).map(drop).map_err(|Full| Errno::ENOMEM)
    };
    set("VIRTUAL_ENV", &[b"VIRTUAL_ENV=", folder])?;
    set("PATH", &[b"PATH=", folder, b"/bin", colon, old])?;
    set("VIRTUAL_ENV_PROMPT", &[b"VIRTUAL_ENV_PROMPT=", prompt])?;
    process.env.unset("PYTHONHOME");
    Ok(())
}

fn identity(path: &[&[u8]]) -> Option<(u64, u64)> {
    let metadata = PathRoom::new().join(path).and_then(sys::metadata);
    metadata.map(|metadata| metadata.identity).ok()
}

/// `folder` made absolute by its words alone: no link is resolved, so that a venv that is reached
/// through one works under the name it was called by.
fn absolute<'a>(mut folder: &'a [u8], arena: &mut Arena<'a>) -> Result<&'a [u8]> {
    while let [b'.', b'/', rest @ ..] = folder {
        folder = rest;
        while let [b'/', rest @ ..] = folder {
            folder = rest;
        }
    }
    while let [rest @ .., b'/'] = folder
        && !rest.is_empty()
    {
        folder = rest;
    }
    if folder.starts_with(b"/") {
        return Ok(folder);
    }
    let mut room = PathRoom::new();
    let current = sys::getcwd(room.bytes())?.bytes();
    // The kernel's word for a current directory that is outside of the root.
    if !current.starts_with(b"/") {
        return Err(Errno::ENOENT);
    }
    let (folder, slash): (&[u8], &[u8]) = match folder {
        b"" | b"." => (b"", b""),
        _ if current == b"/" => (folder, b""),
        _ => (folder, b"/"),
    };
    arena.concat(&[current, slash, folder]).map(ZStr::bytes)
}
