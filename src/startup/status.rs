//! The statuses to exit with.
#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "most are of run and watch"))]

pub const FAILED: u8 = 1;
/// Of a command line, or a fleet file, that cannot be meant.
pub const WRONG_USAGE: u8 = 2;
/// As timeout(1) has it.
pub const TIMED_OUT: u8 = 124;
/// What a shell exits with where a program cannot be run, and where it is not there.
pub const NOT_EXECUTABLE: u8 = 126;
pub const NOT_FOUND: u8 = 127;
