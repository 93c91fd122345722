//! Manifests for recorded dumps.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::{fs, path::Path};

use octile_cli::command::seal::{checksum, sealed};
use octile_core::{
    Problem, Strategy,
    device::{hopper::HOPPER_GPUS, tpu::TpuChip},
    plan::{
        hopper::HopperPlan,
        tpu::{BlockMode, TpuPlan},
    },
};
use serde_json::{Value, json};

/// A problem with fp8 activations and block scales.
pub(crate) fn problem(shape: &str) -> Problem {
    shape.parse().unwrap()
}

/// A plan for tpu7x with aligned tiles.
pub(crate) fn tpu_plan(problem: &Problem, strategy: &str) -> Value {
    let (chip, strategy) = (TpuChip::named("tpu7x").unwrap(), strategy.parse::<Strategy>().unwrap());
    serde_json::to_value(TpuPlan::new(problem, chip, strategy, BlockMode::Aligned).unwrap()).unwrap()
}

/// A plan for a GPU with this number in the device table.
pub(crate) fn gpu_plan(problem: &Problem, gpu: usize, strategy: &str) -> Value {
    let plan = HopperPlan::best(problem, &HOPPER_GPUS[gpu], strategy.parse().unwrap());
    serde_json::to_value(plan.unwrap()).unwrap()
}

/// Writes a manifest for dumps of a strategy, and renames the kernel in them accordingly.
pub(crate) fn write_manifest(folder: &Path, strategy: &str) -> Value {
    let kernel = format!("octile_{strategy}_aligned");
    rename(&folder.join("mosaic.mlir"), "func.func @", &kernel);
    rename(&folder.join("optimized.hlo.txt"), "HloModule ", &kernel);
    let manifest = json!({
        "schema": "octile-manifest/2",
        "date": "2026-01-01T00:00:00Z",
        "version": "0.1.0",
        "strategy": strategy,
        "title": "A recorded version",
        "compiler": {},
        "plan": tpu_plan(&problem("512x512x512:128"), strategy),
        "figures": { "code_bytes": 1000 },
        "files": files(folder)
    });
    seal(folder, &manifest);
    manifest
}

/// Seals and writes a manifest.
pub(crate) fn seal(folder: &Path, manifest: &Value) {
    fs::write(folder.join("manifest.json"), sealed(manifest).unwrap()).unwrap();
}

/// Lists the files of a folder for a manifest.
pub(crate) fn files(folder: &Path) -> Value {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let dumps = entries.filter(|path| path.is_file() && path.file_name().unwrap() != "manifest.json");
    dumps.map(|path| file(&path, path.file_name().unwrap().to_str().unwrap())).collect()
}

/// Describes a file for a manifest.
pub(crate) fn file(path: &Path, name: &str) -> Value {
    let content = fs::read(path).unwrap();
    json!({ "name": name, "role": "a dump", "bytes": content.len(), "sha256": checksum(&content) })
}

/// Renames the kernel in a file.
fn rename(path: &Path, before: &str, kernel: &str) {
    let text = fs::read_to_string(path).unwrap();
    let (head, tail) = text.split_once(before).unwrap();
    let end = tail.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap();
    fs::write(path, format!("{head}{before}{kernel}{}", &tail[end..])).unwrap();
}
