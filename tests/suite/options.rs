//! The command line.

use macro_rules_attribute::apply;

use crate::support::{Build, every_build, gym_stamp};

#[apply(every_build)]
fn no_command_is_an_error(build: Build) {
    gym_stamp(build).run().fails(125, &["COMMAND"]);
}
