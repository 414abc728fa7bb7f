//! The one table of the shim's options: what parses them, and what tells about them.
//!
//! Core only, so that whatever writes a manual or completions can compile this very file.

/// An option of `gym-stamp`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Name {
    Spawn,
    Keep,
    Venv,
    Now,
    Verbose,
    Help,
    Version,
}

/// How an option is written.
#[derive(Clone, Copy)]
pub struct Spec {
    pub name: Name,
    /// With its two dashes.
    pub long: &'static str,
    /// The letter behind its one dash.
    pub short: Option<u8>,
    /// What the value is called, if the option takes one.
    pub value: Option<&'static str>,
}

/// Each option, and the lines that tell what it is for.
pub const TABLE: [(Spec, &[&str]); 7] = [
    (
        flag(Name::Spawn, None, "--spawn"),
        &["stamp the launch's start instead, unless it is set:", "NEMO_GYM_STARTUP_SPAWN_NS"],
    ),
    (flag(Name::Keep, None, "--keep"), &["leave a valid stamp that is there"]),
    (
        Spec { value: Some("DIR"), ..flag(Name::Venv, None, "--venv") },
        &["activate the Python venv DIR, without a shell"],
    ),
    (flag(Name::Now, None, "--now"), &["print the time in ns since 1970"]),
    (
        flag(Name::Verbose, Some(b'v'), "--verbose"),
        &["say on stderr what is stamped and what is run"],
    ),
    (flag(Name::Help, Some(b'h'), "--help"), &["print this help"]),
    (flag(Name::Version, Some(b'V'), "--version"), &["print the version"]),
];

/// The options alone.
pub static OPTIONS: [Spec; TABLE.len()] = {
    let [a, b, c, d, e, f, g] = TABLE;
    [a.0, b.0, c.0, d.0, e.0, f.0, g.0]
};

const fn flag(name: Name, short: Option<u8>, long: &'static str) -> Spec {
    Spec { name, long, short, value: None }
}

/// How it is called, a way a line.
pub const USAGE: [&str; 2] = ["gym-stamp [OPTION]... [--] COMMAND [ARG]...", "gym-stamp --now"];

/// What it does.
pub const ABOUT: &str = "\
Writes the time into the environment, then becomes COMMAND: the same process,
nothing else changed. So it marks where a server's setup ends: NeMo Gym's
servers report it, others show it in /proc/PID/environ.
";

/// What else there is to know of it, up to how it ends.
pub const NOTES: &str = "\
The stamp is NEMO_GYM_STARTUP_SETUP_DONE_NS, wall-clock ns since 1970. If it
cannot be set, COMMAND runs all the same. Exit status: COMMAND's own, or 125 an
error of gym-stamp's, 126 COMMAND cannot be executed, 127 not found.
";

/// Where it stands, and the command there.
pub const EXAMPLE: (&str, &str) =
    ("The end of a launch script:", "exec gym-stamp --venv .venv uvicorn app:app");

/// The text of `--version`.
pub const VERSION: &str = concat!("gym-stamp ", env!("CARGO_PKG_VERSION"), "\n");

/// The text of `--help`, put together from the table when the program is compiled.
pub static HELP: [u8; help().len] = help().head();

/// A text that grows in a constant.
struct Page {
    bytes: [u8; 2048],
    len: usize,
    column: usize,
}

#[allow(clippy::indexing_slicing, reason = "runs in the compiler, which reports it")]
impl Page {
    const fn text(mut self, text: &str) -> Self {
        let mut from = 0;
        while from < text.len() {
            self = self.byte(text.as_bytes()[from]);
            from += 1;
        }
        self
    }

    const fn byte(mut self, byte: u8) -> Self {
        self.bytes[self.len] = byte;
        self.len += 1;
        self.column = if byte == b'\n' { 0 } else { self.column + 1 };
        self
    }

    const fn pad_to(mut self, column: usize) -> Self {
        while self.column < column {
            self = self.text(" ");
        }
        self
    }

    const fn head<const LEN: usize>(&self) -> [u8; LEN] {
        let mut head = [0; LEN];
        head.copy_from_slice(self.bytes.split_at(LEN).0);
        head
    }
}

const fn help() -> Page {
    const HELP_COLUMN: usize = 18;
    let mut page = Page { bytes: [0; 2048], len: 0, column: 0 }
        .text("Usage: ")
        .text(USAGE[0])
        .text("\n       ")
        .text(USAGE[1])
        .text("\n\n")
        .text(ABOUT)
        .text("\n");
    let mut options: &[(Spec, &[&str])] = &TABLE;
    while let [(option, help), rest @ ..] = options {
        page = page.text("  ");
        if let Some(short) = option.short {
            page = page.text("-").byte(short).text(", ");
        }
        page = page.text(option.long);
        if let Some(value) = option.value {
            page = page.text(" ").text(value);
        }
        let mut lines: &[&str] = help;
        while let [line, rest @ ..] = lines {
            page = page.pad_to(HELP_COLUMN).text(line).text("\n");
            lines = rest;
        }
        options = rest;
    }
    page.text("\n").text(NOTES).text("\n").text(EXAMPLE.0).text("  ").text(EXAMPLE.1).text("\n")
}
