//! Emitted modules, simulated end to end: correct results, no data races, no deadlocks.

mod support;

use octile_core::{
    ActivationKind, FloatKind, Problem, QuantBlock, ScaleGranularity, Strategy,
    device::tpu::TpuChip,
    exact::ExactOperands,
    plan::tpu::{BlockMode, Dims, TpuPlan},
    sample::Operands,
};
use octile_kernels::tpu::emit;
use octile_mosaic::verify::verify;
use support::{compare, module, plan, run};

const KINDS: [ActivationKind; 6] = [
    ActivationKind::Fp8(ScaleGranularity::Block),
    ActivationKind::Fp8(ScaleGranularity::Token),
    ActivationKind::Quantized(FloatKind::Bf16, ScaleGranularity::Block),
    ActivationKind::Quantized(FloatKind::F32, ScaleGranularity::Token),
    ActivationKind::Plain(FloatKind::Bf16),
    ActivationKind::Plain(FloatKind::F32),
];

/// Simulates every kernel that has a plan for the problem; returns their number.
fn check(problem: Problem) -> usize {
    let operands = Operands::random(problem, 7);
    let draws = 0..ExactOperands::draws(&problem);
    let exact: Vec<_> = draws.map(|draw| ExactOperands::new(problem, draw, 7)).collect();
    let mut ran = 0;
    for (strategy, mode) in
        Strategy::ALL.into_iter().flat_map(|strategy| BlockMode::ALL.map(|mode| (strategy, mode)))
    {
        let Some(plan) = plan(&problem, strategy, mode) else { continue };
        let outcome = run(&module(&plan), &operands);
        let name = format!("{problem} {} {strategy} {mode}", problem.x);
        assert_eq!(outcome.findings, [], "{name}");
        assert_eq!(verify(&emit(&plan).mosaic, plan.chip), [], "{name}");
        let comparison = compare(&plan, &outcome, &operands);
        assert!(comparison.passed(), "{name}: {comparison:?}");
        for exact in &exact {
            let outcome = run(&module(&plan), &exact.operands);
            let comparison = exact.compare(&outcome.outputs[0].to_f32());
            assert_eq!(comparison.wrong, 0, "{name}: {comparison:?}");
        }
        ran += 1;
    }
    ran
}

fn problem(m: usize, n: usize, k: usize, quant_block: QuantBlock) -> Problem {
    Problem::new(m, n, k, quant_block).expect("the shape is valid")
}

#[test]
fn every_kind_of_activation_on_ragged_shapes() {
    for kind in KINDS {
        let shapes = [(200, 300, 400), (1, 256, 384), (130, 129, 257)];
        let ran: usize =
            shapes.map(|(m, n, k)| check(problem(m, n, k, QuantBlock::B128).with_x(kind))).iter().sum();
        assert!(ran >= 12, "{kind}: only {ran} kernels have a plan");
    }
}

#[test]
fn every_block_side() {
    for quant_block in QuantBlock::ALL {
        assert!(check(problem(512, 600, 1024, quant_block)) >= 4);
        assert!(check(problem(16, 1024, 1024, quant_block).with_out(FloatKind::Bf16)) >= 4);
    }
}

/// Rows that end inside a block, columns that end inside a chunk, and several weight blocks per step.
#[test]
fn strips_with_ragged_chunks() {
    use ScaleGranularity::{Block, Token};
    let fp8 = ActivationKind::Fp8;
    let quantized = ActivationKind::Quantized(FloatKind::Bf16, Block);
    for (shape, kind) in [
        ((290, 640, 256, QuantBlock::B128), fp8(Block)),
        ((545, 384, 128, QuantBlock::B128), fp8(Token)),
        ((100, 900, 190, QuantBlock::B128), fp8(Token)),
        ((290, 384, 128, QuantBlock::B128), quantized),
        // Codes of rows along the lanes, with and without a k-block that is left over.
        ((96, 700, 640, QuantBlock::B128), fp8(Token)),
        ((127, 1500, 900, QuantBlock::B128), fp8(Token)),
        // Few rows, past which weights stream in steps that do not divide them.
        ((9, 700, 300, QuantBlock::B128), fp8(Token)),
        ((40, 900, 190, QuantBlock::B128), fp8(Block)),
        ((20, 1100, 300, QuantBlock::B256), fp8(Token)),
        ((33, 600, 200, QuantBlock::B128), ActivationKind::Quantized(FloatKind::Bf16, Token)),
        ((5, 600, 200, QuantBlock::B128), ActivationKind::Plain(FloatKind::Bf16)),
        ((290, 500, 300, QuantBlock::B256), fp8(Token)),
        ((545, 700, 300, QuantBlock::B256), fp8(Block)),
        // Several blocks of rows, the first of which waits for the next one with its last weights.
        ((778, 600, 128, QuantBlock::B128), fp8(Token)),
        ((1290, 200, 201, QuantBlock::B128), fp8(Token)),
        ((1290, 328, 192, QuantBlock::B128), fp8(Block)),
        ((300, 1100, 256, QuantBlock::B128), fp8(Token)),
        // Several slices along K, beside which x is dequantized.
        ((289, 520, 600, QuantBlock::B128), fp8(Token)),
        // A matmul that is left over, cut along K.
        ((289, 256, 690, QuantBlock::B128), fp8(Token)),
        ((150, 200, 700, QuantBlock::B128), fp8(Block)),
        ((202, 256, 690, QuantBlock::B128), ActivationKind::Plain(FloatKind::Bf16)),
    ] {
        let (m, n, k, quant_block) = shape;
        check_strips(problem(m, n, k, quant_block).with_x(kind).with_out(FloatKind::Bf16));
    }
}

/// Kernels that assign matmuls to MXUs: ragged rows, columns and k-blocks, one and several steps, a pair of
/// chunks that is cut along K, and more pairs than stages or than results in VMEM.
#[test]
fn strips_that_assign_matmuls_to_mxus() {
    use ScaleGranularity::{Block, Token};
    for (shape, scales) in [
        ((300, 1100, 1100), Token),
        ((300, 1100, 1100), Block),
        ((527, 1508, 700), Block),
        ((200, 3300, 1300), Token),
        ((144, 11_000, 512), Token),
        ((600, 3600, 512), Token),
        ((600, 2300, 384), Token),
        ((1050, 1030, 901), Token),
    ] {
        let (m, n, k) = shape;
        let kind = ActivationKind::Fp8(scales);
        let problem = problem(m, n, k, QuantBlock::B128).with_x(kind).with_out(FloatKind::Bf16);
        check_plans(problem, |plan| plan.mxu_pipeline.is_some());
    }
}

/// A rest of few columns, each MXU's half of which is one slice long, and no room for two pairs in turns: the
/// next pair must not take its buffer.
#[test]
fn a_short_rest_keeps_its_weights() {
    let chip = TpuChip::named("tpu7x").expect("the chip is known");
    let problem = problem(512, 22_200, 512, QuantBlock::B128);
    let problem = problem.with_x(ActivationKind::Fp8(ScaleGranularity::Token));
    let tile = Dims { m: 512, n: 22_272, k: 512 };
    let plan = TpuPlan::with_tile(&problem, chip, Strategy::Strip, BlockMode::Auto, tile);
    let plan = plan.expect("the chip takes it");
    assert_eq!(plan.mxu_pipeline.map(|pipeline| pipeline.beside), Some(1));
    let exact = ExactOperands::new(problem, 0, 7);
    let outcome = run(&module(&plan), &exact.operands);
    assert_eq!(outcome.findings, []);
    assert_eq!(exact.compare(&outcome.outputs[0].to_f32()).wrong, 0);
}

/// Simulates every candidate of the strip strategy.
fn check_strips(problem: Problem) {
    check_plans(problem, |plan| plan.weight_pipeline.is_some() || plan.row_pipeline.is_some());
}

/// Simulates every candidate of the strip strategy that is of one kind, of which there must be one.
fn check_plans(problem: Problem, is_of_kind: impl Fn(&TpuPlan) -> bool) {
    let chip = TpuChip::named("tpu7x").expect("the chip is known");
    let operands = Operands::random(problem, 7);
    let exact = ExactOperands::new(problem, 0, 7);
    let mut plans = TpuPlan::candidates(&problem, chip, Strategy::Strip);
    plans.retain(is_of_kind);
    assert!(!plans.is_empty(), "{problem}");
    for plan in plans {
        println!("{problem} {} tile {}", problem.x, plan.tile);
        let name = format!("{problem} {} tile {}", problem.x, plan.tile);
        let outcome = run(&module(&plan), &operands);
        assert_eq!(outcome.findings, [], "{name}");
        assert_eq!(verify(&emit(&plan).mosaic, plan.chip), [], "{name}");
        let comparison = compare(&plan, &outcome, &operands);
        assert!(comparison.passed(), "{name}: {comparison:?}");
        let outcome = run(&module(&plan), &exact.operands);
        let comparison = exact.compare(&outcome.outputs[0].to_f32());
        assert_eq!(comparison.wrong, 0, "{name}: {comparison:?}");
    }
}

#[test]
fn the_small_standard_shape() {
    assert_eq!(check(problem(512, 512, 512, QuantBlock::B128)), 8);
}
