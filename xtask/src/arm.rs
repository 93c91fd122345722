//! The CPU kernels on aarch64, in an emulator of user programs.

use std::{path::Path, process::Command};

use anyhow::{Result, bail};

use crate::{root, run};

const TARGET: &str = "aarch64-unknown-linux-gnu";

/// The tests that depend on the ISA.
const TESTS: [&str; 8] =
    ["memcheck", "extremes", "errors", "threads", "mutations", "invariance", "exact", "against_oracle"];

const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATORS: [&str; 2] = ["qemu-aarch64-static", "qemu-aarch64"];
/// Debian's folder of aarch64 libraries, where the emulator looks for the C library.
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";

/// Builds the tests for aarch64 and runs them, emulated unless this machine is one.
pub(crate) fn test() -> Result<()> {
    if cfg!(target_arch = "aarch64") {
        bail!("not run: test-arm (this machine is an aarch64: cargo xtask test runs these tests)");
    }
    let emulator = match emulator() {
        Ok(emulator) => emulator,
        Err(missing) => bail!("not run: test-arm ({missing})"),
    };
    // Of the library's own tests, those of this backend.
    cargo_test(emulator, &["--lib", "--", "cpu::"])?;
    cargo_test(emulator, &TESTS.map(|test| ["--test", test]).concat())
}

/// Runs tests of the runtime in an emulator.
fn cargo_test(emulator: &str, tests: &[&str]) -> Result<()> {
    println!("== {emulator}: cargo test --package octile-runtime {}", tests.join(" "));
    run(Command::new(env!("CARGO"))
        .args(["test", "--package", "octile-runtime", "--target", TARGET, "--target-dir"])
        .arg(root().join("target/aarch64"))
        .args(tests)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", emulator)
        .env("QEMU_LD_PREFIX", LIBRARIES))
}

/// The emulator, or what is missing.
fn emulator() -> Result<&'static str, String> {
    let rustc = ["--print", "target-libdir", "--target", TARGET];
    let library = Command::new("rustc").args(rustc).output().map_err(|error| format!("no rustc: {error}"))?;
    if !Path::new(String::from_utf8_lossy(&library.stdout).trim()).is_dir() {
        return Err(format!("Rust's library for {TARGET} is missing: rustup target add {TARGET}"));
    }
    let starts = |program: &&str| Command::new(program).arg("--version").output().is_ok();
    if !starts(&LINKER) {
        return Err(format!("the linker {LINKER} is missing: apt-get install gcc-aarch64-linux-gnu"));
    }
    if !Path::new(LIBRARIES).is_dir() {
        return Err(format!("{LIBRARIES} is missing: apt-get install libc6-dev-arm64-cross"));
    }
    let names = EMULATORS.join(" or ");
    let emulator = EMULATORS.into_iter().find(starts);
    emulator.ok_or_else(|| format!("the emulator {names} is missing: apt-get install qemu-user-static"))
}
