//! What the manifest beside a kernel that `octile inspect` wrote tells of it.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use octile_core::{ActivationKind, FloatKind, Problem, QuantBlock};
use serde::Deserialize;

use crate::command::analyze::manifest;

/// A problem as manifests hold it.
#[derive(Deserialize)]
pub(super) struct WrittenProblem {
    m: usize,
    n: usize,
    k: usize,
    quant_block: usize,
    x: ActivationKind,
    out: FloatKind,
}

impl WrittenProblem {
    pub(super) fn problem(self) -> Result<Problem> {
        let Self { m, n, k, quant_block, x, out } = self;
        Ok(Problem::new(m, n, k, QuantBlock::try_from(quant_block)?)?.with_x(x).with_out(out))
    }
}

/// The parts of a TPU kernel's manifest that its operands follow from.
#[derive(Deserialize)]
struct Manifest {
    plan: Plan,
}

#[derive(Deserialize)]
struct Plan {
    problem: WrittenProblem,
    chip: Chip,
}

#[derive(Deserialize)]
struct Chip {
    name: String,
}

/// The module of a TPU version's folder, whose operands are those of the problem, as they are.
const MODULE: &str = "stablehlo.mlir";

/// The problem and the chip of a module that was written along with a manifest; `None` where there is none, or for another file of the folder.
pub(super) fn of_module(kernel: &Path) -> Result<Option<(Problem, String)>> {
    let path = kernel.with_file_name(manifest::FILE_NAME);
    if kernel.file_name().is_none_or(|name| name != MODULE) || !path.is_file() {
        return Ok(None);
    }
    let read = || -> Result<_> {
        let Manifest { plan } = serde_json::from_slice(&fs::read(&path)?)?;
        Ok((plan.problem.problem()?, plan.chip.name))
    };
    let told = read().with_context(|| {
        format!(
            "{} does not tell the operands: run `octile inspect` again, or give --tensors",
            path.display()
        )
    });
    told.map(Some)
}
