//! What `gym-stamp` parses its options with, as manuals and shells take it.

#[path = "../../shim/options.rs"]
#[allow(dead_code, reason = "the rest of it is for parsing")]
mod options;

use clap::{Arg, ArgAction, Command};
use clap_complete::Shell;
use options::{ABOUT, EXAMPLE, NOTES, OPTIONS, Spec, TABLE, USAGE};

const BASH: &str = include_str!("gym-stamp.bash");
const ZSH: &str = include_str!("gym-stamp.zsh");
const FISH: &str = include_str!("gym-stamp.fish");

/// What its notes end with.
const STATUS: &str = "Exit status:";

/// `gym-stamp` as clap has it, for its manual page.
pub fn command() -> Command {
    let notes = one_line(NOTES);
    let (notes, status) = notes.split_once(STATUS).unwrap_or((&notes, ""));
    let about = format!("{}\n\n{notes}", one_line(ABOUT));
    Command::new("gym-stamp")
        .about("stamp the time into a command's environment, and become it")
        .long_about(about)
        .override_usage(USAGE.join("\n"))
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(TABLE.iter().map(|(option, help)| arg(option, help)))
        .after_long_help(format!("{STATUS}\n{}\nExample:\n  {}", status.trim(), EXAMPLE.1))
}

fn arg(option: &Spec, help: &[&str]) -> Arg {
    let name = option.long.trim_start_matches('-');
    let arg = Arg::new(name).long(name).help(help.join(" "));
    let arg = match option.short {
        Some(short) => arg.short(char::from(short)),
        None => arg,
    };
    match option.value {
        Some(value) => arg.value_name(value),
        None => arg.action(ArgAction::SetTrue),
    }
}

fn one_line(text: &str) -> String {
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

/// What `shell` completes a call of `gym-stamp` with: its options up to the command, and from there
/// on what it completes for that. clap's own scripts go on with the options.
///
/// # Errors
///
/// The shell is none of those that this is written for.
pub fn completions(shell: Shell) -> Result<String, String> {
    let lines = |line: fn(&Spec, &[&str]) -> String| {
        TABLE.iter().map(|(option, help)| line(option, help)).collect::<Vec<_>>().join("\n")
    };
    let valued = OPTIONS.iter().filter(|option| option.value.is_some());
    let valued: Vec<_> = valued.flat_map(words).collect();
    Ok(match shell {
        Shell::Bash => {
            let words: Vec<_> = OPTIONS.iter().flat_map(words).collect();
            BASH.replace("@OPTIONS@", &words.join(" ")).replace("@VALUED@", &valued.join("|"))
        }
        Shell::Zsh => ZSH.replace("@OPTIONS@", &lines(zsh_line)),
        Shell::Fish => {
            FISH.replace("@OPTIONS@", &lines(fish_line)).replace("@VALUED@", &valued.join(" "))
        }
        other => return Err(format!("gym-stamp has no completions for {other}: bash, zsh, fish")),
    })
}

/// `-v` and `--verbose`.
fn words(option: &Spec) -> Vec<String> {
    let short = option.short.map(|short| format!("-{}", char::from(short)));
    short.into_iter().chain([option.long.to_owned()]).collect()
}

fn zsh_line(option: &Spec, help: &[&str]) -> String {
    let words = words(option);
    let names = match words.as_slice() {
        [only] => only.clone(),
        all => format!("({})'{{{}}}'", all.join(" "), all.join(",")),
    };
    let (equals, value) = match option.value {
        Some(value) => ("=", format!(":{value}:_files -/")),
        None => ("", String::new()),
    };
    format!("        '{names}{equals}[{}]{value}' \\", in_quotes(help).replace(':', "\\:"))
}

fn fish_line(option: &Spec, help: &[&str]) -> String {
    let long = option.long.trim_start_matches('-');
    let short = option.short.map(|short| format!(" -s {}", char::from(short))).unwrap_or_default();
    let value = option.value.map_or("", |_| " -x -a '(__fish_complete_directories)'");
    format!(
        "complete -c gym-stamp -n __gym_stamp_has_no_command{short} -l {long}{value} -d '{}'",
        in_quotes(help)
    )
}

/// As both shells take it between single quotes.
fn in_quotes(help: &[&str]) -> String {
    help.join(" ").replace('\'', "'\\''")
}
