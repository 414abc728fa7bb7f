//! Every integration test, one file a subject. What they run are the built programs, on real parts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

#[cfg(target_os = "linux")]
mod arguments;
#[cfg(target_os = "linux")]
mod binary;
#[cfg(target_os = "linux")]
mod example;
mod options;
#[cfg(target_os = "linux")]
mod search;
#[cfg(target_os = "linux")]
mod shell;
#[cfg(target_os = "linux")]
mod stamp;
mod support;
#[cfg(target_os = "linux")]
mod transparency;
#[cfg(target_os = "linux")]
mod venv;
