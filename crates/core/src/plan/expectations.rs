//! What a compiled kernel may be expected to show, beyond what its strategy says.

use serde::Serialize;

use super::{MemorySpace, tpu::TpuPlan};
use crate::{
    ActivationKind, FloatKind, Problem,
    device::tpu::{Fp8Support, TpuChip},
    plan::tpu::Arithmetic,
};

/// Why a kernel need not show something that its strategy otherwise shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Exemption {
    /// Operands are dequantized, so the MXU multiplies bf16.
    Dequantized,
    /// The chip emulates fp8, so the MXU multiplies what the compiler widened.
    EmulatedFp8,
    /// Activations are not quantized, so the MXU multiplies their type.
    Unquantized,
    /// Unquantized activations are multiplied as f32.
    F32Activations,
    /// Activation scales are per row, so they are vectors in VMEM.
    ScalesPerRow,
}

impl Exemption {
    /// The reason, as part of a sentence.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Dequantized => "this variant dequantizes its operands and multiplies bf16",
            Self::EmulatedFp8 => "this chip has no fp8 MXU, so the compiler widens the operands",
            Self::Unquantized => "the activations are multiplied without quantization",
            Self::F32Activations => "the kernel multiplies activations of this type as f32",
            Self::ScalesPerRow => "the plan keeps scales in VMEM: one per row is a vector, not a scalar",
        }
    }
}

/// What the compiled kernel of a plan may be expected to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expectations {
    /// What it need not show.
    pub exemptions: Vec<Exemption>,
    /// Blocks of the operand that is loaded in the most pieces. A core with one block has nothing to
    /// double-buffer.
    pub blocks: Option<usize>,
}

impl Expectations {
    /// Of any kernel on a chip.
    pub fn of_chip(chip: &TpuChip) -> Self {
        let emulated = chip.fp8 != Fp8Support::Native;
        Self { exemptions: emulated.then_some(Exemption::EmulatedFp8).into_iter().collect(), blocks: None }
    }

    /// Of any kernel for a problem on a chip, whatever its strategy.
    pub fn of_problem(problem: &Problem, chip: &TpuChip) -> Self {
        let exemptions = match problem.x {
            ActivationKind::Plain(FloatKind::Bf16) => vec![Exemption::Unquantized],
            ActivationKind::Plain(_) => vec![Exemption::Unquantized, Exemption::F32Activations],
            ActivationKind::Fp8(_) | ActivationKind::Quantized(..) => return Self::of_chip(chip),
        };
        Self { exemptions, blocks: None }
    }
}

impl TpuPlan {
    /// What the compiled kernel may be expected to show on a chip, usually the plan's own.
    pub fn expectations(&self, chip: &TpuChip) -> Expectations {
        let mut expectations = match self.arithmetic {
            Arithmetic::Dequantized => {
                Expectations { exemptions: vec![Exemption::Dequantized], ..Expectations::default() }
            }
            Arithmetic::Fp8 | Arithmetic::Widened => Expectations::of_problem(&self.problem, chip),
        };
        if self.x_scale().is_some_and(|buffer| buffer.space == MemorySpace::Vmem) {
            expectations.exemptions.push(Exemption::ScalesPerRow);
        }
        let blocks = match (self.row_pipeline, self.weight_pipeline) {
            _ if self.mxu_pipeline.is_some() => self.blocks_beside_matmuls(),
            (Some(_), _) => self.grid.m * self.row_blocks().len(),
            (None, Some(pipeline)) => {
                self.problem.n.div_ceil(pipeline.columns).max(self.weight_blocks().len())
            }
            (None, None) => self.steps(),
        };
        Expectations { blocks: Some(blocks), ..expectations }
    }
}
