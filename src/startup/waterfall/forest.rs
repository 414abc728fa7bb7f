//! Entries as a tree: which of them are on the longest path, and which lines are drawn.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::table::{Glyphs, share};
use super::{Entry, Line, Look};
use crate::tree::Tree;
use crate::words::tail;

/// The span of one server, as its supervisor saw it.
pub const SERVER: &str = "gym.startup.server";

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

/// The entries in their tree, and in time.
pub struct Forest<'e> {
    entries: &'e [Entry],
    tree: Tree,
    pub start_ns: u64,
    pub end_ns: u64,
}

impl<'e> Forest<'e> {
    pub fn new(entries: &'e [Entry]) -> Self {
        // What somebody says of themselves comes after what others saw.
        let place = |entry: &Entry| (kind(entry) == Kind::Report, entry.start_ns);
        let ends = entries.iter().map(|entry| entry.end_ns.unwrap_or(entry.start_ns));
        Self {
            entries,
            tree: Tree::new(&entries.iter().collect::<Vec<_>>(), place),
            start_ns: entries.iter().map(|entry| entry.start_ns).min().unwrap_or(0),
            end_ns: ends.max().unwrap_or(0),
        }
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
    pub fn critical(&self) -> Vec<bool> {
        let mut critical = vec![false; self.entries.len()];
        let mut to_do = self.tree.roots.clone();
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
            || self.tree.children(index).iter().filter_map(|it| Some((*it, self.entry(*it)?)));
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
            let mut has_server = false;
            for (index, entry) in family {
                // All servers start at once: none waits for another.
                let is_next_server = entry.name == SERVER && has_server;
                let ends_before = self.end_ns(entry) <= until.saturating_add(overlap);
                if ends_before && entry.start_ns < until && !is_next_server {
                    path.push(index);
                    has_server |= entry.name == SERVER;
                    until = entry.start_ns;
                }
            }
        }
        path
    }

    /// Every entry in its place in the tree.
    pub fn lines(&self) -> Vec<Line> {
        let critical = self.critical();
        let total_ns = self.end_ns.saturating_sub(self.start_ns);
        let mut lines = Vec::new();
        // What is still to be told, the next at the end.
        let mut to_do: Vec<_> =
            self.tree.roots.iter().rev().map(|index| (*index, None, 0_usize)).collect();
        while let Some((index, parent, level)) = to_do.pop() {
            let Some(entry) = self.entry(index) else { continue };
            let below = self.tree.children(index).iter().rev();
            to_do.extend(below.map(|child| (*child, Some(entry), level.saturating_add(1))));
            let length_ns = self.length_ns(entry);
            lines.push(Line {
                index,
                level,
                label: label(entry, parent),
                outcome: outcome(entry),
                length_ns,
                share: share(length_ns, total_ns),
                critical: critical.get(index) == Some(&true),
            });
        }
        lines
    }

    /// What to draw, line by line.
    pub fn rows(&self, critical: &[bool], look: &Look) -> Vec<Row> {
        let glyphs = Glyphs::of(look);
        let mut rows = Vec::new();
        let roots = self.items(&self.tree.roots, critical, look).into_iter();
        // What is still to be drawn, the next at the end.
        let mut to_do: Vec<_> = roots.rev().map(Branch::root).collect();
        while let Some(branch) = to_do.pop() {
            if let Item::Entry(index) = branch.item {
                let children = self.items(self.tree.children(index), critical, look);
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

/// A line of the drawing.
pub struct Row {
    /// The branches that lead to it.
    pub tree: String,
    pub label: String,
    pub outcome: Option<String>,
    pub start_ns: u64,
    pub end_ns: Option<u64>,
    pub critical: bool,
    pub is_error: bool,
}
