//! Collectors that answer as they are told, and keep what they were sent.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use flate2::read::GzDecoder;
use gym_stamp::telemetry::{Protocol, Request, json};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};
use tonic::codec::CompressionEncoding;
use tonic::{Response, Status};
use tower_service::Service;

use super::toolbox::free_port;

/// What a collector was sent.
#[derive(Clone, Debug)]
pub struct Seen {
    /// `POST /v1/traces`, or the method's path over gRPC.
    pub target: String,
    /// `name: value`, names in lower case.
    pub headers: Vec<String>,
    pub request: Request,
}

/// Requests as they come in.
#[derive(Clone, Default)]
pub struct Inbox(Arc<Mutex<Vec<Seen>>>);

impl Inbox {
    pub fn seen(&self) -> Vec<Seen> {
        self.0.lock().unwrap().clone()
    }

    fn put(&self, seen: Seen) {
        self.0.lock().unwrap().push(seen);
    }
}

/// A collector in this process. Its threads end with the test.
pub struct Collector {
    pub address: SocketAddr,
    pub inbox: Inbox,
}

/// Answers, one a request; the last one goes for all that follow.
struct Script<T>(Mutex<VecDeque<T>>);

impl<T: Clone> Script<T> {
    fn new(answers: impl IntoIterator<Item = T>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(answers.into_iter().collect())))
    }

    fn peek(&self) -> T {
        self.0.lock().unwrap().front().cloned().expect("an answer")
    }

    fn next(&self) -> T {
        let mut answers = self.0.lock().unwrap();
        let answer = answers.front().cloned().expect("an answer");
        if answers.len() > 1 {
            answers.pop_front();
        }
        answer
    }
}

/// An answer over HTTP/1: the bytes to send before the connection goes on, or ends.
#[derive(Clone)]
pub struct HttpAnswer {
    bytes: Vec<u8>,
    ends: bool,
    early: bool,
}

impl HttpAnswer {
    pub fn new(status: &str, headers: &[&str], body: &[u8]) -> Self {
        let mut bytes = format!("HTTP/1.1 {status}\r\n").into_bytes();
        for header in headers {
            bytes.extend_from_slice(format!("{header}\r\n").as_bytes());
        }
        bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        bytes.extend_from_slice(body);
        Self { bytes, ends: false, early: false }
    }

    /// Given before the body is read, which it never is, on a connection that stays open.
    pub fn early(self) -> Self {
        Self { early: true, ..self }
    }

    /// All was accepted.
    pub fn ok() -> Self {
        Self::new("200 OK", &["Content-Type: application/x-protobuf"], b"")
    }

    /// `rejected` spans were not, and this is why.
    pub fn partial(protocol: Protocol, rejected: i64, words: &str) -> Self {
        let kind = match protocol {
            Protocol::HttpJson => "Content-Type: application/json",
            _ => "Content-Type: application/x-protobuf",
        };
        let body = match protocol {
            Protocol::HttpJson => format!(
                r#"{{"partialSuccess":{{"rejectedSpans":"{rejected}","errorMessage":"{words}"}}}}"#
            )
            .into_bytes(),
            _ => partial_success(rejected, words).encode_to_vec(),
        };
        Self::new("200 OK", &[kind], &body)
    }

    /// The first half of an answer, and then the end.
    pub fn cut() -> Self {
        let mut answer = Self::new("200 OK", &["Content-Type: application/x-protobuf"], &[0; 100]);
        answer.bytes.truncate(answer.bytes.len() - 50);
        answer.ends = true;
        answer
    }
}

fn partial_success(rejected: i64, words: &str) -> ExportTraceServiceResponse {
    ExportTraceServiceResponse {
        partial_success: Some(ExportTracePartialSuccess {
            rejected_spans: rejected,
            error_message: words.to_owned(),
        }),
    }
}

pub fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

impl Collector {
    /// Speaks HTTP/1 and answers as written.
    pub fn http(answers: impl IntoIterator<Item = HttpAnswer>) -> Self {
        Self::http_on(listener().0, None, answers)
    }

    pub fn https(tls: Arc<ServerConfig>, answers: impl IntoIterator<Item = HttpAnswer>) -> Self {
        Self::http_on(listener().0, Some(tls), answers)
    }

    pub fn http_on(
        listener: TcpListener,
        tls: Option<Arc<ServerConfig>>,
        answers: impl IntoIterator<Item = HttpAnswer>,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let (inbox, script) = (Inbox::default(), Script::new(answers));
        let theirs = inbox.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, inbox, script, tls) =
                    (stream.unwrap(), theirs.clone(), script.clone(), tls.clone());
                thread::spawn(move || match tls {
                    None => serve_http(stream, &inbox, &script),
                    Some(tls) => {
                        let session = ServerConnection::new(tls).unwrap();
                        serve_http(StreamOwned::new(session, stream), &inbox, &script);
                    }
                });
            }
        });
        Self { address, inbox }
    }

    /// Speaks gRPC and answers with these results.
    pub fn grpc(answers: impl IntoIterator<Item = GrpcAnswer>) -> Self {
        Self::grpc_on(listener().0, None, answers)
    }

    pub fn grpcs(tls: Arc<ServerConfig>, answers: impl IntoIterator<Item = GrpcAnswer>) -> Self {
        Self::grpc_on(listener().0, Some(tls), answers)
    }

    pub fn grpc_on(
        listener: TcpListener,
        tls: Option<Arc<ServerConfig>>,
        answers: impl IntoIterator<Item = GrpcAnswer>,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let inbox = Inbox::default();
        let service = GrpcCollector { inbox: inbox.clone(), script: Script::new(answers) };
        thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(serve_grpc(listener, tls, service));
        });
        Self { address, inbox }
    }

    /// One that takes everything, in the given protocol.
    pub fn willing(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Grpc => Self::grpc([GrpcAnswer::ok()]),
            _ => Self::http([HttpAnswer::ok()]),
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.inbox.seen()
    }
}

/// Reads requests until the peer has had enough.
fn serve_http(stream: impl Read + Write, inbox: &Inbox, script: &Script<HttpAnswer>) {
    let mut stream = BufReader::new(stream);
    loop {
        // As a real server does with TLS and HTTP/2: neither starts like this.
        if !stream.fill_buf().is_ok_and(|bytes| b"POST".starts_with(&bytes[..bytes.len().min(4)])) {
            stream.get_mut().write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap_or_default();
            return;
        }
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_until(b'\n', &mut head) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
        if script.peek().early {
            stream.get_mut().write_all(&script.next().bytes).unwrap_or_default();
            loop {
                thread::park();
            }
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut lines = head.lines();
        let first = lines.next().unwrap_or_default();
        let target = first.rsplit_once(' ').map_or(first, |(target, _)| target).to_owned();
        let headers: Vec<String> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| format!("{}: {value}", name.to_lowercase()))
            .collect();
        let has = |header: &str| headers.iter().any(|it| it == header);
        let length = headers.iter().find_map(|header| header.strip_prefix("content-length: "));
        let mut body = vec![0; length.unwrap_or("0").parse().unwrap()];
        if stream.read_exact(&mut body).is_err() {
            return;
        }
        if has("content-encoding: gzip") {
            let mut plain = Vec::new();
            GzDecoder::new(body.as_slice()).read_to_end(&mut plain).unwrap();
            body = plain;
        }
        let request = if has("content-type: application/json") {
            json::read_line(&body).unwrap().remove(0)
        } else if target.contains("metrics") {
            Request::Metrics(ExportMetricsServiceRequest::decode(body.as_slice()).unwrap())
        } else {
            Request::Traces(ExportTraceServiceRequest::decode(body.as_slice()).unwrap())
        };
        inbox.put(Seen { target, headers, request });
        let answer = script.next();
        if stream.get_mut().write_all(&answer.bytes).is_err() || answer.ends {
            return;
        }
        stream.get_mut().flush().unwrap_or_default();
    }
}

/// An answer over gRPC.
#[derive(Clone)]
pub enum GrpcAnswer {
    Partial {
        rejected: i64,
        words: String,
    },
    Refused(Status),
    /// No gRPC at all, but `200 OK` with this content type.
    OtherContent(&'static str),
    /// The connection ends instead.
    Hangup,
    /// The headers and the first bytes of a message, and then the end.
    Cut,
}

impl GrpcAnswer {
    pub fn ok() -> Self {
        Self::partial(0, "")
    }

    pub fn partial(rejected: i64, words: &str) -> Self {
        Self::Partial { rejected, words: words.to_owned() }
    }
}

/// The beginning of a message of 100 bytes.
struct CutBody {
    begun: bool,
    hang_up: tokio::sync::mpsc::UnboundedSender<()>,
}

impl Body for CutBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.begun {
            self.begun = true;
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[0, 0, 0, 0, 100, 10])))));
        }
        let hang_up = self.hang_up.clone();
        tokio::spawn(async move {
            // Until what was begun has gone out.
            tokio::time::sleep(Duration::from_millis(200)).await;
            hang_up.send(()).unwrap_or_default();
        });
        Poll::Pending
    }
}

#[derive(Clone)]
struct GrpcCollector {
    inbox: Inbox,
    script: Arc<Script<GrpcAnswer>>,
}

async fn serve_grpc(listener: TcpListener, tls: Option<Arc<ServerConfig>>, service: GrpcCollector) {
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (tls, service) = (tls.clone(), service.clone());
        tokio::spawn(async move {
            match tls {
                None => serve_grpc_connection(stream, service).await,
                Some(tls) => {
                    if let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await {
                        serve_grpc_connection(stream, service).await;
                    }
                }
            }
        });
    }
}

async fn serve_grpc_connection(
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    service: GrpcCollector,
) {
    let (hang_up, mut hung_up) = tokio::sync::mpsc::unbounded_channel::<()>();
    let answer = service_fn(move |request: http::Request<Incoming>| {
        let (service, hang_up) = (service.clone(), hang_up.clone());
        async move { service.answer(request, &hang_up).await }
    });
    let connection =
        http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer);
    tokio::select! {
        _ = connection => {}
        Some(()) = hung_up.recv() => {}
    }
}

impl GrpcCollector {
    async fn answer(
        self,
        request: http::Request<Incoming>,
        hang_up: &tokio::sync::mpsc::UnboundedSender<()>,
    ) -> Result<http::Response<tonic::body::Body>, Infallible> {
        // Anything else is answered by the services.
        match self.script.peek() {
            GrpcAnswer::OtherContent(kind) => {
                self.script.next();
                let body = tonic::body::Body::new(String::from("<html>"));
                let mut response = http::Response::new(body);
                response.headers_mut().insert("content-type", kind.parse().unwrap());
                return Ok(response);
            }
            GrpcAnswer::Hangup => {
                self.script.next();
                hang_up.send(()).unwrap_or_default();
                std::future::pending::<()>().await;
            }
            GrpcAnswer::Cut => {
                self.script.next();
                let body = CutBody { begun: false, hang_up: hang_up.clone() };
                let mut response = http::Response::new(tonic::body::Body::new(body));
                response.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
                return Ok(response);
            }
            GrpcAnswer::Partial { .. } | GrpcAnswer::Refused(_) => {}
        }
        if request.uri().path().contains("MetricsService") {
            let service = MetricsServiceServer::new(self);
            service.accept_compressed(CompressionEncoding::Gzip).call(request).await
        } else {
            let service = TraceServiceServer::new(self);
            service.accept_compressed(CompressionEncoding::Gzip).call(request).await
        }
    }

    fn take(&self, method: &str, metadata: &tonic::metadata::MetadataMap, request: Request) {
        let headers = metadata
            .clone()
            .into_headers()
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        self.inbox.put(Seen { target: method.to_owned(), headers, request });
    }
}

#[tonic::async_trait]
impl TraceService for GrpcCollector {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let (metadata, _, message) = request.into_parts();
        self.take("TraceService/Export", &metadata, Request::Traces(message));
        match self.script.next() {
            GrpcAnswer::Refused(status) => Err(status),
            GrpcAnswer::Partial { rejected: 0, words } if words.is_empty() => {
                Ok(Response::new(ExportTraceServiceResponse::default()))
            }
            GrpcAnswer::Partial { rejected, words } => {
                Ok(Response::new(partial_success(rejected, &words)))
            }
            GrpcAnswer::OtherContent(_) | GrpcAnswer::Hangup | GrpcAnswer::Cut => {
                Err(Status::internal("unplanned"))
            }
        }
    }
}

#[tonic::async_trait]
impl MetricsService for GrpcCollector {
    async fn export(
        &self,
        request: tonic::Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let (metadata, _, message) = request.into_parts();
        self.take("MetricsService/Export", &metadata, Request::Metrics(message));
        match self.script.next() {
            GrpcAnswer::Refused(status) => Err(status),
            _ => Ok(Response::new(ExportMetricsServiceResponse::default())),
        }
    }
}

/// A listener that accepts and never says a word.
pub fn silent() -> SocketAddr {
    let (listener, address) = listener();
    thread::spawn(move || {
        let held: Vec<_> = listener.incoming().collect();
        drop(held);
    });
    address
}

/// A port that nobody listens on.
pub fn closed() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free_port()).into()
}

/// A listener that accepts nobody, and whose queue is full: a connection to it never completes.
/// Drop what holds it open at the end of the test.
pub fn full() -> (SocketAddr, Vec<Box<dyn Send>>) {
    full_on(Ipv4Addr::LOCALHOST)
}

pub fn full_on(ip: Ipv4Addr) -> (SocketAddr, Vec<Box<dyn Send>>) {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((ip, 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    // There is room for one, however long that takes.
    let mut held: Vec<Box<dyn Send>> =
        vec![Box::new(socket), Box::new(TcpStream::connect(address).unwrap())];
    for _ in 0..16 {
        match TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
            Ok(stream) => held.push(Box::new(stream)),
            Err(_) => return (address, held),
        }
    }
    panic!("the queue of {address} never fills");
}

/// A proxy that tunnels: it tells what it was asked to connect to, and connects to `target`.
pub fn tunnel(target: SocketAddr) -> (SocketAddr, mpsc::Receiver<String>) {
    let (listener, address) = listener();
    let (asked, told) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, asked) = (stream.unwrap(), asked.clone());
            thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    if reader.read_line(&mut head).unwrap_or(0) == 0 {
                        return;
                    }
                }
                asked.send(head.lines().next().unwrap().to_owned()).unwrap_or_default();
                let mut near = stream;
                near.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
                let far = TcpStream::connect(target).unwrap();
                let (mut up_from, mut up_to) =
                    (near.try_clone().unwrap(), far.try_clone().unwrap());
                thread::spawn(move || std::io::copy(&mut up_from, &mut up_to).unwrap_or(0));
                let mut far = far;
                std::io::copy(&mut far, &mut near).unwrap_or(0);
            });
        }
    });
    (address, told)
}
