//! Hopper kernels in the simulator, without a GPU: results are right in every order of warps and copies, and
//! broken kernels are detected.

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
use octile_ptx::simulate::{Fault, SimulatedMatmul, Simulator};

/// A GPU with so few SMs that persistent CTAs have several tiles each.
const GPU: HopperGpu = HopperGpu { sms: 4, ..HOPPER_GPUS[1] };

/// A problem with 16-bit results.
fn problem(m: usize, n: usize, k: usize) -> Problem {
    Problem::new(m, n, k, QuantBlock::B128).expect("the shape is valid").with_out(FloatKind::Bf16)
}

/// The kernels of a plan, with the given text of the matmul kernel.
fn product_of(plan: &HopperPlan, multiply: &str) -> SimulatedMatmul {
    let quantize = hopper::quantize_for(&plan.problem);
    let quantize = quantize.as_ref().map(|(kernel, launch)| (&kernel.ptx[..], *launch));
    SimulatedMatmul::new(plan, multiply, quantize).unwrap_or_else(|error| panic!("{error}"))
}

fn product(plan: &HopperPlan) -> SimulatedMatmul {
    product_of(plan, &hopper::multiply(plan).ptx)
}

/// Whether a result is within the error bound of the f64 reference.
fn is_right(plan: &HopperPlan, operands: &Operands, bytes: &[u8]) -> bool {
    let Problem { m, out, .. } = plan.problem;
    let reference =
        oracle::multiply(&operands.oracle_input(), m, &operands.weight, SimulatedMatmul::ACCUMULATOR, out);
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

/// Runs the kernels with the fastest operand layout and a constant weight.
fn run(product: &SimulatedMatmul, operands: &Operands, seed: u64) -> Result<Vec<u8>, Fault> {
    let arguments = Arguments::fastest(&operands.problem).with_constant_weight();
    product.run(operands, arguments, Simulator { gpu: &GPU, resident_ctas: 8, seed }).map(|(bytes, _)| bytes)
}

/// Runs a plan's kernels and checks the result.
fn check(plan: &HopperPlan, operands: &Operands, seed: u64) {
    let name = format!("{} {} {}", plan.problem, plan.problem.x, hopper::multiply(plan).entry);
    let bytes = run(&product(plan), operands, seed).unwrap_or_else(|fault| panic!("{name}: {fault}"));
    assert!(is_right(plan, operands, &bytes), "{name}: the result is wrong");
}

/// Runs a plan's kernels on operands whose product is exact, and checks it bit for bit.
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
