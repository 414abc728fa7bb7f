//! The small language that the tests are written in.

#[cfg(feature = "cli")]
pub mod certificates;
#[cfg(feature = "cli")]
pub mod collector;
#[cfg(feature = "cli")]
pub mod export;
pub mod records;
#[cfg(feature = "cli")]
pub mod rotel;
pub mod toolbox;
