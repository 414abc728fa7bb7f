//! What programs are called: by their names, and those that run during setup by their plain
//! subcommands too; never by their arguments, which may be secrets.

/// Programs with subcommands, and the words that are known to be such. What is not here is no
/// subcommand, whatever it looks like.
const SUBCOMMANDS: &[(&str, &[&str])] = &[
    ("apt", &["update", "install", "upgrade", "full-upgrade", "remove"]),
    ("apt-get", &["update", "install", "upgrade", "dist-upgrade", "remove"]),
    ("aws", &["s3", "cp", "sync"]),
    ("cargo", &["build", "install", "fetch", "check", "run", "test"]),
    ("conda", &["create", "install", "env", "update", "run", "activate"]),
    ("docker", &["build", "pull", "run", "compose", "up"]),
    (
        "git",
        &[
            "clone",
            "fetch",
            "pull",
            "checkout",
            "submodule",
            "update",
            "init",
            "reset",
            "lfs",
            "remote-https",
            "index-pack",
            "rev-parse",
        ],
    ),
    ("go", &["build", "install", "get", "mod", "download", "run"]),
    ("hf", &["download", "upload"]),
    ("huggingface-cli", &["download", "upload"]),
    ("mamba", &["create", "install", "env", "update", "run"]),
    ("micromamba", &["create", "install", "env", "update", "run"]),
    ("npm", &["ci", "install", "run", "build"]),
    ("pdm", &["install", "sync", "lock", "update", "run", "venv", "create"]),
    ("pip", &["install", "download", "wheel", "uninstall", "check", "cache", "freeze", "list"]),
    ("pipenv", &["install", "sync", "lock", "run"]),
    ("pipx", &["install", "run"]),
    ("pixi", &["install", "run", "add"]),
    ("pnpm", &["install", "run", "build"]),
    ("poetry", &["install", "lock", "update", "run", "add", "sync", "env", "use"]),
    (
        "uv",
        &[
            "venv",
            "sync",
            "lock",
            "run",
            "add",
            "remove",
            "build",
            "export",
            "tree",
            "tool",
            "python",
            "pip",
            "install",
            "compile",
            "uninstall",
            "cache",
            "init",
            "pin",
            "check",
            "freeze",
            "list",
        ],
    ),
    ("yarn", &["install", "run", "build"]),
];

/// How many of them one command has at most.
const MOST_SUBCOMMANDS: usize = 2;

/// Modules that are run as programs, by `python -m`.
const MODULES: &[&str] = &[
    "build",
    "compileall",
    "ensurepip",
    "pip",
    "pipx",
    "poetry",
    "uv",
    "venv",
    "virtualenv",
    "conda",
];

const SHELLS: &[&str] = &["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish"];

/// Programs that, as shells do, only hold others together.
const GLUE: &[&str] = &["busybox", "tee"];

/// The name of a process with this command line, if it is worth one.
pub fn name(command_line: &[String]) -> Option<String> {
    let (program, arguments) = command_line.split_first()?;
    let program = base_name(program);
    if program.is_empty() || SHELLS.contains(&program) || GLUE.contains(&program) {
        return None;
    }
    if is_python(program) {
        return Some(python(program, arguments));
    }
    Some(with_subcommands(program, program, arguments))
}

/// The program of a process with this command line; of a Python or a shell, what it runs.
pub fn program(command_line: &[String]) -> Option<String> {
    let (program, arguments) = command_line.split_first()?;
    let program = base_name(program);
    let mut arguments = arguments.iter().map(String::as_str);
    let is_shell = SHELLS.contains(&program);
    while (is_python(program) || is_shell)
        && let Some(argument) = arguments.next()
    {
        match argument {
            "-" => break,
            // Few have any, and some of them a value.
            long if long.starts_with("--") => break,
            short if short.starts_with('-') => {
                // One may stand behind others: -um is -u -m.
                match short.chars().last() {
                    _ if short.contains('c') => break,
                    Some('m') if !is_shell => {
                        return Some(format!("{program} -m {}", base_name(arguments.next()?)));
                    }
                    Some('X' | 'W') if !is_shell => drop(arguments.next()),
                    Some('o' | 'O') if is_shell => drop(arguments.next()),
                    _ => {}
                }
            }
            script => return Some(base_name(script).to_owned()),
        }
    }
    Some(program.to_owned()).filter(|program| !program.is_empty())
}

/// A Python is called by what it runs, where that is a program of its own: `python -m venv`, `pip
/// install`.
fn python(program: &str, arguments: &[String]) -> String {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "-m" => {
                let Some(module) = arguments.next().filter(|it| MODULES.contains(&it.as_str()))
                else {
                    break;
                };
                let shown = format!("{program} -m {module}");
                return with_subcommands(module, &shown, arguments.as_slice());
            }
            "-I" | "-E" | "-s" | "-S" | "-u" | "-B" | "-O" | "-OO" | "-P" | "-Im" => {}
            script if !script.starts_with('-') => {
                let script = base_name(script);
                if SUBCOMMANDS.iter().any(|(known, _)| *known == unversioned(script)) {
                    return with_subcommands(script, script, arguments.as_slice());
                }
                break;
            }
            _ => break,
        }
    }
    program.to_owned()
}

fn with_subcommands(program: &str, shown: &str, arguments: &[String]) -> String {
    let known = SUBCOMMANDS.iter().find(|(known, _)| *known == unversioned(program));
    let known = known.map_or(&[][..], |(_, words)| words);
    let words = arguments.iter().map(String::as_str);
    let words = words.take_while(|word| known.contains(word)).take(MOST_SUBCOMMANDS);
    words.fold(shown.to_owned(), |name, word| format!("{name} {word}"))
}

/// Whoever writes over its command line puts all of it into the first word, arguments and all.
fn base_name(path: &str) -> &str {
    let path = path.split_ascii_whitespace().next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default().trim_start_matches('-')
}

fn is_python(program: &str) -> bool {
    matches!(unversioned(program), "python" | "pypy")
}

/// `pip` of `pip3.12`.
fn unversioned(program: &str) -> &str {
    program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
}

#[cfg(test)]
mod tests {
    use super::{name, program};

    #[test]
    fn a_server_is_called_by_its_program_and_a_pythons_by_its_script() {
        for (command_line, expected) in [
            ("/opt/bin/vllm serve secret", "vllm"),
            (".venv/bin/python .venv/bin/uvicorn app:app --key secret", "uvicorn"),
            ("python3.12 -u -X dev -m uvicorn app:app", "python3.12 -m uvicorn"),
            ("python -W ignore servers/app.py --token secret", "app.py"),
            ("python3 -c secret", "python3"),
            ("python3 -Buc secret", "python3"),
            ("python3 -um app", "python3 -m app"),
            ("python3 -", "python3"),
            ("python3", "python3"),
            ("-bash", "bash"),
            ("/bin/sh -ec secret", "sh"),
            ("/bin/sh -eu ./launch.sh secret", "launch.sh"),
            ("bash -euo pipefail ./launch.sh secret", "launch.sh"),
            ("nginx: master process secret", "nginx:"),
            ("", ""),
        ] {
            let words: Vec<_> = command_line.split(' ').map(str::to_owned).collect();
            assert_eq!(program(&words).unwrap_or_default(), expected, "{command_line}");
        }
        assert_eq!(program(&[]), None);
    }

    #[test]
    fn programs_are_told_by_name_and_subcommand_and_nothing_else() {
        for (command_line, expected) in [
            ("uv pip install -r requirements.txt", "uv pip install"),
            ("/opt/uv/bin/uv venv .venv", "uv venv"),
            ("uv --token secret pip install", "uv"),
            ("uv run secret", "uv run"),
            ("git clone https://user:secret@host/x", "git clone"),
            ("git -C secret clone x", "git"),
            ("python3 -m venv .venv", "python3 -m venv"),
            ("python3.12 -I -m pip install secret", "python3.12 -m pip install"),
            (".venv/bin/python .venv/bin/pip3.12 install x", "pip3.12 install"),
            ("python3 secret.py install", "python3"),
            ("python3 -c secret", "python3"),
            ("python3 -m secret install", "python3"),
            ("pip install install install", "pip install install"),
            ("curl -H secret", "curl"),
            ("/usr/bin/flock lock uv sync", "flock"),
            ("-bash", ""),
            ("/bin/sh -c secret", ""),
            ("tee -a LOG", ""),
        ] {
            let words: Vec<_> = command_line.split(' ').map(str::to_owned).collect();
            assert_eq!(name(&words).unwrap_or_default(), expected, "{command_line}");
        }
        assert_eq!(name(&[]), None);
        assert_eq!(name(&[String::new()]), None);
        let overwritten = ["worker --token secret/of/mine".to_owned()];
        assert_eq!(name(&overwritten).as_deref(), Some("worker"));
    }
}
