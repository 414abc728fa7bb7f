//! The suite's own limit for each test.

use std::process::{Command, Stdio};

use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::support::limit::LIMIT_VARIABLE;
use crate::support::toolbox::spawn;

/// Prints the process that it then waits for.
#[test]
#[ignore = "run by the test below"]
fn hangs() {
    let mut child = spawn(Command::new("sleep").arg("600")).unwrap();
    println!("sleep is {}.", child.id());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_test_that_hangs_is_named_and_what_it_started_is_killed() {
    let mut suite = Command::new(std::env::current_exe().unwrap());
    suite.args(["--ignored", "--exact", "limit::hangs", "--test-threads=2"]);
    suite.env(LIMIT_VARIABLE, "1").stdout(Stdio::piped()).stderr(Stdio::piped());
    let ended = spawn(&mut suite).unwrap().wait_with_output().unwrap();
    let [stdout, stderr] = [ended.stdout, ended.stderr].map(|it| String::from_utf8(it).unwrap());
    let words = "test limit: limit::hangs takes longer than 1 s: killing what it started\n";
    assert_eq!(ended.status.code(), Some(101), "{stdout}{stderr}");
    assert!(stderr.contains(words), "{stdout}{stderr}");
    let (_, rest) = stdout.split_once("sleep is ").unwrap();
    let pid = rest.split_once('.').unwrap().0.parse().unwrap();
    assert!(kill(Pid::from_raw(pid), None).is_err(), "process {pid} is left\n{stdout}{stderr}");
}
