//! What servers write: on its way to the front, and the last of it kept.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::rc::{Rc, Weak};

use nix::fcntl::{FcntlArg, SpliceFFlags, fcntl, tee};
use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinSet;

use super::link::{Frame, HEADER, Outlet};
use crate::events::Stream;
use crate::logs;

/// How many lines tell how a server ended.
const LAST_LINES: usize = 20;
/// How many of them stderr keeps however much stdout writes: the reason is mostly there.
const LAST_OF_STDERR: usize = 10;
/// What all of them have together, in bytes; one line may be as long.
const LAST_BYTES: usize = 8 * 1024;
/// What is read at once. One such buffer serves all pipes.
const CHUNK: usize = 64 * 1024;

/// The last lines that a server wrote, stdout and stderr as they came.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    lines: VecDeque<(Stream, Vec<u8>)>,
    out: Vec<u8>,
    err: Vec<u8>,
}

impl Tail {
    pub fn take(&mut self, stream: Stream, chunk: &[u8]) {
        let begun = match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
        };
        let skipped = chunk.len().saturating_sub(LAST_BYTES);
        if skipped > 0 {
            begun.clear();
        }
        for piece in chunk.get(skipped..).unwrap_or_default().split_inclusive(|&b| b == b'\n') {
            begun.extend(piece);
            begun.drain(..begun.len().saturating_sub(LAST_BYTES));
            if piece.ends_with(b"\n") {
                self.lines.push_back((stream, std::mem::take(begun)));
                shorten(&mut self.lines);
            }
        }
    }

    /// The lines as text, what was begun last included.
    pub fn lines(&self) -> Vec<String> {
        let begun = [(Stream::Out, &self.out), (Stream::Err, &self.err)];
        let begun = begun.into_iter().filter(|(_, begun)| !begun.is_empty());
        let whole = self.lines.iter().map(|(stream, line)| (*stream, line));
        let mut all = whole.chain(begun).collect();
        shorten(&mut all);
        all.into_iter().map(|(_, line)| text(line)).collect()
    }
}

/// Lets go of the oldest lines that are too many, or too much.
fn shorten<L: Borrow<Vec<u8>>>(lines: &mut VecDeque<(Stream, L)>) {
    let of_stdout = |(stream, _): &(Stream, L)| *stream == Stream::Out;
    let bytes = |lines: &VecDeque<(Stream, L)>| -> usize {
        lines.iter().map(|(_, line)| line.borrow().len()).sum()
    };
    while lines.len() > LAST_LINES || lines.len() > 1 && bytes(lines) > LAST_BYTES {
        let of_stderr = lines.len() - lines.iter().filter(|it| of_stdout(it)).count();
        let spared = of_stderr <= LAST_OF_STDERR;
        let oldest = if spared { lines.iter().position(of_stdout) } else { None };
        drop(lines.remove(oldest.unwrap_or_default()));
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).trim_end().to_owned()
}

/// The last lines of the file `path`, beyond the `from` bytes that were there before.
pub fn last_lines(path: &Path, from: u64) -> Vec<String> {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = logs::read(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(from.max(length.saturating_sub(LAST_BYTES as u64))))?;
        let mut end = Vec::new();
        file.take(LAST_BYTES as u64).read_to_end(&mut end)?;
        Ok(end)
    };
    let mut tail = Tail::default();
    tail.take(Stream::Out, &read().unwrap_or_default());
    tail.lines()
}

/// What is in `pipe` and was not read yet; it stays there.
///
/// # Errors
///
/// The system's, for one if nothing is in it.
pub fn unread(pipe: &Receiver) -> io::Result<Vec<u8>> {
    let (mut copy, end) = io::pipe()?;
    let size = fcntl(pipe, FcntlArg::F_GETPIPE_SZ)?;
    fcntl(&end, FcntlArg::F_SETPIPE_SZ(size))?;
    tee(pipe, &end, usize::try_from(size).unwrap_or_default(), SpliceFFlags::SPLICE_F_NONBLOCK)?;
    drop(end);
    let mut bytes = Vec::new();
    copy.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Where the output of all servers goes.
pub struct Output {
    out: Rc<Outlet>,
    err: Rc<Outlet>,
    buffer: Rc<RefCell<Vec<u8>>>,
    forwarding: JoinSet<()>,
}

impl Output {
    pub fn new(out: Rc<Outlet>, err: Rc<Outlet>) -> Self {
        let buffer = Rc::new(RefCell::new(vec![0; CHUNK]));
        Self { out, err, buffer, forwarding: JoinSet::new() }
    }

    /// Forwards what comes out of `pipe` until its end, and lets go of it then.
    pub fn forward(
        &mut self,
        server: usize,
        stream: Stream,
        pipe: Receiver,
        tail: Rc<RefCell<Tail>>,
    ) -> Weak<Receiver> {
        let outlet = Rc::clone(match stream {
            Stream::Out => &self.out,
            Stream::Err => &self.err,
        });
        let buffer = Rc::clone(&self.buffer);
        let pipe = Rc::new(pipe);
        let until_its_end = Rc::downgrade(&pipe);
        let forward = Forward { server, stream, pipe, tail, outlet, buffer, lost: 0 };
        self.forwarding.spawn_local(forward.run());
        until_its_end
    }

    /// Waits until every pipe has ended, and all that was in them is out.
    pub async fn emptied(mut self) {
        while self.forwarding.join_next().await.is_some() {}
        self.out.emptied().await;
        self.err.emptied().await;
    }
}

/// One stream of one server.
struct Forward {
    server: usize,
    stream: Stream,
    pipe: Rc<Receiver>,
    tail: Rc<RefCell<Tail>>,
    outlet: Rc<Outlet>,
    buffer: Rc<RefCell<Vec<u8>>>,
    /// What the front has not been told of yet, in bytes.
    lost: u64,
}

impl Forward {
    async fn run(mut self) {
        while self.pipe.readable().await.is_ok() {
            // Not before there is something: the room that there was may be taken by then.
            self.outlet.room().await;
            match self.some() {
                Ok(0) => break,
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => break,
                _ => {}
            }
        }
        if self.lost > 0 {
            let (header, bytes) = self.gap();
            self.outlet.add(&[&header, &bytes]);
        }
        self.outlet.add(&[&Frame::End.header(self.server, 0)]);
    }

    fn some(&mut self) -> io::Result<usize> {
        let mut buffer = self.buffer.borrow_mut();
        let count = self.pipe.try_read(&mut buffer)?;
        let chunk = buffer.get(..count).unwrap_or_default();
        if count > 0 {
            self.tail.borrow_mut().take(self.stream, chunk);
            let (gap, bytes) = self.gap();
            if self.lost > 0 && self.outlet.put(&[&gap, &bytes]) {
                self.lost = 0;
            }
            let header = Frame::Output.header(self.server, count);
            if self.lost > 0 || !self.outlet.put(&[&header, chunk]) {
                self.lost += count as u64;
            }
        }
        Ok(count)
    }

    fn gap(&self) -> ([u8; HEADER], [u8; 8]) {
        let bytes = self.lost.to_le_bytes();
        (Frame::Gap.header(self.server, bytes.len()), bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn last_of(lines: impl IntoIterator<Item = (Stream, String)>) -> String {
        let mut tail = Tail::default();
        for (stream, line) in lines {
            tail.take(stream, line.as_bytes());
        }
        tail.lines().join(" ")
    }

    #[test]
    fn much_on_stdout_leaves_ten_lines_of_stderr() {
        let errors = (1..=12).map(|number| (Stream::Err, format!("e{number}\n")));
        let flood = (1..=99).map(|number| (Stream::Out, format!("{number}\n")));
        let begun = [(Stream::Err, "begun".to_owned())];
        assert_eq!(
            last_of(errors.chain(flood).chain(begun)),
            "e4 e5 e6 e7 e8 e9 e10 e11 e12 90 91 92 93 94 95 96 97 98 99 begun"
        );
    }

    #[test]
    fn much_on_stderr_leaves_nothing_older() {
        let words = [(Stream::Out, "old\n".to_owned())];
        let errors = (1..=21).map(|number| (Stream::Err, format!("e{number}\n")));
        let last: Vec<_> = (2..=21).map(|number| format!("e{number}")).collect();
        assert_eq!(last_of(words.into_iter().chain(errors)), last.join(" "));
    }

    #[tokio::test]
    async fn what_is_not_read_yet_is_seen_and_stays() -> io::Result<()> {
        let (pipe, mut end) = io::pipe()?;
        let pipe = Receiver::from_owned_fd(pipe.into())?;
        assert!(unread(&pipe).is_err());
        fcntl(&end, FcntlArg::F_SETPIPE_SZ(1 << 18))?;
        let flood = [vec![b'x'; 200_000], b"\nTHE REASON\n".to_vec()].concat();
        end.write_all(&flood)?;
        for _ in 0..2 {
            assert_eq!(unread(&pipe)?, flood);
        }
        Ok(())
    }

    #[test]
    fn long_lines_leave_fewer_of_them() {
        let line = |number| (Stream::Err, format!("{number}{}\n", "x".repeat(LAST_BYTES / 4)));
        let last = last_of((1..=9).map(line).chain([(Stream::Err, "end".to_owned())]));
        let begins: Vec<_> = last.split(' ').filter_map(|line| line.get(..1)).collect();
        assert_eq!(begins, ["7", "8", "9", "e"]);
        let longest = "x".repeat(3 * LAST_BYTES);
        let pieces = [longest.get(1..).unwrap_or_default(), "y\n"].map(str::to_owned);
        assert_eq!(last_of(pieces.map(|it| (Stream::Out, it))).len(), LAST_BYTES - 1);
    }
}
