//! Standard output and error as they are here: whether people look at them, and what they can show.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::fstat;
use terminal_size::terminal_size_of;

use crate::words::plain;

/// What a stream that somebody made non-blocking may take for one piece.
const PATIENCE: Duration = Duration::from_secs(5);
/// Whatever a terminal or COLUMNS says: nobody has a wider one.
const WIDEST: usize = 1_000;

/// One of the two streams.
pub struct Channel {
    to: Box<dyn Write + Send>,
    pub is_terminal: bool,
    pub colour: bool,
    name: &'static str,
    gone: bool,
    /// What was lost first.
    loss: Loss,
}

enum Loss {
    None,
    Untold(io::Error),
    Told,
}

impl Channel {
    pub fn stdout() -> Self {
        Self::of("standard output", io::stdout().as_fd(), io::stdout().is_terminal())
    }

    pub fn stderr() -> Self {
        Self::of("standard error", io::stderr().as_fd(), io::stderr().is_terminal())
    }

    pub fn new(
        name: &'static str,
        to: impl Write + Send + 'static,
        is_terminal: bool,
        colour: bool,
    ) -> Self {
        Self { to: Box::new(to), is_terminal, colour, name, gone: false, loss: Loss::None }
    }

    /// A descriptor of our own: what is written is out, with no buffer of std's in between.
    fn of(name: &'static str, fd: BorrowedFd<'_>, is_terminal: bool) -> Self {
        let colour = is_terminal && colours(&|name| std::env::var_os(name));
        match fd.try_clone_to_owned() {
            Ok(fd) => {
                let to = Patient { file: File::from(fd), patience: PATIENCE };
                Self::new(name, to, is_terminal, colour)
            }
            Err(_) => Self::new(name, io::sink(), false, false),
        }
    }

    /// Writes all of `bytes`, unless nobody takes them: then they are lost, and nothing else is.
    pub fn write(&mut self, bytes: &[u8]) {
        if bytes.is_empty() || self.gone {
            return;
        }
        match self.to.write_all(bytes) {
            // Whoever reads no further has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => self.gone = true,
            Err(error) if matches!(self.loss, Loss::None) => self.loss = Loss::Untold(error),
            _ => {}
        }
    }

    /// That something was lost, once.
    pub fn loss(&mut self) -> Option<String> {
        let Loss::Untold(error) = &self.loss else { return None };
        let words = format!("{}: {}: not all of it is there", self.name, plain(error));
        self.loss = Loss::Told;
        Some(words)
    }
}

/// A file that is waited for if another of its holders made it non-blocking, as some shells do with
/// a terminal: what is refused then is not lost.
struct Patient {
    file: File,
    patience: Duration,
}

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let deadline = Instant::now() + self.patience;
        loop {
            match self.file.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return result,
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let patience = self.patience.as_secs();
                return Err(io::Error::other(format!("nothing was taken for {patience} s")));
            }
            let mut awaited = [PollFd::new(self.file.as_fd(), PollFlags::POLLOUT)];
            // However it ends, the next try tells.
            poll(&mut awaited, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)).ok();
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

/// How many columns there are for what goes to `stream`: those of the terminal that it is, or else
/// COLUMNS, or else `usual`.
pub fn width(stream: impl AsFd, usual: usize) -> usize {
    let terminal = terminal_size_of(stream).map(|(width, _)| width.0.into());
    width_of(terminal, &|name| std::env::var_os(name), usual)
}

fn width_of(terminal: Option<usize>, env: Environment<'_>, usual: usize) -> usize {
    let columns = || env("COLUMNS")?.to_str()?.parse().ok();
    let is_any = |width: &usize| *width > 0;
    terminal.filter(is_any).or_else(|| columns().filter(is_any)).unwrap_or(usual).min(WIDEST)
}

/// How many rows the terminal that `stream` is has.
pub fn height(stream: impl AsFd) -> Option<usize> {
    terminal_size_of(stream).map(|(_, height)| height.0.into())
}

/// Whether this process is in the background of the terminal that standard error is, as after
/// Ctrl-Z and bg: then the screen is somebody else's.
pub fn is_in_background() -> bool {
    nix::unistd::tcgetpgrp(io::stderr()).is_ok_and(|front| front != nix::unistd::getpgrp())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

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
    #[test]
    fn a_width_is_one_that_somebody_has() {
        for (terminal, columns, width) in [
            (Some(120), Some("80"), 120),
            (Some(0), Some("90"), 90),
            (Some(65_535), None, WIDEST),
            (None, Some("18446744073709551615"), WIDEST),
            (None, Some("18446744073709551616"), 100),
            (None, Some("0"), 100),
            (None, None, 100),
        ] {
            let variables: Vec<_> = columns.into_iter().map(|it| ("COLUMNS", it)).collect();
            assert_eq!(
                width_of(terminal, &env(&variables), 100),
                width,
                "{terminal:?} {columns:?}"
            );
        }
    }

    #[test]
    fn a_loss_is_told_once_and_a_reader_that_leaves_is_none() -> io::Result<()> {
        let (mut reader, writer) = UnixStream::pair()?;
        writer.set_nonblocking(true)?;
        let to = Patient { file: File::from(OwnedFd::from(writer)), patience: Duration::ZERO };
        let mut channel = Channel::new("standard output", to, false, false);
        channel.write(b"some");
        assert_eq!(channel.loss(), None);
        let words = "standard output: nothing was taken for 0 s: not all of it is there";
        channel.write(&[b'x'; 4 << 20]);
        assert_eq!(channel.loss().as_deref(), Some(words));
        channel.write(&[b'x'; 4 << 20]);
        assert_eq!(channel.loss(), None);
        reader.read_exact(&mut [0; 4])?;
        drop(reader);
        // What other tests start has it too, for as long as it is no other program yet.
        let deadline = Instant::now() + Duration::from_secs(60);
        while !channel.gone && Instant::now() < deadline {
            channel.write(b"more");
        }
        assert!(channel.gone);
        Ok(())
    }

    #[test]
    fn whoever_reads_slowly_gets_all_of_it() -> io::Result<()> {
        let (mut reader, writer) = UnixStream::pair()?;
        writer.set_nonblocking(true)?;
        let patience = Duration::from_secs(60);
        let mut to = Patient { file: File::from(OwnedFd::from(writer)), patience };
        let reading = std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            let mut count = 0;
            while let Ok(length @ 1..) = reader.read(&mut chunk) {
                count += length;
                std::thread::yield_now();
            }
            count
        });
        to.write_all(&[b'x'; 4 << 20])?;
        drop(to);
        assert_eq!(reading.join().ok(), Some(4 << 20));
        Ok(())
    }
}
