//! Memory checkers: valgrind on the instructions it can decode, AddressSanitizer on everything.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result, bail};

use crate::root;

/// Tests small enough for a memory checker: the CPU kernels on every available ISA, and the CUDA layer on the
/// stand-in driver.
const TESTS: [&str; 3] = ["memcheck", "standin_gpu", "foreign_gpu"];

/// The target for which AddressSanitizer is built.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs the tests under valgrind, then under AddressSanitizer.
pub(crate) fn run() -> Result<()> {
    println!("== valgrind: CPU kernels without AVX-512, which it cannot decode");
    for binary in build(&mut cargo())? {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--error-exitcode=9", "--quiet", "--leak-check=no"]);
        crate::run(valgrind.arg(binary).arg("--test-threads=1"))?;
    }
    println!("== AddressSanitizer: CPU kernels of every ISA of this machine");
    let mut sanitized = cargo();
    sanitized.args(["--target", TARGET, "--target-dir"]).arg(root().join("target/asan"));
    // Sanitizers are a nightly feature; this enables them on stable.
    sanitized.env("RUSTC_BOOTSTRAP", "1");
    // The stand-in driver is a shared library that takes the sanitizer's symbols from the test.
    sanitized.env("RUSTFLAGS", "-Zsanitizer=address -Clink-arg=-rdynamic");
    for binary in build(&mut sanitized)? {
        // The stand-in driver is never unloaded, which is not a leak.
        crate::run(Command::new(binary).env("ASAN_OPTIONS", "detect_leaks=0"))?;
    }
    Ok(())
}

/// A command that builds the tests without running them.
fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--package", "octile-runtime", "--no-run", "--message-format=json"]);
    cargo.args(TESTS.iter().flat_map(|test| ["--test", test]));
    cargo
}

/// Builds the tests and returns their binaries.
fn build(cargo: &mut Command) -> Result<Vec<PathBuf>> {
    let output = cargo.current_dir(root()).stderr(std::process::Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("{cargo:?} failed ({})", output.status);
    }
    let mut binaries = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: serde_json::Value =
            serde_json::from_str(line).context("cargo printed something other than JSON")?;
        let is_test = message["target"]["kind"][0] == "test";
        if let Some(binary) = message["executable"].as_str().filter(|_| is_test) {
            binaries.push(PathBuf::from(binary));
        }
    }
    if binaries.len() != TESTS.len() {
        bail!("cargo built {} tests of {TESTS:?}", binaries.len());
    }
    Ok(binaries)
}
