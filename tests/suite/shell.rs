//! `gym-stamp.sh` and `gym-stamp.fish`, sourced by the shells that they are written for.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use macro_rules_attribute::apply;

use crate::support::toolbox::{made_once, program, python_venv, succeed};
use crate::support::{Build, Ended, Run, Seen, command, write_file};

const STAMP: &str = "NEMO_GYM_STARTUP_SETUP_DONE_NS";
/// A stamp that an outer launch left behind.
const OUTER: &str = "NEMO_GYM_STARTUP_SETUP_DONE_NS=1700000000000000001";
/// Bytes that shells like to do something about.
const WORDS: [&[u8]; 9] =
    [b"a b", b"", b"*", b"--venv", b"-v", b"--", b"\"'\\$(x)`", b"two\nlines", b"\xff\xfe"];

/// A shell, in one of its modes.
#[derive(Clone, Copy)]
struct Shell {
    program: &'static str,
    mode: &'static [&'static str],
    clock: Clock,
}

/// Whether a shell knows the time by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    /// `EPOCHREALTIME`, until a script unsets it.
    Own,
    /// `EPOCHREALTIME`, whatever a script does to it.
    Fixed,
    None,
}

const BASH: Shell = Shell { program: "bash", mode: &[], clock: Clock::Own };
const BASH_POSIX: Shell = Shell { mode: &["--posix"], ..BASH };
const DASH: Shell = Shell { program: "dash", mode: &[], clock: Clock::None };
const ZSH: Shell = Shell { program: "zsh", mode: &["-f"], clock: Clock::Own };
const ZSH_SH: Shell = Shell { mode: &["--emulate", "sh", "-f"], ..ZSH };
const BUSYBOX: Shell = Shell { program: "busybox", mode: &["sh"], clock: Clock::Own };
const KSH: Shell = Shell { program: "ksh", mode: &[], clock: Clock::None };
const MKSH: Shell = Shell { program: "mksh", mode: &[], clock: Clock::Fixed };
const FISH: Shell = Shell { program: "fish", mode: &["--no-config"], clock: Clock::None };

/// One test a POSIX shell: `#[apply(posix_shells)] fn name(shell: Shell)` becomes `name::bash` and
/// so on.
macro_rules! posix_shells {
    (fn $name:ident($shell:ident: $type:ty) $body:block) => {
        mod $name {
            use super::*;

            fn check($shell: $type) $body

            tests! { bash BASH, bash_posix BASH_POSIX, dash DASH, zsh ZSH, zsh_sh ZSH_SH,
                busybox BUSYBOX, ksh KSH, mksh MKSH }
        }
    };
}

/// [`posix_shells`] and fish.
macro_rules! every_shell {
    (fn $name:ident($shell:ident: $type:ty) $body:block) => {
        mod $name {
            use super::*;

            fn check($shell: $type) $body

            tests! { bash BASH, bash_posix BASH_POSIX, dash DASH, zsh ZSH, zsh_sh ZSH_SH,
                busybox BUSYBOX, ksh KSH, mksh MKSH, fish FISH }
        }
    };
}

macro_rules! tests {
    ($($test:ident $shell:ident),*) => {
        $(#[test]
        fn $test() {
            check($shell);
        })*
    };
}

impl Shell {
    fn is_fish(self) -> bool {
        self.program == "fish"
    }

    /// The shell itself, in a folder of its own.
    fn run(self) -> Run {
        let run = command(program(self.program, self.program)).args(self.mode.iter().copied());
        let home = run.folder().to_owned();
        run.var("HOME", home)
    }

    /// [`Shell::run`] for a script that does `lines` after it has sourced ours.
    fn script(self, lines: &str) -> Run {
        self.script_in(self.run(), lines)
    }

    /// `"$@"` in `lines` is what the run has for further arguments.
    fn script_in(self, run: Run, lines: &str) -> Run {
        let sourced = self.sourced().display().to_string();
        if self.is_fish() {
            let lines = lines.replace("\"$@\"", "$argv").replace("\"$1\"", "$argv[1]");
            return run.arg("-c").arg(format!("source '{sourced}'\n{lines}"));
        }
        run.arg("-c").arg(format!("set -eu\n. '{sourced}'\n{lines}")).arg("script")
    }

    fn sourced(self) -> PathBuf {
        let name = if self.is_fish() { "gym-stamp.fish" } else { "gym-stamp.sh" };
        Path::new(env!("CARGO_MANIFEST_DIR")).join("shell").join(name)
    }

    /// What has a shell forget its own clock, and puts a time long past in its place.
    fn forget_the_time(self) -> &'static str {
        match self.clock {
            Clock::None => "",
            _ => "unset EPOCHREALTIME; EPOCHREALTIME=1700000000.123456\n",
        }
    }
}

/// The one stamp that the probe was given, if any: digits, and a time within the run.
#[track_caller]
fn stamp(ended: &Ended, seen: &Seen) -> Option<u64> {
    let values = seen.values(STAMP);
    assert!(values.len() <= 1, "{} stamps\n{ended}", values.len());
    let value = std::str::from_utf8(values.first()?).unwrap();
    assert!(value.bytes().all(|byte| byte.is_ascii_digit()), "stamp '{value}'\n{ended}");
    let ns = value.parse().unwrap();
    assert!(
        (ended.started_ns..=ended.ended_ns).contains(&ns),
        "stamp {ns} at another time\n{ended}"
    );
    Some(ns)
}

#[track_caller]
fn is_stamped(run: Run) -> Seen {
    let ended = run.run().exits(0).says_nothing();
    let seen = ended.seen();
    assert!(stamp(&ended, &seen).is_some(), "no stamp\n{ended}");
    seen
}

#[apply(every_shell)]
fn the_command_gets_the_stamp_beside_what_exec_gives(shell: Shell) {
    let base = shell.run().entry(OUTER).var("EMPTY", "").var("BYTES", b"\xa3");
    let run = |line| shell.script_in(base.clone(), line).probe().args(WORDS);
    let plain = run("exec \"$@\"").run().exits(0).seen();
    let ended = run("gym_stamp_exec \"$@\"").run().exits(0).says_nothing();
    let seen = ended.seen();

    assert!(stamp(&ended, &seen).is_some(), "no stamp\n{ended}");
    assert_eq!(seen.fact("pid"), ended.pid.to_string(), "{ended}");
    assert_eq!(seen.argv, plain.argv, "{ended}");
    let others = |seen: &Seen| -> BTreeSet<Vec<u8>> {
        // `_` is the shell's own, and tells what was called last.
        let shells = |entry: &&Vec<u8>| !entry.starts_with(b"_=");
        let entries = seen.environ.iter().filter(shells).cloned();
        entries.filter(|entry| !entry.starts_with(STAMP.as_bytes())).collect()
    };
    assert_eq!(others(&seen), others(&plain), "{ended}");
    let mut differences = plain.differences(&seen);
    // Two runs have two processes, and two pairs of pipes for what they say.
    differences.retain(|it| !it[2..].starts_with("pid ") && !it.contains("pipe"));
    assert!(differences.is_empty(), "{differences:?}\n{ended}");
}

/// What a script may find on its PATH.
#[derive(Clone, Copy, Debug)]
enum Tool {
    /// The real one.
    GymStamp,
    /// The real one, with another machine's number in its header: no kernel runs it. To a shell
    /// that takes it for a script it is a redirection into a file, then a command.
    ForeignGymStamp,
    /// The first bytes of the real one: not even its header is whole.
    HeadOfGymStamp,
    /// Half of the real one, which starts, and dies.
    HalfOfGymStamp,
    LockedGymStamp,
    FolderGymStamp,
    /// A script called `gym-stamp` that is none of ours.
    OtherGymStamp(&'static str),
    GnuDate,
    /// It has no `%N`, and prints it.
    BusyBoxDate,
    /// As that of macOS.
    DateThatPrints(&'static str),
    Python,
    BrokenPython,
    Perl,
}

impl Tool {
    fn put_into(self, folder: &Path) {
        let write =
            |name: &str, mode: u32, content: &[u8]| write_file(&folder.join(name), mode, content);
        let script = |name: &str, lines: &str| {
            write(name, 0o755, format!("#!/bin/sh\n{lines}\n").as_bytes());
        };
        let link = |name: &str, program: PathBuf| symlink(program, folder.join(name)).unwrap();
        let real = || fs::read(Build::Freestanding.binary()).unwrap();
        match self {
            Self::GymStamp => link("gym-stamp", Build::Freestanding.binary().into()),
            Self::ForeignGymStamp => {
                let mut binary = real();
                binary.splice(18..20, *b">\x01\nleave-a-trace\n");
                write("gym-stamp", 0o755, &binary);
                script("leave-a-trace", "echo >\"$HOME/cwd/trace\"");
            }
            Self::HeadOfGymStamp => write("gym-stamp", 0o755, &real()[..100]),
            Self::HalfOfGymStamp => {
                let binary = real();
                write("gym-stamp", 0o755, &binary[..binary.len() / 2]);
            }
            Self::LockedGymStamp => write("gym-stamp", 0o644, &real()),
            Self::FolderGymStamp => fs::create_dir(folder.join("gym-stamp")).unwrap(),
            Self::OtherGymStamp(lines) => script("gym-stamp", lines),
            Self::GnuDate => link("date", program("date", "coreutils")),
            Self::BusyBoxDate => link("date", program("busybox", "busybox")),
            Self::DateThatPrints(text) => script("date", &format!("echo '{text}'")),
            Self::Python => {
                // Not by the name on PATH: that may be a script, which finds nothing on this one.
                let venv = python_venv("plain", &[]);
                link("python3", fs::canonicalize(venv.join("bin/python")).unwrap());
            }
            Self::BrokenPython => script("python3", "echo 'no module named time' >&2; exit 1"),
            Self::Perl => link("perl", program("perl", "perl")),
        }
    }
}

/// Where the time is to come from, with these tools and no others.
const CLOCKS: &[(&[Tool], Stamp)] = {
    use Stamp::{Absent, ByDate, Valid};
    use Tool::*;
    &[
        (&[], Absent),
        (&[GymStamp], Valid),
        (&[GymStamp, BusyBoxDate, BrokenPython], Valid),
        (&[GnuDate], ByDate),
        (&[BusyBoxDate], Absent),
        (&[BusyBoxDate, Python], Valid),
        (&[BusyBoxDate, BrokenPython, Perl], Valid),
        (&[DateThatPrints("1796094543N")], Absent),
        (&[DateThatPrints("1796094543")], Absent),
        (&[DateThatPrints("0796094543123456789")], Absent),
        (&[DateThatPrints("17960945431234567890")], Absent),
        (&[DateThatPrints("1796094543123456789 ns")], Absent),
        (&[DateThatPrints("1796094543N"), Perl], Valid),
        (&[Python], Valid),
        (&[Perl], Valid),
        (&[ForeignGymStamp], Absent),
        (&[ForeignGymStamp, GnuDate], ByDate),
        (&[HeadOfGymStamp], Absent),
        (&[HeadOfGymStamp, GnuDate], ByDate),
        (&[HalfOfGymStamp], Absent),
        (&[HalfOfGymStamp, Python], Valid),
        (&[LockedGymStamp, GnuDate], ByDate),
        (&[FolderGymStamp, GnuDate], ByDate),
        (&[OtherGymStamp("echo stamped the gym card of \"$1\"")], Absent),
        (&[OtherGymStamp("echo unknown option >&2; exit 2"), GnuDate], ByDate),
        (&[OtherGymStamp("read answer; echo \"$answer\""), Perl], Valid),
    ]
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stamp {
    Valid,
    /// [`Stamp::Valid`], except where the shell prefers a date of its own that has no `%N`.
    ByDate,
    Absent,
}

#[apply(every_shell)]
fn a_shell_without_a_clock_asks_what_there_is_and_believes_only_a_time(shell: Shell) {
    for (tools, expected) in CLOCKS {
        let run = shell.script(&format!("{}gym_stamp_exec \"$@\"", shell.forget_the_time()));
        let run = with_tools(run, tools).entry(OUTER);
        let cwd = run.folder().join("cwd");
        fs::create_dir(&cwd).unwrap();

        let expected = match (shell.clock, expected) {
            (Clock::Fixed, _) => Stamp::Valid,
            (_, Stamp::ByDate) if shell.program == "busybox" => Stamp::Absent,
            (_, Stamp::ByDate) => Stamp::Valid,
            (_, expected) => *expected,
        };
        // A time for whoever reads what is the command's to read.
        let run = run.cwd(&cwd).stdin("1700000000000000002\n");
        let ended = run.probe().run().exits(0).says_nothing();
        let found = stamp(&ended, &ended.seen()).map_or(Stamp::Absent, |_| Stamp::Valid);
        assert_eq!(found, expected, "{tools:?}\n{ended}");
        let left: Vec<_> = fs::read_dir(cwd).unwrap().collect();
        assert!(left.is_empty(), "{tools:?} left {left:?}\n{ended}");
    }
}

/// Nothing else is on the PATH.
fn with_tools(run: Run, tools: &[Tool]) -> Run {
    let folder = run.folder().join("tools");
    fs::create_dir(&folder).unwrap();
    for tool in tools {
        tool.put_into(&folder);
    }
    let home = format!("HOME={}", run.folder().display());
    run.environ([format!("PATH={}", folder.display()), home])
}

#[apply(posix_shells)]
fn a_time_inherited_from_another_shell_is_not_taken_for_a_clock(shell: Shell) {
    for (tools, expected) in [(&[][..], None), (&[Tool::GymStamp][..], Some(Stamp::Valid))] {
        let run = with_tools(shell.script("gym_stamp_exec \"$@\""), tools);
        let run = run.var("EPOCHREALTIME", "1700000000.123456").entry(OUTER);
        let ended = run.probe().run().exits(0).says_nothing();
        // That it is the run's own time is checked here.
        let found = stamp(&ended, &ended.seen()).map_or(Stamp::Absent, |_| Stamp::Valid);
        assert!(expected.is_none_or(|it| it == found), "{found:?}\n{ended}");
    }
}

#[apply(posix_shells)]
fn the_decimal_separator_is_the_locales(shell: Shell) {
    let locales = made_once("locales", &"de_DE ps_AF", |folder| {
        let localedef = program("localedef", "libc-bin");
        let source = Path::new("/usr/share/i18n/locales/ps_AF");
        assert!(source.is_file(), "{} is missing: apt-get install locales", source.display());
        for name in ["de_DE", "ps_AF"] {
            let mut command = Command::new(&localedef);
            command.args(["--no-archive", "-i", name, "-f", "UTF-8"]);
            succeed(command.arg(folder.join(name).with_extension("UTF-8")));
        }
    });
    // Of a separator of two bytes (U+066B), bash shows the first.
    for (locale, separator) in [("de_DE.UTF-8", b','), ("ps_AF.UTF-8", b'\xd9')] {
        let run = |run: Run| run.var("LOCPATH", &locales).var("LC_ALL", locale);
        let shown = run(BASH.run().args(["-c", "echo $EPOCHREALTIME"])).run();
        assert!(shown.stdout.contains(&separator), "{separator:#x} is not the separator\n{shown}");
        let tools: &[_] = if shell.clock == Clock::None { &[Tool::GymStamp] } else { &[] };
        let run = run(with_tools(shell.script("gym_stamp_exec \"$@\""), tools));
        is_stamped(run.probe());
    }
}

#[test]
fn a_shell_with_a_clock_starts_no_process_for_it() {
    for shell in [BASH, BASH_POSIX, ZSH, ZSH_SH, BUSYBOX, MKSH] {
        assert_ne!(shell.clock, Clock::None);
        let run = shell.script("gym_stamp_exec \"$@\"").probe();
        let log = run.folder().join("strace");
        let strace = format!(
            "exec {} -f -qq --trace=fork,vfork,clone,clone3 -o \"$0\" \"$@\"",
            program("strace", "strace").display()
        );
        let run = run.under([b"/bin/sh", &b"-c"[..], strace.as_bytes(), path_bytes(&log)]);
        // The folder is there for as long as the run or its copy.
        is_stamped(run.clone());
        let calls = fs::read_to_string(log).unwrap();
        assert!(calls.is_empty(), "{} {:?}: {calls}", shell.program, shell.mode);
    }
}

#[apply(every_shell)]
fn a_command_that_cannot_run_has_the_shells_own_status(shell: Shell) {
    for (name, status) in [("no-such-command", 127), ("./locked", 126), ("./folder", 126)] {
        let base = shell.run().file("locked", 0o644, "").file("folder/file", 0o644, "");
        let run = |line| {
            let run = shell.script_in(base.clone(), line).arg(name);
            run.run().exits(status)
        };
        let plain = run("exec \"$@\"");
        let stamped = run("gym_stamp_exec \"$@\"");
        assert_eq!(stamped.stdout_text(), plain.stdout_text(), "{stamped}");
        let name = name.trim_start_matches("./");
        assert!(stamped.stderr_text().contains(name), "no '{name}'\n{stamped}");
    }
}

#[apply(every_shell)]
fn what_is_no_command_is_told_so(shell: Shell) {
    let cases = [
        ("gym_stamp_exec", "no COMMAND"),
        ("gym_stamp_exec --", "no COMMAND"),
        ("gym_stamp_exec --venv .venv -- true", "gym_stamp_activate"),
        ("gym_stamp_exec -- --keep", "'--keep'"),
        ("gym_stamp_activate", "python3 -m venv"),
        ("gym_stamp_activate no-such-venv", "'no-such-venv/bin/activate"),
    ];
    for (line, words) in cases {
        let ended = shell.script(line).entry(OUTER).run().exits(125).prints("");
        let stderr = ended.stderr_text();
        assert!(stderr.starts_with(line.split(' ').next().unwrap()), "{ended}");
        assert!(stderr.contains(words) && stderr.lines().count() == 1, "{ended}");
    }
}

#[apply(every_shell)]
fn two_dashes_before_the_command_are_not_its_own(shell: Shell) {
    let run = shell.script("gym_stamp_exec \"$@\"").arg("--").probe().args(["--", "-x"]);
    assert_eq!(is_stamped(run).argv[1..], [b"--".to_vec(), b"-x".to_vec()]);
}

#[apply(every_shell)]
fn activation_stamps_a_script_that_cannot_prefix_its_command(shell: Shell) {
    let venvs = venvs();
    let base = shell.run().entry(OUTER);
    for name in ["a venv", "-venv", "venv"] {
        symlink(venvs.join("cpython"), base.folder().join(name)).unwrap();
    }
    let by = |maker: &str| venvs.join(maker).display().to_string();
    let cases = [
        (by("cpython"), "cpython"),
        (by("virtualenv"), "virtualenv"),
        (by("uv"), "uv"),
        ("a venv".into(), "cpython"),
        ("./a venv".into(), "cpython"),
        ("-venv".into(), "cpython"),
        ("venv".into(), "cpython"),
    ];
    for (folder, maker) in cases {
        let lines = format!("gym_stamp_activate '{folder}'\n\"$@\"");
        let seen = is_stamped(shell.script_in(base.clone(), &lines).probe());
        // An activate script knows its folder by the name it was made with.
        let venv = venvs.join(maker);
        assert_eq!(seen.values("VIRTUAL_ENV"), [path_bytes(&venv)], "{folder}");
        let bin = [path_bytes(&venv), b"/bin:"].concat();
        assert!(seen.values("PATH")[0].starts_with(&bin), "{folder}");
    }
}

/// A venv by each program that makes them, in folders of their names.
fn venvs() -> PathBuf {
    let makers = python_venv("venv-makers", &["virtualenv==21.15.11", "uv==0.13.9"]).join("bin");
    made_once("activated-venvs", &makers, |folder| {
        succeed(
            Command::new(makers.join("python"))
                .args(["-m", "venv", "--without-pip"])
                .arg(folder.join("cpython")),
        );
        let mut virtualenv = Command::new(makers.join("virtualenv"));
        succeed(virtualenv.args(["--quiet", "--no-seed"]).arg(folder.join("virtualenv")));
        let mut uv = Command::new(makers.join("uv"));
        succeed(
            uv.args(["venv", "--quiet", "--no-cache", "--offline", "--python"])
                .arg(makers.join("python"))
                .arg(folder.join("uv")),
        );
    })
}

#[apply(every_shell)]
fn a_failed_activation_is_told_by_its_status_and_stamps_nothing(shell: Shell) {
    let activate = "sh -c 'exit 3'\n";
    let run = shell.run().file("venv/bin/activate", 0o644, activate);
    let run = run.file("venv/bin/activate.fish", 0o644, activate);
    let goes_on = match shell.is_fish() {
        true => "gym_stamp_activate venv\ntest $status -eq 3; and \"$@\"",
        false => "set +e\ngym_stamp_activate venv\ntest $? -eq 3 && \"$@\"",
    };
    let ended = shell.script_in(run.clone(), goes_on).probe().run().exits(0).says_nothing();
    assert_eq!(stamp(&ended, &ended.seen()), None, "{ended}");
    if !shell.is_fish() {
        let ends = shell.script_in(run, "gym_stamp_activate venv\necho went on");
        ends.run().exits(3).prints("").says_nothing();
    }
}

#[apply(posix_shells)]
fn old_activate_scripts_run_where_unset_variables_are_errors(shell: Shell) {
    // As CPython's was before 3.9.
    let activate = "if [ -n \"$NOT_SET_BASH\" -o -n \"$NOT_SET_ZSH\" ]; then hash -r; fi\n";
    let run = shell.run().file("venv/bin/activate", 0o644, activate);
    let lines = "gym_stamp_activate venv\ncase $- in *u*) \"$@\" ;; esac\n: $NOT_SET_EITHER";
    let ended = shell.script_in(run, lines).probe().run();
    assert_ne!(ended.status, 0, "set -u is off afterwards\n{ended}");
    assert!(ended.stderr_text().contains("NOT_SET_EITHER"), "{ended}");
    assert!(ended.folder().join("probe.out").exists(), "{ended}");
}

#[apply(every_shell)]
fn nothing_but_the_stamp_is_left_in_the_shell(shell: Shell) {
    let run = shell.run().file("venv/bin/activate", 0o644, "");
    let run = run.file("venv/bin/activate.fish", 0o644, "");
    let forms: &[&str] = match shell.is_fish() {
        true => &["set --names", "functions --all --names", "status"],
        false => &["set", "set -o", "echo $-", "alias", "trap"],
    };
    let note = |when: &str| -> String {
        let each = forms.iter().enumerate();
        each.map(|(index, form)| format!("{form} >{when}{index}\n")).collect()
    };
    let lines = [note("before"), "gym_stamp_activate venv\n".into(), note("after")].concat();
    // Some shells list their clock only once somebody has looked at it.
    let look = if shell.is_fish() { "" } else { ": \"${EPOCHREALTIME-}\"\n" };
    let ended = shell.script_in(run, &[look, &lines].concat()).run().exits(0).says_nothing();

    let read = |name: String| fs::read(ended.folder().join(name)).unwrap();
    for index in 1..forms.len() {
        let (before, after) = (read(format!("before{index}")), read(format!("after{index}")));
        assert_eq!(before.escape_ascii().to_string(), after.escape_ascii().to_string());
    }
    let new: Vec<_> = names(&read("after0".into()))
        .difference(&names(&read("before0".into())))
        .cloned()
        .collect();
    assert_eq!(new, [STAMP], "{ended}");
}

/// The names that `set` lists; some shells list functions too, and values of several lines.
fn names(listing: &[u8]) -> BTreeSet<String> {
    let listing = String::from_utf8_lossy(listing);
    let name = |line: &str| line.split('=').next().unwrap().to_owned();
    // One that begins with an underscore is the shell's own, as ksh's _AST_FEATURES.
    let is_name = |name: &String| {
        let letters = name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_');
        letters && !name.starts_with('_')
    };
    listing.lines().map(name).filter(is_name).collect()
}

#[test]
fn all_functions_have_our_prefix() {
    let defined = |shell: Shell, name: fn(&str) -> Option<&str>| {
        let text = fs::read_to_string(shell.sourced()).unwrap();
        let names: Vec<_> = text.lines().filter_map(name).map(str::to_owned).collect();
        assert!(
            names.len() > 2 && names.iter().all(|it| it.starts_with("gym_stamp_")),
            "{names:?}"
        );
    };
    defined(BASH, |line| line.strip_suffix("() {"));
    defined(FISH, |line| line.strip_prefix("function ")?.split(' ').next());
}

#[test]
fn a_log_pipeline_keeps_the_commands_status() {
    for shell in [BASH, BASH_POSIX, ZSH, ZSH_SH, BUSYBOX, KSH, MKSH] {
        let lines = "set -o pipefail\n(gym_stamp_exec \"$@\") 2>&1 | tee -a LOG";
        let script = format!("echo out; echo err >&2; echo ${STAMP}; exit 42");
        let run = shell.script(lines).args(["sh", "-c", &script]).file("LOG", 0o644, "before\n");
        let ended = run.run().exits(42).says_nothing();
        let log = fs::read_to_string(ended.folder().join("LOG")).unwrap();
        let stamp =
            log.strip_prefix("before\nout\nerr\n").unwrap_or_else(|| panic!("{log}\n{ended}"));
        let ns: u64 = stamp.trim().parse().unwrap();
        assert!((ended.started_ns..=ended.ended_ns).contains(&ns), "{ns}\n{ended}");
    }
}

/// The lines of the README that may be pasted where the binary may be missing: one for any POSIX
/// shell, and two launch lines for bash, with and without a log.
fn pastes() -> [String; 3] {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md"));
    let readme = readme.unwrap();
    let pastes: Vec<_> =
        readme.lines().filter(|line| line.contains("exec $(command -v gym-stamp")).collect();
    let [paste, launch, with_log] = pastes[..] else { panic!("{pastes:#?}") };
    [paste, launch, with_log].map(str::to_owned)
}

/// `run` becomes a server that ends with 42: `.venv/bin/python` in `folder`.
fn with_server(run: Run, folder: &str) -> Run {
    let tells = format!("echo \"$$ ${{VIRTUAL_ENV-}} $* ${{{STAMP}-}}\"; echo err >&2; exit 42");
    run.file(format!("{folder}/.venv/bin/python"), 0o755, format!("#!/bin/sh\n{tells}\n"))
}

/// The process that was started has become the server, in `venv`; whether that got the stamp.
#[track_caller]
fn server_is_stamped(ended: &Ended, venv: &str) -> bool {
    let told = [ended.stdout_text(), ended.stderr_text()].concat();
    let words = told.strip_suffix("\nerr\n").unwrap_or_else(|| panic!("{ended}"));
    let ns = words.strip_prefix(&format!("{} {venv} app.py ", ended.pid));
    let ns = ns.unwrap_or_else(|| panic!("another process or command line\n{ended}"));
    let run = ended.started_ns..=ended.ended_ns;
    assert!(ns.is_empty() || run.contains(&ns.parse().unwrap()), "{ended}");
    !ns.is_empty()
}

#[apply(posix_shells)]
fn the_readmes_line_is_the_plain_command_where_there_is_no_binary(shell: Shell) {
    let [paste, ..] = pastes();
    for tools in [&[][..], &[Tool::GymStamp]] {
        let run = with_server(with_tools(shell.run(), tools), ".");
        let ended = run.arg("-c").arg(format!("set -eu\n{paste}")).run().exits(42);
        assert_eq!(server_is_stamped(&ended, ""), !tools.is_empty(), "{ended}");
    }
}

#[test]
fn the_readmes_launch_lines_become_the_server() {
    let [_, launch, with_log] = pastes();
    for (line, has_log) in [(launch, false), (with_log, true)] {
        for tools in [&[][..], &[Tool::GymStamp]] {
            let run = with_server(with_tools(BASH.run(), tools), "dir");
            let run = run.file("dir/.venv/bin/activate", 0o644, "export VIRTUAL_ENV=$venv\n");
            symlink(program("tee", "coreutils"), run.folder().join("tools/tee")).unwrap();
            let line = line.replace("DIR", "dir").replace("SETUP", "venv=v");
            let ended = run.arg("-c").arg(line).run().exits(42);
            assert_eq!(server_is_stamped(&ended, "v"), !tools.is_empty(), "{ended}");
            if has_log {
                let log = fs::read_to_string(ended.folder().join("LOG")).unwrap();
                assert_eq!(log, ended.stdout_text(), "{ended}");
            }
        }
    }
}

fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}
