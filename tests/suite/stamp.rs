//! Which stamp is written and which is left, and what is said of it.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use gym_stamp::contract::{SETUP_DONE_NS, SPAWN_NS};
use macro_rules_attribute::apply;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::resource::{RLIM_INFINITY, Resource};
use nix::sys::signal::Signal;

use crate::support::{
    Build, Ended, Run, Running, Terminal, every_build, expect_time_of, full_pipe, gym_stamp,
    native_builds, without_reader,
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
    use nix::libc;

    fn without_clock(run: Run) -> Run {
        run.without_system_call(libc::SYS_clock_gettime, Errno::EINVAL)
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

#[apply(native_builds)] // qemu makes other system calls than those asked for
fn verbose_is_heard_where_the_kernel_knows_fewer_system_calls(build: Build) {
    for number in [nix::libc::SYS_pwritev2, nix::libc::SYS_rt_sigtimedwait] {
        for errno in [Errno::ENOSYS, Errno::EPERM] {
            let run = gym_stamp(build).without_system_call(number, errno);
            expect_said(WARNING, run, true);
        }
    }
}

/// Runs a command with `-v` and `file` as stderr.
#[track_caller]
fn verbose_into(build: Build, file: impl Into<OwnedFd>) {
    let run = gym_stamp(build).args(["-v", "/bin/echo", "it ran"]).fd(2, file);
    run.run().exits(0).prints("it ran\n");
}

#[track_caller]
fn expect_words(words: &[u8]) {
    let text = String::from_utf8_lossy(words);
    assert!(text.contains("gym-stamp: stamped ") && text.contains("/bin/echo"), "{text}");
}

#[apply(every_build)]
fn verbose_is_heard_in_a_file(build: Build) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    fs::write(&log, "before\n").unwrap();
    verbose_into(build, File::options().append(true).open(&log).unwrap());
    let words = fs::read(&log).unwrap();
    assert!(words.starts_with(b"before\n"));
    expect_words(&words);
}

#[apply(native_builds)] // qemu lacks pwritev2, and a socket has no room for a line in single bytes
fn verbose_is_heard_at_a_socket(build: Build) {
    let (mut here, there) = UnixStream::pair().unwrap();
    verbose_into(build, there);
    let mut words = Vec::new();
    here.read_to_end(&mut words).unwrap();
    expect_words(&words);
}

#[apply(every_build)]
fn verbose_is_heard_at_a_terminal(build: Build) {
    let mut terminal = Terminal::new();
    let run = gym_stamp(build).args(["-v", "/bin/echo", "it ran"]);
    run.on_terminal(&terminal).run().exits(0).says_nothing();
    expect_words(&terminal.read());
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
fn verbose_with_stderr_a_socket_that_nobody_reads(build: Build) {
    let (_, closed) = UnixStream::pair().unwrap();
    loses_only_the_words(build, |run| run.fd(2, closed.try_clone().unwrap()));
    let (_reader, mut full) = UnixStream::pair().unwrap();
    full.set_nonblocking(true).unwrap();
    while full.write(&[b'x'; 4096]).is_ok() {}
    full.set_nonblocking(false).unwrap();
    loses_only_the_words(build, |run| run.fd(2, full.try_clone().unwrap()));
}

#[apply(every_build)]
fn verbose_with_stderr_a_file_as_large_as_it_may_be(build: Build) {
    let log = tempfile::tempfile().unwrap();
    let set_up = |run: Run| {
        run.fd(2, log.try_clone().unwrap()).limit(Resource::RLIMIT_FSIZE, 0, RLIM_INFINITY)
    };
    loses_only_the_words(build, set_up);
    loses_only_the_words(build, |run| set_up(run).blocked(nix::libc::SIGXFSZ));
    loses_only_the_words(build, |run| set_up(run).pending(nix::libc::SIGXFSZ));
    // Pending for the thread, as the one that the write raises is.
    loses_only_the_words(build, |run| {
        let run = set_up(run).blocked(nix::libc::SIGXFSZ);
        run.before_exec(|| Ok(nix::sys::signal::raise(Signal::SIGXFSZ)?))
    });
}

/// A terminal says that it can be written to as long as there is any room, and makes who writes
/// more wait.
#[apply(every_build)]
fn verbose_with_stderr_a_nearly_full_terminal(build: Build) {
    for room in [1, 40, 64, 100, 200] {
        let terminal = nix::pty::openpty(None, None).unwrap();
        let capacity = fill_terminal(&terminal.slave, usize::MAX);
        let terminal = nix::pty::openpty(None, None).unwrap();
        fill_terminal(&terminal.slave, capacity - room);
        verbose_into(build, terminal.slave);
    }
}

/// Writes `most` bytes to a terminal, or as many as go in, and says how many.
fn fill_terminal(slave: &OwnedFd, most: usize) -> usize {
    let flags = OFlag::from_bits_retain(fcntl(slave, FcntlArg::F_GETFL).unwrap());
    fcntl(slave, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).unwrap();
    let mut written = 0;
    while written < most {
        match nix::unistd::write(slave, &[b'x'; 64][..64.min(most - written)]) {
            Ok(count) => written += count,
            Err(_) => break,
        }
    }
    fcntl(slave, FcntlArg::F_SETFL(flags)).unwrap();
    written
}

/// The C library keeps two of them for itself, and out of the masks that it sets.
#[apply(native_builds)] // qemu keeps two, too
fn verbose_with_every_signal_blocked(build: Build) {
    loses_only_the_words(build, |run| {
        let full = File::options().write(true).open("/dev/full").unwrap();
        run.fd(2, full).before_exec(|| {
            let all = u64::MAX;
            // SAFETY: a signal set of eight bytes, read; no old set is asked for.
            let blocked = unsafe {
                nix::libc::syscall(
                    nix::libc::SYS_rt_sigprocmask,
                    nix::libc::SIG_SETMASK,
                    &raw const all,
                    0,
                    8,
                )
            };
            Ok(nix::errno::Errno::result(blocked).map(drop)?)
        })
    });
}

#[apply(every_build)]
fn verbose_in_the_background_of_a_terminal_that_stops_writers(build: Build) {
    let mut terminal = Terminal::new();
    let job = "stty tostop; set -m; \"$@\" & wait $!";
    let run = gym_stamp(build).options(["-v"]).probe().under(["sh", "-c", job, "sh"]);
    let run = run.on_terminal(&terminal);
    let seen = compare(&["pid", "parent", "group", "session"], run, Running::wait);
    assert_eq!(seen.fact("tty.foreground"), "0");
    let words = terminal.read();
    assert!(words.is_empty() || words.starts_with(b"gym-stamp: "), "{}", words.escape_ascii());
}
