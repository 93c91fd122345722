//! Small integers with power-of-two scales: every product and sum is exact in f32, so the result must be, too.

mod common;

use common::{Case, Element, cpus};
use half::{bf16, f16};
use octile_core::{QuantizedActivation, QuantizedWeight, sample::Activations, sample::Operands};
use octile_runtime::cpu::{
    ActivationKind, E4m3, FloatKind, Mat, PackedWeight, Problem, QuantBlock, ScaleGranularity, Strategy,
    Workspace,
};

/// A whole number between -4 and 4 that depends on its place.
fn digit(row: usize, col: usize) -> f32 {
    ((row * 7 + col * 5 + row * col) % 9) as f32 - 4.0
}

fn codes(rows: usize, cols: usize) -> Vec<u8> {
    (0..rows * cols).map(|at| E4m3::from_f32(digit(at / cols, at % cols)).to_bits()).collect()
}

/// A different power of two for every block.
fn scales(count: usize) -> Vec<f32> {
    (0..count).map(|at| 2f32.powi((at * 5 % 7) as i32 - 3)).collect()
}

fn exact_case(problem: Problem) -> Case {
    let Problem { m, n, k, quant_block, .. } = problem;
    let (scale_rows, scale_cols) = problem.w_scale_shape();
    let weight = codes(n, k);
    let weight = Mat::new(&weight, n, k).unwrap();
    let weight = QuantizedWeight::from_parts(weight, &scales(scale_rows * scale_cols), quant_block).unwrap();
    let digits = || (0..m * k).map(|at| digit(at / k, at % k));
    let x = match problem.x {
        ActivationKind::Fp8(granularity) => {
            let (rows, cols) = problem.x_scale_shape().unwrap();
            let (codes, scales) = (codes(m, k), scales(rows * cols));
            let codes = Mat::new(&codes, m, k).unwrap();
            Activations::Fp8(
                QuantizedActivation::from_parts(codes, &scales, quant_block, granularity).unwrap(),
            )
        }
        ActivationKind::Plain(FloatKind::F32) => Activations::F32(digits().collect()),
        ActivationKind::Plain(FloatKind::Bf16) => Activations::Bf16(digits().map(bf16::from_f32).collect()),
        ActivationKind::Plain(FloatKind::F16) => Activations::F16(digits().map(f16::from_f32).collect()),
        ActivationKind::Quantized(..) => unreachable!("scales of abs-max / 448 are no powers of two"),
    };
    let packed = PackedWeight::new(&weight);
    Case { operands: Operands { problem, weight, x }, packed }
}

fn check<T: Element>(case: &Case, exact: &[f64], narrow: impl Fn(f64) -> T) {
    for cpu in cpus(1) {
        for strategy in Strategy::ALL {
            let result: Vec<T> = case.multiply(&cpu, strategy, &mut Workspace::new());
            for (at, (result, exact)) in result.iter().zip(exact).enumerate() {
                assert!(
                    result.widen() == narrow(*exact).widen(),
                    "{} {} {strategy} at {at}: {} is not {exact}",
                    case.problem(),
                    cpu.isa(),
                    result.widen(),
                );
            }
        }
    }
}

#[test]
fn integers_are_exact() {
    let kinds = [
        ActivationKind::Fp8(ScaleGranularity::Block),
        ActivationKind::Fp8(ScaleGranularity::Token),
        ActivationKind::Plain(FloatKind::F32),
        ActivationKind::Plain(FloatKind::Bf16),
        ActivationKind::Plain(FloatKind::F16),
    ];
    for quant_block in QuantBlock::ALL {
        for x in kinds {
            for (m, n, k) in [(1, 300, 1000), (7, 65, 131), (130, 140, 700)] {
                let problem = Problem::new(m, n, k, quant_block).unwrap().with_x(x);
                let exact = exact_case(problem).reference().values;
                check(&exact_case(problem), &exact, |value| value as f32);
                check(&exact_case(problem.with_out(FloatKind::Bf16)), &exact, bf16::from_f64);
                check(&exact_case(problem.with_out(FloatKind::F16)), &exact, f16::from_f64);
            }
        }
    }
}

/// Every finite code, subnormals and negative zero included, in both operands.
#[test]
fn every_code_is_decoded() {
    let finite: Vec<u8> = (0..=255u8).filter(|&code| !E4m3::from_bits(code).is_nan()).collect();
    let k = finite.len();
    // One product per element of the result: row `r` of x has only its `r`-th code.
    let mut x = vec![0; k * k];
    for at in 0..k {
        x[at * k + at] = finite[at];
    }
    let weight: Vec<u8> = (0..40 * k).map(|at| finite[(at / k * 31 + at % k) % k]).collect();
    let weight = Mat::new(&weight, 40, k).unwrap();
    let weight = QuantizedWeight::from_parts(weight, &[1.0, 1.0], QuantBlock::B128).unwrap();
    let x = Mat::new(&x, k, k).unwrap();
    let x = QuantizedActivation::from_parts(x, &[1.0; 4], QuantBlock::B128, ScaleGranularity::Block).unwrap();
    let problem = Problem::new(k, 40, k, QuantBlock::B128).unwrap();
    let packed = PackedWeight::new(&weight);
    let case = Case { operands: Operands { problem, weight, x: Activations::Fp8(x) }, packed };
    check(&case, &case.reference().values, |value| value as f32);
}
