//! Getting records out of the process.
//!
//! [`Settings`] say whether and where to, [`Resource`] says whose they are, and a [`WayOut`] takes
//! them there: [`Otlp`] over gRPC or HTTP, [`JsonLines`] into a file, [`Console`] to people,
//! [`Memory`] to tests. What passes between is one [`Request`] of OTLP at a time, so that what some
//! collector's file holds goes the same ways, unchanged. [`Telemetry`] is all of it for one process.
//!
//! Sending is done on hyper, tonic and rustls directly, with the messages of `opentelemetry-proto`:
//! the exporters of `opentelemetry-otlp` 0.33 take spans of this process only, call a partial
//! success a success, and let a connection take longer than their timeout.

mod attempt;
mod console;
mod endpoint;
mod exporter;
mod file;
mod grpc_client;
mod http_client;
pub mod json;
mod memory;
mod net;
mod otlp;
mod patient;
mod request;
mod resource;
mod settings;
mod way_out;

pub use console::Console;
pub use endpoint::{
    Endpoint, Overrides, Protocol, Proxies, SettingError, Signal, TlsFiles, milliseconds,
};
pub use exporter::Telemetry;
pub use file::JsonLines;
pub use memory::Memory;
pub use otlp::Otlp;
pub use patient::write_by;
pub use request::{BATCH_BYTES, Batches, Request, Temporality};
pub use resource::{Process, Resource};
pub use settings::{Exporter, Lookup, Policy, Settings, sdk_disabled};
pub use way_out::{Accepted, Doing, ExportError, WayOut};
