//! What the shim says, a line at a time, and how it says it without risk to the server.

use crate::contract::Decimal;
use crate::errno::Errno;
use crate::sys::{self, Signals};

/// A sentence with places for what it is about: `$` and `%` stand for the next name, as it is and
/// in quotes, `~` for the errno in words.
pub struct Sentence<'s> {
    pub text: &'static str,
    pub names: [&'s [u8]; 2],
    pub errno: Errno,
}

/// A line of text under construction. What does not fit is left out.
struct Line {
    bytes: [u8; Self::ROOM],
    len: usize,
}

/// Tells what happens, under `--verbose`; not told if stderr does not take it at once.
#[cold]
#[inline(never)]
pub fn note(text: &'static str, name: &[u8], other: &[u8]) {
    Sentence { text, names: [name, other], errno: Errno::NONE }.say(0);
}

impl Sentence<'_> {
    /// Says the sentence in one line on stderr.
    ///
    /// The words may be lost, the server never: a closed or broken stderr costs no signal, a full
    /// one no more than `patience_ms`, and a terminal stops nobody for writing from the background.
    #[cold]
    #[inline(never)]
    pub fn say(&self, patience_ms: u16) {
        const STDERR: i32 = 2;
        let mut line = Line { bytes: [0; Line::ROOM], len: 0 };
        line.fill(self);
        if !sys::writable(STDERR, patience_ms) {
            return;
        }
        let Ok(mask) = Signals::block_all() else { return };
        if let Ok(before) = Signals::pending_from_writing() {
            // Between the look and the write somebody else may have filled the pipe. A file is
            // never full in that way, but may not take a write that does not wait.
            if sys::seekable(STDERR)
                || sys::write_nowait(STDERR, line.as_bytes()) == Err(Errno::ENOTSUP)
            {
                let _ = sys::write(STDERR, line.as_bytes());
            }
            Signals::take_back_since(before);
        }
        let _ = mask.set_mask();
    }
}

impl Line {
    /// What a pipe takes in one piece.
    const ROOM: usize = 4096;

    fn fill(&mut self, sentence: &Sentence) {
        self.text(b"gym-stamp: ");
        let mut names = sentence.names.into_iter();
        let mut name = || names.next().unwrap_or_default();
        for &byte in sentence.text.as_bytes() {
            match byte {
                b'$' => self.text(name()),
                b'%' => {
                    self.byte(b'\'');
                    self.text(name());
                    self.byte(b'\'');
                }
                b'~' => match sentence.errno.words() {
                    Some(words) => self.text(words),
                    None => {
                        self.text(b"error ");
                        self.text(Decimal::new(sentence.errno.0 as u64).as_bytes());
                    }
                },
                byte => self.byte(byte),
            }
        }
        self.len = self.len.min(Self::ROOM - 1);
        if let Some(end) = self.bytes.get_mut(self.len) {
            *end = b'\n';
            self.len = self.len.wrapping_add(1);
        }
    }

    /// `text` with its control characters escaped: a line stays a line.
    fn text(&mut self, text: &[u8]) {
        for &byte in text {
            if byte.is_ascii_control() {
                self.byte(b'\\');
                match byte {
                    b'\n' => self.byte(b'n'),
                    b'\r' => self.byte(b'r'),
                    _ => {
                        self.byte(b'x');
                        self.hex_digit(byte >> 4);
                        self.hex_digit(byte & 15);
                    }
                }
            } else {
                self.byte(byte);
            }
        }
    }

    fn hex_digit(&mut self, nibble: u8) {
        self.byte(nibble.wrapping_add(if nibble < 10 { b'0' } else { b'a' - 10 }));
    }

    fn byte(&mut self, byte: u8) {
        if let Some(to) = self.bytes.get_mut(self.len) {
            *to = byte;
            self.len = self.len.wrapping_add(1);
        }
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// Writes all of `bytes` to stdout: what was asked for, so it may wait.
pub fn print(mut bytes: &[u8]) -> Result<(), Errno> {
    const STDOUT: i32 = 1;
    while !bytes.is_empty() {
        match sys::write(STDOUT, bytes) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
