//! What the environment says about telemetry, read once and judged.

use std::ffi::OsString;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};

use super::endpoint::{Endpoint, Overrides, Signal, shown};

/// An environment as data: the value of a variable, or `None` where it is not set.
///
/// That of this process is `&|name| std::env::var_os(name)`.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The value of `name`, stripped; `None` where it is empty or not set. Bytes that are no UTF-8
/// become U+FFFD.
pub(super) fn value(env: Lookup<'_>, name: &str) -> Option<String> {
    env(name)
        .map(|value| value.to_string_lossy().trim().to_owned())
        .filter(|value| !value.is_empty())
}

/// What turns export on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The contract's rule: off, unless `ENABLED` says otherwise. What every server goes by.
    Library,
    /// `ENABLED` where it is set; otherwise on if `OTEL_EXPORTER_OTLP_ENDPOINT` or
    /// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is. What `gym-startup` goes by.
    Companion,
}

/// The ways out that the variable `EXPORTER` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exporter {
    /// To an OTLP endpoint.
    Otlp,
    /// To standard output, for people.
    Console,
}

/// The settings of telemetry, as nemo-lens takes them, and `OTEL_*`.
///
/// Every `KEY` of nemo-lens is read as `NEMO_GYM_OTEL_KEY`, then `NEMO_LENS_KEY`. Values are
/// stripped; an empty one is as if not set. Nothing here is an error: settings that make no sense
/// turn telemetry off, and [`warnings`](Self::warnings) say which and why. Its `Display` is one
/// line for people; what headers hold stays out of it.
///
/// ```
/// use gym_stamp::telemetry::{Policy, Settings};
///
/// let env = |name: &str| (name == "NEMO_LENS_ENABLED").then(|| "yes".into());
/// let settings = Settings::from_env(&env, Policy::Library);
/// assert!(settings.enabled && settings.startup_spans());
/// assert_eq!(settings.service_name(Some("judge")), "nemo-gym/judge");
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether anything leaves this process at all.
    pub enabled: bool,
    /// `TRACES_ENABLED`.
    pub traces: bool,
    /// `METRICS_ENABLED`.
    pub metrics: bool,
    /// `EXPORTER`.
    pub exporter: Exporter,
    /// `SPAN_GROUPS`: groups and presets, in lower case, as they were written.
    pub span_groups: Vec<String>,
    /// `RUN_ID`, else `SLURM_JOB_ID`, else 12 random hex digits.
    pub run_id: String,
    /// `USER_ID`.
    pub user_id: Option<String>,
    /// `OTEL_SERVICE_NAME`, else `nemo-gym`.
    pub service_group: String,
    /// `NEMO_GYM_OTEL_SERVICE_NAME_PER_SERVER`.
    pub service_name_per_server: bool,
    /// Where spans go; `None` if they go nowhere, or not over OTLP.
    pub traces_endpoint: Option<Endpoint>,
    /// Where metrics go; `None` if they go nowhere, or not over OTLP.
    pub metrics_endpoint: Option<Endpoint>,
    /// What was wrong with the variables, a sentence each.
    pub warnings: Vec<String>,
}

impl Settings {
    /// Reads the settings out of `env`.
    pub fn from_env(env: Lookup<'_>, policy: Policy) -> Self {
        let mut reader = Reader { env, warnings: Vec::new(), sound: true };
        let asked_for = reader.boolean("ENABLED").unwrap_or(match policy {
            Policy::Library => false,
            Policy::Companion => ["ENDPOINT", "TRACES_ENDPOINT"]
                .iter()
                .any(|name| value(env, &format!("OTEL_EXPORTER_OTLP_{name}")).is_some()),
        });
        let traces = reader.boolean("TRACES_ENABLED").unwrap_or(true);
        let metrics = reader.boolean("METRICS_ENABLED").unwrap_or(true);
        let exporter = reader.exporter();
        let service_name_per_server =
            reader.boolean_named("NEMO_GYM_OTEL_SERVICE_NAME_PER_SERVER").unwrap_or(true);
        let on = asked_for && !sdk_disabled(env);
        // Endpoints are only judged where they are used: a wrong one is no warning of a process
        // that exports nothing.
        let over_otlp = on && exporter == Exporter::Otlp;
        let traces_endpoint = reader.endpoint(Signal::Traces, over_otlp && traces);
        let metrics_endpoint = reader.endpoint(Signal::Metrics, over_otlp && metrics);

        Self {
            enabled: on && reader.sound,
            traces,
            metrics,
            exporter,
            span_groups: reader
                .key("SPAN_GROUPS")
                .unwrap_or_else(|| "default".to_owned())
                .split(',')
                .map(|group| group.trim().to_lowercase())
                .filter(|group| !group.is_empty())
                .collect(),
            run_id: reader
                .key("RUN_ID")
                .or_else(|| value(env, "SLURM_JOB_ID"))
                .unwrap_or_else(random_run_id),
            user_id: reader.key("USER_ID"),
            service_group: value(env, "OTEL_SERVICE_NAME").unwrap_or_else(|| "nemo-gym".to_owned()),
            service_name_per_server,
            traces_endpoint,
            metrics_endpoint,
            warnings: each_once(reader.warnings),
        }
    }

    /// Whether the span group `startup` is on: by its own name, or in the preset `default` or
    /// `all`.
    pub fn startup_spans(&self) -> bool {
        self.span_groups.iter().any(|group| matches!(group.as_str(), "startup" | "default" | "all"))
    }

    /// The `service.name` of the server called `server`; of the supervisor, if `None`.
    pub fn service_name(&self, server: Option<&str>) -> String {
        if self.service_name_per_server {
            format!("{}/{}", self.service_group, server.unwrap_or("supervisor"))
        } else {
            self.service_group.clone()
        }
    }

    /// What a supervisor sets in every server's environment, so that all have its run id, and report
    /// as one service group: without it servers have a default of their own.
    pub fn server_env(&self) -> [(&'static str, &str); 2] {
        [("NEMO_GYM_OTEL_RUN_ID", &self.run_id), ("OTEL_SERVICE_NAME", &self.service_group)]
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.enabled {
            return write!(f, "telemetry off");
        }
        write!(f, "telemetry on, run {}", self.run_id)?;
        for (what, on, endpoint) in [
            ("spans", self.traces && self.startup_spans(), &self.traces_endpoint),
            ("metrics", self.metrics, &self.metrics_endpoint),
        ] {
            match endpoint {
                _ if !on => write!(f, "; no {what}")?,
                Some(endpoint) => write!(f, "; {what} to {endpoint}")?,
                None => write!(f, "; {what} to the console")?,
            }
        }
        Ok(())
    }
}

/// `OTEL_SDK_DISABLED=true`: nothing leaves this process, whatever else is set.
pub fn sdk_disabled(env: Lookup<'_>) -> bool {
    value(env, "OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

struct Reader<'a> {
    env: Lookup<'a>,
    warnings: Vec<String>,
    sound: bool,
}

impl Reader<'_> {
    fn key(&self, key: &str) -> Option<String> {
        self.named_key(key).map(|(_, value)| value)
    }

    fn named_key(&self, key: &str) -> Option<(String, String)> {
        ["NEMO_GYM_OTEL_", "NEMO_LENS_"].iter().find_map(|prefix| {
            let name = format!("{prefix}{key}");
            value(self.env, &name).map(|value| (name, value))
        })
    }

    fn boolean(&mut self, key: &str) -> Option<bool> {
        let (name, value) = self.named_key(key)?;
        self.judge_boolean(&name, &value)
    }

    fn boolean_named(&mut self, name: &str) -> Option<bool> {
        let value = value(self.env, name)?;
        self.judge_boolean(name, &value)
    }

    fn judge_boolean(&mut self, name: &str, value: &str) -> Option<bool> {
        match value.to_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => Some(true),
            "0" | "false" | "no" | "off" => Some(false),
            _ => {
                let value = shown(value);
                self.off(format!("{name}={value}: expected 1, true, yes, on, 0, false, no or off"));
                None
            }
        }
    }

    fn exporter(&mut self) -> Exporter {
        match self.named_key("EXPORTER") {
            None => Exporter::Otlp,
            Some((name, value)) => match value.to_lowercase().as_str() {
                "otlp" => Exporter::Otlp,
                "console" => Exporter::Console,
                _ => {
                    let value = shown(&value);
                    self.off(format!("{name}={value}: expected otlp or console"));
                    Exporter::Otlp
                }
            },
        }
    }

    fn endpoint(&mut self, signal: Signal, wanted: bool) -> Option<Endpoint> {
        if !wanted {
            return None;
        }
        match Endpoint::from_env(self.env, signal, &Overrides::default(), &mut self.warnings) {
            Ok(endpoint) => Some(endpoint),
            Err(error) => {
                self.off(error.to_string());
                None
            }
        }
    }

    fn off(&mut self, why: String) {
        self.sound = false;
        self.warnings.push(format!("{why}; telemetry is off"));
    }
}

/// Both signals may have read the same variable, and found the same in it.
pub(super) fn each_once(warnings: Vec<String>) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for warning in warnings {
        if !told.contains(&warning) {
            told.push(warning);
        }
    }
    told
}

/// The standard library seeds its hash maps from the system's random numbers; nothing here needs
/// more than that.
fn random_run_id() -> String {
    let random = RandomState::new().build_hasher().finish();
    format!("{:012x}", random & 0xffff_ffff_ffff)
}
