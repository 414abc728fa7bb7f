//! `--venv`: the environment that a venv's own `bin/activate` exports, and scripts that run under
//! their own venv's Python, wherever it has gone. The venvs are made by CPython's `venv`,
//! `virtualenv` and `uv`, and their scripts by `pip`, `uv`, `installer` and setuptools.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use gym_stamp::contract::SETUP_DONE_NS;
use macro_rules_attribute::apply;
use nix::errno::Errno;
use nix::libc;

use crate::support::toolbox::{made_once, program, python_venv, succeed};
use crate::support::{
    Build, Bytes, Ended, Run, Seen, command, every_build, gym_stamp, native_builds,
};

// The environment

#[apply(every_build)]
fn the_environment_is_what_activate_exports(build: Build) {
    for (maker, place) in grid(build, &[Maker::Cpython, Maker::Virtualenv, Maker::Uv]) {
        if (maker, place) == (Maker::Cpython, Place::Expanding) {
            // Many releases' activate has it between double quotes, and expands it.
            continue;
        }
        let venv = maker.venv(place).join("home").join(place.name());
        expect_as_activate(build, maker, &venv, &[]);
    }
}

#[apply(every_build)]
fn the_environment_is_what_activate_exports_from_any_other(build: Build) {
    for maker in [Maker::Cpython, Maker::Virtualenv, Maker::Uv] {
        let venv = maker.venv(Place::Spaced).join("home").join(Place::Spaced.name());
        for entries in [
            &["PYTHONHOME=/nowhere"][..],
            &["VIRTUAL_ENV=/another", "VIRTUAL_ENV_PROMPT=another"],
            &["PS1=$ ", "PKG_CONFIG_PATH=/p", "TCL_LIBRARY=/t", "TK_LIBRARY=/t"],
        ] {
            expect_as_activate(build, maker, &venv, entries);
        }
    }
}

/// What activating changes, in the two ways of doing it, is the same but for [`Maker::own_ways`].
#[track_caller]
fn expect_as_activate(build: Build, maker: Maker, venv: &Path, entries: &[&str]) {
    let run = |run: Run| {
        let path = ["PATH=/usr/local/bin:/usr/bin:/bin"];
        entries.iter().fold(run.environ(path), |run, &entry| run.entry(entry)).run().seen()
    };
    let bash = command(program("bash", "bash"));
    let probe = bash.probe_path();
    let bash = |lines: &str| {
        let bash = bash.clone().args(["-c", lines, "bash"]);
        run(bash.arg(venv.join("bin/activate")).arg(&probe))
    };
    let mut activated = changes(&bash("exec \"$2\""), &bash(". \"$1\"; exec \"$2\""));
    let shim = gym_stamp(build).options(["--venv"]).options([venv]).probe();
    let mut ours = changes(&run(shim.without_gym_stamp()), &run(shim));

    ours.remove(SETUP_DONE_NS).expect("a stamp");
    let own: BTreeSet<&str> = activated.keys().map(|name| &**name).collect();
    let own: BTreeSet<&str> = &own - &ours.keys().map(|name| &**name).collect();
    let allowed = maker.own_ways().iter().copied().collect();
    assert!(own.is_subset(&allowed), "{maker:?} {}: {own:?}", venv.display());
    activated.retain(|name, _| ours.contains_key(name));
    if maker == Maker::Cpython {
        // Before 3.13 it exports the parentheses of PS1 as well.
        if let Some(Some(prompt)) = activated.get_mut("VIRTUAL_ENV_PROMPT") {
            let bare = prompt.strip_prefix("(").and_then(|it| it.strip_suffix(") "));
            *prompt = bare.unwrap_or(prompt).to_owned();
        }
    }
    assert_eq!(ours, activated, "{maker:?} {} {entries:?}", venv.display());
}

/// The variables that `after` has another value of than `before`, and none of those it lost.
fn changes(before: &Seen, after: &Seen) -> BTreeMap<String, Option<String>> {
    let variables = |seen: &Seen| -> BTreeMap<String, String> {
        let split = |entry: &Vec<u8>| {
            let at = entry.iter().position(|&byte| byte == b'=').unwrap();
            (entry[..at].escape_ascii().to_string(), entry[at + 1..].escape_ascii().to_string())
        };
        seen.environ.iter().map(split).collect()
    };
    let (before, after) = (variables(before), variables(after));
    let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let changed = names.into_iter().filter(|&name| before.get(name) != after.get(name));
    changed.map(|name| (name.clone(), after.get(name).cloned())).collect()
}

#[apply(every_build)]
fn a_venv_goes_by_the_name_it_was_called_by(build: Build) {
    for (maker, place) in grid(build, &[Maker::Cpython, Maker::Virtualenv, Maker::Uv]) {
        for state in STATES {
            let venv = maker.venv(place).join(state).join(place.name());
            let print = "import sys; print(sys.prefix)";
            let run = gym_stamp(build).environ(["PATH=/usr/bin:/bin"]);
            let run = run.options(["--venv"]).options([&*venv]).args(["python", "-c", print]);
            let ended = run.run().exits(0).says_nothing().prints(line(&venv));
            assert!(!ended.folder().join("pwned").exists(), "{ended}");
            let run = gym_stamp(build).options(["--venv"]).options([&*venv]).probe();
            let seen = run.run().seen();
            expect_values(&seen, "VIRTUAL_ENV", &[venv.as_os_str().as_bytes()]);
            expect_values(&seen, "VIRTUAL_ENV_PROMPT", &[place.name().as_bytes()]);
        }
    }
}

#[apply(every_build)]
fn no_shell_reads_the_path_of_a_venv(build: Build) {
    let run = with_venv(gym_stamp(build), "x';touch pwned;' y");
    let run = run.options(["--venv", "x';touch pwned;' y"]).args(["python", "-c", "1"]).run();
    let ended = run.exits(0).says_nothing();
    assert!(!ended.folder().join("pwned").exists(), "{ended}");
}

#[apply(every_build)]
fn a_prompt_is_what_its_maker_was_told(build: Build) {
    let nasty = "a'b\"c\\d\\n \u{e9}\u{1f980}";
    let broken = "one\ntwo\tthree\r\u{1b}[1m\u{200d}\u{a0}";
    for (maker, told, expected) in [
        (Maker::Cpython, "plain", "plain"),
        (Maker::Cpython, "it's", "it's"),
        (Maker::Cpython, "\"quoted\"", "\"quoted\""),
        (Maker::Cpython, nasty, nasty),
        (Maker::Cpython, broken, broken),
        (Maker::Virtualenv, "plain", "plain"),
        (Maker::Virtualenv, "it's", "it's"),
        (Maker::Virtualenv, "\"quoted\"", "\"quoted\""),
        (Maker::Virtualenv, nasty, nasty),
        // It writes a blank where a line would end.
        (Maker::Virtualenv, "one\ntwo\rthree", "one two three"),
        (Maker::Uv, "plain", "plain"),
        (Maker::Uv, "it's", "it's"),
        (Maker::Uv, "'quoted'", "'quoted'"),
        (Maker::Uv, nasty, nasty),
        // It writes a line that ends there.
        (Maker::Uv, "one\ntwo", "one"),
    ] {
        let folder = made_once("prompt", &(maker.recipe(), told), |folder| {
            succeed(maker.make(&folder.join("venv")).args(["--prompt", told]));
        });
        let venv = folder.join("venv");
        let seen = gym_stamp(build).options(["--venv"]).options([&*venv]).probe().run().seen();
        expect_values(&seen, "VIRTUAL_ENV_PROMPT", &[expected.as_bytes()]);
        if told == "plain" {
            expect_as_activate(build, maker, &venv, &[]);
        }
    }
}

#[apply(every_build)]
fn a_prompt_is_the_folders_name_unless_the_config_has_another(build: Build) {
    for (config, expected) in [
        ("", "v"),
        ("prompt =\n", "v"),
        ("prompt = ''\n", ""),
        ("  prompt=x y  \r\n", "x y"),
        ("prompt-x = a\nprompts = b\nprompt = c\nprompt = d\n", "c"),
        ("home = /prompt = x", "v"),
        ("prompt = 'a\\x41\\u00e9\\U0001f980\\\\'", "aA\u{e9}\u{1f980}\\"),
        // No escapes of Python's: whatever wrote this, it was no `repr`.
        ("prompt = '\\x4'", "v"),
        ("prompt = '\\ud800'", "v"),
        ("prompt = '\\U00110000'", "v"),
        ("prompt = 'a\\'", "v"),
        ("prompt = '", "'"),
    ] {
        let run = with_venv(gym_stamp(build), "v").file("v/pyvenv.cfg", 0o644, config);
        let seen = run.options(["--venv", "v"]).probe().run().seen();
        assert_eq!(
            seen.values("VIRTUAL_ENV_PROMPT"),
            [expected.as_bytes()],
            "{config:?}, not {expected:?}"
        );
    }
}

#[apply(every_build)]
fn a_relative_dir_is_made_absolute_by_its_words_alone(build: Build) {
    for (cwd, dir, expected) in [
        ("", ".venv", "/.venv"),
        ("", "./.venv", "/.venv"),
        ("", ".//././.venv//", "/.venv"),
        ("sub", "../.venv", "/sub/../.venv"),
        ("sub", "./../sub/../.venv/", "/sub/../sub/../.venv"),
        (".venv", ".", "/.venv"),
        (".venv", "./", "/.venv"),
        (".venv/bin", "..", "/.venv/bin/.."),
        // getcwd knows no links, so a link to the current folder is not seen ...
        ("link", "../.venv", "/sub/../.venv"),
        // ... but one on the way to DIR is left in.
        ("", "linked", "/linked"),
        ("", "up/.venv", "/up/.venv"),
    ] {
        let run = with_venv(gym_stamp(build), ".venv");
        let folder = run.folder().to_owned();
        fs::create_dir(folder.join("sub")).unwrap();
        symlink("sub", folder.join("link")).unwrap();
        symlink(".venv", folder.join("linked")).unwrap();
        symlink("..", folder.join("sub/up")).unwrap();
        symlink(".", folder.join("up")).unwrap();
        let expected = format!("{}{expected}", folder.display());
        let run = run.cwd(folder.join(cwd)).options(["--venv", dir]).probe();
        expect_activated(&run.run().seen(), &expected, "/usr/local/bin:/usr/bin:/bin");
    }
}

#[apply(every_build)]
fn a_relative_dir_under_the_root(build: Build) {
    let run = with_venv(gym_stamp(build), "v");
    let expected = format!("{}/v", run.folder().display());
    let dir = expected.trim_start_matches('/').to_owned();
    for dir in [&*dir, &format!("./{dir}/"), &expected, &format!("{expected}//")] {
        let seen = run.clone().cwd("/").options(["--venv", dir]).probe().run().seen();
        expect_activated(&seen, &expected, "/usr/local/bin:/usr/bin:/bin");
    }
}

#[apply(every_build)]
fn path_holds_the_venv_once_and_no_empty_entry(build: Build) {
    for (path, behind) in [
        (None, "/usr/local/bin:/usr/bin:/bin"),
        (Some(""), ""),
        (Some("/a"), "/a"),
        (Some(":"), ":"),
        (Some("/a::/b:"), "/a::/b:"),
    ] {
        let run = with_venv(gym_stamp(build), "v").empty_environ();
        let venv = format!("{}/v", run.folder().display());
        let run = path.iter().fold(run, |run, path| run.var("PATH", *path));
        expect_activated(&run.options(["--venv", "v"]).probe().run().seen(), &venv, behind);
    }
}

// qemu has an order of its own, and drops duplicates.
#[apply(native_builds)]
fn what_else_is_in_the_environment_stays_where_it_is(build: Build) {
    let run = with_venv(gym_stamp(build), "v").environ([
        "A=1",
        "PYTHONHOME=/x",
        "PATH=/a",
        "VIRTUAL_ENV_PROMPT=old",
        "PYTHONHOME",
        "PATH=/b",
        "PYTHONHOME=",
        "VIRTUAL_ENV=/old",
        "PYTHONHOMES=1",
        "PS1=$ ",
        "VIRTUAL_ENV=/older",
        "PATHS=1",
        "malformed",
    ]);
    let venv = format!("{}/v", run.folder().display());
    let ended = run.options(["--venv", "v"]).probe().run();
    let plain = [
        "A=1".to_owned(),
        format!("PATH={venv}/bin:/a"),
        "VIRTUAL_ENV_PROMPT=v".to_owned(),
        "PYTHONHOME".to_owned(),
        format!("VIRTUAL_ENV={venv}"),
        "PYTHONHOMES=1".to_owned(),
        "PS1=$ ".to_owned(),
        "PATHS=1".to_owned(),
        "malformed".to_owned(),
    ];
    ended.seen().expect_stamped(&ended, &plain.map(String::into_bytes));
}

#[apply(every_build)]
fn pythonhome_is_gone_even_if_empty(build: Build) {
    for value in ["", "/x"] {
        let run = with_venv(gym_stamp(build), "v").var("PYTHONHOME", value);
        let seen = run.options(["--venv", "v"]).probe().run().seen();
        expect_values(&seen, "PYTHONHOME", &[]);
    }
    let venv = Maker::Cpython.venv(Place::Plain).join("home/plain");
    let run = gym_stamp(build).var("PYTHONHOME", "/x").options(["--venv"]).options([&*venv]);
    run.args(["python", "-c", "print(1)"]).run().exits(0).prints("1\n").says_nothing();
}

/// One of each of the variables that activating sets.
#[track_caller]
fn expect_activated(seen: &Seen, venv: &str, behind: &str) {
    let colon = if behind.is_empty() { "" } else { ":" };
    expect_values(seen, "VIRTUAL_ENV", &[venv.as_bytes()]);
    expect_values(seen, "PATH", &[format!("{venv}/bin{colon}{behind}").as_bytes()]);
    let name = venv.rsplit('/').next().unwrap();
    expect_values(seen, "VIRTUAL_ENV_PROMPT", &[name.as_bytes()]);
}

#[track_caller]
fn expect_values(seen: &Seen, name: &str, values: &[&[u8]]) {
    let text = |values: &[&[u8]]| -> Vec<_> {
        values.iter().map(|it| it.escape_ascii().to_string()).collect()
    };
    assert_eq!(text(&seen.values(name)), text(values), "{name}");
}

// What is no venv

#[apply(every_build)]
fn what_is_no_venv_is_an_error(build: Build) {
    let refused = |run: Run, dir: &str, words: &str| {
        let words = words.replace("TMP", run.folder().to_str().unwrap());
        let ended = run.options(["--venv", dir]).args(["touch", "ran"]).run();
        assert!(!ended.folder().join("ran").exists(), "the command was run\n{ended}");
        ended.exits(125).prints("").says(format!("gym-stamp: --venv: {words}\n"));
    };
    let no_venv = "is no venv, it has no pyvenv.cfg: make one with python3 -m venv";
    let run = || with_venv(gym_stamp(build), "v");
    refused(run(), "gone", &format!("'TMP/gone' {no_venv}"));
    refused(run(), "/", &format!("'/' {no_venv}"));
    refused(run().file("file", 0o755, ""), "file", &format!("'TMP/file' {no_venv}"));
    refused(run(), "v/bin", &format!("'TMP/v/bin' {no_venv}"));
    let without = run();
    fs::remove_file(without.folder().join("v/pyvenv.cfg")).unwrap();
    refused(without, "v", &format!("'TMP/v' {no_venv}"));
    refused(
        run().file("v/pyvenv.cfg", 0o600, "").user(65534),
        "v",
        "cannot read the pyvenv.cfg of 'TMP/v': permission denied",
    );
    let long = "x".repeat(300);
    refused(
        run(),
        &long,
        &format!("cannot read the pyvenv.cfg of 'TMP/{long}': file name too long"),
    );
    let folder = run();
    fs::remove_file(folder.folder().join("v/pyvenv.cfg")).unwrap();
    fs::create_dir(folder.folder().join("v/pyvenv.cfg")).unwrap();
    refused(folder, "v", "cannot read the pyvenv.cfg of 'TMP/v': error 21");

    let without = run();
    let python = without.folder().join("v/bin/python");
    fs::remove_file(&python).unwrap();
    refused(
        without,
        "v",
        "cannot execute 'TMP/v/bin/python': no such file or directory: make the venv anew",
    );
    let dangling = run();
    let python = dangling.folder().join("v/bin/python");
    fs::remove_file(&python).unwrap();
    symlink("/opt/python3.99/bin/python3", &python).unwrap();
    refused(
        dangling,
        "v",
        "cannot execute 'TMP/v/bin/python': no such file or directory: make the venv anew",
    );
    refused(
        run().file("v/bin/python", 0o644, ""),
        "v",
        "cannot execute 'TMP/v/bin/python': permission denied: make the venv anew",
    );
    refused(
        with_venv(run(), "a:b"),
        "a:b",
        "'TMP/a:b' has a colon, which ends an entry of PATH: rename it",
    );
    refused(
        with_venv(run(), "a:b/v"),
        "a:b/v",
        "'TMP/a:b/v' has a colon, which ends an entry of PATH: rename it",
    );
}

#[apply(every_build)]
fn a_current_directory_that_is_gone(build: Build) {
    let run = with_venv(gym_stamp(build), "v");
    let venv = run.folder().join("v");
    let gone = run.folder().join("gone");
    fs::create_dir(&gone).unwrap();
    let run = run.cwd(&gone).before_exec({
        let gone = gone.clone();
        move || fs::remove_dir(&gone)
    });
    let words = "gym-stamp: --venv: the current directory has no path: no such file or directory: \
        give an absolute DIR\n";
    let again = run.clone().options(["--venv", "../v"]).args(["touch", "ran"]);
    again.run().exits(125).prints("").says(words);
    fs::create_dir(&gone).unwrap();
    let seen = run.options(["--venv"]).options([&*venv]).probe().run().seen();
    expect_activated(&seen, venv.to_str().unwrap(), "/usr/local/bin:/usr/bin:/bin");
}

// Scripts

#[apply(every_build)]
fn scripts_run_under_the_python_of_their_own_venv(build: Build) {
    for (maker, place) in grid(build, &Maker::ALL) {
        if maker.breaks_its_scripts_in(place) {
            continue;
        }
        for state in STATES {
            let venv = maker.venv(place).join(state).join(place.name());
            tells_of(gym_stamp(build), &venv, "tell");
        }
    }
}

/// The tool runs with all its arguments, under the Python of `venv`.
#[track_caller]
fn tells_of(run: Run, venv: &Path, tool: impl Bytes) -> Ended {
    let args = ["a b", "", "*", "--", "-E", "'\"$HOME\\", "\u{e9}\n"];
    let run = run.options(["--venv"]).options([venv]);
    let ended = run.arg(tool).args(args).run().exits(0).says_nothing();
    let told = Told::read(&ended);
    // A script that is reached through a link may still name its Python by the folder's own name.
    let same = fs::canonicalize(&told.prefix).unwrap() == fs::canonicalize(venv).unwrap();
    assert!(same, "prefix {}\n{ended}", told.prefix);
    assert_eq!(told.args, args, "{ended}");
    assert!(!ended.folder().join("pwned").exists(), "{ended}");
    ended
}

#[apply(native_builds)] // qemu makes other system calls than those asked for
fn a_copied_venv_is_told_from_its_original_where_the_kernel_knows_fewer_system_calls(build: Build) {
    let venv = Maker::Cpython.venv(Place::Plain).join("copied/plain");
    for number in [libc::SYS_statx, libc::SYS_faccessat2] {
        for errno in [Errno::ENOSYS, Errno::EPERM] {
            tells_of(gym_stamp(build).without_system_call(number, errno), &venv, "tell");
        }
    }
}

#[apply(every_build)]
fn a_script_that_is_at_home_is_executed_by_the_kernel(build: Build) {
    for (maker, place) in grid(build, &Maker::ALL) {
        let venv = maker.venv(place).join("home").join(place.name());
        let script = venv.join("bin/tell");
        let outcome = |ended: Ended| (ended.status, ended.stdout_text(), ended.stderr_text());
        let without = outcome(command(&script).args(["x", "y z"]).run());
        assert_eq!(without.0 != 0, maker.breaks_its_scripts_in(place), "{without:?}");
        for tool in [script.as_os_str().as_bytes(), b"tell"] {
            let run = gym_stamp(build).options(["--venv"]).options([&*venv]);
            let run = run.arg(tool).args(["x", "y z"]);
            assert_eq!(outcome(run.clone().run()), without, "{maker:?} {place:?}");
            // What is told is the same where Python is called in the kernel's place.
            let told = run.options(["--verbose"]).run();
            let running = format!("gym-stamp: running '{}'", script.display());
            let heard = told.stderr_text();
            let last = heard.lines().rfind(|line| line.starts_with("gym-stamp: running "));
            assert_eq!(last, Some(&*running), "{told}");
        }
    }
}

#[apply(every_build)]
fn arguments_to_a_scripts_python_are_kept(build: Build) {
    for place in [Place::Plain, Place::Long] {
        for state in STATES {
            let venv = Maker::Cpython.venv(place).join(state).join(place.name());
            for (tool, flag) in [("tell-environment", "-E"), ("tell-isolated", "-I")] {
                let ended = tells_of(gym_stamp(build), &venv, tool);
                let told = Told::read(&ended);
                assert_eq!(told.cmdline[1], flag, "{ended}");
                assert_eq!(told.cmdline[2], venv.join("bin").join(tool).to_str().unwrap());
            }
        }
    }
}

#[apply(every_build)]
fn pip_of_a_moved_venv_is_its_own(build: Build) {
    let with_pip = |place: Place| {
        let mut venv = Command::new(program("python3", "python3-venv"));
        let mut virtualenv = Command::new(makers().join("virtualenv"));
        venv.args(["-m", "venv"]);
        virtualenv.args(["--quiet", "--no-download"]);
        made_once("with-pip", &(makers(), place.name()), |folder| {
            for (name, mut make) in [("venv", venv), ("virtualenv", virtualenv)] {
                succeed(make.arg(folder.join("before").join(name).join(place.name())));
            }
            fs::rename(folder.join("before"), folder.join("moved")).unwrap();
        })
    };
    for (maker, place) in [
        ("venv", Place::Plain),
        ("venv", Place::Spaced),
        ("virtualenv", Place::Plain),
        ("virtualenv", Place::Expanding),
    ] {
        let venv = with_pip(place).join("moved").join(maker).join(place.name());
        let run = gym_stamp(build).options(["--venv"]).options([&*venv]);
        let ended = run.args(["pip", "-V"]).run().exits(0).says_nothing();
        let text = ended.stdout_text();
        assert!(text.contains(&format!(" from {}/lib/", venv.display())), "{ended}");
    }
}

#[apply(every_build)]
fn scripts_by_any_path(build: Build) {
    for maker in [Maker::Cpython, Maker::Uv] {
        for state in ["moved", "home"] {
            let place = Place::Spaced;
            let venv = maker.venv(place).join(state).join(place.name());
            tells_of(gym_stamp(build), &venv, venv.join("bin/tell"));
            tells_of(gym_stamp(build).cwd(&venv), &venv, "./bin/tell");
            tells_of(gym_stamp(build).cwd(&venv), &venv, "bin/tell");
            tells_of(gym_stamp(build).cwd(venv.join("bin")), &venv, "./tell");
            tells_of(gym_stamp(build).cwd(venv.join("lib")), &venv, "../bin//tell");
            let run = gym_stamp(build);
            symlink(venv.join("bin"), run.folder().join("link")).unwrap();
            let run = run.environ(["PATH=/usr/bin:/bin"]);
            tells_of(run.clone(), &venv, "link/tell");
            // By a link to the venv, and with the venv given by another.
            symlink(&venv, run.folder().join("other")).unwrap();
            tells_of(run.clone(), &venv, "other/bin/tell");
            let run = run.options(["--venv", "other"]).arg(venv.join("bin/tell"));
            let told = Told::read(&run.run().exits(0).says_nothing());
            assert!(told.args.is_empty());
        }
    }
}

#[apply(every_build)]
fn a_link_beside_a_script_is_that_script(build: Build) {
    for state in ["moved", "copied"] {
        let run = gym_stamp(build);
        let from = Maker::Cpython.venv(Place::Plain).join(state).join("plain");
        let venv = run.folder().join("v");
        let copied = command(program("cp", "coreutils")).arg("-a").args([&from, &venv]);
        let _ = copied.run().exits(0).says_nothing();
        symlink("tell", venv.join("bin/tell3")).unwrap();
        tells_of(run, &venv, "tell3");
    }
}

#[apply(every_build)]
fn scripts_that_are_left_alone(build: Build) {
    let alone = |file: &str, content: &str, status: i32, stdout: &str| {
        let run = with_venv(gym_stamp(build), "v").options(["--venv", "v"]);
        let run = run.file(file, 0o755, content).environ(["PATH=bin:/usr/bin:/bin"]);
        let stdout = stdout.replace("TMP", run.folder().to_str().unwrap());
        let ended = run.arg("tool").run();
        assert_eq!((ended.status, ended.stdout_text()), (status, stdout), "{content}\n{ended}");
    };
    let prints = |python: &str| format!("#!{python}\nimport sys; print(sys.prefix)\n");
    let execs = |python: &str| format!("#!/bin/sh\n'''exec' {python} \"$0\" \"$@\"\n' '''\n");
    let tool = "TMP/v/bin/tool\n";
    let by_python = format!("{PYTHON}|{tool}");

    // A Python of no venv.
    let python = program("python3", "python3-venv");
    let print = "import sys; print(sys.prefix)";
    let prefix = command(&python).args(["-c", print]).run().exits(0).stdout_text();
    alone("v/bin/tool", &prints(python.to_str().unwrap()), 0, &prefix);
    // Whatever finds the venv's own.
    alone("v/bin/tool", &prints("/usr/bin/env python"), 0, &by_python);
    let relocatable = "\"$(dirname -- \"$(realpath -- \"$0\")\")\"/'python'";
    alone("v/bin/tool", &execs(relocatable), 0, &by_python);
    // No Python at all.
    alone("v/bin/tool", "#!/bin/sh\necho \"$0\"\n", 0, tool);
    alone("v/bin/tool", "echo \"$0\"\n", 0, tool);
    alone("v/bin/tool", &execs("echo"), 0, tool);
    alone("v/bin/tool", "#!/nowhere/bin/tool\n", 127, "");
    // Outside of the venv.
    let venv = Maker::Cpython.venv(Place::Plain).join("home/plain");
    let another = venv.join("bin/python");
    let of_another = format!("{}\n", venv.display());
    alone("bin/tool", &prints(another.to_str().unwrap()), 0, &of_another);
    alone("bin/tool", &prints("/nowhere/bin/python"), 127, "");
    alone("v/tool", &prints("/nowhere/bin/python"), 127, "");

    let run = with_venv(gym_stamp(build), "v").options(["--venv", "v"]);
    symlink(venv.join("bin/tell"), run.folder().join("v/bin/tool")).unwrap();
    let ended = run.arg("tool").run().exits(0).says_nothing();
    assert_eq!(Path::new(&Told::read(&ended).prefix), venv, "a link to another's script\n{ended}");
}

#[apply(every_build)]
fn headers_that_a_moved_venv_leaves_behind(build: Build) {
    let fits = |header: &str, args: &[&str]| {
        let run = with_venv(gym_stamp(build), "v").options(["--venv", "v"]);
        let run = run.file("v/bin/tool", 0o755, header).args(["tool", "x y", ""]);
        let mut expected = vec![PYTHON.to_owned()];
        expected.extend(args.iter().map(|&arg| arg.to_owned()));
        expected.extend([
            format!("{}/v/bin/tool", run.folder().display()),
            "x y".into(),
            "".into(),
        ]);
        let ended = run.run();
        let told = (ended.status, ended.stdout_text());
        assert_eq!(told, (0, expected.join("|") + "\n"), "{header}\n{ended}");
    };
    for python in ["python", "python3", "python3.11", "python3.13t", "python3-dbg", "pypy3"] {
        fits(&format!("#!/nowhere/bin/{python}\n"), &[]);
        fits(&format!("#!/nowhere/bin/{python} -E\n"), &["-E"]);
        fits(&format!("#!/bin/sh\n'''exec' /nowhere/bin/{python} \"$0\" \"$@\"\n"), &[]);
    }
    fits("#! \t/nowhere/bin/python \t-I -E \t\n", &["-I -E"]);
    fits("#!/nowhere/bin/python\r\n", &[]);
    fits("#!/nowhere/bin/python", &[]);
    fits("#!../v/bin/../../nowhere/python\n", &[]);
    let long = "y".repeat(3000);
    let shell = |command: &str| format!("#!/bin/sh\n'''exec' {command} \"$0\" \"$@\"\n' '''\n");
    fits(&shell("\"/no where/bin/python\""), &[]);
    fits(&shell("\"/no where/bin/python\" -E"), &["-E"]);
    fits(&shell("'/no where/$x`y`\\/bin/python'"), &[]);
    fits(&shell("'/no'\"'\"'where/bin/python'"), &[]);
    fits(&shell("/nowhere/bin/python -I"), &["-I"]);
    fits(&shell("\"/no\\$where/bin/python\""), &[]);
    fits(&shell(&format!("'/{long}/bin/python'")), &[]);
}

#[apply(every_build)]
fn a_python_that_cannot_run_a_script_left_behind(build: Build) {
    // An ELF header that names no machine.
    let alien = [b"\x7fELF\x02\x01\x01".to_vec(), vec![0; 57]].concat();
    for (python, status, words) in [
        (&b"#!/nope\n"[..], 127, "runs under '/nope', which is not there: correct its #! line"),
        (&alien, 126, "is a program for other machines, not for this one"),
        (b"\0", 126, "is neither a program nor a script"),
    ] {
        let run = with_venv(gym_stamp(build), "v").options(["--venv", "v"]);
        let words = format!("gym-stamp: '{}/v/bin/python' {words}\n", run.folder().display());
        let run = run.file("v/bin/python", 0o755, python);
        let run = run.file("v/bin/tool", 0o755, "#!/nowhere/bin/python\n");
        run.arg("tool").run().exits(status).prints("").says(words);
    }
}

/// What [`with_venv`]'s Python calls itself.
const PYTHON: &str = "the venv's Python";

/// A folder that passes for a venv, with a Python that tells what it is given.
fn with_venv(run: Run, name: &str) -> Run {
    let python = format!(
        "#!/bin/sh\nprintf '%s' \"{PYTHON}\"\nfor it; do printf '|%s' \"$it\"; done\necho\n"
    );
    run.file(format!("{name}/pyvenv.cfg"), 0o644, "").file(
        format!("{name}/bin/python"),
        0o755,
        python,
    )
}

/// `path` as a line of output.
fn line(path: &Path) -> Vec<u8> {
    [path.as_os_str().as_bytes(), b"\n"].concat()
}

// The venvs

/// Who made a venv, and filled it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Maker {
    /// CPython, with pip and setuptools.
    Cpython,
    /// virtualenv, with pip.
    Virtualenv,
    /// uv.
    Uv,
    /// uv, so that it can be moved.
    Relocatable,
    /// CPython, with `installer`, as distributors do.
    Installer,
}

/// Where a venv is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Plain,
    /// With spaces, which no `#!` line can hold.
    Spaced,
    /// With what a shell would take for more than a name.
    Odd,
    /// With what a shell would take for more than a name even between double quotes.
    Expanding,
    /// Longer than the 127 bytes that installers think a `#!` line holds.
    Long,
}

/// What became of a venv: it is where it was made, or has been moved from there, or copied, or is
/// reached through a link.
const STATES: [&str; 4] = ["home", "moved", "copied", "linked"];

/// Every maker's venv in every place; for the builds of the same code on other ground, every maker
/// and every place once.
fn grid(build: Build, makers: &[Maker]) -> impl Iterator<Item = (Maker, Place)> {
    let all = move |(number, place)| {
        let is_tried = move |at: usize| build == Build::Freestanding || number % makers.len() == at;
        let tried = makers.iter().enumerate().filter(move |&(at, _)| is_tried(at));
        tried.map(move |(_, &maker)| (maker, place))
    };
    Place::ALL.into_iter().enumerate().flat_map(all)
}

impl Place {
    const ALL: [Self; 5] = [Self::Plain, Self::Spaced, Self::Odd, Self::Expanding, Self::Long];

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Spaced => "with  a space",
            Self::Odd => "o'd d;touch pwned;&(\u{e9}) *",
            Self::Expanding => "q\"uo$HOME \\t`touch pwned`\u{e9}",
            Self::Long => concat!(
                "a-name-that-is-so-long-that-nobody-would-type-it-0123456789-",
                "but-a-build-system-that-hashes-its-inputs-might"
            ),
        }
    }
}

impl Maker {
    const ALL: [Self; 5] =
        [Self::Cpython, Self::Virtualenv, Self::Uv, Self::Relocatable, Self::Installer];

    /// Everything that decides what is made.
    fn recipe(self) -> impl std::hash::Hash {
        (format!("{self:?}"), makers())
    }

    /// The command that makes a venv in `folder`.
    fn make(self, folder: &Path) -> Command {
        let mut make;
        match self {
            Self::Cpython | Self::Installer => {
                make = Command::new(program("python3", "python3-venv"));
                make.args(["-m", "venv", "--without-pip"]);
            }
            Self::Virtualenv => {
                make = Command::new(makers().join("virtualenv"));
                make.args(["--quiet", "--no-seed"]);
            }
            Self::Uv | Self::Relocatable => {
                make = uv();
                make.args(["venv", "--quiet", "--python"]);
                make.arg(makers().join("python"));
                if self == Self::Relocatable {
                    make.arg("--relocatable");
                }
            }
        }
        make.arg(folder);
        make
    }

    /// The command that installs a wheel in `venv`, without what it would pull in.
    fn install(self, venv: &Path) -> Command {
        let python = venv.join("bin/python");
        let mut install;
        match self {
            Self::Cpython | Self::Virtualenv => {
                install = Command::new(makers().join("python"));
                install.args(["-m", "pip", "--python"]).arg(python);
                install.args(["install", "--quiet", "--no-index", "--no-deps"]);
                install.arg("--disable-pip-version-check");
            }
            Self::Uv | Self::Relocatable => {
                install = uv();
                install.args(["pip", "install", "--quiet", "--no-index", "--no-deps", "--python"]);
                install.arg(python);
            }
            Self::Installer => {
                install = Command::new(python);
                install.args(["-m", "installer"]).env("PYTHONPATH", site_packages());
            }
        }
        install
    }

    /// Variables that its activate exports and the shim leaves alone, as the design has it.
    fn own_ways(self) -> &'static [&'static str] {
        match self {
            Self::Virtualenv => &["PS1", "PKG_CONFIG_PATH", "TCL_LIBRARY", "TK_LIBRARY"],
            _ => &["PS1"],
        }
    }

    /// pip writes a path between double quotes as it is, whatever a shell makes of it.
    fn breaks_its_scripts_in(self, place: Place) -> bool {
        matches!(self, Self::Cpython | Self::Virtualenv) && place == Place::Expanding
    }

    /// The folder of a venv in each of [`STATES`], with `tell` installed.
    fn venv(self, place: Place) -> PathBuf {
        let name = format!("venv-{self:?}-{place:?}").to_lowercase();
        made_once(&name, &(self.recipe(), place.name(), wheel()), |folder| {
            for at in ["home", "before"] {
                let venv = folder.join(at).join(place.name());
                fs::create_dir(folder.join(at)).unwrap();
                succeed(&mut self.make(&venv));
                succeed(self.install(&venv).arg(wheel().join("tell-1-py3-none-any.whl")));
                if self == Self::Cpython && matches!(place, Place::Plain | Place::Long) {
                    old_scripts(&venv);
                }
                expect_header(self, place, &venv);
            }
            fs::rename(folder.join("before"), folder.join("moved")).unwrap();
            succeed(
                Command::new("cp").arg("-a").arg(folder.join("home")).arg(folder.join("copied")),
            );
            fs::create_dir(folder.join("linked")).unwrap();
            let home = Path::new("../home").join(place.name());
            symlink(home, folder.join("linked").join(place.name())).unwrap();
        })
    }
}

/// The form of header that this is here for.
#[track_caller]
fn expect_header(maker: Maker, place: Place, venv: &Path) {
    let text = fs::read_to_string(venv.join("bin/tell")).unwrap();
    let bin = venv.join("bin/python");
    let bin = bin.to_str().unwrap();
    let start = match (maker, place) {
        (Maker::Relocatable, _) => "#!/bin/sh\n'''exec' \"$(dirname".to_owned(),
        (_, Place::Plain) => format!("#!{bin}\n"),
        (Maker::Cpython | Maker::Virtualenv, Place::Long) => format!("#!/bin/sh\n'''exec' {bin} "),
        (Maker::Cpython | Maker::Virtualenv, _) => format!("#!/bin/sh\n'''exec' \"{bin}\" "),
        (Maker::Uv, Place::Odd) | (_, Place::Odd | Place::Expanding) => {
            format!("#!/bin/sh\n'''exec' '{}' ", bin.replace('\'', "'\"'\"'"))
        }
        (Maker::Installer, Place::Long) => format!("#!/bin/sh\n'''exec' {bin} "),
        (_, Place::Spaced | Place::Long) => format!("#!/bin/sh\n'''exec' '{bin}' "),
    };
    assert!(text.starts_with(&start), "{maker:?} {place:?}: not {start}\n{text}");
}

/// Scripts as setuptools writes them into a `bin` of its own accord: with the arguments of their
/// `#!` lines.
fn old_scripts(venv: &Path) {
    let project = venv.join("old");
    fs::create_dir(&project).unwrap();
    for (name, flag) in [("tell-environment", "-E"), ("tell-isolated", "-I")] {
        let text = format!("#!python {flag}\nimport tell\ntell.main()\n");
        fs::write(project.join(name), text).unwrap();
    }
    let setup = "import setuptools\n\
        setuptools.setup(name='old', py_modules=[], scripts=['tell-environment', 'tell-isolated'])\n";
    fs::write(project.join("setup.py"), setup).unwrap();
    let mut build = Command::new(venv.join("bin/python"));
    build.current_dir(&project).env("PYTHONPATH", site_packages());
    build.args(["setup.py", "--quiet", "build_scripts", "--build-dir"]).arg(venv.join("bin"));
    succeed(&mut build);
    fs::remove_dir_all(&project).unwrap();
}

/// The `bin` of a venv with everything that makes and fills venvs.
fn makers() -> PathBuf {
    let pinned = [
        "virtualenv==21.15.11",
        "distlib==0.4.4",
        "filelock==4.3.1",
        "platformdirs==4.14.9",
        "python-discovery==1.9.6",
        "uv==0.13.9",
        "pip==26.3",
        "setuptools==84.2.1",
        "installer==1.1.0",
    ];
    python_venv("makers", &pinned).join("bin")
}

fn site_packages() -> PathBuf {
    let print = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let path = succeed(Command::new(makers().join("python")).args(["-c", print]));
    path.trim_end().into()
}

/// uv, as it is where nobody has configured it, with a cache of its own.
fn uv() -> Command {
    let mut uv = Command::new(makers().join("uv"));
    for (name, _) in std::env::vars_os() {
        if name.as_bytes().starts_with(b"UV_") {
            uv.env_remove(name);
        }
    }
    uv.args(["--no-config", "--offline", "--no-python-downloads", "--cache-dir"]);
    uv.arg(makers().join("../uv-cache"));
    uv
}

/// The folder of a wheel with one console script, `tell`: a program that tells how it is run.
fn wheel() -> PathBuf {
    let project = "[build-system]\nrequires = ['setuptools']\n\
        build-backend = 'setuptools.build_meta'\n\
        [project]\nname = 'tell'\nversion = '1'\n\
        [project.scripts]\ntell = 'tell:main'\n\
        [tool.setuptools]\npy-modules = ['tell']\n";
    let module = "import os, sys\n\
        def main():\n    \
            with open('/proc/self/cmdline', 'rb') as file:\n        \
                cmdline = file.read().split(b'\\0')[:-1]\n    \
            told = [sys.prefix, str(len(sys.argv) - 1), *sys.argv[1:]]\n    \
            sys.stdout.buffer.write(b'\\0'.join([*map(os.fsencode, told), *cmdline]))\n";
    made_once("tell", &(makers(), project, module), |folder| {
        fs::write(folder.join("pyproject.toml"), project).unwrap();
        fs::write(folder.join("tell.py"), module).unwrap();
        let mut pip = Command::new(makers().join("python"));
        pip.args(["-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps"]);
        succeed(pip.args(["--disable-pip-version-check", "--wheel-dir"]).arg(folder).arg(folder));
    })
}

/// What `tell` told.
struct Told {
    /// Its venv, as Python has it.
    prefix: String,
    args: Vec<String>,
    /// How its Python was executed.
    cmdline: Vec<String>,
}

impl Told {
    #[track_caller]
    fn read(ended: &Ended) -> Self {
        let text = ended.stdout_text();
        let mut words = text.split('\0').map(str::to_owned);
        let mut word = || words.next().unwrap_or_else(|| panic!("not all told\n{ended}"));
        let (prefix, count) = (word(), word().parse().unwrap_or_else(|_| panic!("{ended}")));
        let args = (0..count).map(|_: usize| word()).collect();
        Self { prefix, args, cmdline: words.collect() }
    }
}
