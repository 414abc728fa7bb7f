//! Runs one program under exact conditions, and says what came of it.

use std::ffi::{CString, OsStr, OsString};
use std::fmt::Write as _;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write as _};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::ptr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::sys::resource::{Resource, rlim_t, setrlimit};
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::stat::{Mode, umask};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Gid, Pid, Uid};
use tempfile::TempDir;

use super::toolbox::{made_once, program, spawn, succeed, write_file};
use super::{Build, now_ns};

/// The PATH of every run that does not set its environment.
pub const PATH: &str = "PATH=/usr/local/bin:/usr/bin:/bin";

/// Far longer than anything takes on a busy machine: what is still running then hangs.
const DEADLINE: Duration = Duration::from_secs(60);

/// Words of a command line or environment: text, bytes or paths.
pub trait Bytes {
    fn into_bytes(self) -> Vec<u8>;
}

macro_rules! bytes {
    ($($type:ty => $how:expr),* $(,)?) => {
        $(impl Bytes for $type {
            fn into_bytes(self) -> Vec<u8> {
                $how(self)
            }
        })*
    };
}
bytes! {
    &str => |it: &str| it.as_bytes().to_vec(),
    String => String::into_bytes,
    &String => |it: &String| it.as_bytes().to_vec(),
    &[u8] => <[u8]>::to_vec,
    Vec<u8> => |it| it,
    &Vec<u8> => Vec::clone,
    &OsStr => |it: &OsStr| it.as_bytes().to_vec(),
    OsString => OsString::into_vec,
    &Path => |it: &Path| it.as_os_str().as_bytes().to_vec(),
    PathBuf => |it: PathBuf| it.into_os_string().into_vec(),
    &PathBuf => |it: &PathBuf| it.as_os_str().as_bytes().to_vec(),
}
impl<const N: usize> Bytes for &[u8; N] {
    fn into_bytes(self) -> Vec<u8> {
        self.to_vec()
    }
}

fn all_bytes<T: Bytes>(words: impl IntoIterator<Item = T>) -> impl Iterator<Item = Vec<u8>> {
    words.into_iter().map(Bytes::into_bytes)
}

/// Runs `gym-stamp`; its arguments are the run's.
pub fn gym_stamp(build: Build) -> Run {
    Run::new(build.emulator(), build.binary().into())
}

/// Runs `program` itself, with no `gym-stamp`.
pub fn command(program: impl Bytes) -> Run {
    Run::new(None, PathBuf::from(OsString::from_vec(program.into_bytes())))
}

type SetUp = Arc<dyn Fn() -> io::Result<()> + Send + Sync>;

/// A program, all that it will be given, and the state that it will find itself in.
///
/// Unless told otherwise: the environment is [`PATH`] alone, the working directory a folder of its
/// own, stdin `/dev/null`, stdout and stderr are captured, nothing else is open, every signal has
/// its default disposition and is unblocked, the umask is 022, and the process leads a group of its
/// own.
#[derive(Clone)]
pub struct Run {
    emulator: Option<PathBuf>,
    program: PathBuf,
    wrapper: Vec<Vec<u8>>,
    arg0: Option<Vec<u8>>,
    without_argv: bool,
    options: Vec<Vec<u8>>,
    args: Vec<Vec<u8>>,
    environ: Vec<Vec<u8>>,
    folder: Arc<TempDir>,
    cwd: Option<PathBuf>,
    stdin: Option<Vec<u8>>,
    fds: Vec<(RawFd, Arc<OwnedFd>)>,
    set_ups: Vec<SetUp>,
    new_session: bool,
    deadline: Duration,
}

/// Arrange.
impl Run {
    fn new(emulator: Option<PathBuf>, program: PathBuf) -> Self {
        let folder = tempfile::Builder::new().prefix("gym-stamp-test").tempdir().unwrap();
        // Runs that change their user work here too.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        Self {
            emulator,
            program,
            wrapper: Vec::new(),
            arg0: None,
            without_argv: false,
            options: Vec::new(),
            args: Vec::new(),
            environ: vec![PATH.into_bytes()],
            folder: Arc::new(folder),
            cwd: None,
            stdin: None,
            fds: Vec::new(),
            set_ups: Vec::new(),
            new_session: false,
            deadline: DEADLINE,
        }
    }

    /// The folder that is this run's alone, and its working directory unless [`Run::cwd`] says
    /// otherwise. Runs cloned from this one share it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file with `mode` into [`Run::folder`], with the folders above it.
    ///
    /// Unlike one written in any other way, it can be executed at once: see [`write_file`].
    pub fn file(self, name: impl AsRef<Path>, mode: u32, content: impl Bytes) -> Self {
        let path = self.folder().join(name);
        write_file(&path, mode, &content.into_bytes());
        self
    }

    /// One more argument.
    pub fn arg(mut self, arg: impl Bytes) -> Self {
        self.args.push(arg.into_bytes());
        self
    }

    /// More arguments.
    pub fn args<T: Bytes>(mut self, args: impl IntoIterator<Item = T>) -> Self {
        self.args.extend(all_bytes(args));
        self
    }

    /// More options of `gym-stamp`: before all arguments, and not there in
    /// [`Run::without_gym_stamp`].
    pub fn options<T: Bytes>(mut self, options: impl IntoIterator<Item = T>) -> Self {
        self.options.extend(all_bytes(options));
        self
    }

    /// `argv[0]`, in place of the program's path.
    pub fn arg0(mut self, arg0: impl Bytes) -> Self {
        self.arg0 = Some(arg0.into_bytes());
        self
    }

    /// `argv` without even a name. Linux 5.18 and later make it one empty string.
    pub fn without_argv(mut self) -> Self {
        assert!(self.emulator.is_none(), "qemu takes the program's name from its own argv");
        self.without_argv = true;
        self
    }

    /// Exactly these entries as environment, well-formed or not.
    pub fn environ<T: Bytes>(mut self, entries: impl IntoIterator<Item = T>) -> Self {
        self.environ = all_bytes(entries).collect();
        self
    }

    /// No environment entry at all.
    pub fn empty_environ(mut self) -> Self {
        self.environ.clear();
        self
    }

    /// One more environment entry, at the end, even if the name is there already.
    pub fn entry(mut self, entry: impl Bytes) -> Self {
        self.environ.push(entry.into_bytes());
        self
    }

    /// One more variable, at the end, even if the name is there already.
    pub fn var(self, name: impl Bytes, value: impl Bytes) -> Self {
        self.entry([name.into_bytes(), value.into_bytes()].join(&b'='))
    }

    /// `wrapper` runs the program: `unshare --pid`, `sh -c '…; exec "$@"' sh`. It finds the
    /// program's path, and all after it, behind its own arguments.
    pub fn under<T: Bytes>(mut self, wrapper: impl IntoIterator<Item = T>) -> Self {
        self.wrapper.extend(all_bytes(wrapper));
        self
    }

    /// Where it starts.
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// A pipe with `input` as stdin.
    pub fn stdin(mut self, input: impl Bytes) -> Self {
        self.stdin = Some(input.into_bytes());
        self
    }

    /// Descriptor `fd` is `file`; 0 to 2 in place of what they are otherwise.
    pub fn fd(mut self, fd: RawFd, file: impl Into<OwnedFd>) -> Self {
        let file = file.into();
        // Out of the way of the numbers that tests give away.
        let high = fcntl(&file, FcntlArg::F_DUPFD_CLOEXEC(400)).unwrap();
        // SAFETY: `fcntl` has just made it, and nothing else knows it.
        let high = unsafe { OwnedFd::from_raw_fd(high) };
        self.fds.push((fd, Arc::new(high)));
        self
    }

    /// Descriptor `fd` is not open.
    pub fn closed(self, fd: RawFd) -> Self {
        self.before_exec(move || match nix::unistd::close(fd) {
            Ok(()) | Err(Errno::EBADF) => Ok(()),
            Err(errno) => Err(errno.into()),
        })
    }

    /// The disposition of `signal` is to be ignored.
    pub fn ignored(self, signal: Signal) -> Self {
        self.before_exec(move || {
            // SAFETY: no handler is installed, so none can be called.
            Errno::result(unsafe { libc::signal(signal as i32, libc::SIG_IGN) })?;
            Ok(())
        })
    }

    /// `signal`, a real-time one perhaps, is blocked.
    pub fn blocked(self, signal: i32) -> Self {
        self.before_exec(move || {
            let mut set = *SigSet::empty().as_ref();
            // SAFETY: `set` is a valid signal set.
            Errno::result(unsafe { libc::sigaddset(&mut set, signal) })?;
            // SAFETY: as above; the former mask is not asked for.
            Errno::result(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut()) })?;
            Ok(())
        })
    }

    /// `signal` is blocked and has been sent.
    pub fn pending(self, signal: i32) -> Self {
        self.blocked(signal).before_exec(move || {
            let pid = nix::unistd::getpid().as_raw();
            // SAFETY: takes numbers. It is sent to the process: raise() would send it to the
            // thread, which is pending elsewhere.
            Errno::result(unsafe { libc::kill(pid, signal) })?;
            Ok(())
        })
    }

    /// A resource limit.
    pub fn limit(self, resource: Resource, soft: rlim_t, hard: rlim_t) -> Self {
        self.before_exec(move || Ok(setrlimit(resource, soft, hard)?))
    }

    /// Is nicer by `by`.
    pub fn nice(self, by: i32) -> Self {
        self.before_exec(move || {
            Errno::clear();
            // SAFETY: takes and gives numbers.
            match unsafe { libc::nice(by) } {
                -1 if Errno::last_raw() != 0 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            }
        })
    }

    /// The file mode creation mask.
    pub fn umask(self, mode: u32) -> Self {
        self.before_exec(move || {
            umask(Mode::from_bits_truncate(mode as libc::mode_t));
            Ok(())
        })
    }

    /// Leads a session of its own, with no controlling terminal.
    pub fn new_session(mut self) -> Self {
        self.new_session = true;
        self
    }

    /// stdin, stdout and stderr are `terminal`, which controls its session.
    pub fn on_terminal(self, terminal: &Terminal) -> Self {
        let tty = terminal.open_slave();
        let run = self.new_session();
        let run = (0..3).fold(run, |run, fd| run.fd(fd, tty.try_clone().unwrap()));
        run.before_exec(|| {
            // SAFETY: takes numbers.
            Errno::result(unsafe { libc::ioctl(0, libc::TIOCSCTTY as _, 0) })?;
            Ok(())
        })
    }

    /// Runs the program by `name`, a link in [`Run::folder`], which has to be the working
    /// directory: so its path and `argv[0]` are short. An emulator's are, too.
    pub fn linked_as(mut self, name: &str) -> Self {
        let folder = self.folder().to_owned();
        let link = |target: &mut PathBuf, name: String| {
            std::os::unix::fs::symlink(&*target, folder.join(&name)).unwrap();
            *target = name.into();
        };
        link(&mut self.program, name.to_owned());
        if let Some(emulator) = &mut self.emulator {
            link(emulator, format!("{name}e"));
        }
        self
    }

    /// The unprivileged user and group `id`, with no other group.
    ///
    /// The program is a copy in a folder that everybody reaches, as the build's own may not be.
    pub fn user(mut self, id: u32) -> Self {
        let copy = self.folder().join(".run").join(self.program.file_name().unwrap());
        write_file(&copy, 0o755, &fs::read(&self.program).unwrap());
        self.program = copy;
        self.before_exec(move || {
            // SAFETY: an empty list is read from nowhere.
            Errno::result(unsafe { libc::setgroups(0, ptr::null()) })?;
            nix::unistd::setgid(Gid::from_raw(id))?;
            Ok(nix::unistd::setuid(Uid::from_raw(id))?)
        })
    }

    /// The system call `number` fails with `errno`, as on a kernel or in a sandbox without it.
    #[cfg(target_os = "linux")]
    pub fn without_system_call(self, number: libc::c_long, errno: Errno) -> Self {
        self.before_exec(move || {
            nix::sys::prctl::set_no_new_privs()?;
            // Load the number; if it is the one, fail it; let any other pass.
            let statement =
                |code: u32, k: u32, jt, jf| libc::sock_filter { code: code as u16, jt, jf, k };
            let fails = libc::SECCOMP_RET_ERRNO | errno as u32;
            let mut filter = [
                statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
                statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number as u32, 0, 1),
                statement(libc::BPF_RET | libc::BPF_K, fails, 0, 0),
                statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
            ];
            let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
            let mode = libc::SECCOMP_MODE_FILTER;
            // SAFETY: `program` is a filter of four statements, which the kernel copies.
            let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) };
            Errno::result(set)?;
            Ok(())
        })
    }

    /// Any other set-up, made in the child right before `execve`, in the order of the calls.
    ///
    /// The child has one thread and all the memory of a process that had several: system calls
    /// only, as far as possible.
    pub fn before_exec(
        mut self,
        set_up: impl Fn() -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.set_ups.push(Arc::new(set_up));
        self
    }

    /// How long it may run, where that is another time than [`DEADLINE`].
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }
}

/// Compare.
impl Run {
    /// The environment entries that it is given.
    pub fn entries(&self) -> &[Vec<u8>] {
        &self.environ
    }

    /// Whether qemu runs it, with whatever that alters.
    pub fn is_emulated(&self) -> bool {
        self.emulator.is_some()
    }

    /// The same run with the command alone: the first argument, which has to be a path.
    ///
    /// Where `gym-stamp` is run by qemu, a program that only execs takes its place, so that what
    /// qemu alters is altered in both.
    pub fn without_gym_stamp(&self) -> Self {
        let mut run = Self { options: Vec::new(), ..self.clone() };
        if self.emulator.is_some() {
            run.program = self.folder().join("bare-exec");
            if !run.program.exists() {
                write_file(&run.program, 0o755, &fs::read(bare_exec(Build::Aarch64)).unwrap());
            }
        } else {
            run.program = OsString::from_vec(run.args.remove(0)).into();
        }
        run
    }
}

/// A program that only execs its arguments.
pub fn bare_exec(build: Build) -> PathBuf {
    let source = include_str!("bare_exec.c");
    let cc = build.cc();
    let folder = made_once("bare-exec", &(source, &cc), |folder| {
        let path = folder.join("bare_exec.c");
        fs::write(&path, source).unwrap();
        let mut cc = Command::new(&cc);
        succeed(cc.args(["-static", "-O1", "-o"]).arg(folder.join("bare-exec")).arg(path));
    });
    folder.join("bare-exec")
}

/// Act.
impl Run {
    /// Runs it to its end.
    #[track_caller]
    #[must_use = "an outcome nobody looks at tests nothing"]
    pub fn run(self) -> Ended {
        self.spawn().wait()
    }

    /// Starts it.
    #[track_caller]
    pub fn spawn(self) -> Running {
        let told = self.told();
        self.try_spawn().unwrap_or_else(|error| panic!("{error}\n{told}"))
    }

    /// Starts it, or says with what error the kernel refused to.
    pub fn try_spawn(self) -> io::Result<Running> {
        let (path, argv) = self.path_and_argv();
        let exec = Exec::new(&path, argv, &self.environ);
        // Command forks, passes errors back and reaps. What the program gets is `exec`'s.
        let mut command = Command::new(&path);
        command.current_dir(self.cwd.as_deref().unwrap_or(self.folder.path()));
        command.stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let Self { fds, set_ups, new_session, .. } = self.clone();
        let arrange = move || {
            clean_slate()?;
            if new_session {
                nix::unistd::setsid()?;
            } else {
                nix::unistd::setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
            }
            for (fd, file) in &fds {
                // SAFETY: takes numbers; what `fd` was is the captured stream that it replaces.
                Errno::result(unsafe { libc::dup2(file.as_raw_fd(), *fd) })?;
            }
            for set_up in &set_ups {
                set_up()?;
            }
            Err(exec.exec())
        };
        // SAFETY: the closure makes system calls. Where it allocates, the C library has made that
        // safe after fork.
        unsafe { command.pre_exec(arrange) };
        let started_ns = now_ns();
        let mut child = spawn(&mut command)?;
        if let (Some(input), Some(mut pipe)) = (self.stdin.clone(), child.stdin.take()) {
            // Whoever does not read its input may end first.
            thread::spawn(move || drop(pipe.write_all(&input)));
        }
        let stdout = Stream::collect(child.stdout.take().unwrap());
        let stderr = Stream::collect(child.stderr.take().unwrap());
        Ok(Running { run: self, child, stdout, stderr, started_ns, over: false })
    }

    fn path_and_argv(&self) -> (PathBuf, Vec<Vec<u8>>) {
        let mut argv = self.wrapper.clone();
        if let Some(emulator) = &self.emulator {
            argv.push(emulator.into_bytes());
            if let Some(arg0) = &self.arg0 {
                argv.extend([b"-0".to_vec(), arg0.clone()]);
            }
        }
        let path = match argv.first() {
            Some(first) if self.wrapper.is_empty() || first.contains(&b'/') => {
                OsString::from_vec(first.clone()).into()
            }
            Some(first) => program(&String::from_utf8_lossy(first), "the package that has it"),
            None => self.program.clone(),
        };
        let named = if argv.is_empty() { self.arg0.clone() } else { None };
        argv.push(named.unwrap_or_else(|| (&self.program).into_bytes()));
        argv.extend(self.options.iter().chain(&self.args).cloned());
        if self.without_argv {
            argv.clear();
        }
        (path, argv)
    }

    /// The run in words, for a failed expectation.
    fn told(&self) -> String {
        let (path, argv) = self.path_and_argv();
        format!(
            "run:     {}\nargv:   {}\nenviron:{}",
            path.display(),
            list(&argv),
            list(&self.environ)
        )
    }
}

/// Some words, however many and long there are.
pub fn list(words: &[Vec<u8>]) -> String {
    let mut text = String::new();
    for word in words.iter().take(40) {
        write!(text, " '{}'", word[..word.len().min(400)].escape_ascii()).unwrap();
    }
    if words.len() > 40 {
        write!(text, " … ({} in all)", words.len()).unwrap();
    }
    text
}

/// Undoes what the test's own process, its runner and std brought in.
fn clean_slate() -> io::Result<()> {
    for signal in 1..=64 {
        // SAFETY: default is a disposition of every signal; those that have no other say so.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    SigSet::empty().thread_set_mask()?;
    umask(Mode::from_bits_truncate(0o022));
    close_others_on_exec();
    Ok(())
}

#[cfg(target_os = "linux")]
fn close_others_on_exec() {
    // SAFETY: takes numbers. It marks only, as std's own pipe for errors is among them.
    unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}

#[cfg(not(target_os = "linux"))]
fn close_others_on_exec() {
    for fd in 3..1024 {
        // SAFETY: takes numbers.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

/// The arguments of one `execve`, made before the fork.
struct Exec {
    path: CString,
    argv: Pointers,
    envp: Pointers,
}

impl Exec {
    fn new(path: &Path, argv: Vec<Vec<u8>>, environ: &[Vec<u8>]) -> Self {
        Self {
            path: CString::new(path.into_bytes()).unwrap(),
            argv: Pointers::new(argv),
            envp: Pointers::new(environ.to_vec()),
        }
    }

    fn exec(&self) -> io::Error {
        // SAFETY: NUL-terminated strings, in arrays that end with a null pointer.
        unsafe {
            libc::execve(self.path.as_ptr(), self.argv.array.as_ptr(), self.envp.array.as_ptr())
        };
        io::Error::last_os_error()
    }
}

struct Pointers {
    array: Vec<*const libc::c_char>,
    _strings: Vec<CString>,
}

impl Pointers {
    fn new(words: Vec<Vec<u8>>) -> Self {
        let strings: Vec<_> = words.into_iter().map(|it| CString::new(it).unwrap()).collect();
        let array = strings.iter().map(|it| it.as_ptr()).chain([ptr::null()]).collect();
        Self { array, _strings: strings }
    }
}

// SAFETY: the pointers are into `_strings`, which nobody changes.
unsafe impl Send for Pointers {}
// SAFETY: as above.
unsafe impl Sync for Pointers {}

/// What one captured stream says, read as it comes so that no pipe fills up.
struct Stream {
    chunks: Receiver<Vec<u8>>,
    all: Vec<u8>,
}

impl Stream {
    fn collect(mut pipe: impl Read + Send + 'static) -> Self {
        let (sender, chunks) = channel();
        thread::spawn(move || {
            let mut chunk = [0; 65536];
            while let Ok(count @ 1..) = pipe.read(&mut chunk) {
                if sender.send(chunk[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { chunks, all: Vec::new() }
    }

    /// Reads to the end; whether that came before `deadline`.
    fn finish(&mut self, deadline: Instant) -> bool {
        loop {
            match self.chunks.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(chunk) => self.all.extend(chunk),
                Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
    }
}

/// A started [`Run`]. Dropped, it is killed with its whole group.
pub struct Running {
    run: Run,
    child: Child,
    stdout: Stream,
    stderr: Stream,
    started_ns: u64,
    over: bool,
}

impl Running {
    /// Its [`Run::folder`].
    pub fn folder(&self) -> &Path {
        self.run.folder()
    }

    /// The process that was started: the shim, then the command.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Sends it `signal`.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Waits until it is stopped, as by SIGSTOP.
    #[track_caller]
    pub fn wait_stopped(&self) {
        let wait = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG;
        let stopped = || {
            !matches!(
                waitid(Id::Pid(Pid::from_raw(self.pid())), wait),
                Ok(nix::sys::wait::WaitStatus::StillAlive)
            )
        };
        self.wait_until(stopped);
    }

    /// Waits for `condition`, for no longer than the deadline.
    #[track_caller]
    pub fn wait_until(&self, mut condition: impl FnMut() -> bool) {
        let deadline = Instant::now() + self.run.deadline;
        while !condition() {
            assert!(Instant::now() < deadline, "waited in vain\n{}", self.run.told());
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until it has said `words` on stderr. One that ends without them fails the test.
    #[track_caller]
    pub fn until_it_says(&mut self, words: &str) {
        let deadline = Instant::now() + self.run.deadline;
        while !self.stderr.all.windows(words.len()).any(|it| it == words.as_bytes()) {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(chunk) = self.stderr.chunks.recv_timeout(left) else {
                let said = String::from_utf8_lossy(&self.stderr.all);
                panic!("it did not say '{words}'\n{}\nstderr:  {said}", self.run.told());
            };
            self.stderr.all.extend(chunk);
        }
    }

    /// Waits for its end, or kills it at the deadline and fails the test.
    #[track_caller]
    pub fn wait(mut self) -> Ended {
        let deadline = Instant::now() + self.run.deadline;
        let heard = self.stdout.finish(deadline) && self.stderr.finish(deadline);
        let status = self.reap(deadline).filter(|_| heard);
        let ended_ns = now_ns();
        let told = format!(
            "{}\nstatus:  {}\nstdout:  {}\nstderr:  {}",
            self.run.told(),
            status.map_or("none".into(), |it| it.to_string()),
            String::from_utf8_lossy(&self.stdout.all),
            String::from_utf8_lossy(&self.stderr.all),
        );
        let status = status.unwrap_or_else(|| panic!("still running at the deadline\n{told}"));
        Ended {
            told,
            status: status.code().unwrap_or_else(|| 128 + status.signal().unwrap()),
            stdout: std::mem::take(&mut self.stdout.all),
            stderr: std::mem::take(&mut self.stderr.all),
            pid: self.pid(),
            started_ns: self.started_ns,
            ended_ns,
            folder: Arc::clone(&self.run.folder),
        }
    }

    fn reap(&mut self, deadline: Instant) -> Option<ExitStatus> {
        let mut pause = Duration::from_micros(50);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.over = true;
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Whatever it left behind in its group goes too; mostly there is nothing.
        let _ = killpg(Pid::from_raw(self.pid()), Signal::SIGKILL);
        if !self.over {
            let _ = self.child.wait();
        }
    }
}

/// What came of a run.
pub struct Ended {
    told: String,
    /// The exit status; 128 and the signal's number for one that a signal ended.
    pub status: i32,
    /// All it wrote to stdout.
    pub stdout: Vec<u8>,
    /// All it wrote to stderr.
    pub stderr: Vec<u8>,
    /// The process that was started.
    pub pid: i32,
    /// The wall clock before it started, in ns.
    pub started_ns: u64,
    /// The wall clock after it ended, in ns.
    pub ended_ns: u64,
    folder: Arc<TempDir>,
}

/// Expect. Each returns the outcome, for the next.
impl Ended {
    /// Its exit status, as a shell has it.
    #[track_caller]
    pub fn exits(self, status: i32) -> Self {
        assert_eq!(self.status, status, "exit status\n{self}");
        self
    }

    /// The whole of its stdout.
    #[track_caller]
    pub fn prints(self, stdout: impl Bytes) -> Self {
        let stdout = stdout.into_bytes();
        assert!(self.stdout == stdout, "stdout is not '{}'\n{self}", stdout.escape_ascii());
        self
    }

    /// The whole of its stderr.
    #[track_caller]
    pub fn says(self, stderr: impl Bytes) -> Self {
        let stderr = stderr.into_bytes();
        assert!(self.stderr == stderr, "stderr is not '{}'\n{self}", stderr.escape_ascii());
        self
    }

    /// An empty stderr.
    #[track_caller]
    pub fn says_nothing(self) -> Self {
        self.says("")
    }

    /// One line on stderr that begins with `gym-stamp: `.
    #[track_caller]
    pub fn says_line(self) -> Self {
        self.says_line_with(&[])
    }

    /// One line on stderr that begins with `gym-stamp: ` and has all of `words` in it.
    #[track_caller]
    pub fn says_line_with(self, words: &[&str]) -> Self {
        let stderr = String::from_utf8_lossy(&self.stderr);
        let line = stderr.strip_suffix('\n').unwrap_or("");
        assert!(
            line.starts_with("gym-stamp: ") && !line.contains('\n'),
            "stderr is not one line of gym-stamp's\n{self}"
        );
        for word in words {
            assert!(line.contains(word), "stderr has no '{word}'\n{self}");
        }
        self
    }

    /// `gym-stamp` itself has failed with `status`: one line on stderr with all of `words` in it,
    /// nothing on stdout.
    #[track_caller]
    pub fn fails(self, status: i32, words: &[&str]) -> Self {
        self.exits(status).prints("").says_line_with(words)
    }
}

/// What else there is to look at.
impl Ended {
    /// Its stdout, which has to be UTF-8.
    pub fn stdout_text(&self) -> String {
        String::from_utf8(self.stdout.clone()).unwrap()
    }

    /// Its stderr, which has to be UTF-8.
    pub fn stderr_text(&self) -> String {
        String::from_utf8(self.stderr.clone()).unwrap()
    }

    /// The run's own folder ([`Run::folder`]), there for as long as this is.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.told)
    }
}

/// A pipe that nobody reads: who writes to it gets SIGPIPE.
pub fn without_reader() -> OwnedFd {
    let (_, writer) = nix::unistd::pipe().unwrap();
    writer
}

/// A pipe that no byte more fits into, and the end that could be read.
pub fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = nix::unistd::pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    let mut pipe = File::from(writer);
    while pipe.write(&[b'x'; 4096]).is_ok() {}
    while pipe.write(b"x").is_ok() {}
    fcntl(&pipe, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    (reader, pipe.into())
}

/// A pseudo-terminal for [`Run::on_terminal`].
pub struct Terminal {
    master: File,
    /// Kept open, or the master would report a hang-up between two runs.
    _slave: OwnedFd,
    name: PathBuf,
}

impl Terminal {
    /// A new one.
    pub fn new() -> Self {
        let pty = nix::pty::openpty(None, None).unwrap();
        fcntl(&pty.master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        let name = nix::unistd::ttyname(&pty.slave).unwrap();
        Self { master: pty.master.into(), _slave: pty.slave, name }
    }

    /// What was written to it since the last call.
    pub fn read(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        // It ends with "would block", or with EIO after a hang-up.
        let _ = self.master.read_to_end(&mut all);
        all
    }

    /// Types `keys`.
    pub fn write(&mut self, keys: impl Bytes) {
        self.master.write_all(&keys.into_bytes()).unwrap();
    }

    fn open_slave(&self) -> OwnedFd {
        // By name: descriptors from before the last session ended are hung up.
        let mut tty = File::options();
        tty.read(true).write(true).custom_flags(libc::O_NOCTTY);
        tty.open(&self.name).unwrap().into()
    }
}
