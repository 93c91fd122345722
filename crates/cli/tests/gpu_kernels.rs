//! Every planned GPU kernel assembles for `sm_90a`: no spills, wgmma on the tensor cores, and TMA and
//! mbarriers exactly where the strategy uses them.

#[path = "common/gpu_tools.rs"]
mod gpu_tools;

use std::collections::BTreeMap;

use octile_core::{
    ActivationKind, FloatKind, Problem, QuantBlock, ScaleGranularity, Strategy,
    device::hopper::HOPPER_GPUS,
    plan::{
        PlanError,
        hopper::{
            ClusterMode, GpuTile, HopperPlan, PROMOTIONS, QuantizePlan, QuantizeTuning, ResultPath,
            TileConfig, candidates,
        },
    },
};
use octile_dump::{
    checks::{CheckId, Verdict},
    facts::{Facts, Source},
    gpu::{AssemblerReport, Code},
};
use octile_kernels::hopper::{self, Kernel};

/// ptxas figures of a kernel, and the count of each mnemonic in its machine code.
struct Assembled {
    registers: u64,
    mnemonics: BTreeMap<String, usize>,
}

fn assemble(kernel: &Kernel) -> Assembled {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("kernel.ptx"), &kernel.ptx).unwrap();
    let assembled = gpu_tools::assembler().assemble(folder.path(), "kernel.ptx", "kernel.cubin").unwrap();
    let entry = &kernel.entry;
    assert!(!assembled.report.contains("Potential Performance Loss"), "{entry}: {}", assembled.report);
    let report = AssemblerReport::parse(&assembled.report).expect("ptxas reports registers");
    assert_eq!((report.stack, report.spill_stores, report.spill_loads), (0, 0, 0), "{entry}");
    let code = Code::parse_sass(&assembled.sass);
    assert_eq!(code.damage(), [], "{entry}");
    let files = [("kernel.ptx", &kernel.ptx), ("kernel.sass", &assembled.sass)];
    let facts = Facts::gather(&files.map(|(name, text)| Source { name, bytes: text.as_bytes() }));
    assert_eq!(
        (&facts.invalid[..], &facts.unexecuted[..], &facts.conflicts[..]),
        (&[][..], &[][..], &[][..]),
        "{entry}"
    );
    assert_eq!((&facts.conditional[..], &facts.unaccounted[..]), (&[][..], &[][..]), "{entry}");
    for finding in octile_dump::checks::check(&facts, None) {
        let is_product = matches!(finding.check, CheckId::NativeFp8 | CheckId::NoF32Matmul);
        assert!(!is_product || finding.verdict != Verdict::Fail, "{entry}: {finding:?}");
    }
    let mnemonics = code.mnemonics().into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    Assembled { registers: report.registers, mnemonics }
}

fn problem(m: usize, n: usize, k: usize) -> Problem {
    let x = ActivationKind::Fp8(ScaleGranularity::Token);
    Problem::new(m, n, k, QuantBlock::B128).unwrap().with_x(x).with_out(FloatKind::Bf16)
}

/// Checks a kernel against its plan.
fn check(plan: &HopperPlan) {
    let kernel = hopper::multiply(plan);
    let Assembled { registers, mnemonics } = assemble(&kernel);
    let count = |name: &str| mnemonics.get(name).copied().unwrap_or(0);
    let entry = &kernel.entry;
    let ring = plan.strategy != Strategy::Auto;
    let staged = matches!(plan.strategy, Strategy::Smem | Strategy::Strip);
    // Four steps along K in every wave, in every copy of the loop's body: those of a turn in every loop, and
    // one more. That is for the first stage, where its products become the sums or are started before the
    // loop, or for the last, where results of other waves leave meanwhile.
    let loops = if plan.has_loop_per_boundary() { plan.boundaries().len() } else { 1 };
    let one_more = usize::from(staged && plan.stages_per_chain() == 1);
    let copies = if ring { one_more + loops * plan.loop_unroll() } else { 1 };
    assert_eq!(count("QGMMA"), 4 * plan.waves() * copies, "{entry}");
    assert_eq!(count("UTMALDG") > 0, ring, "{entry}");
    assert_eq!(count("SYNCS") > 0, ring, "{entry}");
    assert_eq!(count("UTMASTG") > 0, plan.result_path.uses_tma_store(), "{entry}");
    assert_eq!(count("LDGSTS") > 0, staged, "{entry}: scales travel in the ring");
    assert_eq!(count("LDL") + count("STL"), 0, "{entry}");
    let hands_over = ring && plan.consumers > 1;
    assert_eq!(count("USETMAXREG"), if hands_over { 2 } else { 0 }, "{entry}");
    // All resident blocks start with registers for every thread.
    assert!(registers as usize * plan.threads() * plan.blocks_per_sm <= 65_536, "{entry}: {registers}");
    let splits = matches!(plan.shape.cluster, ClusterMode::SplitK(_));
    assert!(!splits || count("UCGABAR_ARV") + count("UCGABAR_WAIT") > 0, "{entry}");
}

#[test]
fn the_plain_strategies_are_what_they_say() {
    for strategy in [Strategy::Auto, Strategy::Dma, Strategy::Smem] {
        for (n, out) in [(512, FloatKind::Bf16), (511, FloatKind::F16), (512, FloatKind::F32)] {
            let problem = problem(512, n, 520 + n % 2).with_out(out);
            check(&HopperPlan::best(&problem, &HOPPER_GPUS[1], strategy).unwrap());
        }
    }
}

#[test]
fn every_shape_of_strip_assembles() {
    for m in [1, 16, 30, 64, 128, 4096] {
        let problem = problem(m, 8192, 2048);
        for shape in candidates(&problem) {
            match HopperPlan::new(&problem, &HOPPER_GPUS[1], Strategy::Strip, shape, None) {
                Ok(plan) => check(&plan),
                // Tiles that fill whole waves leave none to share.
                Err(PlanError::NoTail { .. }) => {}
                Err(error) => panic!("{shape}: {error}"),
            }
        }
    }
}

#[test]
fn a_tile_of_two_waves_leaves_piece_by_piece() {
    let plan = HopperPlan::best(&problem(2048, 2048, 2048), &HOPPER_GPUS[1], Strategy::Strip).unwrap();
    assert_eq!((plan.result_path, plan.waves()), (ResultPath::TmaStoreByWave, 2));
    check(&plan);
    check(&plan.for_racecheck());
}

#[test]
fn kernels_for_racecheck_assemble() {
    for (m, n, k) in [(16, 1024, 4096), (130, 300, 1000), (4096, 2112, 7168), (4096, 4096, 4096)] {
        let plan = HopperPlan::best(&problem(m, n, k), &HOPPER_GPUS[1], Strategy::Strip).unwrap();
        check(&plan.for_racecheck());
    }
}

#[test]
fn short_work_and_scales_of_blocks_assemble() {
    for granularity in [ScaleGranularity::Token, ScaleGranularity::Block] {
        for (m, n) in [(16, 1024), (64, 8192), (64, 24_576), (1000, 999), (4096, 4096)] {
            let problem = problem(m, n, 1000).with_x(ActivationKind::Fp8(granularity));
            check(&HopperPlan::best(&problem, &HOPPER_GPUS[1], Strategy::Strip).unwrap());
        }
        let large = problem(4096, 4096, 4096).with_x(ActivationKind::Fp8(granularity));
        for strategy in [Strategy::Smem, Strategy::Strip] {
            check(&HopperPlan::best(&large, &HOPPER_GPUS[1], strategy).unwrap());
        }
    }
}

#[test]
fn weights_of_many_tiles_assemble() {
    for m in [1, 32] {
        let tile = GpuTile { a: 128, b: usize::next_multiple_of(m, 8) };
        let shape = TileConfig { tile, swapped: true, cluster: ClusterMode::Single };
        let problem = problem(m, 24_576, 1536);
        let plan = HopperPlan::new(&problem, &HOPPER_GPUS[1], Strategy::Strip, shape, None).unwrap();
        assert_eq!((plan.consumers, plan.blocks_per_sm), (2, 2));
        check(&plan);
    }
}

#[test]
fn large_weights_pass_through_the_cache() {
    for (m, k, passes) in [(16, 16_384, true), (64, 16_384, true), (64, 2048, false), (4096, 16_384, false)] {
        let plan = HopperPlan::best(&problem(m, 7168, k), &HOPPER_GPUS[1], Strategy::Strip).unwrap();
        let kernel = hopper::multiply(&plan);
        assert_eq!(
            kernel.ptx.contains("createpolicy.fractional.L2::evict_first"),
            passes,
            "{}",
            kernel.entry
        );
        assert_eq!(kernel.ptx.contains(".L2::cache_hint"), passes, "{}", kernel.entry);
        check(&plan);
    }
}

#[test]
fn every_length_of_chains_assembles() {
    for (m, strategy) in [(16, Strategy::Strip), (1024, Strategy::Strip), (512, Strategy::Dma)] {
        for every in PROMOTIONS {
            let problem = Problem::new(m, 1024, 2048, QuantBlock::B512).unwrap();
            check(&HopperPlan::with_promotion(&problem, &HOPPER_GPUS[1], strategy, every).unwrap());
        }
    }
}

#[test]
fn every_quantizing_kernel_assembles() {
    for kind in [FloatKind::F32, FloatKind::Bf16, FloatKind::F16] {
        for granularity in [ScaleGranularity::Token, ScaleGranularity::Block] {
            for quant_block in QuantBlock::ALL {
                for vectors in [true, false] {
                    let tuning = QuantizeTuning::BEST;
                    let plan = QuantizePlan { kind, granularity, quant_block, vectors, tuning };
                    let kernel = hopper::quantize(&plan);
                    let assembled = assemble(&kernel);
                    assert!(assembled.mnemonics.contains_key("F2FP"), "{}", kernel.entry);
                    assert!(assembled.registers <= 64, "{}", kernel.entry);
                }
            }
        }
    }
}

#[test]
fn the_peak_is_products_alone() {
    let assembled = assemble(&hopper::peak().kernel);
    assert!(assembled.mnemonics["QGMMA"] >= 8);
    assert!(!assembled.mnemonics.contains_key("FFMA"));
}
