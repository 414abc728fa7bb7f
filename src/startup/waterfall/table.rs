//! Lines with their columns: a name, a duration, a share, a bar.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr;

use super::Look;
use super::forest::{Forest, Row};
use crate::words::{duration, fit, harmless, padded, right, tail};

/// The least that is worth drawing for; a narrower terminal wraps.
pub const NARROWEST: usize = 24;
/// Narrower than this, what stands for a level of the tree gets a column less.
const NARROW: usize = 60;
/// Bars with this many columns have a scale above them; those with that many, of quarters.
const WITH_SCALE: usize = 24;
const WITH_QUARTERS: usize = 40;

/// What the tree and the bars are drawn with.
pub struct Glyphs {
    pub branch: &'static str,
    pub last_branch: &'static str,
    pub trunk: &'static str,
    pub no_branch: &'static str,
    cross: &'static str,
    /// A bar's left half, whole and right half column, and what has no length.
    critical: [char; 4],
    other: [char; 4],
}

impl Glyphs {
    pub fn of(look: &Look) -> &'static Self {
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
pub struct Table<'l> {
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
    pub fn new(forest: &Forest<'_>, rows: Vec<Row>, look: &'l Look) -> Self {
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

    pub fn text(&self) -> String {
        let mut text = String::new();
        if self.bar_width >= WITH_SCALE && self.total_ns > 0 {
            self.scale(&mut text);
        }
        for (row, duration, share) in &self.rows {
            self.line(&mut text, row, duration, share);
        }
        text
    }

    /// What the heavy bars are, and the times at the quarters or the half of all.
    fn scale(&self, text: &mut String) {
        let before = self.label_width.saturating_add(self.duration_width);
        let before = before.saturating_add(self.share_width).saturating_add(2 * GAP);
        let [_, heavy, ..] = Glyphs::of(self.look).critical;
        let legend = format!("{heavy} the longest path");
        let mut line = padded(&fit(&legend, before, self.look.unicode), before);
        let step = if self.bar_width < WITH_QUARTERS { 2 } else { 1 };
        for quarter in (0..=4_u64).step_by(step) {
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

/// `<1%`, `42%`; nothing where there is no whole, or the clock was set back meanwhile.
pub fn share(length_ns: i128, total_ns: u64) -> String {
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
