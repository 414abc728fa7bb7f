//! Asks a server whether it is ready. Never through a proxy: what counts is what the server says.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{self, ClientConfig, DigitallySignedStruct, SignatureScheme};

use crate::events::Unready;
use crate::fleet::Ready;
use crate::words::plain;

/// What one probe may take: a server that has the connection and is busy with something else
/// answers when it is done, so this is far longer than an answer takes.
pub const LIMIT: Duration = Duration::from_secs(5);
/// What the rest of an answer may take, that is read only so that the server can finish it.
const REST_LIMIT: Duration = Duration::from_secs(1);
/// The longest line of an answer that is looked at.
const LINE_BYTES: usize = 8 * 1024;

/// What is heard of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The connection is there, and the answer is yet to come.
    Awaited,
    /// The server is ready.
    Counts,
    /// It is not.
    Unready(Unready),
}

fn says(what: String) -> Answer {
    Answer::Unready(Unready::Says(what))
}

/// Asks once, within [`LIMIT`], and has `tell` know at once what the answer is, and before that
/// whether one is awaited; the rest of it is read after that.
pub async fn ask(ready: &Ready, tls: Option<&TlsConnector>, tell: impl Fn(Answer)) {
    let connected = Cell::new(false);
    let awaited = || {
        connected.set(true);
        tell(Answer::Awaited);
    };
    let rest = match timeout(LIMIT, begin(ready, tls, awaited)).await {
        Ok((answer, rest)) => {
            tell(answer);
            rest
        }
        Err(_) => {
            tell(Answer::Unready(match connected.get() {
                true => Unready::Silent,
                false => Unready::Nobody(format!("no connection within {} s", LIMIT.as_secs())),
            }));
            None
        }
    };
    if let Some(mut rest) = rest {
        let mut sink = tokio::io::sink();
        // Whoever does not finish is not waited for.
        drop(timeout(REST_LIMIT, tokio::io::copy(&mut rest, &mut sink)).await);
    }
}

/// Whether somebody already answers where the server would.
pub async fn is_taken(ready: &Ready) -> bool {
    match ready {
        Ready::Http { host, port, .. } | Ready::Tcp { host, port } => {
            connect(host, *port).await.is_ok()
        }
        Ready::Unix { path, .. } => UnixStream::connect(&**path).await.is_ok(),
    }
}

/// The port that the server will listen on if it is on this machine, for all that can be told from
/// the host's name.
pub fn local_port(ready: &Ready) -> Option<u16> {
    let (Ready::Http { host, port, .. } | Ready::Tcp { host, port }) = ready else {
        return None;
    };
    let local = match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || address.is_unspecified(),
        Err(_) => is_localhost(host),
    };
    local.then_some(*port)
}

fn is_localhost(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
}

/// What TLS needs: any certificate will do. A probe says nothing that is secret and believes
/// nothing but that somebody answers, and a server that is starting often has a certificate of its
/// own making.
pub fn any_certificate() -> Option<TlsConnector> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .ok()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    Some(TlsConnector::from(Arc::new(config)))
}

trait Connection: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Connection for T {}

type Rest = Option<Box<dyn Connection>>;

/// Has `awaited` know when only the answer is still to come.
async fn begin(
    ready: &Ready,
    tls: Option<&TlsConnector>,
    awaited: impl FnOnce(),
) -> (Answer, Rest) {
    let result = match ready {
        Ready::Tcp { host, port } => connect(host, *port).await.map(|_| (Answer::Counts, None)),
        Ready::Unix { path, expect: None } => {
            UnixStream::connect(&**path).await.map(|_| (Answer::Counts, None))
        }
        Ready::Unix { path, expect } => match UnixStream::connect(&**path).await {
            Ok(stream) => {
                awaited();
                Ok(over_http(Box::new(stream), "localhost", "/", *expect).await)
            }
            Err(error) => Err(error),
        },
        Ready::Http { tls: over_tls, host, port, target, expect } => {
            match connect(host, *port).await {
                Ok(stream) => {
                    awaited();
                    let authority = authority(host, *port, if *over_tls { 443 } else { 80 });
                    let stream: io::Result<Box<dyn Connection>> = match over_tls {
                        false => Ok(Box::new(stream)),
                        true => handshake(stream, host, tls).await,
                    };
                    match stream {
                        Ok(stream) => Ok(over_http(stream, &authority, target, *expect).await),
                        Err(error) => Ok((says(format!("no TLS: {error}")), None)),
                    }
                }
                Err(error) => Err(error),
            }
        }
    };
    result.unwrap_or_else(|error| (Answer::Unready(Unready::Nobody(plain(error))), None))
}

async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        Ok(address) => vec![(address, port).into()],
        Err(_) if is_localhost(host) => {
            vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()]
        }
        Err(_) => lookup_host((host, port)).await?.collect(),
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect(address).await {
            // A port of the range that outgoing connections take theirs from can meet itself.
            Ok(stream) if stream.local_addr().ok() == stream.peer_addr().ok() => {
                last = io::ErrorKind::ConnectionRefused.into();
            }
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn handshake(
    stream: TcpStream,
    host: &str,
    tls: Option<&TlsConnector>,
) -> io::Result<Box<dyn Connection>> {
    let tls = tls.ok_or(io::ErrorKind::Unsupported)?;
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    Ok(Box::new(tls.connect(name, stream).await?))
}

fn authority(host: &str, port: u16, default_port: u16) -> String {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    if port == default_port { host } else { format!("{host}:{port}") }
}

async fn over_http(
    mut stream: Box<dyn Connection>,
    authority: &str,
    target: &str,
    expect: Option<u16>,
) -> (Answer, Rest) {
    let request = format!(
        "GET {target} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: gym-startup/{}\r\n\
         Accept: */*\r\nConnection: close\r\n\r\n",
        env!("CARGO_PKG_VERSION")
    );
    let status = async {
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        read_status(&mut stream).await
    };
    let answer = match status.await {
        Ok(status) if counts(status, expect) => Answer::Counts,
        Ok(status) => Answer::Unready(Unready::Status(status)),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            says("answers, but not in HTTP/1".to_owned())
        }
        Err(error) => says(format!("closes the connection: {}", plain(error))),
    };
    (answer, Some(stream))
}

fn counts(status: u16, expect: Option<u16>) -> bool {
    match expect {
        Some(expected) => status == expected,
        None => !matches!(status, 502..=504),
    }
}

/// The status of the final answer, past those that are interim (RFC 9110, 15.2): they end with an
/// empty line, as headers do.
async fn read_status(stream: &mut Box<dyn Connection>) -> io::Result<u16> {
    let mut unread = Vec::new();
    loop {
        let status = status(&read_line(stream, &mut unread).await?)?;
        if !(100..200).contains(&status) {
            return Ok(status);
        }
        while !read_line(stream, &mut unread).await?.trim_ascii_end().is_empty() {}
    }
}

/// The status in `HTTP/1.1 200 OK`.
fn status(line: &[u8]) -> io::Result<u16> {
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace();
    let in_http = words.next().is_some_and(|version| version.starts_with("HTTP/1."));
    let status = words.next().and_then(|status| status.parse().ok());
    status.filter(|_| in_http).ok_or(io::ErrorKind::InvalidData.into())
}

/// The next line, with its end. What was read beyond it stays in `unread`.
async fn read_line(stream: &mut Box<dyn Connection>, unread: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    loop {
        if let Some(end) = unread.iter().position(|&byte| byte == b'\n') {
            return Ok(unread.drain(..=end).collect());
        }
        if unread.len() > LINE_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if stream.read_buf(unread).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
