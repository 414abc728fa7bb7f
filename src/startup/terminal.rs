//! Standard output and error as they are here: whether people look at them, and what they can show.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::fstat;

/// What a stream that somebody made non-blocking may take for one piece, in milliseconds.
const PATIENCE: u16 = 5_000;

/// One of the two streams.
pub struct Channel {
    to: Box<dyn Write + Send>,
    pub is_terminal: bool,
    pub colour: bool,
    gone: bool,
}

impl Channel {
    pub fn stdout() -> Self {
        Self::of(io::stdout().as_fd(), io::stdout().is_terminal())
    }

    pub fn stderr() -> Self {
        Self::of(io::stderr().as_fd(), io::stderr().is_terminal())
    }

    pub fn new(to: impl Write + Send + 'static, is_terminal: bool, colour: bool) -> Self {
        Self { to: Box::new(to), is_terminal, colour, gone: false }
    }

    /// A descriptor of our own: what is written is out, with no buffer of std's in between.
    fn of(fd: BorrowedFd<'_>, is_terminal: bool) -> Self {
        let colour = is_terminal && colours(&|name| std::env::var_os(name));
        match fd.try_clone_to_owned() {
            Ok(fd) => Self::new(Patient(File::from(fd)), is_terminal, colour),
            Err(_) => Self::new(io::sink(), false, false),
        }
    }

    /// Writes all of `bytes`, unless nobody takes them: then they are lost, and nothing else is.
    pub fn write(&mut self, bytes: &[u8]) {
        if bytes.is_empty() || self.gone {
            return;
        }
        if let Err(error) = self.to.write_all(bytes) {
            self.gone = error.kind() == ErrorKind::BrokenPipe;
        }
    }
}

/// A file that is waited for if another of its holders made it non-blocking, as some shells do with
/// a terminal: what is refused then is not lost.
struct Patient(File);

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLOUT)];
                match poll(&mut fds, PollTimeout::from(PATIENCE)) {
                    Ok(1..) => self.0.write(bytes),
                    _ => Err(error),
                }
            }
            result => result,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Whether escapes are wanted and understood: <https://no-color.org>, and a TERM.
pub fn colours(env: Environment<'_>) -> bool {
    let set = |name| env(name).filter(|value| !value.is_empty());
    set("NO_COLOR").is_none() && set("TERM").is_some_and(|term| term != "dumb")
}

/// Whether the locale's characters are UTF-8.
pub fn is_unicode(env: Environment<'_>) -> bool {
    let set = |name: &&str| env(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(set);
    let locale = locale.unwrap_or_default().to_string_lossy().to_lowercase();
    locale.ends_with("utf-8") || locale.ends_with("utf8") || locale.contains(".utf-8@")
}

/// Whether standard output and error are one place, such as a pipe with `2>&1`: then a line of one
/// must not come in the middle of one of the other. Terminals are taken for the same one.
pub fn is_one_place() -> bool {
    let are_terminals = io::stdout().is_terminal() && io::stderr().is_terminal();
    let [out, err] =
        [fstat(io::stdout()), fstat(io::stderr())].map(|it| it.map(|it| (it.st_dev, it.st_ino)));
    are_terminals || (out.is_ok() && out == err)
}

/// Columns and rows of the terminal that standard error is.
pub fn size() -> Option<(usize, usize)> {
    size_of(io::stderr())
}

/// Columns and rows of the terminal that `stream` is.
pub fn size_of(stream: impl AsFd) -> Option<(usize, usize)> {
    let (width, height) = terminal_size::terminal_size_of(stream)?;
    Some((width.0.into(), height.0.into()))
}

/// Whether this process is in the background of the terminal that standard error is, as after
/// Ctrl-Z and bg: then the screen is somebody else's.
pub fn is_in_background() -> bool {
    nix::unistd::tcgetpgrp(io::stderr()).is_ok_and(|front| front != nix::unistd::getpgrp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env<'a>(variables: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        move |name| variables.iter().find(|it| it.0 == name).map(|it| it.1.into())
    }

    #[test]
    fn the_first_locale_that_is_set_decides() {
        for (variables, unicode) in [
            (&[("LANG", "en_US.UTF-8")][..], true),
            (&[("LANG", "C.utf8")], true),
            (&[("LANG", "de_DE.UTF-8@euro")], true),
            (&[("LC_ALL", ""), ("LC_CTYPE", "C"), ("LANG", "C.UTF-8")], false),
            (&[("LC_ALL", "C.UTF-8"), ("LANG", "C")], true),
            (&[("LANG", "C")], false),
            (&[], false),
        ] {
            assert_eq!(is_unicode(&env(variables)), unicode, "{variables:?}");
        }
    }

    #[test]
    fn colours_need_a_terminal_that_has_them() {
        for (variables, colour) in [
            (&[("TERM", "xterm")][..], true),
            (&[("TERM", "xterm"), ("NO_COLOR", "")], true),
            (&[("TERM", "xterm"), ("NO_COLOR", "1")], false),
            (&[("TERM", "dumb")], false),
            (&[], false),
        ] {
            assert_eq!(colours(&env(variables)), colour, "{variables:?}");
        }
    }
}
