//! `gym-startup show`: recorded startups, or a running server's.

mod against;
mod document;
mod files;
mod live;
mod notes;
mod page;
mod spans;
mod stages;
mod startup;
mod summary;
mod text;
mod traces;
mod whole_file;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use opentelemetry::TraceId;
use serde::Serialize;

use crate::args;
use crate::say::say;
use crate::status::WRONG_USAGE;
use crate::stdout::print;
use crate::waterfall::Look;
use crate::words::harmless;
use against::Comparison;
use files::Recorded;
use startup::Startup;

/// How many notes are said.
const MOST_NOTES: usize = 20;

pub fn show(args: &args::Show) -> ExitCode {
    if let Some(trace) = &args.trace
        && let Err(why) = check_prefix(trace)
    {
        say(why);
        return ExitCode::from(WRONG_USAGE);
    }
    if let Some(out) = &args.html
        && args.files.iter().any(|file| whole_file::is_same(file, out))
    {
        say(format_args!("--html {}: that is one of the files that are shown", out.display()));
        return ExitCode::from(WRONG_USAGE);
    }
    match shown(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            say(why);
            ExitCode::FAILURE
        }
    }
}

fn check_prefix(trace: &str) -> Result<(), String> {
    let longest = TraceId::INVALID.to_string().len();
    if trace.is_empty() || trace.len() > longest || !trace.bytes().all(|it| it.is_ascii_hexdigit())
    {
        return Err(format!("--trace {trace}: a trace id has 1 to {longest} hexadecimal digits"));
    }
    Ok(())
}

/// Whether all that was given could be read, and all that was asked for written.
fn shown(args: &args::Show) -> Result<bool, String> {
    let now = match args.pid {
        Some(pid) => {
            let (startup, notes) = live::startup(pid)?;
            Recorded { startups: vec![startup], notes, sound: true, are_startups: true }
        }
        None => files::read(&args.files, args.trace.as_deref())?,
    };
    let look = text::look();
    if !args.against.is_empty() {
        let before = files::read(&args.against, None).map_err(|why| format!("--against: {why}"))?;
        return compared(before, now, args.json, &look);
    }
    let Recorded { startups, notes, sound, are_startups } = now;
    let written = match (&args.html, args.json) {
        (Some(out), _) => page(out, &startups, notes, &look)?,
        (None, true) => json(&document(&startups, &notes, &look))?,
        (None, false) => {
            // Several files may well be of several startups that are to be seen side by side.
            let is_one_choice = are_startups && args.trace.is_none() && args.files.len() == 1;
            let (startups, others) = match is_one_choice {
                true => latest(&startups, &look),
                false => (&*startups, Vec::new()),
            };
            text(startups, &[notes, others].concat(), &look)?
        }
    };
    Ok(sound && written)
}

/// The latest, and of several a note of each of the others.
fn latest<'s>(startups: &'s [Startup], look: &Look) -> (&'s [Startup], Vec<String>) {
    match startups.split_last() {
        Some((latest, earlier)) if !earlier.is_empty() => {
            let count = startups.len();
            let note = format!(
                "of {count} startups the latest is shown; --trace shows another, and --json all:"
            );
            let others = earlier.iter().rev().map(|it| text::summary(it, look));
            (std::slice::from_ref(latest), std::iter::once(note).chain(others).collect())
        }
        _ => (startups, Vec::new()),
    }
}

fn text(startups: &[Startup], notes: &[String], look: &Look) -> Result<bool, String> {
    say_all(notes, look);
    print(|out| {
        for (number, startup) in startups.iter().enumerate() {
            if number > 0 {
                out.write_all(b"\n")?;
            }
            out.write_all(text::text(startup, look).as_bytes())?;
        }
        Ok(())
    })?;
    say_all(&notes::of_all(startups, look.unicode), look);
    Ok(true)
}

fn document<'s>(
    startups: &'s [Startup],
    notes: &'s [String],
    look: &Look,
) -> document::Document<'s> {
    let one = |startup| document::One::new(startup, notes::notes(startup, look.unicode));
    document::Document { startups: startups.iter().map(one).collect(), notes }
}

fn page(
    out: &Path,
    startups: &[Startup],
    mut notes: Vec<String>,
    look: &Look,
) -> Result<bool, String> {
    notes.extend(notes::of_all(startups, look.unicode));
    say_all(&notes, look);
    match out == Path::new("-") {
        true => print(|out| page::write(out, startups, &notes))?,
        false => whole_file::write(out, |out| page::write(out, startups, &notes))
            .map_err(|error| format!("{}: {error}", out.display()))?,
    }
    Ok(true)
}

/// How the latest of `now` differs from the latest of `before`; if it is one of those too, from the
/// one before it.
fn compared(before: Recorded, now: Recorded, as_json: bool, look: &Look) -> Result<bool, String> {
    let mut notes = Vec::new();
    let sound = before.sound && now.sound;
    let Some(latest) = now.startups.last() else { return Ok(false) };
    let is_latest = |it: &Startup| it.trace_id.is_some() && it.trace_id == latest.trace_id;
    let place = before.startups.iter().position(is_latest);
    let earlier = place.and_then(|place| place.checked_sub(1));
    let last_of = |all: &Recorded| all.startups.len().saturating_sub(1);
    let taken = [earlier.unwrap_or(last_of(&before)), last_of(&now)];
    let sides = [("before", &before), ("now", &now)].into_iter().zip(taken);
    let sides = sides.map(|((when, recorded), taken)| {
        let startup = recorded.startups.get(taken)?;
        let count = recorded.startups.len();
        let which = match earlier {
            Some(_) if when == "before" => "the one before that of now",
            _ => "the latest",
        };
        let which = (count > 1).then(|| format!("of {count} startups {which} is taken"));
        let own = notes::notes(startup, look.unicode);
        let all = recorded.notes.iter().cloned().chain(which).chain(own);
        notes.extend(all.map(|note| format!("{when}: {note}")));
        Some(startup)
    });
    let sides: Vec<_> = sides.collect();
    let [Some(before), Some(now)] = *sides else { return Ok(false) };
    match (place, before.trace_id) {
        (Some(_), trace_id) if trace_id == now.trace_id => {
            notes.push("both are the same startup: --trace chooses another".to_owned());
        }
        (Some(0), Some(trace_id)) => {
            notes.push(format!("before began later than now: --trace {trace_id} turns that around"))
        }
        _ => {}
    }
    let comparison = Comparison::new(before, now);
    if as_json {
        notes.extend(comparison.incomparable.clone());
        return json(&against::Document::new(before, now, &comparison, &notes)).map(|_| sound);
    }
    say_all(&notes, look);
    let text = against::text(before, now, &comparison, look);
    print(|out| out.write_all(text.as_bytes()))?;
    Ok(sound)
}

/// Says them, as far as anybody would read.
fn say_all(notes: &[String], look: &Look) {
    for note in notes.iter().take(MOST_NOTES) {
        say(harmless(note, look.unicode));
    }
    let more = notes.len().saturating_sub(MOST_NOTES);
    if more > 0 {
        say(format_args!("and {more} more of that kind; --json has all"));
    }
}

fn json(document: &impl Serialize) -> Result<bool, String> {
    print(|out| {
        serde_json::to_writer(&mut *out, document)?;
        out.write_all(b"\n")
    })?;
    Ok(true)
}
