//! Which stamp is written and which is left, and what is said of it.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::Duration;

use gym_stamp::contract::{SETUP_DONE_NS, SPAWN_NS};
use macro_rules_attribute::apply;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::support::{
    Build, Ended, Run, Running, Terminal, every_build, expect_time_of, gym_stamp, native_builds,
    without_reader,
};
use crate::transparency::compare;

const VALID: [&str; 6] = [
    "1764555555000000000",
    "1",
    "0001",
    "18446744073709551616",
    "123456789012345678901234567890",
    "99999999999999999999",
];

/// Some of these are times to a server; none of them is how the contract writes one.
const INVALID: [&str; 14] =
    ["", "0", "000", "+5", "-5", " 5", "5 ", "5\n", "5_0", "0x5", "1e9", "5.0", "\u{ff15}", "abc"];

fn entry(name: &str, value: &str) -> Vec<u8> {
    format!("{name}={value}").into_bytes()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(' ')
}

/// With `options`, what stands in the environment under `name` is written anew.
#[track_caller]
fn stamps(build: Build, options: &str, name: &str, environ: &[Vec<u8>]) {
    let run = gym_stamp(build).options(words(options)).probe().environ(environ);
    let plain = run.without_gym_stamp().run().seen();
    let ended = run.run().says_nothing();
    ended.seen().expect_stamped_with(name, &ended, &plain.environ);
}

/// With `options`, the environment is left as it is.
#[track_caller]
fn leaves(build: Build, options: &str, environ: &[Vec<u8>]) {
    let run = gym_stamp(build).options(words(options)).probe().environ(environ);
    let plain = run.without_gym_stamp().run().seen();
    let ended = run.run().says_nothing();
    ended.seen().expect_environ(&ended, &plain.environ);
}

#[apply(every_build)]
fn a_stamp_is_replaced_whatever_it_is(build: Build) {
    for value in VALID.into_iter().chain(INVALID) {
        stamps(build, "--", SETUP_DONE_NS, &[entry(SETUP_DONE_NS, value), entry("A", "1")]);
    }
}

#[apply(every_build)]
fn keep_leaves_a_valid_stamp(build: Build) {
    for value in VALID {
        leaves(build, "--keep", &[entry("A", "1"), entry(SETUP_DONE_NS, value), entry("B", "2")]);
    }
}

#[apply(every_build)]
fn keep_replaces_an_invalid_stamp(build: Build) {
    for value in INVALID {
        let environ = [entry("A", "1"), entry(SETUP_DONE_NS, value), entry("B", "2")];
        stamps(build, "--keep", SETUP_DONE_NS, &environ);
    }
}

#[apply(every_build)]
fn keep_writes_a_missing_stamp(build: Build) {
    stamps(build, "--keep", SETUP_DONE_NS, &[entry("A", "1"), entry(SPAWN_NS, "5")]);
    stamps(build, "--keep", SETUP_DONE_NS, &[]);
}

#[apply(native_builds)] // qemu leaves one of each name
fn the_first_duplicate_decides(build: Build) {
    let doubled = |first: &str, second: &str| {
        [
            entry("A", "1"),
            entry(SETUP_DONE_NS, first),
            entry("B", "2"),
            entry(SETUP_DONE_NS, second),
        ]
    };
    leaves(build, "--keep", &doubled("7", "x"));
    leaves(build, "--keep", &doubled("7", "8"));
    stamps(build, "--keep", SETUP_DONE_NS, &doubled("x", "7"));
    stamps(build, "--keep", SETUP_DONE_NS, &doubled("", "7"));
    stamps(build, "--", SETUP_DONE_NS, &doubled("7", "8"));
}

#[apply(native_builds)] // qemu drops it
fn a_name_alone_is_no_stamp(build: Build) {
    let environ = [SETUP_DONE_NS.as_bytes().to_vec(), entry(SETUP_DONE_NS, "7")];
    leaves(build, "--keep", &environ);
    stamps(build, "--", SETUP_DONE_NS, &environ);
}

#[apply(every_build)]
fn spawn_stamps_the_other_variable(build: Build) {
    stamps(build, "--spawn", SPAWN_NS, &[entry("A", "1")]);
    stamps(build, "--spawn", SPAWN_NS, &[entry(SETUP_DONE_NS, "x"), entry("A", "1")]);
}

#[apply(every_build)]
fn spawn_leaves_a_supervisors_own(build: Build) {
    for value in VALID {
        for options in ["--spawn", "--spawn --keep", "--keep --spawn"] {
            leaves(build, options, &[entry(SPAWN_NS, value), entry(SETUP_DONE_NS, "7")]);
        }
    }
}

#[apply(every_build)]
fn spawn_replaces_an_invalid_one(build: Build) {
    for value in INVALID {
        let environ = [entry("A", "1"), entry(SPAWN_NS, value), entry(SETUP_DONE_NS, "7")];
        stamps(build, "--spawn", SPAWN_NS, &environ);
    }
}

#[apply(every_build)]
fn a_launch_is_stamped_at_its_top_and_at_its_end(build: Build) {
    let stamps = format!("echo ${SPAWN_NS} ${SETUP_DONE_NS}");
    let mut run = gym_stamp(build).options(["--spawn"]);
    if let Some(emulator) = build.emulator() {
        run = run.arg(emulator);
    }
    let ended = run.arg(build.binary()).args(["sh", "-c", &stamps]).run().exits(0).says_nothing();
    let printed = ended.stdout_text();
    let (spawn, setup_done) = printed.trim_end().split_once(' ').unwrap();
    expect_time_of(&ended, spawn.as_bytes());
    expect_time_of(&ended, setup_done.as_bytes());
    assert!(spawn <= setup_done, "{ended}");
}

/// The clock cannot be read: system calls for it fail.
///
/// Only the freestanding build on this machine makes them. Elsewhere the kernel's page that knows
/// the time is read, by the C library or by qemu, which nothing can forbid.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod without_a_clock {
    use super::*;
    use nix::errno::Errno;
    use nix::libc;

    fn without_clock(run: Run) -> Run {
        run.before_exec(|| {
            nix::sys::prctl::set_no_new_privs()?;
            // In a filter for system calls: load the number; the next one of the clock's, or the
            // one behind it; fail it; let it pass.
            let statement = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
            let mut filter = [
                statement(0x20, 0, 0, 0),
                statement(0x15, libc::SYS_clock_gettime as u32, 0, 1),
                statement(0x06, libc::SECCOMP_RET_ERRNO | libc::EINVAL as u32, 0, 0),
                statement(0x06, libc::SECCOMP_RET_ALLOW, 0, 0),
            ];
            let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
            let mode = libc::SECCOMP_MODE_FILTER;
            // SAFETY: `program` is a filter of four statements.
            let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) };
            Errno::result(set)?;
            Ok(())
        })
    }

    #[test]
    fn the_command_runs_with_the_environment_as_it_was() {
        for options in ["--", "--keep", "--spawn"] {
            for environ in [vec![], vec![entry("A", "1")], vec![entry(SETUP_DONE_NS, "x")]] {
                let run = gym_stamp(Build::Freestanding).options([options]).probe();
                let ended = without_clock(run.environ(&environ)).run().says_nothing();
                ended.seen().expect_environ(&ended, &environ);
            }
        }
    }

    #[test]
    fn it_is_said_if_asked() {
        let run = gym_stamp(Build::Freestanding).args(["-v", "true"]);
        let ended = without_clock(run).run().exits(0).prints("");
        assert!(ended.stderr_text().contains("not stamped"), "{ended}");
    }

    #[test]
    fn there_is_no_time_to_print() {
        let run = gym_stamp(Build::Freestanding).arg("--now");
        without_clock(run).run().fails(125, &["clock"]);
    }
}

// What -v says

/// Runs a command with `-v`, which has to say whole lines and not disturb the command.
#[track_caller]
fn verbose(run: Run) -> (Ended, String) {
    let ended = run.options(["-v"]).args(["/bin/echo", "--", "it ran"]).run();
    let ended = ended.exits(0).prints("-- it ran\n");
    let said = ended.stderr_text();
    assert!(said.ends_with('\n'), "{ended}");
    assert!(said.lines().all(|line| line.starts_with("gym-stamp: ")), "{ended}");
    (ended, said)
}

#[track_caller]
fn expect_said(told: &str, run: Run, is_said: bool) {
    let (ended, said) = verbose(run);
    assert!(
        said.contains(told) == is_said,
        "'{told}' is {}said\n{ended}",
        if is_said { "not " } else { "" }
    );
}

/// What `-v` says when servers will make nothing of the stamp.
const WARNING: &str = "servers will ignore";

#[apply(every_build)]
fn verbose_says_what_was_stamped_and_what_is_run(build: Build) {
    let (ended, said) = verbose(gym_stamp(build).environ([entry(SPAWN_NS, "1")]));
    let (_, after) = said.split_once(&format!("stamped {SETUP_DONE_NS}=")).unwrap();
    let digits = after.split(|it: char| !it.is_ascii_digit()).next().unwrap();
    expect_time_of(&ended, digits.as_bytes());
    assert!(said.contains("/bin/echo") && !said.contains(WARNING), "{ended}");
    expect_said(&format!("stamped {SPAWN_NS}="), gym_stamp(build).options(["--spawn"]), true);
}

#[apply(every_build)]
fn verbose_says_what_was_kept(build: Build) {
    let kept = |spawn: &str, setup_done: &str| {
        let run = gym_stamp(build).options(["--keep"]);
        run.environ([entry(SPAWN_NS, spawn), entry(SETUP_DONE_NS, setup_done)])
    };
    expect_said(&format!("kept {SETUP_DONE_NS}=7"), kept("5", "7"), true);
    expect_said(WARNING, kept("5", "7"), false);
    expect_said(WARNING, kept("7", "7"), false);
    expect_said(WARNING, kept("8", "7"), true);
    let future = "9999999999999999999";
    expect_said(WARNING, kept("5", future), true);
    expect_said(WARNING, kept("5", "123456789012345678901234567890"), true);
    expect_said(WARNING, kept(future, future), true);
}

#[apply(every_build)]
fn verbose_says_that_servers_will_ignore_the_stamp(build: Build) {
    let with_spawn = |spawn: &str| gym_stamp(build).environ([entry(SPAWN_NS, spawn)]);
    expect_said(WARNING, gym_stamp(build), true);
    expect_said(SPAWN_NS, gym_stamp(build), true);
    for no_time in ["", "0", "000", "abc", "-5", "5.0", "1e9", "0x5", "5__0", "_5", "5_", "+ 5"] {
        expect_said(WARNING, with_spawn(no_time), true);
    }
    expect_said(WARNING, with_spawn("9999999999999999999"), true);
}

#[apply(every_build)]
fn verbose_reads_times_as_servers_do(build: Build) {
    let with_spawn = |spawn: &str| gym_stamp(build).environ([entry(SPAWN_NS, spawn)]);
    let arabic = "\u{661}\u{662}";
    let wide_space = "\u{2003}5\u{a0}";
    for time in
        ["1", "007", "+5", " 5", "5 ", "\t5\n", "5_0", " +1_2 ", arabic, wide_space, "\u{ff15}"]
    {
        expect_said(WARNING, with_spawn(time), false);
    }
}

#[apply(every_build)]
fn verbose_says_nothing_of_servers_where_the_launch_begins(build: Build) {
    let spawn = || gym_stamp(build).options(["--spawn"]);
    expect_said(WARNING, spawn(), false);
    expect_said(WARNING, spawn().environ([entry(SPAWN_NS, "5")]), false);
    expect_said(WARNING, spawn().environ([entry(SPAWN_NS, "9999999999999999999")]), true);
}

#[apply(every_build)]
fn without_verbose_nothing_is_said(build: Build) {
    for spawn in ["", "abc", "9999999999999999999"] {
        let run = gym_stamp(build).environ([entry(SPAWN_NS, spawn)]);
        run.args(["/bin/echo", "x"]).run().exits(0).prints("x\n").says_nothing();
    }
}

// -v where nobody can hear it: the server runs, as it would without the words

/// Compares as the transparency tests do, with `-v` and a stderr that takes no words.
#[track_caller]
fn loses_only_the_words(build: Build, set_up: impl Fn(Run) -> Run) {
    let run = gym_stamp(build).options(["-v"]).probe().entry(entry("A", "1"));
    // Files made once: pipes of a run's own would differ.
    let log = File::create(run.folder().join("stdout")).unwrap();
    compare(&[], set_up(run.fd(1, log)), Running::wait);
}

fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = nix::unistd::pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    let mut pipe = File::from(writer);
    while pipe.write(&[b'x'; 4096]).is_ok() {}
    while pipe.write(b"x").is_ok() {}
    fcntl(&pipe, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    (reader, pipe.into())
}

#[apply(every_build)]
fn verbose_with_stderr_closed(build: Build) {
    loses_only_the_words(build, |run| run.closed(2));
}

#[apply(every_build)]
fn verbose_with_stderr_a_broken_pipe(build: Build) {
    loses_only_the_words(build, |run| run.fd(2, without_reader()));
}

#[apply(native_builds)] // qemu handles SIGPIPE, and exec makes that the default
fn verbose_with_stderr_a_broken_pipe_and_sigpipe_ignored(build: Build) {
    use nix::sys::signal::Signal;
    loses_only_the_words(build, |run| run.ignored(Signal::SIGPIPE).fd(2, without_reader()));
}

#[apply(every_build)]
fn verbose_with_stderr_a_broken_pipe_and_sigpipe_blocked(build: Build) {
    loses_only_the_words(build, |run| run.blocked(nix::libc::SIGPIPE).fd(2, without_reader()));
}

#[apply(every_build)]
fn verbose_with_stderr_a_broken_pipe_and_sigpipe_pending(build: Build) {
    loses_only_the_words(build, |run| run.pending(nix::libc::SIGPIPE).fd(2, without_reader()));
}

#[apply(every_build)]
fn verbose_with_stderr_a_full_pipe(build: Build) {
    let (_reader, writer) = full_pipe();
    loses_only_the_words(build, |run| run.fd(2, writer.try_clone().unwrap()));
}

#[apply(every_build)]
fn verbose_with_stderr_a_full_device(build: Build) {
    loses_only_the_words(build, |run| {
        run.fd(2, File::options().write(true).open("/dev/full").unwrap())
    });
}

#[apply(every_build)]
fn verbose_with_stderr_for_reading_only(build: Build) {
    loses_only_the_words(build, |run| run.fd(2, File::open("/dev/null").unwrap()));
}

#[apply(every_build)]
fn verbose_in_the_background_of_a_terminal_that_stops_writers(build: Build) {
    let mut terminal = Terminal::new();
    let job = "stty tostop; set -m; \"$@\" & wait $!";
    let run = gym_stamp(build).options(["-v"]).probe().under(["sh", "-c", job, "sh"]);
    let run = run.on_terminal(&terminal).deadline(Duration::from_secs(30));
    let seen = compare(&["pid", "parent", "group", "session"], run, Running::wait);
    assert_eq!(seen.fact("tty.foreground"), "0");
    let words = terminal.read();
    assert!(words.is_empty() || words.starts_with(b"gym-stamp: "), "{}", words.escape_ascii());
}
