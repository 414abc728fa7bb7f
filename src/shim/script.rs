//! What kind of program a file is, told from its first bytes as the kernel does.

use crate::arena::Arena;
use crate::bytes::{base_name, holds, until};
use crate::errno::Result;
use crate::sys::{self, File};
use crate::zstr::ZStr;

/// The first bytes of a file.
pub struct Head {
    bytes: [u8; Self::ROOM],
    len: usize,
}

/// What a file is to whoever wants to execute it.
pub enum Program<'h> {
    /// `#!INTERPRETER [ARGUMENT]`
    Script {
        interpreter: &'h [u8],
        argument: &'h [u8],
    },
    /// A `#!` line that a byte-order mark hides.
    MarkedScript,
    /// A `#!` line that is longer than the kernel reads.
    LongScript,
    /// A `#!` line that names nothing.
    EmptyScript,
    Elf {
        machine: usize,
        loader: Option<&'h [u8]>,
    },
    /// No NUL in the first line, and no `#!`.
    Text,
    Binary,
}

impl Head {
    /// Room for a line that holds a path of any length.
    const ROOM: usize = sys::PATH_MAX + 512;

    pub fn read(path: ZStr) -> Result<Self> {
        let mut head = Self { bytes: [0; Self::ROOM], len: 0 };
        head.len = File::open(path)?.read_start(&mut head.bytes)?.len();
        Ok(head)
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }

    /// The Python that an installer's script names, and what it passes to it.
    pub fn python<'h, 'a: 'h>(&'h self, arena: &mut Arena<'a>) -> Option<(&'h [u8], &'h [u8])> {
        let (interpreter, argument) = match self.as_bytes().strip_prefix(b"#!/bin/sh\n") {
            Some(rest) => shell_header(until(b'\n', rest), arena)?,
            None => match self.program() {
                Program::Script { interpreter, argument } => (interpreter, argument),
                _ => return None,
            },
        };
        let name = base_name(interpreter);
        let python = name.starts_with(b"python") || name.starts_with(b"pypy");
        python.then_some((interpreter, argument))
    }

    pub fn program(&self) -> Program<'_> {
        const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
        let bytes = self.as_bytes();
        if let Some(rest) = bytes.strip_prefix(b"#!") {
            return script(rest);
        }
        if bytes.strip_prefix(BYTE_ORDER_MARK).is_some_and(|rest| rest.starts_with(b"#!")) {
            return Program::MarkedScript;
        }
        if bytes.starts_with(b"\x7fELF") {
            return Program::Elf { machine: elf_machine(bytes), loader: elf_loader(bytes) };
        }
        let first_line = until(b'\n', bytes);
        if holds(0, first_line) { Program::Binary } else { Program::Text }
    }
}

/// A `#!` line, behind the mark.
fn script(rest: &[u8]) -> Program<'_> {
    let line = until(b'\n', rest);
    let is_blank = |byte: u8| byte == b' ' || byte == b'\t';
    let start = line.iter().take_while(|&&byte| is_blank(byte)).count();
    let name = line.iter().skip(start).take_while(|&&byte| !is_blank(byte) && byte != 0);
    let end = start.wrapping_add(name.count());
    let interpreter = line.get(start..end).unwrap_or_default();
    if interpreter.is_empty() {
        Program::EmptyScript
    } else if end >= sys::SHEBANG_ROOM {
        // Where the name is cut off, the kernel refuses; a cut argument passes.
        Program::LongScript
    } else {
        let argument = line.get(end..).unwrap_or_default().trim_ascii();
        Program::Script { interpreter, argument }
    }
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
fn shell_header<'h, 'a: 'h>(line: &'h [u8], arena: &mut Arena<'a>) -> Option<(&'h [u8], &'h [u8])> {
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
    Some((room.get(..len)?, rest.trim_ascii()))
}

/// The machine that an ELF file is for, if it is of this machine's byte order.
fn elf_machine(elf: &[u8]) -> usize {
    number(elf, 18, 2).unwrap_or_default()
}

/// What the `PT_INTERP` segment of an ELF file names, if it is of this machine's byte order.
fn elf_loader(elf: &[u8]) -> Option<&[u8]> {
    const PT_INTERP: usize = 3;
    let wide = elf.get(4) == Some(&2);
    let (word, sizes): (usize, usize) = if wide { (8, 54) } else { (4, 42) };
    let mut header = number(elf, word.wrapping_add(24), word)?;
    let size = number(elf, sizes, 2)?;
    let count = number(elf, sizes.wrapping_add(2), 2)?;
    for _ in 0..count {
        if number(elf, header, 4)? == PT_INTERP {
            let offset = number(elf, header.checked_add(word)?, word)?;
            return Some(until(0, elf.get(offset..)?));
        }
        header = header.checked_add(size)?;
    }
    None
}

/// The number of `size` bytes at `offset`, in this machine's byte order.
fn number(elf: &[u8], offset: usize, size: usize) -> Option<usize> {
    let bytes = elf.get(offset..)?.get(..size)?;
    let join = |number: usize, byte: &u8| number << 8 | usize::from(*byte);
    Some(if cfg!(target_endian = "little") {
        bytes.iter().rev().fold(0, join)
    } else {
        bytes.iter().fold(0, join)
    })
}
