//! The W3C `traceparent`: how a process tells the next one which span it stands under.

use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;

use opentelemetry::{SpanId, TraceFlags, TraceId};

/// The variable in which the caller of a supervisor names its own span.
pub const TRACEPARENT_ENV: &str = "TRACEPARENT";

/// A place in a trace: the span that what comes next stands under.
///
/// ```
/// use gym_stamp::traceparent::TraceParent;
///
/// let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// let parent: TraceParent = text.parse().unwrap();
/// assert!(parent.flags.is_sampled());
/// assert_eq!(parent.to_string(), text);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// Not zero.
    pub trace_id: TraceId,
    /// Not zero.
    pub span_id: SpanId,
    /// Whether the trace is exported ([`TraceFlags::SAMPLED`]) and whether its id is random
    /// ([`RANDOM_TRACE_ID`]). Both are the caller's to decide and are passed on as they came; no
    /// other flag is defined, so no other is passed on.
    pub flags: TraceFlags,
}

/// The second flag of W3C Trace Context Level 2: the trace id is random in its last seven bytes.
pub const RANDOM_TRACE_ID: TraceFlags = TraceFlags::new(0x02);

/// Why a `traceparent` is none. Who finds one warns of it and begins a trace of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceParentError {
    /// A field is missing, has another length, or is not lowercase hexadecimal.
    Malformed,
    /// Version `ff` is forbidden.
    ForbiddenVersion,
    /// Version `00` has four fields and nothing after them.
    TooLong,
    /// An id of zeros stands for no span.
    ZeroId,
}

impl Error for TraceParentError {}

impl fmt::Display for TraceParentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => {
                "not a traceparent: it should read 00-TRACE-SPAN-FLAGS, in 32, 16 and 2 lowercase \
                 hexadecimal digits"
            }
            Self::ForbiddenVersion => "not a traceparent: version ff is forbidden",
            Self::TooLong => "not a traceparent: version 00 ends with its flags",
            Self::ZeroId => "not a traceparent: an id of zeros stands for no span",
        })
    }
}

impl FromStr for TraceParent {
    type Err = TraceParentError;

    /// Reads a `traceparent` of any version by the rules of W3C Trace Context: of a version that
    /// is not yet known only the fields of version `00` count. Spaces and tabs around it pass, as
    /// they do with the OpenTelemetry SDKs.
    fn from_str(text: &str) -> Result<Self, TraceParentError> {
        let mut fields = text.trim_matches([' ', '\t']).splitn(5, '-');
        let mut hex = |digits| fields.next().and_then(|field| lowercase_hex(field, digits));
        let (Some(version), Some(trace_id), Some(span_id), Some(flags)) =
            (hex(2), hex(32), hex(16), hex(2))
        else {
            return Err(TraceParentError::Malformed);
        };
        let known_flags = match (version, fields.next()) {
            (0xff, _) => return Err(TraceParentError::ForbiddenVersion),
            (0, Some(_)) => return Err(TraceParentError::TooLong),
            (0, None) => TraceFlags::SAMPLED | RANDOM_TRACE_ID,
            _ => TraceFlags::SAMPLED,
        };
        // Neither cuts anything off: 16 and 2 digits were read.
        let (span_id, flags) = (SpanId::from(span_id as u64), TraceFlags::new(flags as u8));
        let trace_id = TraceId::from(trace_id);
        if trace_id == TraceId::INVALID || span_id == SpanId::INVALID {
            return Err(TraceParentError::ZeroId);
        }
        Ok(Self { trace_id, span_id, flags: flags & known_flags })
    }
}

fn lowercase_hex(field: &str, digits: usize) -> Option<u128> {
    let lowercase = field.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (field.len() == digits && lowercase).then(|| u128::from_str_radix(field, 16).ok())?
}

impl fmt::Display for TraceParent {
    /// Version `00`, the newest there is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

impl TraceParent {
    /// Reads the `variable` of `env`; one that is empty is as if it were not set.
    ///
    /// # Errors
    ///
    /// If what is there is no `traceparent`.
    ///
    /// ```
    /// use gym_stamp::traceparent::{TRACEPARENT_ENV, TraceParent};
    ///
    /// let caller = TraceParent::from_env(TRACEPARENT_ENV, |name| std::env::var_os(name))
    ///     .unwrap_or_else(|error| {
    ///         eprintln!("{TRACEPARENT_ENV} is ignored: {error}");
    ///         None
    ///     });
    /// # assert_eq!(caller, None);
    /// ```
    pub fn from_env(
        variable: &str,
        env: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Self>, TraceParentError> {
        match env(variable) {
            None => Ok(None),
            Some(value) if value.is_empty() => Ok(None),
            Some(value) => value.to_str().ok_or(TraceParentError::Malformed)?.parse().map(Some),
        }
    }
}
