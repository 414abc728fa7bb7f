//! One try at sending, and whether another one makes sense.

use std::time::Duration;

use super::way_out::{Accepted, ExportError};

/// A try that failed.
pub(super) struct Failed {
    pub(super) error: ExportError,
    pub(super) again: Again,
}

impl Failed {
    /// The error of a try that there is no other one after.
    pub(super) fn given_up(self) -> ExportError {
        match (self.error, self.again) {
            (ExportError::Refused { to, answer }, Again::Asked(Some(_))) => {
                ExportError::Throttled { to, answer }
            }
            (error, _) => error,
        }
    }
}

/// Whether to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// It would end the same way.
    Never,
    /// The network may have been at fault: a few times, since nobody is there to ask for patience.
    AFewTimes,
    /// The collector asked for it, and may have said when.
    Asked(Option<Duration>),
}

pub(super) type Outcome = Result<Accepted, Failed>;

impl ExportError {
    pub(super) fn again(self, again: Again) -> Failed {
        Failed { error: self, again }
    }

    /// As the protocol's specification has it: what the network does may pass, what an answer says
    /// does not.
    pub(super) fn judged(self) -> Failed {
        let again = match self {
            Self::Unreached { .. } => Again::AFewTimes,
            _ => Again::Never,
        };
        self.again(again)
    }
}

/// What an answer's partial success comes to.
pub(super) fn judge_partial_success(to: String, of: String, rejected: i64, words: &str) -> Outcome {
    let words = super::way_out::one_line(words);
    if rejected > 0 {
        return Err(ExportError::Rejected { to, count: rejected, of, words }.again(Again::Never));
    }
    Ok(Accepted { remark: (!words.is_empty()).then(|| format!("{to}: {words}")) })
}
