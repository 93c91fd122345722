//! Other readers of the command line, run through its commands: manifests and operands.

use std::{fs, sync::LazyLock};

use clap::Parser;
use octile_cli::{
    args::{Args, Command, RunModuleArgs, SimulateArgs},
    command::{
        analyze::{self, Told, Version},
        report, run_module, seal, simulate, verify,
    },
    print,
};
use serde_json::{Map, Value};
use tempfile::TempDir;

use super::text;

/// The kernel that consumes the operands.
const KERNEL: &str = include_str!("folder/copy.mlir");
/// The dumps that a manifest may list.
const DUMPS: [(&str, &str); 3] = [
    ("kernel.ptx", include_str!("folder/kernel.ptx")),
    ("mosaic.mlir", include_str!("folder/mosaic.mlir")),
    ("ptxas.txt", include_str!("folder/ptxas.txt")),
];

/// A manifest, as read by `octile verify`, `octile report` and `octile simulate`: unchanged, and with correct
/// checksums and seal, which no mutation would produce.
pub fn manifest(bytes: &[u8]) -> bool {
    judge_folder(bytes, &DUMPS[..1]);
    let sealed = text(bytes).and_then(sealed);
    sealed.is_some_and(|(sealed, dumps)| judge_folder(sealed.as_bytes(), &dumps))
}

/// Seals the manifest and fills in the checksums of the dumps it lists.
fn sealed(manifest: &str) -> Option<(String, Vec<(&'static str, &'static str)>)> {
    let mut fields = serde_json::from_str::<Map<String, Value>>(manifest).ok()?;
    fields.remove(seal::KEY);
    let mut listed = Vec::new();
    for file in fields.get_mut("files").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(dump) = DUMPS.into_iter().find(|(name, _)| file["name"] == *name) else { continue };
        file["bytes"] = dump.1.len().into();
        file[seal::KEY] = seal::checksum(dump.1.as_bytes()).into();
        listed.push(dump);
    }
    let sealed = (!fields.is_empty()).then(|| seal::sealed(&fields).expect("JSON can be written"))?;
    Some((sealed, listed))
}

/// Whether the manifest and the dumps it lists are accepted.
fn judge_folder(manifest: &[u8], dumps: &[(&str, &str)]) -> bool {
    let dumps = dumps.iter().map(|(name, content)| (*name, content.as_bytes()));
    let folder = folder(dumps.chain([("manifest.json", manifest)]));
    let job = analyze::AnalyzeRequest { inputs: vec![folder.path().to_owned()], told: Told::default() };
    let args = SimulateArgs { kernel: folder.path().join("kernel.ptx"), ..SIMULATE.clone() };
    let _ = simulate::gpu::GpuSimulateRequest::new(&args);
    analyze::run(&job).is_ok_and(|versions| {
        let accepted = |version: &Version| version.manifest.is_some() && !version.findings.is_empty();
        let is_accepted = versions.iter().any(accepted);
        let verdicts = verify::VerifyReport::new(versions, true);
        let _ = (serde_json::to_string(&verdicts), verdicts.junit());
        print::report::page(&report::ReportPage::new(verdicts));
        is_accepted
    })
}

/// Operands in a safetensors file, as read by `octile simulate` and `octile run-module`.
pub fn safetensors(bytes: &[u8]) -> bool {
    let folder = folder([("copy.mlir", KERNEL.as_bytes()), ("operands.safetensors", bytes)]);
    let (kernel, tensors) = (folder.path().join("copy.mlir"), folder.path().join("operands.safetensors"));
    let ends = |expect: Option<String>| {
        let (tensors, module) = (Some(tensors.clone()), Some(kernel.clone()));
        let args = SimulateArgs {
            kernel: kernel.clone(),
            tensors: tensors.clone(),
            expect: expect.clone().into_iter().collect(),
            ..SIMULATE.clone()
        };
        let _ = run_module::RunModuleRequest::new(&RunModuleArgs {
            module,
            tensors,
            expect,
            ..RUN_MODULE.clone()
        });
        simulate::SimulateRequest::new(&args).and_then(|job| simulate::run(&job)).is_ok()
    };
    [None, Some("out".to_owned())].map(ends).contains(&true)
}

/// A temporary folder with these files.
fn folder<'f>(files: impl IntoIterator<Item = (&'f str, &'f [u8])>) -> TempDir {
    let folder = TempDir::new().expect("a temporary folder can be made");
    for (name, content) in files {
        fs::write(folder.path().join(name), content).expect("a temporary file can be written");
    }
    folder
}

// Parsed once: parsing the command line would dominate the run time.
static SIMULATE: LazyLock<SimulateArgs> = LazyLock::new(|| match command(&["simulate", "file"]) {
    Command::Simulate(args) => args,
    other => panic!("{other:?} is not what was asked for"),
});

static RUN_MODULE: LazyLock<RunModuleArgs> =
    LazyLock::new(|| match command(&["run-module", "file", "--plugin", "none.so", "--tensors", "file"]) {
        Command::RunModule(args) => args,
        other => panic!("{other:?} is not what was asked for"),
    });

fn command(words: &[&str]) -> Command {
    Args::parse_from(["octile"].iter().chain(words)).command.expect("a command is named")
}
