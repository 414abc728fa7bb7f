//! The records of one process, on their way out.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use super::console::Console;
use super::endpoint::DEFAULT_TIMEOUT;
use super::otlp::Otlp;
use super::patient::write_by;
use super::request::{Batches, Request, Temporality};
use super::resource::{Process, Resource};
use super::settings::{Exporter as Kind, Lookup, Policy, Settings};
use super::way_out::{ExportError, WayOut};
use crate::spans::{Records, Sink};

/// Delivers a process's records as its settings say: the [`Sink`] for everything that reports a
/// startup.
///
/// It blocks for as long as the settings' timeout, and 200 ms for what is late, at most, and is to
/// be called from `spawn_blocking` or a thread where that matters. The two signals are delivered at
/// the same time where the way out can. Once it is told of, no failure goes any further.
///
/// ```
/// use gym_stamp::telemetry::{Policy, Process, Telemetry};
///
/// let env = |_: &str| None;
/// let process = Process::server("judge", None, "1.0");
/// let telemetry = Telemetry::from_env(&env, Policy::Library, &process);
/// assert!(!telemetry.is_on());
/// ```
pub struct Telemetry {
    settings: Settings,
    resource: Resource,
    way_out: Option<Box<dyn WayOut>>,
    temporality: Temporality,
    tell: Box<dyn Fn(&str) + Send + Sync>,
}

impl Telemetry {
    /// What `env` says, for `process`. Warnings and failures go to standard error.
    ///
    /// Nothing is opened, started or sent before there are records.
    pub fn from_env(env: Lookup<'_>, policy: Policy, process: &Process) -> Self {
        Self::from_env_telling(env, policy, process, tell_stderr)
    }

    /// What `env` says, for `process`. `tell` is given every warning, now, and every failure, when
    /// it comes, a sentence each.
    pub fn from_env_telling(
        env: Lookup<'_>,
        policy: Policy,
        process: &Process,
        tell: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        let mut settings = Settings::from_env(env, policy);
        let way_out: Option<Box<dyn WayOut>> = match settings.exporter {
            _ if !settings.enabled => None,
            Kind::Console => Some(Box::new(Console::stdout())),
            Kind::Otlp => Some(Box::new(Otlp::new(
                settings.traces_endpoint.clone(),
                settings.metrics_endpoint.clone(),
            ))),
        };
        let mut warnings = std::mem::take(&mut settings.warnings);
        let resource = Resource::new(env, &settings, process, &mut warnings);
        warnings.iter().for_each(|warning| tell(warning));
        settings.warnings = warnings;
        Self {
            temporality: Temporality::from_env(env),
            tell: Box::new(tell),
            ..Self::with_parts(settings, resource, way_out)
        }
    }

    /// Records of `resource` go to `way_out`, if `settings` are on.
    pub fn with_parts(
        settings: Settings,
        resource: Resource,
        way_out: Option<Box<dyn WayOut>>,
    ) -> Self {
        Self {
            way_out: way_out.filter(|_| settings.enabled),
            settings,
            resource,
            temporality: Temporality::default(),
            tell: Box::new(tell_stderr),
        }
    }

    /// Whether anything leaves this process: what a timeline's `enabled` is to be.
    pub fn is_on(&self) -> bool {
        self.way_out.is_some()
    }

    /// What was made of the environment.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The process's own attributes.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Delivers `records`: spans if `TRACES_ENABLED` and the span group `startup` are on, samples
    /// if `METRICS_ENABLED` is. A span of a trace whose caller does not sample it stays here.
    ///
    /// # Errors
    ///
    /// Why not everything was accepted, one error for each request at most: one for each signal, but
    /// for spans that take more than one of [`BATCH_BYTES`](super::BATCH_BYTES).
    pub fn export(&self, records: &Records) -> Result<(), Vec<ExportError>> {
        let Some(way_out) = &self.way_out else { return Ok(()) };
        let deadline = deadline(self.timeout());
        let spans: Vec<_> =
            records.spans.iter().filter(|span| span.flags.is_sampled()).cloned().collect();
        let mut requests = Vec::new();
        if self.settings.traces && self.settings.startup_spans() && !spans.is_empty() {
            requests.push(Request::of_spans(&self.resource, &spans));
        }
        if self.settings.metrics && !records.metrics.is_empty() {
            let samples = &records.metrics;
            requests.push(Request::of_samples(&self.resource, samples, self.temporality));
        }
        let mut errors = Vec::new();
        for result in way_out.send_all(Batches::of(requests), deadline) {
            match result {
                Ok(accepted) => accepted.remark.iter().for_each(|remark| (self.tell)(remark)),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// How long the collectors have in [`export`](Self::export); 10 s where there are none, as for
    /// the console.
    pub fn timeout(&self) -> Duration {
        [&self.settings.traces_endpoint, &self.settings.metrics_endpoint]
            .into_iter()
            .flatten()
            .map(|endpoint| endpoint.timeout)
            .max()
            .unwrap_or(DEFAULT_TIMEOUT)
    }
}

impl Sink for Telemetry {
    fn emit(&self, records: Records) {
        if let Err(errors) = self.export(&records) {
            errors.iter().for_each(|error| (self.tell)(&error.to_string()));
        }
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry")
            .field("settings", &self.settings)
            .field("resource", &self.resource)
            .finish_non_exhaustive()
    }
}

fn deadline(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or(now)
}

/// A standard error that is closed or full loses the words and nothing else.
fn tell_stderr(words: &str) {
    let line = format!("{}: {words}\n", env!("CARGO_PKG_NAME"));
    write_by(Instant::now(), io::stderr(), line.as_bytes()).unwrap_or_default();
}
