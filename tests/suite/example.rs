//! The examples of `shell/examples`, with a real uvicorn behind them, on loopback.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[cfg(feature = "cli")]
use crate::support::startup::{Trace, attribute};
use crate::support::toolbox::{download, free_port, made_once, program, python_venv, succeed};
use crate::support::{Build, Bytes, Ended, Run, Running, command, now_ns, write_file};

const SPAWN: &str = "NEMO_GYM_STARTUP_SPAWN_NS";
const SETUP_DONE: &str = "NEMO_GYM_STARTUP_SETUP_DONE_NS";
/// A stamp that an outer launch left behind.
const OUTER: &str = "NEMO_GYM_STARTUP_SETUP_DONE_NS=1700000000000000001";
/// A fresh venv with its packages, or a build of `gym-stamp`, on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(300);

#[test]
fn launch_sh_leads_from_nothing_to_a_server_with_its_stamp() {
    let spawned_ns = now_ns();
    let example = Example::launched_by("./launch.sh").entry(OUTER);
    let server = example.entry(format!("{SPAWN}={spawned_ns}")).start().answers();
    let pid = server.running.pid();

    assert_eq!(server.pid(), pid, "launch.sh has become the server");
    server.was_stamped_between_setup_and_interpreter(pid);
    assert_eq!(server.notes("gym-stamp").len(), 1);
    let setup_done_ns = server.stamp(SETUP_DONE);
    let setup: Vec<_> = server.notes("python").into_iter().filter(|it| it.pid != pid).collect();
    assert!(!setup.is_empty(), "Python made the venv");
    for step in setup {
        assert!(step.ns < setup_done_ns, "{step:?} of the setup is after {setup_done_ns}");
    }
    assert_eq!(server.stamp(SPAWN), spawned_ns);
}

/// The main job's command, with the fleet as it is but for its ports, and with what is built already.
#[test]
#[cfg(feature = "cli")]
fn launch_fleet_leads_from_nothing_to_two_servers_in_one_trace() {
    let script = examples().join("launch-fleet");
    let example = Example::launched_by("shell/examples/launch-fleet");
    let folder = example.run.folder().to_owned();
    let (one, other) = (example.port, free_port());
    let fleet = fs::read_to_string(examples().join("fleet.toml")).unwrap();
    let fleet = fleet.replace("8001", &one.to_string()).replace("8002", &other.to_string());
    let run = example
        .run
        .file("shell/examples/fleet.toml", 0o644, fleet)
        .file("shell/examples/launch-fleet", 0o755, fs::read(script).unwrap())
        .file("bin/cargo", 0o755, "#!/bin/sh\necho \"$@\" >>cargo.notes\n");
    for name in ["app.py", "requirements.txt", "launch.sh", "set-up-venv"] {
        fs::rename(folder.join(name), folder.join("shell/examples").join(name)).unwrap();
    }
    fs::create_dir_all(folder.join("build/debug")).unwrap();
    for (name, target) in [
        ("gym-startup", Path::new(env!("CARGO_BIN_EXE_gym-startup"))),
        ("gym-stamp", &folder.join("bin/gym-stamp")),
    ] {
        symlink(target, folder.join("build/debug").join(name)).unwrap();
    }
    let run = run.entry(OUTER).var("LANG", "C.UTF-8").var("CARGO_TARGET_DIR", "build");
    let ended = run.args(["--out", "out.jsonl"]).run().exits(0);
    let built = fs::read_to_string(folder.join("cargo.notes")).unwrap();
    assert_eq!(built, "build --quiet --locked --bins\n");

    let trace = Trace::read(&folder.join("out.jsonl"));
    let root = trace.only("gym.startup");
    for stage in ["load_config", "spawn_servers", "wait_for_servers"] {
        let stage = trace.only(&format!("gym.startup.{stage}"));
        assert_eq!(stage.parent_span_id, root.span_id);
    }
    let notes = |of: &str| notes(&folder, of);
    for (name, server_type) in
        [("greeter", "resources_servers"), ("policy_model", "responses_api_models")]
    {
        let server = trace.of_server(name, "gym.startup.server");
        assert_eq!(server.parent_span_id, root.span_id);
        assert_eq!(attribute(server, "nemo.gym.server.type"), server_type);
        let setup = trace.of_server(name, "gym.startup.server.venv_setup");
        let start = trace.of_server(name, "gym.startup.server.server_start");
        assert_eq!(setup.start_time_unix_nano, server.start_time_unix_nano);
        assert_eq!(start.start_time_unix_nano, setup.end_time_unix_nano);
        assert_eq!(start.end_time_unix_nano, server.end_time_unix_nano);
        // Stamped by a gym-stamp that then became an interpreter.
        let stamp_ns = setup.end_time_unix_nano;
        let became =
            |shim: &Note| notes("python").iter().any(|it| it.pid == shim.pid && it.ns >= stamp_ns);
        let shims = notes("gym-stamp");
        assert!(shims.iter().any(|it| it.ns <= stamp_ns && became(it)), "{name}: {ended}");
        let steps: Vec<_> = trace.children(setup).iter().map(|it| it.name.clone()).collect();
        assert!(steps.iter().any(|it| it.contains("pip install")), "{name}: {steps:?}");
    }
    let text = ended.stderr_text();
    for (name, processes) in [("greeter", 1), ("policy_model", 2)] {
        let line = format!("({name}) INFO:     Started server process");
        let count = text.lines().filter(|it| it.starts_with(&line)).count();
        // One is enough for an answer, and with that the fleet may end.
        assert!((1..=processes).contains(&count), "{ended}");
    }
    for words in ["├─ greeter", "├─ policy_model", "│  ├─ venv_setup", "│  └─ server_start"]
    {
        assert!(text.contains(words), "no '{words}'\n{ended}");
    }
    assert!(inhabitants(&folder).is_empty(), "{ended}");
}

#[test]
fn the_image_entrypoint_as_process_1_stamps_both_ends_of_its_setup() {
    let dockerfile = Dockerfile::read();
    let example = Example::launched_by(program("unshare", "util-linux")).with_venv();
    let command = dockerfile.command_on(example.port);
    let example = example.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
    let server = example.args(&dockerfile.entrypoint).args(&command).start().answers();

    let pid = server.pid();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let inside = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap();
    assert_eq!(inside.split_whitespace().last(), Some("1"), "{status}");
    let [first, last] = server.notes("gym-stamp")[..] else { panic!("not two gym-stamps") };
    assert_eq!((first.pid, last.pid), (1, 1));
    assert!((first.ns..last.ns).contains(&server.stamp(SPAWN)));
    server.was_stamped_between_setup_and_interpreter(1);

    kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    server.running.wait().exits(0);
}

#[test]
fn the_image_entrypoint_leaves_a_supervisor_its_own_spawn_time() {
    let dockerfile = Dockerfile::read();
    let example = Example::launched_by("bin/gym-stamp").with_venv();
    let command = dockerfile.command_on(example.port);
    let spawned_ns = now_ns();
    let example = example.entry(format!("{SPAWN}={spawned_ns}"));
    let server = example.args(&dockerfile.entrypoint[1..]).args(&command).start().answers();
    assert_eq!(server.pid(), server.running.pid());
    assert_eq!(server.stamp(SPAWN), spawned_ns);
    server.was_stamped_between_setup_and_interpreter(server.running.pid());
}

#[test]
fn the_dockerfile_copies_what_is_there() {
    let copied = Dockerfile::read().copied;
    assert!(copied.len() > 2, "{copied:?}");
    for source in copied {
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(&source).exists(), "{source}");
    }
}

#[test]
fn a_log_pipeline_leaves_the_server_its_stamp_and_its_status() {
    let lines = "set -o pipefail; (./launch.sh) 2>&1 | tee -a LOG";
    let example = Example::launched_by(program("bash", "bash")).with_venv();
    let server = example.args(["-c", lines]).start().answers();
    let pid = server.pid();
    assert_ne!(pid, server.running.pid(), "bash stays for the pipeline");
    server.was_stamped_between_setup_and_interpreter(pid);

    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    let ended = server.running.wait().exits(128 + Signal::SIGKILL as i32);
    let log = fs::read_to_string(ended.folder().join("LOG")).unwrap();
    assert!(log.contains("Uvicorn running on"), "{log}\n{ended}");
    assert_eq!(log, ended.stdout_text());
}

/// Installs into `venv` what the example's wheels and a `uv` that is not on PATH can.
fn uv() -> Command {
    let uv = python_venv("uv", &["uv==0.13.9"]).join("bin/uv");
    let mut command = Command::new(uv);
    command.env("UV_NO_CONFIG", "1").env("UV_OFFLINE", "1").env("UV_PYTHON_DOWNLOADS", "never");
    command
}

#[test]
fn a_venv_that_uv_made_is_kept_and_filled_by_pip() {
    let example = Example::launched_by("./launch.sh");
    let venv = example.run.folder().join(".venv");
    succeed(
        uv().args(["venv", "--quiet", "--no-cache", "--python"])
            .arg(program("python3", "python3"))
            .arg(&venv),
    );
    fs::write(venv.join("mine"), "kept").unwrap();
    let made = fs::read(venv.join("pyvenv.cfg")).unwrap();
    let server = example.start().answers();
    assert_eq!(fs::read_to_string(venv.join("mine")).unwrap(), "kept");
    assert_eq!(fs::read(venv.join("pyvenv.cfg")).unwrap(), made);
    server.was_stamped_between_setup_and_interpreter(server.running.pid());
}

#[test]
fn uv_makes_and_fills_a_venv_where_there_is_uv() {
    let example = Example::launched_by("./launch.sh");
    let folder = example.run.folder().to_owned();
    symlink(uv().get_program(), folder.join("bin/uv")).unwrap();
    let run = example.run.var("UV_NO_CONFIG", "1").var("UV_OFFLINE", "1");
    let run = run.var("UV_PYTHON_DOWNLOADS", "never").var("UV_FIND_LINKS", wheels());
    let run = run.var("UV_PYTHON", program("python3", "python3"));
    let server = Example { run, port: example.port }.start().answers();
    let made = fs::read_to_string(folder.join(".venv/pyvenv.cfg")).unwrap();
    assert!(made.contains("\nuv = "), "{made}");
    assert!(!folder.join(".venv/bin/pip").exists());
    server.was_stamped_between_setup_and_interpreter(server.running.pid());
}

/// Nothing that a second start could install from is there.
#[test]
fn what_is_up_to_date_is_not_installed_again() {
    let example = Example::launched_by("./launch.sh");
    let again = example.again();
    drop(example.start().answers());
    let again = Example { run: again.run.var("PIP_FIND_LINKS", "/nowhere"), port: again.port };
    let python = again.run.folder().join("python.notes");
    fs::remove_file(python).unwrap();
    let server = again.start().answers();
    let pids: Vec<_> = server.notes("python").iter().map(|it| it.pid).collect();
    assert_eq!(pids, [server.running.pid()], "the server's alone");
}

#[test]
fn two_servers_starting_in_one_venv_have_a_stamp_each() {
    let one = Example::launched_by("./launch.sh").with_venv();
    let other = one.again();
    let servers = [one, other].map(Example::start).map(Server::answers);
    for server in &servers {
        assert_eq!(server.pid(), server.running.pid());
        server.was_stamped_between_setup_and_interpreter(server.pid());
    }
    let [one, other] = servers.each_ref().map(|server| server.stamp(SETUP_DONE));
    assert_ne!(one, other);
}

#[test]
fn the_sourced_script_gives_a_server_its_stamp_too() {
    let sourced = Path::new(env!("CARGO_MANIFEST_DIR")).join("shell/gym-stamp.sh");
    let serve = "uvicorn app:app --host 127.0.0.1 --port $PORT";
    for launch in [
        format!("gym_stamp_exec .venv/bin/{serve}"),
        format!("gym_stamp_activate .venv; exec {serve}"),
        format!("gym_stamp_activate .venv; gym_stamp_exec {serve}"),
    ] {
        let lines = format!("set -eu; . '{}'; {launch}", sourced.display());
        let example = Example::launched_by("/bin/sh").with_venv().entry(OUTER);
        let before_ns = now_ns();
        let server = example.args(["-c", &lines]).start().answers();
        let pid = server.running.pid();
        assert_eq!(server.pid(), pid, "{launch}");
        let interpreter = server.notes("python").into_iter().find(|it| it.pid == pid).unwrap();
        let ns = server.stamp(SETUP_DONE);
        assert!((before_ns..=interpreter.ns).contains(&ns), "{launch}: {ns} {interpreter:?}");
    }
}

#[test]
fn setup_time_shows_how_long_the_setup_of_a_real_server_took() {
    let (run, sweep) = setup_time(&wheels());
    let ended = run.run().exits(0).says_nothing();
    let text = ended.stdout_text();
    let stamp = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}=")));
        line.unwrap_or_else(|| panic!("no {name}\n{ended}")).parse().unwrap()
    };
    let (spawn_ns, setup_done_ns) = (stamp(SPAWN), stamp(SETUP_DONE));
    assert!(ended.started_ns < spawn_ns && spawn_ns < setup_done_ns, "{ended}");
    assert!(setup_done_ns < ended.ended_ns, "{ended}");
    let setup_ms = format!("{:.1} ms  venv setup", (setup_done_ns - spawn_ns) as f64 / 1e6);
    assert!(text.contains(&setup_ms), "no '{setup_ms}'\n{ended}");
    assert!(text.contains("answers GET / with 200"), "{ended}");
    sweep.finds_nothing(&ended);
}

#[test]
fn setup_time_says_what_to_do_where_it_cannot() {
    let fails = |packages: &Path, args: &[&str], words: &[&str]| {
        let (run, sweep) = setup_time(packages);
        let ended = run.args(args.iter().copied()).run().exits(1);
        for word in words {
            assert!(ended.stderr_text().contains(word), "no '{word}'\n{ended}");
        }
        sweep.finds_nothing(&ended);
    };
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let in_use = [&port, "without --port, a free one is taken"];
    fails(&wheels(), &["--port", &port], &in_use);
    fails(&wheels(), &["--timeout", "0.1"], &["no answer after 0.1 s (--timeout)"]);
    let no_package = ["launch.sh ended with status 1", "No matching distribution found"];
    fails(Path::new("/nowhere"), &[], &no_package);
}

#[test]
fn setup_time_ended_by_a_signal_leaves_nothing() {
    for (signal, status) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let (run, sweep) = setup_time(&wheels());
        let running = run.spawn();
        running.wait_until(|| !inhabitants(&sweep.folder).is_empty());
        running.signal(signal);
        let ended = running.wait().exits(status).says_nothing();
        sweep.finds_nothing(&ended);
    }
}

/// `setup-time`, for a pip that finds its `packages` in a folder, and the place for temporary files
/// that it is given.
fn setup_time(packages: &Path) -> (Run, Sweep) {
    let run = command(examples().join("setup-time"));
    let folder = run.folder().join("tmp");
    fs::create_dir(&folder).unwrap();
    let mut run = run.empty_environ().deadline(DEADLINE);
    for (name, value) in std::env::vars_os() {
        // Cargo's own are about the package of the test, and pip's about the index.
        let name = name.into_string().unwrap();
        if !name.starts_with("CARGO_") && !name.starts_with("PIP_") && name != "LD_LIBRARY_PATH" {
            run = run.var(name, value);
        }
    }
    let run = run.var("TMPDIR", &folder).var("PIP_NO_INDEX", "1").var("PIP_FIND_LINKS", packages);
    (run, Sweep { folder })
}

/// Kills whoever still works in a folder when this is dropped: `setup-time` has its server lead a
/// session of its own.
struct Sweep {
    folder: PathBuf,
}

impl Sweep {
    #[track_caller]
    fn finds_nothing(&self, ended: &Ended) {
        let there = inhabitants(&self.folder);
        assert!(there.is_empty(), "{there:?} are left\n{ended}");
        let left: Vec<_> =
            fs::read_dir(&self.folder).unwrap().map(|it| it.unwrap().path()).collect();
        assert!(left.is_empty(), "{left:?} is left\n{ended}");
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        for pid in inhabitants(&self.folder) {
            // It may have ended by now.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

/// The processes that work in `folder`.
fn inhabitants(folder: &Path) -> Vec<i32> {
    let works_there = |pid: &i32| {
        fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
    };
    processes().filter(works_there).collect()
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("shell/examples")
}

/// The packages of the example's server, from the index once.
fn wheels() -> PathBuf {
    let requirements = examples().join("requirements.txt");
    let python = python_venv("plain", &[]).join("bin/python");
    made_once("example-wheels", &fs::read(&requirements).unwrap(), |folder| {
        let mut pip = Command::new(python);
        pip.args(["-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--dest"]);
        download(pip.arg(folder).arg("-r").arg(requirements));
    })
}

/// A venv that the example's packages are installed in.
fn venv() -> PathBuf {
    let requirements = examples().join("requirements.txt");
    let wheels = wheels();
    made_once("example-venv", &(&wheels, fs::read(&requirements).unwrap()), |folder| {
        let python = program("python3", "python3-venv");
        succeed(Command::new(python).args(["-m", "venv"]).arg(folder));
        let mut pip = Command::new(folder.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--no-index", "--find-links"]);
        succeed(pip.arg(&wheels).arg("-r").arg(requirements));
    })
}

/// What the Dockerfile says that the tests take from it.
pub struct Dockerfile {
    pub entrypoint: Vec<String>,
    command: Vec<String>,
    /// Sources in the repository.
    copied: Vec<String>,
}

impl Dockerfile {
    pub fn read() -> Self {
        let text = fs::read_to_string(examples().join("Dockerfile")).unwrap();
        let words = |instruction: &str| -> Vec<String> {
            let array = text.lines().find_map(|line| line.strip_prefix(instruction)).unwrap();
            let array = array.trim().strip_prefix('[').unwrap().strip_suffix(']').unwrap();
            array.split(", ").map(|word| word.trim_matches('"').to_owned()).collect()
        };
        let copies = text.lines().filter_map(|line| line.strip_prefix("COPY "));
        let from_here = copies.filter(|line| !line.starts_with("--from"));
        let copied = from_here.flat_map(|line| {
            let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            words[..words.len() - 1].to_vec()
        });
        Self { entrypoint: words("ENTRYPOINT "), command: words("CMD "), copied: copied.collect() }
    }

    /// The image's command, as if its container published `port` of loopback only.
    pub fn command_on(&self, port: u16) -> Vec<String> {
        let replaced = |word: &String| match word.as_str() {
            "0.0.0.0" => "127.0.0.1".to_owned(),
            "8000" => port.to_string(),
            _ => word.clone(),
        };
        self.command.iter().map(replaced).collect()
    }
}

/// A copy of the example in a folder of its own, and how it is to be launched there.
///
/// On its PATH is a `gym-stamp` that notes its process and the time before it becomes the real one,
/// and every Python notes the same first of all. So what is launched is the example as it is.
pub struct Example {
    pub run: Run,
    pub port: u16,
}

impl Example {
    /// To be launched by `program`: its path, perhaps from the example's folder.
    pub fn launched_by(program: impl Bytes) -> Self {
        let run = command(program);
        let folder = run.folder().to_owned();
        for name in ["app.py", "requirements.txt", "launch.sh", "entrypoint.sh", "set-up-venv"] {
            let original = examples().join(name);
            let mode = fs::metadata(&original).unwrap().permissions().mode();
            write_file(&folder.join(name), mode, &fs::read(original).unwrap());
        }
        let notes = folder.display();
        let gym_stamp = Build::Freestanding.binary().display();
        let noting = format!(
            "#!/bin/sh\necho \"$$ $(date +%s%N)\" >>'{notes}/gym-stamp.notes'\n\
             exec '{gym_stamp}' \"$@\"\n"
        );
        let site = format!(
            "import os, time\nwith open('{notes}/python.notes', 'a') as notes:\n    \
             notes.write(f'{{os.getpid()}} {{time.time_ns()}}\\n')\n"
        );
        let path = std::env::var("PATH").unwrap();
        let run = run
            .file("bin/gym-stamp", 0o755, noting)
            .file("site/sitecustomize.py", 0o644, site)
            .environ([format!("PATH={}/bin:{path}", folder.display())])
            .var("HOME", &folder)
            .var("PYTHONPATH", folder.join("site"))
            .var("PIP_NO_INDEX", "1")
            .var("PIP_FIND_LINKS", wheels())
            .var("VENV", folder.join(".venv"))
            .deadline(DEADLINE);
        Self { run, port: free_port() }
    }

    /// The venv is there already, as on a second start.
    pub fn with_venv(self) -> Self {
        symlink(venv(), self.run.folder().join(".venv")).unwrap();
        self
    }

    pub fn args<T: Bytes>(self, args: impl IntoIterator<Item = T>) -> Self {
        Self { run: self.run.args(args), ..self }
    }

    pub fn entry(self, entry: impl Bytes) -> Self {
        Self { run: self.run.entry(entry), ..self }
    }

    /// The same launch in the same folder, on another port.
    fn again(&self) -> Self {
        Self { run: self.run.clone(), port: free_port() }
    }

    pub fn start(self) -> Server {
        let folder = self.run.folder().to_owned();
        let running = self.run.var("PORT", self.port.to_string()).spawn();
        Server { running, port: self.port, folder }
    }
}

/// A launch of the example. Its whole group is killed when this is dropped.
pub struct Server {
    pub running: Running,
    pub port: u16,
    folder: PathBuf,
}

/// A moment that a process noted.
#[derive(Clone, Copy, Debug)]
struct Note {
    pid: i32,
    ns: u64,
}

/// What the `gym-stamp`s or `python`s of `folder` noted, in their order.
fn notes(folder: &Path, of: &str) -> Vec<Note> {
    let text = fs::read_to_string(folder.join(format!("{of}.notes"))).unwrap();
    let note = |line: &str| {
        let (pid, ns) = line.split_once(' ').unwrap();
        Note { pid: pid.parse().unwrap(), ns: ns.parse().unwrap() }
    };
    text.lines().map(note).collect()
}

impl Server {
    /// Waits until it answers, or fails the test with all it said.
    #[track_caller]
    pub fn answers(self) -> Self {
        let deadline = Instant::now() + DEADLINE;
        while !self
            .get()
            .is_ok_and(|it| it.contains("200 OK") && it.contains(r#"{"hello":"world"}"#))
        {
            if self.is_over() {
                panic!("it ended\n{}", self.running.wait());
            }
            assert!(Instant::now() < deadline, "no answer on port {}", self.port);
            thread::sleep(Duration::from_millis(10));
        }
        self
    }

    fn get(&self) -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Whether the process that launched it has ended, and waits to be reaped.
    fn is_over(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.running.pid())).unwrap();
        stat.rsplit(')').next().unwrap().starts_with(" Z")
    }

    /// The one process that listens on its port.
    #[track_caller]
    pub fn pid(&self) -> i32 {
        let mut pid = 0;
        // A socket may be left out of the system's table where others go while it is read.
        self.running.wait_until(|| match self.listening()[..] {
            [] => false,
            [only] => {
                pid = only;
                true
            }
            ref pids => panic!("{pids:?} listen on port {}", self.port),
        });
        pid
    }

    fn listening(&self) -> Vec<i32> {
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        let address = format!("0100007F:{:04X}", self.port);
        let sockets = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let listens = |socket: &Vec<&str>| socket[1] == address && socket[3] == "0A";
        let inodes: Vec<_> =
            sockets.filter(listens).map(|it| format!("socket:[{}]", it[9])).collect();
        let holds = |pid: &i32| {
            let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            let links = open.filter_map(|fd| fs::read_link(fd.path()).ok());
            links.into_iter().any(|link| inodes.iter().any(|inode| link.as_os_str() == &**inode))
        };
        processes().filter(holds).collect()
    }

    /// The one stamp of this name in the environment of the serving process.
    #[track_caller]
    pub fn stamp(&self, name: &str) -> u64 {
        let environ = fs::read(format!("/proc/{}/environ", self.pid())).unwrap();
        let environ = String::from_utf8(environ).unwrap();
        let prefix = format!("{name}=");
        let values: Vec<_> =
            environ.split('\0').filter_map(|entry| entry.strip_prefix(&prefix)).collect();
        let [value] = values[..] else { panic!("{name}: {values:?}") };
        assert!(value.bytes().all(|byte| byte.is_ascii_digit()), "{name}={value}");
        value.parse().unwrap()
    }

    /// What the `gym-stamp`s or `python`s of its folder noted, in their order.
    fn notes(&self, of: &str) -> Vec<Note> {
        notes(&self.folder, of)
    }

    /// The stamp was set by a `gym-stamp` that became the interpreter, in between the two. `pid`
    /// is what the process calls itself.
    #[track_caller]
    fn was_stamped_between_setup_and_interpreter(&self, pid: i32) {
        let of_this = |it: &Note| it.pid == pid;
        let shim = self.notes("gym-stamp").into_iter().rfind(of_this).expect("no gym-stamp");
        let interpreter = self.notes("python").into_iter().find(of_this).expect("no Python");
        let ns = self.stamp(SETUP_DONE);
        assert!((shim.ns..=interpreter.ns).contains(&ns), "{shim:?} {ns} {interpreter:?}");
    }
}
