//! What is to be launched: a fleet file or a command line, checked before anything starts.

pub mod check;
mod file;
mod ready;
pub mod time;

use std::ffi::OsString;
use std::fmt;
use std::ops::Deref;
use std::path::{self, Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::args;

pub use ready::Ready;

/// How long a server may take until it is ready where nobody says so: the longest build of an
/// environment that somebody would still wait for.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// Plans what `args` ask for, or tells all that is wrong with it.
pub fn plan(args: &args::Run) -> Result<Plan, Vec<Problem>> {
    check_form(args).map_err(|problem| vec![problem])?;
    let mut problems = Vec::new();
    let mut option = |name, result: Result<Option<Duration>, String>| {
        result.unwrap_or_else(|why| {
            problems.push(Problem::of_option(name, why));
            None
        })
    };
    let timeout = args.timeout.as_deref();
    let limit = option("--timeout", timeout.map(time::from_text).transpose());
    let grace = option("--grace", time::from_text(&args.grace).map(Some)).unwrap_or_default();
    if args.out.as_deref() == Some(Path::new("-")) {
        let why = "- would be a file of that name, not standard output: ./- is, or /dev/stdout";
        problems.push(Problem::of_option("--out", why.to_owned()));
    }
    let found = match &args.fleet {
        Some(path) => file::read(path),
        None => one_server(args).map(|server| vec![server]),
    };
    let mut servers = found.unwrap_or_else(|more| {
        problems.extend(more);
        Vec::new()
    });
    if !problems.is_empty() {
        return Err(problems);
    }
    if let Some(limit) = limit {
        servers.iter_mut().for_each(|server| server.timeout = time::unless_zero(limit));
    }
    Ok(Plan {
        servers,
        one_server: args.fleet.is_none(),
        when_ready: match &args.then {
            Some(command) => WhenReady::Then(command.clone()),
            None if args.exit_when_ready => WhenReady::End,
            None => WhenReady::Stay,
        },
        grace,
        out: args.out.clone().map(OsPath::from),
        log_dir: args.log_dir.clone().map(OsPath::from),
        quiet: args.quiet,
        progress: !args.no_progress,
    })
}

/// There are two forms, and none between them.
fn check_form(args: &args::Run) -> Result<(), Problem> {
    let args::Run { fleet, name, server_type, ready, expect, command, .. } = args;
    let of_one = name.is_some()
        || server_type.is_some()
        || ready.is_some()
        || expect.is_some()
        || !command.is_empty();
    let wrong = |why: &str| Err(Problem::of_option("run", why.to_owned()));
    match (fleet, of_one) {
        (None, false) => wrong("give a fleet file, or --name NAME --ready URL -- COMMAND"),
        (Some(_), true) => wrong(
            "a fleet file describes its servers itself: --name, --type, --ready, --expect and \
             -- COMMAND go without one",
        ),
        _ => Ok(()),
    }
}

/// The server that the command line itself describes.
fn one_server(args: &args::Run) -> Result<Server, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut wrong = |option, why| problems.push(Problem::of_option(option, why));
    let cwd = path::absolute(".").unwrap_or_else(|error| {
        wrong("the current directory", error.to_string());
        PathBuf::new()
    });
    let name = args.name.clone().unwrap_or_default();
    check::name(&name).unwrap_or_else(|why| wrong("--name", why));
    check::command(&args.command).unwrap_or_else(|why| wrong("COMMAND", why));
    if let Some(expect) = args.expect {
        check::status(i64::from(expect)).map(drop).unwrap_or_else(|why| wrong("--expect", why));
    }
    let ready = Ready::parse(args.ready.as_deref().unwrap_or_default(), args.expect, &cwd);
    let ready = ready.map_err(|why| wrong("--ready", why));
    match ready {
        Ok(ready) if problems.is_empty() => Ok(Server {
            name,
            server_type: args.server_type.clone().filter(|it| !it.is_empty()),
            command: args.command.clone(),
            cwd: cwd.into(),
            env: Vec::new(),
            ready,
            timeout: Some(DEFAULT_TIMEOUT),
        }),
        _ => Err(problems),
    }
}

/// One thing that is wrong with a fleet file or a command line, and what is accepted instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What it is about: a key, an option; empty if neither.
    about: String,
    why: String,
    file: Option<String>,
    line: Option<usize>,
}

impl Problem {
    fn of_option(name: &str, why: String) -> Self {
        Self { about: name.to_owned(), why, file: None, line: None }
    }

    fn of_file(path: &Path, line: Option<usize>, key: &str, why: &str) -> Self {
        let file = Some(path.display().to_string());
        Self { about: key.to_owned(), why: why.to_owned(), file, line }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, "{file}:{line}: ")?,
            (Some(file), None) => write!(f, "{file}: ")?,
            (None, _) => {}
        }
        if !self.about.is_empty() {
            write!(f, "{}: ", self.about)?;
        }
        f.write_str(&self.why)
    }
}

/// All that one `run` will do. Nothing in it is left to check but what only doing it shows.
///
/// It crosses to the keeper as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// At least one, each with a name of its own.
    pub servers: Vec<Server>,
    /// Whether it is the one server of a command line, whose exit status is then ours.
    pub one_server: bool,
    pub when_ready: WhenReady,
    /// How long a server may take to end, after an INT and again after a TERM.
    pub grace: Duration,
    /// Where the startup is recorded.
    pub out: Option<OsPath>,
    /// Where each server's output goes, if not to ours.
    pub log_dir: Option<OsPath>,
    /// No words but of what went wrong.
    pub quiet: bool,
    /// Whether a terminal may get a live view.
    pub progress: bool,
}

/// One server of a [`Plan`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Not empty, without control characters and `/`: it may become a file's name.
    pub name: String,
    #[serde(rename = "type")]
    pub server_type: Option<String>,
    /// Program and arguments; at least the program, which is not empty. One with a `/` in it is
    /// found from `cwd`.
    pub command: Vec<OsString>,
    /// Absolute; a directory when it was looked at.
    pub cwd: OsPath,
    /// What is added to the environment, in the order of the file.
    pub env: Vec<(String, String)>,
    pub ready: Ready,
    /// How long it may take from its spawn to ready; `None` for as long as it likes.
    pub timeout: Option<Duration>,
}

/// What happens once every server is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhenReady {
    /// The fleet is kept until a signal or the end of a server.
    Stay,
    /// The fleet ends at once, with success.
    End,
    /// A shell's command line runs, and the fleet ends with its status.
    Then(OsString),
}

/// A path that crosses as JSON even where it is no UTF-8, unlike serde's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OsPath(OsString);

impl From<PathBuf> for OsPath {
    fn from(path: PathBuf) -> Self {
        Self(path.into_os_string())
    }
}

impl Deref for OsPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        Path::new(&self.0)
    }
}
