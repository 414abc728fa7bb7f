//! Timing launches in turn.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::{Duration, Instant};

use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, posix_spawn};
use nix::sys::wait::{WaitStatus, waitpid};

use crate::launch::Launch;

/// What is first of its kind takes longer: these are not kept.
const WARM_UP_ROUNDS: usize = 5;

/// How long something took, time after time.
pub struct Times {
    ascending: Vec<Duration>,
}

impl Times {
    pub fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self { ascending: times }
    }

    /// The time that `percent` of all times do not exceed, in µs.
    pub fn percentile_us(&self, percent: usize) -> f64 {
        let rank = (self.ascending.len() * percent).div_ceil(100);
        self.ascending[rank.saturating_sub(1)].as_nanos() as f64 / 1e3
    }
}

/// Times every launch once a round: what the machine is busy with meanwhile slows all of them.
pub fn take_turns(launches: &[Launch], rounds: usize) -> Vec<Times> {
    let mut times = vec![Vec::with_capacity(rounds); launches.len()];
    for round in 0..WARM_UP_ROUNDS + rounds {
        for index in shuffled(launches.len(), round) {
            let took = time(&launches[index]);
            if round >= WARM_UP_ROUNDS {
                times[index].push(took);
            }
        }
    }
    times.into_iter().map(Times::new).collect()
}

/// Another order every round: a launch that follows one of an interpreter finds colder caches.
fn shuffled(count: usize, round: usize) -> Vec<usize> {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let mut order: Vec<_> = (0..count).collect();
    order.sort_by_cached_key(|index| hasher.hash_one((round, index)));
    order
}

/// From before the process is spawned until its end is known. The spawn is one that copies no
/// page tables, so that the noise is small.
fn time(launch: &Launch) -> Duration {
    let actions = PosixSpawnFileActions::init().unwrap();
    let attr = PosixSpawnAttr::init().unwrap();
    let program = launch.words[0].as_c_str();
    let start = Instant::now();
    let pid = posix_spawn(program, &actions, &attr, &launch.words, &launch.environ).unwrap();
    let status = waitpid(pid, None).unwrap();
    let took = start.elapsed();
    assert_eq!(status, WaitStatus::Exited(pid, 0), "{}", launch.name);
    took
}
