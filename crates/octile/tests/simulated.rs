//! The library on simulated devices: the same bits as the simulators give.

mod common;

use common::{operands, require_same_bits, run, weight};
use octile::{DType, Device, Matmul, Scales, Strategy};
use octile_core::{Problem, bound::Accumulator, oracle, sample::Operands};

fn multiply(device: &Device, strategy: Strategy, operands: &Operands, kind: (DType, Scales)) -> Vec<f32> {
    let matmul = Matmul::builder(device, weight(operands))
        .activations(kind.0, kind.1)
        .output(DType::F32)
        .with_strategy(strategy)
        .build()
        .unwrap();
    let mut out = vec![f32::NAN; operands.problem.m * operands.problem.n];
    run(&matmul, &operands.x, &mut out).unwrap();
    out
}

#[test]
fn simulated_results_are_right_and_repeatable() {
    for device in [Device::simulated_gpu(), Device::simulated_tpu()] {
        for kind in [(DType::F32, Scales::PerToken), (DType::F8E4M3, Scales::PerBlock)] {
            let operands = operands([3, 40, 200], kind.0, kind.1, DType::F32);
            let Problem { m, out, .. } = operands.problem;
            let input = operands.oracle_input();
            // What a TPU may round is within the looser bound.
            let reference = oracle::multiply(&input, m, &operands.weight, Accumulator::Bf16Operands, out);
            for strategy in Strategy::ALL {
                let got = multiply(&device, strategy, &operands, kind);
                let comparison = reference.compare(&got);
                assert!(comparison.passed(), "{device}, {strategy}, {kind:?}: {comparison:?}");
                let again = multiply(&device, strategy, &operands, kind);
                require_same_bits(&again, &got, &format!("{device}, {strategy}, {kind:?}"));
            }
        }
    }
}
