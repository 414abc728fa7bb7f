//! What kind of program a file is, told from its first bytes as the kernel does.

use crate::errno::Result;
use crate::sys::{self, File};
use crate::zstr::{ZStr, holds, until};

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
        machine: u16,
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

    /// The second line, if the first is `#!/bin/sh`.
    pub fn shell_script_line(&self) -> Option<&[u8]> {
        let rest = self.as_bytes().strip_prefix(b"#!/bin/sh\n")?;
        Some(until(b'\n', rest))
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

/// The machine that an ELF file is for.
fn elf_machine(elf: &[u8]) -> u16 {
    const BIG_ENDIAN: Option<&u8> = Some(&2);
    match elf.get(18..20) {
        Some(&[low, high]) if elf.get(5) != BIG_ENDIAN => u16::from_le_bytes([low, high]),
        Some(&[high, low]) => u16::from_be_bytes([high, low]),
        _ => 0,
    }
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
