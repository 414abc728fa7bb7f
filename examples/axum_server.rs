//! A server that reports its own startup once it serves.
//!
//! ```sh
//! PORT=8000 NEMO_GYM_OTEL_ENABLED=1 NEMO_GYM_OTEL_EXPORTER=console cargo run --example axum_server
//! ```

use std::env;
use std::fmt::Arguments;
use std::io::{self, Write};
use std::net::Ipv4Addr;

use axum::Router;
use axum::routing::get;
use gym_stamp::server::{NAME_ENV, ServerStartupTimeline};
use gym_stamp::telemetry::{Policy, Process, Telemetry};
use tokio::net::TcpListener;

const TYPE: Option<&str> = Some("examples");

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let name = env::var(NAME_ENV).unwrap_or_else(|_| "axum_server".to_owned());
    let process = Process::server(&name, TYPE, env!("CARGO_PKG_VERSION"));
    let telemetry = Telemetry::from_env(&|name| env::var_os(name), Policy::Library, &process);
    // Early: what comes before it counts as the interpreter's start.
    let mut startup = ServerStartupTimeline::new(name, TYPE, telemetry.is_on());
    if let Some(error) = startup.traceparent_error() {
        say(format_args!("the supervisor's span is ignored: {error}"));
    }

    let port = env::var("PORT").ok().and_then(|port| port.parse().ok()).unwrap_or(0);
    startup.mark("load_config");

    let app = Router::new().route("/health", get(|| async { "ok\n" }));
    startup.mark("configure_app");

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    say(format_args!("listening on http://{}", listener.local_addr()?));
    startup.report_when_serving(axum::serve(listener, app), telemetry).await
}

/// Unlike `eprintln!` it does not panic where standard error is gone.
fn say(words: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{words}");
}
