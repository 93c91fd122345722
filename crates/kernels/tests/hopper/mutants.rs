//! Kernels in which one line of synchronization is missing: each must be found out.

use octile_core::{
    ActivationKind, FloatKind, ScaleGranularity, Strategy,
    plan::hopper::{Arguments, ClusterMode, GpuTile, HopperPlan, ResultPath, TileConfig},
    sample::Operands,
};
use octile_kernels::hopper;
use octile_ptx::{Machine, Product};

use crate::{GPU, is_right, problem, product_of, run, text::Text};

/// What a right kernel cannot do without.
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

/// Where the lanes of a warp meet.
const WARP_BARRIER: &str = "bar.warp.sync";

/// Orders of events to try.
const SEEDS: [u64; 3] = [1, 2, 3];

/// The lines of a right kernel that are executed.
pub fn executed_lines(plan: &HopperPlan, multiply: &str, operands: &Operands) -> Vec<usize> {
    let machine = Machine { gpu: &GPU, resident_blocks: 4, seed: 1 };
    let sound = product_of(plan, multiply).run(
        operands,
        Arguments::fastest(&plan.problem).with_constant_weight(),
        machine,
    );
    sound.unwrap_or_else(|fault| panic!("{fault}")).1.lines
}

/// Whether a wrong kernel stops or gives a wrong result, in one order of events at least.
pub fn is_found_out(plan: &HopperPlan, multiply: &str, operands: &Operands) -> bool {
    is_wrong(plan, &product_of(plan, multiply), operands)
}

fn is_wrong(plan: &HopperPlan, product: &Product, operands: &Operands) -> bool {
    SEEDS.iter().any(|&seed| match run(product, operands, seed) {
        Ok(bytes) => !is_right(plan, operands, &bytes),
        Err(_) => true,
    })
}

/// Removes every line of synchronization that is executed, at least so many, one at a time; gives the names
/// of those that no one misses. The problem must be so deep that the ring of stages comes around.
fn not_missed(plan: &HopperPlan, at_least: usize) -> Vec<String> {
    let kernel = hopper::multiply(plan);
    let operands = Operands::random(plan.problem, 13);
    let text = Text::new(&kernel.ptx);
    let is_needed = |line: usize| SYNCHRONIZATION.iter().any(|start| text.0[line - 1].starts_with(start));
    let executed = executed_lines(plan, &kernel.ptx, &operands);
    let removed: Vec<usize> = executed.into_iter().filter(|&line| is_needed(line)).collect();
    assert!(removed.len() >= at_least, "{}: only {} lines to remove", kernel.entry, removed.len());
    let is_missed = |line: usize| is_found_out(plan, &text.with(line - 1, ""), &operands);
    let not_missed = removed.into_iter().filter(|&line| !is_missed(line));
    not_missed.map(|line| text.0[line - 1].split([' ', ';']).next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn first_values_of_registers() {
    let problem = problem(300, 264, 900);
    // `auto` has zeros for rows beyond the last as well, of which some tiles have none.
    for strategy in [Strategy::Dma, Strategy::Smem, Strategy::Strip] {
        let plan = HopperPlan::best(&problem, &GPU, strategy).expect("it has a plan");
        let kernel = hopper::multiply(&plan);
        let operands = Operands::random(problem, 13);
        let text = Text::new(&kernel.ptx);
        let executed = executed_lines(&plan, &kernel.ptx, &operands);
        // `mov.b32 %r1, 0;`, before anything else is done with the register.
        let is_first_value = |&line: &usize| {
            let zero = text.0[line - 1].strip_prefix("mov.b32 ").and_then(|rest| rest.strip_suffix(" 0;"));
            let is_new = |register: &str| !text.0[..line - 1].iter().any(|before| before.contains(register));
            zero.is_some_and(is_new)
        };
        let zeros: Vec<usize> = executed.into_iter().filter(is_first_value).collect();
        assert!(zeros.len() > 4, "{}: only {zeros:?}", kernel.entry);
        let is_missed = |line: &&usize| is_found_out(&plan, &text.with(*line - 1, ""), &operands);
        let spared: Vec<&usize> = zeros.iter().filter(|line| !is_missed(line)).collect();
        // The fetching warp's place in the ring: it is set anew when the ring was filled for the first time.
        assert_eq!(spared.len(), 2, "{}: {spared:?} of {zeros:?}", kernel.entry);
    }
}

#[test]
fn each_strategy() {
    let problem = problem(140, 136, 1200);
    for strategy in Strategy::ALL {
        let plan = HopperPlan::best(&problem, &GPU, strategy).expect("it has a plan");
        let spared = match strategy {
            // Here no thread reads shared memory itself: the barriers before a stage is handed back are for
            // the assembler.
            Strategy::Dma => vec![WARP_BARRIER; 2],
            Strategy::Auto | Strategy::Smem => vec![],
            // The same where stages overlap, which were read long before: two barriers in the loop, and where
            // the last stage is handed back, which has no one to fetch into it. Then lines of results: the
            // barrier after the last piece, because others follow before the next tile's.
            Strategy::Strip => {
                vec![WARP_BARRIER, WARP_BARRIER, "mbarrier.arrive.shared::cta.b64", WARP_BARRIER]
            }
        };
        assert_eq!(not_missed(&plan, 4), spared, "{strategy}");
    }
}

#[test]
fn clusters_that_share_operands() {
    // Results wave by wave leave a block's only tile, whose last stage is handed back to no one.
    let last_stage = ["barrier.cta.sync.aligned", "mbarrier.arrive.shared::cluster.b64"];
    // Where results leave stage by stage the fetching warp has them stored, which has waited for the kernel
    // before itself; the place of the last tile is given back to no one.
    let last_tile = ["griddepcontrol.wait", "mbarrier.arrive.shared::cta.b64"];
    for (n, tile, cluster, spared) in [
        (264, GpuTile { a: 256, b: 128 }, ClusterMode::MulticastA, &last_tile[..]),
        (136, GpuTile { a: 256, b: 128 }, ClusterMode::MulticastA, &last_stage),
        // Lines of results, as above.
        (264, GpuTile { a: 192, b: 96 }, ClusterMode::MulticastA, &[WARP_BARRIER]),
        // Stages that overlap, as above.
        (264, GpuTile { a: 128, b: 128 }, ClusterMode::MulticastB, &[WARP_BARRIER; 2]),
    ] {
        let problem = problem(260, n, 900);
        let shape = TileConfig { tile, swapped: false, cluster };
        let plan = HopperPlan::new(&problem, &GPU, Strategy::Strip, shape, Some(3)).expect("it has a plan");
        assert_eq!(not_missed(&plan, 20), spared, "{n} {tile:?}");
    }
}

#[test]
fn results_that_leave_stage_by_stage() {
    // Four or five tiles for each block, and so few stages in each that the places of several are given back
    // at the end.
    let shape = TileConfig { tile: GpuTile { a: 256, b: 128 }, swapped: false, cluster: ClusterMode::Single };
    for k in [130, 600] {
        let plan = HopperPlan::new(&problem(600, 704, k), &GPU, Strategy::Strip, shape, Some(3))
            .expect("it has a plan");
        assert_eq!(plan.result_path, ResultPath::TmaStoreByProducer);
        // As above.
        assert_eq!(not_missed(&plan, 20), ["griddepcontrol.wait"], "{k}");
    }
}

#[test]
fn weights_as_the_first_operand() {
    // Stages that overlap, an odd number of them.
    let shape = TileConfig { tile: GpuTile { a: 64, b: 16 }, swapped: true, cluster: ClusterMode::Single };
    let plan = HopperPlan::new(&problem(16, 130, 1100), &GPU, Strategy::Strip, shape, Some(3))
        .expect("it has a plan");
    assert!(plan.overlaps_stages && plan.k_blocks() == 9);
    // The last stage is handed back to no one.
    assert_eq!(not_missed(&plan, 10), [WARP_BARRIER, "mbarrier.arrive.shared::cta.b64"]);
}

#[test]
fn clusters_that_divide_k() {
    let problem = problem(20, 130, 1800);
    let shape = TileConfig { tile: GpuTile { a: 64, b: 32 }, swapped: true, cluster: ClusterMode::SplitK(2) };
    let plan = HopperPlan::new(&problem, &GPU, Strategy::Strip, shape, Some(3)).expect("it has a plan");
    // Threads that leave count as arrived, and the fetching ones leave after this.
    assert_eq!(not_missed(&plan, 15), ["barrier.cluster.arrive.release"]);
}

#[test]
fn quantizing() {
    let x = ActivationKind::Quantized(FloatKind::Bf16, ScaleGranularity::Block);
    let plan =
        HopperPlan::best(&problem(140, 136, 300).with_x(x), &GPU, Strategy::Strip).expect("it has a plan");
    let (quantize, launch) = hopper::quantize_for(&plan.problem).expect("x is quantized");
    let (multiply, operands) = (hopper::multiply(&plan).ptx, Operands::random(plan.problem, 13));
    let text = Text::new(&quantize.ptx);
    let is_needed = |line: &&str| SYNCHRONIZATION.iter().any(|start| line.starts_with(start));
    assert_eq!(text.0.iter().copied().filter(is_needed).count(), 3);
    for at in (0..text.0.len()).filter(|&at| is_needed(&text.0[at])) {
        let product =
            Product::new(&plan, &multiply, Some((&text.with(at, ""), launch))).expect("it can be read");
        assert!(is_wrong(&plan, &product, &operands), "no one misses {}", text.0[at]);
    }
}
