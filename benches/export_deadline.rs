//! How much later than its deadline `gym-startup export` ends, where a collector accepts and never
//! answers, and where connecting never completes.
//!
//! The tests allow two seconds, for the busiest machine; this says what it really is.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

const ROUNDS: usize = 20;
const DEADLINES_MS: [u64; 2] = [100, 1000];

const TRACE: &str = concat!(
    r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"0af7651916cd43dd8448eb211c80319c","#,
    r#""spanId":"b7ad6b7169203331","name":"gym.startup","startTimeUnixNano":"1","endTimeUnixNano":"2"}]}]}]}"#,
    "\n"
);

/// Keeps what a collector is made of.
struct Deaf {
    name: &'static str,
    address: SocketAddr,
    _listener: Box<dyn std::any::Any>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let collectors = [silent()?, full()?];
    println!(
        "How much later than its deadline `gym-startup export` ends, in ms, in {ROUNDS} runs each."
    );
    println!("{:<28} {:<14} {:>9} {:>7} {:>7}", "", "", "deadline", "p50", "max");
    for collector in &collectors {
        for protocol in ["grpc", "http/protobuf"] {
            for deadline_ms in DEADLINES_MS {
                let mut late = Vec::with_capacity(ROUNDS);
                for _ in 0..ROUNDS {
                    late.push(export(collector.address, protocol, deadline_ms)?);
                }
                late.sort_by(f64::total_cmp);
                let (p50, max) = (late.get(ROUNDS / 2), late.last());
                println!(
                    "{:<28} {:<14} {:>9} {:>7.1} {:>7.1}",
                    collector.name,
                    protocol,
                    deadline_ms,
                    p50.unwrap_or(&f64::NAN),
                    max.unwrap_or(&f64::NAN),
                );
            }
        }
    }
    Ok(())
}

/// Runs one export, and returns by how many ms it overran.
fn export(
    to: SocketAddr,
    protocol: &str,
    deadline_ms: u64,
) -> Result<f64, Box<dyn std::error::Error>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gym-startup"));
    command.args(["export", "-", "--protocol", protocol, "--endpoint"]).arg(format!("http://{to}"));
    command.arg("--timeout").arg(deadline_ms.to_string());
    command.stdin(Stdio::piped()).stderr(Stdio::null());
    let began = Instant::now();
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(TRACE.as_bytes())?;
    }
    let status = child.wait()?;
    let took = began.elapsed();
    if status.code() != Some(1) {
        return Err(format!("export ended with {status}, where it cannot succeed").into());
    }
    Ok(took.as_secs_f64() * 1e3 - deadline_ms as f64)
}

fn silent() -> std::io::Result<Deaf> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let accepting = listener.try_clone()?;
    thread::spawn(move || accepting.incoming().flatten().for_each(std::mem::forget));
    Ok(Deaf { name: "accepts, never answers", address, _listener: Box::new(listener) })
}

fn full() -> std::io::Result<Deaf> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    socket.listen(0)?;
    let address = socket
        .local_addr()?
        .as_socket()
        .ok_or_else(|| std::io::Error::other("a listener without an address"))?;
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        waiting.push(stream);
    }
    Ok(Deaf { name: "connecting never completes", address, _listener: Box::new((socket, waiting)) })
}
