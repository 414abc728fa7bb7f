//! Startups for people: on a terminal, or in text of a certain width.

use std::collections::HashSet;
use std::io;

use anstyle::Style;

use super::stages::{Timed, timed};
use super::startup::Startup;
use super::summary::{self, Longest, Row};
use crate::columns::{Column, lines};
use crate::terminal;
use crate::waterfall::{self, Look};
use crate::words::{counted, date, duration, wrapped};

/// Where neither a terminal nor COLUMNS says how wide it is.
const USUAL_WIDTH: usize = 100;
/// More servers than this are folded in the waterfall.
const MOST_CHILDREN: usize = 12;
/// Narrower than this there is no room for what can be looked up elsewhere.
pub const NARROW: usize = 60;

pub const STRONG: Style = Style::new().bold();
pub const FAINT: Style = Style::new().dimmed();

/// What standard output can show.
pub fn look() -> Look {
    let env = |name: &str| std::env::var_os(name);
    let is_terminal = io::IsTerminal::is_terminal(&io::stdout());
    Look {
        width: terminal::width(io::stdout(), USUAL_WIDTH),
        unicode: terminal::is_unicode(&env),
        colour: is_terminal && terminal::colours(&env),
        most_children: MOST_CHILDREN,
    }
}

/// The startup: a line about it, what its servers took if they are many, and its waterfall.
pub fn text(startup: &Startup, look: &Look) -> String {
    let timed = timed(startup);
    let mut text = heading(&startup.title(), startup, &timed, look);
    if let Some(longest) = Longest::of_many(&timed) {
        text.push('\n');
        text.push_str(&table(&longest, look));
    }
    text.push('\n');
    text.push_str(&waterfall::draw(&startup.entries(), look));
    text
}

/// Which startup it is, when, how long, how it ended, and of what.
pub fn heading(what: &str, startup: &Startup, timed: &[Timed], look: &Look) -> String {
    let words = format!("{what}: {}", facts(startup, timed, look));
    painted(STRONG, &wrapped(&words, look.width, look.unicode), look)
}

/// The same in one plain line.
pub fn summary(startup: &Startup, look: &Look) -> String {
    format!("{}: {}", startup.title(), facts(startup, &timed(startup), look))
}

fn facts(startup: &Startup, timed: &[Timed], look: &Look) -> String {
    let spans = &startup.spans;
    let mut facts = vec![date(startup.start_ns()), duration(startup.length_ns(), look.unicode)];
    facts.extend(startup.ending());
    let nodes: HashSet<_> = spans.iter().filter_map(|span| span.node.as_deref()).collect();
    facts.push(match summary::servers(timed) {
        0 => counted(spans.len(), "span", "spans"),
        servers => counted(servers, "server", "servers"),
    });
    if !nodes.is_empty() {
        facts.push(counted(nodes.len(), "node", "nodes"));
    }
    facts.join(", ")
}

/// For each stage how long it took the servers.
fn table(longest: &Longest, look: &Look) -> String {
    let rows = &longest.rows;
    let has_counts = look.width >= NARROW;
    let has_nodes = look.width >= NARROW && rows.iter().any(|row| row.node.is_some());
    let mut columns = vec![Column::Text("stage")];
    columns.extend(has_counts.then_some(Column::Number("count")));
    columns.extend([Column::Number("p50"), Column::Number("max"), Column::Text("slowest")]);
    columns.extend(has_nodes.then_some(Column::Text("node")));
    let cells = |row: &Row| {
        let time = |ns| duration(ns, look.unicode);
        let mut cells = vec![shortened(&row.place, look)];
        cells.extend(has_counts.then(|| row.count.to_string()));
        cells.extend([time(row.p50_ns), time(row.max_ns), row.slowest.clone()]);
        cells.extend(has_nodes.then(|| row.node.clone().unwrap_or_default()));
        cells
    };
    let cells: Vec<_> = rows.iter().map(cells).collect();
    let mut text = String::new();
    for (number, line) in lines(&columns, &cells, look.width, look.unicode).iter().enumerate() {
        let style = if number == 0 { FAINT } else { Style::new() };
        text.push_str(&painted(style, line, look));
        text.push('\n');
    }
    if let Some(words) = longest.others(look.unicode) {
        text.push_str(&painted(FAINT, &words, look));
        text.push('\n');
    }
    text
}

/// A place; where there is little room, the end of it.
pub fn shortened(place: &str, look: &Look) -> String {
    let end = place.rsplit(" / ").next().filter(|_| look.width < NARROW);
    end.unwrap_or(place).to_owned()
}

/// In that style, if there are colours; a newline at the end stays the last.
pub fn painted(style: Style, text: &str, look: &Look) -> String {
    let inner = text.trim_end_matches('\n');
    match look.colour && style != Style::new() && !inner.is_empty() {
        true => format!("{style}{inner}{style:#}{}", text.get(inner.len()..).unwrap_or("")),
        false => text.to_owned(),
    }
}
