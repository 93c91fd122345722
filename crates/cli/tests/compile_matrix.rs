//! The real TPU compiler accepts every planned kernel. Tests a sample by default, and the full matrix with
//! `OCTILE_COMPILE_MATRIX=full`.

mod common;

use octile_core::{
    ActivationKind, FloatKind, Problem, QuantBlock, ScaleGranularity, Strategy,
    device::tpu::TpuChip,
    plan::tpu::{BlockMode, TpuPlan},
};
use octile_kernels::{reference, tpu::emit};
use octile_runtime::pjrt::compile::{Compiler, Module, Target};

const FP8: ActivationKind = ActivationKind::Fp8(ScaleGranularity::Block);
const TOKEN: ActivationKind = ActivationKind::Fp8(ScaleGranularity::Token);
const QUANTIZED: ActivationKind = ActivationKind::Quantized(FloatKind::Bf16, ScaleGranularity::Block);
const PLAIN: ActivationKind = ActivationKind::Plain(FloatKind::Bf16);

/// M, N and K.
type Shape = (usize, usize, usize);

const SHAPES: [Shape; 5] =
    [(512, 512, 512), (1000, 1111, 1500), (16, 1024, 1024), (1536, 1536, 1536), (1, 1024, 1024)];

/// Every combination of strategy, mode and activations: on all shapes and block sizes, or on one each,
/// round-robin.
fn cases(kinds: &[ActivationKind]) -> Vec<(Problem, Strategy, BlockMode)> {
    let full = std::env::var("OCTILE_COMPILE_MATRIX").is_ok_and(|value| value == "full");
    let shapes: Vec<_> = SHAPES.iter().flat_map(|shape| QuantBlock::ALL.map(|qb| (*shape, qb))).collect();
    let kernels = Strategy::ALL.into_iter().flat_map(|strategy| BlockMode::ALL.map(|mode| (strategy, mode)));
    let kernels = kernels.flat_map(|kernel| kinds.iter().map(move |x| (kernel, *x)));
    let mut cases = Vec::new();
    // A step coprime to the number of shapes visits all of them, dissimilar ones first.
    for (index, ((strategy, mode), x)) in kernels.enumerate() {
        let chosen = if full { shapes.clone() } else { vec![shapes[index * 7 % shapes.len()]] };
        cases.extend(chosen.into_iter().map(|((m, n, k), qb)| {
            let problem = Problem::new(m, n, k, qb).expect("the shape is valid").with_x(x);
            (problem, strategy, mode)
        }));
    }
    cases
}

/// Plans for the chip, and the reasons why others are impossible.
fn plans(chip: &'static TpuChip, kinds: &[ActivationKind]) -> (Vec<TpuPlan>, Vec<String>) {
    let (mut plans, mut refused) = (Vec::new(), Vec::new());
    for (problem, strategy, mode) in cases(kinds) {
        match TpuPlan::new(&problem, chip, strategy, mode) {
            Ok(plan) => plans.push(plan),
            Err(error) => refused.push(format!("{problem} {} {strategy} {mode}: {error}", problem.x)),
        }
    }
    (plans, refused)
}

fn name(plan: &TpuPlan) -> String {
    format!(
        "{} {} {} on {} with x {}",
        plan.problem, plan.strategy, plan.mode, plan.chip.name, plan.problem.x
    )
}

/// Compiles modules, all of which must be accepted.
fn accept(chip: &TpuChip, modules: &[Module]) {
    let compiler = Compiler {
        plugin: common::libtpu(),
        child: vec![env!("CARGO_BIN_EXE_octile").into(), "compile-child".into()],
    };
    let outcomes = compiler.compile_all(&Target::named(chip.topology), modules).expect("the compiler starts");
    assert_eq!(outcomes.len(), modules.len());
    let failures: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    let report: String = failures.iter().map(|failure| format!("{failure}\n")).collect();
    assert!(failures.is_empty(), "{} modules do not compile:\n{report}", failures.len());
}

fn compile_all(chip: &str, kinds: &[ActivationKind]) {
    let chip = TpuChip::named(chip).expect("the chip is known");
    let (plans, refused) = plans(chip, kinds);
    let modules: Vec<Module> =
        plans.iter().map(|plan| Module::new(name(plan), emit(plan).stablehlo.to_string())).collect();
    accept(chip, &modules);
    println!("{}: {} compiled, {} refused by plan", chip.name, plans.len(), refused.len());
    println!("{}", refused.join("\n"));
    assert!(plans.len() > refused.len(), "most kernels should be admitted");
}

#[test]
fn tpu7x() {
    compile_all("tpu7x", &[FP8, TOKEN, QUANTIZED, PLAIN]);
}

#[test]
fn v6e() {
    compile_all("v6e", &[FP8]);
}

#[test]
fn v5e() {
    compile_all("v5e", &[FP8]);
}

#[test]
fn v5p() {
    compile_all("v5p", &[FP8]);
}

/// The plain StableHLO reference compiles, too.
#[test]
fn the_reference() {
    let chip = TpuChip::named("tpu7x").expect("the chip is known");
    let problem = Problem::new(130, 257, 384, QuantBlock::B128).expect("the shape is valid");
    let module = |x: &ActivationKind| {
        let problem = problem.with_x(*x).with_out(FloatKind::Bf16);
        Module::new(format!("reference with x {x}"), reference::stablehlo(&problem).to_string())
    };
    accept(chip, &[FP8, TOKEN, QUANTIZED, PLAIN].iter().map(module).collect::<Vec<_>>());
}
