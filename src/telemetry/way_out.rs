//! Where requests leave the process: the seam between what is told and how it is delivered.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::request::Request;

/// A way out of the process.
///
/// ```
/// use std::time::{Duration, Instant};
/// use gym_stamp::telemetry::{Memory, Request, Resource, WayOut};
///
/// let memory = Memory::default();
/// let request = Request::of_spans(&Resource::default(), &[]);
/// memory.send(request, Instant::now() + Duration::from_secs(10))?;
/// assert_eq!(memory.requests().len(), 1);
/// # Ok::<(), gym_stamp::telemetry::ExportError>(())
/// ```
pub trait WayOut: Send + Sync {
    /// Delivers `request`, and comes back by `deadline`.
    ///
    /// # Errors
    ///
    /// Why not all of it was accepted.
    fn send(&self, request: Request, deadline: Instant) -> Result<Accepted, ExportError>;

    /// Delivers all of `requests`, and comes back by `deadline`: one result for each, in their
    /// order. A way out that can delivers them at the same time, so that none has to wait for a
    /// collector that leaves another one unanswered.
    fn send_all(
        &self,
        requests: Vec<Request>,
        deadline: Instant,
    ) -> Vec<Result<Accepted, ExportError>> {
        requests.into_iter().map(|request| self.send(request, deadline)).collect()
    }

    /// Makes what was sent last. No more is sent after it.
    ///
    /// # Errors
    ///
    /// Why what was sent is lost.
    fn finish(&self) -> Result<(), ExportError> {
        Ok(())
    }
}

/// All of a request was accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// What the collector said all the same: where it is, and its own words.
    pub remark: Option<String>,
}

/// Why a request, or part of it, was not accepted. Its `Display` is a sentence for people that
/// names where the request was meant to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportError {
    /// No connection, or none that lasted.
    Unreached {
        /// Where it was meant to go.
        to: String,
        /// The cause, down to the system's own words.
        cause: String,
    },
    /// The deadline passed first.
    Late {
        /// Where it was meant to go.
        to: String,
        /// What was not finished.
        doing: Doing,
        /// How long it had.
        within: Duration,
        /// How the try before this one ended, if there was one.
        before: Option<String>,
    },
    /// TLS could not be agreed on.
    Tls {
        /// Where it was meant to go.
        to: String,
        /// The cause, and what helps.
        cause: String,
    },
    /// The other side speaks, but not OTLP.
    NotOtlp {
        /// Where it was meant to go.
        to: String,
        /// What it does instead.
        cause: String,
    },
    /// The collector refused the request.
    Refused {
        /// Where it was meant to go.
        to: String,
        /// The status, and the collector's own words.
        answer: String,
    },
    /// The collector wants to be left alone until after the deadline.
    Throttled {
        /// Where it was meant to go.
        to: String,
        /// The status, and the collector's own words.
        answer: String,
    },
    /// The collector took the request, and rejected part of what it carries.
    Rejected {
        /// Where it went.
        to: String,
        /// How many spans or data points were rejected.
        count: i64,
        /// Of how much.
        of: String,
        /// The collector's own words.
        words: String,
    },
    /// A file that could not be read or written.
    File {
        /// The file.
        path: PathBuf,
        /// The system's own words.
        cause: String,
    },
    /// The system would not give what sending takes.
    System {
        /// What, and its own words.
        cause: String,
    },
}

/// What a way out was doing when its deadline passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Nothing yet.
    Starting,
    /// Looking up the host's name.
    Resolving,
    /// Connecting to its addresses.
    Connecting,
    /// Having a proxy open the way.
    Tunnelling,
    /// Agreeing on TLS.
    ShakingHands,
    /// Waiting for the answer.
    Waiting,
    /// Waiting to try again.
    Pausing,
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreached { to, cause } | Self::Tls { to, cause } => write!(f, "{to}: {cause}"),
            Self::NotOtlp { to, cause } => write!(f, "{to} does not speak OTLP: {cause}"),
            Self::Refused { to, answer } => write!(f, "{to} refused it: {answer}"),
            Self::Throttled { to, answer } => {
                write!(f, "{to} refused it: {answer}, which is after the deadline")
            }
            Self::Rejected { to, count, of, words } => {
                write!(f, "{to} rejected {count} of {of}")?;
                if words.is_empty() {
                    write!(f, " and did not say why")
                } else {
                    write!(f, ": {words}")
                }
            }
            Self::Late { to, doing, within, before } => {
                // Up to the millisecond that was asked for: some of it went before the clock was read.
                let ms = within.as_nanos().div_ceil(1_000_000);
                match doing {
                    Doing::Starting => write!(f, "{to}: not sent within {ms} ms")?,
                    Doing::Resolving => write!(f, "{to}: name not resolved within {ms} ms")?,
                    Doing::Connecting => write!(f, "{to}: no connection within {ms} ms")?,
                    Doing::Tunnelling => {
                        write!(f, "{to}: no way through the proxy within {ms} ms")?
                    }
                    Doing::ShakingHands => write!(f, "{to}: no TLS handshake within {ms} ms")?,
                    Doing::Waiting => write!(f, "{to}: connected, but no answer within {ms} ms")?,
                    Doing::Pausing => write!(f, "{to}: not accepted within {ms} ms")?,
                }
                match before {
                    Some(before) => write!(f, "; the try before: {before}"),
                    None => Ok(()),
                }
            }
            Self::File { path, cause } => write!(f, "{}: {cause}", path.display()),
            Self::System { cause } => write!(f, "{cause}"),
        }
    }
}

impl std::error::Error for ExportError {}

/// `text` in one line, as far as a line goes: what a collector says is not to be trusted with the
/// terminal.
pub(super) fn one_line(text: &str) -> String {
    const LONGEST: usize = 300;
    let mut line = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if line.chars().count() > LONGEST {
        line = line.chars().take(LONGEST).chain(['…']).collect();
    }
    line
}

/// `error` and all that caused it, each said once.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !words.contains(&said) {
            words = format!("{words}: {said}");
        }
        next = cause.source();
    }
    one_line(&words)
}
