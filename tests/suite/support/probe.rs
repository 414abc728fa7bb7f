//! A program that tells everything exec passed on to it (`probe.c`).

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use gym_stamp::contract::SETUP_DONE_NS;

use super::run::{Ended, Run, list};
use super::toolbox::{made_once, program, succeed};

/// The probe: a static program, so that it runs in any root and has no loader to alter a thing.
pub fn probe_program() -> PathBuf {
    let source = include_str!("probe.c");
    let flags = ["-static", "-O1", "-Wall", "-Werror"];
    let folder = made_once("probe", &(source, flags), |folder| {
        let path = folder.join("probe.c");
        fs::write(&path, source).unwrap();
        let mut cc = Command::new(program("cc", "gcc libc6-dev"));
        succeed(cc.args(flags).arg("-o").arg(folder.join("probe")).arg(path));
    });
    folder.join("probe")
}

impl Run {
    /// Makes the probe the next argument: the command that is run. What follows are its own
    /// arguments. [`Ended::seen`] reads what it told.
    pub fn probe(self) -> Self {
        let probe = self.probe_path();
        self.arg(probe)
    }

    /// The path that [`Run::probe`] runs it by.
    pub fn probe_path(&self) -> PathBuf {
        let path = self.folder().join("probe");
        if !path.exists() {
            let probe = probe_program();
            // A copy where the folder is on another file system.
            fs::hard_link(&probe, &path).or_else(|_| fs::copy(&probe, &path).map(drop)).unwrap();
        }
        path
    }
}

impl Ended {
    /// What the probe told; it has to have run, and to have been the last thing that did.
    #[track_caller]
    pub fn seen(&self) -> Seen {
        assert_eq!(self.status, 0, "the probe's exit status\n{self}");
        let path = self.folder().join("probe.out");
        let print = fs::read(&path).unwrap_or_else(|error| panic!("{error}: no print\n{self}"));
        fs::remove_file(path).unwrap();
        Seen::parse(&print)
    }
}

/// What a process was given by exec, and the state that it found itself in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its arguments, the name first.
    pub argv: Vec<Vec<u8>>,
    /// Its environment entries, in order.
    pub environ: Vec<Vec<u8>>,
    /// Everything else, as `key value`.
    pub facts: Vec<String>,
}

impl Seen {
    fn parse(print: &[u8]) -> Self {
        let mut seen = Self::default();
        for line in print.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            if let Some(word) = line.strip_prefix(b"argv ") {
                seen.argv.push(unescape(word));
            } else if let Some(entry) = line.strip_prefix(b"environ ") {
                seen.environ.push(unescape(entry));
            } else {
                seen.facts.push(String::from_utf8(line.to_vec()).unwrap());
            }
        }
        seen
    }

    /// The value of the one fact named `key`.
    #[track_caller]
    pub fn fact(&self, key: &str) -> &str {
        let named = |fact: &&String| fact.split_once(' ').is_some_and(|(name, _)| name == key);
        let fact = self.facts.iter().find(named).unwrap_or_else(|| panic!("no fact {key}"));
        &fact[key.len() + 1..]
    }

    /// The values of every entry named `name`, in order.
    pub fn values(&self, name: &str) -> Vec<&[u8]> {
        let prefix = format!("{name}=");
        self.environ.iter().filter_map(|entry| entry.strip_prefix(prefix.as_bytes())).collect()
    }

    /// The facts that the two do not share, of both.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let only = |these: &Self, those: &Self, mark: &str| {
            let missing = these.facts.iter().filter(|fact| !those.facts.contains(fact));
            missing.map(|fact| format!("{mark} {fact}")).collect::<Vec<_>>()
        };
        [only(self, other, "-"), only(other, self, "+")].concat()
    }
}

/// Expect.
impl Seen {
    /// The environment is `plain` with one stamp of the time that the run took: where the first
    /// one stood, or at the end.
    #[track_caller]
    pub fn expect_stamped(&self, ended: &Ended, plain: &[Vec<u8>]) {
        self.expect_stamped_with(SETUP_DONE_NS, ended, plain);
    }

    /// [`Seen::expect_stamped`] with the variable `name`.
    #[track_caller]
    pub fn expect_stamped_with(&self, name: &str, ended: &Ended, plain: &[Vec<u8>]) {
        let prefix = format!("{name}=").into_bytes();
        let is_stamp = |entry: &Vec<u8>| entry.starts_with(&prefix);
        let stamps: Vec<_> = self.environ.iter().filter(|entry| is_stamp(entry)).collect();
        let [stamp] = stamps[..] else { panic!("{} stamps\n{ended}", stamps.len()) };
        let first = plain.iter().position(is_stamp).unwrap_or(plain.len());
        let mut expected: Vec<_> = plain.iter().filter(|entry| !is_stamp(entry)).cloned().collect();
        expected.insert(first, stamp.clone());
        assert!(self.environ == expected, "environment {}\n{ended}", list(&self.environ));
        expect_time_of(ended, &stamp[prefix.len()..]);
    }

    /// The environment is exactly `environ`.
    #[track_caller]
    pub fn expect_environ(&self, ended: &Ended, environ: &[Vec<u8>]) {
        assert!(self.environ == environ, "environment {}\n{ended}", list(&self.environ));
    }
}

/// `digits` are a time between the start and the end of a run, as the contract writes it.
#[track_caller]
pub fn expect_time_of(ended: &Ended, digits: &[u8]) {
    let text = digits.escape_ascii();
    assert!(digits.iter().all(u8::is_ascii_digit), "{text} is no stamp\n{ended}");
    let ns: u64 = std::str::from_utf8(digits).unwrap().parse().unwrap();
    let run = ended.started_ns..=ended.ended_ns;
    assert!(run.contains(&ns) && digits[0] != b'0', "{text} is not in {run:?}\n{ended}");
}

fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        match after {
            [b'x', high, low, tail @ ..] if first == b'\\' => {
                let digits = [*high, *low];
                let code = std::str::from_utf8(&digits).unwrap();
                bytes.push(u8::from_str_radix(code, 16).unwrap());
                rest = tail;
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    bytes
}
