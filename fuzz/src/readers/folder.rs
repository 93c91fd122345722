//! What the command line reads besides dumps, through the commands themselves: manifests and operands.

use std::{fs, sync::LazyLock};

use clap::Parser;
use octile_cli::{
    args::{Args, Command, RunModuleArgs, SimulateArgs},
    command::{
        analyze::{self, Told},
        run_module, seal, simulate,
    },
};
use tempfile::TempDir;

use super::text;

/// A kernel that the operands of a file are given to.
const KERNEL: &str = include_str!("copy.mlir");

/// A manifest, as `octile verify` and `octile simulate` read it: as it is, and with a seal that fits, since no
/// mutation would hit upon that.
pub fn manifest(bytes: &[u8]) {
    read_folder(bytes);
    let value = text(bytes).and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
    if let Some(serde_json::Value::Object(mut fields)) = value {
        for seal in ["crc32", "sha256"] {
            fields.remove(seal);
        }
        if !fields.is_empty()
            && let Ok(sealed) = seal::sealed(&fields)
        {
            read_folder(sealed.as_bytes());
        }
    }
}

fn read_folder(manifest: &[u8]) {
    let ptx = b".version 8.3\n";
    let folder = folder(&[("manifest.json", manifest), ("kernel.ptx", ptx), ("stablehlo.mlir", b"")]);
    let _ = analyze::run(&analyze::Job { inputs: vec![folder.path().to_owned()], told: Told::default() });
    let args = SimulateArgs { kernel: folder.path().join("kernel.ptx"), ..SIMULATE.clone() };
    let _ = simulate::gpu::Job::new(&args);
}

/// Operands in a safetensors file, as `octile simulate` and `octile run-module` take them.
pub fn safetensors(bytes: &[u8]) {
    let folder = folder(&[("copy.mlir", KERNEL.as_bytes()), ("operands.safetensors", bytes)]);
    let (kernel, tensors) = (folder.path().join("copy.mlir"), folder.path().join("operands.safetensors"));
    for expect in [None, Some("out".to_owned())] {
        let (tensors, module) = (Some(tensors.clone()), Some(kernel.clone()));
        let args = SimulateArgs {
            kernel: kernel.clone(),
            tensors: tensors.clone(),
            expect: expect.clone(),
            ..SIMULATE.clone()
        };
        if let Ok(job) = simulate::Job::new(&args) {
            let _ = simulate::run(&job);
        }
        let _ = run_module::Job::new(&RunModuleArgs { module, tensors, expect, ..RUN_MODULE.clone() });
    }
}

/// A folder with these files, which goes when it is dropped.
fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = TempDir::new().expect("a temporary folder can be made");
    for (name, content) in files {
        fs::write(folder.path().join(name), content).expect("a temporary file can be written");
    }
    folder
}

// Reading a command line takes longer than all else, so only the files differ from input to input.
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
