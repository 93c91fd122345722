//! Runs emitted modules on sample operands.

#![allow(dead_code, reason = "every test binary uses a part of it")]

use octile_core::{
    Problem, Strategy,
    bound::Accumulator,
    device::tpu::{TpuChip, TpuRates},
    oracle::{self, Comparison, Reference},
    plan::tpu::{Arithmetic, BlockMode, TpuPlan},
    sample::{Activations, Operands},
};
use octile_kernels::tpu::emit;
use octile_mosaic::{
    Float, Module,
    interpret::{Element, Options, Outcome, Tensor, simulate},
    parse,
};

/// Simulator options for one core of the planned chip.
pub(crate) fn rates() -> TpuRates {
    TpuChip::named("tpu7x").expect("the chip is known").rates
}

pub(crate) fn plan(problem: &Problem, strategy: Strategy, mode: BlockMode) -> Option<TpuPlan> {
    TpuPlan::new(problem, TpuChip::named("tpu7x").expect("the chip is known"), strategy, mode).ok()
}

/// The emitted module, printed and parsed again, as a compiler would read it.
pub(crate) fn module(plan: &TpuPlan) -> Module {
    let text = emit(plan).stablehlo.to_string();
    parse(&text).unwrap_or_else(|error| panic!("{}: {error}", plan.problem))
}

fn tensor<const N: usize>(
    float: Float,
    shape: [usize; 2],
    elements: impl Iterator<Item = [u8; N]>,
) -> Tensor {
    let bytes: Vec<u8> = elements.flatten().collect();
    Tensor { element: Element::Float(float), shape: shape.to_vec(), bytes: bytes.into() }
}

/// `x, w_q, w_scale[, x_scale]`.
pub(crate) fn tensors(operands: &Operands) -> Vec<Tensor> {
    let Problem { m, n, k, .. } = operands.problem;
    let pair = |(rows, cols): (usize, usize)| [rows, cols];
    let scales =
        |shape, scales: &[f32]| tensor(Float::F32, pair(shape), scales.iter().map(|v| v.to_le_bytes()));
    let x = match &operands.x {
        Activations::Fp8(x) => tensor(Float::F8E4M3FN, [m, k], x.codes().iter().map(|&code| [code])),
        Activations::F32(x) => tensor(Float::F32, [m, k], x.iter().map(|v| v.to_le_bytes())),
        Activations::Bf16(x) => tensor(Float::Bf16, [m, k], x.iter().map(|v| v.to_le_bytes())),
        Activations::F16(x) => tensor(Float::F16, [m, k], x.iter().map(|v| v.to_le_bytes())),
    };
    let w_q = tensor(Float::F8E4M3FN, [n, k], operands.weight.codes().iter().map(|&code| [code]));
    let mut tensors = vec![x, w_q, scales(operands.problem.w_scale_shape(), operands.weight.scales())];
    if let (Activations::Fp8(x), Some(shape)) = (&operands.x, operands.problem.x_scale_shape()) {
        tensors.push(scales(shape, x.scales()));
    }
    tensors
}

pub(crate) fn run(module: &Module, operands: &Operands) -> Outcome {
    simulate(module, &tensors(operands), &Options::new(rates()))
        .unwrap_or_else(|error| panic!("{}: {error}", operands.problem))
}

/// The f64 reference with the error bound of the plan's arithmetic.
pub(crate) fn reference(plan: &TpuPlan, operands: &Operands) -> Reference {
    let problem = operands.problem;
    let accumulator = match plan.arithmetic {
        Arithmetic::Dequantized => Accumulator::Bf16Operands,
        Arithmetic::Fp8 | Arithmetic::Widened => Accumulator::F32,
    };
    oracle::multiply(&operands.oracle_input(), problem.m, &operands.weight, accumulator, problem.out)
}

/// Compares the result with the f64 reference.
pub(crate) fn compare(plan: &TpuPlan, outcome: &Outcome, operands: &Operands) -> Comparison {
    reference(plan, operands).compare(&outcome.outputs[0].to_f32())
}
