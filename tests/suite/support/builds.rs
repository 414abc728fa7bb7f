//! The builds of `gym-stamp` that the tests run, each made by cargo itself.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::toolbox::{program, succeed};

/// One way of building the same program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// On its own startup code and system calls, for this machine.
    Freestanding,
    /// On std and nix: what unix systems without the above get.
    Portable,
    /// [`Build::Freestanding`] for 64-bit ARM, run by qemu where this machine is another.
    Aarch64,
}

/// One test for each build that this host can run.
///
/// `#[apply(every_build)] fn name(build: Build)` becomes `name::freestanding` and so on.
macro_rules! every_build {
    ($($function:tt)*) => {
        $crate::support::builds! { [freestanding portable aarch64] $($function)* }
    };
}

/// [`every_build`] less those that need qemu, for what qemu itself alters. The test says what.
macro_rules! native_builds {
    ($($function:tt)*) => {
        $crate::support::builds! { [freestanding portable] $($function)* }
    };
}

/// [`every_build`] less the one on std and nix.
macro_rules! freestanding_builds {
    ($($function:tt)*) => {
        $crate::support::builds! { [freestanding aarch64] $($function)* }
    };
}

macro_rules! builds {
    (
        [$($name:ident)*]
        $(#[$attr:meta])* fn $function:ident($build:ident: $type:ty) $body:block
    ) => {
        mod $function {
            #[allow(unused_imports)]
            use super::*;

            $(#[$attr])*
            fn check($build: $type) $body

            $($crate::support::builds! { @$name })*
        }
    };
    (@freestanding) => {
        #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
        #[test]
        fn freestanding() {
            check($crate::support::Build::Freestanding);
        }
    };
    (@portable) => {
        #[test]
        fn portable() {
            check($crate::support::Build::Portable);
        }
    };
    (@aarch64) => {
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        #[test]
        fn aarch64() {
            check($crate::support::Build::Aarch64);
        }
    };
}
pub(crate) use {builds, every_build, freestanding_builds, native_builds};

/// What the cross build needs beyond this host's own tools.
const AARCH64_PACKAGES: &str = "rustc-web libstd-rust-web-dev:arm64 gcc-aarch64-linux-gnu \
    libc6-dev-arm64-cross qemu-user (first: dpkg --add-architecture arm64 && apt-get update)";
const AARCH64: &str = "aarch64-unknown-linux-gnu";
/// Debian's compiler: its standard library for arm64 is a package.
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

impl Build {
    /// The executable, built by cargo once a test run.
    pub fn binary(self) -> &'static Path {
        static BINARIES: [OnceLock<PathBuf>; 3] = [const { OnceLock::new() }; 3];
        BINARIES[self as usize].get_or_init(|| self.build("release", &[]))
    }

    /// A build of its own with `config` (`cargo --config`), such as one that keeps its symbols.
    pub fn with_config(self, name: &str, config: &[&str]) -> PathBuf {
        self.build(name, config)
    }

    /// What has to run the executable on this machine.
    pub fn emulator(self) -> Option<PathBuf> {
        (self == Self::Aarch64).then(|| program("qemu-aarch64", AARCH64_PACKAGES))
    }

    /// The C compiler for the machine of this build.
    pub fn cc(self) -> PathBuf {
        match self {
            Self::Aarch64 => program("aarch64-linux-gnu-gcc", AARCH64_PACKAGES),
            _ => program("cc", "gcc libc6-dev"),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Freestanding => "freestanding",
            Self::Portable => "portable",
            Self::Aarch64 => "aarch64",
        }
    }

    fn build(self, variant: &str, config: &[&str]) -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let target = root.join("target/test-builds").join(self.name()).join(variant);
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(root).args(["build", "--quiet", "--release", "--no-default-features"]);
        cargo.args(["--bin", "gym-stamp", "--target-dir"]).arg(&target);
        // The test runner's; it would lead Debian's compiler to another's libraries.
        cargo.env_remove("LD_LIBRARY_PATH");
        for setting in config {
            cargo.args(["--config", setting]);
        }
        let mut binary = target.clone();
        match self {
            Self::Freestanding => {}
            Self::Portable => {
                cargo.args(["--features", "portable"]);
            }
            Self::Aarch64 => {
                assert!(Path::new(DEBIAN_RUSTC).is_file(), "apt-get install {AARCH64_PACKAGES}");
                cargo.args(["--target", AARCH64]).env("RUSTC", DEBIAN_RUSTC);
                cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", self.cc());
                binary.push(AARCH64);
            }
        }
        once_a_run(&target, || {
            succeed(&mut cargo);
        });
        binary.join("release/gym-stamp")
    }
}

/// Does `work` once for all the processes of one nextest run; elsewhere the caller's process is
/// the run.
fn once_a_run(folder: &Path, work: impl FnOnce()) {
    let Some(run) = std::env::var_os("NEXTEST_RUN_ID") else {
        return work();
    };
    fs::create_dir_all(folder).unwrap();
    let mut record = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(folder.join("last-run"))
        .unwrap();
    record.lock().unwrap();
    let mut last = Vec::new();
    record.read_to_end(&mut last).unwrap();
    if last != run.as_encoded_bytes() {
        work();
        record.set_len(0).unwrap();
        record.rewind().unwrap();
        record.write_all(run.as_encoded_bytes()).unwrap();
    }
}
