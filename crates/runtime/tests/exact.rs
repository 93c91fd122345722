//! Operands with an exact product: every ISA and strategy must match it bit for bit.

mod common;

use common::{Case, Element, X_KINDS, cpus};
use half::{bf16, f16};
use octile_core::{
    QuantizedActivation, QuantizedWeight,
    exact::ExactOperands,
    sample::{Activations, Operands},
};
use octile_runtime::cpu::{
    E4m3, FloatKind, Mat, PackedWeight, Problem, QuantBlock, ScaleGranularity, Strategy, Workspace,
};

fn check<T: Element>(exact: &ExactOperands) {
    let case = Case { packed: PackedWeight::new(&exact.operands.weight), operands: exact.operands.clone() };
    for cpu in cpus(1) {
        for strategy in Strategy::ALL {
            let result: Vec<T> = case.multiply(&cpu, strategy, &mut Workspace::new());
            let comparison = exact.compare(&result);
            let (problem, isa) = (case.problem(), cpu.dispatch());
            assert_eq!(comparison.wrong, 0, "{problem} x {} {isa} {strategy}: {comparison:?}", problem.x);
        }
    }
}

#[test]
fn integers_with_powers_of_two_as_scales() {
    for quant_block in QuantBlock::ALL {
        for x in X_KINDS {
            let shapes = [(1, 300, 1000), (7, 65, 131), (130, 140, 700)];
            for ((m, n, k), out) in shapes.into_iter().zip([FloatKind::F32, FloatKind::Bf16, FloatKind::F16])
            {
                let problem = Problem::new(m, n, k, quant_block).unwrap().with_x(x).with_out(out);
                for draw in 0..ExactOperands::draws(&problem) {
                    let exact = ExactOperands::new(problem, draw, 1);
                    match out {
                        FloatKind::F32 => check::<f32>(&exact),
                        FloatKind::Bf16 => check::<bf16>(&exact),
                        FloatKind::F16 => check::<f16>(&exact),
                    }
                }
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
    let exact = case.reference().values;
    for cpu in cpus(1) {
        for strategy in Strategy::ALL {
            let result: Vec<f32> = case.multiply(&cpu, strategy, &mut Workspace::new());
            let result: Vec<f64> = result.into_iter().map(f64::from).collect();
            assert!(result == exact, "{} {strategy}", cpu.dispatch());
        }
    }
}
