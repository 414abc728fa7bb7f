//! The small language that the tests are written in.

pub mod records;
pub mod toolbox;
