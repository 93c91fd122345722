//! Memory checkers: valgrind on what it can decode, AddressSanitizer on everything.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result, bail};

use crate::root;

/// Tests of the runtime that are small enough for a memory checker: the CPU kernels on every ISA that there is, and the CUDA layer on
/// the stand-in driver.
const TESTS: [&str; 3] = ["memcheck", "standin_gpu", "foreign_gpu"];

/// AddressSanitizer comes with the compiler, for this target.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs the tests under valgrind, then under AddressSanitizer.
pub fn run() -> Result<()> {
    println!("== valgrind: it decodes no AVX-512, so of the CPU kernels portable and AVX2 run here");
    for binary in build(&mut cargo())? {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--error-exitcode=9", "--quiet", "--leak-check=no"]);
        crate::run(valgrind.arg(binary).arg("--test-threads=1"))?;
    }
    println!(
        "== AddressSanitizer: CPU kernels of every ISA of this machine, AVX-512 included where it has that"
    );
    let mut sanitized = cargo();
    sanitized.args(["--target", TARGET, "--target-dir"]).arg(root().join("target/asan"));
    // The sanitizer is a feature of the nightly compiler, which the stable one has too.
    sanitized.env("RUSTC_BOOTSTRAP", "1");
    // The stand-in driver is a library of its own, which finds the sanitizer in the test.
    sanitized.env("RUSTFLAGS", "-Zsanitizer=address -Clink-arg=-rdynamic");
    for binary in build(&mut sanitized)? {
        // The stand-in stays loaded to the end, which is no leak.
        crate::run(Command::new(binary).env("ASAN_OPTIONS", "detect_leaks=0"))?;
    }
    Ok(())
}

/// Builds the tests and runs none.
fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--package", "octile-runtime", "--no-run", "--message-format=json"]);
    cargo.args(TESTS.iter().flat_map(|test| ["--test", test]));
    cargo
}

/// The test binaries that cargo builds.
fn build(cargo: &mut Command) -> Result<Vec<PathBuf>> {
    let output = cargo.current_dir(root()).stderr(std::process::Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("{cargo:?} failed ({})", output.status);
    }
    let mut binaries = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: serde_json::Value =
            serde_json::from_str(line).context("cargo says something else than JSON")?;
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
