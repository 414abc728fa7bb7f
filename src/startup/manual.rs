//! `gym-startup man` and `gym-startup completions`, for both programs: from what each of them
//! parses its options with.

mod shim;

use std::io;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::args::{self, Args, Program};
use crate::say::say;
use crate::status::WRONG_USAGE;
use crate::stdout::print_text;

const SOURCE: &str = concat!("gym-stamp ", env!("CARGO_PKG_VERSION"));

pub fn man(args: &args::Man) -> ExitCode {
    let commands = commands();
    let pages: Vec<_> = commands.iter().map(page_name).collect();
    let is_meant = |command: &&clap::Command| {
        let name = page_name(command);
        name == args.page || name.strip_prefix("gym-startup-") == Some(&args.page)
    };
    match commands.iter().find(is_meant) {
        Some(command) => {
            // A Vec takes everything.
            let page = page(command, &pages).unwrap_or_default();
            print_text(&String::from_utf8_lossy(&page))
        }
        None => {
            let pages = pages.join(", ");
            say(format_args!("there is no page {}; there are: {pages}", args.page.escape_debug()));
            ExitCode::from(WRONG_USAGE)
        }
    }
}

pub fn completions(args: &args::Completions) -> ExitCode {
    let script = match args.program {
        Program::GymStartup => Ok(own_completions(args.shell)),
        Program::GymStamp => shim::completions(args.shell),
    };
    match script {
        Ok(script) => print_text(&script),
        Err(words) => {
            say(words);
            ExitCode::from(WRONG_USAGE)
        }
    }
}

fn own_completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "gym-startup", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    // In bash no subcommand of a program with a hyphen in its name is found otherwise:
    // https://github.com/clap-rs/clap/issues/6421
    script.replace("gym__subcmd__startup", "gym__startup")
}

/// Everything that has a page.
fn commands() -> Vec<clap::Command> {
    let mut startup = Args::command().disable_help_subcommand(true);
    startup.build();
    let each = startup.get_subcommands().cloned().collect::<Vec<_>>();
    [startup].into_iter().chain(each).chain([shim::command()]).collect()
}

fn page_name(command: &clap::Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &clap::Command, all: &[&str]) -> io::Result<Vec<u8>> {
    let name = page_name(command);
    let mut page = Vec::new();
    let man = Man::new(command.clone()).title(name.to_uppercase()).source(SOURCE);
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let more = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    sections(&more).to_writer(&mut page)?;
    let others = all.iter().filter(|other| **other != name).map(|other| format!("{other}(1)"));
    let others = others.collect::<Vec<_>>().join(", ");
    Roff::new().control("SH", ["SEE ALSO"]).text([roman(others)]).to_writer(&mut page)?;
    Ok(page)
}

/// What stands below the options in a help text: each unindented line that ends with a colon has
/// its section, and what is beneath it stays as it is.
fn sections(text: &str) -> Roff {
    let mut roff = Roff::new();
    for line in text.lines() {
        match line.strip_suffix(':').filter(|_| !line.starts_with(' ')) {
            Some(title) => {
                roff.control("SH", [title.to_uppercase().as_str()]);
            }
            None if line.starts_with(' ') => {
                roff.control("nf", []);
                roff.text([roman(line)]);
                roff.control("fi", []);
            }
            None => {
                roff.control("PP", []);
                roff.text([roman(line)]);
            }
        }
    }
    roff
}
