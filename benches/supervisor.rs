//! How near `gym-startup run` comes to what a server itself knows of its startup, and what it adds
//! to it.
//!
//! ```text
//! cargo bench --bench supervisor -- [--rounds N]
//! ```
//!
//! The server is this program once more, with [`SERVER`] as its first argument. From
//! [`LEAST_TO_JUDGE`] rounds on the bars are judged, at p90: the exit status is 1 if one is missed.
//! What a busy machine does to single rounds is in the maximum.

use std::env;
use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use gym_stamp::contract::{SETUP_DONE_NS, SPAWN_NS};
use gym_stamp::telemetry::{Request, json};
use gym_stamp::timeline::{Clock, SystemClock};

/// `SERVER PORT PAUSE_MS RECORD`: listens on the port after a pause, and writes down what it knows
/// before it first answers.
const SERVER: &str = "--server";

const DEFAULT: usize = 50;
/// Enough to see that everything runs, as `cargo test --all-targets` wants to.
const SMOKE: usize = 2;
const LEAST_TO_JUDGE: usize = 20;

/// Bars, in ms.
const MOST_LATE: f64 = 100.0;
const MOST_APART: f64 = 20.0;

/// What a launch does before its stamp, in seconds, as `sleep` takes it.
const SETUP_S: &str = "0.2";
/// The time that the server needs which is launched with and without us.
const PAUSE_MS: u64 = 500;
/// No round takes longer.
const LIMIT: Duration = Duration::from_secs(30);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        [SERVER, port, pause_ms, record] => serve(port, pause_ms, Path::new(record)),
        [] => bench(SMOKE),
        ["--bench"] => bench(DEFAULT),
        ["--rounds", rounds] | ["--rounds", rounds, "--bench"] => match rounds.parse() {
            Ok(rounds @ 1..) => bench(rounds),
            _ => Err(format!("--rounds '{rounds}': a number above 0 is needed").into()),
        },
        _ => Err("the only option is --rounds N".into()),
    };
    result.unwrap_or_else(|error| {
        eprintln!("supervisor: {error}");
        ExitCode::from(2)
    })
}

fn serve(port: &str, pause_ms: &str, record: &Path) -> Result<ExitCode> {
    let stamp = |name| env::var(name).unwrap_or_else(|_| "0".to_owned());
    thread::sleep(Duration::from_millis(pause_ms.parse()?));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.parse()?))?;
    let listens_ns = SystemClock.now_ns();
    for (number, stream) in listener.incoming().enumerate() {
        let mut stream = stream?;
        if stream.read(&mut [0; 4096])? > 0 {
            if number == 0 {
                let (spawn, setup_done) = (stamp(SPAWN_NS), stamp(SETUP_DONE_NS));
                let answers_ns = SystemClock.now_ns();
                fs::write(record, format!("{spawn} {setup_done} {listens_ns} {answers_ns}"))?;
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn bench(rounds: usize) -> Result<ExitCode> {
    let folder = tempfile::tempdir()?;
    let mut seen = [Vec::new(), Vec::new(), Vec::new()];
    let mut took = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        // At another moment of the pause between two looks every time.
        let pause_ms = 100 + u64::try_from(round)? * 7 % 50;
        for (all, ms) in seen.iter_mut().zip(look_at_one(folder.path(), pause_ms)?) {
            all.push(ms);
        }
        took[0].push(bare(folder.path())?);
        took[1].push(supervised(folder.path())?);
    }
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!(
        "{rounds} rounds, load average {} at the end. In ms:\n",
        load.split(' ').next().unwrap_or_default()
    );
    println!("{:<58} {:>8} {:>8} {:>8}", "", "p50", "p90", "max");
    let [late, setup, start] = seen.map(Times::new);
    late.print("ready is seen after the server began to listen, by");
    setup.print("venv_setup and the server's own are apart by");
    start.print("server_start and the server's own are apart by");
    let [bare, supervised] = took.map(Times::new);
    bare.print("bash -c, to the first answer and killed");
    supervised.print("gym-startup run --exit-when-ready of the same");
    println!(
        "\nAt p50 gym-startup takes {:.3} times as long as bash -c, for a server of {PAUSE_MS} ms.",
        supervised.at(50) / bare.at(50)
    );
    if rounds < LEAST_TO_JUDGE {
        println!("Too few rounds to judge: {LEAST_TO_JUDGE} are needed.");
        return Ok(ExitCode::SUCCESS);
    }
    let bars = [
        ("readiness is seen in time", &late, MOST_LATE),
        ("venv_setup agrees", &setup, MOST_APART),
        ("server_start agrees", &start, MOST_APART),
    ];
    for (what, times, most) in &bars {
        let verdict = if times.at(90) <= *most { "holds" } else { "FAILS" };
        println!("{verdict}: {what}, {:.1} ms at p90; at most {most} is the bar", times.at(90));
    }
    let all_hold = bars.iter().all(|(_, times, most)| times.at(90) <= *most);
    Ok(if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How late a server was seen to be ready, and how far its two stages are from what it knew itself,
/// in ms.
fn look_at_one(folder: &Path, pause_ms: u64) -> Result<[f64; 3]> {
    let (record, out) = (folder.join("record"), folder.join("out.jsonl"));
    let port = free_port()?;
    let stamp = env!("CARGO_BIN_EXE_gym-stamp");
    let server = server(port, pause_ms, &record)?;
    let launch = format!("sleep {SETUP_S}; exec {} {server}", quoted(Path::new(stamp)));
    let mut command = gym_startup(port);
    succeed(command.arg("--out").arg(&out).args(["--", "bash", "-c", &launch]))?;

    let own = fs::read_to_string(record)?;
    let own: Vec<u64> = own.split(' ').map(str::parse).collect::<std::result::Result<_, _>>()?;
    let &[spawn, setup_done, listens, answers] = own.as_slice() else {
        return Err("the server wrote down something else".into());
    };
    let spans = spans(&out)?;
    let span = |name: &str| {
        let span = spans.iter().find(|span| span.0 == name);
        span.ok_or_else(|| format!("no {name} was recorded"))
    };
    let apart = |span: &Span, own: u64| (ms(span.1, span.2) - ms(0, own)).abs();
    Ok([
        ms(listens, span("gym.startup.server")?.2),
        apart(span("gym.startup.server.venv_setup")?, setup_done - spawn),
        apart(span("gym.startup.server.server_start")?, answers - setup_done),
    ])
}

/// From the launch by bash to the first answer, and the end after that.
fn bare(folder: &Path) -> Result<f64> {
    let port = free_port()?;
    let launch = format!("exec {}", server(port, PAUSE_MS, &folder.join("record"))?);
    let began = Instant::now();
    let mut command = Command::new("bash");
    let mut server = Killed(command.args(["-c", &launch]).stdin(Stdio::null()).spawn()?);
    while !is_answered(port) {
        if began.elapsed() > LIMIT {
            return Err("the server does not answer".into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    server.end();
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

fn supervised(folder: &Path) -> Result<f64> {
    let port = free_port()?;
    let launch = format!("exec {}", server(port, PAUSE_MS, &folder.join("record"))?);
    let mut command = gym_startup(port);
    let began = Instant::now();
    succeed(command.args(["--", "bash", "-c", &launch]))?;
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

fn gym_startup(port: u16) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gym-startup"));
    command.args(["run", "--exit-when-ready", "--quiet", "--name", "server"]);
    command.args(["--ready", &format!("http://127.0.0.1:{port}/")]);
    command.args(["--timeout", &LIMIT.as_secs().to_string()]);
    // No telemetry of whoever runs this.
    command.env_clear().envs(env::var_os("PATH").map(|path| ("PATH", path)));
    command
}

/// The server's command line, for a shell.
fn server(port: u16, pause_ms: u64, record: &Path) -> Result<String> {
    let program = env::current_exe()?;
    Ok(format!("{} {SERVER} {port} {pause_ms} {}", quoted(&program), quoted(record)))
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn is_answered(port: u16) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n")?;
        stream.read(&mut [0; 64])
    };
    ask().is_ok_and(|count: usize| count > 0)
}

/// Runs `command`, which ends by its own timeout, and shows what it said if it fails.
fn succeed(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("gym-startup ended with {}:\n{said}", output.status).into())
}

/// Name, start and end.
type Span = (String, u64, u64);

fn spans(record: &Path) -> Result<Vec<Span>> {
    let mut spans = Vec::new();
    for line in fs::read(record)?.split(|&byte| byte == b'\n') {
        for request in json::read_line(line)? {
            let Request::Traces(request) = request else { continue };
            let scopes = request.resource_spans.into_iter().flat_map(|it| it.scope_spans);
            let all = scopes.flat_map(|it| it.spans);
            spans.extend(all.map(|it| (it.name, it.start_time_unix_nano, it.end_time_unix_nano)));
        }
    }
    Ok(spans)
}

fn ms(from_ns: u64, to_ns: u64) -> f64 {
    (i128::from(to_ns) - i128::from(from_ns)) as f64 / 1e6
}

/// A process that does not outlive this.
struct Killed(Child);

impl Killed {
    fn end(&mut self) {
        // It may have ended by itself.
        self.0.kill().unwrap_or_default();
        drop(self.0.wait());
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.end();
    }
}

/// In ms.
struct Times {
    ascending: Vec<f64>,
}

impl Times {
    fn new(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        Self { ascending: times }
    }

    /// The time that `percent` of all times do not exceed.
    fn at(&self, percent: usize) -> f64 {
        let rank = (self.ascending.len() * percent).div_ceil(100);
        self.ascending.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }

    fn print(&self, what: &str) {
        println!("{what:<58} {:>8.1} {:>8.1} {:>8.1}", self.at(50), self.at(90), self.at(100));
    }
}
