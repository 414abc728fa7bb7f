//! `gym-startup export`, run: arrange, act, expect.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gym_stamp::telemetry::{Protocol, Request, Resource, json};
use opentelemetry::{KeyValue, SpanId, TraceFlags, TraceId};

use gym_stamp::spans::{SpanRecord, Status};

use super::toolbox::spawn;

/// Far longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What it may be late by when it has waited for its deadline.
const SLACK: Duration = Duration::from_secs(30);

/// A deadline that is to pass: long enough for a busy machine to come as far as it can by then.
const IN_VAIN: Duration = Duration::from_secs(5);

/// A run of `gym-startup export -`, to be.
pub struct Export {
    program: Vec<String>,
    args: Vec<String>,
    env: Vec<(String, String)>,
    input: Vec<u8>,
    deadline: Duration,
}

impl Export {
    /// Of this input, with more time than it takes, unless a variable has another.
    pub fn of(input: impl Into<Vec<u8>>) -> Self {
        Self {
            program: vec![env!("CARGO_BIN_EXE_gym-startup").to_owned(), "export".to_owned()],
            args: Vec::new(),
            env: Vec::new(),
            input: input.into(),
            deadline: PATIENCE,
        }
    }

    /// Of one span.
    pub fn of_a_span() -> Self {
        Self::of(a_span())
    }

    pub fn file(self, file: &Path) -> Self {
        self.arg(file.to_str().unwrap())
    }

    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub fn to(self, url: impl Into<String>) -> Self {
        self.arg("--endpoint").arg(url)
    }

    pub fn over(self, protocol: Protocol) -> Self {
        self.arg("--protocol").arg(protocol.as_str())
    }

    pub fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// With a deadline that passes, see [`Ended::was_late`].
    pub fn in_vain(self) -> Self {
        self.within(IN_VAIN)
    }

    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// Runs all of it by `program`, which is given the command line.
    pub fn by(mut self, program: &[&str]) -> Self {
        self.program.splice(0..0, program.iter().map(|&word| word.to_owned()));
        self
    }

    pub fn run(self) -> Ended {
        let (program, first) = self.program.split_first().unwrap();
        let has_timeout = self.env.iter().any(|(name, _)| name.ends_with("_TIMEOUT"));
        let timeout = ["--timeout".to_owned(), self.deadline.as_millis().to_string()];
        let has_file = self.args.first().is_some_and(|arg| !arg.starts_with("--"));
        let mut command = Command::new(program);
        command
            .args(first)
            .args(&self.args)
            .args((!has_file).then_some("-"))
            .args(timeout.iter().filter(|_| !has_timeout))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(self.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let started = Instant::now();
        let mut child = spawn(&mut command).unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = self.input;
        let feeder = std::thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap().unwrap_or_default();
        Ended {
            status: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            elapsed: started.elapsed(),
            deadline: self.deadline,
        }
    }
}

/// A run that ended.
#[derive(Debug)]
pub struct Ended {
    status: Option<i32>,
    stdout: String,
    stderr: String,
    elapsed: Duration,
    deadline: Duration,
}

impl Ended {
    /// Everything was accepted, and not a word was lost on it.
    #[track_caller]
    pub fn succeeded(&self) -> &Self {
        self.ended_with(0);
        assert_eq!(self.stderr, "", "{self:?}");
        self
    }

    #[track_caller]
    pub fn failed(&self) -> &Self {
        self.ended_with(1)
    }

    /// It ended in time, of its own will, with this status.
    #[track_caller]
    pub fn ended_with(&self, status: i32) -> &Self {
        assert_eq!(self.status, Some(status), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        assert!(!self.stderr.contains("panicked"), "{self:?}");
        assert!(self.elapsed < self.deadline + PATIENCE, "{self:?}");
        self
    }

    /// It waited for its deadline, in the middle of this.
    #[track_caller]
    pub fn was_late(&self, doing: &str) -> &Self {
        self.failed().after(self.deadline).said(&format!("{doing} within "));
        // Some of it may have gone before the clock was read.
        let told = self.stderr.split(" within ").nth(1).and_then(|it| it.split(" ms").next());
        let told = Duration::from_millis(told.unwrap_or_default().parse().unwrap());
        assert!(told <= self.deadline && told > self.deadline / 2, "{self:?}");
        assert!(self.elapsed < self.deadline + SLACK, "{self:?}");
        self
    }

    /// It waited for this long at least.
    #[track_caller]
    pub fn after(&self, elapsed: Duration) -> &Self {
        assert!(self.elapsed >= elapsed, "{self:?}");
        self
    }

    /// It did not wait for its deadline.
    #[track_caller]
    pub fn at_once(&self) -> &Self {
        assert!(self.elapsed < self.deadline, "{self:?}");
        self
    }

    #[track_caller]
    pub fn said(&self, words: &str) -> &Self {
        assert!(self.stderr.contains(words), "expected {words:?} in {self:#?}");
        self
    }

    /// One line for one failure.
    #[track_caller]
    pub fn in_lines(&self, count: usize) -> &Self {
        assert_eq!(self.stderr.lines().count(), count, "{self:#?}");
        assert!(self.stderr.lines().all(|line| line.starts_with("gym-startup: ")), "{self:#?}");
        self
    }

    #[track_caller]
    pub fn never_said(&self, words: &str) -> &Self {
        assert!(!self.stderr.contains(words), "{self:#?}");
        self
    }
}

/// A line with one span.
pub fn a_span() -> Vec<u8> {
    line(&[span(1, "gym.startup")])
}

pub fn line(spans: &[SpanRecord]) -> Vec<u8> {
    let resource = Resource { attributes: vec![KeyValue::new("service.name", "test/supervisor")] };
    let mut line = json::write_line(&Request::of_spans(&resource, spans)).unwrap();
    line.push(b'\n');
    line
}

pub fn span(id: u64, name: &str) -> SpanRecord {
    SpanRecord {
        trace_id: TraceId::from(0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c),
        span_id: SpanId::from(id),
        parent_span_id: None,
        flags: TraceFlags::SAMPLED,
        name: name.to_owned(),
        start_ns: 1_700_000_000_000_000_001,
        end_ns: 1_700_000_001_000_000_002,
        attributes: vec![KeyValue::new("nemo.gym.startup.outcome", "ready")],
        status: Status::Unset,
    }
}

/// A folder of the test's own, empty.
pub fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).unwrap();
    }
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
