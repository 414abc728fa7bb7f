//! The live view as lines: every server, the stage it is in, how long.

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr;

use super::known::{Known, Stage, State, since};
use crate::words::{fit, harmless, padded, right, running};

/// More rows than this are no view, but a list.
const MOST_ROWS: usize = 24;

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

/// The colour of a server's name, everywhere.
pub fn name_style(server: usize) -> Style {
    server.checked_rem(NAMES.len()).and_then(|it| NAMES.get(it)).copied().unwrap_or(PLAIN)
}

/// The columns of the view: the longest stage, and a time.
const STAGE_WIDTH: usize = 12;
const TIME_WIDTH: usize = 7;

/// A line of the view, in parts that each have a style.
#[derive(Default)]
pub struct Line(Vec<(Style, String)>);

impl Line {
    fn with(mut self, style: Style, text: impl Into<String>) -> Self {
        self.0.push((style, text.into()));
        self
    }

    /// The line in at most `width` columns, and how many it takes.
    pub fn render(&self, width: usize, colour: bool, unicode: bool) -> (String, usize) {
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

/// The lines of the view, for a terminal of that size.
pub fn frame(known: &Known, now_ns: u64, width: usize, height: usize) -> Vec<Line> {
    let stages: Vec<_> = known.states.iter().map(State::stage).collect();
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
    let name_width = drawn.iter().map(|server| known.name(*server).width()).max();
    let name_width = name_width.unwrap_or(0).min(width / 3);
    let mut lines: Vec<_> =
        drawn.iter().filter_map(|server| row(known, *server, now_ns, name_width)).collect();
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
    let time = running(since(now_ns, known.began_ns));
    lines.push(Line::default().with(STRONG, total).with(FAINT, format!(", {time}")));
    lines
}

fn row(known: &Known, server: usize, now_ns: u64, name_width: usize) -> Option<Line> {
    let state = known.states.get(server)?;
    let stage = state.stage();
    let unicode = known.unicode;
    let (mark, style) = match stage {
        Stage::Waiting => (if unicode { "·" } else { "." }, FAINT),
        Stage::Ready => (if unicode { "✓" } else { "+" }, GOOD),
        Stage::Failed => (if unicode { "✗" } else { "!" }, BAD),
        _ => (spinner(now_ns, unicode), BUSY),
    };
    let spawned_ns = state.spawned_ns.unwrap_or(known.began_ns);
    let time = match (stage, state) {
        (Stage::Waiting, _) => String::new(),
        (_, State { failed: Some((_, at_ns)), .. })
        | (Stage::Ready, State { ready_ns: Some(at_ns), .. }) => known.duration(*at_ns, spawned_ns),
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
        (Stage::Ready, State { ready_ns: Some(ready_ns), setup_done_ns: Some(done_ns), .. }) => {
            format!(
                "venv_setup {}, server_start {}",
                known.duration(*done_ns, spawned_ns),
                known.duration(*ready_ns, *done_ns),
            )
        }
        (Stage::Launched | Stage::ServerStart, State { answer: Some(answer), .. }) => {
            answer.clone()
        }
        _ => String::new(),
    };
    let name = padded(&fit(known.name(server), name_width, unicode), name_width);
    let mut line = Line::default().with(style, mark).with(name_style(server), format!(" {name}"));
    let style = if stage == Stage::Failed { BAD } else { PLAIN };
    line = line.with(style, format!("  {}", stage.as_str()));
    if !time.is_empty() {
        let room = STAGE_WIDTH.saturating_sub(stage.as_str().len()).saturating_add(TIME_WIDTH);
        line = line.with(PLAIN, format!("  {}", right(&time, room)));
    }
    let note = harmless(&note, unicode);
    Some(if note.is_empty() { line } else { line.with(FAINT, format!("  {note}")) })
}

/// Goes around once a second.
fn spinner(now_ns: u64, unicode: bool) -> &'static str {
    const BRAILLE: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
    const ASCII: [&str; 4] = ["|", "/", "-", "\\"];
    let turns: &[&str] = if unicode { &BRAILLE } else { &ASCII };
    let tenth = usize::try_from(now_ns / 100_000_000).unwrap_or(0);
    tenth.checked_rem(turns.len()).and_then(|turn| turns.get(turn)).copied().unwrap_or("")
}
