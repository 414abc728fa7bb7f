//! What `gym-stamp` adds to the launch of a command, beside what its alternatives add.
//!
//! ```text
//! cargo bench --bench exec_latency -- [--rounds N]
//! ```
//!
//! From 1,000 rounds on it judges as well: the exit status is 1 if `gym-stamp` misses a bar.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a bench says what is missing by panicking"
)]

#[cfg(target_os = "linux")]
#[allow(dead_code, unused_imports, unused_macros, reason = "the tests' own words")]
#[path = "../../tests/suite/support/builds.rs"]
mod builds;
#[cfg(target_os = "linux")]
mod builtin;
#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
#[allow(dead_code, reason = "shared with the tests, which use all of it")]
#[path = "../../tests/suite/support/limit.rs"]
mod limit;
#[cfg(target_os = "linux")]
mod measure;
#[cfg(target_os = "linux")]
mod options;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
#[allow(dead_code, reason = "shared with the tests, which use all of it")]
#[path = "../../tests/suite/support/toolbox.rs"]
mod toolbox;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use std::process::ExitCode;

    let rounds = match options::rounds(std::env::args().skip(1)) {
        Ok(rounds) => rounds,
        Err(why) => {
            eprintln!("exec_latency: {why}");
            return ExitCode::from(2);
        }
    };
    let launches = launch::all();
    for launch in &launches {
        launch.check();
    }
    report::print_conditions(rounds);
    let times = measure::take_turns(&launches, rounds);
    let table = report::Table::new(&launches, times, builtin::clock());
    print!("{table}");
    if rounds < options::LEAST_TO_JUDGE {
        println!("Too few rounds to judge: {} are needed.", options::LEAST_TO_JUDGE);
        return ExitCode::SUCCESS;
    }
    if table.judge() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    eprintln!("exec_latency: the programs to compare with need Linux");
    std::process::ExitCode::FAILURE
}
