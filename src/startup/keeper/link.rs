//! What passes between front and keeper: three Unix sockets, which the keeper does not wait for.
//!
//! On one there are JSON lines both ways: orders and commands to the keeper, events back. On the
//! others, one a stream, what servers write, in [`Frame`]s: whoever reads nothing of the one does
//! not keep the other waiting.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::fleet::Plan;
use crate::process::Inherited;

/// All that the keeper is told before it starts anything.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    pub plan: Plan,
    pub inherited: Inherited,
    /// The traceparent of each server, where there is a trace.
    pub traceparents: Vec<Option<String>>,
    /// What else is added to the environment of every server.
    pub env: Vec<(String, String)>,
}

/// What the keeper is told after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// End the servers, with their grace time.
    End,
    /// End them at once.
    Kill,
    /// Pass this signal on to the servers' launch processes.
    Pass(i32),
    /// If the front goes, end this process of its own too.
    Mind(i32),
}

/// What one piece of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Bytes that a server wrote.
    Output,
    /// So many bytes, as a little-endian `u64`, were not kept.
    Gap,
    /// The server's stream has ended.
    End,
}

/// Kind, server, length of what follows.
pub const HEADER: usize = 1 + 4 + 4;

impl Frame {
    pub fn header(self, server: usize, length: usize) -> [u8; HEADER] {
        let kind = match self {
            Self::Output => 0,
            Self::Gap => 1,
            Self::End => 2,
        };
        let [a, b, c, d] = u32::try_from(server).unwrap_or(u32::MAX).to_le_bytes();
        let [e, f, g, h] = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
        [kind, a, b, c, d, e, f, g, h]
    }

    /// Kind, server and length, of a kind that there is.
    pub fn read(header: [u8; HEADER]) -> Option<(Self, usize, usize)> {
        let [kind, a, b, c, d, e, f, g, h] = header;
        let frame = match kind {
            0 => Self::Output,
            1 => Self::Gap,
            2 => Self::End,
            _ => return None,
        };
        let number = |bytes| usize::try_from(u32::from_le_bytes(bytes)).ok();
        Some((frame, number([a, b, c, d])?, number([e, f, g, h])?))
    }
}

/// How long who fills an [`Outlet`] may be held up by a front that takes nothing. A slow terminal
/// takes something all the time.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes on their way to the front, never more than fit.
pub struct Outlet {
    socket: Rc<UnixStream>,
    capacity: usize,
    queue: RefCell<VecDeque<u8>>,
    filled: Notify,
    taken: Notify,
    /// Since when the front has taken nothing of what is in the queue.
    waiting_since: Cell<Instant>,
    gone: Cell<bool>,
}

impl Outlet {
    pub fn new(socket: Rc<UnixStream>, capacity: usize) -> Rc<Self> {
        let outlet = Rc::new(Self {
            socket,
            capacity,
            queue: RefCell::default(),
            filled: Notify::new(),
            taken: Notify::new(),
            waiting_since: Cell::new(Instant::now()),
            gone: Cell::new(false),
        });
        tokio::task::spawn_local(Rc::clone(&outlet).deliver());
        outlet
    }

    /// Puts all of `parts` in the queue, or nothing where there is no room: then the answer is no.
    pub fn put(&self, parts: &[&[u8]]) -> bool {
        let has_room = !self.is_full() && !self.gone.get();
        if has_room {
            self.add(parts);
        }
        has_room
    }

    /// Puts `parts` in the queue whether there is room or not: what is small, and may not be lost.
    pub fn add(&self, parts: &[&[u8]]) {
        let mut queue = self.queue.borrow_mut();
        if queue.is_empty() {
            self.waiting_since.set(Instant::now());
        }
        for part in parts {
            queue.extend(*part);
        }
        self.filled.notify_one();
    }

    /// Waits until there is room, for as long as the front goes on taking.
    pub async fn room(&self) {
        while self.is_full() && !self.gone.get() {
            let end_of_patience = self.waiting_since.get() + PATIENCE;
            if Instant::now() >= end_of_patience {
                return;
            }
            // Whatever the answer: what there is to see has changed.
            drop(timeout_at(end_of_patience, self.taken.notified()).await);
        }
    }

    /// Waits until all is out, or the front is gone.
    pub async fn emptied(&self) {
        while !self.queue.borrow().is_empty() && !self.gone.get() {
            self.taken.notified().await;
        }
    }

    fn is_full(&self) -> bool {
        self.queue.borrow().len() >= self.capacity
    }

    async fn deliver(self: Rc<Self>) {
        while self.deliver_some().await.is_ok() {}
        self.gone.set(true);
        self.queue.take();
        self.taken.notify_waiters();
    }

    async fn deliver_some(&self) -> io::Result<()> {
        if self.queue.borrow().is_empty() {
            self.filled.notified().await;
            return Ok(());
        }
        self.socket.writable().await?;
        let written = self.socket.try_write(self.queue.borrow().as_slices().0);
        match written {
            Ok(count) => {
                let mut queue = self.queue.borrow_mut();
                queue.drain(..count);
                // A burst is over: its memory goes back.
                if queue.is_empty() && queue.capacity() > 64 * 1024 {
                    queue.shrink_to(64 * 1024);
                }
                self.waiting_since.set(Instant::now());
                self.taken.notify_waiters();
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The lines that come out of a socket.
pub struct Lines {
    socket: Rc<UnixStream>,
    buffer: Vec<u8>,
}

impl Lines {
    pub fn new(socket: Rc<UnixStream>) -> Self {
        Self { socket, buffer: Vec::new() }
    }

    /// The next line; `None` when the other side is gone.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
                let rest = self.buffer.split_off(end + 1);
                return Some(std::mem::replace(&mut self.buffer, rest));
            }
            self.socket.readable().await.ok()?;
            let mut chunk = [0; 8192];
            match self.socket.try_read(&mut chunk) {
                Ok(0) => return None,
                Ok(count) => self.buffer.extend(chunk.iter().take(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }
}
