//! The small language that the tests are written in.

pub mod toolbox;
