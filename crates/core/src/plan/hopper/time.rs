//! A performance model: what a kernel of `strip` costs, from its plan alone.
//!
//! Two things happen at once, and the slower one nearly decides: the SMs multiply, tile after tile, and the
//! weight comes from HBM or L2. Launches and clusters add to the former. A stream of kernels hides the start
//! of the next one behind the end of this one, but only where its CTAs find room beside this one's.

use std::fmt;

use serde::Serialize;

use super::{ClusterMode, GpuTile, HopperPlan, STAGE_K, WAVE_ROWS, ctas_needed};
use crate::{Problem, device::hopper::HopperGpu};

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
    /// Launch, and synchronization and reduction within clusters.
    pub overhead_ns: f64,
    /// Main loops and epilogues, if all SMs were busy to the end.
    pub busy_ns: f64,
    /// What a last, partial wave adds.
    pub idle_ns: f64,
    /// Loading the operands once. Overlaps with all of the above.
    pub load_ns: f64,
    /// All of it.
    pub total_ns: f64,
    /// What limits the kernel.
    pub limit: GpuLimit,
}

/// Throughput from which H100s and H200s lower their clock, in FLOP per nanosecond.
const POWER_LIMITED: f64 = 1.35e6;

/// The constants of the model: times in nanoseconds, rates in bytes per nanosecond.
///
/// A tile has `a` x `b` results, and a wave 64 x `b`. "Per block of results" means per 1024.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeModel {
    /// Launch.
    pub launch: f64,
    /// What a launch costs more when the next kernel's CTAs have no room beside this one's.
    pub late_launch: f64,
    /// The same for clusters that split K.
    pub late_cluster: f64,
    /// Issue of a wave and stage, beside that of its columns.
    pub wave: f64,
    /// Issue per column: four wgmma of 64 x 1 x 32 at the peak rate.
    pub column: f64,
    /// A stage, whatever its waves, with at most two consumer warpgroups.
    pub stage: f64,
    /// Factor of the issue time with three consumer warpgroups.
    pub three_consumers: f64,
    /// Factor where a tile can touch two weight scales.
    pub two_scales: f64,
    /// Latency of a wave per column, stages overlapped: the wgmma alone.
    pub overlapped_column: f64,
    /// Latency of a wave, stages not overlapped, beside that of its columns.
    pub chain: f64,
    /// Latency per column: wgmma, then promotion.
    pub chain_column: f64,
    /// Rate at which all SMs together load tiles from L2; not hidden.
    pub tile_loads: f64,
    /// Epilogue of a tile, whatever its size.
    pub tile: f64,
    /// Epilogue per block of results.
    pub results: f64,
    /// Factor of the latter with three consumer warpgroups, which do not all store at once.
    pub staggered: f64,
    /// A multicast cluster.
    pub multicast: f64,
    /// A cluster of two that splits K, beside the reduction.
    pub split: f64,
    /// Every further CTA of it.
    pub split_part: f64,
    /// The reduction, per block of results and part of them that a CTA sends.
    pub reduction: f64,
    /// Part of [`HopperGpu::read_bandwidth`] that is reached.
    pub hbm: f64,
    /// Latency of a load from HBM: bytes in flight over this is the most that they can ask for.
    pub hbm_latency: f64,
    /// Most that the two SMs of a TPC get from HBM. CTAs of a cluster share TPCs; others spread out first.
    pub tpc: f64,
    /// Rate of a weight that stays in L2.
    pub l2: f64,
    /// Start of the loads.
    pub first_load: f64,
    /// How sharply the slower of multiplication and loads decides: exponent of a norm.
    pub sharpness: f64,
}

impl TimeModel {
    /// Fitted to `bench/record/h200/plans.csv`: 42 shapes with up to 18 plans each, measured on an H200.
    /// `cargo run --release -p octile-harness --example gpu_model` shows how well, and how well a fit without
    /// a shape tells the best plan of that shape.
    pub const H200: Self = Self {
        launch: 1010.0,
        late_launch: 354.0,
        late_cluster: 1380.0,
        wave: 29.4,
        column: 1.03,
        stage: 24.9,
        three_consumers: 1.01,
        two_scales: 1.06,
        overlapped_column: 1.14,
        chain: 65.4,
        chain_column: 1.56,
        tile_loads: 127_000.0,
        tile: 150.0,
        results: 27.2,
        staggered: 0.9,
        multicast: 960.0,
        split: 622.0,
        split_part: 67.6,
        reduction: 75.3,
        hbm: 1.04,
        hbm_latency: 600.0,
        tpc: 78.0,
        l2: 6740.0,
        first_load: 600.0,
        sharpness: 3.27,
    };

    /// Expected time of a plan.
    pub fn expected_time(&self, plan: &HopperPlan, gpu: &HopperGpu) -> ExpectedTime {
        let work = self.multiplication(plan, gpu);
        let (load_ns, load_limit) = self.loads(plan, gpu);
        let overhead_ns = self.launch + self.cluster(plan, gpu);
        let slower = |a: f64, b: f64| {
            let exponent = self.sharpness;
            let largest = a.max(b);
            // Divided by the larger one, so that no time is too long to be raised to the exponent.
            largest * ((a / largest).powf(exponent) + (b / largest).powf(exponent)).powf(1.0 / exponent)
        };
        let multiplying = overhead_ns + work.busy_ns + work.idle_ns;
        let total_ns = slower(multiplying, self.first_load + load_ns);
        let parts = [
            (overhead_ns, GpuLimit::Overhead),
            (work.busy_ns, work.limit),
            (work.idle_ns, GpuLimit::Waves),
            (load_ns, load_limit),
        ];
        let largest = parts.into_iter().max_by(|(a, _), (b, _)| a.total_cmp(b));
        let is_hot = plan.problem.flops() / total_ns > POWER_LIMITED;
        let limit = match largest {
            _ if is_hot => GpuLimit::Power,
            _ if load_ns > multiplying => load_limit,
            Some((_, limit)) => limit,
            None => GpuLimit::Overhead,
        };
        let Multiplication { busy_ns, idle_ns, .. } = work;
        ExpectedTime { overhead_ns, busy_ns, idle_ns, load_ns, total_ns, limit }
    }

    /// Main loops and epilogues.
    fn multiplication(&self, plan: &HopperPlan, gpu: &HopperGpu) -> Multiplication {
        let GpuTile { a, b } = plan.shape.tile;
        let (waves, columns) = ((a / WAVE_ROWS) as f64, b as f64);
        let ctas = ctas_needed(plan.units, plan.shape);
        let slots = at_once(plan, gpu);
        let rounds = ctas.div_ceil(slots);
        let resident = plan.blocks_per_sm.min(rounds) as f64;
        // All warpgroups together occupy the SM so long; a warpgroup alone takes so long.
        // Of two swapped CTAs on an SM, one multiplies while the other waits for its weight: nothing but the
        // tensor cores counts.
        let shares = plan.shape.swapped && plan.blocks_per_sm == 2 && ctas > gpu.sms;
        let (wave, stage) = if shares { (0.0, 0.0) } else { (self.wave, self.stage) };
        let issue = waves * (wave + self.column * columns);
        let issue = if plan.consumers == 3 { self.three_consumers * issue } else { issue + stage };
        let straddles = if plan.boundaries().len() > 1 { self.two_scales } else { 1.0 };
        let issue = issue * straddles;
        let of_wave = if plan.overlaps_stages {
            self.overlapped_column * columns
        } else {
            self.chain + self.chain_column * columns
        };
        let latency = waves / plan.consumers as f64 * of_wave / resident;
        let (fetched_a, fetched_b) = plan.fetched_rows();
        let fetched = ((fetched_a + fetched_b) * STAGE_K * ctas.min(slots)) as f64;
        let per_stage = issue.max(latency) + fetched / self.tile_loads;
        let staggered = if plan.consumers == 3 { self.staggered } else { 1.0 };
        let epilogue = (self.tile + self.results * staggered * blocks_of_results(plan)) / resident;
        let stages = plan.k_blocks().div_ceil(split_parts(plan)) as f64;
        let round = stages * per_stage + epilogue;
        let busy_ns = ctas as f64 / slots as f64 * round;
        Multiplication {
            busy_ns,
            idle_ns: rounds as f64 * round - busy_ns,
            limit: if issue >= latency { GpuLimit::MmaIssue } else { GpuLimit::Latency },
        }
    }

    /// What clusters and a crowded GPU add to a launch.
    fn cluster(&self, plan: &HopperPlan, gpu: &HopperGpu) -> f64 {
        let slots = (at_once(plan, gpu) * plan.blocks_per_sm) as f64;
        let used = (ctas_needed(plan.units, plan.shape) as f64).min(slots);
        // Part of the next kernel's CTAs that find no room.
        let late = 1.0 - ((slots - used) / used).min(1.0);
        match plan.shape.cluster {
            ClusterMode::Single => late * self.late_launch,
            ClusterMode::MulticastA | ClusterMode::MulticastB => self.multicast + late * self.late_launch,
            ClusterMode::SplitK(parts) => {
                let sent = 1.0 - 1.0 / parts as f64;
                let reduction = self.reduction * blocks_of_results(plan) * sent;
                self.split + self.split_part * (parts - 2) as f64 + reduction + late * self.late_cluster
            }
        }
    }

    /// Loading x and the weight once, and from where most of it comes.
    fn loads(&self, plan: &HopperPlan, gpu: &HopperGpu) -> (f64, GpuLimit) {
        let Problem { m, n, k, .. } = plan.problem;
        let ctas = ctas_needed(plan.units, plan.shape);
        let slots = at_once(plan, gpu);
        let share = (m + n) as f64 * k as f64 / ctas as f64;
        let hits = hit_rate(&plan.problem, gpu);
        let in_flight = (plan.stages * plan.x_and_w_rows().1 * STAGE_K) as f64;
        // SMs share the bandwidth evenly, however many CTAs each of them has. So those with one more work
        // alone at the end, and need not be enough to use all of it.
        let phase = |ctas: usize, resident: usize| {
            let tpcs = if plan.shape.cluster.ctas() > 1 { ctas as f64 / 2.0 } else { ctas as f64 };
            let tpcs = tpcs.min(gpu.sms as f64 / 2.0);
            let full = 1.0 / (self.hbm * gpu.read_bandwidth);
            let asked = self.hbm_latency / (in_flight * resident as f64);
            let miss = full.hypot(asked).max(1.0 / (self.tpc * tpcs));
            ctas as f64 * share * ((1.0 - hits) * miss + hits / self.l2)
        };
        let (whole, left) = (ctas / slots, ctas % slots);
        let whole = whole as f64 * phase(slots, ctas.min(slots * plan.blocks_per_sm));
        let left = if left == 0 { 0.0 } else { phase(left, left) };
        (whole + left, if hits > 0.5 { GpuLimit::L2 } else { GpuLimit::Hbm })
    }
}

struct Multiplication {
    busy_ns: f64,
    idle_ns: f64,
    limit: GpuLimit,
}

/// CTAs that run at the same time, one per SM. Clusters of more than two do not fill a GPU's GPCs of up to 18
/// SMs.
pub(super) fn at_once(plan: &HopperPlan, gpu: &HopperGpu) -> usize {
    if plan.shape.cluster.ctas() > 2 { gpu.sms * 7 / 8 } else { gpu.sms }
}

/// Part of the weight that is still in L2 when the kernel runs again: all of a small one, none of one that
/// fills it.
fn hit_rate(problem: &Problem, gpu: &HopperGpu) -> f64 {
    let (all, none) = (gpu.l2 as f64 * 3.0 / 5.0, gpu.l2 as f64 * 5.0 / 6.0);
    ((none - problem.n as f64 * problem.k as f64) / (none - all)).clamp(0.0, 1.0)
}

fn blocks_of_results(plan: &HopperPlan) -> f64 {
    let GpuTile { a, b } = plan.shape.tile;
    (a * b) as f64 / 1024.0
}

fn split_parts(plan: &HopperPlan) -> usize {
    match plan.shape.cluster {
        ClusterMode::SplitK(parts) => parts,
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
