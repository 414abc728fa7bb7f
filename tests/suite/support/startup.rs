//! `gym-startup run` on real servers: arrange, act, expect.
//!
//! Everything that a run starts has a variable of its own in its environment, so that what is left
//! of it is found wherever it went, and ended with the test.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gym_stamp::telemetry::{Request, json};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;

use super::toolbox::{free_port, program};
use super::{Build, Bytes, Ended, Run, Running, command};

/// Far longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A small server. `after=S`: listens only then. `when=FILE`: listens only when that is there.
/// `until=FILE`: answers 503 until it is. `ends=FILE`: ends with status 4 when it is. `status=N`:
/// answers so. `stubborn=1`: only SIGKILL ends it. `says=TEXT`. `host=A`: listens at that address.
/// `notes=FILE`: writes down when it listens, in ns.
pub const SERVE: &str = r#"
import os, signal, socket, sys, threading, time
options = dict(argument.split("=", 1) for argument in sys.argv[1:])
def wait_for(name):
    while name in options and not os.path.exists(options[name]):
        time.sleep(0.01)
def end():
    wait_for("ends")
    os._exit(4)
stubborn = "stubborn" in options
for number in signal.SIGINT, signal.SIGTERM:
    signal.signal(number, signal.SIG_IGN if stubborn else signal.SIG_DFL)
if "says" in options:
    print(options["says"], flush=True)
time.sleep(float(options.get("after", 0)))
wait_for("when")
if "unix" in options:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(options["unix"])
    listener.listen()
else:
    host = options.get("host", "127.0.0.1")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, int(options["port"])), family=family)
if "notes" in options:
    with open(options["notes"], "w") as notes:
        notes.write(str(time.time_ns()))
if "ends" in options:
    threading.Thread(target=end).start()
while True:
    connection, _ = listener.accept()
    try:
        connection.recv(65536)
        unready = "until" in options and not os.path.exists(options["until"])
        status = "503" if unready else options.get("status", "200")
        connection.sendall(f"HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n".encode())
        connection.close()
    except OSError:
        pass
"#;

static RUNS: AtomicU32 = AtomicU32::new(1);

/// What is in the command line of `serve.py`, and not in that of a shell that is about to run it.
pub const SERVING: &str = "-S\0serve.py";

/// A run, to be.
pub struct Startup {
    run: Run,
    fleet: String,
    args: Vec<Vec<u8>>,
    out: String,
    after_dashes: Vec<Vec<u8>>,
    marker: String,
}

/// Words of `serve.py`'s command line, for a fleet file's string.
pub fn serve(port: u16, options: &str) -> String {
    format!("exec python3 -S serve.py port={port} {options}")
}

/// A run of no servers yet.
pub fn startup() -> Startup {
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    let marker = format!("GYM_TEST_RUN={}.{number}.", std::process::id());
    let path = std::env::var("PATH").unwrap();
    let run = command(env!("CARGO_BIN_EXE_gym-startup"))
        .environ([format!("PATH={path}"), marker.clone()])
        .deadline(PATIENCE)
        .file("serve.py", 0o644, SERVE);
    std::os::unix::fs::symlink(Build::Freestanding.binary(), run.folder().join("gym-stamp"))
        .unwrap();
    let args = vec![b"run".to_vec()];
    let out = "out.jsonl".to_owned();
    Startup { run, fleet: String::new(), args, out, after_dashes: Vec::new(), marker }
}

impl Startup {
    /// A server that `bash -c` launches, with more lines of the fleet file for it.
    pub fn server(mut self, name: &str, command: &str, ready: &str, more: &str) -> Self {
        let command = command.replace('\\', r"\\").replace('"', r#"\""#);
        let command = command.replace('\n', r"\n");
        self.fleet.push_str(&format!(
            "[[server]]\nname = \"{name}\"\ncommand = \"{command}\"\nready = \"{ready}\"\n{more}\n"
        ));
        self
    }

    /// A server of `serve.py`, ready over HTTP.
    pub fn serves(self, name: &str, options: &str) -> Self {
        let port = free_port();
        self.server(name, &serve(port, options), &format!("http://127.0.0.1:{port}/"), "")
    }

    /// More of the fleet file.
    pub fn fleet(mut self, text: &str) -> Self {
        self.fleet.push_str(text);
        self
    }

    /// The one-server form.
    pub fn one(mut self, ready: &str, command: &[&str]) -> Self {
        self.args.extend(["--name", "one", "--ready", ready].map(Bytes::into_bytes));
        self.after_dashes = command.iter().map(|it| it.into_bytes()).collect();
        self
    }

    pub fn args<T: Bytes>(mut self, args: impl IntoIterator<Item = T>) -> Self {
        self.args.extend(args.into_iter().map(Bytes::into_bytes));
        self
    }

    /// Where it is recorded, if not in `out.jsonl`; nowhere, if empty.
    pub fn out(mut self, out: &str) -> Self {
        self.out = out.to_owned();
        self
    }

    /// Changes how it is run.
    pub fn with(mut self, change: impl FnOnce(Run) -> Run) -> Self {
        self.run = change(self.run);
        self
    }

    pub fn var(self, name: &str, value: impl Bytes) -> Self {
        self.with(|run| run.var(name, value))
    }

    pub fn folder(&self) -> &Path {
        self.run.folder()
    }

    pub fn spawn(self) -> Started {
        let Self { mut run, fleet, args, out, after_dashes, marker } = self;
        run = run.args(args);
        if !out.is_empty() {
            run = run.args(["--out", &out]);
        }
        if after_dashes.is_empty() {
            run = run.file("fleet.toml", 0o644, fleet).arg("fleet.toml");
        } else {
            run = run.arg("--").args(after_dashes);
        }
        let folder = run.folder().to_owned();
        let sweep = Sweep { marker };
        Started { running: run.spawn(), sweep, folder }
    }

    pub fn run(self) -> Over {
        self.spawn().wait()
    }
}

/// Ends what is left of a run.
pub struct Sweep {
    marker: String,
}

impl Sweep {
    /// The processes of the run.
    pub fn left(&self) -> Vec<i32> {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let marked = |pid: &i32| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|&byte| byte == 0).any(|entry| entry == self.marker.as_bytes())
        };
        pids.filter(marked).collect()
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        // Whoever is forked meanwhile is found the next time.
        for _ in 0..20 {
            let left = self.left();
            if left.is_empty() {
                return;
            }
            for pid in left {
                // It may have ended by now.
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A run that goes on.
pub struct Started {
    pub running: Running,
    sweep: Sweep,
    folder: PathBuf,
}

impl Started {
    pub fn pid(&self) -> i32 {
        self.running.pid()
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The processes of the run.
    pub fn processes(&self) -> Vec<i32> {
        self.sweep.left()
    }

    /// The keeper's pid.
    pub fn keeper(&self) -> i32 {
        let is_keeper = |pid: &i32| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|it| it == "gym-keeper\n")
        };
        let mut found = None;
        self.running.wait_until(|| {
            found = self.processes().into_iter().find(is_keeper);
            found.is_some()
        });
        found.unwrap()
    }

    /// The processes whose command line has `word` in it.
    pub fn processes_with(&self, word: &str) -> Vec<i32> {
        let has = |pid: &i32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).contains(word)
        };
        self.processes().into_iter().filter(has).collect()
    }

    /// Waits until the record is there: the startup is over.
    #[track_caller]
    pub fn recorded(self) -> Self {
        self.until_there_is("out.jsonl")
    }

    /// Waits until it has said `words` on stderr.
    #[track_caller]
    pub fn until_it_says(mut self, words: &str) -> Self {
        self.running.until_it_says(words);
        self
    }

    /// Writes the file `name` into the folder: what waits for it goes on.
    pub fn write(self, name: &str) -> Self {
        fs::write(self.folder.join(name), "").unwrap();
        self
    }

    /// Waits until the keeper has left behind it whatever there is to see now: its one thread has
    /// waited for something ten times more, and what it looks at in any case comes after three waits
    /// at the latest.
    #[track_caller]
    pub fn until_the_keeper_went_on(self) -> Self {
        let status = format!("/proc/{}/status", self.keeper());
        let waits = || -> u64 {
            let status = fs::read_to_string(&status).unwrap();
            let line = status.lines().find_map(|it| it.strip_prefix("voluntary_ctxt_switches:"));
            line.unwrap().trim().parse().unwrap()
        };
        let enough = waits() + 10;
        self.wait_for(|_| waits() >= enough)
    }

    /// Waits until `count` processes have `word` in their command line.
    #[track_caller]
    pub fn until(self, count: usize, word: &str) -> Self {
        self.wait_for(|run| run.processes_with(word).len() == count)
    }

    /// Waits until the file `name` of the folder is there.
    #[track_caller]
    pub fn until_there_is(self, name: &str) -> Self {
        self.wait_for(|run| run.folder.join(name).exists())
    }

    /// Waits for `condition`; a run that ends without it fails the test.
    #[track_caller]
    fn wait_for(self, condition: impl Fn(&Self) -> bool) -> Self {
        let has_ended = || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid()));
            stat.is_ok_and(|stat| stat.contains(") Z "))
        };
        let mut ended = false;
        self.running.wait_until(|| {
            ended = has_ended();
            condition(&self) || ended
        });
        if ended && !condition(&self) {
            panic!("ended before that\n{}", self.wait().ended);
        }
        self
    }

    /// Lets time pass, where time itself is what counts.
    pub fn after(self, time: Duration) -> Self {
        thread::sleep(time);
        self
    }

    pub fn signal(self, signal: Signal) -> Self {
        self.running.signal(signal);
        self
    }

    pub fn wait(self) -> Over {
        let started = Instant::now();
        let ended = self.running.wait();
        Over { ended, sweep: self.sweep, waited: started.elapsed() }
    }

    /// Kills `pid`, and expects that of all the run no process is left before long.
    pub fn all_gone_after(self, signal: Signal, pid: i32) {
        kill(Pid::from_raw(pid), signal).unwrap();
        self.running.wait_until(|| {
            self.processes().iter().all(|pid| {
                // The test is the parent of the front, and waits for it later.
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                stat.is_empty() || stat.contains(") Z ")
            })
        });
        self.no_torn_file();
    }

    /// The record is not there, or all of it.
    pub fn no_torn_file(&self) {
        let out = self.folder.join("out.jsonl");
        if out.exists() {
            assert!(!Trace::read(&out).spans.is_empty());
        }
    }
}

/// A run that has ended.
pub struct Over {
    pub ended: Ended,
    sweep: Sweep,
    /// From the call to its end.
    pub waited: Duration,
}

impl Over {
    /// Its status; and no process is left of it.
    #[track_caller]
    pub fn exits(self, status: i32) -> Self {
        let Self { ended, sweep, waited } = self;
        let ended = ended.exits(status);
        let left = sweep.left();
        let lines: Vec<_> = left
            .iter()
            .map(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default())
            .collect();
        assert!(left.is_empty(), "left: {left:?} {lines:?}\n{ended}");
        Self { ended, sweep, waited }
    }

    /// It has said all of `words` on stderr.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        let text = String::from_utf8_lossy(&self.ended.stderr);
        for word in words {
            assert!(text.contains(word), "no '{word}'\n{}", self.ended);
        }
        self
    }

    /// It did not take longer.
    #[track_caller]
    pub fn within(self, seconds: u64) -> Self {
        assert!(self.waited < Duration::from_secs(seconds), "{:?}\n{}", self.waited, self.ended);
        self
    }

    /// What it recorded.
    #[track_caller]
    pub fn trace(&self) -> Trace {
        let left: Vec<_> = fs::read_dir(self.ended.folder())
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".tmp"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
        Trace::read(&self.ended.folder().join("out.jsonl"))
    }

    /// What it recorded has this outcome, with an error status unless it is `ready`.
    #[track_caller]
    pub fn outcome(self, outcome: &str) -> Self {
        let trace = self.trace();
        let root = trace.only("gym.startup");
        assert_eq!(attribute(root, "nemo.gym.startup.outcome"), outcome, "{}", self.ended);
        let code = root.status.as_ref().map_or(0, |status| status.code);
        assert_eq!(code, if outcome == "ready" { 0 } else { 2 }, "{root:?}");
        let unfinished = trace.named("gym.startup.unfinished").len();
        assert_eq!(unfinished, usize::from(outcome != "ready"), "{}", self.ended);
        self
    }
}

/// The spans of a record: one trace under one root.
pub struct Trace {
    pub spans: Vec<Span>,
}

impl Trace {
    #[track_caller]
    pub fn read(path: &Path) -> Self {
        let text = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(text.ends_with(b"\n"), "torn: {}", String::from_utf8_lossy(&text));
        let lines = text.split(|&byte| byte == b'\n');
        Self::of(lines.flat_map(|line| json::read_line(line).unwrap()))
    }

    #[track_caller]
    pub fn of(requests: impl IntoIterator<Item = Request>) -> Self {
        let mut spans = Vec::new();
        for request in requests {
            if let Request::Traces(request) = request {
                let scopes = request.resource_spans.into_iter().flat_map(|it| it.scope_spans);
                spans.extend(scopes.flat_map(|it| it.spans));
            }
        }
        let mut ids = HashMap::new();
        for span in &spans {
            assert_eq!(span.trace_id, spans[0].trace_id, "two traces: {spans:#?}");
            assert!(ids.insert(&span.span_id, span).is_none(), "one id twice: {span:?}");
            assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{span:?}");
        }
        let roots = spans.iter().filter(|span| !ids.contains_key(&span.parent_span_id));
        assert_eq!(roots.count(), 1, "one root: {spans:#?}");
        Self { spans }
    }

    pub fn named(&self, name: &str) -> Vec<&Span> {
        self.spans.iter().filter(|span| span.name == name).collect()
    }

    #[track_caller]
    pub fn only(&self, name: &str) -> &Span {
        let [span] = self.named(name)[..] else { panic!("not one {name}: {:#?}", self.spans) };
        span
    }

    /// The span `name` of the server `server`.
    #[track_caller]
    pub fn of_server(&self, server: &str, name: &str) -> &Span {
        let of_it = |span: &&&Span| attribute(span, "nemo.gym.server.name") == server;
        let all = self.named(name);
        let [span] = all.iter().filter(of_it).collect::<Vec<_>>()[..] else {
            panic!("not one {name} of {server}: {:#?}", self.spans)
        };
        span
    }

    pub fn children(&self, parent: &Span) -> Vec<&Span> {
        self.spans.iter().filter(|span| span.parent_span_id == parent.span_id).collect()
    }
}

/// The value of a string attribute; empty if there is none.
pub fn attribute<'a>(span: &'a Span, key: &str) -> &'a str {
    let found = span.attributes.iter().find(|it| it.key == key);
    match found.and_then(|it| it.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text,
        _ => "",
    }
}

/// In milliseconds.
pub fn duration_ms(span: &Span) -> f64 {
    (span.end_time_unix_nano - span.start_time_unix_nano) as f64 / 1e6
}

/// `bash`, which Debian always has.
pub fn bash() -> PathBuf {
    program("bash", "bash")
}
