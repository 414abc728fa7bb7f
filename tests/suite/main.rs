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
#[cfg(feature = "cli")]
mod axum_example;
#[cfg(target_os = "linux")]
mod binary;
#[cfg(target_os = "linux")]
mod example;
#[cfg(feature = "cli")]
mod export_failures;
#[cfg(feature = "cli")]
mod export_files;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod fleet;
#[cfg(target_os = "linux")]
mod limit;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod manual;
#[cfg(feature = "cli")]
mod one_tree;
mod options;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod ps;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod run_files;
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
#[cfg(target_os = "linux")]
mod search;
mod server_stamps;
#[cfg(feature = "telemetry")]
mod settings;
#[cfg(target_os = "linux")]
mod shell;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod show;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod show_against;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod show_files;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod show_page;
#[cfg(target_os = "linux")]
mod stamp;
mod supervisor;
mod support;
#[cfg(feature = "cli")]
mod telemetry;
mod timelines;
mod traceparents;
#[cfg(target_os = "linux")]
mod transparency;
#[cfg(target_os = "linux")]
mod venv;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod view;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod watch;
