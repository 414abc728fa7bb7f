//! Decides whether `gym-stamp` is freestanding for this target, and how it is linked then.

use std::env;

/// Where the shim has its own startup code and system calls (`src/shim/arch`).
const FREESTANDING_ARCHS: [&str; 2] = ["x86_64", "aarch64"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/shim/link.ld");
    println!("cargo::rustc-check-cfg=cfg(freestanding)");
    let target = |key: &str| env::var(format!("CARGO_CFG_TARGET_{key}")).unwrap_or_default();
    // rustc links musl's own startup code into every executable, -nostartfiles or not.
    let freestanding = target("OS") == "linux"
        && target("ENV") == "gnu"
        && target("POINTER_WIDTH") == "64"
        && FREESTANDING_ARCHS.contains(&target("ARCH").as_str())
        && env::var_os("CARGO_FEATURE_PORTABLE").is_none();
    if !freestanding {
        return;
    }
    println!("cargo::rustc-cfg=freestanding");
    let folder = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let script = format!("-T{folder}/src/shim/link.ld");
    for flag in [
        // `_start` is ours (src/shim/arch), and no libc is behind it.
        "-nostartfiles",
        "-nostdlib",
        // A fixed address: nothing to relocate, so no dynamic section and no loader.
        "-static",
        "-no-pie",
        &script,
        // Kernels with 64 KiB pages refuse segments of a smaller alignment.
        "-Wl,-z,max-page-size=65536",
        "-Wl,--build-id=none",
        "-Wl,--gc-sections",
    ] {
        println!("cargo::rustc-link-arg-bin=gym-stamp={flag}");
    }
}
