//! What can be typed: the one source of help, man page and completions.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use gym_stamp::telemetry::{Protocol, milliseconds};

/// Shows where the startup time of servers went.
#[derive(Debug, Parser)]
#[command(name = "gym-startup", version, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Export(Export),
}

/// Send recorded startups to an OTLP endpoint
///
/// What is not given here is what the variables OTEL_EXPORTER_OTLP_* say. Ids, times, resources and
/// scopes stay as they were recorded. Each failure is a line on standard error, and then the status
/// is 1.
#[derive(Debug, clap::Args)]
pub struct Export {
    /// Files of OTLP JSON lines, as --out and a collector's file exporter write them; - is standard
    /// input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Where to: http://HOST:PORT or https://HOST:PORT; over HTTP, /v1/traces and /v1/metrics are
    /// appended
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,

    /// grpc, http/protobuf or http/json [default: grpc]
    #[arg(long)]
    pub protocol: Option<Protocol>,

    /// Milliseconds that all of the sending may take, with its retries [default: 10000]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub timeout: Option<Duration>,
}
