//! Spans as a tree with bars: where the time went, for a terminal of any width.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use gym_stamp::spans::{self, SpanRecord, Status};
use opentelemetry::Value;
use unicode_width::UnicodeWidthStr;

use crate::words::{duration, fit, harmless, right};

/// A span, wherever it comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub id: u64,
    /// One that is not among the entries is as none.
    pub parent: Option<u64>,
    pub name: String,
    pub start_ns: u64,
    /// `None` for one that has not ended.
    pub end_ns: Option<u64>,
    pub server: Option<String>,
    pub pid: Option<i64>,
    /// How it ended, where that is said.
    pub outcome: Option<String>,
    pub is_error: bool,
}

impl From<&SpanRecord> for Entry {
    fn from(span: &SpanRecord) -> Self {
        let attribute = |key| {
            let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == key);
            found.map(|attribute| &attribute.value)
        };
        let text = |key| attribute(key).map(|value| value.as_str().into_owned());
        Self {
            id: u64::from_be_bytes(span.span_id.to_bytes()),
            parent: span.parent_span_id.map(|id| u64::from_be_bytes(id.to_bytes())),
            name: span.name.clone(),
            start_ns: span.start_ns,
            end_ns: Some(span.end_ns),
            server: text(spans::SERVER_NAME),
            pid: match attribute(spans::PROCESS_PID) {
                Some(Value::I64(pid)) => Some(*pid),
                _ => None,
            },
            outcome: text(spans::OUTCOME),
            is_error: matches!(span.status, Status::Error(_)),
        }
    }
}

/// What the text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Columns; no line is longer.
    pub width: usize,
    /// Whether there is more than ASCII.
    pub unicode: bool,
    pub colour: bool,
    /// How many children of one span are drawn; where there are more, the failed and the slowest
    /// are, and a line for all the others.
    pub most_children: usize,
}

/// The least that is worth drawing for; a narrower terminal wraps.
const NARROWEST: usize = 24;
/// Narrower than this, what stands for a level of the tree gets a column less.
const NARROW: usize = 60;
/// A bar with this many columns has a scale above it.
const WITH_SCALE: usize = 40;

/// Draws `entries`, roots by their start; each line ends with a newline.
///
/// The longest path is what ended last, what was before that, and so on back to the start: had any
/// of it been shorter, the whole would have been.
pub fn draw(entries: &[Entry], look: &Look) -> String {
    let forest = Forest::new(entries);
    let critical = forest.critical();
    let rows = forest.rows(&critical, look);
    Table::new(&forest, rows, look).text()
}

/// The span of one server, as its supervisor saw it.
const SERVER: &str = "gym.startup.server";

/// What a span is to the one above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The supervisor only waits in it, for spans that stand beside it.
    Wait,
    /// A process's own account of what others saw from outside.
    Report,
    Other,
}

fn kind(entry: &Entry) -> Kind {
    match entry.name.as_str() {
        "gym.startup.wait_for_servers" | "gym.startup.unfinished" => Kind::Wait,
        "gym.server.startup" | "gym.server.startup.worker" => Kind::Report,
        _ => Kind::Other,
    }
}

/// The entries as a tree: indices into them.
struct Forest<'e> {
    entries: &'e [Entry],
    roots: Vec<usize>,
    children: Vec<Vec<usize>>,
    start_ns: u64,
    end_ns: u64,
}

impl<'e> Forest<'e> {
    fn new(entries: &'e [Entry]) -> Self {
        let mut by_id = HashMap::new();
        for (index, entry) in entries.iter().enumerate() {
            by_id.entry(entry.id).or_insert(index);
        }
        let mut roots = Vec::new();
        let mut children = vec![Vec::new(); entries.len()];
        for (index, entry) in entries.iter().enumerate() {
            let parent = entry.parent.and_then(|id| by_id.get(&id)).filter(|it| **it != index);
            match parent.and_then(|parent| children.get_mut(*parent)) {
                Some(siblings) => siblings.push(index),
                None => roots.push(index),
            }
        }
        let ends = entries.iter().map(|entry| entry.end_ns.unwrap_or(entry.start_ns));
        let mut forest = Self {
            entries,
            roots,
            children,
            start_ns: entries.iter().map(|entry| entry.start_ns).min().unwrap_or(0),
            end_ns: ends.max().unwrap_or(0),
        };
        forest.root_what_goes_in_circles();
        let start = |index: &usize| entries.get(*index).map(|entry| entry.start_ns);
        forest.roots.sort_by_key(start);
        let place = |index: &usize| {
            entries.get(*index).map(|entry| (kind(entry) == Kind::Report, entry.start_ns))
        };
        forest.children.iter_mut().for_each(|siblings| siblings.sort_by_key(place));
        forest
    }

    /// Spans that stand above themselves are reached from no root: a file can hold such.
    fn root_what_goes_in_circles(&mut self) {
        let mut reached = vec![false; self.entries.len()];
        let mut to_do = self.roots.clone();
        let mut next = 0;
        loop {
            while let Some(index) = to_do.pop() {
                match reached.get_mut(index) {
                    Some(reached) if !*reached => *reached = true,
                    _ => continue,
                }
                to_do.extend(self.children(index));
            }
            match reached.iter().skip(next).position(|reached| !reached) {
                None => break,
                Some(offset) => next = next.saturating_add(offset),
            }
            // The circle is cut above it.
            for siblings in &mut self.children {
                siblings.retain(|index| *index != next);
            }
            self.roots.push(next);
            to_do.push(next);
        }
    }

    fn children(&self, index: usize) -> &[usize] {
        self.children.get(index).map_or(&[], Vec::as_slice)
    }

    fn entry(&self, index: usize) -> Option<&'e Entry> {
        self.entries.get(index)
    }

    /// One that has not ended goes on to the end of the whole.
    fn end_ns(&self, entry: &Entry) -> u64 {
        entry.end_ns.unwrap_or(self.end_ns)
    }

    fn length_ns(&self, entry: &Entry) -> i128 {
        i128::from(self.end_ns(entry)).saturating_sub(i128::from(entry.start_ns))
    }

    /// For each entry whether it is on the longest path of its root.
    fn critical(&self) -> Vec<bool> {
        let mut critical = vec![false; self.entries.len()];
        let mut to_do = self.roots.clone();
        while let Some(index) = to_do.pop() {
            if let Some(critical) = critical.get_mut(index) {
                *critical = true;
            }
            to_do.extend(self.path_below(index));
        }
        critical
    }

    /// The children that make up the end of a span on the longest path, back from its end.
    fn path_below(&self, index: usize) -> Vec<usize> {
        let children =
            || self.children(index).iter().filter_map(|it| Some((*it, self.entry(*it)?)));
        let waits_for_others = children().any(|(_, entry)| entry.name == SERVER);
        // What is seen from outside is seen a little late.
        let length = self.entry(index).map_or(0, |entry| self.length_ns(entry));
        let overlap = u64::try_from(length / 50).unwrap_or(0);
        let mut path = Vec::new();
        for reports in [false, true] {
            let mut family: Vec<_> = children()
                .filter(|(_, entry)| match kind(entry) {
                    Kind::Report => reports,
                    Kind::Wait => !reports && !waits_for_others,
                    Kind::Other => !reports,
                })
                .collect();
            let last_first = |entry: &Entry| (self.end_ns(entry), self.length_ns(entry));
            family.sort_by_key(|(_, entry)| Reverse(last_first(entry)));
            let mut until = u64::MAX;
            for (index, entry) in family {
                if self.end_ns(entry) <= until.saturating_add(overlap) && entry.start_ns < until {
                    path.push(index);
                    until = entry.start_ns;
                }
            }
        }
        path
    }

    fn rows(&self, critical: &[bool], look: &Look) -> Vec<Row> {
        let glyphs = Glyphs::of(look);
        let mut rows = Vec::new();
        let roots = self.items(&self.roots, critical, look).into_iter();
        // What is still to be drawn, the next at the end.
        let mut to_do: Vec<_> = roots.rev().map(Branch::root).collect();
        while let Some(branch) = to_do.pop() {
            if let Item::Entry(index) = branch.item {
                let children = self.items(self.children(index), critical, look);
                let count = children.len();
                for (number, item) in children.into_iter().enumerate().rev() {
                    let (own, further) = match number.saturating_add(1) == count {
                        true => (glyphs.last_branch, glyphs.no_branch),
                        false => (glyphs.branch, glyphs.trunk),
                    };
                    to_do.push(Branch {
                        item,
                        parent: self.entry(index),
                        tree: format!("{}{own}", branch.below),
                        below: tail(&format!("{}{further}", branch.below), look.width).to_owned(),
                    });
                }
            }
            rows.extend(self.row(branch, critical));
        }
        rows
    }

    /// The siblings to draw, and an item for those that are too many to be.
    fn items(&self, siblings: &[usize], critical: &[bool], look: &Look) -> Vec<Item> {
        let is_server = |index: &usize| self.entry(*index).is_some_and(|it| it.name == SERVER);
        let (servers, others): (Vec<_>, Vec<_>) = siblings.iter().partition(|it| is_server(it));
        let mut folded = Vec::new();
        for mut group in [others, servers] {
            if group.len() > look.most_children {
                group.sort_by_key(|&index| {
                    let entry = self.entry(index);
                    let failed = entry.is_some_and(|entry| entry.is_error);
                    let length = entry.map_or(0, |entry| self.length_ns(entry));
                    Reverse((critical.get(index) == Some(&true), failed, length))
                });
                folded.push(group.split_off(look.most_children));
            }
        }
        let hidden: HashSet<_> = folded.iter().flatten().collect();
        let drawn = siblings.iter().filter(|index| !hidden.contains(index));
        let drawn: Vec<_> = drawn.map(|index| Item::Entry(*index)).collect();
        drawn.into_iter().chain(folded.into_iter().map(Item::Others)).collect()
    }

    fn row(&self, branch: Branch<'_>, critical: &[bool]) -> Option<Row> {
        let Branch { item, parent, tree, .. } = branch;
        match item {
            Item::Entry(index) => {
                let entry = self.entry(index)?;
                Some(Row {
                    tree,
                    label: label(entry, parent),
                    outcome: outcome(entry),
                    start_ns: entry.start_ns,
                    end_ns: entry.end_ns,
                    critical: critical.get(index) == Some(&true),
                    is_error: entry.is_error,
                })
            }
            Item::Others(folded) => {
                let entries = || folded.iter().filter_map(|index| self.entry(*index));
                let longest = entries().max_by_key(|entry| self.length_ns(entry))?;
                let what = if longest.name == SERVER { " servers" } else { "" };
                Some(Row {
                    tree,
                    label: format!("{} more{what}, up to", folded.len()),
                    outcome: None,
                    start_ns: longest.start_ns,
                    end_ns: longest.end_ns,
                    critical: false,
                    is_error: entries().any(|entry| entry.is_error),
                })
            }
        }
    }
}

/// A span's name, less what the one above it says already.
fn label(entry: &Entry, parent: Option<&Entry>) -> String {
    let pid = entry.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    let server = entry.server.as_deref().filter(|server| !server.is_empty());
    match (entry.name.as_str(), server, parent) {
        (SERVER, Some(server), _) => server.to_owned(),
        ("gym.server.startup", Some(server), None) => format!("{server}{pid}"),
        ("gym.server.startup", _, Some(_)) => format!("its own report{pid}"),
        ("gym.server.startup.worker", Some(server), None) => format!("{server}, worker{pid}"),
        ("gym.server.startup.worker", _, Some(_)) => format!("worker{pid}"),
        (name, ..) => {
            let rest = parent.and_then(|parent| name.strip_prefix(parent.name.as_str()));
            let rest = rest.and_then(|rest| rest.strip_prefix('.'));
            rest.filter(|rest| !rest.is_empty()).unwrap_or(name).to_owned()
        }
    }
}

/// The last `count` characters.
fn tail(text: &str, count: usize) -> &str {
    let Some(back) = count.checked_sub(1) else { return "" };
    text.char_indices().rev().nth(back).and_then(|(start, _)| text.get(start..)).unwrap_or(text)
}

fn outcome(entry: &Entry) -> Option<String> {
    match &entry.outcome {
        Some(outcome) if outcome != "ready" => Some(outcome.clone()),
        _ if entry.end_ns.is_none() => Some("not ended".to_owned()),
        _ if entry.is_error => Some("error".to_owned()),
        _ => None,
    }
}

enum Item {
    Entry(usize),
    /// Siblings that are not drawn each.
    Others(Vec<usize>),
}

/// An item with its place in the tree.
struct Branch<'e> {
    item: Item,
    parent: Option<&'e Entry>,
    /// What leads to it, and what stands before its children.
    tree: String,
    below: String,
}

impl Branch<'_> {
    fn root(item: Item) -> Self {
        Self { item, parent: None, tree: String::new(), below: String::new() }
    }
}

struct Row {
    /// The branches that lead to it.
    tree: String,
    label: String,
    outcome: Option<String>,
    start_ns: u64,
    end_ns: Option<u64>,
    critical: bool,
    is_error: bool,
}

struct Glyphs {
    branch: &'static str,
    last_branch: &'static str,
    trunk: &'static str,
    no_branch: &'static str,
    cross: &'static str,
    /// A bar's left half, whole and right half column, and what has no length.
    critical: [char; 4],
    other: [char; 4],
}

impl Glyphs {
    fn of(look: &Look) -> &'static Self {
        match (look.unicode, look.width < NARROW) {
            (true, false) => &Self {
                branch: "├─ ",
                last_branch: "└─ ",
                trunk: "│  ",
                no_branch: "   ",
                cross: "✗",
                critical: ['╸', '━', '╺', '╏'],
                other: ['╴', '─', '╶', '╎'],
            },
            (true, true) => &Self {
                branch: "├ ",
                last_branch: "└ ",
                trunk: "│ ",
                no_branch: "  ",
                cross: "✗",
                critical: ['╸', '━', '╺', '╏'],
                other: ['╴', '─', '╶', '╎'],
            },
            (false, false) => &Self {
                branch: "|- ",
                last_branch: "`- ",
                trunk: "|  ",
                no_branch: "   ",
                cross: "!",
                critical: ['=', '=', '=', '|'],
                other: ['-', '-', '-', '|'],
            },
            (false, true) => &Self {
                branch: "| ",
                last_branch: "` ",
                trunk: "| ",
                no_branch: "  ",
                cross: "!",
                critical: ['=', '=', '=', '|'],
                other: ['-', '-', '-', '|'],
            },
        }
    }
}

const PLAIN: Style = Style::new();
const FAINT: Style = Style::new().dimmed();
const STRONG: Style = Style::new().bold();
const CRITICAL: Style = AnsiColor::Yellow.on_default().bold();
const OTHER: Style = AnsiColor::Blue.on_default();
const FAILED: Style = AnsiColor::Red.on_default();

/// The rows with the widths of their columns.
struct Table<'l> {
    look: &'l Look,
    rows: Vec<(Row, String, String)>,
    label_width: usize,
    duration_width: usize,
    /// With the gap before it; nothing where there is no room.
    share_width: usize,
    bar_width: usize,
    start_ns: u64,
    total_ns: u64,
}

const GAP: usize = 2;
/// `100%` at most, and the gap before it.
const SHARE_WIDTH: usize = 4 + GAP;
/// However wide the terminal is.
const LONGEST_LABEL: usize = 60;

impl<'l> Table<'l> {
    fn new(forest: &Forest<'_>, rows: Vec<Row>, look: &'l Look) -> Self {
        let width = look.width.max(NARROWEST);
        let total_ns = forest.end_ns.saturating_sub(forest.start_ns);
        let rows: Vec<_> = rows
            .into_iter()
            .map(|row| {
                let end_ns = row.end_ns.unwrap_or(forest.end_ns);
                let length = i128::from(end_ns).saturating_sub(i128::from(row.start_ns));
                let share = share(length, total_ns);
                (row, duration(length, look.unicode), share)
            })
            .collect();
        let duration_width = rows.iter().map(|(_, duration, _)| duration.width()).max();
        let duration_width = duration_width.unwrap_or(0);
        let share_width = if look.width < NARROW { 0 } else { SHARE_WIDTH };
        let others = duration_width.saturating_add(share_width).saturating_add(2 * GAP);
        let wished = rows.iter().map(|(row, ..)| label_width(row, look)).max().unwrap_or(0);
        // The names get what they need, as long as the bars get theirs.
        let room = width.saturating_sub(others);
        let most = if look.width < NARROW { room.saturating_mul(3) / 5 } else { room / 2 };
        let label_width = wished.min(most).min(LONGEST_LABEL);
        Self {
            look,
            rows,
            label_width,
            duration_width,
            share_width,
            bar_width: room.saturating_sub(label_width),
            start_ns: forest.start_ns,
            total_ns,
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        if self.bar_width >= WITH_SCALE && self.total_ns > 0 {
            self.scale(&mut text);
        }
        for (row, duration, share) in &self.rows {
            self.line(&mut text, row, duration, share);
        }
        text
    }

    /// The times at the quarters of the bars.
    fn scale(&self, text: &mut String) {
        let before = self.label_width.saturating_add(self.duration_width);
        let before = before.saturating_add(self.share_width).saturating_add(2 * GAP);
        let mut line = " ".repeat(before);
        for quarter in 0..=4_u64 {
            let at = u128::from(self.total_ns).saturating_mul(quarter.into()) / 4;
            let label = duration(i128::try_from(at).unwrap_or(i128::MAX), self.look.unicode);
            let column = self.bar_width.saturating_mul(quarter as usize) / 4;
            let end = match quarter {
                0 => before.saturating_add(label.width()),
                4 => before.saturating_add(self.bar_width),
                _ => before.saturating_add(column).saturating_add(label.width() / 2),
            };
            let room = end.saturating_sub(line.width());
            line.push_str(&right(&label, room));
        }
        self.paint(text, FAINT, line.trim_end());
        text.push('\n');
    }

    fn line(&self, text: &mut String, row: &Row, duration: &str, share: &str) {
        let unicode = self.look.unicode;
        let mut line = String::new();
        // Of a tree that is too deep the lower branches are seen.
        let tree = tail(&row.tree, self.label_width.saturating_mul(2) / 3);
        let mark = mark(row, self.look);
        let room = self.label_width.saturating_sub(tree.width());
        let label = harmless(&row.label, unicode);
        let label_room = room.saturating_sub(mark.width()).max(room / 2);
        let label = fit(&label, label_room, unicode);
        let mark = fit(&mark, room.saturating_sub(label.width()), unicode);
        self.paint(&mut line, FAINT, tree);
        let style = if row.critical { STRONG } else { PLAIN };
        self.paint(&mut line, style, &label);
        self.paint(&mut line, FAILED, &mark);
        let used = tree.width().saturating_add(label.width()).saturating_add(mark.width());
        line.push_str(&" ".repeat(self.label_width.saturating_sub(used)));
        line.push_str("  ");
        self.paint(&mut line, style, &right(duration, self.duration_width));
        if self.share_width > 0 {
            self.paint(&mut line, style, &right(share, self.share_width));
        }
        line.push_str("  ");
        let (blank, bar) = self.bar(row);
        line.push_str(&" ".repeat(blank));
        let style = match row {
            Row { is_error: true, .. } => FAILED,
            Row { critical: true, .. } => CRITICAL,
            _ => OTHER,
        };
        self.paint(&mut line, style, &bar);
        text.push_str(line.trim_end());
        text.push('\n');
    }

    /// The columns before the bar, and the bar, to half a column.
    fn bar(&self, row: &Row) -> (usize, String) {
        let glyphs = Glyphs::of(self.look);
        let [left, whole, right, no_length] =
            if row.critical { glyphs.critical } else { glyphs.other };
        let halves = self.bar_width.saturating_mul(2);
        let Some(last) = halves.checked_sub(1) else { return (0, String::new()) };
        let at = |ns: u64| {
            let offset = u128::from(ns.saturating_sub(self.start_ns));
            let at = offset.saturating_mul(halves as u128).checked_div(self.total_ns.into());
            at.map_or(0, |at| usize::try_from(at).unwrap_or(usize::MAX).min(halves))
        };
        let start = at(row.start_ns).min(last);
        let end = row.end_ns.map_or(halves, at);
        if row.end_ns.is_some_and(|end_ns| end_ns <= row.start_ns) {
            return (start / 2, no_length.to_string());
        }
        let end = end.max(start.saturating_add(1));
        let mut bar = String::new();
        for column in start / 2..end.div_ceil(2) {
            let first_half = column.saturating_mul(2);
            bar.push(match (start <= first_half, end >= first_half.saturating_add(2)) {
                (true, true) => whole,
                (true, false) => left,
                (false, _) => right,
            });
        }
        (start / 2, bar)
    }

    fn paint(&self, text: &mut String, style: Style, what: &str) {
        if self.look.colour && style != PLAIN && !what.is_empty() {
            // A String takes everything.
            write!(text, "{style}{what}{style:#}").unwrap_or_default();
        } else {
            text.push_str(what);
        }
    }
}

fn mark(row: &Row, look: &Look) -> String {
    let Some(outcome) = &row.outcome else { return String::new() };
    let outcome = harmless(outcome, look.unicode);
    match row.is_error {
        true => format!(" {} {outcome}", Glyphs::of(look).cross),
        false => format!(" {outcome}"),
    }
}

fn label_width(row: &Row, look: &Look) -> usize {
    let label = harmless(&row.label, look.unicode).width();
    row.tree.width().saturating_add(label).saturating_add(mark(row, look).width())
}

fn share(length_ns: i128, total_ns: u64) -> String {
    if total_ns == 0 {
        return String::new();
    }
    let percent = length_ns as f64 * 100.0 / total_ns as f64;
    match percent {
        ..0.0 => String::new(),
        0.0 => "0%".to_owned(),
        ..0.5 => "<1%".to_owned(),
        _ => format!("{percent:.0}%"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]
mod tests {
    use insta::assert_snapshot;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;
    const S: u64 = 1_000 * MS;

    fn look(width: usize) -> Look {
        Look { width, unicode: true, colour: false, most_children: 12 }
    }

    /// A span from and to some time after the beginning of all.
    fn span(id: u64, parent: u64, name: &str, from_ns: u64, to_ns: u64) -> Entry {
        const EPOCH: u64 = 1_800_000_000 * S;
        Entry {
            id,
            parent: (parent != 0).then_some(parent),
            name: name.to_owned(),
            start_ns: EPOCH + from_ns,
            end_ns: Some(EPOCH + to_ns),
            ..Entry::default()
        }
    }

    fn server(id: u64, name: &str, from_ns: u64, to_ns: u64) -> Entry {
        let server = Some(name.to_owned());
        Entry { server, ..span(id, 1, SERVER, from_ns, to_ns) }
    }

    /// Two servers, one of which says more of itself.
    fn startup() -> Vec<Entry> {
        let report = |span: Entry, pid| Entry { pid: Some(pid), ..span };
        vec![
            span(1, 0, "gym.startup", 0, 12_400 * MS),
            span(2, 1, "gym.startup.load_config", 0, 3 * MS),
            span(3, 1, "gym.startup.spawn_servers", 3 * MS, 15 * MS),
            span(4, 1, "gym.startup.wait_for_servers", 15 * MS, 12_400 * MS),
            server(5, "reward", 4 * MS, 12_390 * MS),
            span(6, 5, "gym.startup.server.venv_setup", 4 * MS, 9_100 * MS),
            span(7, 6, "uv venv", 40 * MS, 310 * MS),
            span(8, 6, "uv pip install", 330 * MS, 9_020 * MS),
            span(9, 5, "gym.startup.server.server_start", 9_100 * MS, 12_390 * MS),
            server(10, "policy_model", 8 * MS, 4_250 * MS),
            span(11, 10, "gym.startup.server.venv_setup", 8 * MS, 1_050 * MS),
            span(12, 10, "gym.startup.server.server_start", 1_050 * MS, 4_250 * MS),
            report(span(13, 10, "gym.server.startup", 8 * MS, 3_900 * MS), 4711),
            span(14, 13, "gym.server.startup.venv_setup", 8 * MS, 1_050 * MS),
            span(15, 13, "gym.server.startup.interpreter_start", 1_050 * MS, 1_090 * MS),
            span(16, 13, "gym.server.startup.init_server", 1_090 * MS, 3_900 * MS),
            report(span(17, 10, "gym.server.startup.worker", 3_900 * MS, 4_200 * MS), 4712),
            span(18, 17, "gym.server.startup.worker.worker_start", 3_900 * MS, 4_200 * MS),
        ]
    }

    /// All that is awkward.
    fn extremes() -> Vec<Entry> {
        let failed = |span: Entry, outcome: Option<&str>| Entry {
            outcome: outcome.map(str::to_owned),
            is_error: true,
            ..span
        };
        vec![
            failed(span(1, 0, "gym.startup", 0, 600 * S), Some("timeout")),
            span(2, 1, "gym.startup.load_config", 0, 1_000),
            span(3, 1, "nothing at all", 300 * S, 300 * S),
            failed(server(4, "評価サーバー", S, 600 * S), Some("timeout")),
            server(5, &"very_long_name_".repeat(14), S, 400 * S),
            Entry { end_ns: None, ..span(6, 4, "model.load", 200 * S, 0) },
            failed(span(7, 6, "weights\u{1b}[2J", 500 * S, 599 * S), None),
            span(8, 1, "clock set back", 10 * S, 9 * S),
            span(9, 77, "orphan", 599 * S, 600 * S),
            span(10, 11, "circle a", 20 * S, 30 * S),
            span(11, 10, "circle b", 22 * S, 28 * S),
        ]
    }

    #[test]
    fn a_startup_is_a_tree_with_bars() {
        assert_snapshot!(draw(&startup(), &look(80)), @r"
        gym.startup                       12.4 s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
        ├─ load_config                   3.00 ms   <1%  ╸
        ├─ spawn_servers                 12.0 ms   <1%  ╸
        ├─ reward                         12.4 s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╸
        │  ├─ venv_setup                  9.10 s   73%  ━━━━━━━━━━━━━━━━━━━━━━━
        │  │  ├─ uv venv                  270 ms    2%  ╸
        │  │  └─ uv pip install           8.69 s   70%  ╺━━━━━━━━━━━━━━━━━━━━━━
        │  └─ server_start                3.29 s   27%                         ━━━━━━━━╸
        ├─ policy_model                   4.24 s   34%  ──────────╴
        │  ├─ venv_setup                  1.04 s    8%  ──╴
        │  ├─ server_start                3.20 s   26%    ╶───────╴
        │  ├─ its own report (pid 4711)   3.89 s   31%  ──────────
        │  │  ├─ venv_setup               1.04 s    8%  ──╴
        │  │  ├─ interpreter_start       40.0 ms   <1%    ╶
        │  │  └─ init_server              2.81 s   23%    ╶───────
        │  └─ worker (pid 4712)           300 ms    2%            ╴
        │     └─ worker_start             300 ms    2%            ╴
        └─ wait_for_servers               12.4 s  100%  ────────────────────────────────
        ");
    }

    #[test]
    fn a_wide_terminal_gives_wide_bars() {
        assert_snapshot!(draw(&startup(), &look(200)), @r"
                                                        0 s                                3.10 s                                6.20 s                                9.30 s                             12.4 s
        gym.startup                       12.4 s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
        ├─ load_config                   3.00 ms   <1%  ╸
        ├─ spawn_servers                 12.0 ms   <1%  ╸
        ├─ reward                         12.4 s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╸
        │  ├─ venv_setup                  9.10 s   73%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╸
        │  │  ├─ uv venv                  270 ms    2%  ━━━╸
        │  │  └─ uv pip install           8.69 s   70%      ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╸
        │  └─ server_start                3.29 s   27%                                                                                                                 ╺━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╸
        ├─ policy_model                   4.24 s   34%  ────────────────────────────────────────────────────
        │  ├─ venv_setup                  1.04 s    8%  ────────────╴
        │  ├─ server_start                3.20 s   26%              ╶───────────────────────────────────────
        │  ├─ its own report (pid 4711)   3.89 s   31%  ───────────────────────────────────────────────╴
        │  │  ├─ venv_setup               1.04 s    8%  ────────────╴
        │  │  ├─ interpreter_start       40.0 ms   <1%              ╶
        │  │  └─ init_server              2.81 s   23%               ──────────────────────────────────╴
        │  └─ worker (pid 4712)           300 ms    2%                                                 ╶───
        │     └─ worker_start             300 ms    2%                                                 ╶───
        └─ wait_for_servers               12.4 s  100%  ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
        ");
    }

    #[test]
    fn a_narrow_terminal_gives_short_names() {
        assert_snapshot!(draw(&startup(), &look(40)), @r"
        gym.startup         12.4 s  ━━━━━━━━━━━━
        ├ load_config      3.00 ms  ╸
        ├ spawn_servers    12.0 ms  ╸
        ├ reward            12.4 s  ━━━━━━━━━━━╸
        │ ├ venv_setup      9.10 s  ━━━━━━━━╸
        │ │ ├ uv venv       270 ms  ╸
        │ │ └ uv pip ins…   8.69 s  ━━━━━━━━╸
        │ └ server_start    3.29 s          ╺━━╸
        ├ policy_model      4.24 s  ────
        │ ├ venv_setup      1.04 s  ─
        │ ├ server_start    3.20 s   ───
        │ ├ its own repo…   3.89 s  ───╴
        │ │ ├ venv_setup    1.04 s  ─
        │ │ ├ interprete…  40.0 ms   ╴
        │ │ └ init_server   2.81 s   ──╴
        │ └ worker (pid …   300 ms     ╶
        │   └ worker_sta…   300 ms     ╶
        └ wait_for_serve…   12.4 s  ────────────
        ");
    }

    #[test]
    fn without_utf_8_it_is_ascii() {
        let text = draw(&startup(), &Look { unicode: false, ..look(80) });
        assert!(text.is_ascii());
        assert_snapshot!(text, @r"
        gym.startup                       12.4 s  100%  ================================
        |- load_config                   3.00 ms   <1%  =
        |- spawn_servers                 12.0 ms   <1%  =
        |- reward                         12.4 s  100%  ================================
        |  |- venv_setup                  9.10 s   73%  =======================
        |  |  |- uv venv                  270 ms    2%  =
        |  |  `- uv pip install           8.69 s   70%  =======================
        |  `- server_start                3.29 s   27%                         =========
        |- policy_model                   4.24 s   34%  -----------
        |  |- venv_setup                  1.04 s    8%  ---
        |  |- server_start                3.20 s   26%    ---------
        |  |- its own report (pid 4711)   3.89 s   31%  ----------
        |  |  |- venv_setup               1.04 s    8%  ---
        |  |  |- interpreter_start       40.0 ms   <1%    -
        |  |  `- init_server              2.81 s   23%    --------
        |  `- worker (pid 4712)           300 ms    2%            -
        |     `- worker_start             300 ms    2%            -
        `- wait_for_servers               12.4 s  100%  --------------------------------
        ");
        assert!(draw(&extremes(), &Look { unicode: false, ..look(80) }).is_ascii());
    }

    #[test]
    fn what_is_awkward_at_80_columns() {
        assert_snapshot!(draw(&extremes(), &look(80)), @r"
        gym.startup ✗ timeout            10m 00s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
        ├─ load_config                   1.00 µs   <1%  ╸
        ├─ 評価サーバー ✗ timeout         9m 59s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
        │  └─ model.load not ended        6m 40s   67%            ╺━━━━━━━━━━━━━━━━━━━━━
        │     └─ weights�[2J ✗ error      1m 39s   16%                            ╺━━━━╸
        ├─ very_long_name_very_long_na…   6m 39s   66%  ─────────────────────
        ├─ clock set back                -1.00 s        ╎
        └─ nothing at all                    0 s    0%                  ╎
        circle a                          10.0 s    2%   ╸
        └─ circle b                       6.00 s    1%   ╸
        orphan                            1.00 s   <1%                                 ╺
        ");
    }

    #[test]
    fn what_is_awkward_at_40_columns() {
        assert_snapshot!(draw(&extremes(), &look(40)), @r"
        gym.sta… ✗ timeo…  10m 00s  ━━━━━━━━━━━━
        ├ load_config      1.00 µs  ╸
        ├ 評価サ… ✗ time…   9m 59s  ━━━━━━━━━━━━
        │ └ model… not e…   6m 40s      ━━━━━━━━
        │   └ weig… ✗ er…   1m 39s            ━╸
        ├ very_long_name…   6m 39s  ────────
        ├ clock set back   -1.00 s  ╎
        └ nothing at all       0 s        ╎
        circle a            10.0 s  ╸
        └ circle b          6.00 s  ╸
        orphan              1.00 s             ╺
        ");
    }

    #[test]
    fn what_is_awkward_at_200_columns() {
        assert_snapshot!(draw(&extremes(), &look(200)), @r"
                                                                                     0 s                        2m 30s                         5m 00s                         7m 30s                     10m 00s
        gym.startup ✗ timeout                                         10m 00s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
        ├─ load_config                                                1.00 µs   <1%  ╸
        ├─ 評価サーバー ✗ timeout                                      9m 59s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
        │  └─ model.load not ended                                     6m 40s   67%                                           ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
        │     └─ weights�[2J ✗ error                                   1m 39s   16%                                                                                                        ╺━━━━━━━━━━━━━━━━━━━╸
        ├─ very_long_name_very_long_name_very_long_name_very_long_n…   6m 39s   66%  ──────────────────────────────────────────────────────────────────────────────────
        ├─ clock set back                                             -1.00 s          ╎
        └─ nothing at all                                                 0 s    0%                                                               ╎
        circle a                                                       10.0 s    2%      ━━
        └─ circle b                                                    6.00 s    1%      ╺╸
        orphan                                                         1.00 s   <1%                                                                                                                            ╺
        ");
    }

    #[test]
    fn of_many_servers_the_slowest_are_drawn() {
        let mut spans = vec![span(1, 0, "gym.startup", 0, 30 * S)];
        for number in 0..300 {
            let took = 1_000 * MS + number * 7919 % 300 * 90 * MS;
            let failed = number == 42;
            let server = server(number + 2, &format!("server_{number}"), number * MS, took);
            spans.push(Entry { is_error: failed, ..server });
        }
        let look = Look { most_children: 6, ..look(80) };
        assert_snapshot!(draw(&spans, &look), @r"
        gym.startup                 30.0 s  100%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
        ├─ server_5                 27.5 s   92%  ──────────────────────────────────╴
        ├─ server_42 ✗ error        18.8 s   63%  ───────────────────────╴
        ├─ server_63                27.7 s   92%  ───────────────────────────────────
        ├─ server_121               27.8 s   93%  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
        ├─ server_184               27.5 s   92%  ───────────────────────────────────
        ├─ server_242               27.6 s   92%  ───────────────────────────────────
        └─ 294 more servers, up to  27.3 s   91%  ──────────────────────────────────╴
        ");
    }

    #[test]
    fn colours_tell_the_path_and_what_failed() {
        let text = draw(&extremes(), &Look { colour: true, ..look(40) });
        assert_snapshot!(text.replace('\x1b', "^"), @r"
        ^[1mgym.sta…^[0m^[31m ✗ timeo…^[0m  ^[1m10m 00s^[0m  ^[31m━━━━━━━━━━━━^[0m
        ^[2m├ ^[0m^[1mload_config^[0m      ^[1m1.00 µs^[0m  ^[1m^[33m╸^[0m
        ^[2m├ ^[0m^[1m評価サ…^[0m^[31m ✗ time…^[0m  ^[1m 9m 59s^[0m  ^[31m━━━━━━━━━━━━^[0m
        ^[2m│ └ ^[0m^[1mmodel…^[0m^[31m not e…^[0m  ^[1m 6m 40s^[0m      ^[1m^[33m━━━━━━━━^[0m
        ^[2m│   └ ^[0m^[1mweig…^[0m^[31m ✗ er…^[0m  ^[1m 1m 39s^[0m            ^[31m━╸^[0m
        ^[2m├ ^[0mvery_long_name…   6m 39s  ^[34m────────^[0m
        ^[2m├ ^[0mclock set back   -1.00 s  ^[34m╎^[0m
        ^[2m└ ^[0mnothing at all       0 s        ^[34m╎^[0m
        ^[1mcircle a^[0m           ^[1m 10.0 s^[0m  ^[1m^[33m╸^[0m
        ^[2m└ ^[0m^[1mcircle b^[0m         ^[1m 6.00 s^[0m  ^[1m^[33m╸^[0m
        ^[1morphan^[0m             ^[1m 1.00 s^[0m             ^[1m^[33m╺^[0m
        ");
    }

    #[test]
    fn no_line_is_longer_than_the_terminal_is_wide() {
        for spans in [startup(), extremes()] {
            for width in NARROWEST..240 {
                let text = draw(&spans, &look(width));
                for line in text.lines() {
                    assert!(line.width() <= width, "{width}: {} {line}", line.width());
                }
            }
        }
    }

    fn any_entry(time: impl Strategy<Value = u64> + Clone) -> impl Strategy<Value = Entry> {
        let ids = (0..12_u64, proptest::option::of(0..12_u64));
        let times = (time.clone(), proptest::option::of(time));
        let name = prop_oneof![Just(SERVER.to_owned()), Just("gym.startup".to_owned()), ".{0,40}"];
        let said = (name, proptest::option::of(".{0,20}"), any::<bool>());
        (ids, times, said).prop_map(|((id, parent), (start_ns, end_ns), said)| Entry {
            id,
            parent,
            name: said.0,
            start_ns,
            end_ns,
            server: said.1.clone(),
            pid: None,
            outcome: said.1,
            is_error: said.2,
        })
    }

    proptest! {
        #[test]
        fn whatever_the_spans_say_they_are_drawn(
            entries in vec(any_entry(any::<u64>()), 0..30),
            width in 0..250_usize,
            unicode: bool,
            most_children in 0..5_usize,
        ) {
            let look = Look { width, unicode, colour: false, most_children };
            let text = draw(&entries, &look);
            prop_assert_eq!(text.is_empty(), entries.is_empty());
            prop_assert!(unicode || text.is_ascii());
        }

        #[test]
        fn whatever_the_names_are_lines_fit(
            entries in vec(any_entry(0..4_000_000_000_000_u64), 0..30),
            width in NARROWEST..250,
        ) {
            for line in draw(&entries, &look(width)).lines() {
                prop_assert!(line.width() <= width, "{} {}", line.width(), line);
            }
        }
    }

    #[test]
    fn any_forest_is_drawn() {
        assert_eq!(draw(&[], &look(80)), "");
        let deep: Vec<_> = (1..2_000).map(|id| span(id, id - 1, "deep", 0, S)).collect();
        assert_eq!(draw(&deep, &look(40)).lines().count(), deep.len());
        let itself = [span(1, 1, "itself", 0, 0)];
        assert_eq!(draw(&itself, &look(40)).lines().count(), 1);
    }
}
