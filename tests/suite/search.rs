//! Which file a command turns out to be, how it is run, and what is said where it cannot be: every
//! errno that `execve` has for a path, and every form of program.
//!
//! All rows run as nobody: root is denied next to nothing. Errors that cannot be had from a machine's
//! own files, such as a network filesystem's `ESTALE` and `ETIMEDOUT`, are strace's.

use std::ffi::{CStr, CString};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;

use macro_rules_attribute::apply;
use nix::errno::Errno;
use nix::libc;
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::support::toolbox::{made_once, program, succeed};
use crate::support::{Build, Bytes, Run, every_build, gym_stamp, native_builds};

/// Whoever nobody is.
const NOBODY: u32 = 65534;

/// A shell script's way of telling how it is run, in the form of [`teller`].
const TELLS: &str = "/usr/bin/tr '\\0' '|' </proc/$$/cmdline\n";

// Where a name is looked for

#[apply(every_build)]
fn entries_of_path(build: Build) {
    let row = |why| Row::new(build, why);
    row("the first that has it")
        .tool("a/tool")
        .tool("b/tool")
        .path("a:b")
        .command(["tool", "x y", "", "*"])
        .runs("a/tool|tool|x y||*")
        .like(&EVERYONE);
    row("the second has it")
        .folder("a")
        .tool("b/tool")
        .path("a:b")
        .command(["tool"])
        .runs("b/tool|tool")
        .like(&EVERYONE);
    row("an entry that is not there")
        .tool("b/tool")
        .path("nowhere:b")
        .command(["tool"])
        .runs("b/tool|tool")
        .like(&EVERYONE);
    row("relative entries")
        .tool("a/b/tool")
        .path("a/../a/b/")
        .command(["tool"])
        .runs("a/../a/b//tool|tool")
        .like(&["dash", "env"]);
    row("empty: the current folder")
        .tool("tool")
        .path("")
        .command(["tool"])
        .runs("./tool|tool")
        .like(&EVERYONE);
    row("an empty first entry")
        .tool("tool")
        .tool("a/tool")
        .path(":a")
        .command(["tool"])
        .runs("./tool|tool")
        .like(&EVERYONE);
    row("an empty last entry")
        .tool("tool")
        .path("a:")
        .command(["tool"])
        .runs("./tool|tool")
        .like(&EVERYONE);
    row("an empty entry in the middle")
        .tool("tool")
        .tool("b/tool")
        .path("a::b")
        .command(["tool"])
        .runs("./tool|tool")
        .like(&EVERYONE);
    row("unset: the default")
        .without_path()
        .command(["readlink", "/proc/self/exe"])
        .runs("/usr/bin/readlink")
        .like(&EVERYONE);
    row("the default does not hold the current folder")
        .tool("tool")
        .without_path()
        .command(["tool"])
        .fails(127, NOT_IN_PATH)
        .like(&["dash", "env"]);
    row("too long for a path")
        .tool("b/tool")
        .path(&format!("{}:b", "x".repeat(5000)))
        .command(["tool"])
        .runs("b/tool|tool")
        .like(&EVERYONE);
    row("too long for a path with the name")
        .tool("b/tool")
        .path(&format!("{}x:b", "./".repeat(2045)))
        .command(["tool"])
        .runs("b/tool|tool")
        .like(&["dash", "bash"]);
    row("nothing but too long ones")
        .path(&["x".repeat(5000), "y/".repeat(3000)].join(":"))
        .command(["tool"])
        .fails(127, NOT_IN_PATH)
        .like(&EVERYONE);
}

// qemu drops all but the last of the duplicates.
#[apply(native_builds)]
fn duplicates_of_path(build: Build) {
    Row::new(build, "the first decides")
        .tool("a/tool")
        .tool("b/tool")
        .path("a")
        .entry("PATH=b")
        .command(["tool"])
        .runs("a/tool|tool");
    Row::new(build, "the first decides, though only the second has it")
        .folder("a")
        .tool("b/tool")
        .path("a")
        .entry("PATH=b")
        .command(["tool"])
        .fails(127, NOT_IN_PATH);
}

const NOT_IN_PATH: &str =
    "'tool' is not found in PATH: give its path, or --venv DIR for a command of a venv";

#[apply(every_build)]
fn what_a_search_passes_over(build: Build) {
    let row = |why| Row::new(build, why).tool("b/tool").path("a:b").command(["tool"]);
    let passes = |row: Row| {
        row.runs("b/tool|tool").like(&EVERYONE);
    };
    passes(row("ENOTDIR: an entry that is a file").file("a", 0o644, ""));
    passes(row("ENOTDIR: an entry that is a program").tool("a"));
    passes(row("EACCES: an entry that we may not search").tool("a/tool").mode("a", 0o700));
    passes(row("EACCES: an entry that we may list and not search").folder("a").mode("a", 0o744));
    row("ELOOP: an entry that links to itself")
        .link("a", "a")
        .runs("b/tool|tool")
        .like(&["dash", "bash"]);
    row("ELOOP: a link to itself")
        .link("a/tool", "tool")
        .runs("b/tool|tool")
        .like(&["dash", "bash"]);
    passes(row("ENOENT: a link to nothing").link("a/tool", "gone"));
    passes(row("ENOENT: an entry that links to nothing").link("a", "gone"));
    passes(row("EACCES: nobody may execute it").tool("a/tool").mode("a/tool", 0o644));
    passes(row("EACCES: we may not execute it").tool("a/tool").mode("a/tool", 0o744));
    passes(row("EACCES: a folder").folder("a/tool"));
    row("EACCES: a FIFO").fifo("a/tool").runs("b/tool|tool").like(&["dash", "env"]);
    passes(row("EACCES: a link to a device").link("a/tool", "/dev/null"));
    passes(row("EACCES: mounted noexec").tool("a/tool").noexec("a"));
    row("EACCES: its interpreter may not be executed")
        .file("a/tool", 0o755, "#!a/interpreter\n")
        .file("a/interpreter", 0o644, "")
        .runs("b/tool|tool")
        .like(&["dash", "env"]);
    row("ENOTDIR: its interpreter's folder is a file")
        .file("a/tool", 0o755, "#!b/tool/x\n")
        .runs("b/tool|tool")
        .like(&["dash", "env"]);
    row("ELOOP: it is its own interpreter")
        .file("a/tool", 0o755, "#!a/tool\n")
        .runs("b/tool|tool")
        .like(&["dash"]);
    for errno in [Errno::ESTALE, Errno::ENODEV, Errno::ETIMEDOUT, Errno::ENOTDIR] {
        row(errno.desc()).tool("a/tool").failing(errno).runs("b/tool|tool").like(&["dash", "env"]);
    }
    for errno in [Errno::ELOOP, Errno::ENAMETOOLONG] {
        row(errno.desc()).tool("a/tool").failing(errno).runs("b/tool|tool").like(&["dash"]);
    }
}

/// As in a sandbox whose list of system calls is older than the shim.
#[apply(native_builds)] // qemu makes other system calls than those asked for
fn a_file_is_looked_at_where_the_kernel_knows_fewer_system_calls(build: Build) {
    for number in [libc::SYS_statx, libc::SYS_faccessat2] {
        for errno in [Errno::ENOSYS, Errno::EPERM] {
            let row = |why| Row::new(build, why).without_system_call(number, errno);
            row("a file that may not be executed")
                .file("a/tool", 0o644, "")
                .command(["a/tool"])
                .fails(126, "'a/tool' may not be executed: chmod +x permits it");
            row("a folder").folder("a").command(["./a"]).fails(126, "'./a' is a directory");
            row("its interpreter is not there")
                .file("a/tool", 0o755, "#!/nope\n")
                .command(["a/tool"])
                .fails(127, "'a/tool' runs under '/nope', which is not there: correct its #! line");
            row("a venv")
                .venv("v")
                .options(["--venv", "v"])
                .command(["python"])
                .runs("TMP/v/bin/python|python");
        }
    }
}

#[apply(every_build)]
fn verbose_names_only_what_may_be_run(build: Build) {
    let row = Row::new(build, "in its way").folder("a/tool").fifo("b/tool").tool("c/tool");
    let row = row.file("d/tool", 0o644, "").path("d:a:b:c").options(["-v"]).command(["tool"]);
    let ended = row.tell().shim.run().exits(0);
    let told = ended.stderr_text();
    let running: Vec<_> = told.lines().filter(|line| line.contains("running")).collect();
    assert_eq!(running, ["gym-stamp: running 'c/tool'"], "{ended}");
}

#[apply(every_build)]
fn what_a_search_that_finds_nothing_remembers(build: Build) {
    let row = |why| Row::new(build, why).folder("b").path("a:b").command(["tool"]);
    row("nothing was there").folder("a").fails(127, NOT_IN_PATH).like(&EVERYONE);
    row("ENOENT: a link to nothing").link("a/tool", "gone").fails(127, NOT_IN_PATH).like(&EVERYONE);
    row("ELOOP: a link to itself").link("a/tool", "tool").fails(127, NOT_IN_PATH);
    row("ESTALE: a file that is there")
        .tool("a/tool")
        .failing(Errno::ESTALE)
        .fails(127, NOT_IN_PATH);
    row("ENOTDIR: the last entry is a file")
        .path("b:a")
        .file("a", 0o644, "")
        .fails(127, NOT_IN_PATH)
        .like(&["dash", "bash"]);
    row("EACCES: an entry that we may not search")
        .tool("a/tool")
        .mode("a", 0o700)
        .fails(126, "'a/tool': a directory on the way may not be searched")
        .like(&["dash", "env"]);
    row("EACCES, then ENOTDIR")
        .path("a:c")
        .tool("a/tool")
        .mode("a/tool", 0o644)
        .file("c", 0o644, "")
        .fails(126, "'a/tool' may not be executed: chmod +x permits it")
        .like(&["bash", "env"]);
    row("EACCES twice: the first is told")
        .tool("a/tool")
        .mode("a/tool", 0o644)
        .folder("b/tool")
        .fails(126, "'a/tool' may not be executed: chmod +x permits it")
        .like(&EVERYONE);
    row("EACCES: we may not execute it")
        .tool("a/tool")
        .mode("a/tool", 0o744)
        .fails(126, "'a/tool' may not be executed: chmod +x permits it")
        .like(&EVERYONE);
    row("EACCES: a folder")
        .folder("a/tool")
        .fails(126, "'a/tool' is a directory")
        .like(&["dash", "env"]);
    row("EACCES: a FIFO")
        .fifo("a/tool")
        .fails(126, "'a/tool' is not a regular file")
        .like(&["dash", "env"]);
    row("EACCES: mounted noexec")
        .tool("a/tool")
        .noexec("a")
        .fails(126, "'a/tool' lies on a filesystem that is mounted noexec")
        .like(&EVERYONE);
}

#[apply(every_build)]
fn what_ends_a_search(build: Build) {
    let row = |why| Row::new(build, why).tool("b/tool").path("a:b").command(["tool"]);
    let busy = row("ETXTBSY").tool("a/tool");
    let writer = File::options().append(true).open(busy.run.folder().join("a/tool")).unwrap();
    busy.fails(126, "'a/tool' cannot be executed: the file is open for writing")
        .like(&["bash", "env"]);
    drop(writer);
    for (errno, words) in
        [(Errno::EIO, "input/output error"), (Errno::EPERM, "operation not permitted")]
    {
        row(words)
            .tool("a/tool")
            .failing(errno)
            .fails(126, &format!("'a/tool' cannot be executed: {words}"))
            .like(&["bash", "env"]);
    }
    row("its interpreter is not there")
        .file("a/tool", 0o755, "#!/nope\n")
        .fails(127, "'a/tool' runs under '/nope', which is not there: correct its #! line")
        .like(&["bash"]);
    row("its loader is not there")
        .copy("a/tool", &unloadable())
        .fails(
            127,
            "'a/tool' is loaded by '/nope/ld.so', which is not there: it was built for another \
             system",
        )
        .like(&["bash"]);
    row("a program of another machine")
        .file("a/tool", 0o755, elf(60_000))
        .fails(126, ALIEN)
        .like(&["bash"]);
    row("data").file("a/tool", 0o755, b"\0\x01\x02\n").fails(126, NO_PROGRAM).like(&["bash"]);
    row("a text").file("a/tool", 0o755, TELLS).runs("/bin/sh|a/tool|").like(&["env"]);
}

const ALIEN: &str = "'a/tool' is a program for other machines, not for this one";
const NO_PROGRAM: &str = "'a/tool' is neither a program nor a script";

/// A string that the kernel takes, and that grows with the venv beyond what it takes.
#[apply(every_build)]
fn too_long_for_the_kernel(build: Build) {
    let long = format!("{}:b", "x".repeat(131_060));
    let row = |why| Row::new(build, why).venv("v").tool("v/bin/tool").path(&long);
    row("E2BIG: by a name")
        .options(["--venv", "v"])
        .command(["tool"])
        .fails(126, "'TMP/v/bin/tool' cannot be executed: arguments and environment too long");
    row("E2BIG: by a path")
        .options(["--venv", "v"])
        .command(["v/bin/tool"])
        .fails(126, "'v/bin/tool' cannot be executed: arguments and environment too long");
    row("it fits").command(["v/bin/tool"]).runs("v/bin/tool|v/bin/tool");
}

#[apply(every_build)]
fn names_that_no_file_has(build: Build) {
    let row = |why| Row::new(build, why).tool("a/tool").path("a");
    row("empty")
        .command([""])
        .fails(127, "'' is not found in PATH: give its path, or --venv DIR for a command of a venv")
        .like(&["bash", "env"]);
    let long = "n".repeat(300);
    let words = format!(
        "'{long}' is not found in PATH: give its path, or --venv DIR for a command of a venv"
    );
    row("ENAMETOOLONG").command([&*long]).fails(127, &words).like(&["bash", "dash"]);
    row("the entry itself").command(["."]).fails(126, "'a/.' is a directory");
    row("in neither the venv nor PATH")
        .venv("v")
        .options(["--venv", "v"])
        .command(["gone"])
        .fails(127, "'gone' is neither in the venv 'TMP/v' nor elsewhere in PATH");
    row("in PATH behind the venv")
        .venv("v")
        .options(["--venv", "v"])
        .command(["tool", "x"])
        .runs("a/tool|tool|x");
    row("in the venv before PATH")
        .venv("v")
        .tool("v/bin/tool")
        .options(["--venv", "v"])
        .command(["tool", "x"])
        .runs("TMP/v/bin/tool|tool|x");
    row("denied in the venv, found behind it")
        .venv("v")
        .file("v/bin/tool", 0o644, "")
        .options(["--venv", "v"])
        .command(["tool"])
        .runs("a/tool|tool");
}

// A path

#[apply(every_build)]
fn paths(build: Build) {
    let row = |why| Row::new(build, why).tool("a/tool").path("a");
    row("as it is").command(["a/tool", "x"]).runs("a/tool|a/tool|x").like(&EVERYONE);
    row("absolute").command(["TMP/a/tool"]).runs("TMP/a/tool|TMP/a/tool").like(&EVERYONE);
    row("through a link")
        .link("b", "a")
        .command(["./b/tool"])
        .runs("./b/tool|./b/tool")
        .like(&EVERYONE);
    row("ENOENT")
        .command(["./tool"])
        .fails(127, "'./tool': no such file or directory")
        .like(&EVERYONE);
    row("ENOTDIR").command(["a/tool/x"]).fails(127, "'a/tool/x': not a directory").like(&["dash"]);
    row("ENOTDIR: a slash too many")
        .command(["a/tool/"])
        .fails(127, "'a/tool/': not a directory")
        .like(&["dash"]);
    row("ELOOP")
        .link("b", "b")
        .command(["./b"])
        .fails(127, "'./b': too many levels of symbolic links");
    row("ENAMETOOLONG: a name")
        .command([&format!("./{}", "n".repeat(256))])
        .fails(127, &format!("'./{}': file name too long", "n".repeat(256)));
    let long = "./".repeat(2100);
    row("ENAMETOOLONG: a path").command([&*long]).starts_to_fail(127, "'././././");
    row("a link to nothing")
        .link("b", "no/where")
        .command(["./b"])
        .fails(127, "'./b' is a link to 'no/where', which is not there")
        .like(&EVERYONE);
    row("a folder").command(["./a"]).fails(126, "'./a' is a directory").like(&EVERYONE);
    row("a FIFO").fifo("f").command(["./f"]).fails(126, "'./f' is not a regular file");
    row("a device")
        .command(["/dev/null"])
        .fails(126, "'/dev/null' is not a regular file")
        .like(&EVERYONE);
    row("nobody may execute it")
        .mode("a/tool", 0o666)
        .command(["a/tool"])
        .fails(126, "'a/tool' may not be executed: chmod +x permits it")
        .like(&EVERYONE);
    row("a folder that we may not search")
        .mode("a", 0o700)
        .command(["a/tool"])
        .fails(126, "'a/tool': a directory on the way may not be searched");
    row("mounted noexec")
        .noexec("a")
        .command(["a/tool"])
        .fails(126, "'a/tool' lies on a filesystem that is mounted noexec")
        .like(&EVERYONE);
    for (errno, words) in [
        (Errno::ESTALE, "stale file handle"),
        (Errno::ENODEV, "no such device"),
        (Errno::ETIMEDOUT, "timed out"),
        (Errno::EIO, "input/output error"),
        (Errno::EPERM, "operation not permitted"),
        (Errno::EBUSY, "error 16"),
    ] {
        row(words)
            .command(["a/tool"])
            .failing(errno)
            .fails(126, &format!("'a/tool' cannot be executed: {words}"))
            .like(&EVERYONE);
    }
    row("we may execute it and not read it")
        .mode("a/tool", 0o111)
        .command(["a/tool", "x"])
        .runs("a/tool|a/tool|x")
        .like(&EVERYONE);
}

// Texts

#[apply(every_build)]
fn texts_that_do_not_say_what_they_run_under(build: Build) {
    let row = |why, text: &[u8]| Row::new(build, why).file("a/tool", 0o755, text).path("a");
    let tells = TELLS.as_bytes();
    row("by a name", tells).command(["tool", "-x", "a b", ""]).runs("/bin/sh|a/tool|-x|a b||");
    row("as another's execvp runs it", tells)
        .command(["tool", "-x", "a b", ""])
        .runs("/bin/sh|a/tool|-x|a b||")
        .like(&["env"]);
    row("by a path", tells).command(["./a/tool", "hi"]).runs("/bin/sh|./a/tool|hi|").like(&["env"]);
    row("an empty file", b"").command(["tool"]).runs_silently().like(&EVERYONE);
    row("a comment", b"# !/nope\n").command(["tool"]).runs_silently().like(&EVERYONE);
    row("a byte-order mark alone", &[b"\xef\xbb\xbf:; ", tells].concat()).command(["tool"]).ends(
        0,
        "/bin/sh|a/tool|",
        "a/tool: 1: \u{feff}:: not found\n",
    );
    row("a NUL in the second line", &[tells, b"exit\n\0"].concat())
        .command(["tool"])
        .runs("/bin/sh|a/tool|")
        .like(&["env"]);
    row("its status", b"exit 42").command(["tool"]).ends(42, "", "");
    row("an entry that begins with a dash", b"")
        .file("-d/t", 0o755, TELLS)
        .path("-d")
        .command(["t", "x"])
        .runs("/bin/sh|./-d/t|x|");
    row("a path that begins with a dash", b"")
        .file("-d/t", 0o755, TELLS)
        .command(["--", "-d/t", "x"])
        .runs("/bin/sh|./-d/t|x|");
    row("a name that begins with a dash", b"")
        .file("a/-c", 0o755, TELLS)
        .command(["--", "-c", "exit 9"])
        .runs("/bin/sh|a/-c|exit 9|");
}

#[apply(every_build)]
fn files_that_no_shell_should_read(build: Build) {
    let row = |why, bytes: &[u8]| {
        Row::new(build, why).file("a/tool", 0o755, bytes).path("a").command(["tool"])
    };
    row("a NUL in the first line", b"echo \0\n").fails(126, NO_PROGRAM).like(&["bash"]);
    row("a NUL alone", b"\0").fails(126, NO_PROGRAM).like(&["bash"]);
    row("a byte-order mark before #!", b"\xef\xbb\xbf#!/bin/sh\necho no\n")
        .fails(126, "'a/tool' has a byte-order mark before its #! line: remove it");
    row("execute-only", b"echo no\n")
        .mode("a/tool", 0o111)
        .fails(126, "'a/tool' is no program, and cannot be read as a script: permission denied")
        .like(&["bash"]);
}

// What a file runs under

#[apply(every_build)]
fn interpreters(build: Build) {
    let row = |why, line: &str| {
        Row::new(build, why)
            .file("a/tool", 0o755, line)
            .tool("a/inner")
            .path("a")
            .command(["tool", "x", ""])
    };
    row("absolute", "#!TMP/a/inner\n").runs("a/tool|TMP/a/inner|a/tool|x|").like(&EVERYONE);
    row("relative", "#!a/inner\n").runs("a/tool|a/inner|a/tool|x|").like(&EVERYONE);
    row("one argument", "#! \ta/inner  -a  b \n")
        .runs("a/tool|a/inner|-a  b|a/tool|x|")
        .like(&EVERYONE);
    row("another script", "#!a/middle -m\n")
        .file("a/middle", 0o755, "#!a/inner -i\n")
        .runs("a/tool|a/inner|-i|a/middle|-m|a/tool|x|")
        .like(&EVERYONE);
    row("the longest", &format!("#!{}/inner\n", slashes("a", 253 - 6)))
        .runs(&format!("a/tool|{}/inner|a/tool|x|", slashes("a", 253 - 6)))
        .like(&EVERYONE);
    row("a long argument is cut off", &format!("#!a/inner {}\n", "y".repeat(300)))
        .runs(&format!("a/tool|a/inner|{}|a/tool|x|", "y".repeat(245)))
        .like(&EVERYONE);
}

/// `folder` with as many slashes behind it as make a path of `length` bytes.
fn slashes(folder: &str, length: usize) -> String {
    format!("{folder}{}", "/".repeat(length - folder.len()))
}

#[apply(every_build)]
fn interpreters_that_fail(build: Build) {
    let row = |why, line: &str| {
        Row::new(build, why)
            .file("a/tool", 0o755, line)
            .tool("a/inner")
            .path("a")
            .command(["tool", "x"])
    };
    let missing = "which is not there: correct its #! line";
    row("missing", "#!/nope -x\n")
        .fails(127, &format!("'a/tool' runs under '/nope', {missing}"))
        .like(&["bash", "env"]);
    row("missing, by a path", "#!/nope\n")
        .command(["./a/tool"])
        .fails(127, &format!("'./a/tool' runs under '/nope', {missing}"))
        .like(&EVERYONE);
    row("missing, in a script that we may not read", "#!/nope\n")
        .mode("a/tool", 0o111)
        .fails(127, "'a/tool': what it runs under: no such file or directory");
    row("not where it starts from", "#!inner\n")
        .fails(127, &format!("'a/tool' runs under 'inner', {missing}"));
    row("its folder is a file", "#!a/inner/x\n")
        .command(["a/tool"])
        .fails(127, &format!("'a/tool' runs under 'a/inner/x', {missing}"));
    row("missing behind another", "#!a/middle\n")
        .file("a/middle", 0o755, "#!/nope\n")
        .fails(127, &format!("'a/middle' runs under '/nope', {missing}"));
    row("its loader is missing", "#!a/middle\n").copy("a/middle", &unloadable()).fails(
        127,
        "'a/middle' is loaded by '/nope/ld.so', which is not there: it was built for another system",
    );
    row("a carriage return", "#!/bin/sh\r\necho no\r\n").fails(
        127,
        "'a/tool' runs under '/bin/sh\\r', which is not there: its lines must not end in carriage \
         returns",
    );
    row("a carriage return behind an argument", "#!a/inner -x\r\n")
        .runs("a/tool|a/inner|-x\r|a/tool|x")
        .like(&EVERYONE);
    row("too long", &format!("#!{}/inner\n", slashes("a", 254 - 6)))
        .fails(126, "'a/tool' has a #! line that is too long for the kernel");
    row("far too long", &format!("#!/{}\n", "y".repeat(6000)))
        .fails(126, "'a/tool' has a #! line that is too long for the kernel");
    for empty in ["#!", "#!\n", "#! \t \necho no\n"] {
        row("none", empty).fails(126, "'a/tool' has a #! line that names no interpreter");
    }
    row("it may not be executed", "#!a/inner\n")
        .mode("a/inner", 0o644)
        .fails(126, "'a/tool' runs under 'a/inner', which may not be executed")
        .like(&EVERYONE);
    row("it may not be executed, behind another", "#!a/middle\n")
        .file("a/middle", 0o755, "#!a/inner\n")
        .mode("a/inner", 0o644)
        .fails(126, "'a/middle' runs under 'a/inner', which may not be executed")
        .like(&EVERYONE);
    row("a folder", "#!/usr\n")
        .fails(126, "'a/tool' runs under '/usr', which may not be executed")
        .like(&EVERYONE);
    row("mounted noexec", "#!m/inner\n")
        .tool("m/inner")
        .noexec("m")
        .fails(126, "'a/tool' runs under 'm/inner', which may not be executed")
        .like(&EVERYONE);
    row("a program of another machine", "#!a/middle\n")
        .file("a/middle", 0o755, elf(60_000))
        .fails(126, "'a/tool' runs under 'a/middle', which this machine cannot run");
    row("a text", "#!a/middle\n")
        .file("a/middle", 0o755, TELLS)
        .fails(126, "'a/tool' runs under 'a/middle', which this machine cannot run");
    row("itself", "#!a/tool\n")
        .command(["a/tool"])
        .fails(126, "'a/tool' cannot be executed: too many levels of symbolic links");
    let deep = (0..7).fold(row("too deep", "#!a/0\n"), |row, level| {
        row.file(&format!("a/{level}"), 0o755, format!("#!a/{}\n", level + 1))
    });
    deep.tool("a/7")
        .command(["a/tool"])
        .fails(126, "'a/tool' cannot be executed: too many levels of symbolic links");
}

#[apply(every_build)]
fn programs_that_fail(build: Build) {
    let row = |why| Row::new(build, why).path("a").command(["tool"]);
    row("its loader is missing").copy("a/tool", &unloadable()).fails(
        127,
        "'a/tool' is loaded by '/nope/ld.so', which is not there: it was built for another system",
    );
    let loaded = fs::read(unloadable()).unwrap();
    let at = loaded.windows(11).position(|it| it == b"/nope/ld.so").unwrap();
    let loader = |path: &[u8; 11]| [&loaded[..at], path, &loaded[at + 11..]].concat();
    row("its loader may not be executed")
        .file("a/tool", 0o755, loader(b"a/loader\0\0\0"))
        .file("a/loader", 0o644, "")
        .fails(126, "'a/tool' runs under 'a/loader', which may not be executed");
    let (other, name) = match own_machine(build) {
        62 => (183, "aarch64"),
        _ => (62, "x86-64"),
    };
    // Under qemu this machine is of the other kind after all, and would run a whole one.
    row("of the other kind that the shim is freestanding for")
        .file("a/tool", 0o755, &elf(other)[..64])
        .fails(126, &format!("'a/tool' is a program for {name} machines, not for this one"));
    row("of a kind that nobody emulates").file("a/tool", 0o755, elf(60_000)).fails(126, ALIEN);
    row("of this kind with its bytes the other way round")
        .file("a/tool", 0o755, big_endian(elf(own_machine(build).swap_bytes())))
        .fails(126, ALIEN);
    let damaged = "'a/tool' is a damaged program, or one for another kernel";
    row("not even a whole header")
        .file("a/tool", 0o755, &elf(own_machine(build))[..40])
        .fails(126, damaged);
    row("a header and nothing else")
        .file("a/tool", 0o755, &elf(own_machine(build))[..64])
        .fails(126, damaged);
    row("its first four bytes").file("a/tool", 0o755, "\x7fELF").fails(126, ALIEN);
}

/// A header of an ELF program for `machine`, and nothing to run.
fn elf(machine: u16) -> Vec<u8> {
    let mut header = b"\x7fELF\x02\x01\x01".to_vec();
    header.resize(16, 0);
    header.extend(2_u16.to_le_bytes());
    header.extend(machine.to_le_bytes());
    header.resize(120, 0);
    // Where program headers begin, the size of each, and how many there are.
    header[32] = 64;
    header[54] = 56;
    header[56] = 1;
    header
}

fn big_endian(mut elf: Vec<u8>) -> Vec<u8> {
    elf[5] = 2;
    elf
}

/// `e_machine` of the shim's own machine.
fn own_machine(build: Build) -> u16 {
    if build == Build::Aarch64 || cfg!(target_arch = "aarch64") { 183 } else { 62 }
}

/// A program whose loader is nowhere.
fn unloadable() -> PathBuf {
    let source = "int main(void) { return 0; }\n";
    let flags = ["-Wl,--dynamic-linker=/nope/ld.so", "-Wl,--hash-style=gnu"];
    compiled("unloadable", source, &flags)
}

/// A program that prints the path it was executed by and its arguments.
fn teller() -> PathBuf {
    let source = "#include <stdio.h>\n#include <sys/auxv.h>\n\
        int main(int argc, char **argv) {\n    \
            fputs((char *)getauxval(AT_EXECFN), stdout);\n    \
            for (int i = 0; i < argc; i++) printf(\"|%s\", argv[i]);\n    \
            return 0;\n\
        }\n";
    compiled("teller", source, &["-O1", "-Wall", "-Werror"])
}

fn compiled(name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let folder = made_once(name, &(source, flags), |folder| {
        let path = folder.join("source.c");
        fs::write(&path, source).unwrap();
        let mut cc = Command::new(program("cc", "gcc libc6-dev"));
        succeed(cc.args(flags).arg("-o").arg(folder.join(name)).arg(path));
    });
    folder.join(name)
}

/// Others that look for commands: they agree with each other on most, and the shim with them.
const EVERYONE: [&str; 3] = ["dash", "bash", "env"];

/// A row of the table: some files, a command, and what becomes of it.
///
/// Paths are relative to the run's folder, which is `TMP` in whatever is absolute.
struct Row {
    build: Build,
    why: &'static str,
    run: Run,
    path: Option<String>,
    entries: Vec<&'static str>,
    command: Vec<String>,
    /// For the end: root itself may need its way.
    modes: Vec<(PathBuf, u32)>,
}

/// Arrange.
impl Row {
    fn new(build: Build, why: &'static str) -> Self {
        Self {
            build,
            why,
            run: gym_stamp(build),
            path: None,
            entries: Vec::new(),
            command: Vec::new(),
            modes: Vec::new(),
        }
    }

    fn place(&self, path: &str) -> PathBuf {
        let place = self.run.folder().join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        place
    }

    fn file(mut self, path: &str, mode: u32, content: impl Bytes) -> Self {
        let content = match String::from_utf8(content.into_bytes()) {
            Ok(text) => self.named(&text).into_bytes(),
            Err(bytes) => bytes.into_bytes(),
        };
        self.run = self.run.file(path, mode, content);
        self
    }

    fn copy(mut self, path: &str, from: &Path) -> Self {
        self.run = self.run.file(path, 0o755, fs::read(from).unwrap());
        self
    }

    /// A program that tells how it is run.
    fn tool(self, path: &str) -> Self {
        self.copy(path, &teller())
    }

    fn folder(self, path: &str) -> Self {
        fs::create_dir_all(self.place(path)).unwrap();
        self
    }

    fn link(self, path: &str, target: &str) -> Self {
        symlink(target, self.place(path)).unwrap();
        self
    }

    fn fifo(self, path: &str) -> Self {
        mkfifo(&self.place(path), Mode::from_bits_truncate(0o777)).unwrap();
        self.mode(path, 0o777)
    }

    fn mode(mut self, path: &str, mode: u32) -> Self {
        self.modes.push((self.run.folder().join(path), mode));
        self
    }

    /// What passes for a venv.
    fn venv(self, path: &str) -> Self {
        let python = format!("{path}/bin/python");
        self.file(&format!("{path}/pyvenv.cfg"), 0o644, "").tool(&python)
    }

    /// `path` is mounted so that nothing there may be executed, for this run alone.
    fn noexec(mut self, path: &str) -> Self {
        let path = CString::new(self.run.folder().join(path).into_bytes()).unwrap();
        self.run = self.run.before_exec(move || {
            unshare(CloneFlags::CLONE_NEWNS)?;
            mount(c"/", libc::MS_REC | libc::MS_PRIVATE)?;
            mount(&path, libc::MS_BIND)?;
            mount(&path, libc::MS_REMOUNT | libc::MS_BIND | libc::MS_NOEXEC)
        });
        self
    }

    /// The first `execve` fails with `errno`.
    fn failing(mut self, errno: Errno) -> Self {
        let inject = format!("--inject=execve:error={errno:?}:when=1");
        let strace = program("strace", "strace");
        let options = ["--quiet=all", "--output=/dev/null", "--trace=execve", &inject];
        self.run = self.run.under([strace.as_path()]).under(options);
        self
    }

    fn without_system_call(mut self, number: libc::c_long, errno: Errno) -> Self {
        self.run = self.run.without_system_call(number, errno);
        self
    }

    fn path(mut self, path: &str) -> Self {
        self.path = Some(path.to_owned());
        self
    }

    fn without_path(mut self) -> Self {
        self.path = None;
        self
    }

    fn entry(mut self, entry: &'static str) -> Self {
        self.entries.push(entry);
        self
    }

    fn options<const N: usize>(mut self, options: [&str; N]) -> Self {
        self.run = self.run.options(options);
        self
    }

    fn command<const N: usize>(mut self, command: [&str; N]) -> Self {
        self.command = command.map(str::to_owned).to_vec();
        self
    }

    /// `text` with the folder's own path for `TMP`.
    fn named(&self, text: &str) -> String {
        text.replace("TMP", self.run.folder().to_str().unwrap())
    }
}

/// Act and expect.
impl Row {
    /// A program tells this.
    #[track_caller]
    fn runs(self, told: &str) -> Told {
        let told = self.named(told);
        self.ends(0, &told, "")
    }

    /// A program runs that tells nothing.
    #[track_caller]
    fn runs_silently(self) -> Told {
        self.ends(0, "", "")
    }

    /// Nothing runs; exactly `words` are said of it.
    #[track_caller]
    fn fails(self, status: i32, words: &str) -> Told {
        let words = self.named(&format!("gym-stamp: {words}\n"));
        self.ends(status, "", &words)
    }

    /// Nothing runs; a line is said of it that begins so.
    #[track_caller]
    fn starts_to_fail(self, status: i32, words: &str) {
        let told = self.tell();
        let ended = told.shim.clone().run();
        ended.fails(status, &[words]);
    }

    #[track_caller]
    fn ends(self, status: i32, stdout: &str, stderr: &str) -> Told {
        let told = self.tell();
        let ended = told.shim.clone().run();
        let stdout = stdout.trim_end_matches('\n');
        let printed = ended.stdout_text();
        assert_eq!(
            (ended.status, printed.trim_end_matches('\n'), &*ended.stderr_text()),
            (status, stdout, stderr),
            "{}\n{ended}",
            told.why
        );
        Told { status, stdout: stdout.to_owned(), ..told }
    }

    fn tell(self) -> Told {
        for (path, mode) in &self.modes {
            fs::set_permissions(path, Permissions::from_mode(*mode)).unwrap();
        }
        let path = self.path.as_ref().map(|path| format!("PATH={path}"));
        let entries = path.into_iter().chain(self.entries.iter().map(|&it| it.to_owned()));
        let command: Vec<_> = self.command.iter().map(|word| self.named(word)).collect();
        // The user comes after the mounts, which it could not make.
        let run = self.run.environ(entries).user(NOBODY);
        Told {
            build: self.build,
            why: self.why,
            shim: run.clone().args(&command),
            run,
            command,
            status: 0,
            stdout: String::new(),
        }
    }
}

/// Mounts the folder `at` on itself, or changes how it is mounted.
fn mount(at: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    let at = at.as_ptr();
    // SAFETY: NUL-terminated paths; the filesystem needs no type and no data.
    Errno::result(unsafe { libc::mount(at, at, ptr::null(), flags, ptr::null()) })?;
    Ok(())
}

/// What came of a row.
struct Told {
    build: Build,
    why: &'static str,
    shim: Run,
    run: Run,
    command: Vec<String>,
    status: i32,
    stdout: String,
}

impl Told {
    /// Each of `others` ends with the same status, and runs the same if it runs anything. For one
    /// build: what they do does not depend on it.
    #[track_caller]
    fn like(self, others: &[&str]) {
        if self.build != Build::Freestanding {
            return;
        }
        for other in others {
            let run = self.run.clone();
            let run = match *other {
                "env" => run.arg(program("env", "coreutils")),
                shell => run.arg(program(shell, shell)).args(["-c", "exec \"$@\"", shell]),
            };
            let ended = run.args(&self.command).without_gym_stamp().run();
            let printed = ended.stdout_text();
            // bash makes the path absolute, glibc leaves out the dot of the current folder.
            let folder = format!("{}/", ended.folder().display());
            let ran = |told: &str| {
                told.trim_end().replace(&folder, "").trim_start_matches("./").to_owned()
            };
            assert_eq!(
                (ended.status, ran(&printed)),
                (self.status, ran(&self.stdout)),
                "{}, {other}\n{ended}",
                self.why
            );
        }
    }
}
