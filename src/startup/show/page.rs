//! The page for a browser: one file that needs nothing else.
//!
//! What is said here is text in a block of JSON, and the script puts it in as text: no name can be
//! markup. Were one to be, the policy in the head, which knows style and script by their hashes and
//! allows nothing else, would leave it without effect.

use std::collections::HashSet;
use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use super::stages::timed;
use super::startup::{Span, Startup};
use super::summary::{self, Longest};
use crate::waterfall::{self, Line, Tree};
use crate::words::{cut, duration, harmless};

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

/// What is longer is cut, in characters: whoever needs all of it has the file.
const LONGEST_TEXT: usize = 2_000;

/// Writes the page of `startups`. `notes` are sentences about all of them.
pub fn write(out: &mut impl Write, startups: &[Startup], notes: &[String]) -> io::Result<()> {
    let data = Data { notes: notes.iter().map(|note| text(note)).collect(), startups };
    let mut rest = PAGE;
    let mut until = |place| {
        let (before, after) = rest.split_once(place).unwrap_or((rest, ""));
        rest = after;
        before.as_bytes()
    };
    out.write_all(until("{style-hash}"))?;
    out.write_all(hash(STYLE).as_bytes())?;
    out.write_all(until("{script-hash}"))?;
    out.write_all(hash(SCRIPT).as_bytes())?;
    out.write_all(until("{style}"))?;
    out.write_all(STYLE.as_bytes())?;
    out.write_all(until("{data}"))?;
    data.serialize(&mut Serializer::with_formatter(&mut *out, Embedded))?;
    out.write_all(until("{script}"))?;
    out.write_all(SCRIPT.as_bytes())?;
    out.write_all(rest.as_bytes())
}

fn hash(content: &str) -> String {
    format!("sha256-{}", STANDARD.encode(digest(&SHA256, content.as_bytes())))
}

/// JSON that ends no script, whatever is in it.
struct Embedded;

impl Formatter for Embedded {
    fn write_string_fragment<W>(&mut self, out: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + Write,
    {
        for (number, piece) in fragment.split('<').enumerate() {
            if number > 0 {
                out.write_all(br"\u003c")?;
            }
            out.write_all(piece.as_bytes())?;
        }
        Ok(())
    }
}

/// What the script gets. Times are ns since the start of the startup: a number of JavaScript's has
/// no room for ns since the epoch.
///
/// Sections and their rows are made when they are written: all at once they would take several
/// times the room of what they show.
#[derive(Serialize)]
struct Data<'s> {
    notes: Vec<String>,
    #[serde(serialize_with = "sections")]
    startups: &'s [Startup],
}

fn sections<S: serde::Serializer>(startups: &[Startup], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(startups.iter().map(Section::new))
}

/// A startup.
#[derive(Serialize)]
struct Section<'s> {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<Summary>,
    rows: Rows<'s>,
}

impl<'s> Section<'s> {
    fn new(startup: &'s Startup) -> Self {
        let tree = waterfall::tree(&startup.entries());
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
                .cloned()
                .or_else(|| startup.ending())
                .map(|outcome| name(&outcome)),
            failed: roots().any(|(_, span)| span.entry.is_error),
            servers: distinct(spans().filter_map(|(_, span)| span.entry.server.as_deref())),
            nodes: distinct(spans().filter_map(|(_, span)| span.node.as_deref())),
            summary: Summary::of(startup),
            rows: Rows { startup, tree },
        }
    }
}

/// For each stage how long it took the servers, where they are many.
#[derive(Serialize)]
struct Summary {
    servers: usize,
    /// Stage, count, median, maximum, slowest server and its node.
    rows: Vec<[String; 6]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    others: Option<String>,
}

impl Summary {
    fn of(startup: &Startup) -> Option<Self> {
        let timed = timed(startup);
        let longest = Longest::of_many(&timed)?;
        let time = |ns| duration(ns, true);
        let cells = |row: &summary::Row| {
            let node = row.node.as_deref().map(name).unwrap_or_default();
            let [p50, max] = [row.p50_ns, row.max_ns].map(time);
            [name(&row.place), row.count.to_string(), p50, max, name(&row.slowest), node]
        };
        let rows = longest.rows.iter().map(cells).collect();
        Some(Self { servers: summary::servers(&timed), rows, others: longest.others(true) })
    }
}

struct Rows<'s> {
    startup: &'s Startup,
    tree: Tree,
}

impl Serialize for Rows<'_> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { startup, tree } = self;
        to.collect_seq(
            tree.lines.iter().filter_map(|line| {
                Some(Row::new(line, startup.spans.get(line.index)?, tree.start_ns))
            }),
        )
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
    harmless(&cut(name, LONGEST_TEXT), true).into_owned()
}

/// [`name`] for what may have more than one line.
fn text(text: &str) -> String {
    let text = cut(text, LONGEST_TEXT);
    let lines: Vec<_> = text.lines().map(|line| harmless(line, true)).collect();
    lines.join("\n")
}

fn distinct<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<String> {
    let mut seen = HashSet::new();
    texts.filter(|it| seen.insert(*it)).map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(startups: &[Startup], note: &str) -> io::Result<String> {
        let mut page = Vec::new();
        write(&mut page, startups, &[note.to_owned()])?;
        String::from_utf8(page).map_err(io::Error::other)
    }

    #[test]
    fn no_text_ends_the_script_that_holds_it() -> io::Result<()> {
        let page = page(&[], "</script>\u{2028}<!--\u{7}\n{script}")?;
        let notes = r#""notes":["\u003c/script>�\u003c!--�\n{script}"]"#;
        assert!(page.contains(notes), "{page}");
        assert_eq!(page.matches("</script>").count(), 2);
        Ok(())
    }

    #[test]
    fn a_long_text_is_cut() -> io::Result<()> {
        let attributes = vec![("long".to_owned(), "<é".repeat(1 << 20))];
        let span = Span { attributes, ..Span::default() };
        let page = page(&[Startup { trace_id: None, spans: vec![span] }], "")?;
        let cut = format!(r#"["long","{}…"]"#, "\\u003cé".repeat(1_000));
        assert!(page.contains(&cut), "{} bytes", page.len());
        Ok(())
    }
}
