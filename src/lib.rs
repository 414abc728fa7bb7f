//! The startup telemetry of Python servers launched by the dozen.
#![forbid(unsafe_code)]

pub mod contract;
pub mod spans;
