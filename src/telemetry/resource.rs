//! Which process this is: the attributes that every span and metric of it carries.

use std::fmt;

use opentelemetry::{KeyValue, Value};
use percent_encoding::percent_decode_str;

use super::settings::{Lookup, Settings, value};

/// What a process knows of itself, and the environment does not say.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// The server's name; `None` for a supervisor.
    pub server_name: Option<String>,
    /// The server's type, if it has one.
    pub server_type: Option<String>,
    /// `service.version`, unless it is empty.
    pub version: String,
    /// `process.pid`.
    pub pid: u32,
    /// `host.name`, if it could be found out.
    pub host: Option<String>,
}

impl Process {
    /// This process, in the role of a supervisor of the given version.
    pub fn supervisor(version: &str) -> Self {
        Self {
            version: version.to_owned(),
            pid: std::process::id(),
            host: host_name(),
            ..Self::default()
        }
    }

    /// This process, in the role of the server called `name`.
    pub fn server(name: &str, server_type: Option<&str>, version: &str) -> Self {
        Self {
            server_name: Some(name.to_owned()),
            server_type: server_type.map(str::to_owned),
            ..Self::supervisor(version)
        }
    }
}

#[cfg(unix)]
fn host_name() -> Option<String> {
    nix::unistd::gethostname().ok().map(|name| name.to_string_lossy().into_owned())
}

#[cfg(not(unix))]
fn host_name() -> Option<String> {
    std::env::var("COMPUTERNAME").ok()
}

/// The resource attributes of the contract: on every process, under Slurm, under Kubernetes.
///
/// Its `Display` is `key=value`, separated by spaces.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resource {
    /// Each key once.
    pub attributes: Vec<KeyValue>,
}

impl Resource {
    /// The attributes of `process` in `env`.
    ///
    /// `OTEL_RESOURCE_ATTRIBUTES` adds to the contract's attributes and replaces none of them, as
    /// in the servers. An entry of it that makes no sense is left out, with a sentence in
    /// `warnings`.
    pub fn new(
        env: Lookup<'_>,
        settings: &Settings,
        process: &Process,
        warnings: &mut Vec<String>,
    ) -> Self {
        let mut resource = Self::default();
        resource.add("service.name", settings.service_name(process.server_name.as_deref()));
        let version = Some(process.version.clone()).filter(|version| !version.is_empty());
        resource.add_some("service.version", version);
        resource.add("nemo.gym.service_group", settings.service_group.clone());
        resource.add("nemo.run.id", settings.run_id.clone());
        resource.add("service.instance.id", format!("{}-rank0", settings.run_id));
        resource.add("nv.dl.rank", 0);
        resource.add("nv.dl.world_size", 1);
        resource.add_some("nemo.user.id", settings.user_id.clone());
        resource.add_some("nemo.gym.server.name", process.server_name.clone());
        resource.add_some("nemo.gym.server.type", process.server_type.clone());
        resource.add_some("host.name", process.host.clone());
        resource.add("process.pid", i64::from(process.pid));
        resource.add_some("host.gpu.count", value(env, "CUDA_VISIBLE_DEVICES").map(count_gpus));
        resource.add_some(
            "deployment.environment",
            value(env, "DEPLOYMENT_ENV").or_else(|| value(env, "ENVIRONMENT")),
        );
        resource.add_slurm(env);
        resource.add_kubernetes(env);
        resource.add_given(env, warnings);
        resource
    }

    fn add(&mut self, key: &'static str, value: impl Into<Value>) {
        self.attributes.push(KeyValue::new(key, value.into()));
    }

    fn add_some(&mut self, key: &'static str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.add(key, value);
        }
    }

    fn add_slurm(&mut self, env: Lookup<'_>) {
        let Some(job) = value(env, "SLURM_JOB_ID") else { return };
        self.add("slurm.job.id", job);
        // The second name is what newer releases call the same thing.
        for (key, names) in [
            ("slurm.job.name", ["SLURM_JOB_NAME", ""]),
            ("slurm.nodelist", ["SLURM_NODELIST", "SLURM_JOB_NODELIST"]),
            ("slurm.nnodes", ["SLURM_NNODES", "SLURM_JOB_NUM_NODES"]),
            ("slurm.ntasks", ["SLURM_NTASKS", "SLURM_NPROCS"]),
            ("slurm.partition", ["SLURM_JOB_PARTITION", ""]),
            ("slurm.cluster.name", ["SLURM_CLUSTER_NAME", ""]),
        ] {
            self.add_some(key, names.iter().find_map(|name| value(env, name)));
        }
    }

    fn add_kubernetes(&mut self, env: Lookup<'_>) {
        const FROM_POD: [(&str, &str); 6] = [
            ("k8s.namespace.name", "K8S_NAMESPACE"),
            ("k8s.pod.name", "K8S_POD_NAME"),
            ("k8s.pod.uid", "K8S_POD_UID"),
            ("k8s.node.name", "K8S_NODE_NAME"),
            ("k8s.container.name", "K8S_CONTAINER_NAME"),
            ("k8s.job.name", "K8S_JOB_NAME"),
        ];
        // HOSTNAME is a pod's name in a pod only: shells set it everywhere.
        let in_pod = value(env, "KUBERNETES_SERVICE_HOST").is_some()
            || FROM_POD.iter().any(|(_, name)| value(env, name).is_some());
        for (key, name) in FROM_POD {
            let given = value(env, name);
            let pod = || value(env, "HOSTNAME").filter(|_| in_pod && key == "k8s.pod.name");
            self.add_some(key, given.or_else(pod));
        }
    }

    fn add_given(&mut self, env: Lookup<'_>, warnings: &mut Vec<String>) {
        let given = value(env, "OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        let own = self.attributes.len();
        for (place, entry) in given.split(',').enumerate() {
            if entry.trim().is_empty() {
                continue;
            }
            let decoded = |text: &str| {
                percent_decode_str(text.trim()).decode_utf8().ok().map(std::borrow::Cow::into_owned)
            };
            let pair = entry.split_once('=').and_then(|(key, value)| {
                Some((decoded(key).filter(|key| !key.is_empty())?, decoded(value)?))
            });
            match pair {
                Some((key, value)) => {
                    let place = self.attributes.iter().position(|it| it.key.as_str() == key);
                    match place.and_then(|place| Some((place, self.attributes.get_mut(place)?))) {
                        None => self.attributes.push(KeyValue::new(key, value)),
                        // Of entries with the same key the last counts, as in the servers.
                        Some((place, given)) if place >= own => given.value = value.into(),
                        Some(_) => {}
                    }
                }
                None => warnings.push(format!(
                    "OTEL_RESOURCE_ATTRIBUTES: entry {} is left out: expected KEY=VALUE, \
                     percent-encoded",
                    place.saturating_add(1)
                )),
            }
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, attribute) in self.attributes.iter().enumerate() {
            let space = if place == 0 { "" } else { " " };
            write!(f, "{space}{}={}", attribute.key, attribute.value.as_str())?;
        }
        Ok(())
    }
}

/// As CUDA reads the list: it ends at the first entry that is no device.
fn count_gpus(devices: String) -> i64 {
    let devices = devices.split(',').map(str::trim).take_while(|device| {
        !device.is_empty() && !device.starts_with('-') && *device != "NoDevFiles"
    });
    i64::try_from(devices.count()).unwrap_or(i64::MAX)
}
