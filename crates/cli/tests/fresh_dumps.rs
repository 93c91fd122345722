//! What `octile inspect` writes passes `octile verify --strict`: every version on one chip, and what others do in
//! another way.

mod common;

use std::process::Command;

use tempfile::TempDir;

/// Compiles some versions and judges them.
fn check(chip: &str, strategies: &[&str], shape: &str, mode: &str) {
    let place = TempDir::new().unwrap();
    let libtpu = common::libtpu();
    let mut command = Command::new(env!("CARGO_BIN_EXE_octile"));
    command.args(["check", "--strict", "--chip", chip, "--shape", shape, "--mode", mode]);
    command.args(strategies.iter().flat_map(|strategy| ["--strategy", strategy]));
    command.arg("--libtpu").arg(libtpu).arg("-o").arg(place.path().join("out"));
    let result = command.output().expect("octile runs");
    let said = String::from_utf8_lossy(&result.stdout);
    let count = strategies.len();
    assert!(said.contains(&format!("PASS: {count} of {count} versions")), "{chip} {shape} {mode}: {said}");
    assert_eq!(result.status.code(), Some(0), "{chip} {shape} {mode}: {said}");
    assert!(said.contains("bytes of VMEM, as the compiler states"), "{chip} {shape} {mode}: {said}");
}

#[test]
fn every_version_is_what_it_promises() {
    check("tpu7x", &["auto", "dma", "smem", "strip"], "512x512x512:128", "aligned");
    // Few rows: it goes through the weights in pieces.
    check("v6e", &["strip"], "8x1024x1024:128", "large");
    // One piece only.
    check("v5e", &["strip"], "8x512x512:128", "aligned");
    // Two cores share a kernel.
    check("v5p", &["auto", "dma"], "512x512x512:128", "aligned");
}
