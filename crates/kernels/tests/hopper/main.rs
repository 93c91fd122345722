//! Hopper kernels, run end to end without a GPU: right results in whatever order warps and copies happen to
//! come, and broken kernels found out.

mod changes;
mod mutants;
mod results;
mod text;
mod warpgroups;

use half::{bf16, f16};
use octile_core::{
    FloatKind, Problem, QuantBlock,
    device::hopper::{HOPPER_GPUS, HopperGpu},
    exact::ExactOperands,
    oracle,
    plan::hopper::{Arguments, HopperPlan},
    sample::Operands,
};
use octile_kernels::hopper;
use octile_ptx::{Fault, Machine, Product};

/// A GPU so small that its blocks have several tiles each.
const GPU: HopperGpu = HopperGpu { sms: 4, ..HOPPER_GPUS[1] };

/// A problem with results of 16 bits.
fn problem(m: usize, n: usize, k: usize) -> Problem {
    Problem::new(m, n, k, QuantBlock::B128).expect("the shape is valid").with_out(FloatKind::Bf16)
}

/// The kernels of a plan, with the given text for the one that multiplies.
fn product_of(plan: &HopperPlan, multiply: &str) -> Product {
    let quantize = hopper::quantize_for(&plan.problem);
    let quantize = quantize.as_ref().map(|(kernel, launch)| (&kernel.ptx[..], *launch));
    Product::new(plan, multiply, quantize).unwrap_or_else(|error| panic!("{error}"))
}

fn product(plan: &HopperPlan) -> Product {
    product_of(plan, &hopper::multiply(plan).ptx)
}

/// Whether the bytes of a result are within the bound around the f64 reference.
fn is_right(plan: &HopperPlan, operands: &Operands, bytes: &[u8]) -> bool {
    let Problem { m, out, .. } = plan.problem;
    let reference =
        oracle::multiply(&operands.oracle_input(), m, &operands.weight, Product::ACCUMULATOR, out);
    match out {
        FloatKind::F32 => reference.compare(&elements(bytes, f32::from_le_bytes)),
        FloatKind::Bf16 => reference.compare(&elements(bytes, bf16::from_le_bytes)),
        FloatKind::F16 => reference.compare(&elements(bytes, f16::from_le_bytes)),
    }
    .passed()
}

fn elements<T, const N: usize>(bytes: &[u8], element: fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|&bytes| element(bytes)).collect()
}

/// The result, with operands as they are read fastest.
fn run(product: &Product, operands: &Operands, seed: u64) -> Result<Vec<u8>, Fault> {
    let arguments = Arguments::fastest(&operands.problem).with_constant_weight();
    product.run(operands, arguments, Machine { gpu: &GPU, resident_blocks: 8, seed }).map(|(bytes, _)| bytes)
}

/// Runs a plan's kernels and asks for the right result.
fn check(plan: &HopperPlan, operands: &Operands, seed: u64) {
    let name = format!("{} {} {}", plan.problem, plan.problem.x, hopper::multiply(plan).entry);
    let bytes = run(&product(plan), operands, seed).unwrap_or_else(|fault| panic!("{name}: {fault}"));
    assert!(is_right(plan, operands, &bytes), "{name}: the result is wrong");
}

/// Runs a plan's kernels on operands with an exact product and asks for that, to the bit.
fn check_exact(plan: &HopperPlan, exact: &ExactOperands, seed: u64) {
    let name = format!("{} {} {}", plan.problem, plan.problem.x, hopper::multiply(plan).entry);
    let bytes = run(&product(plan), &exact.operands, seed).unwrap_or_else(|fault| panic!("{name}: {fault}"));
    let comparison = match plan.problem.out {
        FloatKind::F32 => exact.compare(&elements(&bytes, f32::from_le_bytes)),
        FloatKind::Bf16 => exact.compare(&elements(&bytes, bf16::from_le_bytes)),
        FloatKind::F16 => exact.compare(&elements(&bytes, f16::from_le_bytes)),
    };
    assert_eq!(comparison.wrong, 0, "{name}: {comparison:?}");
}
