//! The stages of a startup by their places, so that those of many servers, or of two startups, can
//! be put side by side.

use std::collections::HashMap;
use std::fmt;

use gym_stamp::spans::SERVER_TYPE;

use super::startup::{REPORT, ROOT, SERVER, Span, Startup, WORKER};
use crate::tree::Tree;
use crate::words::cut;

/// The place of a server from its spawn to its first answer.
pub const UNTIL_READY: &str = "until ready";
/// The place of what a server says itself, where nobody has seen it from outside.
pub const OWN_REPORT: &str = "its own report";

/// Nobody tells stages apart that are further down; but a file may go down without an end.
const DEEPEST: usize = 8;
/// In characters: no stage's name is as long.
const LONGEST_NAME: usize = 100;

/// A server by its name and its type; there may be several of one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Server {
    pub name: String,
    pub server_type: Option<String>,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, server_type } = self;
        match server_type {
            Some(server_type) => write!(f, "{name} ({server_type})"),
            None => f.write_str(name),
        }
    }
}

/// What took how long.
#[derive(Clone, Debug)]
pub struct Timed {
    /// `None` for what is the supervisor's own.
    pub server: Option<Server>,
    /// `venv_setup`, `venv_setup / uv venv`, `init_server #2` for the second of that name.
    pub place: String,
    pub ns: i128,
    /// Where it ran; of what only the supervisor tells, where the supervisor did.
    pub node: Option<String>,
}

/// What has ended of `startup`, less the startup as a whole: what is above is before what is
/// beneath.
pub fn timed(startup: &Startup) -> Vec<Timed> {
    let stages = Stages::new(startup);
    let mut all = Vec::new();
    let mut to_do = Vec::new();
    stages.push(&stages.tree.roots, None, &mut to_do);
    while let Some((index, occurrence, above)) = to_do.pop() {
        let Some(span) = startup.spans.get(index) else { continue };
        let here = Here::new(span, occurrence, stages.reported_from(index), above.as_ref());
        if let Some(ns) = span.length_ns()
            && span.entry.name != ROOT
            && !stages.is_seen_from_outside(index)
        {
            let Here { server, place, node, .. } = here.clone();
            all.push(Timed { server, place, ns, node });
        }
        stages.push(stages.tree.children(index), Some(&here), &mut to_do);
    }
    all
}

/// Where a span stands.
#[derive(Clone)]
struct Here {
    server: Option<Server>,
    place: String,
    /// How many steps it is beneath a stage, and how much of its place is that of what is above it.
    depth: usize,
    above_len: usize,
    node: Option<String>,
}

impl Here {
    /// As the `occurrence`th of its name under the one above; `reported_from` is where the server
    /// that it stands for reports from.
    fn new(
        span: &Span,
        occurrence: usize,
        reported_from: Option<&str>,
        above: Option<&Self>,
    ) -> Self {
        let name = span.entry.name.as_str();
        let mut beneath = (0, 0);
        let (is_servers, place) = match name {
            ROOT => (false, String::new()),
            SERVER => (true, UNTIL_READY.to_owned()),
            REPORT => (true, OWN_REPORT.to_owned()),
            WORKER => (true, "worker".to_owned()),
            _ => stage(name).unwrap_or_else(|| {
                let above = above.and_then(Self::as_stage);
                beneath = above.map_or((0, 0), |(depth, above)| (depth, above.len()));
                (true, step(name, above.map(|(_, above)| above)))
            }),
        };
        let (depth, above_len) = beneath;
        // Workers, and servers of one name, are replicas: none comes after another.
        let place = match (name, occurrence) {
            (SERVER | REPORT | WORKER, _) | (_, 0 | 1) => place,
            _ => format!("{place} #{occurrence}"),
        };
        let own = || {
            let name = span.entry.server.clone().filter(|name| !name.is_empty())?;
            Some(Server { name, server_type: span.attribute(SERVER_TYPE).map(str::to_owned) })
        };
        let inherited = above.and_then(|above| above.server.clone());
        let node = match name {
            SERVER => reported_from.or(span.node.as_deref()).map(str::to_owned),
            _ if name.starts_with(REPORT) => span.node.clone(),
            _ => above.and_then(|above| above.node.clone()).or_else(|| span.node.clone()),
        };
        let server = if is_servers { inherited.or_else(own) } else { None };
        Self { server, place, depth, above_len, node }
    }

    /// What a step beneath it stands beneath, and how deep: where that is too deep, it stands beside.
    fn as_stage(&self) -> Option<(usize, &str)> {
        match self.place.as_str() {
            "" | UNTIL_READY | OWN_REPORT => None,
            _ if self.depth >= DEEPEST => Some((self.depth, self.place.get(..self.above_len)?)),
            place => Some((self.depth.saturating_add(1), place)),
        }
    }
}

/// Of a stage's span: whether it is a server's, and its place.
fn stage(name: &str) -> Option<(bool, String)> {
    let spans = [
        ("gym.server.startup.worker.", true, "worker / "),
        ("gym.server.startup.", true, ""),
        ("gym.startup.server.", true, ""),
        ("gym.startup.", false, ""),
    ];
    spans.into_iter().find_map(|(before, is_servers, place)| {
        name.strip_prefix(before)
            .map(|stage| (is_servers, format!("{place}{}", cut(stage, LONGEST_NAME))))
    })
}

/// The place of what is beneath a stage, if it is.
fn step(name: &str, above: Option<&str>) -> String {
    let name = cut(name, LONGEST_NAME);
    above.map_or_else(|| name.to_string(), |above| format!("{above} / {name}"))
}

struct Stages<'s> {
    spans: &'s [Span],
    tree: Tree,
}

impl<'s> Stages<'s> {
    fn new(startup: &'s Startup) -> Self {
        let spans = startup.spans.as_slice();
        let entries: Vec<_> = spans.iter().map(|span| &span.entry).collect();
        Self { spans, tree: Tree::new(&entries, |entry| entry.start_ns) }
    }

    /// Puts `siblings` on the stack, each with the number of those of its name so far.
    fn push(
        &self,
        siblings: &[usize],
        above: Option<&Here>,
        to_do: &mut Vec<(usize, usize, Option<Here>)>,
    ) {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        let first = to_do.len();
        for index in siblings {
            let Some(span) = self.spans.get(*index) else { continue };
            let count = counts.entry(span.entry.name.as_str()).or_default();
            *count = count.saturating_add(1);
            to_do.push((*index, *count, above.cloned()));
        }
        if let Some(pushed) = to_do.get_mut(first..) {
            pushed.reverse();
        }
    }

    /// The node of a server that says more itself.
    fn reported_from(&self, index: usize) -> Option<&str> {
        let children = self.tree.children(index).iter().filter_map(|it| self.spans.get(*it));
        let mut reports =
            children.filter(|span| [REPORT, WORKER].contains(&span.entry.name.as_str()));
        reports.find_map(|span| span.node.as_deref())
    }

    /// Whether it is what a server says itself of what its supervisor has seen: that would count
    /// twice.
    fn is_seen_from_outside(&self, index: usize) -> bool {
        let name = |index: usize| self.spans.get(index).map(|span| span.entry.name.as_str());
        let above = self.tree.parent(index);
        match name(index) {
            Some(REPORT) => above.and_then(name) == Some(SERVER),
            Some("gym.server.startup.venv_setup") => {
                let server = above.and_then(|above| self.tree.parent(above));
                let seen = server.map_or(&[][..], |server| self.tree.children(server));
                seen.iter().any(|it| name(*it) == Some("gym.startup.server.venv_setup"))
            }
            _ => false,
        }
    }
}

/// The one in the middle, or what is between the two that are.
pub fn median(values: &mut [i128]) -> Option<i128> {
    values.sort_unstable();
    let upper = values.get(values.len() / 2)?;
    let lower = values.get(values.len().checked_sub(1)? / 2)?;
    Some(lower.midpoint(*upper))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waterfall::Entry;

    #[test]
    fn a_place_does_not_grow_without_an_end() {
        let spans = (0..1_000).map(|id: u64| {
            let name = if id == 0 { "gym.startup.server.venv_setup" } else { "a / b / c / d / e" };
            let parent = id.checked_sub(1);
            let entry = Entry { id, parent, name: name.to_owned(), ..Entry::default() };
            Span { entry: Entry { end_ns: Some(1), ..entry }, ..Span::default() }
        });
        let places = |spans: Vec<Span>| timed(&Startup { trace_id: None, spans });
        let all = places(spans.collect());
        let longest = all.iter().max_by_key(|it| it.place.len()).map(|it| it.place.as_str());
        let deepest = format!("venv_setup{}", " / a / b / c / d / e".repeat(DEEPEST));
        assert_eq!((all.len(), longest), (1_000, Some(deepest.as_str())));

        let entry = Entry { name: "é".repeat(1 << 20), end_ns: Some(1), ..Entry::default() };
        let all = places(vec![Span { entry, ..Span::default() }]);
        assert_eq!(all.first().map(|it| it.place.chars().count()), Some(LONGEST_NAME + 1));
    }
}
