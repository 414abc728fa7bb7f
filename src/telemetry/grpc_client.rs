//! OTLP over gRPC.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::TokioExecutor;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use tonic::codec::CompressionEncoding;
use tonic::{Code, Status};
use tonic_types::StatusExt;
use tower_service::Service;

use super::attempt::{Again, Failed, Outcome, judge_partial_success};
use super::endpoint::{Endpoint, LONGEST_TIMEOUT};
use super::http_client::USER_AGENT;
use super::net::{Door, End, Http, READY_WITHIN};
use super::request::Request;
use super::way_out::{Accepted, Doing, ExportError, chain, one_line};

pub(super) struct GrpcClient {
    pub(super) door: Door,
    connection: Option<SendRequest<tonic::body::Body>>,
    end: End,
}

impl GrpcClient {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self { door: Door::new(endpoint, Http::Two), connection: None, end: End::default() }
    }

    pub(super) async fn attempt(&mut self, request: &Request, deadline: Instant) -> Outcome {
        let mut connection = match self.kept().await {
            Some(connection) => connection,
            None => self.connect().await.map_err(ExportError::judged)?,
        };
        if let Err(error) = connection.ready().await {
            return Err(self.lost(&error).await.judged());
        }
        self.door.progress.set(Doing::Waiting);
        let channel = Channel(connection.clone());
        let origin = self.door.endpoint.uri.clone();
        let left = deadline.saturating_duration_since(Instant::now());
        let answer = match request {
            Request::Traces(spans) => {
                let mut client = TraceServiceClient::with_origin(channel, origin);
                if self.door.endpoint.gzip {
                    client = client.send_compressed(CompressionEncoding::Gzip);
                }
                client.export(self.with_metadata(spans.clone(), left)).await.map(|response| {
                    response
                        .into_inner()
                        .partial_success
                        .map(|partial| (partial.rejected_spans, partial.error_message))
                })
            }
            Request::Metrics(metrics) => {
                let mut client = MetricsServiceClient::with_origin(channel, origin);
                if self.door.endpoint.gzip {
                    client = client.send_compressed(CompressionEncoding::Gzip);
                }
                client.export(self.with_metadata(metrics.clone(), left)).await.map(|response| {
                    response
                        .into_inner()
                        .partial_success
                        .map(|partial| (partial.rejected_data_points, partial.error_message))
                })
            }
        };
        match answer {
            Err(status) => Err(match status.source().and_then(find::<hyper::Error>) {
                Some(error) => self.lost(error).await.judged(),
                None => self.judge(&status),
            }),
            Ok(partial) => {
                self.connection = Some(connection);
                match partial {
                    None => Ok(Accepted::default()),
                    Some((rejected, words)) => judge_partial_success(
                        self.door.name(),
                        request.contents(),
                        rejected,
                        &words,
                    ),
                }
            }
        }
    }

    /// The connection of the request before, if it takes another one.
    async fn kept(&mut self) -> Option<SendRequest<tonic::body::Body>> {
        let mut connection = self.connection.take()?;
        match tokio::time::timeout(READY_WITHIN, connection.ready()).await {
            Ok(Ok(())) => Some(connection),
            _ => None,
        }
    }

    async fn connect(&mut self) -> Result<SendRequest<tonic::body::Body>, ExportError> {
        let stream = self.door.open().await?;
        self.door.progress.set(Doing::Waiting);
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), stream).await.map_err(|error| {
                ExportError::Unreached { to: self.door.name(), cause: self.words(&error) }
            })?;
        self.end.abandon();
        self.end = End::of(connection);
        Ok(sender)
    }

    /// Why a request got no answer on its connection.
    async fn lost(&mut self, error: &hyper::Error) -> ExportError {
        let end = self.end.cause().await;
        let cause = self.words(end.as_ref().unwrap_or(error));
        ExportError::Unreached { to: self.door.name(), cause }
    }

    fn words(&self, error: &hyper::Error) -> String {
        let words = chain(error);
        // hyper has no name for either: it takes everything for a broken connection.
        let not_http2 = ["frame", "PROTOCOL_ERROR", "FRAME_SIZE_ERROR"];
        let closed = ["closed", "reset", "broken pipe", "fatal alert"];
        let hint = if not_http2.iter().any(|it| words.contains(it)) {
            ": it does not answer in HTTP/2; is it an https:// or an http/protobuf endpoint?"
        } else if closed.iter().any(|it| words.contains(it)) {
            self.door.closed_hint()
        } else {
            ""
        };
        format!("{words}{hint}")
    }

    fn with_metadata<T>(&self, message: T, left: Duration) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        let mut headers: http::HeaderMap = self.door.endpoint.own_headers().collect();
        headers.insert(http::header::USER_AGENT, http::HeaderValue::from_static(USER_AGENT));
        *request.metadata_mut() = tonic::metadata::MetadataMap::from_headers(headers);
        // The header has eight digits, and what does not fit them is a panic.
        request.set_timeout(left.min(LONGEST_TIMEOUT));
        request
    }

    fn judge(&self, status: &Status) -> Failed {
        let to = self.door.name();
        if let Some(source) = status.source() {
            if let Some(not_grpc) = find::<NotGrpc>(source) {
                return ExportError::NotOtlp { to, cause: not_grpc.to_string() }.judged();
            }
            return ExportError::Unreached { to, cause: chain(source) }.judged();
        }
        let wait = status.get_details_retry_info().and_then(|info| info.retry_delay);
        let again = match status.code() {
            Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Aborted
            | Code::Unavailable
            | Code::DataLoss => Again::Asked(wait),
            // The protocol has it tried again, but it is also what tonic calls a message that is too
            // long, which it will be every time.
            Code::OutOfRange if status.message().contains("too large") => Again::Never,
            Code::OutOfRange => Again::AFewTimes,
            Code::ResourceExhausted if wait.is_some() => Again::Asked(wait),
            _ => Again::Never,
        };
        let mut answer = format!("{:?}: {}", status.code(), one_line(status.message()));
        if let Again::Asked(Some(wait)) = again {
            answer = format!("{answer} (to be tried again in {} s)", wait.as_secs());
        }
        ExportError::Refused { to, answer }.again(again)
    }
}

fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// One HTTP/2 connection as tonic wants it.
#[derive(Clone)]
struct Channel(SendRequest<tonic::body::Body>);

impl Service<http::Request<tonic::body::Body>> for Channel {
    type Response = http::Response<Incoming>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let answer = self.0.send_request(request);
        Box::pin(async move {
            let answer = answer.await?;
            let kind = answer.headers().get(http::header::CONTENT_TYPE);
            let is_grpc = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
            // Any other status than 200 is a proxy's, and has a meaning that tonic knows.
            if answer.status() == http::StatusCode::OK && !is_grpc {
                let kind = kind.and_then(|kind| kind.to_str().ok()).map(one_line);
                return Err(NotGrpc(kind).into());
            }
            Ok(answer)
        })
    }
}

#[derive(Debug)]
struct NotGrpc(Option<String>);

impl fmt::Display for NotGrpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(kind) => write!(f, "it answered 200 OK with {kind}"),
            None => write!(f, "it answered 200 OK without a content type"),
        }
    }
}

impl Error for NotGrpc {}
