//! Kernels with misplaced waits, compiled by the real TPU compiler: the Mosaic text and the LLO listing each
//! fail the check on their own. `BLESS=1` keeps the listings as fixtures of `octile-dump`.

mod common;

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use octile_core::{
    Problem, QuantBlock, Strategy, device::tpu::TpuChip, plan::tpu::BlockMode, plan::tpu::TpuPlan,
};
use octile_dump::{
    checks::{CheckId, Finding, Verdict, check},
    facts::{Facts, Source},
};
use octile_kernels::tpu::{Emitted, emit};
use octile_runtime::pjrt::compile::{Compiler, DumpFlags, Module, Target};
use tempfile::TempDir;

/// A kernel that reads or writes a buffer while a DMA is in flight.
struct Racy {
    name: &'static str,
    strategy: Strategy,
    shape: (usize, usize, usize),
    /// Edits the lines of the kernel.
    edit: fn(&mut Vec<String>),
}

const RACY: [Racy; 8] = [
    Racy {
        name: "late-wait-w",
        strategy: Strategy::Smem,
        shape: (256, 256, 384),
        edit: |lines| delay(lines, 1, "tpu.matmul"),
    },
    Racy {
        name: "late-wait-x",
        strategy: Strategy::Smem,
        shape: (256, 256, 384),
        edit: |lines| delay(lines, 0, "tpu.matmul"),
    },
    Racy {
        name: "late-wait-scale",
        strategy: Strategy::Smem,
        shape: (256, 256, 384),
        edit: |lines| delay(lines, 2, "memref.load %w_scale_x2"),
    },
    Racy { name: "late-wait-out", strategy: Strategy::Smem, shape: (256, 256, 384), edit: delay_output_wait },
    Racy {
        name: "late-wait-in-one-step",
        strategy: Strategy::Smem,
        shape: (256, 256, 384),
        edit: delay_in_one_step,
    },
    Racy {
        name: "late-wait-w-v2",
        strategy: Strategy::Dma,
        shape: (256, 256, 384),
        edit: |lines| delay(lines, 1, "tpu.matmul"),
    },
    Racy {
        name: "late-wait-scale-v2",
        strategy: Strategy::Dma,
        shape: (256, 256, 384),
        edit: |lines| delay(lines, 2, "vector.load %w_scale_x2"),
    },
    Racy {
        name: "late-wait-strip",
        strategy: Strategy::Strip,
        shape: (8, 1024, 1024),
        edit: |lines| delay(lines, 3, "tpu.matmul"),
    },
];

/// The lines that wait, in order.
fn waits(lines: &[String]) -> Vec<usize> {
    let is_wait = |line: &String| line.contains("tpu.wait_dma2");
    lines.iter().enumerate().filter(|(_, line)| is_wait(line)).map(|(at, _)| at).collect()
}

/// The first line at or after `from` that contains `what`.
fn next(lines: &[String], from: usize, what: &str) -> usize {
    let found = lines.iter().skip(from).position(|line| line.contains(what));
    from + found.unwrap_or_else(|| panic!("no {what:?} after line {from}:\n{}", lines.join("\n")))
}

/// Moves a wait behind the next line that contains `behind`.
fn delay(lines: &mut Vec<String>, wait: usize, behind: &str) {
    let at = waits(lines)[wait];
    let target = next(lines, at, behind);
    let line = lines.remove(at);
    lines.insert(target, line);
}

/// Moves the block that waits for the output buffer behind the store into it.
fn delay_output_wait(lines: &mut Vec<String>) {
    let wait = waits(lines)[4];
    let start = (0..wait).rev().find(|&at| lines[at].contains("scf.if")).expect("the wait is conditional");
    let end = next(lines, wait, "}");
    let store = next(lines, end, "tpu.vector_store %out_x2");
    let block: Vec<_> = lines.drain(start..=end).collect();
    let store = store - block.len();
    lines.splice(store + 1..store + 1, block);
}

/// Delays the wait for w in the second K step only.
fn delay_in_one_step(lines: &mut Vec<String>) {
    let at = waits(lines)[1];
    let wait = lines.remove(at);
    let product = next(lines, at, "tpu.matmul");
    let guarded = |comparison: &str, name: &str| {
        vec![
            format!("    %{name} = arith.cmpi {comparison}, %k, %c1_i32 : i32"),
            format!("    scf.if %{name} {{"),
            format!("  {wait}"),
            "    }".to_owned(),
        ]
    };
    lines.splice(product + 1..product + 1, guarded("eq", "late"));
    lines.splice(at..at, guarded("ne", "early"));
}

fn emitted(racy: &Racy) -> Emitted {
    let chip = TpuChip::named("tpu7x").expect("the chip is known");
    let (m, n, k) = racy.shape;
    let problem = Problem::new(m, n, k, QuantBlock::B128).expect("the shape is valid");
    let mode = if racy.strategy == Strategy::Strip { BlockMode::Large } else { BlockMode::Aligned };
    emit(&TpuPlan::new(&problem, chip, racy.strategy, mode).expect("the chip takes it"))
}

/// Compiles a kernel and returns its listing.
fn compile(compiler: &Compiler, name: &str, emitted: &Emitted, mosaic: &str) -> String {
    let (original, stablehlo) = (emitted.mosaic.to_string(), emitted.stablehlo.to_string());
    let module = stablehlo.replace(&STANDARD.encode(original), &STANDARD.encode(mosaic));
    let dump = TempDir::new().unwrap();
    let flags = DumpFlags::Listings(dump.path().to_owned());
    let target = Target::named(TpuChip::named("tpu7x").unwrap().topology);
    let compiled = compiler.compile(&target, &Module::new(name, module), &flags);
    compiled.unwrap_or_else(|error| panic!("{name}: {error}"));
    let listing = listing(dump.path(), &emitted.kernel_name);
    fs::read_to_string(listing.expect("the compiler wrote the kernel's listing")).unwrap()
}

/// The packed listing of a kernel, in a folder or below it.
fn listing(folder: &Path, kernel: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let is_packed = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.contains(kernel) && name.ends_with("-packed-bundles-post-ra.txt")
    };
    let below = || folders.iter().find_map(|folder| listing(folder, kernel));
    files.into_iter().find(is_packed).or_else(below)
}

fn balanced(files: &[(&str, &str)]) -> Finding {
    let sources: Vec<_> = files.iter().map(|(name, text)| Source { name, bytes: text.as_bytes() }).collect();
    let findings = check(&Facts::gather(&sources), None);
    findings.into_iter().find(|finding| finding.check == CheckId::CopiesBalanced).unwrap()
}

fn keep(name: &str, files: &[(&str, &str)]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dump/tests/defects").join(name);
    fs::create_dir_all(&folder).unwrap();
    for (file, text) in files {
        let file = fs::File::create(folder.join(format!("{file}.gz"))).unwrap();
        let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::best());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap();
    }
}

#[test]
fn every_level_detects_a_race() {
    let child = vec![env!("CARGO_BIN_EXE_octile").into(), "compile-child".into()];
    let compiler = Compiler { plugin: common::libtpu(), child };
    let mut passed = Vec::new();
    for racy in &RACY {
        let emitted = emitted(racy);
        let original = emitted.mosaic.to_string();
        let mut lines: Vec<String> = original.lines().map(str::to_owned).collect();
        (racy.edit)(&mut lines);
        let mosaic = lines.join("\n") + "\n";
        assert_ne!(original, mosaic, "{}", racy.name);
        let listing = compile(&compiler, racy.name, &emitted, &mosaic);
        let sound = compile(&compiler, racy.name, &emitted, &original);
        let (mosaic, listing) =
            (("mosaic.mlir", mosaic.as_str()), ("packed-bundles-post-ra.txt", listing.as_str()));
        if std::env::var_os("BLESS").is_some() {
            keep(racy.name, &[mosaic, listing]);
        }
        let sound = balanced(&[("mosaic.mlir", &original), ("packed-bundles-post-ra.txt", &sound)]);
        assert_eq!(sound.verdict, Verdict::Pass, "{}: {sound:?}", racy.name);
        for files in [&[mosaic][..], &[listing], &[mosaic, listing]] {
            let found = balanced(files);
            if found.verdict != Verdict::Fail {
                passed.push(format!("{} {}: {}", racy.name, files[0].0, found.says));
            }
        }
    }
    assert!(passed.is_empty(), "not refuted:\n{}", passed.join("\n"));
}
