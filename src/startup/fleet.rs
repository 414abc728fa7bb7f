//! What is to be launched: a fleet file or a command line, checked before anything starts.

mod ready;

use std::ffi::OsString;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use ready::Ready;

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
