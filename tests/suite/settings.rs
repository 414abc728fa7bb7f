//! What becomes of the environment: settings, endpoints, resource.

use std::collections::HashMap;
use std::ffi::OsString;
use std::time::Duration;

use gym_stamp::telemetry::{
    Endpoint, Exporter, Overrides, Policy, Process, Protocol, Resource, SettingError, Settings,
    Signal, Temporality,
};
use opentelemetry::Value;
use rstest::rstest;

/// Variables, as `NAME=VALUE`.
struct Env(HashMap<String, OsString>);

impl Env {
    fn of(variables: &[&str]) -> Self {
        let pair = |variable: &&str| {
            let (name, value) = variable.split_once('=').unwrap();
            (name.to_owned(), value.into())
        };
        Self(variables.iter().map(pair).collect())
    }

    fn settings(&self, policy: Policy) -> Settings {
        Settings::from_env(&|name| self.0.get(name).cloned(), policy)
    }

    fn endpoint(&self, signal: Signal) -> Result<Endpoint, SettingError> {
        self.endpoint_with(signal, &Overrides::default()).0
    }

    fn endpoint_with(
        &self,
        signal: Signal,
        overrides: &Overrides,
    ) -> (Result<Endpoint, SettingError>, Vec<String>) {
        let mut warnings = Vec::new();
        let env = |name: &str| self.0.get(name).cloned();
        (Endpoint::from_env(&env, signal, overrides, &mut warnings), warnings)
    }

    /// `key=value` of every resource attribute, and the warnings.
    fn resource(&self, process: &Process) -> (Vec<String>, Vec<String>) {
        let mut warnings = Vec::new();
        let settings = self.settings(Policy::Library);
        let env = |name: &str| self.0.get(name).cloned();
        let resource = Resource::new(&env, &settings, process, &mut warnings);
        let text = |it: &opentelemetry::KeyValue| format!("{}={}", it.key, it.value.as_str());
        (resource.attributes.iter().map(text).collect(), warnings)
    }
}

fn settings(variables: &[&str]) -> Settings {
    Env::of(variables).settings(Policy::Library)
}

#[rstest]
#[case::off_by_default(&[], false)]
#[case::one(&["NEMO_GYM_OTEL_ENABLED=1"], true)]
#[case::word_in_any_case(&["NEMO_GYM_OTEL_ENABLED=TrUe"], true)]
#[case::yes(&["NEMO_GYM_OTEL_ENABLED=yes"], true)]
#[case::on(&["NEMO_GYM_OTEL_ENABLED=on"], true)]
#[case::stripped(&["NEMO_GYM_OTEL_ENABLED= \t1\n"], true)]
#[case::zero(&["NEMO_GYM_OTEL_ENABLED=0"], false)]
#[case::false_(&["NEMO_GYM_OTEL_ENABLED=false"], false)]
#[case::no(&["NEMO_GYM_OTEL_ENABLED=no"], false)]
#[case::off(&["NEMO_GYM_OTEL_ENABLED=off"], false)]
#[case::old_name(&["NEMO_LENS_ENABLED=1"], true)]
#[case::new_name_first(&["NEMO_GYM_OTEL_ENABLED=0", "NEMO_LENS_ENABLED=1"], false)]
#[case::empty_new_name(&["NEMO_GYM_OTEL_ENABLED= ", "NEMO_LENS_ENABLED=1"], true)]
#[case::endpoint_is_not_enough(&["OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317"], false)]
#[case::sdk_disabled(&["NEMO_GYM_OTEL_ENABLED=1", "OTEL_SDK_DISABLED=True"], false)]
#[case::sdk_disabled_is_true_only(&["NEMO_GYM_OTEL_ENABLED=1", "OTEL_SDK_DISABLED=1"], true)]
fn library_is_on(#[case] variables: &[&str], #[case] on: bool) {
    let settings = settings(variables);
    assert_eq!((settings.enabled, settings.warnings), (on, Vec::<String>::new()));
}

#[rstest]
#[case::off_by_default(&[], false)]
#[case::endpoint(&["OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317"], true)]
#[case::traces_endpoint(&["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c:4317"], true)]
#[case::metrics_endpoint(&["OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://c:4317"], false)]
#[case::empty_endpoint(&["OTEL_EXPORTER_OTLP_ENDPOINT= "], false)]
#[case::enabled(&["NEMO_LENS_ENABLED=1"], true)]
#[case::not_enabled(&["NEMO_LENS_ENABLED=0", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:1"], false)]
#[case::empty_enabled(&["NEMO_LENS_ENABLED=", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:1"], true)]
#[case::sdk_disabled(&["OTEL_SDK_DISABLED=true", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:1"], false)]
fn companion_is_on(#[case] variables: &[&str], #[case] on: bool) {
    let settings = Env::of(variables).settings(Policy::Companion);
    assert_eq!((settings.enabled, settings.warnings), (on, Vec::<String>::new()));
}

#[rstest]
#[case("NEMO_GYM_OTEL_ENABLED=maybe")]
#[case("NEMO_GYM_OTEL_TRACES_ENABLED=2")]
#[case("NEMO_LENS_METRICS_ENABLED=wahr")]
#[case("NEMO_GYM_OTEL_SERVICE_NAME_PER_SERVER=y")]
#[case("NEMO_GYM_OTEL_EXPORTER=file")]
#[case("OTEL_EXPORTER_OTLP_PROTOCOL=http")]
#[case("OTEL_EXPORTER_OTLP_TIMEOUT=10s")]
#[case("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=ftp://collector")]
fn what_makes_no_sense_turns_telemetry_off_with_a_warning(#[case] variable: &str) {
    let settings = Env::of(&["NEMO_LENS_ENABLED=1", variable]).settings(Policy::Library);
    assert!(!settings.enabled);
    let (name, _) = variable.split_once('=').unwrap();
    assert!(settings.warnings[0].starts_with(name), "{:?}", settings.warnings);
    assert!(settings.warnings[0].ends_with("; telemetry is off"), "{:?}", settings.warnings);
    assert_eq!(settings.to_string(), "telemetry off");
}

/// What is not used is not judged.
#[rstest]
#[case(&["OTEL_EXPORTER_OTLP_PROTOCOL=http"])]
#[case(&["NEMO_LENS_ENABLED=1", "NEMO_LENS_EXPORTER=console", "OTEL_EXPORTER_OTLP_PROTOCOL=x"])]
#[case(&["NEMO_LENS_ENABLED=1", "NEMO_LENS_METRICS_ENABLED=0", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL=x"])]
fn endpoints_that_are_not_used(#[case] variables: &[&str]) {
    assert_eq!(settings(variables).warnings, Vec::<String>::new());
}

#[test]
fn defaults() {
    let settings = settings(&["NEMO_GYM_OTEL_ENABLED=1"]);
    assert!(settings.traces && settings.metrics && settings.startup_spans());
    assert_eq!(settings.exporter, Exporter::Otlp);
    let traces = settings.traces_endpoint.as_ref().unwrap();
    assert_eq!(traces.uri, "http://localhost:4317/");
    assert_eq!((traces.protocol, traces.timeout), (Protocol::Grpc, Duration::from_secs(10)));
    assert_eq!(settings.service_name(None), "nemo-gym/supervisor");
    assert_eq!(settings.service_name(Some("judge")), "nemo-gym/judge");
    assert_eq!(settings.user_id, None);
}

#[test]
fn signals_are_switched_off_one_by_one() {
    let none = settings(&["NEMO_GYM_OTEL_ENABLED=1", "NEMO_LENS_TRACES_ENABLED=no"]);
    assert!(!none.traces && none.metrics && none.traces_endpoint.is_none());
    let none = settings(&["NEMO_GYM_OTEL_ENABLED=1", "NEMO_GYM_OTEL_METRICS_ENABLED=off"]);
    assert!(none.traces && !none.metrics && none.metrics_endpoint.is_none());
}

#[test]
fn console() {
    let settings = settings(&["NEMO_LENS_ENABLED=1", "NEMO_LENS_EXPORTER=Console"]);
    assert_eq!(settings.exporter, Exporter::Console);
    assert!(settings.enabled && settings.traces_endpoint.is_none());
}

#[rstest]
#[case("", true)]
#[case("default", true)]
#[case("ALL", true)]
#[case("per_rollout", false)]
#[case(" per_rollout , Startup ", true)]
#[case("rollout,model", false)]
#[case("startups", false)]
#[case(",", false)]
fn span_groups(#[case] groups: &str, #[case] on: bool) {
    assert_eq!(settings(&[&format!("NEMO_GYM_OTEL_SPAN_GROUPS={groups}")]).startup_spans(), on);
}

#[test]
fn run_id() {
    let id = |variables: &[&str]| settings(variables).run_id;
    assert_eq!(id(&["NEMO_LENS_RUN_ID= r 1 ", "SLURM_JOB_ID=42"]), "r 1");
    assert_eq!(id(&["SLURM_JOB_ID=42"]), "42");
    let (first, second) = (id(&[]), id(&[]));
    assert_ne!(first, second);
    assert_eq!(first.len(), 12);
    assert!(first.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f')), "{first}");
    let made = settings(&[]);
    let handed = made.server_env().map(|(name, value)| format!("{name}={value}"));
    let taken = settings(&handed.each_ref().map(|it| &**it));
    assert_eq!((taken.run_id, taken.service_group), (made.run_id, made.service_group));
}

#[test]
fn service_name() {
    let named = settings(&["OTEL_SERVICE_NAME=mine"]);
    assert_eq!(named.service_name(Some("a b")), "mine/a b");
    let shared = settings(&["OTEL_SERVICE_NAME=mine", "NEMO_GYM_OTEL_SERVICE_NAME_PER_SERVER=0"]);
    assert_eq!(shared.service_name(Some("a b")), "mine");
    assert_eq!(shared.service_name(None), "mine");
    // That one has no older name.
    let lens = settings(&["NEMO_LENS_SERVICE_NAME_PER_SERVER=0"]);
    assert_eq!(lens.service_name(None), "nemo-gym/supervisor");
}

#[test]
fn display_hides_what_headers_hold() {
    let settings = settings(&[
        "NEMO_LENS_ENABLED=1",
        "NEMO_LENS_RUN_ID=7",
        "NEMO_LENS_METRICS_ENABLED=0",
        "OTEL_EXPORTER_OTLP_ENDPOINT=https://c:4317",
        "OTEL_EXPORTER_OTLP_COMPRESSION=gzip",
        "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20secret",
    ]);
    assert_eq!(
        settings.to_string(),
        "telemetry on, run 7; spans to https://c:4317/ (grpc, gzip, 10000 ms, authorization: ***); \
         no metrics"
    );
    assert!(!format!("{settings:?}").contains("secret"));
}

#[rstest]
#[case::default_grpc(&[], "http://localhost:4317/")]
#[case::default_http(&["OTEL_EXPORTER_OTLP_PROTOCOL=http/json"], "http://localhost:4318/v1/metrics")]
#[case::general(
    &["OTEL_EXPORTER_OTLP_PROTOCOL=http/json", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:1/a/"],
    "http://c:1/a/v1/metrics"
)]
#[case::own(
    &["OTEL_EXPORTER_OTLP_PROTOCOL=http/json", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://c:1/a/"],
    "http://c:1/a/"
)]
#[case::others_own(&["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c:1"], "http://localhost:4317/")]
#[case::own_protocol(
    &["OTEL_EXPORTER_OTLP_METRICS_PROTOCOL=http/protobuf"],
    "http://localhost:4318/v1/metrics"
)]
#[case::bare_grpc(&["OTEL_EXPORTER_OTLP_ENDPOINT=c:1"], "https://c:1/")]
#[case::bare_grpc_insecure(
    &["OTEL_EXPORTER_OTLP_ENDPOINT=c:1", "OTEL_EXPORTER_OTLP_METRICS_INSECURE=TRUE"],
    "http://c:1/"
)]
#[case::insecure_is_no_word_on_a_scheme(
    &["OTEL_EXPORTER_OTLP_ENDPOINT=https://c:1", "OTEL_EXPORTER_OTLP_INSECURE=true"],
    "https://c:1/"
)]
#[case::ipv6(&["OTEL_EXPORTER_OTLP_ENDPOINT=http://[2001:db8::1]:1"], "http://[2001:db8::1]:1/")]
fn endpoint(#[case] variables: &[&str], #[case] uri: &str) {
    assert_eq!(Env::of(variables).endpoint(Signal::Metrics).unwrap().uri, uri);
}

#[rstest]
#[case("ENDPOINT=http://")]
#[case("ENDPOINT=http://:4317")]
#[case("ENDPOINT=http://a b")]
#[case("ENDPOINT=http://u:secret@c")]
#[case("ENDPOINT=http://u:secret@c:port")]
#[case("ENDPOINT=http://c:99999")]
#[case("TRACES_ENDPOINT=unix:///run/c")]
#[case("COMPRESSION=zip")]
#[case("TIMEOUT=0")]
#[case("TIMEOUT=-1")]
#[case("TIMEOUT=86400001")]
#[case("TIMEOUT=999999999999999999")]
#[case("TIMEOUT=http://u:secret@c")]
#[case("PROTOCOL=http://c?key=secret")]
#[case("ENDPOINT=http://u:se?secret@c")]
#[case("ENDPOINT=http://c:99999/?secret")]
#[case("CLIENT_KEY=key.pem")]
#[case("CLIENT_CERTIFICATE=cert.pem")]
fn endpoint_that_cannot_be(#[case] variable: &str) {
    let error = Env::of(&[&format!("OTEL_EXPORTER_OTLP_{variable}")])
        .endpoint(Signal::Traces)
        .unwrap_err()
        .to_string();
    let (name, _) = variable.split_once('=').unwrap();
    assert!(error.starts_with(&format!("OTEL_EXPORTER_OTLP_{name}")), "{error}");
    assert!(!error.contains("secret"), "{error}");
}

#[test]
fn a_timeout_is_a_day_at_most() {
    let timeout = |env: &[&str]| Env::of(env).endpoint(Signal::Traces).map(|it| it.timeout);
    let day = Duration::from_secs(24 * 60 * 60);
    assert_eq!(timeout(&["OTEL_EXPORTER_OTLP_TIMEOUT=86400000"]), Ok(day));
    assert_eq!(timeout(&["OTEL_EXPORTER_OTLP_TIMEOUT= "]), Ok(Duration::from_secs(10)));
    let error = timeout(&["OTEL_EXPORTER_OTLP_TIMEOUT=86400001"]).unwrap_err().to_string();
    assert!(error.ends_with("expected 86400000 milliseconds, a day, at most"), "{error}");
    let overrides = Overrides { timeout: Some(Duration::MAX), ..Overrides::default() };
    assert_eq!(Env::of(&[]).endpoint_with(Signal::Traces, &overrides).0.unwrap().timeout, day);
}

/// Neither in what is said to people, nor in what is printed to find a fault.
#[rstest]
#[case(&["OTEL_EXPORTER_OTLP_PROTOCOL=http/json", "OTEL_EXPORTER_OTLP_ENDPOINT=u:secret@c:1"])]
#[case(&["OTEL_EXPORTER_OTLP_PROTOCOL=http/json", "OTEL_EXPORTER_OTLP_ENDPOINT=c:1/?secret"])]
#[case(&["OTEL_EXPORTER_OTLP_PROTOCOL=http/json", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:1/?secret"])]
#[case(&["OTEL_EXPORTER_OTLP_ENDPOINT=http://u:secret@c:1"])]
#[case(&["OTEL_EXPORTER_OTLP_ENDPOINT=http://c:1", "http_proxy=http://u:secret@:::"])]
#[case(&["NEMO_LENS_TRACES_ENABLED=http://u:secret@c"])]
#[case(&["NEMO_LENS_EXPORTER=http://u:secret@c"])]
#[case(&["OTEL_EXPORTER_OTLP_HEADERS=a=secret"])]
fn secrets_are_not_repeated(#[case] variables: &[&str]) {
    let variables = [&["NEMO_LENS_ENABLED=1"], variables].concat();
    let settings = settings(&variables);
    let words = format!("{settings} {settings:?} {:?}", settings.warnings);
    assert!(!words.contains("secret"), "{words}");
}

#[test]
fn overrides_hide_their_secrets() {
    let endpoint = Some("http://u:secret@c:1/?secret".to_owned());
    let words = format!("{:?}", Overrides { endpoint, ..Overrides::default() });
    assert!(words.contains("http://***@c:1/?***") && !words.contains("secret"), "{words}");
}

#[rstest]
#[case(&["http_proxy=http://u:secret@:::"], Some("http_proxy"))]
#[case(&["all_proxy=ftp://secret"], Some("all_proxy"))]
#[case(&["http_proxy=http://p:1", "all_proxy=ftp://p"], None)]
#[case(&["https_proxy=ftp://p"], None)]
#[case(&["http_proxy=ftp://p", "no_proxy=a, *"], None)]
#[case(&["http_proxy=ftp://p", "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:1"], None)]
fn a_proxy_that_is_no_address(#[case] variables: &[&str], #[case] named: Option<&str>) {
    let env = Env::of(&[&["OTEL_EXPORTER_OTLP_ENDPOINT=http://c:1"], variables].concat());
    let error = env.endpoint(Signal::Traces).err();
    assert_eq!(error.as_ref().map(|error| error.name.as_str()), named);
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
}

#[test]
fn what_both_signals_trip_over_is_told_once() {
    let on = "NEMO_LENS_ENABLED=1";
    let off = settings(&[on, "OTEL_EXPORTER_OTLP_ENDPOINT=ftp://c"]);
    assert_eq!(off.warnings.len(), 1, "{:?}", off.warnings);
    let headers = settings(&[on, "OTEL_EXPORTER_OTLP_HEADERS=x,y"]);
    assert_eq!(headers.warnings.len(), 2, "{:?}", headers.warnings);
}

#[test]
fn own_variables_come_before_the_general_ones() {
    let env = Env::of(&[
        "OTEL_EXPORTER_OTLP_HEADERS=a=1",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS=B=2%2C3, C = 4 ",
        "OTEL_EXPORTER_OTLP_COMPRESSION=gzip",
        "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION=none",
        "OTEL_EXPORTER_OTLP_TIMEOUT=1",
        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=2",
        "OTEL_EXPORTER_OTLP_CERTIFICATE=general.pem",
        "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE=own.pem",
    ]);
    let traces = env.endpoint(Signal::Traces).unwrap();
    let headers: Vec<_> =
        traces.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    assert_eq!(headers, [("b", b"2,3".as_slice()), ("c", b"4")]);
    assert!(!traces.gzip);
    assert_eq!(traces.timeout, Duration::from_millis(2));
    assert_eq!(traces.tls.certificate.unwrap().to_str(), Some("own.pem"));
    let metrics = env.endpoint(Signal::Metrics).unwrap();
    assert!(metrics.gzip && metrics.headers.len() == 1);
    assert_eq!(metrics.timeout, Duration::from_millis(1));
}

#[test]
fn flags_come_before_all_variables() {
    let env = Env::of(&[
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://variable:1/own",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc",
        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=nonsense",
    ]);
    let overrides = Overrides {
        endpoint: Some("http://flag:2".to_owned()),
        protocol: Some(Protocol::HttpProtobuf),
        timeout: Some(Duration::from_millis(7)),
    };
    let endpoint = env.endpoint_with(Signal::Traces, &overrides).0.unwrap();
    assert_eq!(endpoint.uri, "http://flag:2/v1/traces");
    assert_eq!(endpoint.timeout, Duration::from_millis(7));
}

#[test]
fn headers_that_make_no_sense_are_left_out_and_not_repeated() {
    let env = Env::of(&["OTEL_EXPORTER_OTLP_HEADERS=secret,a=1,b c=2,d=%00,e=%FF"]);
    let (endpoint, warnings) = env.endpoint_with(Signal::Traces, &Overrides::default());
    assert_eq!(endpoint.unwrap().headers.len(), 1);
    assert_eq!(warnings.len(), 4);
    assert!(warnings[0].contains("entry 1 is left out"), "{warnings:?}");
    assert!(!warnings.concat().contains("secret"), "{warnings:?}");
}

#[test]
fn proxies() {
    let proxy = |variables: &[&str]| Env::of(variables).endpoint(Signal::Traces).unwrap().proxy;
    let both =
        proxy(&["http_proxy=a", "HTTP_PROXY=b", "HTTPS_PROXY=c", "NO_PROXY=d", "ALL_PROXY=e"]);
    assert_eq!(both.http.as_deref(), Some("a"));
    assert_eq!(both.https.as_deref(), Some("c"));
    assert_eq!((both.no.as_deref(), both.all.as_deref()), (Some("d"), Some("e")));
    let secret = proxy(&["http_proxy=http://u:secret@p:1", "https_proxy=u:secret@p:1"]);
    assert!(!format!("{secret:?}").contains("secret"), "{secret:?}");
    assert_eq!(proxy(&["HTTP_PROXY=b", "REQUEST_METHOD=GET"]).http, None);
}

#[rstest]
#[case(&[], Temporality::Cumulative)]
#[case(&["OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=cumulative"], Temporality::Cumulative)]
#[case(&["OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=Delta"], Temporality::Delta)]
#[case(&["OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=LowMemory"], Temporality::Delta)]
fn temporality(#[case] variables: &[&str], #[case] expected: Temporality) {
    let env = Env::of(variables);
    assert_eq!(Temporality::from_env(&|name| env.0.get(name).cloned()), expected);
}

fn server() -> Process {
    Process {
        server_name: Some("judge \"1\"".to_owned()),
        server_type: Some("resources_servers".to_owned()),
        version: "1.2".to_owned(),
        pid: 77,
        host: Some("node-1".to_owned()),
    }
}

#[test]
fn resource_of_a_server() {
    let env = Env::of(&["NEMO_LENS_RUN_ID=r", "NEMO_LENS_USER_ID=u", "CUDA_VISIBLE_DEVICES=0,1"]);
    assert_eq!(
        env.resource(&server()).0,
        [
            "service.name=nemo-gym/judge \"1\"",
            "service.version=1.2",
            "nemo.gym.service_group=nemo-gym",
            "nemo.run.id=r",
            "service.instance.id=r-rank0",
            "nv.dl.rank=0",
            "nv.dl.world_size=1",
            "nemo.user.id=u",
            "nemo.gym.server.name=judge \"1\"",
            "nemo.gym.server.type=resources_servers",
            "host.name=node-1",
            "process.pid=77",
            "host.gpu.count=2",
        ]
    );
}

#[test]
fn resource_of_a_supervisor() {
    let env = Env::of(&["NEMO_LENS_RUN_ID=r"]);
    let process = Process { host: None, ..Process::supervisor("1.2") };
    let (attributes, _) = env.resource(&process);
    assert_eq!(attributes[0], "service.name=nemo-gym/supervisor");
    assert!(attributes.contains(&format!("process.pid={}", std::process::id())));
    assert_eq!(attributes.len(), 8, "{attributes:?}");
}

#[test]
fn numbers_of_the_resource_are_numbers() {
    let env = Env::of(&["CUDA_VISIBLE_DEVICES=0"]);
    let settings = env.settings(Policy::Library);
    let lookup = |name: &str| env.0.get(name).cloned();
    let resource = Resource::new(&lookup, &settings, &server(), &mut Vec::new());
    for key in ["nv.dl.rank", "nv.dl.world_size", "process.pid", "host.gpu.count"] {
        let attribute = resource.attributes.iter().find(|it| it.key.as_str() == key).unwrap();
        assert!(matches!(attribute.value, Value::I64(_)), "{attribute:?}");
    }
}

#[test]
fn this_machines_name() {
    let host = Process::supervisor("1").host.unwrap();
    assert_eq!(host, std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim());
}

#[rstest]
#[case("0,1,2,3", Some("4"))]
#[case("GPU-5ebe9d1e,MIG-1", Some("2"))]
#[case("-1", Some("0"))]
#[case("0,-1,2", Some("1"))]
#[case("NoDevFiles", Some("0"))]
#[case("", None)]
fn gpus(#[case] devices: &str, #[case] count: Option<&str>) {
    let (attributes, _) =
        Env::of(&[&format!("CUDA_VISIBLE_DEVICES={devices}")]).resource(&server());
    let found = attributes.iter().find_map(|it| it.strip_prefix("host.gpu.count="));
    assert_eq!(found, count);
}

#[test]
fn deployment_environment() {
    let of = |variables: &[&str]| {
        let (attributes, _) = Env::of(variables).resource(&server());
        attributes
            .iter()
            .find_map(|it| it.strip_prefix("deployment.environment=").map(str::to_owned))
    };
    assert_eq!(of(&["DEPLOYMENT_ENV=a", "ENVIRONMENT=b"]).as_deref(), Some("a"));
    assert_eq!(of(&["DEPLOYMENT_ENV=", "ENVIRONMENT=b"]).as_deref(), Some("b"));
    assert_eq!(of(&[]), None);
}

#[test]
fn resource_under_slurm() {
    let variables = [
        "SLURM_JOB_ID=42",
        "SLURM_JOB_NAME=train",
        "SLURM_NODELIST=n[1-2]",
        "SLURM_NNODES=2",
        "SLURM_NTASKS=16",
        "SLURM_JOB_PARTITION=gpu",
        "SLURM_CLUSTER_NAME=c1",
    ];
    let (attributes, _) = Env::of(&variables).resource(&server());
    assert!(attributes.contains(&"nemo.run.id=42".to_owned()));
    let slurm: Vec<_> = attributes.iter().filter(|it| it.starts_with("slurm.")).collect();
    assert_eq!(
        slurm,
        [
            "slurm.job.id=42",
            "slurm.job.name=train",
            "slurm.nodelist=n[1-2]",
            "slurm.nnodes=2",
            "slurm.ntasks=16",
            "slurm.partition=gpu",
            "slurm.cluster.name=c1",
        ]
    );
    let other_names = [
        "SLURM_JOB_ID=42",
        "SLURM_JOB_NODELIST=n[1-2]",
        "SLURM_JOB_NUM_NODES=2",
        "SLURM_NPROCS=16",
    ];
    let (attributes, _) = Env::of(&other_names).resource(&server());
    let slurm: Vec<_> = attributes.iter().filter(|it| it.starts_with("slurm.")).collect();
    assert_eq!(
        slurm,
        ["slurm.job.id=42", "slurm.nodelist=n[1-2]", "slurm.nnodes=2", "slurm.ntasks=16"]
    );
    // As on a login node.
    let (attributes, _) = Env::of(&variables[1..]).resource(&server());
    assert!(!attributes.concat().contains("slurm."));
}

#[test]
fn resource_under_kubernetes() {
    let k8s = |variables: &[&str]| -> Vec<String> {
        let (attributes, _) = Env::of(variables).resource(&server());
        attributes.into_iter().filter(|it| it.starts_with("k8s.")).collect()
    };
    assert_eq!(
        k8s(&[
            "K8S_NAMESPACE=gym",
            "K8S_POD_NAME=p-0",
            "K8S_POD_UID=u",
            "K8S_NODE_NAME=n",
            "K8S_CONTAINER_NAME=c",
            "K8S_JOB_NAME=j",
            "HOSTNAME=h",
        ]),
        [
            "k8s.namespace.name=gym",
            "k8s.pod.name=p-0",
            "k8s.pod.uid=u",
            "k8s.node.name=n",
            "k8s.container.name=c",
            "k8s.job.name=j",
        ]
    );
    assert_eq!(k8s(&["KUBERNETES_SERVICE_HOST=10.0.0.1", "HOSTNAME=p-1"]), ["k8s.pod.name=p-1"]);
    assert_eq!(k8s(&["HOSTNAME=workstation"]), Vec::<String>::new());
}

#[test]
fn resource_attributes_that_are_given() {
    let env = Env::of(&[
        "NEMO_LENS_RUN_ID=r",
        "OTEL_RESOURCE_ATTRIBUTES=team=first,team=a%2Cb%20c, x%3Dy = z ,nemo.run.id=other,broken,e=,",
    ]);
    let (attributes, warnings) = env.resource(&Process { host: None, ..Process::supervisor("1") });
    assert_eq!(attributes[8..], ["team=a,b c", "x=y=z", "e="]);
    assert!(attributes.contains(&"nemo.run.id=r".to_owned()));
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("entry 5"), "{warnings:?}");
}
