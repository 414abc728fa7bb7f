//! The page for a browser: one file that needs nothing else.
//!
//! What is said here is text in a block of JSON, and the script puts it in as text: no name can be
//! markup. Were one to be, the policy in the head, which knows style and script by their hashes and
//! allows nothing else, would leave it without effect.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use serde::Serialize;

use super::startup::{Span, Startup};
use crate::waterfall::{self, Entry, Line};
use crate::words::{duration, harmless};

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = concat!(
    include_str!("page/page.css"),
    include_str!("page/rows.css"),
    include_str!("page/about.css"),
    include_str!("page/media.css"),
);
/// One module.
const SCRIPT: &str = concat!(
    include_str!("page/startup.js"),
    include_str!("page/rows.js"),
    include_str!("page/about.js"),
    include_str!("page/search.js"),
    include_str!("page/page.js"),
);

/// The page of `startups`. `notes` are sentences about all of them.
pub fn page(startups: &[Startup], notes: &[String]) -> String {
    let data = Data {
        notes: notes.iter().map(|note| text(note)).collect(),
        startups: startups.iter().map(Section::new).collect(),
    };
    let parts = [
        ("{style-hash}", hash(STYLE)),
        ("{script-hash}", hash(SCRIPT)),
        ("{style}", STYLE.to_owned()),
        ("{data}", embedded(&data)),
        ("{script}", SCRIPT.to_owned()),
    ];
    let mut page = String::new();
    let mut rest = PAGE;
    // In the order of the page: what was put in is not looked through again.
    for (place, part) in parts {
        if let Some((before, after)) = rest.split_once(place) {
            page.extend([before, &part]);
            rest = after;
        }
    }
    page + rest
}

fn hash(content: &str) -> String {
    format!("sha256-{}", STANDARD.encode(digest(&SHA256, content.as_bytes())))
}

/// JSON that ends no script, whatever is in it.
fn embedded(data: &Data) -> String {
    let json = serde_json::to_string(data).unwrap_or_default();
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// What the script gets. Times are ns since the start of the startup: a number of JavaScript's has
/// no room for ns since the epoch.
#[derive(Serialize)]
struct Data {
    notes: Vec<String>,
    startups: Vec<Section>,
}

/// A startup.
#[derive(Serialize)]
struct Section {
    title: String,
    /// Since the epoch, in decimal.
    start_ns: String,
    length_ns: u64,
    length: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    failed: bool,
    servers: Vec<String>,
    nodes: Vec<String>,
    rows: Vec<Row>,
}

impl Section {
    fn new(startup: &Startup) -> Self {
        let entries: Vec<Entry> = startup.spans.iter().map(|span| span.entry.clone()).collect();
        let tree = waterfall::tree(&entries);
        let spans = || tree.lines.iter().filter_map(|it| Some((it, startup.spans.get(it.index)?)));
        let roots = || spans().filter(|(line, _)| line.level == 0);
        let length_ns = tree.end_ns.saturating_sub(tree.start_ns);
        Self {
            title: startup.title(),
            start_ns: tree.start_ns.to_string(),
            length_ns,
            length: duration(length_ns.into(), true),
            outcome: roots()
                .find_map(|(line, span)| span.entry.outcome.as_ref().or(line.outcome.as_ref()))
                .map(|outcome| name(outcome)),
            failed: roots().any(|(_, span)| span.entry.is_error),
            servers: distinct(spans().filter_map(|(_, span)| span.entry.server.as_deref())),
            nodes: distinct(spans().filter_map(|(_, span)| span.node.as_deref())),
            rows: spans().map(|(line, span)| Row::new(line, span, tree.start_ns)).collect(),
        }
    }
}

/// A span in its place in the tree.
#[derive(Serialize)]
struct Row {
    level: usize,
    label: String,
    name: String,
    start: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<i128>,
    duration: String,
    share: String,
    critical: bool,
    failed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i64>,
    attributes: Vec<(String, String)>,
}

impl Row {
    fn new(line: &Line, span: &Span, origin_ns: u64) -> Self {
        let entry = &span.entry;
        let optional = |it: &Option<String>| it.as_deref().map(name);
        Self {
            level: line.level,
            label: name(&line.label),
            name: name(&entry.name),
            start: entry.start_ns.saturating_sub(origin_ns),
            // Before the start of all, if the clock was set back.
            end: entry.end_ns.map(|end| i128::from(end).saturating_sub(origin_ns.into())),
            duration: duration(line.length_ns, true),
            share: line.share.clone(),
            critical: line.critical,
            failed: entry.is_error,
            outcome: optional(&line.outcome),
            error: span.error.as_deref().map(text),
            server: optional(&entry.server),
            node: optional(&span.node),
            pid: entry.pid,
            attributes: span
                .attributes
                .iter()
                .map(|(key, value)| (name(key), text(value)))
                .collect(),
        }
    }
}

/// A name, with what would not show in it made visible.
fn name(name: &str) -> String {
    harmless(name, true).into_owned()
}

/// [`name`] for what may have more than one line.
fn text(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(name).collect();
    lines.join("\n")
}

fn distinct<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<String> {
    let mut seen = HashSet::new();
    texts.filter(|it| seen.insert(*it)).map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_the_script_that_holds_it() {
        let page = page(&[], &["</script>\u{2028}<!--\u{7}\n{script}".to_owned()]);
        let notes = r#""notes":["\u003c/script>\u2028\u003c!--�\n{script}"]"#;
        assert!(page.contains(notes), "{page}");
        assert_eq!(page.matches("</script>").count(), 2);
    }
}
