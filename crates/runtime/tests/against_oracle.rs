//! Every ISA, strategy, activation and output type against the f64 reference.

mod common;

use common::{Case, X_KINDS, cpus};
use half::{bf16, f16};
use octile_runtime::cpu::{ActivationKind, FloatKind, Problem, QuantBlock, ScaleGranularity, Strategy};
use proptest::prelude::*;

fn problem(m: usize, n: usize, k: usize, quant_block: QuantBlock, x: ActivationKind) -> Problem {
    Problem::new(m, n, k, quant_block).unwrap().with_x(x)
}

#[test]
fn every_combination_of_types() {
    let cpus = cpus(1);
    for quant_block in QuantBlock::ALL {
        for x in X_KINDS {
            for out in [FloatKind::F32, FloatKind::Bf16, FloatKind::F16] {
                let case = Case::new(problem(19, 70, 531, quant_block, x).with_out(out), 7);
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

/// All M up to 64 with N and K on both sides of every boundary: pair, run of 64, quantization block, slab,
/// panel.
#[test]
fn every_m_with_ragged_n_and_k() {
    let cpus = cpus(1);
    let mut turn = 0;
    for m in 1..=64 {
        for n in [1, 31, 33, 100] {
            for k in [1, 2, 63, 127, 129, 257, 513, 700] {
                turn += 1;
                let quant_block = QuantBlock::ALL[turn % 3];
                let case =
                    Case::new(problem(m, n, k, quant_block, X_KINDS[turn % X_KINDS.len()]), turn as u64);
                let reference = case.reference();
                for cpu in &cpus {
                    case.check::<f32>(cpu, Strategy::Strip, &reference);
                    case.check::<f32>(cpu, Strategy::ALL[turn % 3], &reference);
                }
            }
        }
    }
}

/// Large enough for several row blocks, groups of panels, passes over K and strips of quantized rows.
#[test]
fn large_problems_go_through_every_loop() {
    use ScaleGranularity::{Block, Token};
    let cases = [
        problem(600, 40, 1100, QuantBlock::B128, ActivationKind::Fp8(Block)),
        problem(530, 1100, 1030, QuantBlock::B256, ActivationKind::Fp8(Token)),
        problem(1100, 40, 4200, QuantBlock::B512, ActivationKind::Quantized(FloatKind::F32, Block)),
        problem(1100, 40, 4200, QuantBlock::B128, ActivationKind::Quantized(FloatKind::Bf16, Token)),
        problem(300, 70, 2100, QuantBlock::B512, ActivationKind::Plain(FloatKind::F32)),
    ];
    for problem in cases {
        let case = Case::new(problem, 11);
        let reference = case.reference();
        for cpu in cpus(2) {
            for strategy in Strategy::ALL {
                let plan = cpu.plan(&problem, strategy);
                assert!(
                    plan.block_rows < problem.m && plan.strips().count() * plan.workers() > 1,
                    "{plan:?}"
                );
                case.check::<f32>(&cpu, strategy, &reference);
            }
        }
    }
}

#[test]
fn blocks_of_zeros_and_extreme_scales() {
    for x in X_KINDS {
        let problem = problem(5, 130, 400, QuantBlock::B128, x);
        let mut case = Case::new(problem, 3);
        case.scale_blocks(|block| match block % 4 {
            0 => 0.0,
            1 => 1e-30,
            2 => 1.0,
            _ => 1e20,
        });
        let reference = case.reference();
        for cpu in cpus(1) {
            for strategy in Strategy::ALL {
                case.check::<f32>(&cpu, strategy, &reference);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_shape(
        m in 1usize..90,
        n in 1usize..200,
        k in 1usize..1300,
        quant_block in prop::sample::select(QuantBlock::ALL.to_vec()),
        x in prop::sample::select(X_KINDS.to_vec()),
        strategy in prop::sample::select(Strategy::ALL.to_vec()),
        threads in 1usize..4,
        seed: u64,
    ) {
        let case = Case::new(problem(m, n, k, quant_block, x), seed);
        let reference = case.reference();
        for cpu in cpus(threads) {
            case.check::<f32>(&cpu, strategy, &reference);
        }
    }
}
