//! Which shape is fastest: a model of the time, and the shapes that it is asked about.

use super::{GpuTile, HopperPlan, STAGE_K, Shape, Together, WAVE_ROWS};
use crate::{Problem, Strategy, device::hopper::HopperGpu, plan::PlanError};

/// The plan with the least expected time. Ties go to the first candidate.
pub(super) fn best(problem: &Problem, gpu: &HopperGpu) -> Result<HopperPlan, PlanError> {
    let plans = candidates(problem).into_iter().map(|shape| HopperPlan::new(problem, gpu, Strategy::Strip, shape, None));
    let mut best: Option<(f64, HopperPlan)> = None;
    for plan in plans {
        let plan = plan?;
        let time = expected_time(&plan, gpu);
        if best.as_ref().is_none_or(|(least, _)| time < *least) {
            best = Some((time, plan));
        }
    }
    Ok(best.expect("there are candidates for every problem").1)
}

/// The shapes that are worth a thought for a problem.
pub fn candidates(problem: &Problem) -> Vec<Shape> {
    let mut shapes = Vec::new();
    if problem.m <= 256 {
        let b = problem.m.next_multiple_of(8).min(64);
        for (a, b) in [(64, b), (128, b), (128, problem.m.next_multiple_of(8).min(128))] {
            for together in [1, 2, 3, 4, 6, 8].map(split) {
                shapes.push(Shape { tile: GpuTile { a, b }, swapped: true, together });
            }
        }
    }
    if problem.m > 32 {
        let narrowest = if problem.m >= 1024 { 64 } else { 16 };
        let widths = (narrowest..=192).step_by(8).filter(|&b| at_most_two_scales(b));
        for b in widths {
            for together in [Together::Alone, Together::ShareB, Together::ShareA, split(2), split(4)] {
                if together == Together::ShareB && b % 16 != 0 {
                    continue;
                }
                for a in [128, 256] {
                    if a == 128 || b <= 128 && problem.m > 128 && !matches!(together, Together::SplitK(_)) {
                        shapes.push(Shape { tile: GpuTile { a, b }, swapped: false, together });
                    }
                }
            }
        }
    }
    let blocks = problem.k.div_ceil(STAGE_K);
    shapes.retain(|shape| !matches!(shape.together, Together::SplitK(parts) if parts > blocks));
    shapes.dedup();
    shapes
}

fn split(parts: usize) -> Together {
    if parts == 1 { Together::Alone } else { Together::SplitK(parts) }
}

/// Whether no tile of `b` weight rows touches three blocks of 128, wherever the tiles before it end.
fn at_most_two_scales(b: usize) -> bool {
    let step = 1 << b.trailing_zeros().min(7);
    (128 - step) + b <= 256
}

/// Nanoseconds that the plan is expected to take. Constants are fitted to measurements on an H200.
fn expected_time(plan: &HopperPlan, gpu: &HopperGpu) -> f64 {
    const CLOCK: f64 = 1.6; // cycles per nanosecond under load
    const LAUNCH: f64 = 2500.0; // nanoseconds from nothing to the first tile in shared memory
    const L2_BYTES: f64 = 38.0; // per cycle and multiprocessor
    let GpuTile { a, b } = plan.shape.tile;
    let waves = (a / WAVE_ROWS) as f64;
    // 64 x 8 x 128 takes 16 cycles of arithmetic, and its operands pass shared memory at 128 bytes per cycle.
    let multiply = waves * (2 * b).max(WAVE_ROWS + b) as f64;
    let (fetch_a, fetch_b) = plan.fetched_rows();
    let fetch = ((fetch_a + fetch_b) * STAGE_K) as f64 / L2_BYTES;
    let per_stage = multiply.max(fetch).max(160.0 / plan.blocks_per_sm as f64);
    let parts = if let Together::SplitK(parts) = plan.shape.together { parts } else { 1 };
    let stages = plan.k_blocks().div_ceil(parts) as f64;
    let epilogue = 200.0 + 3.0 * (a * b) as f64 / 64.0 + if parts > 1 { 1500.0 } else { 0.0 };
    let cluster = plan.shape.together.blocks();
    let units = plan.units.0 * plan.units.1;
    // Clusters do not straddle the groups of 16 or 18 multiprocessors that a GPU is made of.
    let sms = if cluster > 2 { gpu.sms / 16 * 16 } else { gpu.sms };
    let rounds = (units * cluster).div_ceil(sms) as f64;
    let per_block = stages * per_stage + epilogue;
    let busy = rounds * per_block / CLOCK;
    let memory = plan.problem.min_bytes() as f64 / gpu.read_bandwidth;
    // The fewer multiprocessors take part, the less memory bandwidth they can ask for.
    let share = ((units * cluster) as f64 / sms as f64).min(1.0);
    LAUNCH + busy.max(memory / share)
}
