//! Which shape is fastest: a model of the time, and the shapes that it is asked about.

use super::{GpuTile, HopperPlan, STAGE_K, Shape, Together, WAVE_ROWS, weight_stays};
use crate::{Problem, Strategy, device::hopper::HopperGpu, plan::PlanError};

/// The plan with the least expected time. Ties go to the first candidate.
pub(super) fn best(problem: &Problem, gpu: &HopperGpu) -> Result<HopperPlan, PlanError> {
    let mut best: Option<(f64, HopperPlan)> = None;
    for shape in candidates(problem) {
        let plan = HopperPlan::new(problem, gpu, Strategy::Strip, shape, None)?;
        // Dividing K pays only where all parts run at once.
        let divides = matches!(shape.together, Together::SplitK(_));
        if divides && plan.blocks > at_once(&plan, gpu) {
            continue;
        }
        let time = expected_time(&plan, gpu);
        if best.as_ref().is_none_or(|(least, _)| time < *least) {
            best = Some((time, plan));
        }
    }
    Ok(best.expect("there are candidates for every problem").1)
}

/// The shapes that are worth a thought for a problem. Others were timed too and never won.
pub fn candidates(problem: &Problem) -> Vec<Shape> {
    let mut shapes = Vec::new();
    let mut push = |a, b, swapped, together| shapes.push(Shape { tile: GpuTile { a, b }, swapped, together });
    let m = problem.m;
    if m <= 32 {
        // The weight fills the 64 rows, and x is as wide as it is.
        for a in [64, 128] {
            for together in [1, 2, 3, 4, 6, 8].map(split) {
                push(a, m.next_multiple_of(8), true, together);
            }
        }
    } else if m <= 128 {
        for together in [1, 2, 4].map(split) {
            // Tiles as small as this pay where K is divided as well.
            if together != Together::Alone {
                push(64, if m <= 64 { 32 } else { 64 }, false, together);
            }
            for b in [64, 96, 112, 128, 192] {
                push(if m <= 64 { 64 } else { 128 }, b, false, together);
            }
        }
        push(128, 32, false, split(2));
    } else {
        for b in [32, 64, 96, 128, 144, 192] {
            push(128, b, false, Together::Alone);
        }
        if m <= 512 {
            push(128, 64, false, split(2));
            push(128, 128, false, split(2));
        }
        push(128, 192, false, Together::ShareB);
        for (a, b) in [(192, 96), (192, 128), (256, 128)] {
            push(a, b, false, Together::Alone);
            push(a, b, false, Together::ShareA);
        }
    }
    let blocks = problem.k.div_ceil(STAGE_K);
    shapes.retain(|shape| !matches!(shape.together, Together::SplitK(parts) if parts > blocks));
    shapes
}

fn split(parts: usize) -> Together {
    if parts == 1 { Together::Alone } else { Together::SplitK(parts) }
}

/// Blocks that run at the same time, one on each multiprocessor. Clusters of more than two do not fill the groups of up to
/// 18 multiprocessors that a GPU is made of.
fn at_once(plan: &HopperPlan, gpu: &HopperGpu) -> usize {
    if plan.shape.together.blocks() > 2 { gpu.sms * 7 / 8 } else { gpu.sms }
}

/// Nanoseconds that the plan is expected to take. The constants are fitted to 42 shapes with up to 18 plans each, timed on
/// an H200: the plan chosen is 0.3 % slower than the best of them in the mean, and at most 7 %.
fn expected_time(plan: &HopperPlan, gpu: &HopperGpu) -> f64 {
    const LAUNCH: f64 = 1270.0;
    const L2_BYTES_PER_NS: f64 = 7190.0;
    let GpuTile { a, b } = plan.shape.tile;
    let (waves, columns) = ((a / WAVE_ROWS) as f64, b as f64);
    let three = plan.consumers == 3;
    // One stage: what a warpgroup needs from the first product to the last sum, and what all together take of the
    // multiprocessor, whose shared memory feeds the tensor cores.
    let alone = waves / plan.consumers as f64 * (12.4 + 1.98 * columns);
    let straddles = if plan.boundaries() == [None] { 1.0 } else { 1.036 };
    let together = straddles * (waves * (44.8 + 1.01 * columns) + if three { 28.2 } else { 35.6 });
    let cluster = plan.shape.together.blocks();
    let rounds = (plan.units.0 * plan.units.1 * cluster).div_ceil(at_once(plan, gpu));
    let per_stage = together.max(alone / plan.blocks_per_sm.min(rounds) as f64);
    // Warpgroups that do not all store at the same time hide a part of it.
    let epilogue = 300.0 + 38.1 * (a * b) as f64 / 1024.0 * if three { 0.45 } else { 1.0 };
    let (parts, sharing, cluster_cost) = match plan.shape.together {
        Together::Alone => (1, 1.0, 0.0),
        Together::ShareA | Together::ShareB => (1, 0.994, 152.0),
        Together::SplitK(parts) => (parts, 1.0, 1104.0 + 82.9 * (parts - 2) as f64),
    };
    let stages = plan.k_blocks().div_ceil(parts) as f64;
    let busy = rounds as f64 * (stages * per_stage * sharing + epilogue) + cluster_cost;
    let Problem { m, n, k, .. } = plan.problem;
    let memory = ((m + n) * k) as f64
        / if weight_stays(&plan.problem, gpu) { L2_BYTES_PER_NS } else { 1.06 * gpu.read_bandwidth };
    // What is the shorter of the two is hidden by the longer, but not wholly.
    LAUNCH + busy.max(memory) + 0.256 * busy.min(memory)
}
