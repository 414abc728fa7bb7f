//! Recorded startups, out of files that may hold much else.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use gym_stamp::telemetry::json;
use memchr::memmem::Finder;
use opentelemetry::TraceId;

use super::spans::{self, Process};
use super::startup::Startup;
use super::traces::Traces;
use crate::lines::Lines;
use crate::say::say;
use crate::words::date;

/// Of spans that are of no startup, so many are kept in case there is nothing else.
const MOST_OTHERS: usize = 1_000;
/// How many traces are remembered that were not asked for.
const MOST_REFUSED: usize = 10_000;
/// How many of those are named.
const NAMED: usize = 10;

/// What the files hold.
pub struct Recorded {
    /// By their start.
    pub startups: Vec<Startup>,
    /// Sentences about all of them.
    pub notes: Vec<String>,
    /// Whether all of every file could be read.
    pub sound: bool,
    /// Whether they are startups, and not other traces for want of any.
    pub are_startups: bool,
}

/// Reads the startups whose trace id begins with `chosen`. What cannot be read is said.
///
/// # Errors
///
/// Why there is nothing to show.
pub fn read(files: &[PathBuf], chosen: Option<&str>) -> Result<Recorded, String> {
    let mut reader = Reader::new(chosen);
    let mut sound = true;
    for file in files {
        sound &= reader.read(file);
    }
    let are_startups = !reader.startups.is_empty();
    let (startups, notes) = reader.finish()?;
    Ok(Recorded { startups, notes, sound, are_startups })
}

struct Reader {
    chosen: Option<String>,
    startups: Traces,
    /// What is shown if there is no startup.
    others: Traces,
    others_left_out: bool,
    refused: Refused,
    spans: Finder<'static>,
    of_startups: Finder<'static>,
}

impl Reader {
    fn new(chosen: Option<&str>) -> Self {
        Self {
            chosen: chosen.map(str::to_ascii_lowercase),
            startups: Traces::default(),
            others: Traces::default(),
            others_left_out: false,
            refused: Refused::default(),
            spans: Finder::new(b"\"resourceSpans\""),
            of_startups: Finder::new(spans::STARTUP),
        }
    }

    /// Whether all of the file could be read.
    fn read(&mut self, file: &Path) -> bool {
        let mut lines = match Lines::open(file) {
            Ok(lines) => lines,
            Err(why) => {
                say(why);
                return false;
            }
        };
        let (mut is_first, mut is_blank, mut has_spans) = (true, true, false);
        while let Some(line) = lines.next() {
            if is_first && let Some(instead) = compressed(line, file) {
                say(format_args!("{}: is compressed: {instead}", lines.name));
                return false;
            }
            is_first = false;
            is_blank &= line.trim_ascii().is_empty();
            if self.is_beside_the_point(line) {
                let spans_are_skipped = self.spans.find(line).is_some();
                has_spans |= spans_are_skipped;
                self.others_left_out |= spans_are_skipped;
                continue;
            }
            match json::read_spans(line) {
                Ok(None) => {}
                Ok(Some(resources)) => {
                    has_spans = true;
                    resources.into_iter().for_each(|resource| self.take(resource));
                }
                Err(why) => lines.damaged(&why),
            }
        }
        let sound = lines.finish();
        if sound && is_blank {
            say(format_args!("{}: is empty", lines.name));
        } else if sound && !has_spans {
            say(format_args!("{}: has metrics or logs alone, no span", lines.name));
        }
        sound
    }

    /// Whether the line is whole and has nothing of a startup, where that is all that is looked
    /// for. Most lines of a collector's file are of something else, and reading them takes long.
    fn is_beside_the_point(&self, line: &[u8]) -> bool {
        let others_are_wanted = self.startups.is_empty() && self.others.len() < MOST_OTHERS;
        let is_whole = line.starts_with(b"{")
            && line.ends_with(b"\n")
            && line.trim_ascii_end().ends_with(b"}");
        !others_are_wanted && is_whole && self.of_startups.find(line).is_none()
    }

    fn take(&mut self, resource: opentelemetry_proto::tonic::trace::v1::ResourceSpans) {
        let process = Process::from(resource.resource.as_ref());
        for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            let is_of_startup = spans::is_of_startup(&span);
            let Some((trace_id, span)) = spans::converted(span, &process) else { continue };
            if !is_chosen(self.chosen.as_deref(), trace_id) {
                self.refused.take(trace_id, is_of_startup, span.entry.start_ns);
            } else if is_of_startup {
                self.startups.take(trace_id, span);
                self.others = Traces::default();
            } else if self.others.len() < MOST_OTHERS {
                self.others.take(trace_id, span);
            } else {
                self.others_left_out = true;
            }
        }
    }

    fn finish(self) -> Result<(Vec<Startup>, Vec<String>), String> {
        let mut notes = Vec::new();
        let traces = match (self.startups.is_empty(), self.others.is_empty()) {
            (true, true) => return Err(self.refused.words(self.chosen.as_deref())),
            (true, false) => {
                let (what, end) = match self.others_left_out {
                    true => (format!("the first {}", self.others.len()), ", the others are not"),
                    false => ("all".to_owned(), ""),
                };
                let none = match &self.chosen {
                    Some(chosen) => {
                        format!("no span of a startup is in a trace that begins with {chosen}")
                    }
                    None => "no span of a startup is in what was given".to_owned(),
                };
                notes.push(format!("{none}: {what} spans are shown as they are{end}"));
                self.others
            }
            (false, _) => self.startups,
        };
        notes.extend(traces.left_out());
        Ok((traces.finish(), notes))
    }
}

fn is_chosen(chosen: Option<&str>, trace_id: TraceId) -> bool {
    chosen.is_none_or(|chosen| trace_id.to_string().starts_with(chosen))
}

/// What is to be done with a file that begins so and is no text.
fn compressed(line: &[u8], file: &Path) -> Option<String> {
    const GZIP: &[u8] = b"\x1f\x8b";
    const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
    let by = |program: &str| match file == Path::new("-") {
        true => format!("{program} | gym-startup show -"),
        false => format!("{program} {} | gym-startup show -", file.display()),
    };
    match line {
        _ if line.starts_with(GZIP) => Some(by("zcat")),
        _ if line.starts_with(ZSTD) => Some(by("zstdcat")),
        // A collector puts the length of each piece before it.
        _ if line.get(4..).is_some_and(|line| line.starts_with(ZSTD)) => {
            Some("a collector's file exporter has to write it without `compression`".to_owned())
        }
        _ => None,
    }
}

/// Traces that were not asked for.
#[derive(Default)]
struct Refused {
    startups: HashMap<TraceId, u64>,
    others: HashMap<TraceId, u64>,
}

impl Refused {
    fn take(&mut self, trace_id: TraceId, is_of_startup: bool, start_ns: u64) {
        let traces = if is_of_startup { &mut self.startups } else { &mut self.others };
        if traces.len() < MOST_REFUSED || traces.contains_key(&trace_id) {
            let first_ns = traces.entry(trace_id).or_insert(start_ns);
            *first_ns = start_ns.min(*first_ns);
        }
    }

    /// Why there is nothing.
    fn words(&self, chosen: Option<&str>) -> String {
        let traces = if self.startups.is_empty() { &self.others } else { &self.startups };
        let Some(chosen) = chosen.filter(|_| !traces.is_empty()) else {
            return "there is no span to show".to_owned();
        };
        let mut traces: Vec<_> = traces.iter().collect();
        traces.sort_by_key(|(id, start_ns)| (**start_ns, id.to_bytes()));
        let named = traces.iter().rev().take(NAMED);
        let named: Vec<_> = named.map(|(id, ns)| format!("\n  {id}  {}", date(**ns))).collect();
        let more = match traces.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!("\n  and {more} older ones"),
        };
        format!(
            "no trace begins with {chosen}; there are, the latest first:{}{more}",
            named.concat()
        )
    }
}
