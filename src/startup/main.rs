//! Launches servers, watches them from outside, and shows where their startup time went.
#![forbid(unsafe_code)]

fn main() {}
