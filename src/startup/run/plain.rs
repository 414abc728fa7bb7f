//! The plainest watcher: every event and every line as it comes.

use std::io::{self, Write};

use gym_stamp::spans::SpanRecord;

use crate::events::{Event, Stream, Trouble, Watcher};
use crate::fleet::Plan;
use crate::say::say;

pub fn watcher(plan: &Plan) -> Box<dyn Watcher> {
    Box::new(Plain {
        names: plan.servers.iter().map(|server| server.name.clone()).collect(),
        quiet: plan.quiet,
        out: Vec::new(),
        err: Vec::new(),
    })
}

struct Plain {
    names: Vec<String>,
    quiet: bool,
    out: Vec<u8>,
    err: Vec<u8>,
}

impl Watcher for Plain {
    fn event(&mut self, event: &Event) {
        if !self.quiet {
            say(format_args!("{event:?}"));
        }
    }

    fn line(&mut self, server: usize, stream: Stream, line: &[u8]) {
        let name = self.names.get(server).map_or("", String::as_str);
        let to = if stream == Stream::Out { &mut self.out } else { &mut self.err };
        to.extend(b"(");
        to.extend(name.as_bytes());
        to.extend(b") ");
        to.extend(line);
        to.push(b'\n');
        if to.len() > 256 * 1024 {
            self.flush();
        }
    }

    fn flush(&mut self) {
        io::stdout().lock().write_all(&self.out).unwrap_or_default();
        io::stdout().lock().flush().unwrap_or_default();
        io::stderr().lock().write_all(&self.err).unwrap_or_default();
        self.out.clear();
        self.err.clear();
    }

    fn dropped(&mut self, server: usize, stream: Stream, bytes: u64) {
        let name = self.names.get(server).map_or("", String::as_str);
        say(format_args!("{name}: {bytes} bytes of {stream:?} were dropped"));
    }

    fn say(&mut self, words: &str) {
        say(words);
    }

    fn tick(&mut self) {}

    fn startup(&mut self, _spans: &[SpanRecord]) {}

    fn trouble(&mut self, trouble: &Trouble) {
        say(format_args!("{trouble:?}"));
    }

    fn over(&mut self) {
        self.flush();
    }
}
