//! Requires that the dumps of a version are of one kernel, before anything is concluded from them.

use std::path::Path;

use anyhow::{Result, bail};
use octile_core::plan::tpu::Arithmetic;
use octile_dump::facts::{DumpTarget, Facts, FileKind, FileReport, Level, Matmul};

use super::{
    TextFile,
    contents::Content,
    manifest::{Manifest, Plan},
};
use crate::print::shown;

/// Rejects dumps of two targets, and two different files of the same kind: facts about one kernel would be
/// taken from the other.
pub fn require_one_kernel(
    folder: &Path,
    contents: &[Content],
    files: &[FileReport],
    manifest: Option<&Manifest>,
) -> Result<()> {
    let mut first: Option<(DumpTarget, &str)> = None;
    for file in files {
        let Some(target) = file.kind.target() else { continue };
        if let Some(planned) = manifest.map(|manifest| manifest.plan.target()).filter(|plan| *plan != target)
        {
            bail!(
                "{} is a dump of {}, but the manifest of {} plans {}: run `octile inspect` again",
                file.name,
                device(target),
                shown(folder),
                device(planned)
            );
        }
        match first {
            Some((other, name)) if other != target => bail!(
                "{} mixes targets: {name} is a dump of {}, and {} of {}; use one folder per target, or name \
                 one file",
                shown(folder),
                device(other),
                file.name,
                device(target)
            ),
            _ => first = Some((target, &file.name)),
        }
    }
    let mut kernels: Vec<(FileKind, &Content)> = Vec::new();
    for (content, file) in contents.iter().zip(files) {
        let Ok(text) = std::str::from_utf8(&content.bytes) else { continue };
        if !file.kind.describes_kernel(text) {
            continue;
        }
        let same = |(kind, other): &&(FileKind, &Content)| *kind == file.kind && other.bytes != content.bytes;
        if let Some((_, other)) = kernels.iter().find(same) {
            bail!(
                "{} contains two files that each define a kernel: {} and {}; use one folder per kernel, or \
                 name one file",
                shown(folder),
                other.name,
                content.name
            );
        }
        kernels.push((file.kind, content));
    }
    Ok(())
}

fn device(target: DumpTarget) -> &'static str {
    match target {
        DumpTarget::Tpu => "a TPU kernel",
        DumpTarget::Gpu => "a GPU kernel",
    }
}

/// Lists contradictions between files, and with the manifest, one sentence each.
pub fn contradictions(texts: &[TextFile], facts: &Facts, manifest: Option<&Manifest>) -> Vec<String> {
    let mut found: Vec<_> =
        texts.iter().filter_map(several_kernels).chain(facts.conflicts.iter().cloned()).collect();
    let Some(plan) = manifest.map(|manifest| &manifest.plan) else { return found };
    let strategy = plan.strategy();
    let planned = format!("octile_{strategy}_");
    for text in texts {
        let Some(kernel) = kernel_name(text).filter(|kernel| !kernel.starts_with(&planned)) else { continue };
        found.push(format!(
            "{} defines {kernel}, but the manifest plans `{strategy}`: compile that version again",
            text.name
        ));
    }
    if let Plan::Tpu(plan) = plan {
        found.extend(other_arithmetic(plan.arithmetic, facts));
    }
    found
}

/// Reports several kernels in one file of GPU code: facts could not be told apart.
fn several_kernels(text: &TextFile) -> Option<String> {
    let kernels = match text.kind {
        FileKind::Ptx => {
            let code = text.text.lines().map(|line| line.split("//").next().unwrap_or_default());
            code.map(|line| line.matches(".entry").count()).sum()
        }
        FileKind::Sass => text.text.matches("STO_CUDA_ENTRY").count(),
        _ => 1,
    };
    (kernels > 1).then(|| format!("{} defines {kernels} kernels: put each into its own file", text.name))
}

/// Reports a kernel whose arithmetic is not the planned one. A plan to dequantize waives native fp8, so it
/// must be true.
fn other_arithmetic(planned: Arithmetic, facts: &Facts) -> Option<String> {
    let mut own = facts.matmuls.iter().filter(|matmul| matmul.level == Level::Mosaic);
    let is_fp8 = |matmul: &Matmul| matmul.lhs.starts_with("f8") && matmul.rhs.starts_with("f8");
    let other = own.find(|matmul| is_fp8(matmul) != (planned == Arithmetic::Fp8))?;
    let Matmul { lhs, rhs, evidence, .. } = other;
    let file = &evidence.file;
    Some(format!(
        "{file} multiplies {lhs} by {rhs}, but the manifest plans {planned:?} arithmetic: compile that version \
         again"
    ))
}

/// Returns the kernel name in a file.
fn kernel_name(text: &TextFile) -> Option<&str> {
    let before = match text.kind {
        FileKind::Mosaic => "func.func @",
        FileKind::Hlo => "HloModule ",
        FileKind::Ptx => ".entry",
        FileKind::Sass => ".text.",
        FileKind::Assembler => "Function properties for ",
        _ => return None,
    };
    let (_, name) = text.text.split_once(before)?;
    name.trim_start().split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()
}
