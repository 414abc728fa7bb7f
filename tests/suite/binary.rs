//! The freestanding executable: small, static, and two system calls.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use macro_rules_attribute::apply;
use object::elf::{ET_EXEC, FileHeader64, PF_W, PF_X};
use object::elf::{PT_DYNAMIC, PT_GNU_STACK, PT_INTERP, PT_LOAD, PT_TLS};
use object::elf::{SHT_DYNAMIC, SHT_REL, SHT_RELA, SHT_RELR};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, Object, ObjectSymbol};

use crate::support::{Build, command, every_build, freestanding_builds, gym_stamp, toolbox};

/// The most bytes that it may have.
const SIZE: u64 = 20_480;
/// The largest pages that kernels for these machines are built with.
const LARGEST_PAGE: u64 = 0x10000;

#[apply(freestanding_builds)]
fn is_small(build: Build) {
    let size = fs::metadata(build.binary()).unwrap().len();
    assert!(size <= SIZE, "{size} bytes, where {SIZE} are the limit");
}

#[apply(freestanding_builds)]
fn needs_no_loader(build: Build) {
    let data = fs::read(build.binary()).unwrap();
    let header = FileHeader64::<Endianness>::parse(&*data).unwrap();
    let endian = header.endian().unwrap();
    assert_eq!(header.e_type(endian), ET_EXEC);
    for segment in header.program_headers(endian, &*data).unwrap() {
        let kind = segment.p_type(endian);
        assert!(![PT_DYNAMIC, PT_INTERP, PT_TLS].contains(&kind), "segment {kind:?}");
    }
    for section in header.sections(endian, &*data).unwrap().iter() {
        let kind = section.sh_type(endian);
        assert!(![SHT_DYNAMIC, SHT_REL, SHT_RELA, SHT_RELR].contains(&kind), "section {kind:?}");
    }
}

#[apply(freestanding_builds)]
fn loads_with_pages_of_any_size(build: Build) {
    let data = fs::read(build.binary()).unwrap();
    let header = FileHeader64::<Endianness>::parse(&*data).unwrap();
    let endian = header.endian().unwrap();
    let segments = header.program_headers(endian, &*data).unwrap();
    let loaded: Vec<_> = segments.iter().filter(|it| it.p_type(endian) == PT_LOAD).collect();
    assert!(!loaded.is_empty());
    for segment in loaded {
        let (align, offset) = (segment.p_align(endian), segment.p_offset(endian));
        assert!(align >= LARGEST_PAGE && align.is_power_of_two(), "p_align {align:#x}");
        assert_eq!(segment.p_vaddr(endian) % align, offset % align, "{offset:#x}");
    }
}

#[apply(freestanding_builds)]
fn no_memory_is_writable_and_executable(build: Build) {
    let data = fs::read(build.binary()).unwrap();
    let header = FileHeader64::<Endianness>::parse(&*data).unwrap();
    let endian = header.endian().unwrap();
    let segments = header.program_headers(endian, &*data).unwrap();
    for segment in segments {
        let flags = segment.p_flags(endian);
        assert!(!flags.contains(PF_W | PF_X), "segment with flags {flags:?}");
    }
    // Without this one the kernel makes the stack executable.
    assert!(segments.iter().any(|it| it.p_type(endian) == PT_GNU_STACK));
}

/// What the panic and formatting machinery of `core` leaves in an executable.
fn machinery(stripped: &Path, unstripped: &Path) -> Vec<String> {
    let data = fs::read(unstripped).unwrap();
    let file = ElfFile64::<Endianness>::parse(&*data).unwrap();
    let names: Vec<_> = file.symbols().filter_map(|it| it.name().ok()).collect();
    assert!(names.contains(&"_start"), "no symbols");
    let of_core = |name: &&&str| name.contains("4core9panicking") || name.contains("4core3fmt");
    let mut found: Vec<_> = names.iter().filter(of_core).map(|it| (*it).to_owned()).collect();
    let data = fs::read(stripped).unwrap();
    for text in ["panicked", ".rs:", ".rs\0", "index out of bounds", "called `Option::unwrap"] {
        if data.windows(text.len()).any(|window| window == text.as_bytes()) {
            found.push(text.to_owned());
        }
    }
    found
}

fn unstripped(build: Build) -> std::path::PathBuf {
    build.with_config("symbols", &["profile.release.strip=false"])
}

#[apply(freestanding_builds)]
fn has_no_panic_or_formatting_machinery(build: Build) {
    let found = machinery(build.binary(), &unstripped(build));
    assert!(found.is_empty(), "{found:#?}");
}

/// The same look at an executable that has all of it: these tests.
#[test]
fn machinery_is_seen_where_it_is() {
    let tests = std::env::current_exe().unwrap();
    let found = machinery(&tests, &tests);
    for part in ["4core9panicking", "4core3fmt", "panicked", ".rs:"] {
        assert!(found.iter().any(|it| it.contains(part)), "no {part} in {found:#?}");
    }
}

/// What a system call is called in a line of strace or of qemu's own tracer.
fn call(line: &str) -> &str {
    let line = line.trim_start_matches(|it: char| it.is_ascii_digit() || it == ' ');
    line.split('(').next().unwrap()
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[test]
fn makes_two_system_calls() {
    let strace = toolbox::program("strace", "strace");
    let run = command(strace).args(["--quiet=all", "--output=trace"]);
    let ended = run.arg(Build::Freestanding.binary()).arg("/bin/true").run().exits(0);
    let trace = fs::read_to_string(ended.folder().join("trace")).unwrap();
    let calls: Vec<_> = trace.lines().take(3).map(call).collect();
    // The first is strace's own.
    assert_eq!(calls, ["execve", "clock_gettime", "execve"], "{trace}");
    assert!(trace.lines().nth(2).unwrap().starts_with("execve(\"/bin/true\""), "{trace}");
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn makes_two_system_calls_on_aarch64() {
    let qemu = Build::Aarch64.emulator().unwrap();
    let run = command(qemu).arg("-strace").arg(Build::Aarch64.binary());
    let ended = run.arg("/bin/true").run().exits(0);
    let calls: Vec<_> = std::str::from_utf8(&ended.stderr).unwrap().lines().map(call).collect();
    assert_eq!(calls, ["clock_gettime", "execve"], "{ended}");
}

/// The names of the packages that cargo builds, with these `args` to `cargo tree`.
fn packages(args: &[&str]) -> BTreeSet<String> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["tree", "--locked", "--offline", "--edges=normal", "--prefix=none"]).args(args);
    let tree = toolbox::succeed(cargo.current_dir(env!("CARGO_MANIFEST_DIR")));
    tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn nothing_of_the_companions_is_built_without_it() {
    // The library names what it records by this one, which brings nothing along.
    let packages = packages(&["--no-default-features"]);
    assert_eq!(packages, ["gym-stamp", "opentelemetry"].map(str::to_owned).into());
}

/// For which targets the program is freestanding, as build.rs has it and as Cargo.toml has it.
#[test]
fn is_freestanding_where_it_can_be() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rustc = || Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let folder = toolbox::made_once("build-script", &include_str!("../../build.rs"), |folder| {
        let mut rustc = rustc();
        rustc.arg("--edition=2024").arg(root.join("build.rs"));
        toolbox::succeed(rustc.arg("-o").arg(folder.join("build-script")));
    });
    for (target, expected) in [
        ("x86_64-unknown-linux-gnu", true),
        ("aarch64-unknown-linux-gnu", true),
        ("x86_64-unknown-linux-musl", false),
        ("aarch64-unknown-linux-musl", false),
        ("x86_64-unknown-linux-gnux32", false),
        ("s390x-unknown-linux-gnu", false),
        ("x86_64-unknown-freebsd", false),
        ("aarch64-apple-darwin", false),
    ] {
        let mut script = Command::new(folder.join("build-script"));
        script.env_clear().env("CARGO_MANIFEST_DIR", root);
        for line in toolbox::succeed(rustc().args(["--print=cfg", "--target", target])).lines() {
            if let Some((key, value)) = line.split_once('=') {
                script.env(format!("CARGO_CFG_{}", key.to_uppercase()), value.trim_matches('"'));
            }
        }
        let is_so = |script: &mut Command| {
            toolbox::succeed(script).lines().any(|it| it == "cargo::rustc-cfg=freestanding")
        };
        assert_eq!(is_so(&mut script), expected, "{target}");
        let packages = packages(&["--no-default-features", "--target", target]);
        assert_eq!(packages.contains("nix"), !expected, "{target}: {packages:?}");
        assert!(!is_so(script.env("CARGO_FEATURE_PORTABLE", "1")), "{target}");
    }
}

/// What the kernel always grants for arguments is enough for the rest, too.
#[apply(every_build)]
fn runs_on_a_small_stack(build: Build) {
    use nix::sys::resource::Resource;
    let run = gym_stamp(build).arg("/bin/true");
    run.limit(Resource::RLIMIT_STACK, 1 << 17, 1 << 17).run().exits(0).says_nothing();
}
