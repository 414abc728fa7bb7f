//! The page for a browser: one file that needs nothing else.

use super::startup::Startup;

/// The page of `startups`. `notes` are sentences about all of them.
pub fn page(_startups: &[Startup], _notes: &[String]) -> String {
    String::new()
}
