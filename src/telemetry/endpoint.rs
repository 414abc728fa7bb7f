//! Where one signal goes over OTLP, and how: `OTEL_EXPORTER_OTLP_*`.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri, header};
use hyper_util::client::proxy::matcher::Matcher;
use percent_encoding::percent_decode_str;

use super::settings::{Lookup, value};

/// A signal of OTLP. Each may have settings of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Metrics.
    Metrics,
}

impl Signal {
    fn key(self) -> &'static str {
        match self {
            Self::Traces => "TRACES",
            Self::Metrics => "METRICS",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Traces => "v1/traces",
            Self::Metrics => "v1/metrics",
        }
    }
}

/// The protocols of OTLP, as `OTEL_EXPORTER_OTLP_PROTOCOL` calls them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `grpc`: the default, as the servers have it.
    Grpc,
    /// `http/protobuf`.
    HttpProtobuf,
    /// `http/json`.
    HttpJson,
}

impl Protocol {
    /// The name that variables and flags use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::HttpProtobuf => "http/protobuf",
            Self::HttpJson => "http/json",
        }
    }
}

impl std::str::FromStr for Protocol {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        [Self::Grpc, Self::HttpProtobuf, Self::HttpJson]
            .into_iter()
            .find(|protocol| protocol.as_str().eq_ignore_ascii_case(name))
            .ok_or_else(|| "expected grpc, http/protobuf or http/json".to_owned())
    }
}

/// What the command line says in place of the variables.
///
/// Its `Debug` leaves out passwords and what follows a `?`.
#[derive(Clone, Default)]
pub struct Overrides {
    /// `--endpoint`, in place of `OTEL_EXPORTER_OTLP_ENDPOINT` and a signal's own.
    pub endpoint: Option<String>,
    /// `--protocol`.
    pub protocol: Option<Protocol>,
    /// `--timeout`.
    pub timeout: Option<Duration>,
}

impl fmt::Debug for Overrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overrides")
            .field("endpoint", &self.endpoint.as_deref().map(shown))
            .field("protocol", &self.protocol)
            .field("timeout", &self.timeout)
            .finish()
    }
}

/// A setting that cannot be used. Its `Display` names the variable or flag and what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// The variable or flag.
    pub name: String,
    /// What it should be.
    pub why: String,
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.why)
    }
}

impl std::error::Error for SettingError {}

/// Where one signal goes over OTLP, and how.
///
/// Its `Display` has the names of the headers, never what they hold, nor what follows a `?`; the
/// same goes for its `Debug`.
#[derive(Clone)]
pub struct Endpoint {
    /// `http` or `https`, host and port, and over HTTP the path.
    pub uri: Uri,
    /// The protocol spoken there.
    pub protocol: Protocol,
    /// Sent with every request.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether requests are compressed with gzip.
    pub gzip: bool,
    /// How long one request may take, with all its retries. `OTEL_EXPORTER_OTLP_TIMEOUT` is in
    /// milliseconds here, and `--timeout` beats it; the servers' Python SDK takes it for seconds.
    pub timeout: Duration,
    /// PEM files that replace and complete what TLS goes by.
    pub tls: TlsFiles,
    /// What stands between here and there.
    pub proxy: Proxies,
}

/// The PEM files of TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// `_CERTIFICATE`: the CAs that are trusted, in place of the system's.
    pub certificate: Option<PathBuf>,
    /// `_CLIENT_CERTIFICATE`: who we are, and the chain above us.
    pub client_certificate: Option<PathBuf>,
    /// `_CLIENT_KEY`: the key to it.
    pub client_key: Option<PathBuf>,
}

/// `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy`, lower case before upper.
///
/// A loopback endpoint is never reached through a proxy.
///
/// Its `Debug` leaves out the passwords.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// For `http` endpoints.
    pub http: Option<String>,
    /// For `https` endpoints.
    pub https: Option<String>,
    /// For either, where it has none of its own.
    pub all: Option<String>,
    /// The hosts that are reached directly.
    pub no: Option<String>,
}

impl Proxies {
    fn from_env(env: Lookup<'_>) -> Self {
        let proxy = |name: &str| value(env, name).or_else(|| value(env, &name.to_uppercase()));
        // CGI hands the request's `Proxy:` header down as HTTP_PROXY.
        let http = match env("REQUEST_METHOD") {
            Some(_) => value(env, "http_proxy"),
            None => proxy("http_proxy"),
        };
        Self { http, https: proxy("https_proxy"), all: proxy("all_proxy"), no: proxy("no_proxy") }
    }

    /// Whether `no_proxy` has the `*` that stands for every host, by name or by address.
    pub(super) fn spares_all(&self) -> bool {
        self.no.as_ref().is_some_and(|no| no.split(',').any(|host| host.trim() == "*"))
    }
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |proxy: &Option<String>| proxy.as_deref().map(shown);
        f.debug_struct("Proxies")
            .field("http", &shown(&self.http))
            .field("https", &shown(&self.https))
            .field("all", &shown(&self.all))
            .field("no", &self.no)
            .finish()
    }
}

/// What a way out has where no variable says otherwise.
pub(super) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest timeout: longer ones are a slip of the unit, and overflow what is made of them.
pub(super) const LONGEST_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

impl Endpoint {
    /// Whether no variable says where `signal` goes, so that it is to the protocol's default.
    pub fn is_default(env: Lookup<'_>, signal: Signal) -> bool {
        Variables { env, signal }.get("ENDPOINT").is_none()
    }

    /// Reads `OTEL_EXPORTER_OTLP_*` for `signal`: its own variables, then the general ones.
    ///
    /// `overrides` beat both. Headers that make no sense are left out, each with a sentence in
    /// `warnings`.
    ///
    /// # Errors
    ///
    /// The first setting without which nothing can be sent.
    pub fn from_env(
        env: Lookup<'_>,
        signal: Signal,
        overrides: &Overrides,
        warnings: &mut Vec<String>,
    ) -> Result<Self, SettingError> {
        let variables = Variables { env, signal };
        let protocol = match overrides.protocol {
            Some(protocol) => protocol,
            None => variables.parse("PROTOCOL", str::parse)?.unwrap_or(Protocol::Grpc),
        };
        let tls = TlsFiles {
            certificate: variables.path("CERTIFICATE"),
            client_certificate: variables.path("CLIENT_CERTIFICATE"),
            client_key: variables.path("CLIENT_KEY"),
        };
        if tls.client_certificate.is_some() != tls.client_key.is_some() {
            let (there, missing) = match tls.client_key {
                Some(_) => ("CLIENT_KEY", "CLIENT_CERTIFICATE"),
                None => ("CLIENT_CERTIFICATE", "CLIENT_KEY"),
            };
            return Err(SettingError {
                name: format!("OTEL_EXPORTER_OTLP_{there}"),
                why: format!("of no use without OTEL_EXPORTER_OTLP_{missing}"),
            });
        }
        let timeout = match overrides.timeout {
            Some(timeout) => timeout,
            None => variables.parse("TIMEOUT", milliseconds)?.unwrap_or(DEFAULT_TIMEOUT),
        };
        let endpoint = Self {
            uri: variables.uri(protocol, overrides.endpoint.as_deref())?,
            protocol,
            headers: variables.headers(warnings),
            gzip: variables.parse("COMPRESSION", gzip)?.unwrap_or(false),
            timeout: timeout.min(LONGEST_TIMEOUT),
            tls,
            proxy: Proxies::from_env(env),
        };
        match endpoint.unusable_proxy() {
            // Never its text: where it makes no sense, nobody can tell what of it is a password.
            Some(name) => Err(SettingError {
                name: name.to_owned(),
                why: "not the address of a proxy: expected http://HOST:PORT".to_owned(),
            }),
            None => Ok(endpoint),
        }
    }

    /// The variable of the proxy that is in the way, if its value is no address.
    fn unusable_proxy(&self) -> Option<&'static str> {
        if self.is_loopback() || self.proxy.spares_all() {
            return None;
        }
        let (name, own) = match self.uri.scheme_str() {
            Some("https") => ("https_proxy", &self.proxy.https),
            _ => ("http_proxy", &self.proxy.http),
        };
        let (name, proxy) = match (own, &self.proxy.all) {
            (Some(own), _) => (name, own),
            (None, Some(all)) => ("all_proxy", all),
            (None, None) => return None,
        };
        let proxy = Matcher::builder().all(proxy.clone()).build();
        proxy.intercept(&Uri::from_static("http://host.invalid/")).is_none().then_some(name)
    }

    /// The headers of the user's own that can be sent with a request. Those that say how a message
    /// is framed are not theirs to set: a collector would wait for a body that never comes.
    pub(super) fn own_headers(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        self.headers.iter().filter(|(name, _)| !FRAMING.contains(name)).cloned()
    }

    /// Where it goes, for people. What follows a `?` may well be a key to it.
    pub(super) fn place(&self) -> String {
        shown(&self.uri.to_string())
    }

    /// Whether this machine talks to itself.
    pub(super) fn is_loopback(&self) -> bool {
        let host = self.uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']').to_lowercase();
        match host.parse::<IpAddr>() {
            Ok(ip) => ip.is_loopback(),
            Err(_) => host == "localhost" || host.ends_with(".localhost"),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({}{}, {} ms",
            self.place(),
            self.protocol.as_str(),
            if self.gzip { ", gzip" } else { "" },
            self.timeout.as_millis(),
        )?;
        for (name, _) in &self.headers {
            write!(f, ", {name}: ***")?;
        }
        write!(f, ")")
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Endpoint")
            .field("uri", &self.place())
            .field("protocol", &self.protocol)
            .field("headers", &headers)
            .field("gzip", &self.gzip)
            .field("timeout", &self.timeout)
            .field("tls", &self.tls)
            .field("proxy", &self.proxy)
            .finish()
    }
}

const FRAMING: [HeaderName; 9] = [
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::HOST,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// A number of milliseconds greater than zero, and a day at most.
///
/// # Errors
///
/// The sentence that says so.
pub fn milliseconds(text: &str) -> Result<Duration, String> {
    let timeout = text
        .parse()
        .ok()
        .filter(|&ms: &u64| ms > 0)
        .map(Duration::from_millis)
        .ok_or_else(|| "expected a number of milliseconds, greater than 0".to_owned())?;
    if timeout > LONGEST_TIMEOUT {
        let longest = LONGEST_TIMEOUT.as_millis();
        return Err(format!("expected {longest} milliseconds, a day, at most"));
    }
    Ok(timeout)
}

fn gzip(text: &str) -> Result<bool, String> {
    match text.to_lowercase().as_str() {
        "gzip" => Ok(true),
        "none" => Ok(false),
        _ => Err("expected gzip or none".to_owned()),
    }
}

/// A signal's variables: `OTEL_EXPORTER_OTLP_TRACES_KEY`, then `OTEL_EXPORTER_OTLP_KEY`.
struct Variables<'a> {
    env: Lookup<'a>,
    signal: Signal,
}

impl Variables<'_> {
    fn own(&self, key: &str) -> String {
        format!("OTEL_EXPORTER_OTLP_{}_{key}", self.signal.key())
    }

    fn get(&self, key: &str) -> Option<(String, String)> {
        [self.own(key), format!("OTEL_EXPORTER_OTLP_{key}")]
            .into_iter()
            .find_map(|name| value(self.env, &name).map(|value| (name, value)))
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        self.get(key).map(|(_, path)| path.into())
    }

    fn parse<T>(
        &self,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, SettingError> {
        self.get(key)
            .map(|(name, text)| {
                parse(&text)
                    .map_err(|why| SettingError { name: format!("{name}={}", shown(&text)), why })
            })
            .transpose()
    }

    fn headers(&self, warnings: &mut Vec<String>) -> Vec<(HeaderName, HeaderValue)> {
        let Some((name, text)) = self.get("HEADERS") else { return Vec::new() };
        let mut headers = Vec::new();
        for (place, entry) in text.split(',').enumerate() {
            if entry.trim().is_empty() {
                continue;
            }
            match name_and_value(entry) {
                Some(header) => headers.push(header),
                // Never the entry itself: it may be a secret with its name forgotten.
                None => warnings.push(format!(
                    "{name}: entry {} is left out: expected NAME=VALUE, percent-encoded",
                    place.saturating_add(1)
                )),
            }
        }
        headers
    }

    fn uri(&self, protocol: Protocol, flag: Option<&str>) -> Result<Uri, SettingError> {
        let own = value(self.env, &self.own("ENDPOINT"));
        let (name, text, is_base) = match (flag, own, self.get("ENDPOINT")) {
            (Some(flag), ..) => ("--endpoint".to_owned(), flag.trim().to_owned(), true),
            (None, Some(own), _) => (self.own("ENDPOINT"), own, false),
            (None, None, Some((name, general))) => (name, general, true),
            (None, None, None) => {
                let port = if protocol == Protocol::Grpc { 4317 } else { 4318 };
                ("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), format!("http://localhost:{port}"), true)
            }
        };
        let fault = |why: String| SettingError { name: name.clone(), why };
        let with_scheme = match text.split_once("://") {
            Some(_) => text,
            // As the Python SDK has it: a bare host:port means TLS, unless INSECURE says not.
            None if protocol == Protocol::Grpc => {
                let scheme = if self.insecure() { "http" } else { "https" };
                format!("{scheme}://{text}")
            }
            None => {
                let text = shown(&text);
                return Err(fault(format!("{text} has no scheme: write http://{text}")));
            }
        };
        let parts = with_scheme
            .parse::<Uri>()
            .map_err(|error| fault(format!("{error} in {}", shown(&with_scheme))))?
            .into_parts();
        let scheme = parts.scheme.as_ref().map(http::uri::Scheme::as_str).unwrap_or_default();
        let authority = parts.authority.as_ref().map(http::uri::Authority::as_str);
        let authority = authority.filter(|authority| !authority.starts_with(':'));
        let Some(authority) = authority else {
            return Err(fault("names no host: write http://HOST:PORT".to_owned()));
        };
        if !matches!(scheme, "http" | "https") {
            return Err(fault(format!("cannot speak {scheme}: write http:// or https://")));
        }
        if authority.contains('@') {
            return Err(fault(
                "has a password in it: put it into OTEL_EXPORTER_OTLP_HEADERS, as \
                 Authorization=Basic%20…"
                    .to_owned(),
            ));
        }
        // A port that is no number up to 65535 is as if it were not there to `Authority`.
        let port = parts.authority.as_ref().and_then(http::uri::Authority::port);
        if port.is_none() && !authority.ends_with(']') && authority.contains(':') {
            return Err(fault(format!("{authority} has no such port")));
        }
        let given = parts.path_and_query.as_ref().map_or("/", |path| path.as_str());
        let path = match protocol {
            // The method's own name is the path.
            Protocol::Grpc => "/".to_owned(),
            _ if !is_base => given.to_owned(),
            _ => {
                let (path, query) = match given.split_once('?') {
                    Some((path, query)) => (path, format!("?{query}")),
                    None => (given, String::new()),
                };
                format!("{}/{}{query}", path.trim_end_matches('/'), self.signal.path())
            }
        };
        Uri::builder()
            .scheme(scheme)
            .authority(authority)
            .path_and_query(path)
            .build()
            .map_err(|error| fault(error.to_string()))
    }

    fn insecure(&self) -> bool {
        self.get("INSECURE").is_some_and(|(_, value)| value.eq_ignore_ascii_case("true"))
    }
}

/// `uri` as people may see it: without user and password, and without what follows a `?`, which may
/// well be a key. It need not be a URI: what somebody mistyped is a secret all the same.
pub(super) fn shown(uri: &str) -> String {
    let (scheme, rest) = match uri.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), uri),
    };
    let rest = match (rest.rfind('@'), rest.find(['?', '#'])) {
        // A password with a ? in it, or a key with an @: where either ends is anybody's guess.
        (Some(at), Some(mark)) if mark < at => "***".to_owned(),
        _ => {
            let (user, rest) = match rest.rsplit_once('@') {
                Some((_, rest)) => ("***@", rest),
                None => ("", rest),
            };
            match rest.split_once(['?', '#']) {
                Some((rest, _)) => format!("{user}{rest}?***"),
                None => format!("{user}{rest}"),
            }
        }
    };
    format!("{scheme}{rest}")
}

fn name_and_value(entry: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = entry.split_once('=')?;
    let name = percent_decode_str(name.trim()).decode_utf8().ok()?;
    let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
    let mut value = HeaderValue::from_str(&value).ok()?;
    value.set_sensitive(true);
    Some((name.parse().ok()?, value))
}
