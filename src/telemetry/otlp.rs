//! OTLP, over gRPC or HTTP: one deadline over name, connection, TLS, answer and all tries.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::attempt::{Again, Failed, Outcome};
use super::endpoint::{Endpoint, Protocol};
use super::grpc_client::GrpcClient;
use super::http_client::HttpClient;
use super::net::{Door, Progress};
use super::request::Request;
use super::way_out::{Accepted, Doing, ExportError, WayOut};

/// To the OTLP endpoints of the two signals.
///
/// All of it happens on threads of its own, one a signal, each started by the first request: a
/// caller may well be a task of some runtime, which must not be run within. Whatever such a thread
/// is stuck in, such as a name server that does not answer, [`send`](WayOut::send) comes back, at
/// most 200 ms after the deadline. Dropping it does not wait.
///
/// A request that the collector asks to be sent again (gRPC `UNAVAILABLE` and its like, HTTP 429,
/// 502, 503, 504) is, until the deadline; one that the network lost is sent three times at most.
///
/// ```
/// use std::time::{Duration, Instant};
/// use gym_stamp::telemetry::{Endpoint, Otlp, Overrides, Request, Resource, Signal, WayOut};
///
/// let env = |name: &str| (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| "http://[::1]:1".into());
/// let endpoint = Endpoint::from_env(&env, Signal::Traces, &Overrides::default(), &mut Vec::new())?;
/// let otlp = Otlp::new(Some(endpoint), None);
/// let request = Request::of_spans(&Resource::default(), &[]);
/// let nobody_is_there = otlp.send(request, Instant::now() + Duration::from_secs(1));
/// assert!(nobody_is_there.unwrap_err().to_string().starts_with("http://[::1]:1/: "));
/// # Ok::<(), gym_stamp::telemetry::SettingError>(())
/// ```
#[derive(Debug)]
pub struct Otlp {
    traces: Option<Lane>,
    metrics: Option<Lane>,
}

/// The way of one signal.
#[derive(Debug)]
struct Lane {
    endpoint: Endpoint,
    worker: Mutex<Option<UnboundedSender<Job>>>,
}

/// What one request comes to, some time soon.
struct Pending<'a> {
    endpoint: &'a Endpoint,
    started: Instant,
    deadline: Instant,
    progress: Progress,
    result: Receiver<Result<Accepted, ExportError>>,
}

#[derive(Debug)]
struct Job {
    request: Request,
    started: Instant,
    deadline: Instant,
    progress: Progress,
    answer: SyncSender<Result<Accepted, ExportError>>,
}

/// What the worker has before the caller stops waiting for it: so that it is the worker, who knows
/// more, that tells what the deadline passed in.
const GRACE: Duration = Duration::from_millis(200);

const TRIES_OF_THE_NETWORK: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl Otlp {
    /// The way to these endpoints. A signal that has none is accepted and dropped.
    pub fn new(traces: Option<Endpoint>, metrics: Option<Endpoint>) -> Self {
        let lane = |endpoint| Lane { endpoint, worker: Mutex::new(None) };
        Self { traces: traces.map(lane), metrics: metrics.map(lane) }
    }

    fn begin(
        &self,
        request: Request,
        deadline: Instant,
    ) -> Option<Result<Pending<'_>, ExportError>> {
        let lane = match request {
            Request::Traces(_) => &self.traces,
            Request::Metrics(_) => &self.metrics,
        };
        lane.as_ref().map(|lane| lane.begin(request, deadline))
    }
}

impl Lane {
    fn begin(&self, request: Request, deadline: Instant) -> Result<Pending<'_>, ExportError> {
        let started = Instant::now();
        let deadline =
            started.checked_add(self.endpoint.timeout).map_or(deadline, |own| own.min(deadline));
        let progress = Progress::default();
        let (answer, result) = sync_channel(1);
        self.submit(Job { request, started, deadline, progress: progress.clone(), answer })?;
        Ok(Pending { endpoint: &self.endpoint, started, deadline, progress, result })
    }

    fn submit(&self, job: Job) -> Result<(), ExportError> {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if worker.is_none() {
            *worker = Some(start(self.endpoint.clone())?);
        }
        let sent = worker.as_ref().map(|worker| worker.send(job));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => {
                *worker = None;
                Err(ExportError::System { cause: "the export thread has ended".to_owned() })
            }
        }
    }
}

impl Pending<'_> {
    fn wait(self) -> Result<Accepted, ExportError> {
        let end = self.deadline.checked_add(GRACE).unwrap_or(self.deadline);
        let patience = end.saturating_duration_since(Instant::now());
        match self.result.recv_timeout(patience) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => Err(ExportError::Late {
                to: self.endpoint.place(),
                doing: self.progress.get(),
                within: self.deadline.saturating_duration_since(self.started),
                before: self.progress.before(),
            }),
            Err(RecvTimeoutError::Disconnected) => {
                Err(ExportError::System { cause: "the export thread has ended".to_owned() })
            }
        }
    }
}

fn outcome(pending: Option<Result<Pending<'_>, ExportError>>) -> Result<Accepted, ExportError> {
    match pending {
        None => Ok(Accepted::default()),
        Some(pending) => pending?.wait(),
    }
}

impl WayOut for Otlp {
    fn send(&self, request: Request, deadline: Instant) -> Result<Accepted, ExportError> {
        outcome(self.begin(request, deadline))
    }

    fn send_all(
        &self,
        requests: Vec<Request>,
        deadline: Instant,
    ) -> Vec<Result<Accepted, ExportError>> {
        let begun: Vec<_> =
            requests.into_iter().map(|request| self.begin(request, deadline)).collect();
        begun.into_iter().map(outcome).collect()
    }
}

fn start(endpoint: Endpoint) -> Result<UnboundedSender<Job>, ExportError> {
    let (sender, jobs) = unbounded_channel();
    thread::Builder::new().name("gym-otlp".to_owned()).spawn(move || run(endpoint, jobs)).map_err(
        |error| ExportError::System { cause: format!("no thread to export from: {error}") },
    )?;
    Ok(sender)
}

/// The export thread. The runtime is its own from beginning to end: one that is dropped on a
/// caller's runtime panics.
fn run(endpoint: Endpoint, mut jobs: UnboundedReceiver<Job>) {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            runtime.block_on(work(endpoint, jobs));
            // A lookup that still hangs is left behind.
            runtime.shutdown_background();
        }
        Err(error) => {
            let cause = format!("no runtime to export with: {error}");
            while let Some(job) = jobs.blocking_recv() {
                let error = ExportError::System { cause: cause.clone() };
                job.answer.try_send(Err(error)).unwrap_or_default();
            }
        }
    }
}

async fn work(endpoint: Endpoint, mut jobs: UnboundedReceiver<Job>) {
    let mut client = Client::new(endpoint);
    while let Some(job) = jobs.recv().await {
        let result = client.send(&job).await;
        // The caller may have given up.
        job.answer.try_send(result).unwrap_or_default();
    }
}

struct Client {
    endpoint: Endpoint,
    protocol: ProtocolClient,
}

enum ProtocolClient {
    Grpc(GrpcClient),
    Http(HttpClient),
}

impl Client {
    fn new(endpoint: Endpoint) -> Self {
        let protocol = ProtocolClient::new(endpoint.clone());
        Self { endpoint, protocol }
    }

    async fn send(&mut self, job: &Job) -> Result<Accepted, ExportError> {
        let body = self.protocol.encode(&job.request)?;
        self.protocol.door().watch(&job.progress, job.deadline);
        let mut tries = Tries { count: 0 };
        loop {
            let attempt = self.protocol.attempt(&job.request, body.clone(), job.deadline);
            let failed = match tokio::time::timeout_at(job.deadline.into(), attempt).await {
                Ok(Ok(accepted)) => return Ok(accepted),
                Ok(Err(failed)) => failed,
                Err(_) => {
                    // Whatever it was in the middle of would never be answered on it.
                    self.protocol = ProtocolClient::new(self.endpoint.clone());
                    return Err(ExportError::Late {
                        to: self.protocol.door().name(),
                        doing: job.progress.get(),
                        within: job.deadline.saturating_duration_since(job.started),
                        before: job.progress.before(),
                    });
                }
            };
            let pause = tries.pause(&failed, job.deadline);
            let Some(pause) = pause else { return Err(failed.given_up()) };
            job.progress.failed(&failed.error);
            job.progress.set(Doing::Pausing);
            tokio::time::sleep(pause).await;
        }
    }
}

impl ProtocolClient {
    fn new(endpoint: Endpoint) -> Self {
        match endpoint.protocol {
            Protocol::Grpc => Self::Grpc(GrpcClient::new(endpoint)),
            Protocol::HttpProtobuf | Protocol::HttpJson => Self::Http(HttpClient::new(endpoint)),
        }
    }

    fn door(&mut self) -> &mut Door {
        match self {
            Self::Grpc(client) => &mut client.door,
            Self::Http(client) => &mut client.door,
        }
    }

    fn encode(&self, request: &Request) -> Result<Bytes, ExportError> {
        match self {
            // tonic encodes each try itself.
            Self::Grpc(_) => Ok(Bytes::new()),
            Self::Http(client) => client.encode(request),
        }
    }

    async fn attempt(&mut self, request: &Request, body: Bytes, deadline: Instant) -> Outcome {
        match self {
            Self::Grpc(client) => client.attempt(request, deadline).await,
            Self::Http(client) => client.attempt(request, body).await,
        }
    }
}

struct Tries {
    count: u32,
}

impl Tries {
    /// How long to wait before the next try; `None` if there is none, or none before `deadline`.
    fn pause(&mut self, failed: &Failed, deadline: Instant) -> Option<Duration> {
        self.count = self.count.saturating_add(1);
        let backoff = FIRST_PAUSE
            .saturating_mul(1 << self.count.saturating_sub(1).min(8))
            .min(LONGEST_PAUSE)
            .mul_f64(jitter());
        let pause = match failed.again {
            Again::Never => return None,
            Again::AFewTimes if self.count >= TRIES_OF_THE_NETWORK => return None,
            Again::AFewTimes | Again::Asked(None) => backoff,
            Again::Asked(Some(wait)) => wait.max(backoff),
        };
        (pause < deadline.saturating_duration_since(Instant::now())).then_some(pause)
    }
}

/// Between a half and one, so that servers that failed together do not come back together.
fn jitter() -> f64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let random = RandomState::new().build_hasher().finish() >> 32;
    0.5 + 0.5 * (random as f64 / f64::from(u32::MAX))
}
