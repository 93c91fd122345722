//! The choice of tile and cluster: candidates, which the performance model ranks.

use super::{
    ClusterMode, GpuTile, HopperPlan, STAGE_K, TileConfig,
    time::{TimeModel, at_once},
};
use crate::{Problem, Strategy, device::hopper::HopperGpu, plan::PlanError};

/// The plan with the least expected time. Ties go to the first candidate.
pub(super) fn best(problem: &Problem, gpu: &HopperGpu) -> Result<HopperPlan, PlanError> {
    let mut ranked = ranked(problem, gpu)?;
    assert!(!ranked.is_empty(), "there are candidates for every problem");
    Ok(ranked.swap_remove(0))
}

/// Every plan worth considering, that with the least expected time first. There is one at least.
pub(super) fn ranked(problem: &Problem, gpu: &HopperGpu) -> Result<Vec<HopperPlan>, PlanError> {
    planned(candidates(problem), problem, gpu)
}

/// Those, and after them plans that nobody has timed yet.
pub(super) fn searched(problem: &Problem, gpu: &HopperGpu) -> Result<Vec<HopperPlan>, PlanError> {
    let mut plans = ranked(problem, gpu)?;
    plans.extend(planned(untimed_candidates(problem), problem, gpu).unwrap_or_default());
    Ok(plans)
}

fn planned(
    shapes: Vec<TileConfig>,
    problem: &Problem,
    gpu: &HopperGpu,
) -> Result<Vec<HopperPlan>, PlanError> {
    let mut plans: Vec<(f64, HopperPlan)> = Vec::new();
    let mut refusal = None;
    for shape in shapes {
        // Small tiles may exceed the 31-bit tile count where large ones fit.
        let plan = match HopperPlan::new(problem, gpu, Strategy::Strip, shape, None) {
            Ok(plan) => plan,
            Err(error) => {
                refusal = Some(error);
                continue;
            }
        };
        // Split-K pays only where all CTAs run at once.
        let splits_k = matches!(shape.cluster, ClusterMode::SplitK(_));
        if splits_k && plan.blocks > at_once(&plan, gpu) {
            continue;
        }
        plans.push((TimeModel::H200.expected_time(&plan, gpu).total_ns, plan));
    }
    if let Some(refusal) = refusal.filter(|_| plans.is_empty()) {
        return Err(refusal);
    }
    plans.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    Ok(plans.into_iter().map(|(_, plan)| plan).collect())
}

/// Candidate shapes for a problem; others were measured and never won.
pub fn candidates(problem: &Problem) -> Vec<TileConfig> {
    let mut shapes = Vec::new();
    let mut push =
        |a, b, swapped, cluster| shapes.push(TileConfig { tile: GpuTile { a, b }, swapped, cluster });
    let m = problem.m;
    if m <= 32 {
        // Swapped: the weight fills the 64 rows of a wgmma, and x is as narrow as M.
        for a in [64, 128] {
            for cluster in [1, 2, 3, 4, 6, 8].map(split) {
                push(a, m.next_multiple_of(8), true, cluster);
            }
        }
    } else if m <= 128 {
        for cluster in [1, 2, 4].map(split) {
            // Tiles this small pay with split-K only.
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
    without_idle_parts(shapes, problem)
}

/// Candidates that no GPU has timed yet: `octile tune` tries them, and only a table makes one a plan.
///
/// A few hundred rows are seldom a multiple of 128 or 192, so that much of an unswapped tile is padding.
/// Swapped, the weight fills those rows, and the columns divide x evenly.
pub fn untimed_candidates(problem: &Problem) -> Vec<TileConfig> {
    let m = problem.m;
    let mut shapes = Vec::new();
    if !(33..=512).contains(&m) {
        return shapes;
    }
    // Widest tiles whose accumulators fit in the registers of one, two and three consumer warpgroups.
    for (a, widest) in [(64, 96), (128, 192), (192, 128)] {
        let fewest = m.div_ceil(widest);
        for tiles in [fewest, fewest + 1] {
            let b = m.div_ceil(tiles).next_multiple_of(8);
            for cluster in [1, 2].map(split) {
                let config = TileConfig { tile: GpuTile { a, b }, swapped: true, cluster };
                if !shapes.contains(&config) {
                    shapes.push(config);
                }
            }
        }
    }
    without_idle_parts(shapes, problem)
}

/// Whether a search tries a shape.
pub fn is_candidate(problem: &Problem, shape: TileConfig) -> bool {
    candidates(problem).contains(&shape) || untimed_candidates(problem).contains(&shape)
}

/// Every part of a split K needs a stage.
fn without_idle_parts(mut shapes: Vec<TileConfig>, problem: &Problem) -> Vec<TileConfig> {
    let blocks = problem.k.div_ceil(STAGE_K);
    shapes.retain(|shape| !matches!(shape.cluster, ClusterMode::SplitK(parts) if parts > blocks));
    shapes
}

fn split(parts: usize) -> ClusterMode {
    if parts == 1 { ClusterMode::Single } else { ClusterMode::SplitK(parts) }
}
