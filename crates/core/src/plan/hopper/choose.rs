//! Which shape is fastest: a model of the time, and the shapes that it is asked about.

use super::{
    ClusterMode, GpuTile, HopperPlan, ResultPath, STAGE_K, TileConfig, WAVE_ROWS, pieces, weight_stays,
};
use crate::{Problem, Strategy, device::hopper::HopperGpu, plan::PlanError};

/// The plan with the least expected time. Ties go to the first candidate.
pub(super) fn best(problem: &Problem, gpu: &HopperGpu) -> Result<HopperPlan, PlanError> {
    let mut best: Option<(f64, HopperPlan)> = None;
    let mut refusal = None;
    for shape in candidates(problem) {
        // Small tiles may exceed the 31-bit tile count where large ones fit.
        let plan = match HopperPlan::new(problem, gpu, Strategy::Strip, shape, None) {
            Ok(plan) => plan,
            Err(error) => {
                refusal = Some(error);
                continue;
            }
        };
        // Dividing K pays only where all parts run at once.
        let divides = matches!(shape.cluster, ClusterMode::SplitK(_));
        if divides && plan.blocks > at_once(&plan, gpu) {
            continue;
        }
        let time = expected_time(&plan, gpu);
        if best.as_ref().is_none_or(|(least, _)| time < *least) {
            best = Some((time, plan));
        }
    }
    best.map(|(_, plan)| plan).ok_or_else(|| refusal.expect("there are candidates for every problem"))
}

/// The shapes that are worth a thought for a problem. Others were timed too and never won.
pub fn candidates(problem: &Problem) -> Vec<TileConfig> {
    let mut shapes = Vec::new();
    let mut push =
        |a, b, swapped, cluster| shapes.push(TileConfig { tile: GpuTile { a, b }, swapped, cluster });
    let m = problem.m;
    if m <= 32 {
        // The weight fills the 64 rows, and x is as wide as it is.
        for a in [64, 128] {
            for cluster in [1, 2, 3, 4, 6, 8].map(split) {
                push(a, m.next_multiple_of(8), true, cluster);
            }
        }
    } else if m <= 128 {
        for cluster in [1, 2, 4].map(split) {
            // Tiles as small as this pay where K is divided as well.
            if cluster != ClusterMode::Single {
                push(64, if m <= 64 { 32 } else { 64 }, false, cluster);
            }
            for b in [64, 96, 112, 128, 192] {
                push(if m <= 64 { 64 } else { 128 }, b, false, cluster);
            }
        }
        push(128, 32, false, split(2));
    } else {
        for b in [32, 64, 96, 128, 144, 192] {
            push(128, b, false, ClusterMode::Single);
        }
        if m <= 512 {
            push(128, 64, false, split(2));
            push(128, 128, false, split(2));
        }
        push(128, 192, false, ClusterMode::MulticastB);
        for (a, b) in [(192, 96), (192, 128), (256, 128)] {
            push(a, b, false, ClusterMode::Single);
            push(a, b, false, ClusterMode::MulticastA);
        }
    }
    let blocks = problem.k.div_ceil(STAGE_K);
    shapes.retain(|shape| !matches!(shape.cluster, ClusterMode::SplitK(parts) if parts > blocks));
    shapes
}

fn split(parts: usize) -> ClusterMode {
    if parts == 1 { ClusterMode::Single } else { ClusterMode::SplitK(parts) }
}

/// Blocks that run at the same time, one on each multiprocessor. Clusters of more than two do not fill the
/// groups of up to 18 multiprocessors that a GPU is made of.
fn at_once(plan: &HopperPlan, gpu: &HopperGpu) -> usize {
    if plan.shape.cluster.ctas() > 2 { gpu.sms * 7 / 8 } else { gpu.sms }
}

/// Nanoseconds that the plan is expected to take. The constants are fitted to 42 shapes with up to 18 plans
/// each, timed on an H200: the plan chosen is 0.10 % slower than the best of them in the mean, and at most
/// 1.6 %. The times of the chosen plans are met within 25 %, but for one of 35 % (128x7168x16384).
fn expected_time(plan: &HopperPlan, gpu: &HopperGpu) -> f64 {
    const LAUNCH: f64 = 718.4;
    let GpuTile { a, b } = plan.shape.tile;
    let (waves, columns) = ((a / WAVE_ROWS) as f64, b as f64);
    let three = plan.consumers == 3;
    // One stage: what a warpgroup needs from the first product to the last sum, and what all together take of
    // the multiprocessor.
    let alone = waves / plan.consumers as f64 * if plan.overlaps_stages { 2.138 } else { 2.768 } * columns;
    let straddles = if plan.boundaries().len() > 1 { 1.1 } else { 1.0 };
    let all = waves * (29.85 + 1.026 * columns);
    // Where two blocks wait for their weight, one multiplies meanwhile.
    let pieces = pieces(plan.units, plan.shape);
    let shares_swapped = plan.shape.swapped && plan.blocks_per_sm == 2 && pieces > gpu.sms;
    let waits = if shares_swapped { 0.765 } else { 1.0 };
    let together = straddles * waits * if three { 1.135 * all } else { all + 54.53 };
    // Sharing pays for tiles that need many rows for few products.
    let shared = 1.2529 - 24.09 * (a + b) as f64 / (a * b) as f64;
    let (parts, sharing, cluster_cost) = match plan.shape.cluster {
        ClusterMode::Single => (1, 1.0, 0.0),
        ClusterMode::MulticastA | ClusterMode::MulticastB => (1, shared, 1129.0),
        ClusterMode::SplitK(parts) => (parts, 1.0, 715.7 + 166.9 * (parts - 2) as f64),
    };
    let rounds = pieces.div_ceil(at_once(plan, gpu));
    let resident = plan.blocks_per_sm.min(rounds) as f64;
    let per_stage = sharing * together.max(alone / resident);
    // Warpgroups that do not all store at the same time hide a part of it, and so do stages with which
    // results leave.
    let visible = match plan.result_path {
        _ if three => 0.6166,
        ResultPath::TmaStoreByProducer => 0.8,
        _ => 1.0,
    };
    let epilogue = 51.28 * visible * (a * b) as f64 / 1024.0 / resident;
    let stages = plan.k_blocks().div_ceil(parts) as f64;
    let busy = rounds as f64 * (stages * per_stage + epilogue) + cluster_cost;
    // What fetching the operands once costs beside all that.
    let Problem { m, n, k, .. } = plan.problem;
    let times_bandwidth = if weight_stays(&plan.problem, gpu) { 5.071 } else { 1.603 };
    LAUNCH + busy + ((m + n) * k) as f64 / (times_bandwidth * gpu.read_bandwidth)
}
