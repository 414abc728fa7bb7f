//! A Python venv: what activating it does to the environment, and its scripts.

use crate::Process;
use crate::arena::{Arena, PathRoom};
use crate::errno::{Errno, Result};
use crate::fail::Failure;
use crate::script::{Head, Program};
use crate::search::DEFAULT_PATH;
use crate::sys::{self, File};
use crate::zstr::{Full, ZStr, holds};

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
        let prompt = prompt(config, arena).unwrap_or_else(|| base_name(folder));
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
        let head = Head::read(path).ok()?;
        let (python, argument) = match (head.shell_script_line(), head.program()) {
            (Some(line), _) => shell_header(line, arena)?,
            (None, Program::Script { interpreter, argument }) => (interpreter, argument),
            _ => return None,
        };
        if !is_python(base_name(python)) || !self.is_foreign(python) {
            return None;
        }
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
        let Some(folder) = parent(bin) else { return false };
        !self.owns(bin) && PathRoom::new().join(&[folder, b"/pyvenv.cfg"]).is_ok_and(sys::exists)
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

/// The prompt that `pyvenv.cfg` sets: what uv writes is the prompt, what CPython and virtualenv
/// write is its `repr`.
fn prompt<'a>(config: &'a [u8], arena: &mut Arena<'a>) -> Option<&'a [u8]> {
    let value = |name: &[u8]| {
        config.split(|&byte| byte == b'\n').find_map(|line| {
            let value = line.trim_ascii_start().strip_prefix(name)?.trim_ascii_start();
            Some(value.strip_prefix(b"=")?.trim_ascii())
        })
    };
    let prompt = value(b"prompt").filter(|prompt| !prompt.is_empty())?;
    let literal = match prompt {
        [b'\'', inner @ .., b'\''] | [b'"', inner @ .., b'"'] if value(b"uv").is_none() => inner,
        _ => return Some(prompt),
    };
    unescape(literal, arena.bytes(literal.len()).ok()?)
}

/// Undoes the escapes of a Python string literal.
fn unescape<'a>(literal: &[u8], room: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut from = literal.iter().copied();
    let mut len = 0_usize;
    let mut put = |byte: u8| -> Option<()> {
        *room.get_mut(len)? = byte;
        len = len.wrapping_add(1);
        Some(())
    };
    while let Some(byte) = from.next() {
        if byte != b'\\' {
            put(byte)?;
            continue;
        }
        let digits = match from.next()? {
            b'n' => {
                put(b'\n')?;
                continue;
            }
            b'r' => {
                put(b'\r')?;
                continue;
            }
            b't' => {
                put(b'\t')?;
                continue;
            }
            b'x' => 2,
            b'u' => 4,
            b'U' => 8,
            byte => {
                put(byte)?;
                continue;
            }
        };
        let mut code = 0_u32;
        for _ in 0..digits {
            let digit = char::from(from.next()?).to_digit(16)?;
            code = code.checked_mul(16)?.checked_add(digit)?;
        }
        let mut utf8 = [0; 4];
        for byte in char::from_u32(code)?.encode_utf8(&mut utf8).bytes() {
            put(byte)?;
        }
    }
    room.get(..len)
}

/// Python and its argument in the second line of a header for paths that a `#!` line cannot hold:
///
/// ```sh
/// #!/bin/sh
/// '''exec' "/path with a space/bin/python" "$0" "$@"
/// ' '''
/// ```
///
/// `None` for anything else, such as the header of a relocatable script, which finds its Python.
fn shell_header<'a>(line: &[u8], arena: &mut Arena<'a>) -> Option<(&'a [u8], &'a [u8])> {
    let command = line.strip_prefix(b"'''exec' ")?.strip_suffix(b" \"$0\" \"$@\"")?;
    let room = arena.bytes(command.len()).ok()?;
    let mut len = 0_usize;
    let mut quote = None;
    let mut from = command.iter().copied();
    let mut rest: &[u8] = b"";
    while let Some(byte) = from.next() {
        let literal = match (quote, byte) {
            (None, b'\'' | b'"') => {
                quote = Some(byte);
                continue;
            }
            (Some(mark), _) if mark == byte => {
                quote = None;
                continue;
            }
            (None, b' ') => {
                rest = command.get(command.len().checked_sub(from.len())?..)?;
                break;
            }
            (Some(b'"') | None, b'$' | b'`') => return None,
            (Some(b'"') | None, b'\\') => from.next()?,
            _ => byte,
        };
        *room.get_mut(len)? = literal;
        len = len.wrapping_add(1);
    }
    let argument = arena.concat(&[rest.trim_ascii()]).ok()?.bytes();
    Some((room.get(..len)?, argument))
}

fn is_python(name: &[u8]) -> bool {
    name.starts_with(b"python") || name.starts_with(b"pypy")
}

/// What comes before the last `/`: empty for a file of the root.
fn parent(path: &[u8]) -> Option<&[u8]> {
    path.iter().rposition(|&byte| byte == b'/').and_then(|slash| path.get(..slash))
}

fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}
