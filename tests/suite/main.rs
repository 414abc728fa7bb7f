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
#[cfg(feature = "telemetry")]
mod axum_example;
#[cfg(target_os = "linux")]
mod binary;
#[cfg(target_os = "linux")]
mod example;
#[cfg(feature = "cli")]
mod export_failures;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod fleet;
mod options;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod run_large;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod run_outcomes;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod run_output;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod run_processes;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod run_readiness;
mod server_stamps;
#[cfg(feature = "telemetry")]
mod settings;
#[cfg(target_os = "linux")]
mod shell;
#[cfg(target_os = "linux")]
mod stamp;
mod supervisor;
mod support;
mod timelines;
mod traceparents;
#[cfg(target_os = "linux")]
mod transparency;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod view;
