//! What servers write: on its way to the front, and the last of it kept.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::rc::Rc;

use tokio::net::unix::pipe::Receiver;

use super::link::{Frame, Outlet};
use crate::events::Stream;

/// How many lines tell how a server ended.
const LAST_LINES: usize = 20;
/// What of them is kept, in bytes.
const LAST_BYTES: usize = 8 * 1024;
/// What is read at once. One such buffer serves all pipes.
const CHUNK: usize = 64 * 1024;

/// The last lines that a server wrote, stdout and stderr as they came.
#[derive(Debug, Default)]
pub struct Tail {
    lines: VecDeque<Vec<u8>>,
    out: Vec<u8>,
    err: Vec<u8>,
}

impl Tail {
    fn take(&mut self, stream: Stream, chunk: &[u8]) {
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
            if piece.ends_with(b"\n") {
                self.lines.push_back(std::mem::take(begun));
            } else if begun.len() > LAST_BYTES {
                begun.clear();
            }
        }
        while self.lines.len() > LAST_LINES {
            self.lines.pop_front();
        }
    }

    /// The lines as text, what was begun last included.
    pub fn lines(&self) -> Vec<String> {
        let begun = [&self.out, &self.err].into_iter().filter(|begun| !begun.is_empty());
        let all: Vec<&Vec<u8>> = self.lines.iter().chain(begun).collect();
        all.iter().skip(all.len().saturating_sub(LAST_LINES)).map(|line| text(line)).collect()
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).trim_end().to_owned()
}

/// The last lines of the file `path`, beyond the `from` bytes that were there before.
pub fn last_lines(path: &Path, from: u64) -> Vec<String> {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(path)?;
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

/// Where the output of all servers goes.
#[derive(Clone)]
pub struct Output {
    outlet: Rc<Outlet>,
    buffer: Rc<RefCell<Vec<u8>>>,
}

impl Output {
    pub fn new(outlet: Rc<Outlet>) -> Self {
        Self { outlet, buffer: Rc::new(RefCell::new(vec![0; CHUNK])) }
    }

    /// Forwards what comes out of `pipe` until its end. `open` counts the pipes that have not
    /// ended.
    pub async fn forward(
        self,
        server: usize,
        stream: Stream,
        pipe: Receiver,
        tail: Rc<RefCell<Tail>>,
        open: Rc<Cell<usize>>,
    ) {
        let mut lost = 0;
        loop {
            self.outlet.room().await;
            if pipe.readable().await.is_err() {
                break;
            }
            match self.forward_some(server, stream, &pipe, &tail, &mut lost) {
                Ok(0) => break,
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => break,
                _ => {}
            }
        }
        self.tell_gap(server, stream, &mut lost);
        self.outlet.put(&[&Frame::End(stream).header(server, 0)]);
        open.set(open.get().saturating_sub(1));
    }

    fn forward_some(
        &self,
        server: usize,
        stream: Stream,
        pipe: &Receiver,
        tail: &RefCell<Tail>,
        lost: &mut u64,
    ) -> io::Result<usize> {
        let mut buffer = self.buffer.borrow_mut();
        let count = pipe.try_read(&mut buffer)?;
        let chunk = buffer.get(..count).unwrap_or_default();
        if count > 0 {
            tail.borrow_mut().take(stream, chunk);
            self.tell_gap(server, stream, lost);
            let header = Frame::Output(stream).header(server, count);
            if *lost > 0 || !self.outlet.put(&[&header, chunk]) {
                *lost += count as u64;
            }
        }
        Ok(count)
    }

    fn tell_gap(&self, server: usize, stream: Stream, lost: &mut u64) {
        let bytes = lost.to_le_bytes();
        let header = Frame::Gap(stream).header(server, bytes.len());
        if *lost > 0 && self.outlet.put(&[&header, &bytes]) {
            *lost = 0;
        }
    }
}
