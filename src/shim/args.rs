//! What the user typed, parsed once into what is to be done.

use crate::bytes::until;
use crate::fail::Failure;
use crate::options::{Name, OPTIONS, Spec};
use crate::zstr::{Vector, ZStr};

/// What is to be done.
pub enum Request<'a> {
    Help,
    Version,
    Now,
    Run(Plan<'a>),
}

/// How COMMAND is to be run.
pub struct Plan<'a> {
    pub stamp: Stamp,
    pub keep: bool,
    pub venv: Option<ZStr<'a>>,
    pub verbose: bool,
    /// Index of COMMAND among the shim's own arguments.
    pub command: usize,
}

/// Which moment is stamped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    SetupDone,
    Spawn,
}

pub fn parse<'a>(args: &Vector<'a>) -> Result<Request<'a>, Failure> {
    let mut plan =
        Plan { stamp: Stamp::SetupDone, keep: false, venv: None, verbose: false, command: 1 };
    let mut now = false;
    while let Some(word) = args.get(plan.command).filter(|&word| is_option(word)) {
        plan.command = plan.command.wrapping_add(1);
        if word.bytes() == b"--" {
            break;
        }
        let (option, mut value) = split(word)?;
        if option.value.is_some() && value.is_none() {
            value = args.get(plan.command);
            plan.command = plan.command.wrapping_add(1);
        }
        match (option.value, value) {
            (None, Some(_)) => return Err(Failure::unwanted_value(option)),
            (Some(_), value) if value.is_none_or(|value| value.bytes().is_empty()) => {
                return Err(Failure::missing_value(option));
            }
            _ => {}
        }
        match option.name {
            Name::Help => return Ok(Request::Help),
            Name::Version => return Ok(Request::Version),
            Name::Now => now = true,
            Name::Spawn => plan.stamp = Stamp::Spawn,
            Name::Keep => plan.keep = true,
            Name::Verbose => plan.verbose = true,
            Name::Venv => plan.venv = value,
        }
    }
    match (now, args.get(plan.command)) {
        (true, None) if plan.command == 2 => Ok(Request::Now),
        (true, _) => Err(Failure::now_goes_alone()),
        (false, None) => Err(Failure::no_command()),
        (false, Some(_)) => Ok(Request::Run(plan)),
    }
}

fn is_option(word: ZStr) -> bool {
    word.strip_prefix(b"-").is_some_and(|rest| !rest.bytes().is_empty())
}

/// The option that `word` names, and the value behind its `=`.
fn split(word: ZStr<'_>) -> Result<(&'static Spec, Option<ZStr<'_>>), Failure> {
    let name = until(b'=', word.bytes());
    let value = word.strip_prefix(name).and_then(|rest| rest.strip_prefix(b"="));
    for option in &OPTIONS {
        let letter = option.short.is_some_and(|short| name == [b'-', short]);
        if letter || name == option.long.as_bytes() {
            return Ok((option, value));
        }
    }
    Err(Failure::unknown_option(word.bytes(), nearest(name)))
}

/// The option that `given` was most likely meant to be.
fn nearest(given: &[u8]) -> &'static Spec {
    let typed = letters(given);
    let far = |option: &Spec| {
        let name = letters(option.long.as_bytes());
        if name.starts_with(typed) { 0 } else { distance(typed, name) }
    };
    let [first, others @ ..] = &OPTIONS;
    others.iter().fold(first, |best, other| if far(other) < far(best) { other } else { best })
}

/// `option` without its dashes.
fn letters(mut option: &[u8]) -> &[u8] {
    while let [b'-', rest @ ..] = option {
        option = rest;
    }
    option
}

/// How many letters must be added, dropped or changed to make `a` of `b` (Levenshtein).
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row = [0_usize; 16];
    for (length, cell) in row.iter_mut().enumerate() {
        *cell = length;
    }
    let mut last = b.len();
    for (length, from) in a.iter().enumerate() {
        let mut diagonal = length;
        last = length.wrapping_add(1);
        for (cell, to) in row.iter_mut().skip(1).zip(b) {
            let changed = diagonal.wrapping_add(usize::from(from != to));
            diagonal = *cell;
            last = changed.min(diagonal.wrapping_add(1)).min(last.wrapping_add(1));
            *cell = last;
        }
    }
    last
}
