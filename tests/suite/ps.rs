//! `gym-startup ps` says of real servers what their environments hold.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use insta::assert_snapshot;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::example::{Dockerfile, Example};
use crate::support::toolbox::{made_once, program, succeed};
use crate::support::{Build, Ended, Run, command, now_ns};

const SPAWN: &str = "NEMO_GYM_STARTUP_SPAWN_NS";
const SETUP_DONE: &str = "NEMO_GYM_STARTUP_SETUP_DONE_NS";

/// Forks as many as it is told to, says so, and waits with them.
const CROWD: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    for (int left = atoi(argv[1]); left > 0; left--)
        if (fork() == 0) { pause(); return 0; }
    puts("here");
    fflush(stdout);
    pause();
}
"#;

fn ps() -> Run {
    command(env!("CARGO_BIN_EXE_gym-startup")).arg("ps")
}

/// What `ps` says where nobody is but what `script` starts, which runs it by `"$@"`.
fn alone(script: &str, args: &[&str]) -> Ended {
    let unshare = program("unshare", "util-linux");
    let wrapper = ["--pid", "--fork", "--mount-proc", "--kill-child", "bash", "-c", script, "bash"];
    let run = ps().args(args.iter().copied()).under([unshare.to_str().unwrap()]).under(wrapper);
    run.var("TZ", "UTC").run()
}

#[track_caller]
fn rows(ended: &Ended) -> Vec<Value> {
    let rows: Value = serde_json::from_slice(&ended.stdout).unwrap_or_else(|_| panic!("{ended}"));
    rows.as_array().unwrap().clone()
}

/// The variables of the contract in the environment of the process `pid`.
pub fn environment(pid: i32) -> BTreeMap<String, String> {
    let environ = String::from_utf8(fs::read(format!("/proc/{pid}/environ")).unwrap()).unwrap();
    let variables = environ.split('\0').filter_map(|entry| entry.split_once('='));
    let ours = variables.filter(|(name, _)| name.starts_with("NEMO_GYM_STARTUP_"));
    ours.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The row of the process `pid`, which tells all that its environment holds, and is the only one of
/// its launch.
#[track_caller]
fn row_of(pid: i32) -> Value {
    let ended = ps().arg("--json").run().exits(0);
    let rows = rows(&ended);
    let row = rows.iter().find(|row| row["pid"] == pid).unwrap_or_else(|| panic!("{ended}"));
    let told: BTreeMap<String, String> =
        serde_json::from_value(row["environment"].clone()).unwrap();
    let holds = environment(pid);
    assert_eq!(told, holds);
    let (spawn_ns, setup_done_ns) = (&holds[SPAWN], &holds[SETUP_DONE]);
    assert_eq!(row["spawn_ns"].to_string(), *spawn_ns);
    assert_eq!(row["setup_done_ns"].to_string(), *setup_done_ns);
    let setup_ns = setup_done_ns.parse::<u64>().unwrap() - spawn_ns.parse::<u64>().unwrap();
    assert_eq!(row["venv_setup_ns"], setup_ns);
    assert_eq!(row["in_setup"], false);
    assert_eq!(row["worker"], false);
    assert_eq!(row["ignored"], Value::Null);
    assert_eq!(row["name"], "uvicorn");
    let of_its_launch = rows.iter().filter(|it| it["spawn_ns"] == row["spawn_ns"]);
    assert_eq!(of_its_launch.count(), 1, "{ended}");
    row.clone()
}

#[test]
fn a_server_under_its_launch_script() {
    let example = Example::launched_by("./launch.sh").with_venv();
    let server = example.entry(format!("{SPAWN}={}", now_ns())).start().answers();
    let row = row_of(server.pid());
    assert_eq!(row["spawn_ns"], server.stamp(SPAWN));
    assert_eq!(row["setup_done_ns"], server.stamp(SETUP_DONE));
    assert_eq!(row["environment"].as_object().unwrap().len(), 2);
}

#[test]
fn a_server_behind_a_log_pipeline() {
    let lines = "set -o pipefail; (./launch.sh) 2>&1 | tee -a LOG";
    let example = Example::launched_by(program("bash", "bash")).with_venv();
    let example = example.entry(format!("{SPAWN}={}", now_ns())).args(["-c", lines]);
    let server = example.start().answers();
    row_of(server.pid());
}

#[test]
fn a_server_that_is_process_1_of_a_container() {
    let dockerfile = Dockerfile::read();
    let example = Example::launched_by(program("unshare", "util-linux")).with_venv();
    let command = dockerfile.command_on(example.port);
    let example = example.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
    let server = example.args(&dockerfile.entrypoint).args(&command).start().answers();
    row_of(server.pid());
}

#[test]
fn a_uvicorn_with_workers_is_its_main_process() {
    let example = Example::launched_by("./launch.sh").with_venv();
    let example = example.entry(format!("{SPAWN}={}", now_ns())).args(["--workers", "2"]);
    let server = example.start().answers();
    let main = server.running.pid();
    let children = || {
        let children = fs::read_to_string(format!("/proc/{main}/task/{main}/children")).unwrap();
        let pids = children.split_whitespace().map(|pid| pid.parse().unwrap());
        pids.filter(|&pid| !environment(pid).is_empty()).count()
    };
    // Two workers, and Python's resource tracker.
    server.running.wait_until(|| children() >= 3);
    row_of(main);
}

#[test]
fn a_launch_in_setup_is_one_row_and_then_its_server_is() {
    let gym_stamp = Build::Freestanding.binary().display().to_string();
    let launch = format!(
        "export {SPAWN}=$(($(date +%s%N) - 5000000000)); \
         bash -c '(touch began; while [ ! -e go-on ]; do sleep 0.01; done; \
         exec {gym_stamp} sleep 1000) | tee log' & \
         until [ -e began ]; do sleep 0.01; done; \"$@\"; touch go-on; \
         until grep -qsa {SETUP_DONE}= /proc/[0-9]*/environ; do sleep 0.01; done; \
         unset {SPAWN}; exec \"$@\""
    );
    let ended = alone(&launch, &["--json"]).exits(0);
    let text = ended.stdout_text();
    let mut texts = serde_json::Deserializer::from_str(&text).into_iter::<Vec<Value>>();
    let [before, after] = [(); 2].map(|()| texts.next().unwrap_or_else(|| panic!("{ended}")));
    let ([before], [after]) = (&*before.unwrap(), &*after.unwrap()) else { panic!("{ended}") };
    let running_ns = before["running_ns"].as_u64().unwrap();
    assert!((5_000_000_000..65_000_000_000).contains(&running_ns), "{ended}");
    assert_eq!(before["in_setup"], true);
    assert_eq!(before["venv_setup_ns"], Value::Null);
    assert_eq!(after["in_setup"], false);
    assert_eq!(after["name"], "sleep");
    assert_eq!(after["spawn_ns"], before["spawn_ns"]);
}

/// A script that starts a `sleep` for each of `environments` and runs the rest of its words when all
/// are there.
fn sleeping(environments: &[String]) -> String {
    let mut script = String::new();
    for environment in environments {
        script.push_str(&format!("env {environment} sleep 1000 &\n"));
    }
    let count = environments.len();
    script
        + &format!(
            "until [ $(grep -las NEMO_GYM_STARTUP_ /proc/[0-9]*/environ | grep -c .) = {count} ]; do :; done; exec \"$@\""
        )
}

#[test]
fn the_table_is_sorted_by_spawn_and_says_what_is_ignored() {
    let large = "LARGE=$(head -c 100000 /dev/zero | tr '\\0' x)";
    let script = sleeping(&[
        format!(
            "{SPAWN}=1700000100000000000 {SETUP_DONE}=1700000161500000000 IS_NEMO_GYM_FASTAPI_WORKER=1 NEMO_GYM_CONFIG_PATH=reward"
        ),
        format!(
            "{SPAWN}=1700000000000000000 {SETUP_DONE}=1700000012000000000 NEMO_GYM_CONFIG_PATH=$'jud\\e[31mge'"
        ),
        format!("{SPAWN}=1700000001000000000 {SETUP_DONE}=1700000000000000000"),
        format!("{SPAWN}=1700000002000000000 {SETUP_DONE}=soon {large}"),
        format!("{large} {SPAWN}=1700000003000000000 {SETUP_DONE}="),
        format!("{SETUP_DONE}=1700000000000000000"),
        format!("{SPAWN}=0"),
        format!("{SPAWN}=1700000200000000000"),
    ]);
    let ended = alone(&script, &[]).exits(0).says("");
    // Pids and how long they have run are others each time.
    let text = ended.stdout_text();
    let after = |header: &str| text.find(header).unwrap() + header.len();
    let (pid, setup, since) = (after("PID"), after("VENV SETUP"), after("SINCE"));
    let lines = text.lines().map(|line| {
        let rest = line.get(since..).unwrap_or_default();
        format!("{} …{rest}", &line[pid + 2..setup.min(line.len())])
    });
    let told = lines.collect::<Vec<_>>().join("\n");
    assert_snapshot!(told.replace(SPAWN, "SPAWN").replace(SETUP_DONE, "DONE"), @"
    NAME             SPAWNED              VENV SETUP …
    jud?[31mge       2023-11-14 22:13:20      12.0 s …
    sleep            2023-11-14 22:13:21             …  servers ignore DONE: it is 1.00 s before SPAWN
    sleep            2023-11-14 22:13:22             …  servers ignore DONE: it is not a number
    sleep            2023-11-14 22:13:23             …  servers ignore DONE: it is empty
    reward (worker)  2023-11-14 22:15:00      1m 02s …
    sleep            2023-11-14 22:16:40             …  the end of its setup is not stamped yet
    sleep                                            …  servers ignore DONE: SPAWN is not set
    sleep                                            …  servers ignore SPAWN: it is not greater than zero
    ");
}

#[test]
fn a_stamp_in_the_future_is_ignored() {
    let later = "8000000000000000000";
    let script = sleeping(&[
        format!("{SPAWN}=1700000000000000000 {SETUP_DONE}={later}"),
        format!("{SPAWN}={later} {SETUP_DONE}=1700000000000000000"),
    ]);
    let ended = alone(&script, &["--json"]).exits(0);
    let rows = rows(&ended);
    let [one, other] = &rows[..] else { panic!("{ended}") };
    for (row, subject) in [
        (one, format!("servers ignore {SETUP_DONE}: it is ")),
        (other, format!("servers ignore both stamps: {SPAWN} is ")),
    ] {
        let why = row["ignored"].as_str().unwrap();
        let ahead = why.strip_prefix(&subject).and_then(|why| why.strip_suffix("m in the future"));
        assert!(ahead.is_some_and(|ahead| ahead.contains("h ")), "{ended}");
        assert_eq!(row["venv_setup_ns"], Value::Null);
        assert!(row["running_ns"].as_u64().unwrap() < 60_000_000_000, "{ended}");
    }
}

#[test]
fn nothing_stamped_is_said() {
    let nothing = "gym-startup: no process that can be seen is stamped\n";
    alone("exec \"$@\"", &[]).exits(0).prints("").says(nothing);
    alone("exec \"$@\"", &["--json"]).exits(0).prints("[]\n").says(nothing);
}

#[test]
fn processes_of_others_are_counted() {
    let stamped = command("/bin/sleep").arg("1000").entry(format!("{SPAWN}=1")).spawn();
    stamped.wait_until(|| !environment(stamped.pid()).is_empty());
    let ended = ps().user(65534).run().exits(0);
    let text = ended.stderr_text();
    let count = text.lines().find_map(|line| {
        let line = line.strip_prefix("gym-startup: ")?;
        line.strip_suffix(" processes of other users could not be read: run as root to see them")
    });
    assert!(count.is_some_and(|count| count.parse::<u32>().unwrap() > 1), "{ended}");
    assert!(!ended.stdout_text().contains("sleep"), "{ended}");
    stamped.signal(Signal::SIGKILL);
}

#[test]
fn processes_that_are_hidden_are_told_of() {
    let script = "mount -t proc -o hidepid=2 proc /proc; \
                  exec setpriv --reuid 65534 --regid 65534 --clear-groups ./\"${1##*/}\" ps";
    let unshare = program("unshare", "util-linux");
    let wrapper = [unshare.to_str().unwrap(), "--mount", "sh", "-c", script, "sh"];
    // Anybody may read the copy.
    let copy = fs::read(env!("CARGO_BIN_EXE_gym-startup")).unwrap();
    ps().file("gym-startup", 0o755, copy).under(wrapper).run().exits(0).prints("").says(
        "gym-startup: no process that can be seen is stamped\n\
         gym-startup: processes of other users are hidden here (hidepid): run as root to see them\n",
    );
}

/// In a release build it is under 0.3 s, which benches/ps.rs measures.
#[test]
fn five_thousand_processes_are_looked_at_in_no_time() {
    let folder = made_once("crowd", &CROWD, |folder| {
        let source = folder.join("crowd.c");
        fs::write(&source, CROWD).unwrap();
        let cc = program("cc", "gcc");
        succeed(
            Command::new(cc).args(["-static", "-O1", "-o"]).arg(folder.join("crowd")).arg(source),
        );
    });
    let crowd: PathBuf = folder.join("crowd");
    let script = format!(
        "exec 3< <({SPAWN}=1 exec {0} 2500); exec 4< <(exec {0} 2500); read -u 3; read -u 4; \
         began=$(date +%s%N); \"$@\"; echo $(($(date +%s%N) - began)) >&2",
        crowd.display()
    );
    let ended = alone(&script, &["--json"]).exits(0);
    let took = Duration::from_nanos(ended.stderr_text().trim().parse().unwrap());
    println!("{took:?}");
    let rows = rows(&ended);
    assert_eq!(rows.len(), 1, "{ended}");
    assert_eq!(rows[0]["name"], "crowd");
    // What it takes is for benches/ps.rs to say.
    assert!(took < Duration::from_secs(60), "{took:?}");
}
