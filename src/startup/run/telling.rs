//! Tells the watcher, on threads of its own: a terminal may block for as long as it likes.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use gym_stamp::spans::SpanRecord;

use super::forwarding::{Sink, forward};
use crate::events::{Event, Stream, Trouble, Watcher};
use crate::view::Screen;

/// How long the last output, and then the last words, may take where nobody takes them.
const LAST_OUTPUT: Duration = Duration::from_secs(1);
const LAST_WORDS: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

/// The watcher, who is told by several in turn: none of them comes before one that waits already.
pub struct Shared {
    watcher: Mutex<Box<dyn Watcher>>,
    next: Mutex<()>,
}

impl Shared {
    fn new(watcher: Box<dyn Watcher>) -> Arc<Self> {
        Arc::new(Self { watcher: Mutex::new(watcher), next: Mutex::new(()) })
    }

    pub fn lock(&self) -> MutexGuard<'_, Box<dyn Watcher>> {
        let _next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        self.watcher.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way to the watcher.
pub struct Telling {
    to_tell: Sender<Told>,
    told: Receiver<()>,
    /// Of each stream, when it has ended: whether it was to its very end.
    output_ended: Receiver<bool>,
}

enum Told {
    Event(Event),
    Dropped { server: usize, stream: Stream, bytes: u64 },
    Startup(Vec<SpanRecord>),
    Trouble(Trouble),
    Words(String),
    Over,
}

impl Telling {
    /// Tells those at `screen` from now on, and forwards what comes through `out` and `err`.
    ///
    /// # Errors
    ///
    /// The system's, if there can be no more threads.
    pub fn start(screen: Screen, out: UnixStream, err: UnixStream) -> io::Result<Self> {
        let watcher = Shared::new(screen.watcher);
        let (to_tell, to_be_told) = channel();
        let (told, all_told) = channel();
        let (output_over, output_ended) = channel();
        let sink_out = match screen.out {
            Some(channel) => Sink::Own(channel),
            None => Sink::Shared(Arc::clone(&watcher), Stream::Out),
        };
        let sink_err = Sink::Shared(Arc::clone(&watcher), Stream::Err);
        for (stream, output, names, sink) in [
            (Stream::Out, out, screen.names_out, sink_out),
            (Stream::Err, err, screen.names_err, sink_err),
        ] {
            let (to_tell, output_over) = (to_tell.clone(), output_over.clone());
            thread::Builder::new().spawn(move || {
                let dropped = |server, bytes| {
                    to_tell.send(Told::Dropped { server, stream, bytes }).unwrap_or_default();
                };
                let say = |words| to_tell.send(Told::Words(words)).unwrap_or_default();
                // It ends when the keeper does.
                let is_whole = forward(output, &names, sink, dropped, say);
                output_over.send(is_whole).unwrap_or_default();
            })?;
        }
        thread::Builder::new().spawn(move || {
            tell(&watcher, &to_be_told);
            told.send(()).unwrap_or_default();
        })?;
        Ok(Self { to_tell, told: all_told, output_ended })
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
        let deadline = Instant::now() + LAST_OUTPUT;
        let ends = [Stream::Out, Stream::Err].map(|_| {
            let left = deadline.saturating_duration_since(Instant::now());
            self.output_ended.recv_timeout(left)
        });
        if ends != [Ok(true), Ok(true)] {
            self.say("the end of the servers' output is missing");
        }
        self.tell(Told::Over);
        self.told.recv_timeout(LAST_WORDS).unwrap_or_default();
    }

    fn tell(&self, what: Told) {
        self.to_tell.send(what).unwrap_or_default();
    }
}

fn tell(watcher: &Shared, to_be_told: &Receiver<Told>) {
    loop {
        match to_be_told.recv_timeout(TICK) {
            Ok(Told::Event(event)) => watcher.lock().event(&event),
            Ok(Told::Dropped { server, stream, bytes }) => {
                watcher.lock().dropped(server, stream, bytes);
            }
            Ok(Told::Startup(spans)) => watcher.lock().startup(&spans),
            Ok(Told::Trouble(trouble)) => watcher.lock().trouble(&trouble),
            Ok(Told::Words(words)) => watcher.lock().say(&words),
            Err(RecvTimeoutError::Timeout) => watcher.lock().tick(),
            Ok(Told::Over) | Err(RecvTimeoutError::Disconnected) => return watcher.lock().over(),
        }
    }
}
