//! What servers write on one of the two streams, in lines, to where it goes.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::telling::Shared;
use crate::events::Stream;
use crate::keeper::link::{Frame, HEADER};
use crate::terminal::Channel;
use crate::view::Names;

/// What is read at once: while it is written, nothing is taken from the keeper.
const CHUNK: usize = 64 * 1024;
/// A line that is longer is cut in two. As much is kept for each stream of each server: enough for
/// a traceback or a document in one line, and of a large fleet not too much for its machine.
const LONGEST_LINE: usize = 256 * 1024;

/// Where the lines of one stream go.
pub enum Sink {
    /// To where nobody else writes.
    Own(Channel),
    Shared(Arc<Shared>, Stream),
}

impl Sink {
    /// Writes `lines`, and has `say` say what is lost of them for the first time.
    fn take(&mut self, lines: &mut Vec<u8>, say: impl Fn(String)) {
        match self {
            _ if lines.is_empty() => {}
            Self::Own(channel) => {
                channel.write(lines);
                channel.loss().into_iter().for_each(say);
            }
            Self::Shared(watcher, stream) => watcher.lock().lines(*stream, lines),
        }
        lines.clear();
    }
}

/// Forwards what comes out of `output`, tells `dropped` how many bytes of which server did not, and
/// has `say` say what else is to be known.
/// Returns, at its end, whether that is the end of what the servers wrote.
pub fn forward(
    output: UnixStream,
    names: &Names,
    mut sink: Sink,
    dropped: impl Fn(usize, u64),
    say: impl Fn(String),
) -> bool {
    let mut lines = Vec::new();
    let mut begun = HashMap::new();
    let mut output = BufReader::with_capacity(CHUNK, output);
    let end = loop {
        match forward_frame(&mut output, names, &mut lines, &mut begun, &dropped) {
            Ok(true) => {}
            end => break end,
        }
        if output.buffer().is_empty() || lines.len() >= CHUNK {
            sink.take(&mut lines, &say);
        }
    };
    let is_whole = end.is_ok() && begun.is_empty();
    for (server, line) in begun.into_iter().filter(|(_, line)| !line.is_empty()) {
        names.add(server, &line, &mut lines);
    }
    sink.take(&mut lines, &say);
    is_whole
}

/// Adds the lines that one more frame completes to `lines`, and leaves in `begun`, for each server
/// whose stream has not ended, what has no newline yet. There is no frame any more: then the answer
/// is no.
fn forward_frame(
    output: &mut impl BufRead,
    names: &Names,
    lines: &mut Vec<u8>,
    begun: &mut HashMap<usize, Vec<u8>>,
    dropped: impl Fn(usize, u64),
) -> io::Result<bool> {
    if output.fill_buf()?.is_empty() {
        return Ok(false);
    }
    let mut header = [0; HEADER];
    output.read_exact(&mut header)?;
    let (frame, server, length) = Frame::read(header).ok_or(io::ErrorKind::InvalidData)?;
    let mut payload = vec![0; length];
    output.read_exact(&mut payload)?;
    let line = begun.entry(server).or_default();
    if frame == Frame::Output {
        split(line, &payload, |line| names.add(server, line, lines));
        return Ok(true);
    }
    if !line.is_empty() {
        names.add(server, line, lines);
        line.clear();
    }
    match (frame, payload.as_slice().try_into()) {
        (Frame::Gap, Ok(bytes)) => dropped(server, u64::from_le_bytes(bytes)),
        _ => drop(begun.remove(&server)),
    }
    Ok(true)
}

/// Hands on the lines in `begun` and `more`, and leaves in `begun` what has no newline yet.
fn split(begun: &mut Vec<u8>, more: &[u8], mut line: impl FnMut(&[u8])) {
    for piece in more.split_inclusive(|&byte| byte == b'\n') {
        match piece.strip_suffix(b"\n") {
            Some(whole) if begun.is_empty() => line(whole),
            Some(rest) => {
                begun.extend(rest);
                line(begun);
                begun.clear();
            }
            None => begun.extend(piece),
        }
        if begun.len() >= LONGEST_LINE {
            line(begun);
            begun.clear();
        }
    }
}
