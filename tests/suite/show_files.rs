//! `gym-startup show` on files of every kind.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use gym_stamp::spans::SpanRecord;
use nix::sys::resource::Resource;

use crate::show::{document, show};
use crate::support::Ended;
use crate::support::recorded::{Change, in_trace, line, span, startup};
use crate::support::rotel::script;
use crate::support::toolbox::{free_port, python_venv};

fn one() -> Vec<SpanRecord> {
    startup(1, &[("greeter", 2_000, 500)])
}

/// Two lines of one resource each, of what is no startup.
fn rollouts(count: u64) -> Vec<u8> {
    let spans: Vec<_> = (0..count).map(|id| span(id + 1, 0, "rollout", id, id + 5)).collect();
    line("head", &in_trace(7, spans))
}

fn names(ended: &Ended) -> Vec<String> {
    let document = document(ended);
    let spans = document["startups"].as_array().unwrap().iter();
    let spans = spans.flat_map(|it| it["spans"].as_array().unwrap());
    spans.map(|span| span["name"].as_str().unwrap().to_owned()).collect()
}

/// Several resources in a line, ids in capitals, times as numbers, and fields of tomorrow.
const COLLECTORS: &str = r#"{"resourceSpans":[
  {"resource":{"attributes":[{"key":"host.name","value":{"stringValue":"head"}}],"new":{}},"scopeSpans":[{"scope":{"name":"s"},"spans":[
    {"traceId":"0AF7651916CD43DD8448EB211C80319C","spanId":"00000000000000A1","name":"gym.startup","startTimeUnixNano":1800000000000000000,"endTimeUnixNano":1800000002000000000,
     "attributes":[{"key":"nemo.gym.startup.outcome","value":{"stringValue":"ready","newer":1}}],"newer":[]},
    {"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"00000000000000a9","name":"rollout","startTimeUnixNano":"1","endTimeUnixNano":"2"}]}]},
  {"resource":{"attributes":[{"key":"host.name","value":{"stringValue":"node"}},{"key":"service.name","value":{"stringValue":"renamed"}},
     {"key":"nemo.gym.server.name","value":{"stringValue":"greeter"}}]},"scopeSpans":[{"spans":[
    {"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"00000000000000a2","parentSpanId":"00000000000000a1","name":"gym.server.startup","startTimeUnixNano":"1800000000100000000","endTimeUnixNano":"1800000001900000000",
     "kind":"SPAN_KIND_INTERNAL","status":{"code":"STATUS_CODE_ERROR"},
     "attributes":[{"key":"reward","value":{"doubleValue":"NaN"}},{"key":"process.pid","value":{"intValue":"4711"}}]}]}]}],"future":1}"#;

#[test]
fn a_collectors_file_is_read_whatever_else_is_in_it() {
    let mut file =
        b"{\"resourceMetrics\":[{\"scopeMetrics\":[]}]}\n{\"resourceLogs\":[{}]}\n\n".to_vec();
    file.extend(b"{\"resourceProfiles\":[{}]}\n");
    file.extend(COLLECTORS.replace('\n', " ").bytes());
    let ended = show(&[("traces.jsonl", &file)]).arg("--json").run().exits(0).says_nothing();
    let document = document(&ended);
    let spans = document["startups"][0]["spans"].as_array().unwrap();
    let text = |span: usize, key: &str| spans[span][key].to_string();
    assert_eq!(spans.len(), 2, "{ended}");
    assert_eq!(text(0, "span_id"), "\"00000000000000a1\"");
    assert_eq!(text(0, "end_ns"), "1800000002000000000");
    assert_eq!(text(1, "server"), "\"greeter\"");
    assert_eq!(text(1, "node"), "\"node\"");
    assert_eq!(text(1, "pid"), "4711");
    assert_eq!(text(1, "error"), "\"\"");
}

/// A file of the Collector's own file exporter: what is empty is left out, but not everywhere.
const GO_COLLECTORS: &str = concat!(
    r#"{"resourceMetrics":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"nemo-gym/greeter"}}]},"scopeMetrics":[{"scope":{"name":"nemo_gym.startup"},"metrics":[{"name":"gym.server.startup_stage_duration_ms","unit":"ms","histogram":{"dataPoints":[{"attributes":[{"key":"nemo.gym.startup.stage","value":{"stringValue":"venv_setup"}}],"startTimeUnixNano":"1800000000000000000","timeUnixNano":"1800000001000000000","count":"1","sum":900,"bucketCounts":["0","1"],"explicitBounds":[100],"min":900,"max":900}],"aggregationTemporality":2}}]}]}]}"#,
    "\n",
    r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"nemo-gym/supervisor"}},{"key":"host.name","value":{"stringValue":"head"}},{"key":"process.pid","value":{"intValue":"41"}},{"key":"process.command_args","value":{"arrayValue":{"values":[{"stringValue":"a"},{"stringValue":"b"}]}}}],"droppedAttributesCount":1,"entityRefs":[{"type":"host","idKeys":["host.name"]}]},"scopeSpans":[{"scope":{"name":"nemo_gym.startup","version":"0.7.0"},"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"00000000000000a1","parentSpanId":"","flags":256,"name":"gym.startup","kind":1,"startTimeUnixNano":"1800000000000000000","endTimeUnixNano":"1800000004000000000","attributes":[{"key":"nemo.gym.startup.outcome","value":{"stringValue":"failed"}}],"droppedAttributesCount":2,"status":{"message":"judge failed","code":2}},{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"00000000000000a2","parentSpanId":"00000000000000a1","flags":256,"name":"gym.startup.server","kind":1,"startTimeUnixNano":"1800000000050000000","endTimeUnixNano":"1800000002000000000","attributes":[{"key":"nemo.gym.server.name","value":{"stringValue":"greeter"}},{"key":"nemo.gym.startup.outcome","value":{"stringValue":"ready"}}],"events":[{"timeUnixNano":"1800000000060000000","name":"spawned","attributes":[{"key":"try","value":{"intValue":"1"}}],"droppedAttributesCount":1}],"droppedEventsCount":3,"links":[{"traceId":"5b8efff798038103d269b633813fc60d","spanId":"00000000000000ff","traceState":"a=b","flags":1}],"droppedLinksCount":4,"status":{}}],"schemaUrl":"https://opentelemetry.io/schemas/1.27.0"}],"schemaUrl":"https://opentelemetry.io/schemas/1.27.0"},{"resource":{},"scopeSpans":[{"scope":{},"spans":[{"traceId":"6b8efff798038103d269b633813fc60c","spanId":"00000000000000b1","parentSpanId":"","name":"rollout","kind":2,"startTimeUnixNano":"1800000000000000000","endTimeUnixNano":"1800000000000000001","status":{}}]}]}]}"#,
    "\n",
    r#"{"resourceLogs":[{"resource":{},"scopeLogs":[{"scope":{},"logRecords":[{"timeUnixNano":"1800000000100000000","observedTimeUnixNano":"1800000000100000000","severityNumber":9,"severityText":"INFO","body":{"stringValue":"\"resourceSpans\" of gym.startup"},"traceId":"5b8efff798038103d269b633813fc60c","spanId":"00000000000000a2"}]}]}]}"#,
    "\n",
    r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"host.name","value":{"stringValue":"node-7"}},{"key":"nemo.gym.server.name","value":{"stringValue":"greeter"}}]},"scopeSpans":[{"scope":{"name":"nemo_gym.startup","attributes":[{"key":"k","value":{"boolValue":true}}]},"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"00000000000000a3","parentSpanId":"00000000000000a2","flags":769,"name":"gym.server.startup","kind":1,"startTimeUnixNano":"1800000000050000000","endTimeUnixNano":"1800000001900000000","attributes":[{"key":"nemo.gym.server.worker","value":{"boolValue":false}},{"key":"process.pid","value":{"intValue":"4711"}},{"key":"load","value":{"doubleValue":0.5}},{"key":"none","value":{}}],"status":{}}]}]}]}"#,
    "\n",
);

#[test]
fn a_file_of_the_go_collector_is_shown() {
    let file = GO_COLLECTORS.as_bytes();
    let ended = show(&[("traces.jsonl", file)]).arg("--json").run().exits(0).says_nothing();
    let document = document(&ended);
    assert_eq!(document["startups"].as_array().unwrap().len(), 1, "{ended}");
    let startup = &document["startups"][0];
    assert_eq!(startup["outcome"], "failed");
    assert_eq!(startup["notes"], serde_json::json!([]));
    let spans = startup["spans"].as_array().unwrap();
    let told = spans.iter().map(|span| {
        let keys = ["name", "span_id", "parent_span_id", "server", "node", "pid", "error"];
        keys.map(|key| span[key].as_str().map_or_else(|| span[key].to_string(), str::to_owned))
    });
    let told: Vec<_> = told.map(|it| it.join(" ")).collect();
    assert_eq!(
        told,
        [
            "gym.startup 00000000000000a1 null null head null judge failed",
            "gym.startup.server 00000000000000a2 00000000000000a1 greeter head null null",
            "gym.server.startup 00000000000000a3 00000000000000a2 greeter node-7 4711 null",
        ]
    );
    let attributes = serde_json::json!({
        "nemo.gym.server.worker": "false", "process.pid": "4711", "load": "0.5", "none": ""
    });
    assert_eq!(spans[2]["attributes"], attributes);
}

/// The SDK's own file exporter: what a server that reports for itself leaves.
#[test]
fn a_file_of_the_opentelemetry_sdk_is_shown() {
    let requirements = [
        "opentelemetry-api==1.45.1",
        "opentelemetry-exporter-otlp-common==0.66b1",
        "opentelemetry-exporter-otlp-json-common==0.66b1",
        "opentelemetry-exporter-otlp-json-file==0.66b1",
        "opentelemetry-proto-json==0.66b1",
        "opentelemetry-sdk==1.45.1",
        "opentelemetry-semantic-conventions==0.66b1",
        "typing_extensions==4.16.0",
    ];
    let python = python_venv("opentelemetry-file", &requirements).join("bin/python");
    let port = free_port();
    let (python, script) = (python.display(), script("server.py"));
    let command = format!("sleep 0.3; exec ./gym-stamp {python} {}", script.display());
    let env = format!(
        "env = {{ PORT = {port}, SPANS_FILE = \"server.jsonl\", NEMO_GYM_CONFIG_PATH = \"judge\" }}"
    );
    let over = crate::support::startup::startup()
        .server("judge", &command, &format!("http://127.0.0.1:{port}/"), &env)
        .args(["--exit-when-ready"])
        .run()
        .exits(0);
    let [own, seen] =
        ["server.jsonl", "out.jsonl"].map(|it| fs::read(over.ended.folder().join(it)).unwrap());
    let files: [(&str, &[u8]); 2] = [("server.jsonl", &own), ("out.jsonl", &seen)];
    let ended = show(&files).arg("--json").run().exits(0).says_nothing();
    let document = document(&ended);
    let startups = document["startups"].as_array().unwrap();
    assert_eq!(startups.len(), 1, "{ended}");
    let spans = startups[0]["spans"].as_array().unwrap();
    let of = |name: &str| spans.iter().find(|span| span["name"] == name).unwrap();
    let (server, report) = (of("gym.startup.server"), of("gym.server.startup"));
    assert_eq!(report["parent_span_id"], server["span_id"], "{ended}");
    assert_eq!(report["server"], "judge");
    let setups = ["gym.startup.server.venv_setup", "gym.server.startup.venv_setup"].map(of);
    for time in ["start_ns", "end_ns"] {
        assert_eq!(setups[0][time], setups[1][time], "{ended}");
    }
    let drawn = show(&files).run().exits(0).says_nothing().stdout_text();
    assert!(drawn.contains("its own report"), "{drawn}");
    assert!(!drawn.contains("nemo-gym/"), "{drawn}");
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_shown() {
    let whole = line("head", &one());
    let broken = [b"{\"resourceSpans\":7}\n".as_slice(), &whole, b"[]\n", &whole[..200]].concat();
    let ended = show(&[("a.jsonl", &broken)]).run().exits(1);
    assert!(ended.stdout_text().contains("└─ greeter"), "{ended}");
    let said = ended.stderr_text();
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{ended}");
    assert!(lines[0].starts_with("gym-startup: a.jsonl:1: not OTLP: invalid type"), "{ended}");
    assert_eq!(lines[1], "gym-startup: a.jsonl:3: not a JSON object");
    assert!(lines[2].starts_with("gym-startup: a.jsonl:4: cut short: EOF"), "{ended}");
}

#[test]
fn a_file_that_is_none_is_named_and_the_others_are_shown() {
    let whole = line("head", &one());
    let run = show(&[("a.jsonl", &whole)]);
    fs::create_dir(run.folder().join("folder")).unwrap();
    let run = run.file("secret.jsonl", 0o000, whole.as_slice()).user(65_534);
    for (file, why) in [
        ("missing.jsonl", "No such file or directory (os error 2)"),
        ("folder", "Is a directory (os error 21)"),
        ("secret.jsonl", "Permission denied (os error 13)"),
    ] {
        let ended = run.clone().arg(file).run().exits(1);
        assert!(ended.stdout_text().contains("└─ greeter"), "{ended}");
        ended.says(format!("gym-startup: {file}: {why}\n"));
    }
}

#[test]
fn a_file_without_spans_gets_a_word() {
    let whole = line("head", &one());
    let metrics: &[u8] = b"{\"resourceMetrics\":[]}\n{\"resourceLogs\":[]}\n";
    for (content, words) in [
        (metrics, "b.jsonl: has metrics or logs alone, no span"),
        (b"", "b.jsonl: is empty"),
        (b"\n \n", "b.jsonl: is empty"),
    ] {
        let beside = show(&[("a.jsonl", &whole), ("b.jsonl", content)]).run().exits(0);
        beside.says(format!("gym-startup: {words}\n"));
        let alone = show(&[("b.jsonl", content)]).run().exits(1).prints("");
        alone.says(format!("gym-startup: {words}\ngym-startup: there is no span to show\n"));
    }
}

#[test]
fn a_binary_file_is_told_in_a_few_lines() {
    let noise: Vec<u8> =
        (0..200_000_u32).map(|it| (it.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let ended = show(&[("noise", &noise)]).run().exits(1).prints("");
    let said = ended.stderr_text();
    assert!(said.starts_with("gym-startup: noise:1: not JSON: "), "{said}");
    assert!(
        said.ends_with("more damaged lines\ngym-startup: there is no span to show\n"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 12, "{said}");
}

#[test]
fn a_compressed_file_gets_its_program() {
    let program = "gym-startup: a.gz: is compressed: zcat a.gz | gym-startup show -\n";
    let nothing = "gym-startup: there is no span to show\n";
    show(&[("a.gz", b"\x1f\x8b\x08\n")]).run().exits(1).says(format!("{program}{nothing}"));
    let program = "gym-startup: a.zst: is compressed: zstdcat a.zst | gym-startup show -\n";
    show(&[("a.zst", b"\x28\xb5\x2f\xfd\n")]).run().exits(1).says(format!("{program}{nothing}"));
    let ended = show(&[("a", b"\0\0\x01\0\x28\xb5\x2f\xfd\n")]).run().exits(1);
    assert!(ended.stderr_text().contains("has to write it without `compression`"), "{ended}");
}

/// Spans that stand above themselves.
#[test]
fn a_circle_has_an_end() {
    let circle = [
        span(1, 2, "gym.startup.server.a", 0, 9).of("greeter"),
        span(2, 1, "gym.startup.server.b", 1, 8).of("greeter"),
        span(3, 3, "gym.startup.server.c", 2, 7).of("greeter"),
    ];
    let ended = show(&[("a.jsonl", &line("head", &circle))]).run().exits(0);
    assert_eq!(ended.stdout_text().lines().count(), 7, "{ended}");
}

/// A span beneath a span beneath a span.
#[test]
fn a_chain_of_spans_takes_little_memory() {
    let chain: Vec<_> =
        (1..=10_000).map(|id| span(id, id - 1, "step", id, 20_000).stage("step")).collect();
    let run = show(&[("a.jsonl", &line("head", &chain))]).deadline(Duration::from_secs(120));
    let ended = run.limit(Resource::RLIMIT_AS, 128 << 20, 128 << 20).arg("--json").run().exits(0);
    assert_eq!(names(&ended).len(), 10_000);
}

#[test]
fn standard_input_is_a_file_too() {
    let from_file = show(&[("a.jsonl", &line("head", &one()))]).run().exits(0);
    let ended = show(&[]).arg("-").stdin(line("head", &one())).run().exits(0).says_nothing();
    assert_eq!(ended.stdout_text(), from_file.stdout_text());
    let empty = show(&[]).arg("-").run().exits(1);
    empty.says("gym-startup: standard input: is empty\ngym-startup: there is no span to show\n");
}

#[test]
fn spans_of_no_startup_are_shown_where_there_is_nothing_else() {
    let none = "gym-startup: no span of a startup is in what was given";
    let ended = show(&[("a.jsonl", &rollouts(3))]).run().exits(0);
    assert_eq!(ended.stdout_text().matches("\nrollout ").count(), 3, "{ended}");
    ended.says(format!("{none}: all spans are shown as they are\n"));
    let ended = show(&[("a.jsonl", &rollouts(2_000))]).arg("--json").run().exits(0);
    assert_eq!(names(&ended).len(), 1_000);
    assert_eq!(
        document(&ended)["notes"][0],
        "no span of a startup is in what was given: the first 1000 spans are shown as they are, \
         the others are not"
    );
    let both = [rollouts(3), line("head", &one())].concat();
    let chosen = show(&[("a.jsonl", &both)]).args(["--trace", &format!("{:032x}", 7)]).run();
    assert!(chosen.stderr_text().contains("is in a trace that begins with 0000"), "{chosen}");
    let orphans = in_trace(7, vec![span(5, 9, "rollout", 0, 1)]);
    let orphans: Vec<u8> =
        (1..=30).flat_map(|n| line("head", &in_trace(n, orphans.clone()))).collect();
    let said = show(&[("a.jsonl", &orphans)]).run().exits(0).stderr_text();
    assert_eq!(said.lines().count(), 22, "{said}");
    assert!(said.ends_with("gym-startup: and 10 more of that kind; --json has all\n"), "{said}");
    let with_startup = [rollouts(3), line("head", &one()), rollouts(3)].concat();
    let ended = show(&[("a.jsonl", &with_startup)]).arg("--json").run().exits(0).says_nothing();
    assert!(names(&ended).iter().all(|name| name.starts_with("gym.")), "{ended}");
}

/// Startups by the thousand: the latest are kept.
#[test]
fn too_many_spans_of_startups_are_left_out() {
    let block = |trace: u128| {
        let steps = (0..1_000).map(|id| span(id + 10, 1, "step", id, id + 1).stage("step"));
        let root = span(1, 0, "gym.startup", 0, 5_000).outcome("ready");
        line("head", &in_trace(trace, std::iter::once(root).chain(steps).collect()))
    };
    let file: Vec<u8> = (1..=60).rev().flat_map(block).collect();
    let run = show(&[("a.jsonl", &file)]).deadline(Duration::from_secs(120)).arg("--json");
    let ended = run.clone().run().exits(0);
    let document = document(&ended);
    let startups = document["startups"].as_array().unwrap();
    assert_eq!(startups.last().unwrap()["trace_id"], format!("{:032x}", 60), "the latest");
    let kept: usize = startups.iter().map(|it| it["spans"].as_array().unwrap().len()).sum();
    assert!((37_000..=50_000).contains(&kept), "{kept}");
    let note = document["notes"][0].as_str().unwrap();
    let left_out = 60 * 1_001 - kept;
    let older = 60 - startups.len();
    assert_eq!(
        note,
        format!(
            "{left_out} spans of {older} older startups left out, since 50000, or 48 MiB of their \
             texts, are the most; --trace chooses a startup"
        )
    );
    let chosen = run.args(["--trace", &format!("{:032x}", 1)]).run().exits(0);
    assert_eq!(names(&chosen).len(), 1_001);
}

/// As a collector leaves it: rollouts by the million, and a startup somewhere.
#[test]
fn a_file_of_200_mb_is_read_in_little_memory() {
    const MIB: usize = 1 << 20;
    let many = rollouts(3_000);
    let block = many.repeat(MIB.div_ceil(many.len()));
    let run = show(&[]).deadline(Duration::from_secs(180));
    let path = run.folder().join("traces.jsonl");
    let mut file = File::create(&path).unwrap();
    let mut length = 0;
    let mut write = |bytes: &[u8]| {
        file.write_all(bytes).unwrap();
        length += bytes.len();
        length
    };
    while write(&block) < 100 * MIB {}
    write(&line("head", &one()));
    while write(&block) < 200 * MIB {}
    let run = run.arg("traces.jsonl").limit(Resource::RLIMIT_AS, 128 << 20, 128 << 20);
    let ended = run.clone().run().exits(0).says_nothing();
    fs::remove_file(path).unwrap();
    assert!(ended.stdout_text().contains("└─ greeter"), "{ended}");
}

/// As of instrumentation that puts a whole command line, or a stack, into each span.
#[test]
fn a_file_of_200_mb_of_startups_with_long_texts_is_read_in_little_memory() {
    let long = "x".repeat(3_000);
    let of = |number: u64| {
        let steps = (1..1_000).map(|id| {
            span(1_000 * number + id, 1, "step", id, id + 1).stage("step").with("long", &long)
        });
        line("head", &steps.collect::<Vec<_>>())
    };
    let run = show(&[]).deadline(Duration::from_secs(180));
    let path = run.folder().join("traces.jsonl");
    let mut file = File::create(&path).unwrap();
    file.write_all(&line("head", &[span(1, 0, "gym.startup", 0, 5_000).outcome("ready")])).unwrap();
    let (mut number, mut length) = (0, 0);
    while length < 200 << 20 {
        number += 1;
        let line = of(number);
        file.write_all(&line).unwrap();
        length += line.len();
    }
    let run = run.arg("traces.jsonl").limit(Resource::RLIMIT_AS, 160 << 20, 160 << 20);
    let ended = run.run().exits(0);
    fs::remove_file(path).unwrap();
    assert!(ended.stdout_text().contains("gym.startup "), "{ended}");
    let said = ended.stderr_text();
    let said = said.strip_prefix("gym-startup: ").unwrap();
    let (count, why) = said.split_once(' ').unwrap();
    assert!((40_000..number * 999).contains(&count.parse().unwrap()), "{ended}");
    assert_eq!(why, "spans left out, since 50000, or 48 MiB of their texts, are the most\n");
}

#[test]
fn a_page_goes_where_it_is_asked_for() {
    let one = || show(&[("a.jsonl", &line("head", &one()))]);
    let printed = one().args(["--html", "-"]).run().exits(0).says_nothing().stdout_text();
    assert!(printed.starts_with("<!DOCTYPE html>"), "{printed}");
    let ended = one().args(["--html", "page.html"]).run().exits(0).prints("").says_nothing();
    assert_eq!(fs::read_to_string(ended.folder().join("page.html")).unwrap(), printed);
    let words = "gym-startup: nowhere/page.html: No such file or directory (os error 2)\n";
    one().args(["--html", "nowhere/page.html"]).run().exits(1).prints("").says(words);
}

#[test]
fn a_page_takes_the_place_of_what_was_there_as_a_whole() {
    let a_page = || show(&[("a.jsonl", &line("head", &one()))]).args(["--html", "page.html"]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let new = a_page().under(["/bin/sh", "-c", "umask 027; exec \"$@\"", "sh"]).run().exits(0);
    assert_eq!(mode(&new.folder().join("page.html")), 0o640);
    // Whoever has opened the old one still has all of it, and links and modes are as they were.
    let over = a_page().file("old.html", 0o604, "old");
    std::os::unix::fs::symlink("old.html", over.folder().join("page.html")).unwrap();
    let mut old = File::open(over.folder().join("old.html")).unwrap();
    let ended = over.run().exits(0).says_nothing();
    let mut text = String::new();
    old.read_to_string(&mut text).unwrap();
    assert_eq!(text, "old");
    let path = ended.folder().join("old.html");
    assert!(fs::read_to_string(&path).unwrap().starts_with("<!DOCTYPE html>"));
    assert!(ended.folder().join("page.html").is_symlink());
    assert_eq!(mode(&path), 0o604);
    let names = fs::read_dir(ended.folder()).unwrap().count();
    assert_eq!(names, 3, "{ended}");
}

#[test]
fn what_is_shown_is_not_written_over() {
    let run = show(&[("a.jsonl", &line("head", &one()))]);
    let ended = run.args(["--html", "./a.jsonl"]).run().exits(2);
    let ended =
        ended.says("gym-startup: --html ./a.jsonl: that is one of the files that are shown\n");
    assert_eq!(fs::read(ended.folder().join("a.jsonl")).unwrap(), line("head", &one()));
}

#[test]
fn a_page_is_written_in_little_memory() {
    let long = "x".repeat(2_000);
    let spans = (1..=15_000).map(|id| span(id, 0, "gym.startup", id, 20_000).with("long", &long));
    let spans: Vec<_> = spans.collect();
    let lines: Vec<_> = spans.chunks(1_000).flat_map(|spans| line("head", spans)).collect();
    let run = show(&[("a.jsonl", &lines)]);
    let run = run.args(["--html", "page.html"]).deadline(Duration::from_secs(120));
    let ended = run.limit(Resource::RLIMIT_AS, 128 << 20, 128 << 20).run().exits(0);
    let page = ended.folder().join("page.html");
    assert!(fs::metadata(page).unwrap().len() > 15_000 * 2_000);
}
