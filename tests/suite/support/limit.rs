//! A limit for each test: one that exceeds it is named, what it started is killed, and if that does
//! not end it, the whole run ends.
//!
//! A test counts from the first program that it starts until its thread ends. With
//! `--test-threads=1` the harness has no thread for each test, prints the name of the test that runs,
//! and there is no limit.

use std::cell::RefCell;
use std::fs;
use std::io::{self, Write};
use std::process;
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, gettid};

/// Seconds, instead of [`LIMIT`].
pub const LIMIT_VARIABLE: &str = "GYM_TEST_LIMIT";

/// Far longer than any test takes on a busy machine, venvs that it makes included.
const LIMIT: Duration = Duration::from_secs(300);
/// For a test to end after what it waited for was killed.
const FAREWELL: Duration = Duration::from_secs(20);
/// The status of a test run that failed, as the harness has it.
const FAILED: i32 = 101;

static RUNNING: Mutex<Vec<Test>> = Mutex::new(Vec::new());

thread_local! {
    static THIS: RefCell<Option<Registration>> = const { RefCell::new(None) };
}

struct Test {
    name: String,
    thread: Pid,
    began: Instant,
    is_killed: bool,
}

/// Ends with the test's thread.
struct Registration(Pid);

impl Drop for Registration {
    fn drop(&mut self) {
        running(|tests| tests.retain(|test| test.thread != self.0));
    }
}

/// Begins to count for the test whose thread this is.
pub fn begin() {
    static WATCHED: Once = Once::new();
    let thread = thread::current();
    // The harness names a test's thread after the test.
    let Some(name) = thread.name().filter(|&name| name != "main") else {
        return;
    };
    // A destructor that starts something finds it gone.
    let _ = THIS.try_with(|this| {
        this.borrow_mut().get_or_insert_with(|| {
            let thread = gettid();
            let name = name.to_owned();
            running(|all| {
                all.push(Test { name, thread, began: Instant::now(), is_killed: false });
            });
            Registration(thread)
        });
    });
    WATCHED.call_once(|| {
        thread::spawn(watch);
    });
}

fn running<T>(with: impl FnOnce(&mut Vec<Test>) -> T) -> T {
    with(&mut RUNNING.lock().unwrap_or_else(PoisonError::into_inner))
}

fn watch() {
    let limit = std::env::var(LIMIT_VARIABLE).ok().and_then(|it| it.parse().ok());
    let limit = limit.map_or(LIMIT, Duration::from_secs);
    loop {
        thread::sleep(Duration::from_millis(200));
        running(|tests| tests.iter_mut().for_each(|test| check(test, limit)));
    }
}

fn check(test: &mut Test, limit: Duration) {
    let elapsed = test.began.elapsed();
    if elapsed > limit && !test.is_killed {
        test.is_killed = true;
        report(&format!(
            "{} takes longer than {} s: killing what it started",
            test.name,
            limit.as_secs()
        ));
        kill_children(&format!("/proc/self/task/{}/children", test.thread));
    }
    if elapsed > limit + FAREWELL {
        report(&format!("{} does not end: ending the whole run", test.name));
        for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
            kill_children(&format!("{}/children", task.path().display()));
        }
        process::exit(FAILED);
    }
}

/// Past the harness, which keeps the output of tests until they end.
fn report(words: &str) {
    // Without a stderr there is nobody to name it to.
    let _ = writeln!(io::stderr(), "test limit: {words}");
}

/// Kills the processes that the file `children` lists, and all below them.
fn kill_children(children: &str) {
    let children = fs::read_to_string(children).unwrap_or_default();
    for pid in children.split_whitespace().filter_map(|pid| pid.parse().ok()) {
        kill_children(&format!("/proc/{pid}/task/{pid}/children"));
        // It may have ended by itself.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}
