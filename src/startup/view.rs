//! What people see of a run: a live view on a terminal, a line an event elsewhere, the servers'
//! output, and at the end of the startup where its time went.

mod frame;
mod known;
mod names;
#[cfg(test)]
mod tests;

use std::io;

use gym_stamp::spans::SpanRecord;
use gym_stamp::timeline::{Clock, SystemClock};

use crate::events::{Event, Stream, Trouble, Watcher};
use crate::fleet::{Plan, Server, WhenReady};
use crate::terminal::{self, Channel};
use crate::verdict;
use crate::waterfall::{self, Entry, Look};
use crate::words::harmless;
use frame::frame;
use known::Known;
pub use names::Names;

/// Where no terminal says how wide it is.
const USUAL_WIDTH: usize = 80;
const USUAL_HEIGHT: usize = 24;
/// Nobody reads longer lines of prose.
const LONGEST_PROSE: usize = 100;
/// A terminal that is smaller gets no live view.
const NARROWEST: usize = 20;
const LOWEST: usize = 4;
/// More servers than this are folded in the waterfall.
const MOST_CHILDREN: usize = 12;

/// The live view is not drawn more often, however much servers write.
const SHORTEST_PAUSE_NS: u64 = 33_000_000;
/// A view that was not drawn for as long is not where it was: the process was stopped, and a shell
/// has written since.
const LONGEST_PAUSE_NS: u64 = 1_000_000_000;
/// What is kept of the servers' output until it is written, in bytes.
const PENDING: usize = 64 * 1024;

/// Where people see a run.
pub struct Screen {
    pub watcher: Box<dyn Watcher>,
    /// Standard output, where it is another place than the watcher's: neither waits for the other.
    pub out: Option<Channel>,
    pub names_out: Names,
    pub names_err: Names,
}

/// Where people see the run of `plan`.
pub fn screen(plan: &Plan) -> Screen {
    let env = |name: &str| std::env::var_os(name);
    let (out, err) = (Channel::stdout(), Channel::stderr());
    // No colours, no movement: who asks for the one, or whose terminal lacks it, has a reason.
    let wanted = plan.progress && !plan.quiet && err.is_terminal && err.colour;
    // Such as under timeout(1): then it will not come to the foreground either.
    let live = wanted && !terminal::is_in_background();
    let surroundings = Surroundings {
        size: || {
            let width = terminal::width(io::stderr(), USUAL_WIDTH);
            (width, terminal::height(io::stderr()).unwrap_or(USUAL_HEIGHT))
        },
        is_in_background: terminal::is_in_background,
        clock: || SystemClock.now_ns(),
        unicode: terminal::is_unicode(&env),
    };
    let (colour_out, colour_err) = (out.colour, err.colour);
    let (shared, apart) =
        if terminal::is_one_place() { (Some(out), None) } else { (None, Some(out)) };
    let view = View::new(plan, shared, err, live, surroundings);
    let names = &view.known.names;
    Screen {
        names_out: Names::new(names, colour_out),
        names_err: Names::new(names, colour_err),
        watcher: Box::new(view),
        out: apart,
    }
}

/// What there is besides the two streams.
struct Surroundings {
    /// Columns and rows.
    size: fn() -> (usize, usize),
    is_in_background: fn() -> bool,
    /// Nanoseconds since the epoch.
    clock: fn() -> u64,
    unicode: bool,
}

struct View {
    servers: Vec<Server>,
    known: Known,
    one_server: bool,
    quiet: bool,
    stays: bool,
    log_dir: Option<String>,
    /// Whether a view is drawn: not any more when the startup is over.
    live: bool,
    /// Standard output, if it is the same place as standard error.
    out: Option<Channel>,
    err: Channel,
    surroundings: Surroundings,
    /// Lines of servers that are yet to be written, and where.
    pending: Vec<u8>,
    pending_for: Stream,
    /// The widths of the lines of the view that is on the screen.
    shown: Vec<usize>,
    drawn_ns: u64,
}

impl View {
    fn new(
        plan: &Plan,
        out: Option<Channel>,
        err: Channel,
        live: bool,
        surroundings: Surroundings,
    ) -> Self {
        let known = Known::new(&plan.servers, (surroundings.clock)(), surroundings.unicode);
        Self {
            known,
            servers: plan.servers.clone(),
            one_server: plan.one_server,
            quiet: plan.quiet,
            stays: plan.when_ready == WhenReady::Stay,
            log_dir: plan.log_dir.as_deref().map(|dir| dir.display().to_string()),
            live,
            out,
            err,
            surroundings,
            pending: Vec::new(),
            pending_for: Stream::Err,
            shown: Vec::new(),
            drawn_ns: 0,
        }
    }

    fn size(&self) -> (usize, usize) {
        (self.surroundings.size)()
    }
}

/// The live view.
impl View {
    /// Writes what is pending, and the view below it.
    fn draw(&mut self) {
        self.forget_if_lost();
        self.write_pending();
        if !self.live || (self.surroundings.is_in_background)() {
            self.shown.clear();
            return;
        }
        let (width, height) = self.size();
        self.drawn_ns = (self.surroundings.clock)();
        if width < NARROWEST || height < LOWEST {
            return self.erase();
        }
        let lines = frame(&self.known, (self.surroundings.clock)(), width, height);
        let mut text = self.back_to_top();
        self.shown.clear();
        for line in lines {
            // A line that ends in the last column may wrap, or not.
            let (line, line_width) =
                line.render(width.saturating_sub(1), self.err.colour, self.surroundings.unicode);
            text.push_str(&line);
            text.push_str("\x1b[K\n");
            self.shown.push(line_width);
        }
        text.push_str("\x1b[J");
        self.err.write(text.as_bytes());
    }

    fn draw_if_due(&mut self) {
        if self.since_drawn_ns() >= SHORTEST_PAUSE_NS {
            self.draw();
        }
    }

    /// A clock that was set meanwhile draws once too often.
    fn since_drawn_ns(&self) -> u64 {
        (self.surroundings.clock)().abs_diff(self.drawn_ns)
    }

    /// What brings the cursor to where the view begins.
    fn back_to_top(&self) -> String {
        if self.shown.is_empty() {
            return String::new();
        }
        // A terminal that has become narrower has wrapped them.
        let width = self.size().0.max(1);
        let rows = self.shown.iter().map(|it| it.div_ceil(width).max(1)).sum::<usize>();
        format!("\r\x1b[{rows}A")
    }

    fn forget_if_lost(&mut self) {
        if self.since_drawn_ns() > LONGEST_PAUSE_NS {
            self.shown.clear();
        }
    }

    fn erase(&mut self) {
        self.forget_if_lost();
        if !self.shown.is_empty() {
            let text = format!("{}\x1b[J", self.back_to_top());
            self.err.write(text.as_bytes());
            self.shown.clear();
        }
    }

    /// Writes the servers' lines that wait for it. The view is gone then, if it was in the way.
    fn write_pending(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let pending = std::mem::take(&mut self.pending);
        self.erase();
        match (self.pending_for, &mut self.out) {
            (Stream::Out, Some(out)) => out.write(&pending),
            _ => self.err.write(&pending),
        }
        self.pending = pending;
        self.pending.clear();
    }

    /// Words of our own, in the order in which they came among the servers' lines.
    fn write(&mut self, text: &str) {
        self.write_pending();
        self.erase();
        for loss in self.out.iter_mut().filter_map(Channel::loss).chain(self.err.loss()) {
            self.err.write(format!("gym-startup: {loss}\n").as_bytes());
        }
        self.err.write(text.as_bytes());
    }
}

impl Watcher for View {
    fn event(&mut self, event: &Event) {
        self.known.learn(event);
        if self.live {
            return self.draw_if_due();
        }
        if !self.quiet
            && let Some(words) = self.known.words(event)
        {
            self.write(&format!("gym-startup: {words}\n"));
        }
    }

    fn lines(&mut self, stream: Stream, lines: &[u8]) {
        if self.pending_for != stream || self.pending.len() >= PENDING {
            self.write_pending();
            self.pending_for = stream;
        }
        self.pending.extend(lines);
        match self.live {
            true => self.draw_if_due(),
            false => self.write_pending(),
        }
    }

    fn dropped(&mut self, server: usize, stream: Stream, bytes: u64) {
        let stream = match stream {
            Stream::Out => "stdout",
            Stream::Err => "stderr",
        };
        let name = self.known.name(server);
        self.write(&format!(
            "gym-startup: {name}: {bytes} bytes of its {stream} are lost: they were not taken in time\n"
        ));
    }

    fn say(&mut self, words: &str) {
        let words = harmless(words, self.surroundings.unicode).into_owned();
        self.write(&format!("gym-startup: {words}\n"));
    }

    fn tick(&mut self) {
        self.draw();
    }

    fn startup(&mut self, spans: &[SpanRecord]) {
        self.write("");
        self.live = false;
        let was_launched = self.known.states.iter().any(|state| state.spawned_ns.is_some());
        if self.quiet || !was_launched {
            return;
        }
        let look = Look {
            width: self.size().0,
            unicode: self.surroundings.unicode,
            colour: self.err.colour,
            most_children: MOST_CHILDREN,
        };
        let entries: Vec<_> = spans.iter().map(Entry::from).collect();
        let mut text = format!("\n{}\n", waterfall::draw(&entries, &look));
        let ready: Option<Vec<_>> = self.known.states.iter().map(|state| state.ready_ns).collect();
        if let Some(ready_ns) = ready.and_then(|all| all.into_iter().max()) {
            let stays = self.stays && self.err.is_terminal;
            text.push_str(&self.known.headline(ready_ns, stays));
        }
        self.write(&text);
    }

    fn trouble(&mut self, trouble: &Trouble) {
        let is_meant = matches!(trouble, Trouble::Interrupted { ready: true, .. });
        if is_meant && self.quiet {
            return;
        }
        let width = self.size().0.min(LONGEST_PROSE);
        let log_dir = self.log_dir.as_deref();
        let unicode = self.surroundings.unicode;
        let colour = self.err.colour && !is_meant;
        let (servers, one_server) = (&self.servers, self.one_server);
        let text =
            verdict::paragraph(trouble, servers, one_server, log_dir, width, unicode, colour);
        self.write(&text);
    }

    fn over(&mut self) {
        self.write("");
    }
}
