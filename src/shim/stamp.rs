//! Stamping the environment.

use crate::Process;
use crate::args::{Plan, Stamp};
use crate::contract::{self, Decimal, Ignored, MainStart};
use crate::errno::{Errno, Result};
use crate::line::note;
use crate::sys;
use crate::zstr::{Full, Undo, Vector, ZStr};

/// What became of the stamp. None of it is an error: the server starts all the same.
pub enum Outcome<'a> {
    Stamped(Undo<'a>),
    /// A valid stamp was there, and was to be left.
    Kept,
    Failed(Errno),
}

impl Stamp {
    pub fn name(self) -> &'static str {
        match self {
            Self::SetupDone => contract::SETUP_DONE_NS,
            Self::Spawn => contract::SPAWN_NS,
        }
    }
}

/// Stamps this moment into the environment, or leaves a valid stamp that is there and to be kept.
pub fn stamp<'a>(plan: &Plan, process: &mut Process<'a>) -> Outcome<'a> {
    let name = plan.stamp.name();
    // A supervisor's own time of the spawn wins.
    let keep = plan.keep || plan.stamp == Stamp::Spawn;
    if keep && process.env.value(name).is_some_and(|value| contract::is_stamp(value.bytes())) {
        return Outcome::Kept;
    }
    match write(name, process) {
        Ok(undo) => Outcome::Stamped(undo),
        Err(errno) => Outcome::Failed(errno),
    }
}

fn write<'a>(name: &str, process: &mut Process<'a>) -> Result<Undo<'a>> {
    let now = Decimal::new(sys::realtime_ns()?);
    let entry = process.arena.concat(&[name.as_bytes(), b"=", now.as_bytes()])?;
    process.env.set(name, entry).map_err(|Full| Errno::E2BIG)
}

/// Says what became of the stamp, and what a server will make of it.
#[cold]
#[inline(never)]
pub fn explain(stamp: Stamp, outcome: &Outcome, env: &Vector) {
    let name = stamp.name();
    let value = env.value(name).map_or(b"".as_slice(), ZStr::bytes);
    match outcome {
        Outcome::Stamped(_) => note("stamped $=$", name.as_bytes(), value),
        Outcome::Kept => note("kept $=$", name.as_bytes(), value),
        Outcome::Failed(errno) => {
            note("$ is not stamped: $", name.as_bytes(), errno.words().unwrap_or_default());
        }
    }

    let read = |name| env.value(name).and_then(|value| contract::read_ns(value.bytes()));
    let Ok(now) = sys::realtime_ns() else { return };
    let (spawn, setup_done) = (read(contract::SPAWN_NS), read(contract::SETUP_DONE_NS));
    let why = match contract::main_start(spawn, setup_done, now) {
        MainStart::SetupSeen { .. } => return,
        MainStart::SpawnSeen { why, .. } | MainStart::Nothing { why } => why,
    };
    let (name, why) = match why {
        Ignored::NoSpawn => (contract::SPAWN_NS, "is not set, or no time: --spawn would stamp it"),
        Ignored::SpawnInFuture => (contract::SPAWN_NS, "lies in the future"),
        _ if stamp == Stamp::Spawn => return,
        Ignored::NoSetupDone => ("it", "is no time"),
        Ignored::OutOfOrder => ("it", "lies before the spawn"),
        Ignored::SetupDoneInFuture => ("it", "lies in the future"),
    };
    note("servers will ignore the stamp: $ $", name.as_bytes(), why.as_bytes());
}
