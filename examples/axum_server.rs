//! A server that reports its own startup once it serves.
//!
//! ```sh
//! PORT=8000 NEMO_GYM_STARTUP_SPAWN_NS=$(gym-stamp --now) \
//!     gym-stamp cargo run --example axum_server
//! ```
//!
//! Its records go to standard output, a line each, by a sink of five lines. One that speaks OTLP is
//! put in its place.

use std::env;
use std::fmt::Arguments;
use std::io::{self, Write};
use std::net::Ipv4Addr;

use axum::Router;
use axum::routing::get;
use gym_stamp::server::{NAME_ENV, ServerStartupTimeline};
use gym_stamp::spans::{Records, Status};
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    // First of all: what comes before counts as the interpreter's start.
    let name = env::var(NAME_ENV).unwrap_or_else(|_| "axum_server".to_owned());
    let mut startup = ServerStartupTimeline::new(name, Some("examples"), true);
    if let Some(error) = startup.traceparent_error() {
        say(format_args!("the supervisor's span is ignored: {error}"));
    }

    let port = env::var("PORT").ok().and_then(|port| port.parse().ok()).unwrap_or(0);
    startup.mark("load_config");

    let app = Router::new().route("/health", get(|| async { "ok\n" }));
    startup.mark("configure_app");

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    say(format_args!("listening on http://{}", listener.local_addr()?));
    startup.report_when_serving(axum::serve(listener, app), print).await
}

/// Unlike `eprintln!` it does not panic where standard error is gone.
fn say(words: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{words}");
}

/// A sink has no error to return: no telemetry fails a server.
fn print(records: Records) {
    let mut out = io::stdout().lock();
    for span in records.spans {
        let parent = span.parent_span_id.map_or("-".to_owned(), |id| id.to_string());
        let status = if span.status == Status::Unset { "ok" } else { "error" };
        let _ = writeln!(
            out,
            "span {} {} {parent} {} {} {} {status}",
            span.trace_id, span.span_id, span.name, span.start_ns, span.end_ns,
        );
    }
    for sample in records.metrics {
        let _ = writeln!(out, "metric {} {} ms", sample.name, sample.value_ms);
    }
}
