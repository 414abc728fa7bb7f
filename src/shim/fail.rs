//! What can go wrong, as the user reads it and as the exit status says it.

use crate::errno::Errno;
use crate::line::Sentence;
use crate::options::Spec;

/// Exit status of an error of the shim's own.
pub const OWN_ERROR: u8 = 125;
/// Exit status where COMMAND was found and cannot be executed.
const CANNOT_EXECUTE: u8 = 126;
/// Exit status where COMMAND was not found.
const NOT_FOUND: u8 = 127;

/// A failure that was said on stderr when it was made: what is left of it is the exit status.
pub struct Failure {
    pub status: u8,
}

impl Failure {
    #[inline(never)]
    fn say(status: u8, text: &'static str, name: &[u8], other: &[u8], errno: Errno) -> Self {
        /// How long an error may wait for a full stderr.
        const PATIENCE_MS: u16 = 1000;
        Sentence { text, names: [name, other], errno }.say(PATIENCE_MS);
        Self { status }
    }

    fn own(text: &'static str, name: &[u8], errno: Errno) -> Self {
        Self::say(OWN_ERROR, text, name, b"", errno)
    }

    fn not_found(text: &'static str, name: &[u8], other: &[u8]) -> Self {
        Self::say(NOT_FOUND, text, name, other, Errno::NONE)
    }

    fn cannot(text: &'static str, name: &[u8], other: &[u8]) -> Self {
        Self::say(CANNOT_EXECUTE, text, name, other, Errno::NONE)
    }
}

/// What is wrong with the shim's own arguments.
impl Failure {
    pub fn no_command() -> Self {
        Self::own(
            "there is no COMMAND to run: gym-stamp [OPTION]... [--] COMMAND [ARG]...",
            b"",
            Errno::NONE,
        )
    }

    pub fn unknown_option(given: &[u8], nearest: &Spec) -> Self {
        Self::say(
            OWN_ERROR,
            "there is no option %: did you mean $? A COMMAND that begins with - goes behind --",
            given,
            nearest.long.as_bytes(),
            Errno::NONE,
        )
    }

    pub fn missing_value(option: &Spec) -> Self {
        let value = option.value.unwrap_or_default().as_bytes();
        Self::say(OWN_ERROR, "$ needs a value: $", option.long.as_bytes(), value, Errno::NONE)
    }

    pub fn unwanted_value(option: &Spec) -> Self {
        Self::own("$ takes no value", option.long.as_bytes(), Errno::NONE)
    }

    pub fn now_goes_alone() -> Self {
        Self::own("--now goes alone, without COMMAND or another option", b"", Errno::NONE)
    }
}

/// What the system refuses to the shim itself.
impl Failure {
    pub fn no_clock(errno: Errno) -> Self {
        Self::own("cannot read the clock: ~", b"", errno)
    }

    pub fn no_output(errno: Errno) -> Self {
        Self::own("cannot write to stdout: ~", b"", errno)
    }

    pub fn no_room(errno: Errno) -> Self {
        Self::own("cannot prepare what COMMAND is passed: ~", b"", errno)
    }
}

/// What is wrong with the DIR of `--venv`.
impl Failure {
    pub fn no_current_directory(errno: Errno) -> Self {
        Self::own("--venv: the current directory has no path: ~: give an absolute DIR", b"", errno)
    }

    pub fn colon_in_venv(folder: &[u8]) -> Self {
        Self::own(
            "--venv: % has a colon, which ends an entry of PATH: rename it",
            folder,
            Errno::NONE,
        )
    }

    pub fn no_venv(folder: &[u8], errno: Errno) -> Self {
        let text = match errno {
            Errno::ENOENT | Errno::ENOTDIR => {
                "--venv: % is no venv, it has no pyvenv.cfg: make one with python3 -m venv"
            }
            _ => "--venv: cannot read the pyvenv.cfg of %: ~",
        };
        Self::own(text, folder, errno)
    }

    pub fn no_python(python: &[u8], errno: Errno) -> Self {
        Self::own("--venv: cannot execute %: ~: make the venv anew", python, errno)
    }
}

/// COMMAND, or what it runs under, is not there.
impl Failure {
    pub fn not_in_path(name: &[u8]) -> Self {
        Self::not_found(
            "% is not found in PATH: give its path, or --venv DIR for a command of a venv",
            name,
            b"",
        )
    }

    pub fn not_in_venv(name: &[u8], venv: &[u8]) -> Self {
        Self::not_found("% is neither in the venv % nor elsewhere in PATH", name, venv)
    }

    pub fn absent(path: &[u8], errno: Errno) -> Self {
        Self::say(NOT_FOUND, "%: ~", path, b"", errno)
    }

    pub fn dangling_link(path: &[u8], target: &[u8]) -> Self {
        Self::not_found("% is a link to %, which is not there", path, target)
    }

    pub fn no_interpreter(path: &[u8], interpreter: &[u8]) -> Self {
        let text = if interpreter.ends_with(b"\r") {
            "% runs under %, which is not there: its lines must not end in carriage returns"
        } else {
            "% runs under %, which is not there: correct its #! line"
        };
        Self::not_found(text, path, interpreter)
    }

    pub fn no_loader(path: &[u8], loader: &[u8]) -> Self {
        Self::not_found(
            "% is loaded by %, which is not there: it was built for another system",
            path,
            loader,
        )
    }

    pub fn no_unnamed_interpreter(path: &[u8], errno: Errno) -> Self {
        Self::say(NOT_FOUND, "%: what it runs under: ~", path, b"", errno)
    }
}

/// COMMAND is there and cannot be executed.
impl Failure {
    pub fn cannot_execute(path: &[u8], errno: Errno) -> Self {
        Self::say(CANNOT_EXECUTE, "% cannot be executed: ~", path, b"", errno)
    }

    pub fn denied_by_directory(path: &[u8]) -> Self {
        Self::cannot("%: a directory on the way may not be searched", path, b"")
    }

    pub fn directory(path: &[u8]) -> Self {
        Self::cannot("% is a directory", path, b"")
    }

    pub fn irregular(path: &[u8]) -> Self {
        Self::cannot("% is not a regular file", path, b"")
    }

    pub fn mounted_noexec(path: &[u8]) -> Self {
        Self::cannot("% lies on a filesystem that is mounted noexec", path, b"")
    }

    pub fn not_executable(path: &[u8]) -> Self {
        Self::cannot("% may not be executed: chmod +x permits it", path, b"")
    }

    pub fn denied_interpreter(path: &[u8], interpreter: &[u8]) -> Self {
        Self::cannot("% runs under %, which may not be executed", path, interpreter)
    }

    pub fn unreadable(path: &[u8], errno: Errno) -> Self {
        Self::say(
            CANNOT_EXECUTE,
            "% is no program, and cannot be read as a script: ~",
            path,
            b"",
            errno,
        )
    }

    pub fn byte_order_mark(path: &[u8]) -> Self {
        Self::cannot("% has a byte-order mark before its #! line: remove it", path, b"")
    }

    pub fn long_interpreter(path: &[u8]) -> Self {
        Self::cannot("% has a #! line that is too long for the kernel", path, b"")
    }

    pub fn empty_interpreter(path: &[u8]) -> Self {
        Self::cannot("% has a #! line that names no interpreter", path, b"")
    }

    pub fn alien_interpreter(path: &[u8], interpreter: &[u8]) -> Self {
        Self::cannot("% runs under %, which this machine cannot run", path, interpreter)
    }

    pub fn alien(path: &[u8], machine: &[u8]) -> Self {
        Self::cannot("% is a program for %, not for this machine", path, machine)
    }

    pub fn damaged(path: &[u8]) -> Self {
        Self::cannot("% is a damaged program, or one for another kernel", path, b"")
    }

    pub fn no_program(path: &[u8]) -> Self {
        Self::cannot("% is neither a program nor a script", path, b"")
    }
}
