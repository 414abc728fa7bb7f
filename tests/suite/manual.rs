//! Help, manual pages, completions and README tell the same of both programs' options; what a shell
//! completes is tried in that shell.

use std::collections::BTreeSet;
use std::fs::{self, File};

use rstest::rstest;

use crate::support::toolbox::program;
use crate::support::{Build, Terminal, command, gym_stamp};

const README: &str = include_str!("../../README.md");
const COMMANDS: [&str; 7] = ["run", "watch", "ps", "show", "export", "man", "completions"];

fn gym_startup<'a>(args: impl IntoIterator<Item = &'a str>) -> String {
    let run = command(env!("CARGO_BIN_EXE_gym-startup")).args(args).entry("COLUMNS=80");
    run.run().exits(0).says_nothing().stdout_text()
}

/// The long options of all `lines`.
fn options<'a>(lines: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    let words = lines
        .into_iter()
        .flat_map(|line| line.split(|c: char| !c.is_ascii_lowercase() && c != '-'))
        .filter_map(|word| word.strip_prefix("--"));
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// What a help text has a line for.
fn of_help(help: &str) -> BTreeSet<String> {
    options(help.lines().filter(|line| line.trim_start().starts_with('-')).map(without_words))
}

/// The options of a line, less what is told of them.
fn without_words(line: &str) -> &str {
    line.trim_start().split("  ").next().unwrap()
}

/// What a manual page has a paragraph for.
fn of_page(page: &str) -> BTreeSet<String> {
    options(paragraphs(&plain_page(page)))
}

fn plain_page(page: &str) -> String {
    page.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "").replace("\\fI", "")
}

/// The titles of the paragraphs of a plain page.
fn paragraphs(page: &str) -> impl Iterator<Item = &str> {
    page.lines().zip(page.lines().skip(1)).filter(|(before, _)| *before == ".TP").map(|it| it.1)
}

fn completed_by_bash(script: &str, function: &str, words: &[&str]) -> BTreeSet<String> {
    let call = format!(
        "{script}\nCOMP_WORDS=({} --) COMP_CWORD={}\n{function} {} -- {}\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.join(" "),
        words.len(),
        words[0],
        words[words.len() - 1],
    );
    options(
        command(program("bash", "bash")).args(["-c", &call]).run().exits(0).stdout_text().lines(),
    )
}

fn completed_by_fish(script: &str, line: &str) -> BTreeSet<String> {
    let call = format!("{script}\ncomplete -C '{line} --'");
    let fish = command(program("fish", "fish")).args(["--no-config", "-c", &call]);
    let home = format!("HOME={}", fish.folder().display());
    let completed = fish.entry(home).run().exits(0).stdout_text();
    options(completed.lines().map(|line| line.split('\t').next().unwrap()))
}

/// What stands in the script between `from` and the end of that call.
fn of_zsh(script: &str, from: &str) -> BTreeSet<String> {
    let part = script.split(from).nth(1).unwrap_or_else(|| panic!("no {from} in\n{script}"));
    let specs = part.split("&& ret=0").next().unwrap();
    options(specs.lines().filter_map(|line| Some(line.split_once('[')?.0)))
}

#[rstest]
#[case("")]
#[case("run")]
#[case("watch")]
#[case("ps")]
#[case("show")]
#[case("export")]
#[case("man")]
#[case("completions")]
fn all_that_tell_of_gym_startup_agree(#[case] name: &str) {
    let line = format!("gym-startup {name}");
    let (line, words): (_, Vec<_>) = (line.trim_end(), line.split_whitespace().collect());
    let help = |option| gym_startup(words[1..].iter().copied().chain([option]));
    let known = of_help(&help("--help"));
    assert!(known.contains("help"), "{known:?}");
    assert_eq!(of_help(&help("-h")), known);
    assert_eq!(of_page(&gym_startup(["man", &words.join("-")])), known);
    let script = |shell| gym_startup(["completions", shell]);
    assert_eq!(completed_by_bash(&script("bash"), "_gym__startup", &words), known);
    assert_eq!(completed_by_fish(&script("fish"), line), known);
    let from =
        if name.is_empty() { "_gym-startup() {".into() } else { format!("({name})\n_arguments") };
    assert_eq!(of_zsh(&script("zsh"), &from), known);
}

#[test]
fn the_readme_has_what_gym_startup_says_of_itself() {
    for name in [""].into_iter().chain(COMMANDS) {
        let line = [name, "-h"].join(" ");
        let help = gym_startup(line.split_whitespace());
        let block = format!("```\n$ gym-startup {}\n{help}```\n", line.trim_start());
        assert!(README.contains(&block), "README.md has to have\n{block}");
    }
}

#[test]
fn there_is_a_command_for_each_that_is_tested_here() {
    let help = gym_startup(["-h"]);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed: Vec<_> =
        listed.map_while(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    assert_eq!(listed, [&COMMANDS[..], &["help"]].concat());
}

/// `-v, --verbose`, `--venv DIR`: as each of `lines` has it, whatever it puts around it.
fn spelled<'a>(lines: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    let plain = |line: &str| line.replace(['`', '<', '>'], "").trim().to_owned();
    lines.into_iter().map(plain).collect()
}

/// As zsh's `_arguments` takes it: `'(-v --verbose)'{-v,--verbose}'[…]'`, `'--venv=[…]:DIR:…'`.
fn spelled_by_zsh(line: &str) -> String {
    let (names, rest) = line.split_once('[').unwrap();
    let names = names.split_once('{').map_or(names, |(_, names)| names);
    let names = names.replace(['\'', '}', '='], "").replace(',', ", ");
    let value = rest.split_once("]:").and_then(|(_, value)| value.split(':').next());
    [names.trim(), value.unwrap_or("")].join(" ").trim().to_owned()
}

/// As fish's `complete` takes it: `-s v -l verbose`, and `-x` where there is a value.
fn spelled_by_fish(line: &str) -> String {
    let words: Vec<_> = line.split(" -d ").next().unwrap().split(' ').collect();
    let after = |option: &str, dashes: &str| {
        let at = words.iter().position(|word| *word == option)?;
        Some(format!("{dashes}{}", words[at + 1]))
    };
    let names: Vec<_> = after("-s", "-").into_iter().chain(after("-l", "--")).collect();
    names.join(", ") + if words.contains(&"-x") { " DIR" } else { "" }
}

#[test]
fn all_that_tell_of_gym_stamp_agree() {
    let help = gym_stamp(Build::Freestanding).arg("--help").run().exits(0).stdout_text();
    let lines = help.lines().filter(|line| line.trim_start().starts_with('-')).map(without_words);
    let known = spelled(lines);
    for one in ["-v, --verbose", "--venv DIR"] {
        assert!(known.contains(one), "{known:?}");
    }
    let page = plain_page(&gym_startup(["man", "gym-stamp"]));
    assert_eq!(spelled(paragraphs(&page)), known);
    let table = README.lines().filter(|line| line.starts_with("| `-"));
    assert_eq!(spelled(table.map(|line| line.split('|').nth(1).unwrap())), known);
    let script = |shell| gym_startup(["completions", shell, "gym-stamp"]);
    let zsh = script("zsh");
    let specs = zsh
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("'-") || (line.starts_with("'(") && line.contains('{')));
    assert_eq!(specs.map(spelled_by_zsh).collect::<BTreeSet<_>>(), known);
    let fish = script("fish");
    let specs = fish.lines().filter(|line| line.starts_with("complete ") && line.contains(" -l "));
    assert_eq!(specs.map(spelled_by_fish).collect::<BTreeSet<_>>(), known);
    let bash = script("bash");
    let words = bash.split("compgen -W '").nth(1).unwrap().split('\'').next().unwrap();
    let of_known =
        known.iter().flat_map(|it| it.split([' ', ','])).filter(|it| it.starts_with('-'));
    assert_eq!(words.split(' ').collect::<BTreeSet<_>>(), of_known.collect());
    // What the shells make of them.
    let long = options(known.iter().map(String::as_str));
    assert_eq!(completed_by_bash(&bash, "_gym_stamp", &["gym-stamp"]), long);
    assert_eq!(completed_by_fish(&fish, "gym-stamp"), long);
}

#[test]
fn every_page_is_sound() {
    let commands = COMMANDS.map(|name| format!("gym-startup-{name}"));
    for name in ["gym-stamp", "gym-startup"].into_iter().chain(commands.iter().map(String::as_str))
    {
        let page = gym_startup(["man", name]);
        let groff = command(program("groff", "groff-base"));
        let groff = groff.args(["-K", "utf8", "-man", "-ww", "-z"]);
        groff.stdin(&page).run().exits(0).says_nothing();
        assert!(page.contains(".SH \"SEE ALSO\"") && page.contains(".SH SYNOPSIS"), "{page}");
    }
}

#[test]
fn a_page_or_a_shell_that_is_not_there_is_named() {
    let program = env!("CARGO_BIN_EXE_gym-startup");
    let ended = command(program).args(["man", "gym-startup-fly"]).run().exits(2);
    let words = "there is no page gym-startup-fly; there are: gym-startup, gym-startup-run,";
    assert!(ended.stderr_text().contains(words), "{ended}");
    let args = ["completions", "powershell", "gym-stamp"];
    let ended = command(program).args(args).run().exits(2);
    assert!(ended.stderr_text().contains("for powershell: bash, zsh, fish"), "{ended}");
}

#[rstest]
#[case(&["--help"])]
#[case(&["--version"])]
#[case(&["help", "run"])]
#[case(&["watch", "-h"])]
#[case(&["man", "run"])]
#[case(&["completions", "bash"])]
fn what_cannot_be_printed_is_an_error(#[case] args: &[&str]) {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let run = command(env!("CARGO_BIN_EXE_gym-startup")).args(args.iter().copied()).fd(1, full);
    run.run()
        .exits(1)
        .says("gym-startup: standard output: No space left on device (os error 28)\n");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let gone = crate::support::without_reader();
    let man = command(env!("CARGO_BIN_EXE_gym-startup")).args(["man", "gym-startup-run"]);
    man.fd(1, gone).run().exits(0).says_nothing();
}

/// What a shell needs before it completes anything.
struct Shell {
    program: &'static str,
    args: &'static [&'static str],
    first: &'static str,
}

const BASH: Shell = Shell { program: "bash", args: &["--norc", "--noprofile", "-i"], first: "" };
const ZSH: Shell =
    Shell { program: "zsh", args: &["-f", "-i"], first: "autoload -U compinit; compinit -D -u; " };
const FISH: Shell = Shell { program: "fish", args: &["--no-config", "-i"], first: "" };

/// What the words of the line `typed` are once the shell has completed it.
fn completes(shell: &Shell, of: &str, typed: &str) -> String {
    let run = command(program(shell.program, shell.program)).args(shell.args.iter().copied());
    let run = run.file("bin/gym-tool", 0o755, "#!/bin/sh\n").file("a-folder/file", 0o644, "");
    let script = gym_startup(["completions", shell.program, of]);
    fs::write(run.folder().join("script"), script).unwrap();
    let folder = run.folder().display().to_string();
    let path = format!("PATH={folder}/bin:/usr/bin:/bin");
    let run = run.environ([path, format!("HOME={folder}"), "TERM=xterm".into()]);
    let mut terminal = Terminal::new();
    let running = run.on_terminal(&terminal).spawn();
    // The line editor takes everything in turn; at its end the line becomes what printf prints.
    terminal.write(format!("{}source ./script; printf '%s.\\n' started\r", shell.first));
    let mut seen = String::new();
    let mut until = |terminal: &mut Terminal, end: &str| {
        running.wait_until(|| {
            seen.push_str(&String::from_utf8_lossy(&terminal.read()));
            seen.contains(end)
        });
        std::mem::take(&mut seen)
    };
    until(&mut terminal, "started.");
    terminal.write(format!("{typed}\t\x01printf '<%s>' \x05; printf '%s.\\n' done\r"));
    let seen = until(&mut terminal, "done.");
    terminal.write("exit\r");
    running.wait();
    let printed = seen.rsplit("<gym-st").next().unwrap();
    let words = printed.split("done.").next().unwrap();
    format!("<gym-st{words}")
}

#[rstest]
fn shells_complete_options_and_then_the_command(#[values(BASH, ZSH, FISH)] shell: Shell) {
    for (typed, words) in [
        ("gym-stamp --ke", "<gym-stamp><--keep>"),
        ("gym-stamp --spawn -v --ve", "<gym-stamp><--spawn><-v><--ve"),
        ("gym-stamp --venv a-f", "<gym-stamp><--venv><a-folder"),
        ("gym-stamp --venv=a-f", "<gym-stamp><--venv=a-folder"),
        ("gym-stamp gym-to", "<gym-stamp><gym-tool>"),
        ("gym-stamp --venv a-folder gym-to", "<gym-stamp><--venv><a-folder><gym-tool>"),
        ("gym-stamp -- gym-to", "<gym-stamp><--><gym-tool>"),
        ("gym-stamp gym-tool --ke", "<gym-stamp><gym-tool><--ke>"),
        ("gym-stamp gym-tool a-f", "<gym-stamp><gym-tool><a-folder"),
    ] {
        let completed = completes(&shell, "gym-stamp", typed);
        assert!(completed.starts_with(words), "{}: {typed} became {completed}", shell.program);
    }
    for (typed, words) in [
        ("gym-startup sho", "<gym-startup><show>"),
        ("gym-startup run --exi", "<gym-startup><run><--exit-when-ready>"),
        ("gym-startup run --log-dir a-f", "<gym-startup><run><--log-dir><a-folder"),
    ] {
        let completed = completes(&shell, "gym-startup", typed);
        assert!(completed.starts_with(words), "{}: {typed} became {completed}", shell.program);
    }
}
