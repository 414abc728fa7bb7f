//! OTLP over HTTP/1.1, with protobuf or JSON.

use std::io::Write;
use std::time::Duration;

use flate2::{Compression, write::GzEncoder};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use serde_json::Value;

use super::attempt::{Again, Outcome, judge_partial_success};
use super::endpoint::{Endpoint, Protocol, shown};
use super::json;
use super::net::{Door, End, Http, READY_WITHIN};
use super::request::Request;
use super::way_out::{Doing, ExportError, chain, one_line};

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";

/// An answer that is longer is no answer of a collector.
const LONGEST_ANSWER: usize = 1024 * 1024;

pub(super) struct HttpClient {
    pub(super) door: Door,
    connection: Option<SendRequest<Full<Bytes>>>,
    end: End,
}

impl HttpClient {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self { door: Door::new(endpoint, Http::One), connection: None, end: End::default() }
    }

    /// The body of `request`, the same for every try.
    pub(super) fn encode(&self, request: &Request) -> Result<Bytes, ExportError> {
        let body = match (self.door.endpoint.protocol, request) {
            (Protocol::HttpJson, request) => json::write_line(request)
                .map_err(|error| ExportError::System { cause: error.to_string() })?,
            (_, Request::Traces(request)) => request.encode_to_vec(),
            (_, Request::Metrics(request)) => request.encode_to_vec(),
        };
        if !self.door.endpoint.gzip {
            return Ok(body.into());
        }
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&body)
            .and_then(|()| gzip.finish())
            .map(Bytes::from)
            .map_err(|error| ExportError::System { cause: error.to_string() })
    }

    pub(super) async fn attempt(&mut self, request: &Request, body: Bytes) -> Outcome {
        let mut connection = match self.kept().await {
            Some(connection) => connection,
            None => self.connect().await.map_err(ExportError::judged)?,
        };
        if let Err(error) = connection.ready().await {
            return Err(self.lost(&error).await.judged());
        }
        self.door.progress.set(Doing::Waiting);
        let to_send = self.request(body).map_err(ExportError::judged)?;
        let response = match connection.send_request(to_send).await {
            Ok(response) => response,
            Err(error) => return Err(self.lost(&error).await.judged()),
        };
        let (head, body) = response.into_parts();
        let body = self.read(body).await.map_err(ExportError::judged)?;
        self.connection = Some(connection);
        self.judge(request, head.status, &head.headers, &body)
    }

    /// The connection of the request before, if it takes another one. One that answered before it
    /// had read all of that request may never.
    async fn kept(&mut self) -> Option<SendRequest<Full<Bytes>>> {
        let mut connection = self.connection.take()?;
        match tokio::time::timeout(READY_WITHIN, connection.ready()).await {
            Ok(Ok(())) => Some(connection),
            _ => None,
        }
    }

    async fn connect(&mut self) -> Result<SendRequest<Full<Bytes>>, ExportError> {
        let stream = self.door.open().await?;
        let (sender, connection) = http1::handshake(stream).await.map_err(|error| {
            ExportError::Unreached { to: self.door.name(), cause: chain(&error) }
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

    fn request(&self, body: Bytes) -> Result<http::Request<Full<Bytes>>, ExportError> {
        let endpoint = &self.door.endpoint;
        let host = endpoint.uri.authority().map_or("", |authority| authority.as_str());
        let forward = self.door.forward_proxy();
        let path = endpoint.uri.path_and_query().map_or("/", |path| path.as_str());
        let target = match &forward {
            Some(_) => Ok(endpoint.uri.clone()),
            None => path.parse::<Uri>(),
        };
        let fault = |cause: String| ExportError::System { cause };
        let mut request = http::Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = target.map_err(|error| fault(error.to_string()))?;
        let headers = request.headers_mut();
        headers.extend(endpoint.own_headers());
        let host = HeaderValue::from_str(host).map_err(|error| fault(error.to_string()))?;
        headers.insert(header::HOST, host);
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        let content_type = match endpoint.protocol {
            Protocol::HttpJson => JSON,
            _ => PROTOBUF,
        };
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        if endpoint.gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        if let Some(Some(auth)) = forward {
            headers.insert(header::PROXY_AUTHORIZATION, auth);
        }
        Ok(request)
    }

    fn words(&self, error: &hyper::Error) -> String {
        // HTTP/2 servers speak first, which hyper has no name for.
        let spoke_first = error.to_string().contains("unexpected message");
        let hint = if error.is_parse() || spoke_first {
            ": it does not answer in HTTP/1; is it an https:// or a grpc endpoint?"
        } else {
            self.door.closed_hint()
        };
        format!("{}{hint}", chain(error))
    }

    async fn read(&self, body: Incoming) -> Result<Bytes, ExportError> {
        match Limited::new(body, LONGEST_ANSWER).collect().await {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) => {
                let cause = chain(error.as_ref());
                let to = self.door.name();
                Err(match error.downcast::<hyper::Error>() {
                    Ok(_) => ExportError::Unreached {
                        to,
                        cause: format!("the answer was cut short: {cause}"),
                    },
                    Err(_) => ExportError::NotOtlp {
                        to,
                        cause: "the answer is longer than 1 MiB".to_owned(),
                    },
                })
            }
        }
    }

    fn judge(
        &self,
        request: &Request,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Outcome {
        let to = self.door.name();
        let kind = content_type(headers);
        if status.is_success() {
            let not_otlp =
                |cause: String| ExportError::NotOtlp { to: to.clone(), cause }.again(Again::Never);
            // Nothing to say is no partial success, whatever it is called.
            if body.is_empty() {
                return Ok(super::way_out::Accepted::default());
            }
            let (rejected, words) = match kind.as_str() {
                PROTOBUF => rejected_in_protobuf(request, body),
                JSON => rejected_in_json(request, body),
                "" => return Err(not_otlp(format!("it answered {status} without a content type"))),
                other => {
                    return Err(not_otlp(format!("it answered {status} with {}", one_line(other))));
                }
            }
            .map_err(|error| not_otlp(format!("its answer cannot be read: {error}")))?;
            return judge_partial_success(to, request.contents(), rejected, &words);
        }
        let again = match status {
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Again::Asked(retry_after(headers)),
            _ => Again::Never,
        };
        let mut answer = status.to_string();
        if let Some(place) = text(headers, header::LOCATION).filter(|_| status.is_redirection()) {
            answer =
                format!("{answer}, moved to {}: set the endpoint to that", one_line(&shown(place)));
        }
        let words = words_of_error(&kind, body);
        if !words.is_empty() {
            answer = format!("{answer}: {words}");
        }
        if let Again::Asked(Some(wait)) = again {
            answer = format!("{answer} (to be tried again in {} s)", wait.as_secs());
        }
        Err(ExportError::Refused { to, answer }.again(again))
    }
}

/// What we call ourselves to collectors.
pub(super) const USER_AGENT: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn content_type(headers: &HeaderMap) -> String {
    let value = text(headers, header::CONTENT_TYPE).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_lowercase()
}

/// `Retry-After` in its seconds form; of the date form only that it is there matters to a sender
/// that lives for seconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    text(headers, header::RETRY_AFTER)?.trim().parse().ok().map(Duration::from_secs)
}

fn rejected_in_protobuf(request: &Request, body: &[u8]) -> Result<(i64, String), String> {
    let fault = |error: prost::DecodeError| error.to_string();
    Ok(match request {
        Request::Traces(_) => ExportTraceServiceResponse::decode(body)
            .map_err(fault)?
            .partial_success
            .map(|partial| (partial.rejected_spans, partial.error_message)),
        Request::Metrics(_) => ExportMetricsServiceResponse::decode(body)
            .map_err(fault)?
            .partial_success
            .map(|partial| (partial.rejected_data_points, partial.error_message)),
    }
    .unwrap_or_default())
}

/// Read by hand: `opentelemetry-proto` takes `rejectedSpans` as a number only, where JSON's mapping
/// of protobuf has it as a string.
fn rejected_in_json(request: &Request, body: &[u8]) -> Result<(i64, String), String> {
    let answer: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if !answer.is_object() {
        return Err("not a JSON object".to_owned());
    }
    let Some(partial) = answer.get("partialSuccess").filter(|it| !it.is_null()) else {
        return Ok((0, String::new()));
    };
    let field = match request {
        Request::Traces(_) => "rejectedSpans",
        Request::Metrics(_) => "rejectedDataPoints",
    };
    let rejected = match partial.get(field) {
        None | Some(Value::Null) => Some(0),
        Some(Value::String(digits)) => digits.parse().ok(),
        Some(number) => number.as_i64(),
    };
    let rejected = rejected.ok_or_else(|| format!("{field} is no number"))?;
    let words = partial.get("errorMessage").and_then(Value::as_str).unwrap_or_default();
    Ok((rejected, words.to_owned()))
}

/// The collector's own words: the message of a `google.rpc.Status`, or plain text.
fn words_of_error(kind: &str, body: &[u8]) -> String {
    let words = match kind {
        PROTOBUF => tonic_types::Status::decode(body).map(|status| status.message).ok(),
        JSON => serde_json::from_slice::<Value>(body).ok().and_then(|status| {
            ["message", "error", "detail"]
                .iter()
                .find_map(|field| status.get(field).and_then(Value::as_str).map(str::to_owned))
        }),
        "text/html" => None,
        _ => std::str::from_utf8(body).ok().map(str::to_owned),
    };
    one_line(&words.unwrap_or_default())
}
