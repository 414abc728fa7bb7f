//! The startup telemetry of Python servers launched by the dozen.
//!
//! A supervisor times its own stages and, for each server, spawn and first answer
//! ([`supervisor`]); a server times its own ([`server`]). What passes between the two is four
//! environment variables ([`contract`]). Both become plain records ([`spans`]), and those leave
//! through a [`Sink`](spans::Sink).
//!
//! Nothing here fails a server or a supervisor: nothing panics, nothing waits but the delivery of
//! records, which has a deadline (and, into a file, the disk), and with telemetry off nothing is done. The clock, the ids and the environment are handed in; where they are not,
//! they are the system's.
#![forbid(unsafe_code)]

pub mod contract;
pub mod server;
pub mod spans;
pub mod supervisor;
#[cfg(feature = "telemetry")]
pub mod telemetry;
pub mod timeline;
pub mod traceparent;
