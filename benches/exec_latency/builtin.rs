//! What bash's own clock costs a bash that runs anyway.

use std::process::Command;
use std::time::Duration;

use gym_stamp::contract::SETUP_DONE_NS;

use crate::measure::Times;
use crate::toolbox::{program, succeed};

const BATCHES: usize = 200;
/// A call is too short for the clock's microseconds.
const CALLS: u32 = 500;

/// How long one call takes, by batches of calls within one bash.
pub fn clock() -> Times {
    let script = format!(
        r#"now() {{ printf -v "$1" %s "${{EPOCHREALTIME/[.,]/}}"; }}
        for ((batch = 0; batch < {BATCHES}; batch++)); do
            now before
            for ((i = 0; i < {CALLS}; i++)); do export {SETUP_DONE_NS}=${{EPOCHREALTIME/[.,]/}}000; done
            now between
            for ((i = 0; i < {CALLS}; i++)); do :; done
            now after
            echo $((between - before)) $((after - between))
        done"#
    );
    let printed = succeed(Command::new(program("bash", "bash")).args(["-c", &script]));
    let per_call = |line: &str| {
        let (calls, empty_loop) = line.split_once(' ').unwrap();
        let us = calls.parse::<u64>().unwrap().saturating_sub(empty_loop.parse().unwrap());
        Duration::from_micros(us) / CALLS
    };
    Times::new(printed.lines().map(per_call).collect())
}
