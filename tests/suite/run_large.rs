//! `gym-startup run` with a fleet of three hundred.

use std::fmt::Write;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::support::startup::startup;
use crate::support::toolbox::free_port;

const SERVERS: usize = 300;
const LISTENING_WAIT: Duration = Duration::from_secs(4);

/// A server in C: three hundred Pythons would measure Python.
const SERVER: &str = r#"
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int argc, char **argv) {
    const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    while (access(argv[2], F_OK)) usleep(200000);
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in address = {AF_INET, htons(atoi(argv[1])), {htonl(INADDR_LOOPBACK)}};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 16)) return 9;
    for (;;) {
        int connection = accept(listener, 0, 0);
        char request[4096];
        if (read(connection, request, sizeof request) > 0)
            write(connection, answer, sizeof answer - 1);
        close(connection);
    }
}
"#;

#[test]
fn three_hundred_servers_start_are_seen_ready_and_end() {
    let cc = crate::support::toolbox::program("cc", "gcc libc6-dev");
    let mut startup = startup().with(|run| run.file("server.c", 0o644, SERVER));
    let folder = startup.folder().to_owned();
    let mut compile = std::process::Command::new(cc);
    crate::support::toolbox::succeed(
        compile.args(["-O1", "-w", "-o"]).arg(folder.join("server")).arg(folder.join("server.c")),
    );
    let mut taken = std::collections::HashSet::new();
    while taken.len() < SERVERS {
        taken.insert(free_port());
    }
    let mut fleet = String::new();
    for (number, port) in taken.iter().enumerate() {
        writeln!(
            fleet,
            "[[server]]\nname = \"s{number}\"\ncommand = [\"./gym-stamp\", \"./server\", \
             \"{port}\", \"go\"]\nready = \"http://127.0.0.1:{port}/\""
        )
        .unwrap();
    }
    startup = startup.with(|run| run.deadline(Duration::from_secs(180))).fleet(&fleet);
    let started = startup.args(["--quiet"]).spawn().until(SERVERS, "./server");

    // Nobody listens yet: what does looking for them take?
    thread::sleep(Duration::from_secs(1));
    let (front, keeper) = (started.pid(), started.keeper());
    let before = cpu_ticks(front) + cpu_ticks(keeper);
    let since = Instant::now();
    thread::sleep(LISTENING_WAIT);
    let used = (cpu_ticks(front) + cpu_ticks(keeper) - before) as f64 / 100.0;
    let share = used / since.elapsed().as_secs_f64();
    let memory = resident_kib(front) + resident_kib(keeper);
    fs::write(started.folder().join("go"), "").unwrap();
    let started = started.recorded();
    let at_end = resident_kib(front) + resident_kib(keeper);
    println!("{:.1} % of a core, {memory} KiB, {at_end} KiB when ready", share * 100.0);
    // Twice what is promised of a quiet machine: this one has other things to do.
    assert!(share < 0.20, "{share}");
    assert!(memory.max(at_end) < 128 * 1024, "{memory} {at_end}");

    let over = started.signal(Signal::SIGINT).wait().exits(130).outcome("ready");
    let trace = over.trace();
    assert_eq!(trace.named("gym.startup.server").len(), SERVERS);
    assert_eq!(trace.named("gym.startup.server.venv_setup").len(), SERVERS);
    assert_eq!(trace.named("gym.startup.server.server_start").len(), SERVERS);
}

/// In hundredths of a second.
fn cpu_ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn resident_kib(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
