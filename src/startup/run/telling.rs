//! Tells the watcher, on threads of its own: a terminal may block for as long as it likes.

use std::collections::HashMap;
use std::io::{self, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use gym_stamp::spans::SpanRecord;

use crate::events::{Event, Stream, Trouble, Watcher};
use crate::keeper::link::{Frame, HEADER};

/// How long the last words may take where nobody takes them.
const LAST_WORDS: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);
/// What is read at once of the servers' output.
const CHUNK: usize = 256 * 1024;
/// A line that is longer is cut in two.
const LONGEST_LINE: usize = 1024 * 1024;

type Shared = Arc<Mutex<Box<dyn Watcher>>>;

/// The way to the watcher.
pub struct Telling {
    to_tell: Sender<Told>,
    told: Receiver<()>,
    output_ended: Receiver<()>,
}

enum Told {
    Event(Event),
    Startup(Vec<SpanRecord>),
    Trouble(Trouble),
    Words(String),
}

impl Telling {
    /// Tells `watcher` from now on, and of the output that comes through `output` at once.
    pub fn start(watcher: Box<dyn Watcher>, output: UnixStream) -> Self {
        let watcher: Shared = Arc::new(Mutex::new(watcher));
        let (to_tell, to_be_told) = channel();
        let (told, all_told) = channel();
        let (output_over, output_ended) = channel();
        let teller = Arc::clone(&watcher);
        thread::spawn(move || {
            tell(&teller, &to_be_told);
            told.send(()).unwrap_or_default();
        });
        thread::spawn(move || {
            // It ends when the keeper does.
            forward(&watcher, output).unwrap_or_default();
            output_over.send(()).unwrap_or_default();
        });
        Self { to_tell, told: all_told, output_ended }
    }

    pub fn event(&self, event: Event) {
        self.tell(Told::Event(event));
    }

    pub fn startup(&self, spans: Vec<SpanRecord>) {
        self.tell(Told::Startup(spans));
    }

    pub fn trouble(&self, trouble: Trouble) {
        self.tell(Told::Trouble(trouble));
    }

    /// Words of our own.
    pub fn say(&self, words: impl std::fmt::Display) {
        self.tell(Told::Words(words.to_string()));
    }

    /// Waits until everything was told, but not for long.
    pub fn finish(self) {
        let deadline = Instant::now() + LAST_WORDS;
        self.output_ended.recv_timeout(LAST_WORDS).unwrap_or_default();
        drop(self.to_tell);
        let left = deadline.saturating_duration_since(Instant::now());
        self.told.recv_timeout(left).unwrap_or_default();
    }

    fn tell(&self, what: Told) {
        self.to_tell.send(what).unwrap_or_default();
    }
}

fn lock(watcher: &Shared) -> MutexGuard<'_, Box<dyn Watcher>> {
    watcher.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tell(watcher: &Shared, to_be_told: &Receiver<Told>) {
    loop {
        match to_be_told.recv_timeout(TICK) {
            Ok(Told::Event(event)) => lock(watcher).event(&event),
            Ok(Told::Startup(spans)) => lock(watcher).startup(&spans),
            Ok(Told::Trouble(trouble)) => lock(watcher).trouble(&trouble),
            Ok(Told::Words(words)) => lock(watcher).say(&words),
            Err(RecvTimeoutError::Timeout) => lock(watcher).tick(),
            Err(RecvTimeoutError::Disconnected) => return lock(watcher).over(),
        }
    }
}

/// Makes lines of what servers write.
fn forward(watcher: &Shared, output: UnixStream) -> io::Result<()> {
    let mut output = BufReader::with_capacity(CHUNK, output);
    let mut begun = HashMap::new();
    let mut payload = Vec::new();
    loop {
        let mut header = [0; HEADER];
        output.read_exact(&mut header)?;
        let Some((frame, server, length)) = Frame::read(header) else { return Ok(()) };
        payload.resize(length, 0);
        output.read_exact(&mut payload)?;
        let mut watcher = lock(watcher);
        match frame {
            Frame::Output(stream) => {
                let begun = begun.entry((server, stream == Stream::Out)).or_default();
                split(begun, &payload, |line| watcher.line(server, stream, line));
            }
            Frame::Gap(stream) | Frame::End(stream) => {
                let begun = begun.remove(&(server, stream == Stream::Out)).unwrap_or_default();
                if !begun.is_empty() {
                    watcher.line(server, stream, &begun);
                }
                if let (Frame::Gap(_), Ok(bytes)) = (frame, payload.as_slice().try_into()) {
                    watcher.dropped(server, stream, u64::from_le_bytes(bytes));
                }
            }
        }
        if output.buffer().is_empty() {
            watcher.flush();
        }
    }
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
