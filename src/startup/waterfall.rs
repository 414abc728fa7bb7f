//! Spans as a tree with bars: where the time went, for a terminal of any width.

mod forest;
mod table;
#[cfg(test)]
mod tests;

use gym_stamp::spans::{self, SpanRecord, Status};
use opentelemetry::Value;

use forest::Forest;
use table::Table;

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

/// For each of `entries` whether it is on the longest path of its root.
pub fn critical(entries: &[Entry]) -> Vec<bool> {
    Forest::new(entries).critical()
}

/// Entries as a tree, for drawings other than text.
pub struct Tree {
    /// The first start and the last end.
    pub start_ns: u64,
    pub end_ns: u64,
    /// Every entry, in the order in which [`draw`] has them.
    pub lines: Vec<Line>,
}

/// An entry in its place in the tree, in the terminal's words.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// Which of the entries it is.
    pub index: usize,
    /// How many are above it.
    pub level: usize,
    pub label: String,
    /// How it ended, unless all went well.
    pub outcome: Option<String>,
    /// To the end of the whole, if it has not ended.
    pub length_ns: i128,
    pub share: String,
    /// Whether it is on the longest path.
    pub critical: bool,
}

/// The tree that [`draw`] draws, with nothing left out.
pub fn tree(entries: &[Entry]) -> Tree {
    let forest = Forest::new(entries);
    Tree { start_ns: forest.start_ns, end_ns: forest.end_ns, lines: forest.lines() }
}
