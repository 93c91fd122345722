//! The choice of tile and cluster: candidates, which the performance model ranks.

use super::{
    ClusterMode, GpuTile, HopperPlan, STAGE_K, TileConfig,
    time::{TimeModel, at_once},
};
use crate::{Problem, Strategy, device::hopper::HopperGpu, plan::PlanError};

/// The plan with the least expected time. Ties go to the first candidate.
pub(super) fn best(problem: &Problem, gpu: &HopperGpu) -> Result<HopperPlan, PlanError> {
    let mut ranked = ranked(problem, gpu)?;
    Ok(ranked.swap_remove(0))
}

/// Every plan worth considering, that with the least expected time first. There is one at least.
pub(super) fn ranked(problem: &Problem, gpu: &HopperGpu) -> Result<Vec<HopperPlan>, PlanError> {
    let mut plans: Vec<(f64, HopperPlan)> = Vec::new();
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
        // Split-K pays only where all CTAs run at once.
        let splits_k = matches!(shape.cluster, ClusterMode::SplitK(_));
        if splits_k && plan.blocks > at_once(&plan, gpu) {
            continue;
        }
        plans.push((TimeModel::H200.expected_time(&plan, gpu).total_ns, plan));
    }
    if plans.is_empty() {
        return Err(refusal.expect("there are candidates for every problem"));
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
    let blocks = problem.k.div_ceil(STAGE_K);
    shapes.retain(|shape| !matches!(shape.cluster, ClusterMode::SplitK(parts) if parts > blocks));
    shapes
}

fn split(parts: usize) -> ClusterMode {
    if parts == 1 { ClusterMode::Single } else { ClusterMode::SplitK(parts) }
}
