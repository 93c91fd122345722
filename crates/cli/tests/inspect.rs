//! `octile inspect` with the real TPU compiler.

mod common;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use tempfile::TempDir;

fn octile(arguments: &[&str], output: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_octile"));
    command.arg("inspect").args(arguments).arg("-o").arg(output);
    command.output().expect("octile runs")
}

fn inspect(arguments: &[&str], output: &Path) {
    let libtpu = common::libtpu();
    let libtpu = ["--libtpu", libtpu.to_str().expect("the path is text")];
    let result = octile(&[arguments, &libtpu].concat(), output);
    assert!(result.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&result.stderr));
}

const FILES: [&str; 9] = [
    "executable.bin",
    "final_bundles.txt",
    "final_hlo-static-per-bundle-utilization.txt",
    "manifest.json",
    "mosaic.mlir",
    "optimized.hlo.txt",
    "packed-bundles-post-ra.txt",
    "schedule-analysis.txt",
    "stablehlo.mlir",
];

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn every_version_is_a_folder_and_an_hlo_file() {
    let place = TempDir::new().unwrap();
    let output = place.path().join("compilation_output");
    inspect(&[], &output);
    let versions = ["v1_auto_double_buffer", "v2_manual_async_dma", "v3_smem_scales", "v4_whole_k_strip"];
    let expected: Vec<_> = versions.iter().flat_map(|v| [v.to_string(), format!("{v}_hlo.txt")]).collect();
    assert_eq!(names(&output), expected);
    for version in versions {
        let read = |name: &str| fs::read_to_string(output.join(version).join(name)).unwrap();
        assert_eq!(names(&output.join(version)), FILES, "{version}");
        assert_eq!(
            fs::read_to_string(output.join(format!("{version}_hlo.txt"))).unwrap(),
            read("optimized.hlo.txt")
        );
        assert!(read("final_bundles.txt").contains("f8e4m3fn"), "{version} multiplies no fp8");
        assert!(read("mosaic.mlir").contains("tpu.matmul"), "{version} multiplies nothing");
        let manifest: serde_json::Value = serde_json::from_str(&read("manifest.json")).unwrap();
        assert_eq!(manifest["compiler"]["device_kind"], "TPU7x");
        assert_eq!(manifest["plan"]["problem"]["quant_block"], 128);
        assert!(manifest["figures"]["counted"]["cycles"].as_u64().unwrap() > 256, "{}", manifest["figures"]);
        assert!(manifest["figures"]["memory"]["output"].as_i64().unwrap() >= 512 * 512 * 4);
        assert_eq!(manifest["files"].as_array().unwrap().len(), FILES.len() - 1);
    }
    assert_eq!(names(place.path()), ["compilation_output"], "temporary folders are gone");
    require_conclusion_and_timelines(&output);
    // The manifest describes the operands.
    let module = output.join("v3_smem_scales/stablehlo.mlir");
    let simulate = |options: &[&str]| {
        let result =
            Command::new(env!("CARGO_BIN_EXE_octile")).arg("simulate").arg(&module).args(options).output();
        result.expect("octile runs")
    };
    let result = simulate(&[]);
    let said = String::from_utf8_lossy(&result.stdout).into_owned();
    assert!(result.status.success() && said.contains("the operands are random"), "{said}");
    let refused = simulate(&["--expect", "out"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--expect has no effect here"), "{refused:?}");
    fs::remove_file(output.join("v3_smem_scales/manifest.json")).unwrap();
    let said = String::from_utf8_lossy(&simulate(&[]).stdout).into_owned();
    assert!(said.contains("operands  random (seed 42): "), "{said}");
}

/// The page about versions of one problem ranks them, and shows a timeline of each.
fn require_conclusion_and_timelines(output: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_octile"));
    let result = command.arg("report").arg(output).args(["-o", "-"]).output().expect("octile runs");
    let page = String::from_utf8(result.stdout).unwrap();
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    for part in
        [" is the fastest on tpu7x at 512x512x512:128: ", "All 4 versions pass", "<td class=\"best\">"]
    {
        assert!(page.contains(part), "{part} is missing");
    }
    assert_eq!(page.matches("Timeline of the simulated kernel").count(), 4);
}

#[test]
fn a_kernel_that_the_profiler_refuses_is_kept() {
    let place = TempDir::new().unwrap();
    let output = place.path().join("compilation_output");
    inspect(&["--strategy", "strip", "--shape", "384x2112x7168:128", "--out", "bf16"], &output);
    assert_eq!(names(&output.join("v4_whole_k_strip")), FILES);
}

#[test]
fn other_chips_and_raw_dumps() {
    let place = TempDir::new().unwrap();
    for (chip, kind) in [("v6e", "TPU v6 lite"), ("v5e", "TPU v5 lite"), ("v5p", "TPU v5")] {
        let output = place.path().join(chip);
        inspect(&["--chip", chip, "--strategy", "dma", "--keep-dumps"], &output);
        let folder = output.join("v2_manual_async_dma");
        let manifest = fs::read_to_string(folder.join("manifest.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
        assert_eq!(manifest["compiler"]["device_kind"], kind);
        assert!(names(&folder.join("raw")).iter().any(|name| name.contains("mosaic-dump")));
    }
}

#[test]
fn bad_requests_get_one_sentence_and_write_nothing() {
    let place = TempDir::new().unwrap();
    let refused = |arguments: &[&str], expected: &str| {
        let result = octile(arguments, &place.path().join("out"));
        let error = String::from_utf8_lossy(&result.stderr).into_owned();
        assert_eq!(result.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(expected), "{arguments:?}: {error}");
        assert!(names(place.path()).is_empty(), "{arguments:?} wrote {:?}", names(place.path()));
    };
    refused(&["--chip", "v9"], "use one of tpu7x, v6e, v5e, v5p, v4, sm_90a, h100, h200");
    refused(&["--chip", "v4"], "v4 cannot multiply f8e4m3fn");
    refused(&["--shape", "512x512x512:100"], "quantization block 100 is not supported: use 128, 256 or 512");
    refused(&["--mode", "huge"], "unknown block mode 'huge': expected auto, aligned or large");
    refused(
        &["--libtpu", "/no/libtpu.so"],
        "the command line names /no/libtpu.so as libtpu, which is not a file: name another one, or none",
    );
    let other_library = env!("CARGO_BIN_EXE_octile");
    refused(&["--libtpu", other_library], other_library);
}
