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

/// Every plan worth considering, the default one first: of those that were timed on a GPU, that with the
/// least expected time. There is one at least.
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
        if splits_k && plan.blocks > at_once(&plan, gpu) * plan.blocks_per_sm {
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

/// Candidate shapes for a problem; others were measured and seldom won, and then by little.
pub fn candidates(problem: &Problem) -> Vec<TileConfig> {
    let mut shapes = if problem.m <= MOST_SWAPPED { swapped_candidates(problem.m) } else { Vec::new() };
    shapes.extend(unswapped_candidates(problem.m));
    // Every part of a split K needs a stage.
    let blocks = problem.k.div_ceil(STAGE_K);
    let parts = |shape: &TileConfig| match shape.cluster {
        ClusterMode::SplitK(parts) => parts,
        ClusterMode::SplitTail => 2,
        _ => 1,
    };
    shapes.retain(|shape| parts(shape) <= blocks);
    shapes
}

/// Rows that one narrow tile of swapped operands takes.
const NARROW: usize = 32;
/// Widths of unswapped tiles: one of 176 columns could touch three weight scales.
const WIDTHS: [usize; 10] = [32, 48, 64, 80, 96, 112, 128, 144, 160, 192];
/// Rows up to which operands may be swapped. Beyond, 128 divides them evenly enough.
const MOST_SWAPPED: usize = 1100;

/// The weight fills the 64 rows of a wgmma. With up to [`NARROW`] rows x is one tile; with some hundred,
/// tiles divide its rows evenly, where those of unswapped operands would be padded to 64, 128 or 192.
fn swapped_candidates(m: usize) -> Vec<TileConfig> {
    let mut shapes = Vec::new();
    let mut push = |a, b, cluster| {
        let shape = TileConfig { tile: GpuTile { a, b }, swapped: true, cluster };
        if !shapes.contains(&shape) {
            shapes.push(shape);
        }
    };
    if m <= NARROW {
        let b = m.next_multiple_of(8);
        for (a, parts) in [(64, &[1, 2, 3, 4, 6, 8][..]), (128, &[1, 2, 3, 4, 6, 8]), (192, &[1, 2])] {
            parts.iter().for_each(|&parts| push(a, b, split(parts)));
        }
        return shapes;
    }
    // Widest tiles whose accumulators fit in the registers of one, two and three consumer warpgroups.
    for (a, widest, parts) in [(64, 88, &[1, 2, 3, 4][..]), (128, 192, &[1, 2]), (192, 128, &[1])] {
        let fewest = m.div_ceil(widest);
        for tiles in fewest..fewest + 3 {
            let b = m.div_ceil(tiles).next_multiple_of(8);
            parts.iter().for_each(|&parts| push(a, b, split(parts)));
            if a == 64 && tiles > 1 {
                push(a, b, ClusterMode::MulticastA);
            }
            if tiles > 1 {
                push(a, b, ClusterMode::SplitTail);
            }
        }
    }
    shapes
}

/// x fills the 64 rows of a wgmma. Tiles of any width divide the weight evenly among the SMs, which decides
/// where its bandwidth does: that is all they are good for with few rows.
fn unswapped_candidates(m: usize) -> Vec<TileConfig> {
    let mut shapes = Vec::new();
    let mut push = |a, b, cluster| {
        let shape = TileConfig { tile: GpuTile { a, b }, swapped: false, cluster };
        if !shapes.contains(&shape) {
            shapes.push(shape);
        }
    };
    if m > NARROW {
        for b in [32, 64, 80, 96, 112, 128, 144, 192] {
            for cluster in [1, 2, 3, 4].map(split) {
                push(64, b, cluster);
            }
        }
        for b in [32, 64, 96, 112, 128, 192] {
            push(64, b, ClusterMode::SplitTail);
        }
    }
    WIDTHS.into_iter().for_each(|b| push(64, b, ClusterMode::Single));
    if m > 64 {
        for b in [32, 64, 80, 96, 112, 128, 144, 160, 192] {
            push(128, b, split(2));
        }
        for b in [32, 80, 128] {
            push(128, b, split(4));
        }
        for b in [32, 64, 96, 128, 144, 160, 192] {
            push(128, b, ClusterMode::SplitTail);
        }
        WIDTHS.into_iter().for_each(|b| push(128, b, ClusterMode::Single));
        push(128, 128, ClusterMode::MulticastA);
    }
    if m > 128 {
        for (a, b) in [(192, 96), (192, 128), (256, 128)] {
            push(a, b, ClusterMode::Single);
            push(a, b, ClusterMode::MulticastA);
            push(a, b, ClusterMode::SplitTail);
        }
        for (a, b) in [(192, 64), (192, 80), (192, 112), (256, 112)] {
            push(a, b, ClusterMode::Single);
        }
        push(192, 112, ClusterMode::SplitTail);
        for b in [112, 128] {
            push(192, b, split(2));
        }
    }
    shapes
}

/// Whether a search tries a shape.
pub fn is_candidate(problem: &Problem, shape: TileConfig) -> bool {
    candidates(problem).contains(&shape)
}

fn split(parts: usize) -> ClusterMode {
    if parts == 1 { ClusterMode::Single } else { ClusterMode::SplitK(parts) }
}
