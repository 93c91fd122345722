//! The choice of tile and cluster: candidates, and a performance model that ranks them.

use std::fmt;

use serde::Serialize;

use super::{
    ClusterMode, GpuTile, HopperPlan, ResultPath, STAGE_K, TileConfig, WAVE_ROWS, ctas_needed, weight_stays,
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
        plans.push((expected_time(&plan, gpu).total_ns, plan));
    }
    if plans.is_empty() {
        return Err(refusal.expect("there are candidates for every problem"));
    }
    plans.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    Ok(plans.into_iter().map(|(_, plan)| plan).collect())
}

/// What limits a kernel, by the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuLimit {
    /// Issue of wgmma and promotion.
    MmaIssue,
    /// The latency of a warpgroup's chain: too few warpgroups to overlap.
    Latency,
    /// A last wave of CTAs that leaves SMs idle.
    Waves,
    /// Loads from HBM.
    Hbm,
    /// Loads from L2, where the weight stays.
    L2,
    /// Launch, and the reduction of a cluster.
    Overhead,
    /// The power limit, which lowers the clock of a GPU whose tensor cores are all busy.
    Power,
}

impl fmt::Display for GpuLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::MmaIssue => "MMA issue",
            Self::Latency => "MMA latency",
            Self::Waves => "waves",
            Self::Hbm => "HBM",
            Self::L2 => "L2",
            Self::Overhead => "launch and cluster",
            Self::Power => "power",
        })
    }
}

/// The parts of an expected time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ExpectedTime {
    /// Launch, and synchronization within clusters.
    pub overhead_ns: f64,
    /// Main loops and epilogues, if all SMs were busy to the end.
    pub busy_ns: f64,
    /// What a last, partial wave adds.
    pub idle_ns: f64,
    /// The part of loading the operands once that is not hidden.
    pub load_ns: f64,
    /// The sum.
    pub total_ns: f64,
    /// What limits the kernel.
    pub limit: GpuLimit,
}

/// Throughput from which H100s and H200s lower their clock, in FLOP per nanosecond.
const POWER_LIMITED: f64 = 1.35e6;

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

/// CTAs that run at the same time, one per SM. Clusters of more than two do not fill a GPU's GPCs of up to 18
/// SMs.
fn at_once(plan: &HopperPlan, gpu: &HopperGpu) -> usize {
    if plan.shape.cluster.ctas() > 2 { gpu.sms * 7 / 8 } else { gpu.sms }
}

/// Expected time of a plan in nanoseconds. The constants are fitted to `bench/record/h200/plans.csv`: 42
/// shapes with up to 18 plans each, measured on an H200. The chosen plan is 0.10 % slower than the best one
/// on average, and at most 1.6 %. The model predicts the chosen plans' times within 25 %, except for one at
/// 35 % (128x7168x16384).
pub(super) fn expected_time(plan: &HopperPlan, gpu: &HopperGpu) -> ExpectedTime {
    const LAUNCH: f64 = 718.4;
    let GpuTile { a, b } = plan.shape.tile;
    let (waves, columns) = ((a / WAVE_ROWS) as f64, b as f64);
    let three = plan.consumers == 3;
    // One stage: latency of a warpgroup from the first wgmma to the last promotion, and the time for which
    // all warpgroups together occupy the SM.
    let alone = waves / plan.consumers as f64 * if plan.overlaps_stages { 2.138 } else { 2.768 } * columns;
    let straddles = if plan.boundaries().len() > 1 { 1.1 } else { 1.0 };
    let all = waves * (29.85 + 1.026 * columns);
    // Of two resident CTAs, one multiplies while the other waits for its weight.
    let ctas = ctas_needed(plan.units, plan.shape);
    let shares_swapped = plan.shape.swapped && plan.blocks_per_sm == 2 && ctas > gpu.sms;
    let waits = if shares_swapped { 0.765 } else { 1.0 };
    let together = straddles * waits * if three { 1.135 * all } else { all + 54.53 };
    // Multicast pays for tiles that load many rows per wgmma.
    let multicast = 1.2529 - 24.09 * (a + b) as f64 / (a * b) as f64;
    let (parts, load_factor, cluster_cost) = match plan.shape.cluster {
        ClusterMode::Single => (1, 1.0, 0.0),
        ClusterMode::MulticastA | ClusterMode::MulticastB => (1, multicast, 1129.0),
        ClusterMode::SplitK(parts) => (parts, 1.0, 715.7 + 166.9 * (parts - 2) as f64),
    };
    let rounds = ctas.div_ceil(at_once(plan, gpu));
    let resident = plan.blocks_per_sm.min(rounds) as f64;
    let per_stage = load_factor * together.max(alone / resident);
    // Part of the epilogue is hidden where warpgroups do not all store at once, or the producer interleaves
    // stores.
    let visible = match plan.result_path {
        _ if three => 0.6166,
        ResultPath::TmaStoreByProducer => 0.8,
        _ => 1.0,
    };
    let epilogue = 51.28 * visible * (a * b) as f64 / 1024.0 / resident;
    let stages = plan.k_blocks().div_ceil(parts) as f64;
    let one_round = stages * per_stage + epilogue;
    let busy_ns = ctas as f64 / at_once(plan, gpu) as f64 * one_round;
    let idle_ns = rounds as f64 * one_round - busy_ns;
    let Problem { m, n, k, .. } = plan.problem;
    let stays = weight_stays(&plan.problem, gpu);
    let times_bandwidth = if stays { 5.071 } else { 1.603 };
    let load_ns = ((m + n) * k) as f64 / (times_bandwidth * gpu.read_bandwidth);
    let overhead_ns = LAUNCH + cluster_cost;
    let parts = [
        (overhead_ns, GpuLimit::Overhead),
        (busy_ns, if together >= alone / resident { GpuLimit::MmaIssue } else { GpuLimit::Latency }),
        (idle_ns, GpuLimit::Waves),
        (load_ns, if stays { GpuLimit::L2 } else { GpuLimit::Hbm }),
    ];
    let largest = parts.into_iter().max_by(|(a, _), (b, _)| a.total_cmp(b));
    let limit = largest.map_or(GpuLimit::Overhead, |(_, limit)| limit);
    let total_ns = LAUNCH + (rounds as f64 * one_round + cluster_cost) + load_ns;
    let is_hot = plan.problem.flops() / total_ns > POWER_LIMITED;
    let limit = if is_hot { GpuLimit::Power } else { limit };
    ExpectedTime { overhead_ns, busy_ns, idle_ns, load_ns, total_ns, limit }
}
