//! The servers' lines on a stream, each with the name of who wrote it before it.

use super::frame::name_style;

/// What is before each line of each server, made once.
pub struct Names {
    before: Vec<Vec<u8>>,
    colour: bool,
}

impl Names {
    pub fn new(names: &[String], colour: bool) -> Self {
        let before = |(number, name): (usize, &String)| match colour {
            true => {
                let style = name_style(number);
                format!("{style}({name}){style:#} ").into_bytes()
            }
            false => format!("({name}) ").into_bytes(),
        };
        Self { before: names.iter().enumerate().map(before).collect(), colour }
    }

    /// Adds one line that `server` wrote, without its newline, to `lines`.
    pub fn add(&self, server: usize, line: &[u8], lines: &mut Vec<u8>) {
        lines.extend(self.before.get(server).into_iter().flatten());
        lines.extend(line);
        if self.colour && line.contains(&0x1b) {
            // The next line is somebody else's.
            lines.extend(b"\x1b[0m");
        }
        lines.push(b'\n');
    }
}
