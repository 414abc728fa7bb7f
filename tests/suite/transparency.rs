//! What exec passes on is what it would have been without `gym-stamp`, but for the stamp.
//!
//! A probe tells all that it was given, with and without `gym-stamp` under one set-up. That the
//! probe can see what the set-up is about is shown each time: the facts named in `shows` are not
//! those of a run without the set-up.
//!
//! Under qemu, the run to compare with is a program that only execs, under qemu as well.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use gym_stamp::contract::SETUP_DONE_NS;
use macro_rules_attribute::apply;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::sys::personality::{self, Persona};
use nix::sys::prctl;
use nix::sys::resource::Resource;
use nix::sys::signal::Signal;

use crate::support::{
    Build, Ended, Run, Running, Seen, Terminal, command, every_build, gym_stamp, native_builds,
};

/// From the kernel's `fcntl.h`; `libc` has it for other targets only.
const F_SETSIG: i32 = 10;

/// Compares the two prints under `set_up`; `shows` are facts that the set-up alters.
#[track_caller]
fn transparent(build: Build, shows: &[&str], set_up: impl Fn(Run) -> Run) {
    let without = compare(&[], set_up(probed(build)), Running::wait);
    expect_shown(build, shows, &without);
}

/// Does `run` with and without `gym-stamp`, and returns what was seen without it.
///
/// Facts in `own` are another for every run.
#[track_caller]
pub fn compare(own: &[&str], run: Run, act: impl Fn(Running) -> Ended) -> Seen {
    let without = print(&act(run.without_gym_stamp().spawn()), own);
    let ended = act(run.spawn());
    let with = print(&ended, own);
    assert_eq!(with.argv, without.argv, "argv\n{ended}");
    let differences = without.differences(&with);
    assert!(differences.is_empty(), "{}\n{ended}", differences.join("\n"));
    with.expect_stamped(&ended, &without.environ);
    without
}

/// The probe behind `gym-stamp`, with the same three open files each time: that they are passed on
/// can be seen by what they are.
fn probed(build: Build) -> Run {
    with_streams(gym_stamp(build).probe())
}

fn with_streams(run: Run) -> Run {
    let stream = |name: &str| {
        let path = run.folder().join(name);
        File::options().read(true).append(true).create(true).open(path).unwrap()
    };
    let streams = ["stdin", "stdout", "stderr"].map(stream);
    streams.into_iter().zip(0..).fold(run, |run, (file, fd)| run.fd(fd, file))
}

/// What the probe told, less `own`; a PID that is the started process's reads `same`.
#[track_caller]
fn print(ended: &Ended, own: &[&str]) -> Seen {
    let mut seen = ended.seen();
    let pid = format!("pid {}", ended.pid);
    for fact in &mut seen.facts {
        if *fact == pid {
            *fact = "pid same".to_owned();
        }
    }
    seen.facts.retain(|fact| !own.contains(&fact.split(' ').next().unwrap()));
    seen
}

/// The set-up has done something, and the probe has seen it.
#[track_caller]
fn expect_shown(build: Build, shows: &[&str], under_set_up: &Seen) {
    let plain = print(&probed(build).without_gym_stamp().run(), &[]);
    let differences = plain.differences(under_set_up);
    for fact in shows {
        let shown = |line: &String| line[2..].split(' ').next() == Some(fact);
        assert!(differences.iter().any(shown), "{fact} is as ever; {differences:#?}");
    }
}

#[apply(every_build)]
fn nothing_special(build: Build) {
    transparent(build, &[], |run| run.args(["a", "", "--keep", "--", "-v"]));
}

// Descriptors

#[apply(every_build)]
fn stdin_closed(build: Build) {
    transparent(build, &["fd0"], |run| run.closed(0));
}

#[apply(every_build)]
fn stdout_closed(build: Build) {
    transparent(build, &["fd1"], |run| run.closed(1));
}

#[apply(every_build)]
fn stderr_closed(build: Build) {
    transparent(build, &["fd2"], |run| run.closed(2));
}

#[apply(every_build)]
fn standard_streams_closed(build: Build) {
    transparent(build, &["fd0", "fd1", "fd2"], |run| run.closed(0).closed(1).closed(2));
}

#[apply(every_build)]
fn open_descriptors(build: Build) {
    let shows = ["fd3", "fd4", "fd5", "fd6", "fd7", "fd8", "fd63", "fd250"];
    let (pipe_end, _write_end) = nix::unistd::pipe().unwrap();
    fcntl(&pipe_end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
    let parent = nix::unistd::getpid().as_raw();
    let (pipe_end, socket) = (Arc::new(pipe_end), Arc::new(socket));
    transparent(build, &shows, move |run| {
        let name = run.folder().join("appended");
        let mut appended = File::options().append(true).read(true).create(true).open(name).unwrap();
        appended.set_len(9).unwrap();
        appended.seek(SeekFrom::Start(3)).unwrap();
        let path_only = File::options().read(true).custom_flags(libc::O_PATH).open("/").unwrap();
        let unlinked = tempfile::tempfile().unwrap();
        run.fd(3, appended)
            .fd(4, pipe_end.try_clone().unwrap())
            .fd(5, socket.try_clone().unwrap())
            .fd(6, path_only)
            .fd(7, File::open("/dev").unwrap())
            .fd(8, unlinked)
            .fd(63, File::open("/dev/zero").unwrap())
            .fd(250, OwnedFd::from(File::options().write(true).open("/dev/null").unwrap()))
            .before_exec(move || {
                // SAFETY: takes numbers.
                nix::errno::Errno::result(unsafe { libc::fcntl(5, libc::F_SETOWN, parent) })?;
                // SAFETY: as above.
                nix::errno::Errno::result(unsafe { libc::fcntl(5, F_SETSIG, 40) })?;
                Ok(())
            })
    });
}

// Signals

#[apply(native_builds)] // qemu handles SIGPIPE, and exec makes that the default
fn sigpipe_ignored(build: Build) {
    transparent(build, &["signal13"], |run| run.ignored(Signal::SIGPIPE));
}

#[apply(native_builds)] // as above
fn sighup_ignored(build: Build) {
    transparent(build, &["signal1"], |run| run.ignored(Signal::SIGHUP));
}

#[apply(every_build)]
fn sigchld_ignored(build: Build) {
    transparent(build, &["signal17"], |run| run.ignored(Signal::SIGCHLD));
}

#[apply(native_builds)] // as above
fn every_signal_ignored(build: Build) {
    let shows: Vec<_> = [1, 2, 3, 10, 13, 15, 20, 21, 22].map(|it| format!("signal{it}")).into();
    let shows: Vec<_> = shows.iter().map(String::as_str).collect();
    transparent(build, &shows, |run| {
        let ignorable = |it: &Signal| !matches!(it, Signal::SIGKILL | Signal::SIGSTOP);
        Signal::iterator().filter(ignorable).fold(run, Run::ignored)
    });
}

#[apply(every_build)]
fn realtime_signals_blocked(build: Build) {
    transparent(build, &["signals.blocked"], |run| (34..=64).fold(run, Run::blocked));
}

#[apply(every_build)]
fn standard_signals_blocked(build: Build) {
    transparent(build, &["signals.blocked"], |run| (1..32).fold(run, Run::blocked));
}

#[apply(every_build)]
fn signals_pending(build: Build) {
    let shows = ["signals.blocked", "signals.pending"];
    transparent(build, &shows, |run| run.pending(libc::SIGUSR1).pending(libc::SIGPIPE).pending(40));
}

#[apply(every_build)]
fn timer_armed(build: Build) {
    transparent(build, &["timer.real"], |run| {
        run.before_exec(|| {
            // SAFETY: takes a number.
            unsafe { libc::alarm(1000) };
            Ok(())
        })
    });
}

// Environment

#[apply(every_build)]
fn environment_empty(build: Build) {
    transparent(build, &[], Run::empty_environ);
}

#[apply(every_build)]
fn environment_not_utf8(build: Build) {
    transparent(build, &[], |run| {
        run.entry(b"BAD=\xa3\xff\x80").entry(b"\xc3(=odd name").arg(b"\xfe")
    });
}

#[apply(native_builds)] // qemu drops entries without a name
fn environment_malformed(build: Build) {
    transparent(build, &[], |run| {
        let odd: [&[u8]; 9] =
            [b"", b"NO_VALUE", b"=", b"=C:=x", b"", b"A==", b"B= ", b"C=\n", b"\x01"];
        run.environ(odd).entry("my.env-x=1")
    });
}

#[apply(native_builds)] // qemu leaves one of each name
fn environment_with_duplicates(build: Build) {
    transparent(build, &[], |run| {
        run.environ(["A=1", "B=2", "A=3", "A=1", "B=2", "PATH=/x", "PATH="])
    });
}

#[apply(native_builds)] // qemu turns the order round
fn stamp_stays_in_its_place(build: Build) {
    let old = format!("{SETUP_DONE_NS}=1");
    for entries in [["", "A=1", "B=2"], ["A=1", "", "B=2"], ["A=1", "B=2", ""]] {
        transparent(build, &[], |run| {
            run.environ(entries.map(|it| if it.is_empty() { old.as_str() } else { it }))
        });
    }
}

#[apply(native_builds)] // as above
fn stamps_become_one(build: Build) {
    transparent(build, &[], |run| {
        let old = |value: &str| format!("{SETUP_DONE_NS}={value}");
        run.environ(["A=1".to_owned(), old("7"), old(""), "B=2".to_owned(), old("x"), old("7")])
    });
}

#[apply(every_build)]
fn names_like_the_stamps(build: Build) {
    transparent(build, &[], |run| {
        let names = ["x", "2=", ".=1"].map(|end| format!("{SETUP_DONE_NS}{end}=1"));
        let run = run.environ(names).entry(format!("X{SETUP_DONE_NS}=1"));
        run.entry(format!("{}=1", SETUP_DONE_NS.to_lowercase()))
    });
}

#[apply(native_builds)] // qemu drops it
fn name_of_the_stamp_without_a_value(build: Build) {
    transparent(build, &[], |run| run.environ([SETUP_DONE_NS, "A=1"]));
}

#[apply(every_build)]
fn arguments_by_the_hundred_thousand(build: Build) {
    transparent(build, &["limit.stack"], |run| {
        let stack = 64 << 20;
        run.args((0..100_000).map(|it| it.to_string())).limit(Resource::RLIMIT_STACK, stack, stack)
    });
}

// Processes, sessions, terminals

#[apply(every_build)]
fn first_process_of_a_namespace(build: Build) {
    let spaces = ["namespace.pid", "namespace.mnt"];
    let run = probed(build).under(["unshare", "--pid", "--fork", "--mount-proc"]);
    let seen = compare(&spaces, run, Running::wait);
    expect_shown(build, &["pid", "parent"], &seen);
    assert_eq!(seen.fact("pid"), "1");
}

#[apply(every_build)]
fn new_namespaces(build: Build) {
    let spaces = ["namespace.mnt", "namespace.uts", "namespace.ipc", "namespace.net"];
    let run = probed(build).under(["unshare", "--mount", "--uts", "--ipc", "--net"]);
    compare(&spaces, run, Running::wait);
}

#[apply(every_build)]
fn stopped_and_continued(build: Build) {
    let stops = ["sh", "-c", "kill -STOP $$; exec \"$@\"", "sh"];
    compare(&[], probed(build).under(stops), |running| {
        running.wait_stopped();
        running.signal(Signal::SIGCONT);
        running.wait()
    });
}

#[apply(every_build)]
fn session_of_its_own_without_a_terminal(build: Build) {
    transparent(build, &["session"], Run::new_session);
}

#[apply(every_build)]
fn on_a_terminal(build: Build) {
    let mut terminal = Terminal::new();
    transparent(build, &["tty", "fd0", "fd1", "fd2"], |run| run.on_terminal(&terminal));
    assert_eq!(terminal.read(), b"");
}

#[apply(every_build)]
fn child_left_running(build: Build) {
    transparent(build, &["children"], |run| {
        run.under(["sh", "-c", "sleep 60 & exec \"$@\"", "sh"])
    });
}

#[apply(every_build)]
fn parent_death_signal(build: Build) {
    transparent(build, &["parent.death.signal"], |run| {
        run.before_exec(|| Ok(prctl::set_pdeathsig(Signal::SIGUSR2)?))
    });
}

#[apply(every_build)]
fn subreaper(build: Build) {
    transparent(build, &["subreaper"], |run| {
        run.before_exec(|| Ok(prctl::set_child_subreaper(true)?))
    });
}

// Files

#[apply(every_build)]
fn file_mode_mask(build: Build) {
    transparent(build, &["umask"], |run| run.umask(0o077));
}

#[apply(every_build)]
fn another_working_directory(build: Build) {
    transparent(build, &["cwd"], |run| {
        let folder = run.folder().join("a folder\nwith a \u{fc} and \\");
        fs::create_dir_all(&folder).unwrap();
        run.cwd(folder)
    });
}

#[apply(every_build)]
fn working_directory_deleted(build: Build) {
    transparent(build, &["cwd"], |run| {
        let folder = tempfile::tempdir_in(run.folder()).unwrap();
        let gone = File::open(folder.path()).unwrap();
        drop(folder);
        run.before_exec(move || Ok(nix::unistd::fchdir(&gone)?))
    });
}

// Limits, priorities

#[apply(every_build)]
fn limits_lowered(build: Build) {
    let shows = ["limit.nofile", "limit.core", "limit.fsize", "limit.cpu", "limit.stack"];
    transparent(build, &shows, |run| {
        run.limit(Resource::RLIMIT_NOFILE, 123, 321)
            .limit(Resource::RLIMIT_CORE, 4096, 8192)
            .limit(Resource::RLIMIT_FSIZE, 1 << 20, 1 << 21)
            .limit(Resource::RLIMIT_CPU, 50, 60)
            .limit(Resource::RLIMIT_STACK, 1 << 20, 1 << 22)
            .limit(Resource::RLIMIT_MEMLOCK, 1 << 16, 1 << 16)
    });
}

#[apply(every_build)]
fn niceness(build: Build) {
    transparent(build, &["nice"], |run| run.nice(3));
}

#[apply(every_build)]
fn scheduler(build: Build) {
    transparent(build, &["scheduler"], |run| {
        run.under(["chrt", "--reset-on-fork", "--batch", "0"])
    });
}

#[apply(every_build)]
fn io_priority(build: Build) {
    transparent(build, &["ioprio"], |run| run.under(["ionice", "-c2", "-n6"]));
}

#[apply(every_build)]
fn processor_affinity(build: Build) {
    transparent(build, &["affinity"], |run| run.under(["taskset", "1"]));
}

#[apply(every_build)]
fn timer_slack(build: Build) {
    transparent(build, &["timer.slack"], |run| {
        run.before_exec(|| Ok(prctl::set_timerslack(123_456)?))
    });
}

#[apply(every_build)]
fn out_of_memory_score(build: Build) {
    transparent(build, &["oom_score_adj"], |run| run.under(["choom", "-n", "321", "--"]));
}

#[apply(every_build)]
fn core_dump_filter(build: Build) {
    transparent(build, &["coredump_filter"], |run| {
        run.before_exec(|| fs::write("/proc/self/coredump_filter", "0x7f"))
    });
}

// Identity, privileges

#[apply(every_build)]
fn unprivileged_user(build: Build) {
    let shows = ["uid", "gid", "capabilities.effective", "auxiliary.uid"];
    transparent(build, &shows, |run| run.user(65534));
}

#[apply(every_build)]
fn supplementary_groups(build: Build) {
    let set = ["setpriv", "--groups", "7,70000", "--regid", "12"];
    transparent(build, &["groups", "groups.1", "gid"], |run| run.under(set));
}

#[apply(every_build)]
fn capabilities(build: Build) {
    let shows = ["bounding", "permitted", "effective", "inheritable", "ambient"];
    let shows = shows.map(|set| format!("capabilities.{set}"));
    let shows: Vec<_> = shows.iter().map(String::as_str).collect();
    let set = [
        "setpriv",
        "--bounding-set=-all,+net_raw,+chown",
        "--inh-caps=-all,+net_raw",
        "--ambient-caps=-all,+net_raw",
        "--securebits=+noroot",
    ];
    transparent(build, &shows, |run| run.under(set));
}

#[apply(every_build)]
fn secure_bits(build: Build) {
    let set = ["setpriv", "--securebits=+noroot,+noroot_locked,+no_setuid_fixup"];
    transparent(build, &["securebits"], |run| run.under(set));
}

#[apply(every_build)]
fn no_new_privileges(build: Build) {
    transparent(build, &["no_new_privs"], |run| run.before_exec(|| Ok(prctl::set_no_new_privs()?)));
}

#[apply(every_build)]
fn execution_domain(build: Build) {
    transparent(build, &["personality"], |run| {
        run.before_exec(|| {
            let persona = Persona::ADDR_NO_RANDOMIZE | Persona::UNAME26;
            personality::set(persona)?;
            Ok(())
        })
    });
}

// What wrappers are known to get wrong

#[apply(every_build)]
fn exit_status_is_the_commands(build: Build) {
    gym_stamp(build).args(["sh", "-c", "exit 42"]).run().exits(42).says_nothing();
    gym_stamp(build).args(["sh", "-c", "kill -9 $$"]).run().exits(137).says_nothing();
    gym_stamp(build).args(["sh", "-c", "kill -PIPE $$"]).run().exits(141).says_nothing();
}

#[apply(every_build)]
fn a_shells_pid_stays(build: Build) {
    let run = gym_stamp(build).under(["sh", "-c", "echo $$; exec \"$@\"", "sh"]);
    let ended = run.args(["sh", "-c", "echo $$"]).run().exits(0);
    let pid = ended.pid;
    ended.prints(format!("{pid}\n{pid}\n"));
}

#[apply(every_build)]
fn sigterm_reaches_the_first_process_of_a_namespace(build: Build) {
    let handler = "trap 'exit 7' TERM; kill -TERM $$; sleep 60";
    let run = gym_stamp(build).under(["unshare", "--pid", "--fork", "--mount-proc"]);
    run.args(["sh", "-c", handler]).run().exits(7).says_nothing();
}

#[apply(every_build)]
fn sigterm_ends_the_command_itself(build: Build) {
    let running = gym_stamp(build).args(["sh", "-c", "echo here; exec sleep 61"]).spawn();
    let command = format!("/proc/{}/comm", running.pid());
    running.wait_until(|| fs::read(&command).is_ok_and(|name| name == b"sleep\n"));
    running.signal(Signal::SIGTERM);
    running.wait().exits(143).prints("here\n").says_nothing();
}

#[apply(every_build)]
fn its_own_name_decides_nothing(build: Build) {
    for name in ["foo", "", "--keep", "/venv/bin/python", "-sh"] {
        let run = gym_stamp(build).arg0(name).args(["sh", "-c", "echo \"$0\""]);
        run.run().exits(0).prints("sh\n").says_nothing();
    }
}

#[apply(every_build)]
fn the_command_is_in_the_foreground_of_its_terminal(build: Build) {
    let terminal = Terminal::new();
    let seen = probed(build).on_terminal(&terminal).run().seen();
    assert_eq!(seen.fact("tty.foreground"), "1");
}

// The comparison itself

#[test]
#[should_panic(expected = "0 stamps")]
fn a_wrapper_that_does_not_stamp_is_found_out() {
    compare(&[], with_streams(command("/usr/bin/env").probe()), Running::wait);
}

#[test]
fn a_wrapper_that_alters_something_is_found_out() {
    let wrappers = [
        ("signal1", "trap '' HUP"),
        ("limit.nofile", "ulimit -n 99"),
        ("umask", "umask 5"),
        ("cwd", "cd /"),
        ("fd7", "exec 7</dev/null"),
        ("fd0", "exec 0<&-"),
        ("fd0", "exec 0</dev/null"),
        ("fd1", "echo"),
    ];
    for (fact, alters) in wrappers {
        let run = with_streams(command("/usr/bin/env").probe());
        let run = run.without_gym_stamp();
        let plain = run.clone().run().seen();
        let script = format!("{alters}; exec \"$@\"");
        let altered = run.under(["sh", "-c", &script, "sh"]).run().seen();
        let differences = plain.differences(&altered);
        assert!(differences.iter().any(|it| it[2..].starts_with(fact)), "{alters}");
    }
}
