//! The output of `octile inspect` passes `octile verify --strict`: every version, on every chip.

mod common;

use std::{fs, process::Command};

use tempfile::TempDir;

/// Compiles and verifies all versions.
fn check(chip: &str, shape: &str, mode: &str) {
    check_in(&TempDir::new().unwrap(), chip, shape, &["--mode", mode, "--x-scales", "block"]);
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
fn every_version_passes_on_every_chip() {
    check("tpu7x", "512x512x512:128", "aligned");
    // Few rows: strip streams the weights in column blocks.
    check("v6e", "8x1024x1024:128", "large");
    // A single column block.
    check("v5e", "8x512x512:128", "aligned");
    // Two cores share the two blocks of strip.
    check("v5p", "256x512x512:256", "aligned");
}

#[test]
fn activations_of_every_kind_pass() {
    let check = |chip: &str, x: &[&str]| check_in(&TempDir::new().unwrap(), chip, "512x512x512:128", x);
    // The defaults: auto mode and token scales. A scale per row is a vector, which no kernel keeps in SMEM.
    check("tpu7x", &[]);
    check("tpu7x", &["--x", "bf16", "--x-scales", "token"]);
    check("v4", &["--x", "bf16-plain"]);
}

#[test]
fn operands_that_stay_on_chip_pass() {
    let bf16 = &["--x", "bf16"][..];
    for (shape, x, prefetched) in [
        // x arrives in two parts while weights stream; in one, beside several blocks of weights; and has its
        // codes along the lanes.
        ("512x2048x512:128", bf16, "1 data operand"),
        ("300x1024x1024:128", bf16, "1 data operand"),
        ("100x2048x1024:128", &[][..], "1 data operand"),
        // Both operands arrive in parts, and the kernel assigns matmuls to MXUs, in one step and in several.
        ("300x1024x1024:128", &[][..], "2 data operands"),
        ("530x2100x1000:128", &[][..], "2 data operands"),
    ] {
        let place = TempDir::new().unwrap();
        check_in(&place, "tpu7x", shape, x);
        let mut command = Command::new(env!("CARGO_BIN_EXE_octile"));
        let output =
            command.args(["verify", "v4_whole_k_strip"]).current_dir(place.path().join("out")).output();
        let said = String::from_utf8(output.unwrap().stdout).unwrap();
        let passed = format!("PASS double-buffered  {prefetched} prefetched");
        assert!(said.contains(&passed), "{shape}: {said}");
    }
}

#[test]
fn waivers_apply_only_to_the_planned_version() {
    let place = TempDir::new().unwrap();
    check_in(&place, "tpu7x", "512x512x512:128", &["--mode", "aligned", "--x-scales", "block"]);
    let verify = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_octile"));
        let output = command.arg("verify").args(arguments).current_dir(place.path()).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, said) = verify(&["out/v1_auto_double_buffer", "--strategy", "v3"]);
    let warning = "the manifest plans v1, but --strategy says v3: checking as the latter";
    assert!(code == 1 && said.contains("FAIL scales-staged") && said.contains(warning), "{said}");
    let (code, said) = verify(&["out/v1_auto_double_buffer", "--strategy", "v1"]);
    assert!(code == 0 && !said.contains("note version"), "{said}");
    // strip multiplies bf16 here; smem must not.
    let (code, said) = verify(&["out/v4_whole_k_strip", "--strategy", "v3"]);
    assert!(code == 1 && said.contains("FAIL native-fp8"), "{said}");

    fs::rename(place.path().join("out/v2_manual_async_dma"), place.path().join("v3_smem_scales")).unwrap();
    let (code, said) = verify(&["v3_smem_scales"]);
    let warning = "the name says v3, but the manifest plans v2: checking as the latter";
    assert!(code == 0 && said.contains(warning), "{said}");
}
