//! What a name, a command, a variable may be. Each `Err` says why not, and what may.

use std::ffi::OsString;

use gym_stamp::contract;

/// A name stands at the start of every line, and may become a file's.
pub fn name(name: &str) -> Result<(), String> {
    if name.trim().is_empty() {
        return Err("empty; every server has a name".to_owned());
    }
    if name.contains(char::is_control) || name.contains('/') || name == "." || name == ".." {
        let what = "it may become the name of a log file: no /, no control characters";
        return Err(format!("{name:?} cannot be a name; {what}"));
    }
    Ok(())
}

pub fn command(argv: &[OsString]) -> Result<(), String> {
    if argv.first().is_none_or(|program| program.is_empty()) {
        return Err("empty; it is a line for bash, or a list of a program and its arguments".into());
    }
    if argv.iter().any(|word| word.as_encoded_bytes().contains(&0)) {
        return Err("a NUL character cannot be passed to a program".to_owned());
    }
    Ok(())
}

pub fn variable(name: &str, value: &str) -> Result<(), String> {
    if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
        return Err(
            "no variable: a name is not empty and has no =, and neither it nor the value has a NUL"
                .into(),
        );
    }
    if [contract::SPAWN_NS, contract::SETUP_DONE_NS, contract::SERVE_NS, contract::TRACEPARENT]
        .contains(&name)
    {
        return Err("a stamp, which gym-startup and the server set themselves".to_owned());
    }
    Ok(())
}

pub fn status(number: i64) -> Result<u16, String> {
    match u16::try_from(number) {
        Ok(status @ 100..=599) => Ok(status),
        _ => Err(format!("{number} is not an HTTP status; they are 100 to 599")),
    }
}
