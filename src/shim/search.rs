//! Finding COMMAND and becoming it.

use crate::Process;
use crate::arena::PathRoom;
use crate::bytes::holds;
use crate::errno::Errno;
use crate::explain;
use crate::fail::Failure;
use crate::line::note;
use crate::script::{Head, Program};
use crate::sys;
use crate::venv::Venv;
use crate::zstr::{Undo, ZStr};

/// Where a command is looked for when the environment has no PATH.
pub const DEFAULT_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

pub struct Launch<'p, 'a> {
    /// COMMAND, its arguments and its environment. One argument was skipped in front at least, two
    /// with a venv.
    pub process: &'p mut Process<'a>,
    /// Takes the stamp out of the environment again.
    pub unstamp: Option<Undo<'a>>,
    pub venv: Option<&'p Venv<'a>>,
    pub verbose: bool,
}

/// How trying one path ended, short of becoming the program there.
enum Attempt {
    /// Nothing is there, or nothing that can be reached: a search goes on.
    Absent(Errno),
    /// Something is there, or may be, that we may not execute: a search goes on, but remembers.
    Denied,
    /// A search ends here.
    Over(Failure),
}

impl Attempt {
    /// The failure it is where there is no other path to try.
    #[inline(never)]
    fn only_one(self, path: ZStr) -> Failure {
        match self {
            Self::Absent(errno) => explain::absent(path, errno),
            Self::Denied => explain::denied(path),
            Self::Over(failure) => failure,
        }
    }
}

impl<'a> Launch<'_, 'a> {
    /// Becomes COMMAND; returns only if that cannot be.
    pub fn run(mut self) -> Failure {
        let Some(command) = self.process.args.iter().next() else { return Failure::no_command() };
        if holds(b'/', command.bytes()) {
            return self.attempt(command).only_one(command);
        }
        self.search(command.bytes())
    }

    #[inline(never)]
    fn search(&mut self, name: &'a [u8]) -> Failure {
        let mut room = PathRoom::new();
        let mut denied = None;
        let path = self.process.env.value("PATH").map_or(DEFAULT_PATH, ZStr::bytes);
        // No file has an empty name; every folder would answer to it.
        let folders = path.split(|&byte| byte == b':').filter(|_| !name.is_empty());
        for folder in folders {
            let Ok(candidate) = join(&mut room, folder, name) else { continue };
            match self.attempt(candidate) {
                // A file that is there lacks what it runs under.
                Attempt::Absent(Errno::ENOENT) if sys::exists(candidate) => {
                    return explain::absent(candidate, Errno::ENOENT);
                }
                Attempt::Absent(_) => {}
                Attempt::Denied => denied = denied.or(Some(folder)),
                Attempt::Over(failure) => return failure,
            }
        }
        match denied.map(|folder| join(&mut room, folder, name)) {
            Some(Ok(path)) => explain::denied(path),
            _ => match self.venv {
                Some(venv) => Failure::not_in_venv(name, venv.folder),
                None => Failure::not_in_path(name),
            },
        }
    }

    fn attempt(&mut self, path: ZStr) -> Attempt {
        if let Some(venv) = self.venv
            && let Some(stray) = venv.stray(path, &mut self.process.arena)
        {
            if self.verbose {
                note("% names %, which is gone or another venv's", path.bytes(), stray.python);
            }
            return Attempt::Over(self.run_script(venv.python, stray.argument, path));
        }
        let errno = self.execve(path);
        self.judge(path, errno)
    }

    #[cold]
    #[inline(never)]
    fn judge(&mut self, path: ZStr, errno: Errno) -> Attempt {
        match errno {
            Errno::ENOENT
            | Errno::ENOTDIR
            | Errno::ENAMETOOLONG
            | Errno::ELOOP
            | Errno::ESTALE
            | Errno::ENODEV
            | Errno::ETIMEDOUT => Attempt::Absent(errno),
            Errno::EACCES => Attempt::Denied,
            Errno::ENOEXEC => Attempt::Over(match Head::read(path) {
                // What every shell does with a script that does not say what it runs under.
                Ok(head) if matches!(head.program(), Program::Text) => {
                    self.run_script(ZStr::new(c"/bin/sh"), None, path)
                }
                head => explain::no_program(path, head),
            }),
            errno => Attempt::Over(Failure::cannot_execute(path.bytes(), errno)),
        }
    }

    /// Becomes `interpreter`, running the script at `path`.
    #[inline(never)]
    fn run_script(
        &mut self,
        interpreter: ZStr<'a>,
        argument: Option<ZStr<'a>>,
        path: ZStr,
    ) -> Failure {
        // The interpreter must not take the script's name for an option.
        let folder: &[u8] = if path.bytes().starts_with(b"-") { b"./" } else { b"" };
        match self.process.arena.concat(&[folder, path.bytes()]) {
            Ok(script) => self.process.args.replace_front(script),
            Err(errno) => return Failure::no_room(errno),
        }
        for argument in [argument, Some(interpreter)].into_iter().flatten() {
            if self.process.args.push_front(argument).is_err() {
                return Failure::no_room(Errno::E2BIG);
            }
        }
        let errno = self.execve(interpreter);
        self.judge(interpreter, errno).only_one(interpreter)
    }

    /// A stamp must not be what keeps a server from starting: where everything together is too
    /// large for the kernel, the environment goes as it was.
    fn execve(&mut self, path: ZStr) -> Errno {
        if self.verbose && explain::seems_executable(path) {
            note("running %", path.bytes(), b"");
        }
        let errno = sys::execve(path, &self.process.args, &self.process.env);
        if errno != Errno::E2BIG {
            return errno;
        }
        let Some(unstamp) = self.unstamp.take() else { return errno };
        self.process.env.undo(unstamp);
        if self.verbose {
            note("the stamp does not fit: running without it", b"", b"");
        }
        sys::execve(path, &self.process.args, &self.process.env)
    }
}

fn join<'r>(room: &'r mut PathRoom, folder: &[u8], name: &[u8]) -> Result<ZStr<'r>, Errno> {
    // An empty entry of PATH is the current folder.
    room.join(&[if folder.is_empty() { b"." } else { folder }, b"/", name])
}
