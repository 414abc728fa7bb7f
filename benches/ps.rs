//! How long `gym-startup ps` takes among thousands of processes.
//!
//! ```text
//! cargo bench --bench ps -- [--rounds N]
//! ```
//!
//! The bar is judged at p50, and missed with an exit status of 1: what a busy machine does to single
//! rounds is in the maximum.

use std::env;
use std::error::Error;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

use gym_stamp::contract::SPAWN_NS;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Half of them have the stamp of whoever launched them.
const PROCESSES: usize = 5_000;
const ROUNDS: usize = 20;
/// Enough to see that everything runs, as `cargo test --all-targets` wants to.
const SMOKE: (usize, usize) = (20, 2);
/// In ms.
const MOST: f64 = 300.0;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        [] => bench(SMOKE.0, SMOKE.1),
        ["--bench"] => bench(PROCESSES, ROUNDS),
        ["--rounds", rounds] | ["--rounds", rounds, "--bench"] => match rounds.parse() {
            Ok(rounds @ 1..) => bench(PROCESSES, rounds),
            _ => Err(format!("--rounds '{rounds}': a number above 0 is needed").into()),
        },
        _ => Err("the only option is --rounds N".into()),
    };
    result.unwrap_or_else(|error| {
        eprintln!("ps: {error}");
        ExitCode::from(2)
    })
}

fn bench(processes: usize, rounds: usize) -> Result<ExitCode> {
    let stamped = Crowd::of(processes / 2, true)?;
    let _others = Crowd::of(processes / 2, false)?;
    let row = format!("\"pid\": {},", stamped.0.id());
    let mut took = Vec::new();
    for _ in 0..rounds {
        let mut ps = Command::new(env!("CARGO_BIN_EXE_gym-startup"));
        let began = Instant::now();
        let output = ps.args(["ps", "--json"]).stdin(Stdio::null()).output()?;
        took.push(began.elapsed().as_secs_f64() * 1e3);
        if !String::from_utf8_lossy(&output.stdout).contains(&row) {
            return Err(format!("ps ended with {}, and does not know them", output.status).into());
        }
    }
    took.sort_by(f64::total_cmp);
    let rank = |percent: usize| (took.len() * percent).div_ceil(100).saturating_sub(1);
    let at = |percent: usize| took.get(rank(percent)).copied().unwrap_or(f64::NAN);
    let (p50, p90, max) = (at(50), at(90), at(100));
    println!("gym-startup ps among {processes} processes, {rounds} rounds, in ms:");
    println!("p50 {p50:.1}, p90 {p90:.1}, max {max:.1}; at most {MOST} at p50 is the bar");
    let fails = processes == PROCESSES && p50 > MOST;
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A shell and what it has launched, all in one process group, which ends with this.
struct Crowd(Child);

impl Crowd {
    fn of(count: usize, stamped: bool) -> Result<Self> {
        let line =
            format!("for ((i = 0; i < {count}; i++)); do sleep 1000 & done; echo here; wait");
        let mut bash = Command::new("bash");
        bash.args(["-c", &line]).process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
        bash.env_remove(SPAWN_NS).envs(stamped.then_some((SPAWN_NS, "1")));
        let mut crowd = Self(bash.spawn()?);
        let mut here = [0; 5];
        crowd.0.stdout.as_mut().ok_or("no pipe")?.read_exact(&mut here)?;
        Ok(crowd)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        // They may have ended by themselves.
        if let Ok(group) = i32::try_from(self.0.id()) {
            killpg(Pid::from_raw(group), Signal::SIGKILL).unwrap_or_default();
        }
        drop(self.0.wait());
    }
}
