//! Every instruction set, strategy, activation and output type against the f64 reference.

mod common;

use common::{Case, X_KINDS, cpus};
use half::{bf16, f16};
use octile_runtime::cpu::{FloatKind, Problem, QuantBlock, Strategy};

#[test]
fn every_combination_of_types() {
    let cpus = cpus(1);
    for quant_block in QuantBlock::ALL {
        for x in X_KINDS {
            let problem = Problem::new(19, 70, 531, quant_block).unwrap().with_x(x);
            for out in [FloatKind::F32, FloatKind::Bf16, FloatKind::F16] {
                let case = Case::new(problem.with_out(out), 7);
                let reference = case.reference();
                for cpu in &cpus {
                    for strategy in Strategy::ALL {
                        match out {
                            FloatKind::F32 => case.check::<f32>(cpu, strategy, &reference),
                            FloatKind::Bf16 => case.check::<bf16>(cpu, strategy, &reference),
                            FloatKind::F16 => case.check::<f16>(cpu, strategy, &reference),
                        }
                    }
                }
            }
        }
    }
}
