//! Arguments and environments arrive byte for byte, whatever they are and however many.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use gym_stamp::contract::{SERVE_NS, SETUP_DONE_NS, SPAWN_NS, TRACEPARENT};
use macro_rules_attribute::apply;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};

use crate::support::{Build, Ended, Run, command, every_build, gym_stamp};

/// Random cases for a build. The environment variable `PROPTEST_CASES` is another number of them.
const CASES: u32 = 800;

fn cases(build: Build) -> u32 {
    let cases = std::env::var("PROPTEST_CASES").map_or(CASES, |it| it.parse().unwrap());
    match build {
        Build::Freestanding => cases,
        // The same code above another system layer.
        Build::Portable => cases / 4,
        // Two starts of qemu a case.
        Build::Aarch64 => cases / 10,
    }
}

/// Any string that C has, with more than their share of those that mean something somewhere.
fn word() -> impl Strategy<Value = Vec<u8>> {
    let odd = vec![
        "",
        " ",
        "-",
        "--",
        "-v",
        "-h",
        "--keep",
        "--venv",
        "--venv=x",
        "--now",
        "*",
        "~",
        "$(id)",
        "'",
        "\"",
        "\\",
        "a\nb",
        "=",
        "a=b",
        ";",
        "&",
        "<8.3",
        "{}",
        "%s",
        "\u{fc}",
        "\u{1f980}",
    ];
    prop_oneof![
        24 => vec(1_u8.., 0..24),
        12 => select(odd).prop_map(|it| it.as_bytes().to_vec()),
        1 => vec(1_u8.., 500..2000),
    ]
}

fn entry() -> impl Strategy<Value = Vec<u8>> {
    let own =
        vec![SETUP_DONE_NS, SPAWN_NS, SERVE_NS, TRACEPARENT, "PATH", "VIRTUAL_ENV", "PYTHONHOME"];
    let name = "[A-Za-z_][A-Za-z0-9_.-]{0,12}".prop_map(String::into_bytes);
    let own = select(own).prop_map(|it| it.as_bytes().to_vec());
    let time = "[0-9]{0,24}".prop_map(String::into_bytes);
    prop_oneof![
        5 => (name, word()).prop_map(|(name, value)| [name, value].join(&b'=')),
        2 => (own, word()).prop_map(|(name, value)| [name, value].join(&b'=')),
        2 => time.prop_map(|value| [SETUP_DONE_NS.as_bytes(), &value].join(&b'=')),
        2 => word(),
    ]
}

#[apply(every_build)]
fn random(build: Build) {
    let config = Config { cases: cases(build), failure_persistence: None, ..Config::default() };
    let run = gym_stamp(build).probe();
    let input = (vec(word(), 0..30), vec(entry(), 0..40));
    let arrives = |(args, environ): (Vec<Vec<u8>>, Vec<Vec<u8>>)| {
        let run = run.clone().args(&args).environ(&environ);
        let plain = match run.is_emulated() {
            // qemu has an order of its own, and drops what is malformed or there twice.
            true => run.without_gym_stamp().run().seen().environ,
            false => environ,
        };
        let ended = run.run().says_nothing();
        let seen = ended.seen();
        prop_assert_eq!(&seen.argv[1..], &args);
        seen.expect_stamped(&ended, &plain);
        Ok(())
    };
    TestRunner::new(config).run(&input, arrives).unwrap();
}

#[apply(every_build)]
fn twenty_thousand_variables(build: Build) {
    let variables: Vec<_> = (0..20_000).map(|it| format!("V{it}={it}").into_bytes()).collect();
    let run = gym_stamp(build).probe().environ(&variables);
    let plain = run.without_gym_stamp().run().seen().environ;
    assert_eq!(plain.len(), variables.len());
    let ended = run.run();
    ended.seen().expect_stamped(&ended, &plain);
}

/// The kernel's `MAX_ARG_STRLEN`, NUL and all.
const LONGEST: usize = 131_072;

#[apply(every_build)]
fn longest_strings(build: Build) {
    let entry = [b"BIG=".to_vec(), vec![b'x'; LONGEST - 5]].concat();
    let arg = vec![b'y'; LONGEST - 1];
    let ended = gym_stamp(build).probe().arg(&arg).environ([&entry]).run();
    let seen = ended.seen();
    assert!(seen.argv[1] == arg);
    seen.expect_stamped(&ended, &[entry]);
}

#[apply(every_build)]
fn as_much_as_the_kernel_takes(build: Build) {
    let run = padded(gym_stamp(build).probe(), most(&[stamp("1234567890123456789")]));
    let (ended, plain) = run_near_the_limit(run);
    ended.seen().expect_stamped(&ended, &plain);
}

#[apply(every_build)]
fn stamp_that_does_not_fit(build: Build) {
    let run = padded(gym_stamp(build).probe(), most(&[stamp("1234567890123456789")]) + 1);
    let (ended, plain) = run_near_the_limit(run);
    ended.seen().expect_environ(&ended, &plain);
}

#[apply(every_build)]
fn stamp_that_does_not_fit_where_a_shorter_one_was(build: Build) {
    let padding = most(&[stamp("1234567890123456789")]) + 1;
    let run = padded(gym_stamp(build).probe().entry(stamp("12")), padding);
    let (ended, plain) = run_near_the_limit(run);
    ended.seen().expect_environ(&ended, &plain);
}

#[apply(every_build)]
fn a_stamp_that_does_not_fit_is_told_if_asked(build: Build) {
    let run = gym_stamp(build).options(["-v"]).probe();
    let run = padded(run, most(&[stamp("1234567890123456789")]) + 1);
    let ended = run.linked_as("g").run();
    assert!(ended.seen().values(SETUP_DONE_NS).is_empty(), "{ended}");
    assert!(ended.stderr_text().contains("stamp does not fit"), "{ended}");
}

#[apply(every_build)]
fn nothing_fits_any_more(build: Build) {
    let (ended, plain) = run_near_the_limit(padded(gym_stamp(build).probe(), most(&[])));
    ended.seen().expect_environ(&ended, &plain);
}

fn stamp(digits: &str) -> Vec<u8> {
    format!("{SETUP_DONE_NS}={digits}").into_bytes()
}

/// Runs `gym-stamp` by so short a name that the limit is the command's to reach. The command's
/// environment without it comes along.
#[track_caller]
fn run_near_the_limit(run: Run) -> (Ended, Vec<Vec<u8>>) {
    let plain = match run.is_emulated() {
        true => run.without_gym_stamp().linked_as("b").run().seen().environ,
        false => run.entries().to_vec(),
    };
    (run.linked_as("g").run().says_nothing(), plain)
}

/// The most padding that the probe can be run with beside `entries`.
fn most(entries: &[Vec<u8>]) -> usize {
    // The same whichever build is asked about, and some thirty starts to find.
    static FOUND: Mutex<BTreeMap<Vec<Vec<u8>>, usize>> = Mutex::new(BTreeMap::new());
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    *found.entry(entries.to_vec()).or_insert_with(|| search_most(entries))
}

fn search_most(entries: &[Vec<u8>]) -> usize {
    let run = command("/usr/bin/env").probe();
    let fits = |padding: usize| {
        let run = padded(run.without_gym_stamp(), padding);
        let run = entries.iter().fold(run, Run::entry);
        run.try_spawn().is_ok()
    };
    let (mut fitting, mut too_much) = (0, 64_usize << 20);
    while too_much - fitting > 1 {
        let middle = usize::midpoint(fitting, too_much);
        if fits(middle) {
            fitting = middle;
        } else {
            too_much = middle;
        }
    }
    fitting
}

/// Adds `padding` bytes of variables, each byte of them one more to the kernel.
fn padded(run: Run, padding: usize) -> Run {
    const PIECE: usize = 100_000;
    let pieces = (0..padding / PIECE).map(|_| PIECE).chain([padding % PIECE]);
    pieces.enumerate().fold(run, |run, (number, length)| {
        let name = format!("PADDING{number:04}");
        run.entry([name.into_bytes(), vec![b'x'; length]].join(&b'='))
    })
}
