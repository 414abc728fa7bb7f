//! `gym-startup export`: recorded startups to an OTLP endpoint.

use std::collections::HashSet;
use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use gym_stamp::telemetry::{
    Batches, Endpoint, ExportError, Otlp, Overrides, Request, SettingError, Signal, WayOut, json,
    sdk_disabled,
};

use crate::args;
use crate::lines::Lines;
use crate::say::say;
use crate::status::WRONG_USAGE;

/// Sends what the files hold. The status is 0 only if everything was accepted.
pub fn export(args: &args::Export) -> ExitCode {
    let endpoints = match endpoints(args) {
        Ok(endpoints) => endpoints,
        Err(error) => {
            say(&error);
            let wrong_usage = error.name.starts_with("--");
            return if wrong_usage { ExitCode::from(WRONG_USAGE) } else { ExitCode::FAILURE };
        }
    };
    let mut delivery = Delivery::new(endpoints);
    for file in &args.files {
        read(file, &mut delivery);
    }
    delivery.finish()
}

struct Endpoints {
    traces: Endpoint,
    metrics: Endpoint,
}

fn endpoints(args: &args::Export) -> Result<Endpoints, SettingError> {
    let env = &|name: &str| std::env::var_os(name);
    if sdk_disabled(env) {
        return Err(SettingError {
            name: "OTEL_SDK_DISABLED=true".to_owned(),
            why: "nothing is sent".to_owned(),
        });
    }
    let overrides = Overrides {
        endpoint: args.endpoint.clone(),
        protocol: args.protocol,
        timeout: args.timeout,
    };
    let mut warnings = Vec::new();
    let mut endpoint = |signal| Endpoint::from_env(env, signal, &overrides, &mut warnings);
    let endpoints =
        Endpoints { traces: endpoint(Signal::Traces)?, metrics: endpoint(Signal::Metrics)? };
    // Both signals may have read the same variable.
    let mut told = HashSet::new();
    warnings.iter().filter(|&warning| told.insert(warning)).for_each(say);
    let signals = [Signal::Traces, Signal::Metrics];
    let is_default = signals.into_iter().all(|signal| Endpoint::is_default(env, signal));
    if args.endpoint.is_none() && is_default && !args.quiet {
        let Endpoint { uri, protocol, .. } = &endpoints.traces;
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        say(format_args!(
            "no endpoint is given: sending to the default, http://{authority} ({})",
            protocol.as_str()
        ));
    }
    Ok(endpoints)
}

/// Reads `file` line by line into `delivery`.
fn read(file: &Path, delivery: &mut Delivery) {
    let mut lines = match Lines::open(file) {
        Ok(lines) => lines,
        Err(why) => return delivery.fail(why),
    };
    while !delivery.is_over()
        && let Some(line) = lines.next()
    {
        let (requests, why) = json::read_parts(line);
        if let Some(why) = why {
            lines.damaged(&why);
        }
        requests.into_iter().for_each(|request| delivery.add(request));
    }
    delivery.failed |= !lines.finish();
}

/// What is under way, and how it went so far.
struct Delivery {
    way_out: Otlp,
    batches: Batches,
    timeout: Duration,
    /// What is left of it. Only sending counts: input comes when it comes.
    left: Duration,
    failed: bool,
    /// Whether one endpoint takes both signals.
    is_one: bool,
    traces_given_up: bool,
    metrics_given_up: bool,
    skipped: bool,
}

impl Delivery {
    fn new(Endpoints { traces, metrics }: Endpoints) -> Self {
        let timeout = traces.timeout.max(metrics.timeout);
        Self {
            timeout,
            left: timeout,
            is_one: traces.uri.authority() == metrics.uri.authority()
                && traces.protocol == metrics.protocol,
            way_out: Otlp::new(Some(traces), Some(metrics)),
            batches: Batches::default(),
            failed: false,
            traces_given_up: false,
            metrics_given_up: false,
            skipped: false,
        }
    }

    /// Whether nothing more can be sent.
    fn is_over(&self) -> bool {
        self.traces_given_up && self.metrics_given_up
    }

    fn fail(&mut self, words: impl Display) {
        self.failed = true;
        say(words);
    }

    fn add(&mut self, request: Request) {
        for full in self.batches.add(request) {
            let kept = self.kept_for_other(is_traces(&full));
            self.send(vec![full], kept);
        }
    }

    /// What a batch that is sent before the end leaves of the time: an endpoint of the other
    /// signal's own, whose turn is yet to come, is not to be without any because of this one's.
    fn kept_for_other(&self, is_traces: bool) -> Duration {
        if self.is_one || self.is_given_up(!is_traces) { Duration::ZERO } else { self.timeout / 4 }
    }

    /// Sends all of `requests` at the same time, in what is left but `kept`.
    fn send(&mut self, requests: Vec<Request>, kept: Duration) {
        let (given_up, requests): (Vec<_>, Vec<_>) =
            requests.into_iter().partition(|request| self.is_given_up(is_traces(request)));
        self.skipped |= !given_up.is_empty();
        if requests.is_empty() {
            return;
        }
        let contents: Vec<_> =
            requests.iter().map(|request| (is_traces(request), request.contents())).collect();
        let of_all = self.of_all(kept);
        let started = Instant::now();
        let time = self.left.saturating_sub(kept);
        let deadline = started.checked_add(time).unwrap_or(started);
        let results = self.way_out.send_all(requests, deadline);
        self.left = self.left.saturating_sub(started.elapsed());
        for ((is_traces, contents), result) in contents.into_iter().zip(results) {
            match result {
                Ok(accepted) => accepted.remark.iter().for_each(say),
                Err(error) => self.not_accepted(is_traces, &contents, &error, &of_all),
            }
        }
    }

    fn is_given_up(&self, is_traces: bool) -> bool {
        if is_traces { self.traces_given_up } else { self.metrics_given_up }
    }

    /// What the next requests' time is of all that there is.
    fn of_all(&self, kept: Duration) -> String {
        let all = self.timeout.as_millis();
        if !kept.is_zero() {
            return format!(": of {all} ms, {} are kept for the other signal", kept.as_millis());
        }
        if self.left < self.timeout {
            return format!(", the last of {all} ms for everything");
        }
        String::new()
    }

    fn not_accepted(&mut self, is_traces: bool, contents: &str, error: &ExportError, of_all: &str) {
        let given_up = would_fail_again(error);
        // The two paths of one host may well lead to different things, and have limits of their own.
        let both = self.is_one
            && !matches!(error, ExportError::NotOtlp { .. } | ExportError::Throttled { .. });
        self.traces_given_up |= given_up && (is_traces || both);
        self.metrics_given_up |= given_up && (!is_traces || both);
        let of_all = match error {
            ExportError::Late { .. } => of_all,
            _ => "",
        };
        self.fail(format_args!("{contents} not accepted: {error}{of_all}"));
    }

    fn finish(mut self) -> ExitCode {
        let rest = std::mem::take(&mut self.batches).finish().collect();
        self.send(rest, Duration::ZERO);
        if self.skipped {
            self.fail("the rest is not sent, since it would fare no better");
        }
        if self.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

fn is_traces(request: &Request) -> bool {
    matches!(request, Request::Traces(_))
}

/// Whether the next request would meet the same: then it is not tried, and a collector that is not
/// there costs one deadline, not one for each request.
fn would_fail_again(error: &ExportError) -> bool {
    !matches!(error, ExportError::Refused { .. } | ExportError::Rejected { .. })
}
