//! For tests: what was sent stays here.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::request::Request;
use super::way_out::{Accepted, ExportError, WayOut};

/// Keeps every request. Clones share what they keep.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<Vec<Request>>>);

impl Memory {
    /// What was sent so far.
    pub fn requests(&self) -> Vec<Request> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl WayOut for Memory {
    fn send(&self, request: Request, _deadline: Instant) -> Result<Accepted, ExportError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        Ok(Accepted::default())
    }
}
