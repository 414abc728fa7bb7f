//! The ways of launching a command that are compared.

use std::ffi::{CString, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gym_stamp::contract::SETUP_DONE_NS;

use crate::builds::Build;
use crate::toolbox::{made_once, program, python_venv, succeed};

/// What a launch is known by in the report.
pub const UNWRAPPED: &str = "no wrapper";
pub const BARE_SHIM: &str = "the bare C shim: stamps and execs, no libc";
pub const GYM_STAMP: &str = "gym-stamp";
pub const ENV: &str = "env";

/// The name of the program that does nothing.
const NOTHING: &str = "nothing";

/// Beside PATH, about as many entries as a server is launched with.
const ENVIRONMENT: [&str; 15] = [
    "HOME=/",
    "USER=root",
    "LOGNAME=root",
    "SHELL=/bin/bash",
    "HOSTNAME=node-0001",
    "LANG=C.UTF-8",
    "TERM=xterm-256color",
    "PWD=/srv/gym",
    "SHLVL=1",
    "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7",
    "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317",
    "NEMO_GYM_OTEL_ENABLED=1",
    "NEMO_GYM_CONFIG_PATH=example_server",
    "NEMO_GYM_STARTUP_SPAWN_NS=1764555555000000000",
    "NEMO_GYM_STARTUP_TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
];

/// One way of launching the program that does nothing.
pub struct Launch {
    pub name: &'static str,
    pub words: Vec<CString>,
    pub environ: Vec<CString>,
    /// Whether the program finds a stamp of this moment in its environment.
    stamps: bool,
}

/// All of them, the one without a wrapper first.
pub fn all() -> Vec<Launch> {
    let bare = bare_programs();
    let venv = venv(&bare);

    let launch = |name, stamps, wrapper: Vec<OsString>, command: OsString| Launch {
        name,
        words: wrapper.into_iter().chain([command]).map(c_string).collect(),
        environ: environ(&bare),
        stamps,
    };
    let no_stamp = |name, wrapper| launch(name, false, wrapper, bare.join(NOTHING).into());
    let stamps = |name, wrapper| launch(name, true, wrapper, bare.join(NOTHING).into());
    let finds = |name, wrapper| launch(name, true, wrapper, NOTHING.into());

    let bare_program = |name| vec![bare.join(name).into_os_string()];
    let gym_stamp = |build: Build| vec![build.binary().into()];
    let gym_stamp_venv =
        vec![Build::Freestanding.binary().into(), "--venv".into(), venv.clone().into()];
    let installed = |name: &str, package: &str| program(name, package).into_os_string();
    let shell = |name: &str, line: &str| {
        let line = format!("{line} exec \"$@\"");
        vec![installed(name, name), "-c".into(), line.into(), name.into()]
    };
    let export = |value: &str| format!("export {SETUP_DONE_NS}={value} &&");
    let builtin = export("${EPOCHREALTIME/[.,]/}000");
    let date = export("$(date +%s%N)");
    let python = venv.join("bin/python");
    let today =
        export(&format!("$('{}' -c 'import time; print(time.time_ns())')", python.display()));

    vec![
        no_stamp(UNWRAPPED, vec![]),
        no_stamp("only execs: C, no libc", bare_program("only_exec")),
        stamps(BARE_SHIM, bare_program("bare_shim")),
        stamps(GYM_STAMP, gym_stamp(Build::Freestanding)),
        finds(
            "gym-stamp, finds the command in PATH's third folder",
            gym_stamp(Build::Freestanding),
        ),
        finds("gym-stamp --venv, finds the command in its bin", gym_stamp_venv),
        stamps("gym-stamp, portable build", gym_stamp(Build::Portable)),
        no_stamp(ENV, vec![installed("env", "coreutils")]),
        no_stamp("tini", vec![installed("tini", "tini"), "-s".into()]),
        no_stamp("bash -c, no stamp", shell("bash", "")),
        stamps("bash -c, EPOCHREALTIME", shell("bash", &builtin)),
        stamps("bash -c, date", shell("bash", &date)),
        stamps("dash -c, date", shell("dash", &date)),
        stamps("bash -c, .venv/bin/python: today's line", shell("bash", &today)),
    ]
}

impl Launch {
    /// Fails unless it stamps, or does not, as it should.
    pub fn check(&self) {
        let (command, wrapper) = self.words.split_last().unwrap();
        // Looked for as the command is that it stands in for.
        let printenv = match command.as_bytes() {
            name if name == NOTHING.as_bytes() => PathBuf::from("printenv"),
            _ => program("printenv", "coreutils"),
        };
        let wrapper = wrapper.iter().map(|word| OsString::from_vec(word.as_bytes().to_vec()));
        let mut words = wrapper.chain([printenv.into(), SETUP_DONE_NS.into()]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).env_clear();
        for entry in &self.environ {
            let (name, value) = entry.to_str().unwrap().split_once('=').unwrap();
            command.env(name, value);
        }
        let output = command.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        let age = printed.trim().parse().ok().and_then(|ns| {
            let stamped = UNIX_EPOCH + Duration::from_nanos(ns);
            SystemTime::now().duration_since(stamped).ok()
        });
        let stamps = age.is_some_and(|age| age < Duration::from_secs(60));
        assert!(
            stamps == self.stamps && output.stderr.is_empty(),
            "'{}' does not do what is to be timed: {command:?}: {output:?}",
            self.name
        );
    }
}

/// The C programs of this folder, in one of their own that was made once.
fn bare_programs() -> PathBuf {
    let header = include_str!("bare.h");
    let sources = [
        (NOTHING, include_str!("nothing.c")),
        ("only_exec", include_str!("only_exec.c")),
        ("bare_shim", include_str!("bare_shim.c")),
    ];
    // The compiler must not make calls of loops, or checks of its own, that a libc would be for.
    let flags = [
        "-O2",
        "-nostdlib",
        "-static",
        "-ffreestanding",
        "-fno-stack-protector",
        "-Wall",
        "-Werror",
    ];
    made_once("exec-latency", &(header, sources, flags), |folder| {
        fs::write(folder.join("bare.h"), header).unwrap();
        for (name, source) in sources {
            let path = folder.join(name).with_extension("c");
            fs::write(&path, source).unwrap();
            let mut cc = Command::new(program("cc", "gcc libc6-dev"));
            succeed(cc.args(flags).arg("-o").arg(folder.join(name)).arg(path));
        }
    })
}

/// A venv that has the program that does nothing among its own.
fn venv(bare: &Path) -> PathBuf {
    let plain = python_venv("plain", &[]);
    made_once("exec-latency-venv", &(&plain, bare), |folder| {
        let python = plain.join("bin/python");
        succeed(Command::new(python).args(["-m", "venv", "--without-pip"]).arg(folder));
        fs::copy(bare.join(NOTHING), folder.join("bin").join(NOTHING)).unwrap();
    })
}

fn environ(bare: &Path) -> Vec<CString> {
    let path = format!(
        "PATH=/usr/local/sbin:/usr/local/bin:{}:/usr/sbin:/usr/bin:/sbin:/bin",
        bare.display()
    );
    ENVIRONMENT.map(str::to_owned).into_iter().chain([path]).map(c_string).collect()
}

fn c_string(word: impl Into<OsString>) -> CString {
    CString::new(word.into().into_vec()).unwrap()
}
