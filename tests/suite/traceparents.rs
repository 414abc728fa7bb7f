//! `traceparent` is read as W3C Trace Context and the Python OpenTelemetry SDK read it.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::process::{Command, Stdio};

use gym_stamp::traceparent::{TRACEPARENT_ENV, TraceParent, TraceParentError};
use opentelemetry::{SpanId, TraceFlags, TraceId};
use proptest::prelude::*;
use rstest::rstest;

use crate::support::records::env;
use crate::support::toolbox::{python_venv, spawn};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";
const ZERO_TRACE: &str = "00000000000000000000000000000000";
const ZERO_SPAN: &str = "0000000000000000";

/// `T` and `S` stand for a good trace and a good span id.
fn spelled(pattern: &str) -> String {
    pattern.replace('T', TRACE).replace('S', SPAN)
}

#[rstest]
#[case::sampled("00-T-S-01", 0x01)]
#[case::not_sampled("00-T-S-00", 0x00)]
#[case::random("00-T-S-03", 0x03)]
#[case::flags_are_hex_bits("00-T-S-ab", 0x03)]
#[case::undefined_flags("00-T-S-fc", 0x00)]
#[case::spaces_around(" \t00-T-S-01\t ", 0x01)]
#[case::a_later_version("01-T-S-01", 0x01)]
#[case::a_later_version_with_more("01-T-S-01-what-the-future-will-be-like", 0x01)]
#[case::a_later_version_with_nothing_more("fe-T-S-01-", 0x01)]
#[case::a_later_versions_flags("cc-T-S-ff-more", 0x01)]
fn a_good_one_names_a_span(#[case] pattern: &str, #[case] flags: u8) {
    let parent: TraceParent = spelled(pattern).parse().unwrap();

    assert_eq!(parent.trace_id.to_string(), TRACE);
    assert_eq!(parent.span_id.to_string(), SPAN);
    assert_eq!(parent.flags, TraceFlags::new(flags));
    assert_eq!(parent.to_string(), format!("00-{TRACE}-{SPAN}-{flags:02x}"));
}

#[rstest]
#[case::text("hello", TraceParentError::Malformed)]
#[case::dashes("---", TraceParentError::Malformed)]
#[case::no_flags("00-T-S", TraceParentError::Malformed)]
#[case::empty_flags("00-T-S-", TraceParentError::Malformed)]
#[case::short_flags("00-T-S-1", TraceParentError::Malformed)]
#[case::long_flags("00-T-S-011", TraceParentError::Malformed)]
#[case::long_flags_later("01-T-S-01more", TraceParentError::Malformed)]
#[case::short_version("0-T-S-01", TraceParentError::Malformed)]
#[case::long_version("000-T-S-01", TraceParentError::Malformed)]
#[case::no_version("T-S-01", TraceParentError::Malformed)]
#[case::swapped("00-S-T-01", TraceParentError::Malformed)]
#[case::long_trace("00-T0-S-01", TraceParentError::Malformed)]
#[case::uppercase("00-0AF7651916CD43DD8448EB211C80319C-S-01", TraceParentError::Malformed)]
#[case::uppercase_flags("00-T-S-0A", TraceParentError::Malformed)]
#[case::not_hex("00-0gf7651916cd43dd8448eb211c80319c-S-01", TraceParentError::Malformed)]
#[case::signed("00-+af7651916cd43dd8448eb211c80319c-S-01", TraceParentError::Malformed)]
#[case::other_digits("00-T-b7ad6b71692033３1-01", TraceParentError::Malformed)]
#[case::space_within("00-T- S-01", TraceParentError::Malformed)]
#[case::other_separator("00_T_S_01", TraceParentError::Malformed)]
#[case::more_in_version_zero("00-T-S-01-more", TraceParentError::TooLong)]
#[case::dash_in_version_zero("00-T-S-01-", TraceParentError::TooLong)]
#[case::forbidden_version("ff-T-S-01", TraceParentError::ForbiddenVersion)]
#[case::zero_trace("00-00000000000000000000000000000000-S-01", TraceParentError::ZeroId)]
#[case::zero_span("00-T-0000000000000000-01", TraceParentError::ZeroId)]
fn a_bad_one_names_none(#[case] pattern: &str, #[case] error: TraceParentError) {
    assert_eq!(spelled(pattern).parse::<TraceParent>(), Err(error));
    assert!(error.to_string().starts_with("not a traceparent: "));
}

#[test]
fn of_a_variable_the_empty_value_is_none_and_no_text_is_bad() {
    let read = |env: &dyn Fn(&str) -> Option<OsString>| TraceParent::from_env(TRACEPARENT_ENV, env);
    let good = spelled("00-T-S-01");

    assert_eq!(read(&env([])), Ok(None));
    assert_eq!(read(&env([("TRACEPARENT", "")])), Ok(None));
    assert_eq!(read(&env([("TRACEPARENT", &good)])), Ok(Some(good.parse().unwrap())));
    assert_eq!(read(&env([("TRACEPARENT", " ")])), Err(TraceParentError::Malformed));
    let bytes = |_: &str| Some(OsString::from_vec(b"00-\xff".to_vec()));
    assert_eq!(read(&bytes), Err(TraceParentError::Malformed));
}

#[test]
fn the_python_sdk_takes_the_same_ones_for_the_same_spans() {
    let fields = [
        &["00", "01", "fe", "ff", "0", "000", "0A", "zz", ""][..],
        &[TRACE, ZERO_TRACE, "0AF7651916CD43DD8448EB211C80319C", SPAN, ""],
        &[SPAN, ZERO_SPAN, "B7AD6B7169203331", TRACE, ""],
        &["00", "01", "03", "ab", "0A", "1", "011", ""],
        &["", "-", "-more", "more", " ", "\t", "- "],
    ];
    let mut texts = vec![String::new()];
    for (separator, choices) in ["", "-", "-", "-", ""].iter().zip(fields) {
        let longer = |text: &String, choice: &&str| format!("{text}{separator}{choice}");
        texts = texts.iter().flat_map(|t| choices.iter().map(move |c| longer(t, c))).collect();
    }

    let theirs = python_extracts(&texts);
    for (text, theirs) in texts.iter().zip(theirs) {
        let ours = text.parse::<TraceParent>().map_or_else(
            |_| "none".to_owned(),
            |ours| format!("{}-{}-{}", ours.trace_id, ours.span_id, ours.flags.is_sampled()),
        );
        assert_eq!(ours, theirs, "{text:?}");
    }
}

fn python_extracts(texts: &[String]) -> Vec<String> {
    let venv = python_venv("traceparent", &["opentelemetry-api==1.45.2"]);
    let mut python = Command::new(venv.join("bin/python"));
    python
        .args(["-X", "utf8", "-c"])
        .arg(
            r"
import sys
from opentelemetry.trace import get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
for line in sys.stdin.read().split('\n')[:-1]:
    context = TraceContextTextMapPropagator().extract({'traceparent': line})
    span = get_current_span(context).get_span_context()
    found = f'{span.trace_id:032x}-{span.span_id:016x}-{str(span.trace_flags.sampled).lower()}'
    print(found if span.is_valid else 'none')
",
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut python = spawn(&mut python).unwrap();
    let lines: String = texts.iter().map(|text| format!("{text}\n")).collect();
    let mut stdin = python.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()).unwrap());
    let output = python.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    let found: Vec<_> =
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(found.len(), texts.len());
    found
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(trace in 1u128.., span in 1u64.., flags in 0u8..4) {
        let parent = TraceParent {
            trace_id: TraceId::from(trace),
            span_id: SpanId::from(span),
            flags: TraceFlags::new(flags),
        };

        prop_assert_eq!(parent.to_string().parse(), Ok(parent));
    }

    #[test]
    fn whatever_is_read_never_panics_and_names_a_span(text in "[0-9a-f]{0,3}(-[0-9a-f]{0,33}){0,6}|.*") {
        if let Ok(parent) = text.parse::<TraceParent>() {
            prop_assert!(parent.trace_id != TraceId::INVALID && parent.span_id != SpanId::INVALID);
        }
    }
}
