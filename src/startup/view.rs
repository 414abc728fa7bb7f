//! What people see of a run: a live view on a terminal, a line an event elsewhere, the servers'
//! output, and at the end of the startup where its time went.

use anstyle::{AnsiColor, Style};
use gym_stamp::spans::SpanRecord;
use gym_stamp::timeline::{Clock, SystemClock};
use unicode_width::UnicodeWidthStr;

use crate::events::{Event, Stream, Trouble, Watcher};
use crate::fleet::{Plan, Server, WhenReady};
use crate::terminal::{self, Channel};
use crate::verdict;
use crate::waterfall::{self, Entry, Look};
use crate::words::{duration, fit, harmless, padded, right, running};

/// Where no terminal says how wide it is.
const USUAL_WIDTH: usize = 80;
const USUAL_HEIGHT: usize = 24;
/// Nobody reads longer lines of prose.
const LONGEST_PROSE: usize = 100;
/// A terminal that is smaller gets no live view.
const NARROWEST: usize = 20;
const LOWEST: usize = 4;
/// More rows than this are no view, but a list.
const MOST_ROWS: usize = 24;
/// More servers than this are folded in the waterfall.
const MOST_CHILDREN: usize = 12;

/// The live view is not drawn more often, however much servers write.
const SHORTEST_PAUSE_NS: u64 = 33_000_000;
/// A view that was not drawn for as long is not where it was: the process was stopped, and a shell
/// has written since.
const LONGEST_PAUSE_NS: u64 = 1_000_000_000;
/// What is kept of the servers' output until it is written, in bytes.
const PENDING: usize = 64 * 1024;

/// The one that tells people of the run of `plan`.
pub fn watcher(plan: &Plan) -> Box<dyn Watcher> {
    let env = |name: &str| std::env::var_os(name);
    let err = Channel::stderr();
    // No colours, no movement: who asks for the one, or whose terminal lacks it, has a reason.
    let wanted = plan.progress && !plan.quiet && err.is_terminal && err.colour;
    // Such as under timeout(1): then it will not come to the foreground either.
    let live = wanted && !terminal::is_in_background();
    let surroundings = Surroundings {
        size: terminal::size,
        is_in_background: terminal::is_in_background,
        clock: || SystemClock.now_ns(),
        columns: env("COLUMNS").and_then(|columns| columns.to_str()?.parse().ok()),
        unicode: terminal::is_unicode(&env),
    };
    Box::new(View::new(plan, Channel::stdout(), err, live, surroundings))
}

/// What there is besides the two streams.
struct Surroundings {
    size: fn() -> Option<(usize, usize)>,
    is_in_background: fn() -> bool,
    /// Nanoseconds since the epoch.
    clock: fn() -> u64,
    columns: Option<usize>,
    unicode: bool,
}

struct View {
    servers: Vec<Server>,
    prefixes: Vec<Prefix>,
    states: Vec<State>,
    began_ns: u64,
    quiet: bool,
    stays: bool,
    log_dir: Option<String>,
    /// Whether a view is drawn: not any more when the startup is over.
    live: bool,
    out: Channel,
    err: Channel,
    surroundings: Surroundings,
    /// Lines of servers that are yet to be written, and where.
    pending: Vec<u8>,
    pending_for: Stream,
    /// The widths of the lines of the view that is on the screen.
    shown: Vec<usize>,
    drawn_ns: u64,
}

/// What is before each line of a server, made once.
struct Prefix {
    plain: Vec<u8>,
    coloured: Vec<u8>,
}

/// What is known of one server.
#[derive(Clone, Debug, Default)]
struct State {
    spawned_ns: Option<u64>,
    setup_done_ns: Option<u64>,
    /// What runs inside `venv_setup`, and since when.
    steps: Vec<(String, u64)>,
    /// Whether anything ever did: until a stamp says otherwise, it is still that.
    had_steps: bool,
    answer: Option<String>,
    ready_ns: Option<u64>,
    /// How it failed, and when.
    failed: Option<(String, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    /// Spawned, and nothing else seen yet.
    Launched,
    VenvSetup,
    ServerStart,
    Ready,
    Failed,
}

impl Stage {
    const ALL: [Self; 6] = [
        Self::Failed,
        Self::Waiting,
        Self::Launched,
        Self::VenvSetup,
        Self::ServerStart,
        Self::Ready,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Launched => "launched",
            Self::VenvSetup => "venv_setup",
            Self::ServerStart => "server_start",
            Self::Ready => "ready",
            Self::Failed => "failed",
        }
    }
}

impl State {
    fn stage(&self) -> Stage {
        if self.failed.is_some() {
            return Stage::Failed;
        }
        match (self.ready_ns, self.setup_done_ns, self.spawned_ns) {
            (Some(_), ..) => Stage::Ready,
            (_, Some(_), _) => Stage::ServerStart,
            (.., Some(_)) if self.had_steps => Stage::VenvSetup,
            (.., Some(_)) => Stage::Launched,
            _ => Stage::Waiting,
        }
    }
}

fn since(later_ns: u64, earlier_ns: u64) -> i128 {
    i128::from(later_ns).saturating_sub(i128::from(earlier_ns))
}

const PLAIN: Style = Style::new();
const FAINT: Style = Style::new().dimmed();
const STRONG: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const BUSY: Style = AnsiColor::Cyan.on_default();
/// Colours of names; red is for what went wrong.
const NAMES: [Style; 10] = [
    AnsiColor::Cyan.on_default(),
    AnsiColor::Magenta.on_default(),
    AnsiColor::Yellow.on_default(),
    AnsiColor::Green.on_default(),
    AnsiColor::Blue.on_default(),
    AnsiColor::BrightCyan.on_default(),
    AnsiColor::BrightMagenta.on_default(),
    AnsiColor::BrightYellow.on_default(),
    AnsiColor::BrightGreen.on_default(),
    AnsiColor::BrightBlue.on_default(),
];

fn name_style(server: usize) -> Style {
    server.checked_rem(NAMES.len()).and_then(|it| NAMES.get(it)).copied().unwrap_or(PLAIN)
}

/// The columns of the view: the longest stage, and a time.
const STAGE_WIDTH: usize = 12;
const TIME_WIDTH: usize = 7;

/// A line of the view, in parts that each have a style.
#[derive(Default)]
struct Line(Vec<(Style, String)>);

impl Line {
    fn with(mut self, style: Style, text: impl Into<String>) -> Self {
        self.0.push((style, text.into()));
        self
    }

    /// The line in at most `width` columns, and how many it takes.
    fn render(&self, width: usize, colour: bool, unicode: bool) -> (String, usize) {
        let mut text = String::new();
        let mut used = 0_usize;
        for (style, part) in &self.0 {
            let part = fit(part, width.saturating_sub(used), unicode);
            used = used.saturating_add(part.width());
            match colour && *style != PLAIN && !part.is_empty() {
                true => text.push_str(&format!("{style}{part}{style:#}")),
                false => text.push_str(&part),
            }
        }
        (text, used)
    }
}

impl View {
    fn new(
        plan: &Plan,
        out: Channel,
        err: Channel,
        live: bool,
        surroundings: Surroundings,
    ) -> Self {
        let prefix = |(number, server): (usize, &Server)| {
            let name = harmless(&server.name, surroundings.unicode);
            let style = name_style(number);
            Prefix {
                plain: format!("({name}) ").into_bytes(),
                coloured: format!("{style}({name}){style:#} ").into_bytes(),
            }
        };
        Self {
            prefixes: plan.servers.iter().enumerate().map(prefix).collect(),
            states: vec![State::default(); plan.servers.len()],
            servers: plan.servers.clone(),
            began_ns: (surroundings.clock)(),
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

    fn name(&self, server: usize) -> String {
        let name = self.servers.get(server).map_or("", |server| &server.name);
        harmless(name, self.surroundings.unicode).into_owned()
    }

    fn duration(&self, later_ns: u64, earlier_ns: u64) -> String {
        duration(since(later_ns, earlier_ns), self.surroundings.unicode)
    }

    fn size(&self) -> (usize, usize) {
        let known = (self.surroundings.size)();
        let width = self.surroundings.columns.unwrap_or(USUAL_WIDTH);
        known.unwrap_or((width, USUAL_HEIGHT))
    }
}

/// What is known.
impl View {
    fn learn(&mut self, event: &Event) {
        let (server, learnt): (usize, &dyn Fn(&mut State)) = match event {
            Event::Spawned { server, at_ns, .. } => {
                (*server, &|state| state.spawned_ns = Some(*at_ns))
            }
            Event::NotSpawned { server, at_ns, error, .. } => {
                (*server, &|state| state.failed = Some((error.clone(), *at_ns)))
            }
            Event::StepBegan { server, name, start_ns } => (*server, &|state| {
                state.steps.push((name.clone(), *start_ns));
                state.had_steps = true;
            }),
            Event::StepEnded { server, name, start_ns, .. } => (*server, &|state| {
                state.steps.retain(|step| step.0 != *name || step.1 != *start_ns);
            }),
            Event::SetupDone { server, setup_done_ns } => {
                (*server, &|state| state.setup_done_ns = Some(*setup_done_ns))
            }
            Event::NotYet { server, answer, .. } => {
                (*server, &|state| state.answer = Some(answer.clone()))
            }
            Event::Ready { server, at_ns } => (*server, &|state| state.ready_ns = Some(*at_ns)),
            Event::TimedOut { server, at_ns, .. } => {
                (*server, &|state| state.failed = Some(("not ready in time".to_owned(), *at_ns)))
            }
            Event::Exited { server, at_ns, exit, .. } => {
                (*server, &|state| state.failed = Some((exit.to_string(), *at_ns)))
            }
            _ => return,
        };
        if let Some(state) = self.states.get_mut(server) {
            learnt(state);
        }
    }

    /// An event in words, where there is something to tell.
    fn words(&self, event: &Event) -> Option<String> {
        let spawned_ns = |server: usize| {
            let spawned_ns = self.states.get(server).and_then(|state| state.spawned_ns);
            spawned_ns.unwrap_or(self.began_ns)
        };
        let after = |server: usize, at_ns| self.duration(at_ns, spawned_ns(server));
        let (server, words) = match event {
            Event::Spawned { server, pid, .. } => (*server, format!("launched as process {pid}")),
            Event::StepBegan { server, name, .. } => (*server, format!("{name} is running")),
            Event::StepEnded { server, name, start_ns, end_ns } => {
                (*server, format!("{name} took {}", self.duration(*end_ns, *start_ns)))
            }
            Event::SetupDone { server, setup_done_ns } => {
                (*server, format!("venv_setup took {}", after(*server, *setup_done_ns)))
            }
            Event::NoStamp { server, why } => (*server, why.to_string()),
            Event::NotYet { server, answer, .. } => (*server, format!("{answer}: not ready yet")),
            Event::Ready { server, at_ns } => {
                (*server, format!("ready after {}", after(*server, *at_ns)))
            }
            Event::TimedOut { server, at_ns, .. } => {
                (*server, format!("not ready after {}", after(*server, *at_ns)))
            }
            Event::Exited { server, at_ns, exit, .. } => {
                (*server, format!("{exit} after {}", after(*server, *at_ns)))
            }
            Event::Ending { signal, processes, .. } => {
                return Some(format!(
                    "ending: {signal} to {}",
                    counted(*processes, "process", "processes")
                ));
            }
            Event::Ended { left: left @ 1.., .. } => {
                let left = counted(*left, "process", "processes");
                return Some(format!("{left} could not be ended, not even by SIGKILL"));
            }
            Event::Missed { events } => {
                return Some(format!("{} not told", counted(*events, "event", "events")));
            }
            Event::AllSpawned { .. }
            | Event::Ended { .. }
            | Event::PortTaken { .. }
            | Event::NotSpawned { .. } => return None,
        };
        let words = harmless(&words, self.surroundings.unicode).into_owned();
        Some(format!("{}: {words}", self.name(server)))
    }

    fn headline(&self, ready_ns: u64) -> String {
        let took = self.duration(ready_ns, self.began_ns);
        let (who, them) = match self.servers.as_slice() {
            [_] => (format!("{} is", self.name(0)), "it"),
            [_, _] => ("both servers are".to_owned(), "them"),
            more => (format!("all {} servers are", more.len()), "them"),
        };
        let end = match self.stays && self.err.is_terminal {
            true => format!("; Ctrl-C ends {them}"),
            false => String::new(),
        };
        format!("gym-startup: {who} ready after {took}{end}\n")
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The live view.
impl View {
    fn frame(&self, now_ns: u64, width: usize, height: usize) -> Vec<Line> {
        let stages: Vec<_> = self.states.iter().map(State::stage).collect();
        let count = |stage| stages.iter().filter(|it| **it == stage).count();
        // The last row is the cursor's.
        let rows = height.saturating_sub(2).min(MOST_ROWS);
        let mut drawn: Vec<usize> = (0..stages.len()).collect();
        if drawn.len() > rows {
            drawn.sort_by_key(|server| match stages.get(*server) {
                Some(Stage::Failed) => 0,
                Some(Stage::Ready) => 2,
                _ => 1,
            });
            drawn.truncate(rows.saturating_sub(1));
            drawn.sort_unstable();
        }
        let name_width = drawn.iter().map(|server| self.name(*server).width()).max();
        let name_width = name_width.unwrap_or(0).min(width / 3);
        let mut lines: Vec<_> =
            drawn.iter().filter_map(|server| self.row(*server, now_ns, name_width)).collect();
        let others = stages.len().saturating_sub(drawn.len());
        if others > 0 {
            let counts = Stage::ALL.iter().filter_map(|stage| match count(*stage) {
                0 => None,
                number => Some(format!("{number} {}", stage.as_str())),
            });
            let counts: Vec<_> = counts.collect();
            let words = format!("  {others} more; of all {}: {}", stages.len(), counts.join(", "));
            lines.push(Line::default().with(FAINT, words));
        }
        let total = format!("{} of {} ready", count(Stage::Ready), stages.len());
        let time = running(since(now_ns, self.began_ns));
        lines.push(Line::default().with(STRONG, total).with(FAINT, format!(", {time}")));
        lines
    }

    fn row(&self, server: usize, now_ns: u64, name_width: usize) -> Option<Line> {
        let state = self.states.get(server)?;
        let stage = state.stage();
        let unicode = self.surroundings.unicode;
        let (mark, style) = match stage {
            Stage::Waiting => (if unicode { "·" } else { "." }, FAINT),
            Stage::Ready => (if unicode { "✓" } else { "+" }, GOOD),
            Stage::Failed => (if unicode { "✗" } else { "!" }, BAD),
            _ => (spinner(now_ns, unicode), BUSY),
        };
        let spawned_ns = state.spawned_ns.unwrap_or(self.began_ns);
        let time = match (stage, state) {
            (Stage::Waiting, _) => String::new(),
            (_, State { failed: Some((_, at_ns)), .. })
            | (Stage::Ready, State { ready_ns: Some(at_ns), .. }) => {
                self.duration(*at_ns, spawned_ns)
            }
            (Stage::ServerStart, State { setup_done_ns: Some(at_ns), .. }) => {
                running(since(now_ns, *at_ns))
            }
            _ => running(since(now_ns, spawned_ns)),
        };
        let note = match (stage, state) {
            (_, State { failed: Some((how, _)), .. }) => how.clone(),
            (Stage::VenvSetup, State { steps, .. }) => match steps.first() {
                Some((step, start_ns)) => format!("{step} {}", running(since(now_ns, *start_ns))),
                None => String::new(),
            },
            (
                Stage::Ready,
                State { ready_ns: Some(ready_ns), setup_done_ns: Some(done_ns), .. },
            ) => {
                format!(
                    "venv_setup {}, server_start {}",
                    self.duration(*done_ns, spawned_ns),
                    self.duration(*ready_ns, *done_ns),
                )
            }
            (Stage::Launched | Stage::ServerStart, State { answer: Some(answer), .. }) => {
                answer.clone()
            }
            _ => String::new(),
        };
        let name = self.name(server);
        let name = padded(&fit(&name, name_width, unicode), name_width);
        let mut line =
            Line::default().with(style, mark).with(name_style(server), format!(" {name}"));
        let style = if stage == Stage::Failed { BAD } else { PLAIN };
        line = line.with(style, format!("  {}", stage.as_str()));
        if !time.is_empty() {
            let room = STAGE_WIDTH.saturating_sub(stage.as_str().len()).saturating_add(TIME_WIDTH);
            line = line.with(PLAIN, format!("  {}", right(&time, room)));
        }
        let note = harmless(&note, unicode);
        Some(if note.is_empty() { line } else { line.with(FAINT, format!("  {note}")) })
    }

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
        let frame = self.frame((self.surroundings.clock)(), width, height);
        let mut text = self.back_to_top();
        self.shown.clear();
        for line in frame {
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
        match self.pending_for {
            Stream::Out => {
                if self.out.is_terminal {
                    self.erase();
                }
                self.out.write(&pending);
            }
            Stream::Err => {
                self.erase();
                self.err.write(&pending);
            }
        }
        self.pending = pending;
        self.pending.clear();
    }

    /// Words of our own, in the order in which they came among the servers' lines.
    fn write(&mut self, text: &str) {
        self.write_pending();
        self.erase();
        self.err.write(text.as_bytes());
    }
}

impl Watcher for View {
    fn event(&mut self, event: &Event) {
        self.learn(event);
        if self.live {
            return self.draw_if_due();
        }
        if !self.quiet
            && let Some(words) = self.words(event)
        {
            self.write(&format!("gym-startup: {words}\n"));
        }
    }

    fn line(&mut self, server: usize, stream: Stream, line: &[u8]) {
        if self.pending_for != stream || self.pending.len() >= PENDING {
            self.write_pending();
            self.pending_for = stream;
        }
        let colour = match stream {
            Stream::Out => self.out.colour,
            Stream::Err => self.err.colour,
        };
        if let Some(prefix) = self.prefixes.get(server) {
            self.pending.extend(if colour { &prefix.coloured } else { &prefix.plain });
        }
        self.pending.extend(line);
        if colour && line.contains(&0x1b) {
            // The next line is somebody else's.
            self.pending.extend(b"\x1b[0m");
        }
        self.pending.push(b'\n');
    }

    fn flush(&mut self) {
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
        let name = self.name(server);
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
        let was_launched = self.states.iter().any(|state| state.spawned_ns.is_some());
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
        let ready: Option<Vec<_>> = self.states.iter().map(|state| state.ready_ns).collect();
        if let Some(ready_ns) = ready.and_then(|all| all.into_iter().max()) {
            text.push_str(&self.headline(ready_ns));
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
        let text = verdict::paragraph(trouble, &self.servers, log_dir, width, unicode, colour);
        self.write(&text);
    }

    fn over(&mut self) {
        self.write("");
    }
}

/// Goes around once a second.
fn spinner(now_ns: u64, unicode: bool) -> &'static str {
    const BRAILLE: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
    const ASCII: [&str; 4] = ["|", "/", "-", "\\"];
    let turns: &[&str] = if unicode { &BRAILLE } else { &ASCII };
    let tenth = usize::try_from(now_ns / 100_000_000).unwrap_or(0);
    tenth.checked_rem(turns.len()).and_then(|turn| turns.get(turn)).copied().unwrap_or("")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]
mod tests {
    use std::io::{self, Write};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use insta::assert_snapshot;

    use super::*;
    use crate::events::{Exit, NoStamp};
    use crate::fleet::Ready;

    const MS: u64 = 1_000_000;
    const EPOCH: u64 = 1_800_000_000_000_000_000;

    fn plan(names: &[&str]) -> Plan {
        let server = |name: &&str| Server {
            name: (*name).to_owned(),
            server_type: None,
            command: vec!["x".into()],
            cwd: std::path::PathBuf::from("/").into(),
            env: Vec::new(),
            ready: Ready::Tcp { host: "h".to_owned(), port: 1 },
            timeout: None,
        };
        Plan {
            servers: names.iter().map(server).collect(),
            one_server: names.len() == 1,
            when_ready: WhenReady::Stay,
            grace: Duration::ZERO,
            out: None,
            log_dir: None,
            quiet: false,
            progress: true,
        }
    }

    /// Both streams, in the order of the writes.
    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Screen {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }

        /// As a terminal shows it.
        fn shown(&self) -> String {
            let [rows, columns] = [10, 80].map(|it| it.try_into().unwrap());
            let mut terminal = vt100::Parser::new(rows, columns, 0);
            for line in self.0.lock().unwrap().split_inclusive(|byte| *byte == b'\n') {
                terminal.process(line);
                terminal.process(b"\r");
            }
            terminal.screen().contents()
        }
    }

    fn view(plan: &Plan, live: bool) -> (View, Screen) {
        let screen = Screen::default();
        let surroundings = Surroundings {
            size: || Some((80, 24)),
            is_in_background: || false,
            clock: || EPOCH,
            columns: None,
            unicode: true,
        };
        let out = Channel::new(screen.clone(), live, false);
        let err = Channel::new(screen.clone(), live, false);
        (View::new(plan, out, err, live, surroundings), screen)
    }

    fn at(ms: u64) -> u64 {
        EPOCH + ms * MS
    }

    fn spawned(server: usize) -> Event {
        Event::Spawned { server, at_ns: at(0), pid: 4711 }
    }

    fn some_of_all() -> Vec<Event> {
        vec![
            spawned(0),
            spawned(1),
            spawned(2),
            Event::AllSpawned { at_ns: at(9) },
            Event::SetupDone { server: 1, setup_done_ns: at(1_050) },
            Event::StepBegan { server: 0, name: "uv pip install".to_owned(), start_ns: at(300) },
            Event::NotYet { server: 1, at_ns: at(2_000), answer: "answers 503".to_owned() },
            Event::Ready { server: 2, at_ns: at(2_500) },
            Event::NoStamp { server: 2, why: NoStamp::NotSet },
            Event::Exited {
                server: 3,
                at_ns: at(3_000),
                exit: Exit::Status(3),
                last_lines: vec![],
            },
        ]
    }

    fn drawn(view: &View, after_ms: u64, width: usize, height: usize) -> String {
        let lines = view.frame(at(after_ms), width, height);
        let lines: Vec<_> = lines.iter().map(|line| line.render(width, false, true).0).collect();
        lines.join("\n")
    }

    #[test]
    fn the_view_has_every_server_its_stage_and_how_long() {
        let plan = plan(&["reward", "policy_model", "judge", "評価サーバー", "later"]);
        let (mut view, _) = view(&plan, true);
        some_of_all().iter().for_each(|event| view.learn(event));
        assert_snapshot!(drawn(&view, 9_300, 80, 24), @r"
        ⠸ reward        venv_setup      9.3 s  uv pip install 9.0 s
        ⠸ policy_model  server_start    8.2 s  answers 503
        ✓ judge         ready          2.50 s
        ✗ 評価サーバー  failed         3.00 s  exited with status 3
        · later         waiting
        1 of 5 ready, 9.3 s
        ");
        assert_snapshot!(drawn(&view, 69_300, 40, 24), @r"
        ⠸ reward        venv_setup     1m 09s  …
        ⠸ policy_model  server_start   1m 08s  …
        ✓ judge         ready          2.50 s
        ✗ 評価サーバー  failed         3.00 s  …
        · later         waiting
        1 of 5 ready, 1m 09s
        ");
    }

    #[test]
    fn of_many_servers_those_that_are_not_ready_are_shown() {
        let names: Vec<_> = (0..300).map(|number| format!("server_{number}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let (mut view, _) = view(&plan(&names), true);
        for server in 0..280 {
            view.learn(&spawned(server));
            if server % 7 > 0 {
                view.learn(&Event::SetupDone { server, setup_done_ns: at(500) });
                view.learn(&Event::Ready { server, at_ns: at(800) });
            }
        }
        view.learn(&Event::Exited {
            server: 250,
            at_ns: at(900),
            exit: Exit::Signal(9),
            last_lines: vec![],
        });
        assert_snapshot!(drawn(&view, 2_000, 80, 12), @r"
        ⠋ server_0    launched        2.0 s
        ⠋ server_7    launched        2.0 s
        ⠋ server_14   launched        2.0 s
        ⠋ server_21   launched        2.0 s
        ⠋ server_28   launched        2.0 s
        ⠋ server_35   launched        2.0 s
        ⠋ server_42   launched        2.0 s
        ⠋ server_49   launched        2.0 s
        ✗ server_250  failed         900 ms  was ended by SIGKILL
          291 more; of all 300: 1 failed, 20 waiting, 40 launched, 239 ready
        239 of 300 ready, 2.0 s
        ");
    }

    #[test]
    fn elsewhere_every_event_is_a_line() {
        let (mut view, screen) = view(&plan(&["reward", "policy_model", "judge", "seed"]), false);
        for event in some_of_all() {
            view.event(&event);
        }
        let (name, end_ns) = ("uv pip install".to_owned(), at(9_020));
        view.event(&Event::StepEnded { server: 0, name, start_ns: at(330), end_ns });
        view.event(&Event::Ending { at_ns: at(0), signal: "SIGINT".to_owned(), processes: 5 });
        view.event(&Event::Ended { at_ns: at(0), left: 1 });
        view.event(&Event::Missed { events: 2 });
        assert_snapshot!(screen.text(), @r"
        gym-startup: reward: launched as process 4711
        gym-startup: policy_model: launched as process 4711
        gym-startup: judge: launched as process 4711
        gym-startup: policy_model: venv_setup took 1.05 s
        gym-startup: reward: uv pip install is running
        gym-startup: policy_model: answers 503: not ready yet
        gym-startup: judge: ready after 2.50 s
        gym-startup: judge: no gym-stamp in its launch: setup and start are not told apart
        gym-startup: seed: exited with status 3 after 3.00 s
        gym-startup: reward: uv pip install took 8.69 s
        gym-startup: ending: SIGINT to 5 processes
        gym-startup: 1 process could not be ended, not even by SIGKILL
        gym-startup: 2 events not told
        ");
    }

    #[test]
    fn quiet_keeps_the_output_and_the_trouble() {
        let mut plan = plan(&["reward"]);
        plan.quiet = true;
        let (mut view, screen) = view(&plan, false);
        view.event(&spawned(0));
        view.line(0, Stream::Out, b"hello");
        view.startup(&[]);
        view.trouble(&Trouble::Interrupted { signal: 2, ready: false });
        view.over();
        assert_snapshot!(screen.text(), @r"
        (reward) hello
        gym-startup: ended by SIGINT before all servers were ready.
        ");
    }

    #[test]
    fn lines_go_above_the_view_and_the_view_goes_at_the_end() {
        let (mut view, screen) = view(&plan(&["reward", "judge"]), true);
        view.event(&spawned(0));
        view.line(0, Stream::Out, b"first");
        view.line(1, Stream::Err, b"\xff second");
        view.draw();
        view.tick();
        view.line(1, Stream::Out, b"third");
        view.draw();
        assert_snapshot!(screen.shown(), @r"
        (reward) first
        (judge)  second
        (judge) third
        ⠋ reward  launched        0.0 s
        · judge   waiting
        0 of 2 ready, 0.0 s
        ");
        view.event(&Event::Ready { server: 0, at_ns: at(1_000) });
        view.event(&Event::Ready { server: 1, at_ns: at(2_000) });
        view.startup(&[]);
        view.event(&Event::Ended { at_ns: at(0), left: 0 });
        view.over();
        assert_snapshot!(screen.shown(), @r"
        (reward) first
        (judge)  second
        (judge) third


        gym-startup: both servers are ready after 2.00 s; Ctrl-C ends them
        ");
    }

    #[test]
    fn a_view_that_a_narrower_terminal_has_wrapped_is_erased_whole() {
        static WIDTH: AtomicUsize = AtomicUsize::new(80);
        let (mut view, screen) = view(&plan(&["reward"]), true);
        view.surroundings.size = || Some((WIDTH.load(Ordering::Relaxed), 24));
        view.event(&spawned(0));
        view.event(&Event::NotYet { server: 0, at_ns: at(0), answer: "long ".repeat(20) });
        view.draw();
        WIDTH.store(30, Ordering::Relaxed);
        screen.0.lock().unwrap().clear();
        view.draw();
        // 79 columns in 3 rows of 30, and the last line.
        assert!(screen.text().starts_with("\r\x1b[4A"), "{:?}", screen.text());
        WIDTH.store(NARROWEST - 1, Ordering::Relaxed);
        view.draw();
        screen.0.lock().unwrap().clear();
        view.draw();
        assert_eq!(screen.text(), "");
    }

    #[test]
    fn in_the_background_the_screen_is_somebody_elses() {
        let (mut view, screen) = view(&plan(&["reward"]), true);
        view.surroundings.is_in_background = || true;
        view.event(&spawned(0));
        view.draw();
        assert_eq!(screen.text(), "");
    }

    #[test]
    fn names_have_colours_where_there_are_any() {
        let plan = plan(&["reward", "judge"]);
        let (mut view, screen) = view(&plan, false);
        view.out.colour = true;
        view.line(1, Stream::Out, b"\x1b[31mred");
        view.line(1, Stream::Err, b"plain");
        view.over();
        let text = screen.text().replace('\x1b', "^");
        assert_snapshot!(text, @r"
        ^[35m(judge)^[0m ^[31mred^[0m
        (judge) plain
        ");
    }

    #[test]
    fn nobody_reads_and_nothing_else_happens() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (mut view, screen) = view(&plan(&["reward"]), true);
        view.err = Channel::new(Closed, true, true);
        view.event(&spawned(0));
        view.line(0, Stream::Err, b"lost");
        view.line(0, Stream::Out, b"kept");
        view.tick();
        view.startup(&[]);
        view.over();
        assert_eq!(screen.text(), "(reward) kept\n");
    }
}
