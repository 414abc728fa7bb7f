use nix::time::{ClockId, clock_gettime};

/// `CLOCK_REALTIME` in ns since the epoch.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_REALTIME).unwrap();
    u64::try_from(now.tv_sec()).unwrap() * 1_000_000_000 + u64::try_from(now.tv_nsec()).unwrap()
}
