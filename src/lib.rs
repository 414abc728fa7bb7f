//! The startup telemetry of Python servers launched by the dozen.

pub mod contract;
