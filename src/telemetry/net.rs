//! The one door to the network: name, connection, proxy and TLS.

use std::error::Error;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::{GaiFuture, GaiResolver, Name};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{
    self, CertificateError, ClientConfig, InvalidMessage, RootCertStore, crypto::ring,
};
use tower_service::Service;

use super::endpoint::{Endpoint, TlsFiles, shown};
use super::way_out::{Doing, ExportError, chain};

/// How far a request has come, for the words of a deadline that passes.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress(Arc<Steps>);

#[derive(Debug, Default)]
struct Steps {
    doing: AtomicU8,
    before: Mutex<Option<String>>,
}

const STEPS: [Doing; 7] = [
    Doing::Starting,
    Doing::Resolving,
    Doing::Connecting,
    Doing::Tunnelling,
    Doing::ShakingHands,
    Doing::Waiting,
    Doing::Pausing,
];

impl Progress {
    pub(super) fn set(&self, doing: Doing) {
        let step = STEPS.iter().position(|step| *step == doing).unwrap_or_default();
        self.0.doing.store(u8::try_from(step).unwrap_or_default(), Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Doing {
        let step = usize::from(self.0.doing.load(Ordering::Relaxed));
        STEPS.get(step).copied().unwrap_or(Doing::Starting)
    }

    /// A try has ended so, and there will be another.
    pub(super) fn failed(&self, error: &ExportError) {
        *self.0.before.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
    }

    /// How the try before this one ended, if there was one.
    pub(super) fn before(&self) -> Option<String> {
        self.0.before.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What is spoken on a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Http {
    One,
    Two,
}

/// What a connection has to be ready for another request. One that is, is at once.
pub(super) const READY_WITHIN: Duration = Duration::from_millis(100);

/// A connection, with TLS or without.
pub(super) trait Stream: hyper::rt::Read + hyper::rt::Write + Send + Unpin {}

impl<T: hyper::rt::Read + hyper::rt::Write + Send + Unpin> Stream for T {}

/// How a connection ends. A request that is lost with it is only told that it ended.
#[derive(Default)]
pub(super) struct End(Option<JoinHandle<hyper::Result<()>>>);

impl End {
    /// Keeps `connection` going.
    pub(super) fn of(connection: impl Future<Output = hyper::Result<()>> + Send + 'static) -> Self {
        Self(Some(tokio::spawn(connection)))
    }

    /// Ends it, whatever it is stuck in: nothing more is expected of it.
    pub(super) fn abandon(&mut self) {
        if let Some(connection) = self.0.take() {
            connection.abort();
        }
    }

    /// What ended it, if that is known or soon will be.
    pub(super) async fn cause(&mut self) -> Option<hyper::Error> {
        const MOMENT: Duration = Duration::from_millis(100);
        match tokio::time::timeout(MOMENT, self.0.take()?).await {
            Ok(Ok(Err(error))) => Some(error),
            _ => None,
        }
    }
}

/// A way to one endpoint.
pub(super) struct Door {
    pub(super) endpoint: Endpoint,
    pub(super) progress: Progress,
    deadline: Option<Instant>,
    http: Http,
    proxy: Option<Intercept>,
    tls: Option<Arc<ClientConfig>>,
}

impl Door {
    pub(super) fn new(endpoint: Endpoint, http: Http) -> Self {
        let proxy = proxy_to(&endpoint);
        Self { endpoint, progress: Progress::default(), deadline: None, http, proxy, tls: None }
    }

    /// Tells `progress` how far it comes from now on, until `deadline`.
    pub(super) fn watch(&mut self, progress: &Progress, deadline: Instant) {
        self.progress = progress.clone();
        self.deadline = Some(deadline);
    }

    /// Where requests go, as errors name it.
    pub(super) fn name(&self) -> String {
        let place = self.endpoint.place();
        match &self.proxy {
            Some(proxy) => {
                format!("{place} through the proxy {}", shown(&proxy.uri().to_string()))
            }
            None => place,
        }
    }

    /// What a proxy wants to see in every request that it passes on itself, without a tunnel.
    pub(super) fn forward_proxy(&self) -> Option<Option<HeaderValue>> {
        let proxy = self.proxy.as_ref()?;
        self.forwards().then(|| proxy.basic_auth().cloned())
    }

    /// What may be behind a connection that ends without an answer. In TLS 1.3 a server that misses
    /// a client's certificate says so only then, and even that may get lost.
    pub(super) fn closed_hint(&self) -> &'static str {
        match (self.is_https(), self.http) {
            (true, _) if self.endpoint.tls.client_certificate.is_none() => {
                ": it closed the connection; if it wants a certificate of its clients, set \
                 OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY"
            }
            (false, Http::Two) => {
                ": it closed the connection; if it always does, is it an https:// or an \
                 http/protobuf endpoint?"
            }
            (false, Http::One) => {
                ": it closed the connection before its answer was complete; if it always does, is \
                 it an https:// or a grpc endpoint?"
            }
            _ => ": it closed the connection before its answer was complete",
        }
    }

    fn is_https(&self) -> bool {
        self.endpoint.uri.scheme_str() == Some("https")
    }

    /// Proxies pass plain HTTP/1 on; many refuse to tunnel to anything but port 443.
    fn forwards(&self) -> bool {
        self.proxy.is_some() && self.http == Http::One && !self.is_https()
    }

    pub(super) async fn open(&mut self) -> Result<Box<dyn Stream>, ExportError> {
        let tls = if self.is_https() { Some(self.tls_config()?) } else { None };
        self.progress.set(Doing::Resolving);
        let tcp = self.connect().await?;
        match tls {
            None => Ok(Box::new(TokioIo::new(tcp))),
            Some(tls) => self.shake_hands(tcp, tls).await,
        }
    }

    async fn connect(&self) -> Result<TcpStream, ExportError> {
        let mut direct = HttpConnector::new_with_resolver(Resolver {
            system: GaiResolver::new(),
            progress: self.progress.clone(),
        });
        direct.enforce_http(false);
        direct.set_nodelay(true);
        // It is shared out among a name's addresses, so that one that does not answer leaves time
        // for the next. A little more than there is, or a lone address would run out of it just
        // before the deadline, which knows better what to say.
        direct.set_connect_timeout(self.deadline.map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            left.saturating_add(left / 8).saturating_add(Duration::from_millis(1))
        }));
        if self.proxy.as_ref().is_some_and(|proxy| proxy.uri().scheme_str() != Some("http")) {
            let cause = format!("{}: a proxy can only be http://", self.name());
            return Err(ExportError::System { cause });
        }
        let unreached = |error: &(dyn Error + 'static)| ExportError::Unreached {
            to: self.name(),
            cause: chain(error),
        };
        let stream = match &self.proxy {
            None => {
                if is_ip(&self.endpoint.uri) {
                    self.progress.set(Doing::Connecting);
                }
                direct.call(self.endpoint.uri.clone()).await.map_err(|error| unreached(&error))?
            }
            Some(proxy) if self.forwards() => {
                direct.call(proxy.uri().clone()).await.map_err(|error| unreached(&error))?
            }
            Some(proxy) => {
                let mut tunnel = Tunnel::new(proxy.uri().clone(), direct);
                if let Some(auth) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(auth.clone());
                }
                self.progress.set(Doing::Tunnelling);
                tunnel
                    .call(with_port(&self.endpoint.uri))
                    .await
                    .map_err(|error| unreached(&error))?
            }
        };
        Ok(stream.into_inner())
    }

    async fn shake_hands(
        &self,
        tcp: TcpStream,
        tls: Arc<ClientConfig>,
    ) -> Result<Box<dyn Stream>, ExportError> {
        self.progress.set(Doing::ShakingHands);
        let fault = |cause: String| ExportError::Tls { to: self.name(), cause };
        let host = self.endpoint.uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host)
            .map_err(|error| fault(format!("no certificate can be for that name: {error}")))?;
        let stream = TlsConnector::from(tls)
            .connect(name, tcp)
            .await
            .map_err(|error| fault(tls_words(&error)))?;
        let (_, session) = stream.get_ref();
        if self.http == Http::Two && session.alpn_protocol() != Some(b"h2") {
            return Err(ExportError::NotOtlp {
                to: self.name(),
                cause: "no HTTP/2, which gRPC needs: is the protocol http/protobuf?".to_owned(),
            });
        }
        Ok(Box::new(TokioIo::new(stream)))
    }

    fn tls_config(&mut self) -> Result<Arc<ClientConfig>, ExportError> {
        if let Some(config) = &self.tls {
            return Ok(config.clone());
        }
        let fault = |cause: String| ExportError::Tls { to: self.name(), cause };
        let roots = roots(&self.endpoint.tls)?.map_err(fault)?;
        let trusting = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| fault(error.to_string()))?
            .with_root_certificates(roots);
        let mut config = match identity(&self.endpoint.tls)? {
            None => trusting.with_no_client_auth(),
            Some((chain, key)) => trusting
                .with_client_auth_cert(chain, key)
                .map_err(|error| fault(format!("the client certificate or its key: {error}")))?,
        };
        config.alpn_protocols = match self.http {
            Http::One => vec![b"http/1.1".to_vec()],
            Http::Two => vec![b"h2".to_vec()],
        };
        let config = Arc::new(config);
        self.tls = Some(config.clone());
        Ok(config)
    }
}

/// The proxy between here and `endpoint`, if there is one.
fn proxy_to(endpoint: &Endpoint) -> Option<Intercept> {
    if endpoint.is_loopback() || endpoint.proxy.spares_all() {
        return None;
    }
    let of = |proxy: &Option<String>| proxy.clone().unwrap_or_default();
    Matcher::builder()
        .all(of(&endpoint.proxy.all))
        .http(of(&endpoint.proxy.http))
        .https(of(&endpoint.proxy.https))
        .no(of(&endpoint.proxy.no))
        .build()
        .intercept(&endpoint.uri)
}

fn is_ip(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default();
    host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok()
}

/// A tunnel takes 443 for a port that is left out, whatever the scheme.
fn with_port(uri: &Uri) -> Uri {
    if uri.port().is_some() || uri.scheme_str() != Some("http") {
        return uri.clone();
    }
    let mut parts = uri.clone().into_parts();
    let authority = format!("{}:80", uri.host().unwrap_or_default());
    parts.authority = authority.parse().ok().or(parts.authority);
    Uri::from_parts(parts).unwrap_or_else(|_| uri.clone())
}

/// The trusted CAs; the inner error is a sentence about there being none.
fn roots(files: &TlsFiles) -> Result<Result<RootCertStore, String>, ExportError> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = &files.certificate {
        let certificates = read_certificates(path)?;
        let (added, _) = roots.add_parsable_certificates(certificates);
        if added == 0 {
            return Err(no_pem(path, "certificate"));
        }
        return Ok(Ok(roots));
    }
    let system = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(system.certs);
    if added == 0 {
        let errors: Vec<String> = system.errors.iter().map(|error| chain(error)).collect();
        return Ok(Err(format!(
            "this machine has no CA certificates to check the collector's with{}{}: install \
             ca-certificates, or set OTEL_EXPORTER_OTLP_CERTIFICATE to the PEM file of the \
             collector's CA",
            if errors.is_empty() { "" } else { " – " },
            errors.join("; "),
        )));
    }
    Ok(Ok(roots))
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(files: &TlsFiles) -> Result<Option<Identity>, ExportError> {
    let (Some(chain), Some(key)) = (&files.client_certificate, &files.client_key) else {
        return Ok(None);
    };
    let certificates = read_certificates(chain)?;
    if certificates.is_empty() {
        return Err(no_pem(chain, "certificate"));
    }
    match PrivateKeyDer::from_pem_file(key) {
        Ok(key) => Ok(Some((certificates, key))),
        Err(error) => Err(pem_fault(key, &error)),
    }
}

fn read_certificates(path: &std::path::Path) -> Result<Vec<CertificateDer<'static>>, ExportError> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| pem_fault(path, &error))
}

fn pem_fault(path: &std::path::Path, error: &rustls::pki_types::pem::Error) -> ExportError {
    match error {
        rustls::pki_types::pem::Error::NoItemsFound => no_pem(path, "private key"),
        error => ExportError::File { path: path.to_owned(), cause: chain(error) },
    }
}

fn no_pem(path: &std::path::Path, what: &str) -> ExportError {
    ExportError::File { path: path.to_owned(), cause: format!("no {what} in PEM form") }
}

/// What went wrong with a handshake, and what helps.
fn tls_words(error: &std::io::Error) -> String {
    let hint = match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => {
            ": no CA that is trusted here signed it; set OTEL_EXPORTER_OTLP_CERTIFICATE to the PEM \
             file of the one that did"
        }
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            ": it does not speak TLS; write its endpoint with http://"
        }
        _ if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            ": it closed the connection; if it does not speak TLS, write its endpoint with http://"
        }
        _ => "",
    };
    format!("TLS handshake failed: {}{hint}", chain(error))
}

/// The system's resolver, which tells when it is done.
#[derive(Clone)]
struct Resolver {
    system: GaiResolver,
    progress: Progress,
}

impl Service<Name> for Resolver {
    type Response = <GaiResolver as Service<Name>>::Response;
    type Error = std::io::Error;
    type Future =
        std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.system.poll_ready(context)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let lookup: GaiFuture = self.system.call(name);
        let progress = self.progress.clone();
        Box::pin(async move {
            let addresses = lookup.await;
            // A proxy's name is looked up too; the way through it goes on being the step.
            if progress.get() == Doing::Resolving {
                progress.set(Doing::Connecting);
            }
            addresses
        })
    }
}
