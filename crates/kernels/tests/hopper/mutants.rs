//! Mutants with one synchronization instruction deleted: the simulator must detect every deletion.

use octile_core::{
    ActivationKind, FloatKind, Problem, ScaleGranularity, Strategy,
    plan::hopper::{Arguments, ClusterMode, GpuTile, HopperPlan, ResultPath, TileConfig},
    sample::Operands,
};
use octile_kernels::hopper;
use octile_ptx::simulate::{SimulatedMatmul, Simulator};

use crate::{GPU, is_right, problem, product_of, run, text::Text};

/// Synchronization instructions.
const SYNCHRONIZATION: [&str; 15] = [
    "griddepcontrol.wait",
    "mbarrier.init",
    "mbarrier.arrive",
    "mbarrier.try_wait",
    "cp.async.mbarrier",
    "cp.async.bulk.wait",
    "cp.async.bulk.commit",
    "wgmma.fence",
    "wgmma.commit_group",
    "wgmma.wait_group",
    "fence.proxy.async",
    "fence.mbarrier_init",
    "bar.sync",
    "bar.warp.sync",
    "barrier.",
];

/// The warp barrier.
const WARP_BARRIER: &str = "bar.warp.sync";

/// Schedules to try.
const SEEDS: [u64; 3] = [1, 2, 3];

/// The executed lines of an unmodified kernel.
pub(crate) fn executed_lines(plan: &HopperPlan, multiply: &str, operands: &Operands) -> Vec<usize> {
    let machine = Simulator { gpu: &GPU, resident_ctas: 4, seed: 1 };
    let sound = product_of(plan, multiply).run(
        operands,
        Arguments::fastest(&plan.problem).with_constant_weight(),
        machine,
    );
    sound.unwrap_or_else(|fault| panic!("{fault}")).1.lines
}

/// Whether a mutant faults or gives a wrong result under at least one schedule.
pub(crate) fn is_detected(plan: &HopperPlan, multiply: &str, operands: &Operands) -> bool {
    is_wrong(plan, &product_of(plan, multiply), operands)
}

fn is_wrong(plan: &HopperPlan, product: &SimulatedMatmul, operands: &Operands) -> bool {
    SEEDS.iter().any(|&seed| match run(product, operands, seed) {
        Ok(bytes) => !is_right(plan, operands, &bytes),
        Err(_) => true,
    })
}

/// Deletes each executed synchronization instruction, at least `at_least` of them, one at a time, and returns
/// those whose absence goes undetected. K must be long enough for the pipeline to wrap.
fn undetected(plan: &HopperPlan, at_least: usize) -> Vec<String> {
    let kernel = hopper::multiply(plan);
    let operands = Operands::random(plan.problem, 13);
    let text = Text::new(&kernel.ptx);
    let is_needed = |line: usize| SYNCHRONIZATION.iter().any(|start| text.0[line - 1].starts_with(start));
    let executed = executed_lines(plan, &kernel.ptx, &operands);
    let removed: Vec<usize> = executed.into_iter().filter(|&line| is_needed(line)).collect();
    assert!(removed.len() >= at_least, "{}: only {} lines to remove", kernel.entry, removed.len());
    let is_missed = |line: usize| is_detected(plan, &text.with(line - 1, ""), &operands);
    let undetected = removed.into_iter().filter(|&line| !is_missed(line));
    undetected.map(|line| text.0[line - 1].split([' ', ';']).next().unwrap_or_default().to_owned()).collect()
}

/// The default plan; of `strip` one with tiles of so many columns, whatever the model prefers.
fn plan_of(problem: &Problem, strategy: Strategy, columns: usize) -> HopperPlan {
    let tile = GpuTile { a: 128, b: columns };
    let shape = TileConfig { tile, swapped: false, cluster: ClusterMode::Single };
    match strategy {
        Strategy::Strip => HopperPlan::new(problem, &GPU, strategy, shape, None),
        _ => HopperPlan::best(problem, &GPU, strategy),
    }
    .expect("it has a plan")
}

#[test]
fn initial_values_of_registers() {
    let problem = problem(300, 264, 900);
    // `auto` also zeroes rows beyond the matrix, and some tiles have none.
    for strategy in [Strategy::Dma, Strategy::Smem, Strategy::Strip] {
        let plan = plan_of(&problem, strategy, 32);
        let kernel = hopper::multiply(&plan);
        let operands = Operands::random(problem, 13);
        let text = Text::new(&kernel.ptx);
        let executed = executed_lines(&plan, &kernel.ptx, &operands);
        // `mov.b32 %r1, 0;`, the register's first use.
        let is_first_value = |&line: &usize| {
            let zero = text.0[line - 1].strip_prefix("mov.b32 ").and_then(|rest| rest.strip_suffix(" 0;"));
            let is_new = |register: &str| !text.0[..line - 1].iter().any(|before| before.contains(register));
            zero.is_some_and(is_new)
        };
        let zeros: Vec<usize> = executed.into_iter().filter(is_first_value).collect();
        assert!(zeros.len() > 4, "{}: only {zeros:?}", kernel.entry);
        let is_missed = |line: &&usize| is_detected(&plan, &text.with(*line - 1, ""), &operands);
        let spared: Vec<&usize> = zeros.iter().filter(|line| !is_missed(line)).collect();
        // The producer's pipeline state: it is set again after the prefill.
        assert_eq!(spared.len(), 2, "{}: {spared:?} of {zeros:?}", kernel.entry);
    }
}

#[test]
fn each_strategy() {
    let problem = problem(140, 136, 1200);
    for strategy in Strategy::ALL {
        let plan = plan_of(&problem, strategy, 96);
        let spared = match strategy {
            // Only wgmma read shared memory here, so the warp barriers before a release order nothing.
            Strategy::Dma => vec![WARP_BARRIER; 2],
            Strategy::Auto | Strategy::Smem => vec![],
            // The same where stages overlap, because they were read long before: two barriers in the loop,
            // and one where the last stage, into which nothing is loaded any more, is released. Then the line
            // epilogue: the barrier after the last subtile, because others follow before the next tile's.
            Strategy::Strip => {
                vec![WARP_BARRIER, WARP_BARRIER, "mbarrier.arrive.shared::cta.b64", WARP_BARRIER]
            }
        };
        assert_eq!(undetected(&plan, 4), spared, "{strategy}");
    }
}

#[test]
fn scales_copied_in_bulk() {
    let problem = problem(70, 40, 5200);
    let plan = plan_of(&problem, Strategy::Strip, 32);
    assert!(plan.copies_scales_in_bulk());
    // The barrier that keeps lanes together between stages: they never drift far enough apart here.
    assert_eq!(undetected(&plan, 4), [WARP_BARRIER]);
}

#[test]
fn multicast() {
    // Results by wave are those of a CTA's only tile; nothing is loaded into its last stage after the
    // release.
    let last_stage = ["barrier.cta.sync.aligned", "mbarrier.arrive.shared::cluster.b64"];
    // Results by producer are stored by a warp that itself waited for the preceding kernel; nobody waits for
    // the staging buffer of the last tile.
    let last_tile = ["griddepcontrol.wait", "mbarrier.arrive.shared::cta.b64"];
    for (n, tile, cluster, spared) in [
        (264, GpuTile { a: 256, b: 128 }, ClusterMode::MulticastA, &last_tile[..]),
        (136, GpuTile { a: 256, b: 128 }, ClusterMode::MulticastA, &last_stage),
        // Lines, and elements of rows that are not aligned, as above.
        (264, GpuTile { a: 192, b: 96 }, ClusterMode::MulticastA, &[WARP_BARRIER]),
        (262, GpuTile { a: 192, b: 96 }, ClusterMode::MulticastA, &[WARP_BARRIER]),
        // Overlapping stages, as above.
        (264, GpuTile { a: 128, b: 128 }, ClusterMode::MulticastB, &[WARP_BARRIER; 2]),
    ] {
        let problem = problem(260, n, 900);
        let shape = TileConfig { tile, swapped: false, cluster };
        let plan = HopperPlan::new(&problem, &GPU, Strategy::Strip, shape, Some(3)).expect("it has a plan");
        assert_eq!(undetected(&plan, 20), spared, "{n} {tile:?}");
    }
}

#[test]
fn tma_stores_by_the_producer() {
    // Four or five tiles for each CTA, with so few stages each that several staging buffers are handed back
    // at the end.
    let shape = TileConfig { tile: GpuTile { a: 256, b: 128 }, swapped: false, cluster: ClusterMode::Single };
    for k in [130, 600] {
        let plan = HopperPlan::new(&problem(600, 704, k), &GPU, Strategy::Strip, shape, Some(3))
            .expect("it has a plan");
        assert_eq!(plan.result_path, ResultPath::TmaStoreByProducer);
        // As above.
        assert_eq!(undetected(&plan, 20), ["griddepcontrol.wait"], "{k}");
    }
}

#[test]
fn swapped_operands() {
    // An odd number of overlapping stages.
    let shape = TileConfig { tile: GpuTile { a: 64, b: 16 }, swapped: true, cluster: ClusterMode::Single };
    let plan = HopperPlan::new(&problem(16, 130, 1100), &GPU, Strategy::Strip, shape, Some(3))
        .expect("it has a plan");
    assert!(plan.overlaps_stages && plan.k_blocks() == 9);
    // Nothing is loaded into the last stage after its release.
    assert_eq!(undetected(&plan, 10), [WARP_BARRIER, "mbarrier.arrive.shared::cta.b64"]);
}

#[test]
fn split_k() {
    let problem = problem(20, 130, 1800);
    let shape = TileConfig { tile: GpuTile { a: 64, b: 32 }, swapped: true, cluster: ClusterMode::SplitK(2) };
    let plan = HopperPlan::new(&problem, &GPU, Strategy::Strip, shape, Some(3)).expect("it has a plan");
    // Exited threads count as arrived, and the producers exit after this.
    assert_eq!(undetected(&plan, 15), ["barrier.cluster.arrive.release"]);
}

#[test]
fn split_tails() {
    let tile = GpuTile { a: 64, b: 128 };
    let shape = TileConfig { tile, swapped: false, cluster: ClusterMode::SplitTail };
    // Overlapping stages, as above, and producers that exit.
    let last_stage = "mbarrier.arrive.shared::cta.b64";
    let spared = [WARP_BARRIER, WARP_BARRIER, WARP_BARRIER, last_stage, "barrier.cluster.arrive.release"];
    // Behind two full waves one cluster shares a tile, or both do.
    for (m, n, shared) in [(140, 300, 1), (300, 200, 2)] {
        let plan = HopperPlan::new(&problem(m, n, 1800), &GPU, Strategy::Strip, shape, Some(3))
            .expect("it has a plan");
        assert_eq!(plan.shared_tiles(), shared);
        assert_eq!(undetected(&plan, 15), spared, "{shared}");
    }
}

#[test]
fn quantization() {
    let x = ActivationKind::Quantized(FloatKind::Bf16, ScaleGranularity::Block);
    let plan =
        HopperPlan::best(&problem(140, 136, 300).with_x(x), &GPU, Strategy::Strip).expect("it has a plan");
    let (quantize, launch) = hopper::quantize_for(&plan.problem).expect("x is quantized");
    let (multiply, operands) = (hopper::multiply(&plan).ptx, Operands::random(plan.problem, 13));
    let text = Text::new(&quantize.ptx);
    let is_needed = |line: &&str| SYNCHRONIZATION.iter().any(|start| line.starts_with(start));
    assert_eq!(text.0.iter().copied().filter(is_needed).count(), 3);
    for at in (0..text.0.len()).filter(|&at| is_needed(&text.0[at])) {
        let product = SimulatedMatmul::new(&plan, &multiply, Some((&text.with(at, ""), launch)))
            .expect("it can be read");
        assert!(is_wrong(&plan, &product, &operands), "undetected without {}", text.0[at]);
    }
}
