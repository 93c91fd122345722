//! The VMEM of a plan's memory map is what the real TPU compiler allocates.
//!
//! The compiler states its figure when it rejects a kernel, so these kernels may use 1 KiB. Only kernels that
//! declare their buffers themselves are compared, with several grid steps: the compiler removes what a single
//! step does not need.

mod common;

use octile_core::{
    ActivationKind, FloatKind, Problem, ScaleGranularity, Strategy,
    device::tpu::TpuChip,
    plan::{
        MemorySpace,
        tpu::{BlockMode, TpuPlan},
    },
};
use octile_kernels::tpu::emit;
use octile_runtime::pjrt::compile::{Compiler, Module, Target};

const BLOCK: ActivationKind = ActivationKind::Fp8(ScaleGranularity::Block);
const TOKEN: ActivationKind = ActivationKind::Fp8(ScaleGranularity::Token);
const QUANTIZED: ActivationKind = ActivationKind::Quantized(FloatKind::Bf16, ScaleGranularity::Token);

/// Bytes as the compiler writes them.
fn size(bytes: usize) -> String {
    let kib = bytes as f64 / 1024.0;
    if kib < 1024.0 { format!("{kib:.1}K") } else { format!("{:.2}M", kib / 1024.0) }
}

#[test]
fn memory_maps_add_up_to_the_compilers_figures() {
    let chip = TpuChip::named("tpu7x").unwrap();
    let aligned = [Strategy::Dma, Strategy::Smem].map(|strategy| (strategy, BlockMode::Aligned));
    let pipelined = [(Strategy::Strip, BlockMode::Large)];
    let cases = [
        ("16x512x512:128", QUANTIZED, &aligned[..]),
        ("16x512x1536:128", TOKEN, &aligned),
        ("300x384x640:128", QUANTIZED, &aligned),
        ("100x256x512:256", BLOCK, &aligned),
        ("16x24576x1536:128", TOKEN, &pipelined),
    ];
    let mut plans = Vec::new();
    for (shape, x, kernels) in cases {
        let problem = shape.parse::<Problem>().unwrap().with_x(x);
        for &(strategy, mode) in kernels {
            let mut plan = TpuPlan::new(&problem, chip, strategy, mode).unwrap();
            assert!(plan.steps() > 1, "{shape}: {strategy} has a single grid step");
            plan.vmem_limit = 1024;
            plans.push(plan);
        }
    }
    let module = |plan: &TpuPlan| {
        let name = format!("{} {} {}", plan.problem, plan.problem.x, plan.strategy);
        Module::new(name, emit(plan).stablehlo.to_string())
    };
    let compiler = Compiler {
        plugin: common::libtpu(),
        child: vec![env!("CARGO_BIN_EXE_octile").into(), "compile-child".into()],
    };
    let modules: Vec<Module> = plans.iter().map(module).collect();
    let outcomes = compiler.compile_all(&Target::named(chip.topology), &modules).unwrap();
    for (plan, outcome) in plans.iter().zip(outcomes) {
        let error = outcome.expect_err("1 KiB is too little").to_string();
        let planned = format!("size {} and limit 1.0K", size(plan.memory.total(MemorySpace::Vmem)));
        assert!(error.contains(&planned), "planned {planned}: {error}");
    }
}
