//! What `octile inspect` writes passes `octile verify --strict`: every version, on every chip, as what it is.

mod common;

use std::process::Command;

use tempfile::TempDir;

/// Compiles all versions and judges them.
fn check(chip: &str, shape: &str, mode: &str) {
    check_in(&TempDir::new().unwrap(), chip, shape, &["--mode", mode]);
}

/// The same into a folder, with other arguments.
fn check_in(place: &TempDir, chip: &str, shape: &str, mode: &[&str]) {
    let libtpu = common::libtpu();
    let mut command = Command::new(env!("CARGO_BIN_EXE_octile"));
    command.args(["check", "--strict", "--chip", chip, "--shape", shape]).args(mode);
    command.arg("--libtpu").arg(libtpu).arg("-o").arg(place.path().join("out"));
    let result = command.output().expect("octile runs");
    let said = String::from_utf8_lossy(&result.stdout);
    assert!(said.contains("PASS: all 4 versions"), "{chip} {shape} {mode:?}: {said}");
    let (compiled, facts) = said.split_once("Versions side by side").expect("a table of facts");
    assert!(compiled.contains("compiled for") && facts.contains("HBM traffic"), "{said}");
    assert_eq!(facts.matches("Verification, strict").count(), 1, "the verdicts come after the facts: {said}");
    assert_eq!(result.status.code(), Some(0), "{chip} {shape} {mode:?}: {said}");
    assert!(said.contains("bytes of VMEM, as the compiler states"), "{chip} {shape} {mode:?}: {said}");
}

#[test]
fn every_version_is_what_it_promises_on_every_chip() {
    check("tpu7x", "512x512x512:128", "aligned");
    // Few rows: strip goes through the weights in pieces.
    check("v6e", "8x1024x1024:128", "large");
    // One piece only.
    check("v5e", "8x512x512:128", "aligned");
    // Two cores share a kernel, and the two blocks of strip.
    check("v5p", "256x512x512:256", "aligned");
}

#[test]
fn activations_of_every_kind_keep_their_promises() {
    let check = |chip: &str, x: &[&str]| check_in(&TempDir::new().unwrap(), chip, "512x512x512:128", x);
    // A scale per row is a vector, and no kernel keeps it in scalar memory.
    check("tpu7x", &["--x-scales", "token"]);
    check("tpu7x", &["--x", "bf16", "--x-scales", "token"]);
    check("v4", &["--x", "bf16-plain"]);
}
