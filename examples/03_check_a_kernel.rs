//! Check a kernel of your own against the f64 reference, with a bound on every element.
//!
//! Run with `cargo run --release -p octile-runtime --example 03_check_a_kernel`.

use octile_core::{
    Problem,
    bound::Accumulator,
    oracle,
    sample::{Activations, Operands},
};

/// Plain loops over dequantized operands: slow, and right.
fn multiply_slowly(operands: &Operands) -> Vec<f32> {
    let Problem { m, n, k, .. } = operands.problem;
    let Activations::Fp8(x) = &operands.x else { unreachable!("the problem asks for fp8 activations") };
    let (x, w) = (x.dequantize(), operands.weight.dequantize());
    let dot = |row: usize, col: usize| (0..k).map(|i| x[row * k + i] * w[col * k + i]).sum();
    (0..m * n).map(|at| dot(at / n, at % n)).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let problem: Problem = "33x65x300:128".parse()?;
    let operands = Operands::random(problem, 1);
    let reference = oracle::multiply(
        &operands.oracle_input(),
        problem.m,
        &operands.weight,
        Accumulator::F32,
        problem.out,
    );
    let mut result = multiply_slowly(&operands);
    println!("as it is:        {:?}", reference.compare(&result));
    result[40] *= 1.001;
    println!("one element off: {:?}", reference.compare(&result));
    Ok(())
}
