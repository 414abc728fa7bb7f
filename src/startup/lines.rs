//! Files of OTLP JSON lines, read line by line in bounded memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use crate::say::say;

/// A line that is longer is no line of a file exporter.
const LONGEST_LINE: u64 = 16 * 1024 * 1024;

/// How many damaged lines of one file are named. A file of another kind has nothing else.
const NAMED_FAULTS: u64 = 10;

/// A file that is being read. What of it cannot be, it tells itself.
pub struct Lines {
    pub name: String,
    input: Box<dyn BufRead>,
    line: Vec<u8>,
    number: u64,
    faults: u64,
    broke_off: bool,
}

impl Lines {
    /// Opens `file`; `-` is standard input.
    ///
    /// # Errors
    ///
    /// Why it cannot be opened.
    pub fn open(file: &Path) -> Result<Self, String> {
        let (name, input): (String, Box<dyn Read>) = if file == Path::new("-") {
            ("standard input".to_owned(), Box::new(io::stdin()))
        } else {
            let name = file.display().to_string();
            let input = File::open(file).map_err(|error| format!("{name}: {error}"))?;
            (name, Box::new(input))
        };
        Ok(Self {
            name,
            input: Box::new(BufReader::new(input)),
            line: Vec::new(),
            number: 0,
            faults: 0,
            broke_off: false,
        })
    }

    /// The next line, with its newline if it has one.
    pub fn next(&mut self) -> Option<&[u8]> {
        loop {
            self.line.clear();
            match self.input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut self.line) {
                Ok(0) => return None,
                Ok(_) => self.number = self.number.saturating_add(1),
                Err(error) => return self.break_off(&error),
            }
            let is_endless = !self.line.ends_with(b"\n") && self.line.len() as u64 == LONGEST_LINE;
            if !is_endless {
                return Some(&self.line);
            }
            self.damaged("longer than 16 MiB");
            if let Err(error) = self.input.skip_until(b'\n') {
                return self.break_off(&error);
            }
        }
    }

    /// The line that was read last is damaged: `why`, as a clause.
    pub fn damaged(&mut self, why: &str) {
        self.faults = self.faults.saturating_add(1);
        if self.faults <= NAMED_FAULTS {
            say(format_args!("{}:{}: {why}", self.name, self.number));
        }
    }

    /// That was all; whether all of it could be read.
    pub fn finish(&self) -> bool {
        let unnamed = self.faults.saturating_sub(NAMED_FAULTS);
        if unnamed > 0 {
            say(format_args!("{}: and {unnamed} more damaged lines", self.name));
        }
        self.faults == 0 && !self.broke_off
    }

    fn break_off(&mut self, error: &io::Error) -> Option<&[u8]> {
        say(format_args!("{}: {error}", self.name));
        self.broke_off = true;
        None
    }
}
