//! What the tests need beyond cargo: found on the machine, or made once in `target/tools`.
//!
//! Nothing is skipped: what is missing fails the test with the command that installs it.

use std::fs::{self, File, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

#[cfg(target_os = "linux")]
use super::limit;

/// Held for reading from fork to exec, and for writing while a file is written.
static WRITES: RwLock<()> = RwLock::new(());

/// The folder of things made once and kept between runs.
pub fn tools() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools")
}

/// The path of `program`, which Debian's `package` brings.
pub fn program(program: &str, package: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
        .unwrap_or_else(|| panic!("{program} is missing: apt-get install {package}"))
}

/// A port of loopback that nobody listens on, and that nobody is given who does not ask for this one.
pub fn free_port() -> u16 {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    // Whoever sets it as well, as servers do, may listen there all the same.
    socket.set_reuse_address(true).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    let port = socket.local_addr().unwrap().as_socket().unwrap().port();
    // As long as it is bound, the system finds the port for nobody else.
    std::mem::forget(socket);
    port
}

/// What runs a program where a name server takes every question and answers none, in namespaces of
/// its own. `folder` gets a file for it.
pub fn with_a_silent_name_server(folder: &Path) -> Vec<String> {
    let resolv_conf = folder.join("resolv.conf");
    fs::write(&resolv_conf, "nameserver 192.0.2.1\noptions timeout:30 attempts:5\n").unwrap();
    let unshare = program("unshare", "util-linux").to_str().unwrap().to_owned();
    let may = spawn(Command::new(&unshare).args(["--mount", "--net", "true"]));
    let may = may.and_then(|mut child| child.wait()).unwrap();
    assert!(may.success(), "namespaces need root, or CAP_SYS_ADMIN and CAP_NET_ADMIN");
    program("ip", "iproute2");
    // A neighbour that is known but not there: packets to it go, and nothing comes.
    let script = "set -e; mount --bind \"$0\" /etc/resolv.conf; ip link set lo up
        ip link add black-hole type dummy 2>/dev/null || ip tuntap add black-hole mode tap
        ip address add 192.0.2.2/24 dev black-hole
        ip link set black-hole up
        ip neighbour add 192.0.2.1 lladdr 02:00:00:00:00:01 dev black-hole
        exec \"$@\"";
    let resolv_conf = resolv_conf.to_str().unwrap();
    [&unshare, "--mount", "--net", "sh", "-c", script, resolv_conf].map(str::to_owned).into()
}

/// Makes `target/tools/NAME-HASH` once, whoever comes first, and returns it.
///
/// `recipe` is everything that decides the content: a changed recipe is a new folder. `make` fills
/// a folder whose path is final, since venvs hold their own path; one that was not finished is made
/// again.
pub fn made_once(name: &str, recipe: &impl Hash, make: impl FnOnce(&Path)) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    recipe.hash(&mut hasher);
    let folder = tools().join(format!("{name}-{:016x}", hasher.finish()));
    fs::create_dir_all(tools()).unwrap();
    let lock = File::create(folder.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    let done = folder.join(".done");
    if !done.exists() {
        if folder.exists() {
            fs::remove_dir_all(&folder).unwrap();
        }
        fs::create_dir(&folder).unwrap();
        make(&folder);
        File::create(done).unwrap();
    }
    folder
}

/// [`succeed`] for a `command` that gets something from a package index, which has bad moments.
pub fn download(command: &mut Command) -> String {
    let pauses = [5, 20].map(Duration::from_secs);
    for pause in pauses {
        match run(command) {
            output if output.status.success() => return text(&output.stdout),
            _ => thread::sleep(pause),
        }
    }
    succeed(command)
}

/// A venv with exactly these pinned `requirements` (and what they pull in), made once.
pub fn python_venv(name: &str, requirements: &[&str]) -> PathBuf {
    let python = program("python3", "python3-venv");
    made_once(name, &(&python, requirements), |folder| {
        succeed(Command::new(&python).args(["-m", "venv"]).arg(folder));
        if !requirements.is_empty() {
            download(
                Command::new(folder.join("bin/python"))
                    .args([
                        "-m",
                        "pip",
                        "install",
                        "--quiet",
                        "--disable-pip-version-check",
                        "--pre",
                    ])
                    .args(requirements),
            );
        }
    })
}

/// Writes a file that can be executed at once, with the folders above it.
///
/// Nothing that another test's thread has forked and not yet made another program can have it open
/// for writing. The kernel would call it busy.
pub fn write_file(path: &Path, mode: u32, content: &[u8]) {
    let _nobody_forks = WRITES.write().unwrap_or_else(PoisonError::into_inner);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Starts `command`, while no other test's thread has an executable open for writing: the one way
/// in which tests start anything.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    #[cfg(target_os = "linux")]
    limit::begin();
    let _nobody_writes = WRITES.read().unwrap_or_else(PoisonError::into_inner);
    command.spawn()
}

/// Runs `command` to its end, and fails the test with all it said unless its status is 0.
pub fn succeed(command: &mut Command) -> String {
    let output = run(command);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr),
    );
    text(&output.stdout)
}

fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = spawn(command).and_then(Child::wait_with_output);
    output.unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
