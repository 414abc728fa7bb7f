//! What does not fit together in a startup: spans whose parents are missing, clocks that disagree.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use gym_stamp::server::{INTERPRETER_START, VENV_SETUP};

use super::startup::{REPORT, ROOT, SERVER, Span, Startup};
use crate::words::{counted, duration};

/// What clocks may differ by before it is worth a word: those of a cluster are kept closer.
const TOLERANCE_NS: i128 = 50_000_000;
/// How many of a kind are named.
const NAMED: usize = 3;

/// By whose clock disagrees with whose: how much, and which span shows it.
type Disagreements<'s> = BTreeMap<(&'s str, &'s str), (i128, &'s Span)>;
type Disagreement<'s> = ((&'s str, &'s str), (i128, &'s Span));

/// Sentences, without their full stops, about `startup`.
pub fn notes(startup: &Startup, unicode: bool) -> Vec<String> {
    let by_id: HashMap<u64, &Span> =
        startup.spans.iter().map(|span| (span.entry.id, span)).collect();
    let in_parts = "only stages are recorded, and no span of a whole startup: how it ended, and \
                    when, is not known";
    let in_parts = startup.is_in_parts().then(|| in_parts.to_owned());
    let mut notes: Vec<String> = in_parts.into_iter().chain(orphans(startup, &by_id)).collect();
    notes.extend(clocks(startup, &by_id, unicode));
    notes.extend(set_back(startup, unicode));
    notes
}

/// The sentences about all of `startups`; of several, each says which one it is about.
pub fn of_all(startups: &[Startup], unicode: bool) -> Vec<String> {
    let of_one = |startup: &Startup| {
        let which = match startups {
            [_] => String::new(),
            _ => format!("{}: ", startup.title()),
        };
        notes(startup, unicode).into_iter().map(move |note| format!("{which}{note}"))
    };
    startups.iter().flat_map(of_one).collect()
}

/// A startup itself may well stand under a span of whoever launched it.
fn orphans(startup: &Startup, by_id: &HashMap<u64, &Span>) -> Option<String> {
    let is_orphan = |span: &&Span| {
        let parent = span.entry.parent;
        parent.is_some_and(|id| !by_id.contains_key(&id)) && span.entry.name != ROOT
    };
    let orphans: Vec<_> = startup.spans.iter().filter(is_orphan).collect();
    let first = orphans.first()?;
    let is_report = orphans.iter().any(|span| span.entry.name.starts_with(REPORT));
    let hint = if is_report { ": give the supervisor's file as well" } else { "" };
    Some(match orphans.len() {
        1 => format!("{} stands under a span that is in none of these files{hint}", named(first)),
        count => format!(
            "{count} spans stand under spans that are in none of these files ({}){hint}",
            list(&orphans)
        ),
    })
}

/// Whose clock disagrees with whose, as far as it shows: the most that it does.
///
/// The one inference that always holds is that nothing begins before what launched it, whatever the
/// first stage of a server says: that one begins at its spawn, which is the supervisor's time. An
/// end is different: mostly a server answers only when its startup is over, but another process may
/// answer in its place.
fn clocks<'s>(startup: &'s Startup, by_id: &HashMap<u64, &'s Span>, unicode: bool) -> Vec<String> {
    let (mut behind, mut ahead) = (Disagreements::new(), Disagreements::new());
    for span in &startup.spans {
        let parent = span.entry.parent.and_then(|id| by_id.get(&id));
        let Some((parent, node)) = parent.zip(span.node.as_deref()) else { continue };
        let Some(above) = parent.node.as_deref().filter(|above| *above != node) else { continue };
        let note = |notes: &mut Disagreements<'s>, by_ns: i128| {
            let known_ns = notes.get(&(node, above)).map_or(TOLERANCE_NS, |(ns, _)| *ns);
            if by_ns > known_ns {
                notes.insert((node, above), (by_ns, span));
            }
        };
        note(&mut behind, difference(parent.entry.start_ns, span.entry.start_ns));
        if let (SERVER, REPORT) = (parent.entry.name.as_str(), span.entry.name.as_str())
            && let (Some(ready_ns), Some(end_ns)) = (parent.entry.end_ns, span.entry.end_ns)
        {
            note(&mut ahead, difference(end_ns, ready_ns));
        }
    }
    let (behind, others_behind) = worst(behind);
    let (ahead, others_ahead) = worst(ahead);
    let others = others_behind.saturating_add(others_ahead);
    let behind = behind.into_iter().map(|((node, above), (ns, span))| {
        let by = duration(ns, unicode);
        let stamps = match span.entry.name == REPORT && !tells_of_stamps(startup, span) {
            true => ", and so ignored its stamps: they were times to come",
            false => "",
        };
        format!(
            "node {node}'s clock is at least {by} behind node {above}'s: {} begins as long before \
             what launched it{stamps}",
            named(span)
        )
    });
    let ahead = ahead.into_iter().map(|((node, above), (ns, span))| {
        let by = duration(ns, unicode);
        format!(
            "node {node}'s clock is at least {by} ahead of node {above}'s, or the server answered \
             before its startup was over: {} ends as long after the first answer",
            named(span)
        )
    });
    let more = counted(others, "more clock disagrees", "more clocks disagree");
    let more = (others > 0).then(|| format!("{more}, by less"));
    behind.chain(ahead).chain(more).collect()
}

/// Those that disagree most, and how many there are besides.
fn worst<'s>(disagreements: Disagreements<'s>) -> (Vec<Disagreement<'s>>, usize) {
    let mut all: Vec<_> = disagreements.into_iter().collect();
    all.sort_by_key(|(_, (ns, _))| Reverse(*ns));
    let others = all.len().saturating_sub(NAMED);
    all.truncate(NAMED);
    (all, others)
}

/// Whether a server's report has a stage that comes of its stamps.
fn tells_of_stamps(startup: &Startup, report: &Span) -> bool {
    let beneath = startup.spans.iter().filter(|span| span.entry.parent == Some(report.entry.id));
    let stages = [VENV_SETUP, INTERPRETER_START];
    beneath.into_iter().any(|span| stages.iter().any(|stage| span.entry.name.ends_with(stage)))
}

/// Spans that end before they begin.
fn set_back(startup: &Startup, unicode: bool) -> Option<String> {
    let length_ns = |span: &&Span| span.length_ns().unwrap_or(0);
    let mut negative: Vec<_> = startup.spans.iter().filter(|span| length_ns(span) < 0).collect();
    negative.sort_by_key(length_ns);
    let worst = negative.first()?;
    let by = duration(length_ns(worst).saturating_neg(), unicode);
    let spans =
        counted(negative.len(), "span ends before it begins", "spans end before they begin");
    let is_setup = |span: &&Span| span.entry.name.ends_with(VENV_SETUP);
    let stamps = match negative.iter().any(is_setup) {
        true => "; a server ignores the stamp of a setup that ended before its spawn",
        false => "",
    };
    Some(format!(
        "{spans} ({}), by up to {by}: a clock was set back meanwhile, or two clocks are in \
         it{stamps}",
        list(&negative)
    ))
}

fn difference(later_ns: u64, earlier_ns: u64) -> i128 {
    i128::from(later_ns).saturating_sub(i128::from(earlier_ns))
}

fn list(spans: &[&Span]) -> String {
    let mut names: Vec<_> = spans.iter().take(NAMED).map(|span| named(span)).collect();
    let more = spans.len().saturating_sub(NAMED);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    names.join(", ")
}

fn named(span: &Span) -> String {
    match &span.entry.server {
        Some(server) => format!("{server}'s {}", span.entry.name),
        None => span.entry.name.clone(),
    }
}
