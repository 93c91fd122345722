//! A performance model: what a kernel of `strip` costs, from its plan alone.
//!
//! Two things happen at once, and the slower one nearly decides: the SMs multiply, tile after tile, and the
//! weight comes from HBM or L2. Launches and clusters add to the former. A stream of kernels hides the start
//! of the next one behind the end of this one, but only where its CTAs find room beside this one's.

use std::fmt;

use serde::Serialize;

use super::{ClusterMode, GpuTile, HopperPlan, ResultPath, STAGE_K, WAVE_ROWS, ctas_needed};
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
    /// Issue per column: wgmma, and the shared memory that they and TMA occupy.
    pub column: f64,
    /// The same for the scales of x that every warp reads from there for each column, with swapped operands.
    pub swapped_column: f64,
    /// A stage, whatever its waves, with at most two consumer warpgroups.
    pub stage: f64,
    /// Factor of the issue time with three consumer warpgroups.
    pub three_consumers: f64,
    /// Factor where stages overlap and a tile can touch two weight scales, one of which each column selects.
    pub selecting: f64,
    /// Factor where two CTAs share an SM.
    pub shared_sm: f64,
    /// The same for CTAs of one cluster.
    pub packed_cluster: f64,
    /// Latency of a wave, stages overlapped, beside that of its columns.
    pub overlapped: f64,
    /// Latency per column: the wgmma alone.
    pub overlapped_column: f64,
    /// Latency of a wave, stages not overlapped, beside that of its columns.
    pub chain: f64,
    /// Latency per column: wgmma, then promotion.
    pub chain_column: f64,
    /// Rate at which all SMs together load tiles from L2.
    pub tile_loads: f64,
    /// How sharply the slower of multiplication and those loads decides: exponent of a norm.
    pub tile_sharpness: f64,
    /// Epilogue of a tile, whatever its size.
    pub tile: f64,
    /// Epilogue per block of results.
    pub results: f64,
    /// The same where rows of the result are aligned to four results, too few for whole lines and TMA.
    pub short_vectors: f64,
    /// The same where rows are not aligned, so that every result is stored alone, a row's neighbours at once.
    pub element_results: f64,
    /// The same straight from registers, neighbours of eight rows at once.
    pub ragged_results: f64,
    /// The same with swapped operands, whose threads store neighbouring results at the same time.
    pub ragged_swapped_results: f64,
    /// Factor of the latter with three consumer warpgroups, which do not all store at once.
    pub staggered: f64,
    /// A multicast cluster.
    pub multicast: f64,
    /// Every stage of it: its CTAs wait for one another.
    pub multicast_stage: f64,
    /// A cluster of two that splits K, beside the reduction.
    pub split: f64,
    /// Every further CTA of it.
    pub split_part: f64,
    /// Such clusters on all SMs.
    pub split_everywhere: f64,
    /// A tile that two CTAs share at the end, beside the reduction.
    pub tail: f64,
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
    /// Part of the weight that is read from HBM again by the tiles of other rows of x, if those are many.
    pub reread: f64,
    /// Start of the loads.
    pub first_load: f64,
    /// How sharply the slower of multiplication and loads decides: exponent of a norm.
    pub sharpness: f64,
}

impl TimeModel {
    /// Fitted to `bench/record/h200/plans*.csv`, measured on H200s: the shapes that the peers were timed on,
    /// the sample `fit`, and layers of widely served models, with up to 18 plans each. `cargo run
    /// --release -p octile-harness --example gpu_model` shows how well, and how well a fit without a shape
    /// tells the best plan of that shape.
    pub const H200: Self = Self {
        launch: 1000.0,
        late_launch: 342.0,
        late_cluster: 1030.0,
        wave: 43.4,
        column: 0.752,
        swapped_column: 0.941,
        stage: 19.9,
        three_consumers: 1.08,
        selecting: 1.08,
        shared_sm: 0.893,
        packed_cluster: 0.784,
        overlapped: 54.0,
        overlapped_column: 0.997,
        chain: 75.3,
        chain_column: 1.94,
        tile_loads: 15_000.0,
        tile_sharpness: 2.51,
        tile: 116.0,
        results: 41.7,
        short_vectors: 65.9,
        element_results: 140.0,
        ragged_results: 761.0,
        ragged_swapped_results: 148.0,
        staggered: 0.834,
        multicast: 887.0,
        multicast_stage: 18.2,
        split: 168.0,
        split_part: 34.3,
        split_everywhere: 468.0,
        tail: 465.0,
        reduction: 109.0,
        hbm: 1.11,
        hbm_latency: 1010.0,
        tpc: 82.2,
        l2: 6810.0,
        first_load: 777.0,
        sharpness: 4.29,
        reread: 0.82,
    };

    /// Expected time of a plan.
    pub fn expected_time(&self, plan: &HopperPlan, gpu: &HopperGpu) -> ExpectedTime {
        let work = self.multiplication(plan, gpu);
        let (load_ns, load_limit) = self.loads(plan, gpu);
        let overhead_ns = self.launch + self.cluster(plan, gpu);
        let multiplying = overhead_ns + work.busy_ns + work.idle_ns;
        let total_ns = slower(multiplying, self.first_load + load_ns, self.sharpness);
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
        // Of two narrow swapped CTAs on an SM, one multiplies while the other waits for its weight: nothing
        // but the tensor cores counts.
        let swapped = plan.shape.swapped;
        let shares = swapped && b <= NARROW && plan.blocks_per_sm == 2 && ctas > gpu.sms;
        let (wave, stage) = if shares { (0.0, 0.0) } else { (self.wave, self.stage) };
        let column = if swapped { self.column + self.swapped_column } else { self.column };
        let issue = waves * (wave + column * columns);
        let issue = if plan.consumers == 3 { self.three_consumers * issue } else { issue + stage };
        let selects = plan.overlaps_stages && plan.boundaries().len() > 1;
        let selecting = if selects { self.selecting } else { 1.0 };
        let is_packed = plan.blocks_per_sm == 2 && plan.shape.cluster.ctas() > 1;
        let factors = [(resident > 1.0, self.shared_sm), (is_packed, self.packed_cluster)];
        let applied = factors.into_iter().filter(|(applies, _)| *applies);
        let issue = selecting * issue * applied.map(|(_, factor)| factor).product::<f64>();
        let of_wave = if plan.overlaps_stages {
            selecting * (self.overlapped + self.overlapped_column * columns)
        } else {
            self.chain + self.chain_column * columns
        };
        let latency = waves / plan.consumers as f64 * of_wave / resident;
        let (fetched_a, fetched_b) = plan.fetched_rows();
        let fetched = ((fetched_a + fetched_b) * STAGE_K * ctas.min(slots)) as f64;
        let multicast = if plan.shape.cluster.is_multicast() { self.multicast_stage } else { 0.0 };
        let per_stage =
            slower(issue.max(latency), fetched / self.tile_loads, self.tile_sharpness) + multicast;
        let staggered = if plan.consumers == 3 { self.staggered } else { 1.0 };
        let results = match (plan.stores_vectors(), swapped) {
            (true, _) if plan.problem.n.is_multiple_of(8) => self.results,
            (true, _) => self.short_vectors,
            _ if plan.result_path == ResultPath::Elements => self.element_results,
            (false, false) => self.ragged_results,
            (false, true) => self.ragged_swapped_results,
        };
        let epilogue = (self.tile + results * staggered * blocks_of_results(plan)) / resident;
        let stages = plan.k_blocks().div_ceil(plan.shape.cluster.parts()) as f64;
        let round = stages * per_stage + epilogue;
        let busy_ns = ctas as f64 / slots as f64 * round;
        let shared_tiles = plan.shared_tiles();
        let total_ns = if shared_tiles > 0 {
            // As in split-K, each CTA receives half of a tile and stores half of it.
            let half = (stages / 2.0).ceil() * per_stage + epilogue / 2.0;
            let reduction = self.reduction * blocks_of_results(plan) / 2.0;
            (ctas / slots) as f64 * round + half + self.tail + reduction
        } else {
            rounds as f64 * round
        };
        Multiplication {
            busy_ns,
            idle_ns: (total_ns - busy_ns).max(0.0),
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
            ClusterMode::SplitTail => self.split + late * self.late_cluster,
            ClusterMode::SplitK(parts) => {
                let sent = 1.0 - 1.0 / parts as f64;
                let reduction = self.reduction * blocks_of_results(plan) * sent;
                let crowd = self.split_everywhere * (used / at_once(plan, gpu) as f64).min(1.0);
                let clusters = self.split + self.split_part * (parts - 2) as f64 + crowd;
                clusters + reduction + late * self.late_cluster
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
        let x_tiles = if plan.shape.swapped { plan.units.1 } else { plan.units.0 };
        let again = 1.0 + self.reread * (1.0 - hits) * (1.0 - 1.0 / x_tiles as f64);
        (again * (whole + left), if hits > 0.5 { GpuLimit::L2 } else { GpuLimit::Hbm })
    }
}

/// Columns up to which swapped tiles wait for nothing but their weight.
const NARROW: usize = 32;

/// The slower of two things that happen at once, and a little more where they take about as long.
fn slower(a: f64, b: f64, sharpness: f64) -> f64 {
    let largest = a.max(b);
    // Divided by the larger one, so that no time is too long to be raised to the exponent.
    largest * ((a / largest).powf(sharpness) + (b / largest).powf(sharpness)).powf(1.0 / sharpness)
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

#[cfg(test)]
mod tests;
