//! Requires that the dumps of a version are of one kernel, before anything is concluded from them.

use std::path::Path;

use anyhow::{Result, bail};
use octile_core::plan::tpu::Arithmetic;
use octile_dump::facts::{DumpTarget, Facts, FileKind, Level, Matmul};

use super::{
    TextFile,
    manifest::{Manifest, Plan},
};
use crate::print::shown;

/// Rejects dumps of several kernels, and dumps of another target than the manifest plans.
pub(super) fn require_one_kernel(folder: &Path, facts: &Facts, manifest: Option<&Manifest>) -> Result<()> {
    let planned = manifest.map(Manifest::target);
    for file in &facts.files {
        if let (Some(target), Some(planned)) = (file.kind.target(), planned)
            && target != planned
        {
            bail!(
                "{} is a dump of {}, but the manifest of {} plans {}: run `octile inspect` again",
                file.name,
                device(target),
                shown(folder),
                device(planned)
            );
        }
    }
    match facts.conflicts.iter().find(|conflict| conflict.is_mixed_folder()) {
        Some(conflict) => {
            bail!("{} mixes kernels: {conflict}; use one folder per kernel, or name one file", shown(folder))
        }
        None => Ok(()),
    }
}

fn device(target: DumpTarget) -> &'static str {
    match target {
        DumpTarget::Tpu => "a TPU kernel",
        DumpTarget::Gpu => "a GPU kernel",
    }
}

/// Lists contradictions between files, and with the manifest, one sentence each.
pub(super) fn contradictions(texts: &[TextFile], facts: &Facts, manifest: Option<&Manifest>) -> Vec<String> {
    let mut found: Vec<_> = facts.conflicts.iter().map(ToString::to_string).collect();
    let Some(plan) = manifest.and_then(|manifest| manifest.plan.as_ref()) else { return found };
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
