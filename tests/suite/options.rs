//! The command line: what is an option, what is the command's, and what is said of a wrong one.

use std::fs::{self, File};
use std::io::Read;

use macro_rules_attribute::apply;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::support::{
    Build, Run, every_build, expect_time_of, full_pipe, gym_stamp, native_builds, without_reader,
};

/// A folder that passes for a venv.
fn with_venv(run: Run, name: &str) -> Run {
    run.file(format!("{name}/pyvenv.cfg"), 0o644, "").file(format!("{name}/bin/python"), 0o755, "")
}

/// `args` are refused: status 125, one line with all of `words`, and the command in them that
/// would leave the file `ran` has not been run.
#[track_caller]
fn refused(build: Build, args: &[&str], words: &[&str]) {
    let ended = gym_stamp(build).args(args.iter().copied()).run().fails(125, words);
    assert!(!ended.folder().join("ran").exists(), "the command was run\n{ended}");
}

// What is whose

#[apply(every_build)]
fn options_end_at_the_command(build: Build) {
    let words = ["--venv", "x", "--keep", "-v", "--help", "--", "--now", "-"];
    let echoed = format!("{}\n", words.join(" "));
    gym_stamp(build).arg("echo").args(words).run().exits(0).prints(echoed).says_nothing();
}

#[apply(every_build)]
fn options_end_at_two_dashes(build: Build) {
    gym_stamp(build).args(["--", "echo", "--", "--"]).run().exits(0).prints("-- --\n");
    gym_stamp(build).args(["--keep", "--", "echo", "-v"]).run().exits(0).prints("-v\n");
    let run = gym_stamp(build).file("bin/--keep", 0o755, "#!/bin/sh\necho its own $1\n");
    let run = run.environ(["PATH=bin:/usr/bin:/bin"]);
    run.args(["--", "--keep", "-v"]).run().exits(0).prints("its own -v\n").says_nothing();
}

#[apply(every_build)]
fn one_dash_is_a_command(build: Build) {
    let run = gym_stamp(build).file("bin/-", 0o755, "#!/bin/sh\necho dash\n");
    run.environ(["PATH=bin:/bin"]).arg("-").run().exits(0).prints("dash\n");
}

#[apply(every_build)]
fn arguments_stay_as_typed(build: Build) {
    let words = ["a b", "", "\"", "'", "<8.3", "*", "$HOME", "\\n", "`id`", "\n"];
    let printed: String = words.iter().map(|word| format!("<{word}>")).collect();
    gym_stamp(build).args(["printf", "<%s>"]).args(words).run().exits(0).prints(printed);
}

#[apply(every_build)]
fn every_option_at_once(build: Build) {
    let run = with_venv(gym_stamp(build), "v");
    let options = ["--keep", "--spawn", "--verbose", "-v", "--venv", "v", "--"];
    run.args(options).args(["sh", "-c", "echo ran"]).run().exits(0).prints("ran\n");
}

// Values

#[apply(every_build)]
fn a_value_comes_after_an_equals_sign_or_alone(build: Build) {
    for form in [&["--venv=v"][..], &["--venv", "v"], &["--venv=/", "--venv", "v"]] {
        let run = with_venv(gym_stamp(build), "v").args(form.iter().copied());
        let expected = format!("{}/v\n", run.folder().display());
        run.args(["sh", "-c", "echo $VIRTUAL_ENV"]).run().exits(0).prints(expected);
    }
}

#[apply(every_build)]
fn the_last_value_wins(build: Build) {
    let run = with_venv(with_venv(gym_stamp(build), "a=b"), "v");
    let expected = format!("{}/a=b\n", run.folder().display());
    run.args(["--venv", "nowhere", "--venv=v", "--venv=a=b", "sh", "-c", "echo $VIRTUAL_ENV"])
        .run()
        .exits(0)
        .prints(expected);
}

#[apply(every_build)]
fn options_may_be_repeated(build: Build) {
    gym_stamp(build).args(["--keep", "--keep", "--spawn", "--spawn", "true"]).run().exits(0);
}

#[apply(every_build)]
fn a_missing_value_is_an_error(build: Build) {
    refused(build, &["--venv"], &["--venv", "DIR"]);
    refused(build, &["--keep", "--venv"], &["--venv", "DIR"]);
    refused(build, &["--venv=", "touch", "ran"], &["--venv", "DIR"]);
    refused(build, &["--venv", "", "touch", "ran"], &["--venv", "DIR"]);
}

#[apply(every_build)]
fn a_wrong_value_is_an_error(build: Build) {
    refused(build, &["--venv", "nowhere", "touch", "ran"], &["--venv", "nowhere", "pyvenv.cfg"]);
    refused(build, &["--venv", "--", "touch", "ran"], &["--venv", "--"]);
}

#[apply(every_build)]
fn a_value_where_none_belongs_is_an_error(build: Build) {
    for option in ["--keep", "--spawn", "--now", "--verbose", "--help", "--version"] {
        for value in ["=1", "="] {
            let given = format!("{option}{value}");
            refused(build, &[&given, "touch", "ran"], &[option, "value"]);
        }
    }
    for (letter, option) in [("-v", "--verbose"), ("-h", "--help"), ("-V", "--version")] {
        let given = format!("{letter}=1");
        refused(build, &[&given, "touch", "ran"], &[option, "value"]);
    }
}

// Wrong options

#[apply(every_build)]
fn the_nearest_option_is_named(build: Build) {
    let slips = [
        ("--kep", "--keep"),
        ("--keeep", "--keep"),
        ("--KEEP", "--keep"),
        ("--spwan", "--spawn"),
        ("--span", "--spawn"),
        ("--ven", "--venv"),
        ("--env", "--venv"),
        ("--vnev=x", "--venv"),
        ("--verbos", "--verbose"),
        ("--verison", "--version"),
        ("--nwo", "--now"),
        ("--halp", "--help"),
        ("-help", "--help"),
        ("--usage", "--spawn"),
        ("-x", "--now"),
        ("-vv", "--venv"),
        ("---", "--spawn"),
        ("--keep-alive=9", "--keep"),
    ];
    for (slip, nearest) in slips {
        let words = format!("'{slip}': did you mean {nearest}? ");
        refused(build, &[slip, "touch", "ran"], &[&words]);
    }
}

#[apply(every_build)]
fn a_wrong_option_of_any_bytes_makes_one_line(build: Build) {
    let odd: [&[u8]; 4] = [b"--ke\nep", b"--\r\x1b[31m", b"--\xff\xfe", &[b'-'; 100_000]];
    for option in odd {
        gym_stamp(build).arg(option).args(["touch", "ran"]).run().exits(125).prints("").says_line();
    }
}

// No command

#[apply(every_build)]
fn no_command_is_an_error(build: Build) {
    for args in [&[][..], &["--"], &["--keep"], &["-v", "--"], &["--spawn", "--keep", "--"]] {
        refused(build, args, &["COMMAND"]);
    }
}

#[apply(native_builds)] // qemu needs a name of its own
fn not_even_a_name_is_an_error(build: Build) {
    gym_stamp(build).without_argv().run().fails(125, &["COMMAND"]);
    gym_stamp(build).without_argv().empty_environ().run().fails(125, &["COMMAND"]);
}

// Printing

#[apply(every_build)]
fn now_prints_the_time(build: Build) {
    let ended = gym_stamp(build).arg("--now").run().exits(0).says_nothing();
    let digits = ended.stdout.strip_suffix(b"\n").unwrap();
    expect_time_of(&ended, digits);
}

#[apply(every_build)]
fn now_goes_alone(build: Build) {
    for args in [
        &["--now", "touch", "ran"][..],
        &["--now", "--", "touch", "ran"],
        &["--now", "--keep"],
        &["--spawn", "--now"],
        &["-v", "--now", "touch", "ran"],
        &["--now", ""],
    ] {
        refused(build, args, &["--now"]);
    }
}

#[apply(every_build)]
fn help_fits_a_screen(build: Build) {
    let ended = gym_stamp(build).arg("--help").run().exits(0).says_nothing();
    let help = ended.stdout_text();
    assert!(help.ends_with('\n') && help.lines().count() <= 24, "{help}");
    assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
    let options = ["--spawn", "--keep", "--venv DIR", "--now", "-v, --verbose", "-h, --help"];
    for told in options.into_iter().chain(["-V, --version", "COMMAND", "125", "126", "127"]) {
        assert!(help.contains(told), "no {told} in\n{help}");
    }
    gym_stamp(build).arg("-h").run().exits(0).prints(&help);
    gym_stamp(build).args(["--keep", "--help", "touch", "ran"]).run().exits(0).prints(&help);
}

#[apply(every_build)]
fn version_is_the_packages(build: Build) {
    let expected = concat!("gym-stamp ", env!("CARGO_PKG_VERSION"), "\n");
    for option in ["-V", "--version"] {
        gym_stamp(build).arg(option).run().exits(0).prints(expected).says_nothing();
    }
}

#[cfg(target_os = "linux")] // has /dev/full
#[apply(every_build)]
fn what_cannot_be_printed_is_an_error(build: Build) {
    for option in ["--now", "--help", "--version"] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        gym_stamp(build).arg(option).fd(1, full).run().fails(125, &["stdout", "space"]);
        gym_stamp(build).arg(option).closed(1).run().fails(125, &["stdout"]);
    }
}

#[apply(every_build)]
fn a_printing_process_ends_by_sigpipe_as_others_do(build: Build) {
    // Made in the child: for a moment, those that other tests fork have the reader too.
    let run = gym_stamp(build).arg("--help").before_exec(|| {
        let (reader, writer) = nix::unistd::pipe()?;
        drop(reader);
        nix::unistd::dup2_stdout(writer)?;
        Ok(())
    });
    run.run().exits(128 + 13).says_nothing();
}

#[cfg(target_os = "linux")] // as above
#[apply(every_build)]
fn an_error_nobody_can_read_keeps_its_status(build: Build) {
    let full = File::options().write(true).open("/dev/full").unwrap();
    gym_stamp(build).arg("--kep").fd(2, full).run().exits(125).prints("");
    gym_stamp(build).arg("--kep").closed(2).run().exits(125).prints("");
    gym_stamp(build).arg("--kep").fd(2, without_reader()).run().exits(125).prints("");
    let (_reader, full) = full_pipe();
    gym_stamp(build).arg("--kep").fd(2, full).run().exits(125).prints("");
}

#[apply(every_build)]
fn an_error_waits_a_moment_for_a_reader(build: Build) {
    let said = || {
        let (reader, full) = full_pipe();
        let running = gym_stamp(build).arg("--kep").fd(2, full).spawn();
        // It waits, or it has ended without having waited.
        let stat = format!("/proc/{}/stat", running.pid());
        running.wait_until(|| {
            let stat = fs::read_to_string(&stat).unwrap();
            let state = stat.rsplit(')').next().unwrap();
            state.starts_with(" S") || state.starts_with(" Z")
        });
        let mut reader = File::from(reader);
        // All of it at once: where there is room for little, the line may not get through.
        let mut before = vec![0; 1 << 20];
        let length = reader.read(&mut before).unwrap();
        running.wait().exits(125).prints("");
        fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        let mut said = before[..length].to_vec();
        // It ends with "would block".
        let _ = reader.read_to_end(&mut said);
        String::from_utf8(said).unwrap().trim_start_matches('x').to_owned()
    };
    // On a busy machine that moment may be over before we look.
    let heard = (0..10).map(|_| said()).find(|said| !said.is_empty());
    let heard = heard.expect("it never waits");
    assert!(heard.starts_with("gym-stamp: ") && heard.ends_with('\n'), "{heard}");
}
