//! Plans for NVIDIA Hopper GPUs.
//!
//! A wgmma multiplies 64 rows of operand A with up to 256 rows of operand B. Usually x is A and the weight is
//! B; with few rows of x the plan swaps them, so that the weight fills the 64 rows.
//!
//! A plan holds every number of a kernel: tile, cluster, pipeline stages, shared memory, barrier arrivals,
//! the register split between producer and consumers, and how many CTAs go through the tiles in which order.

mod arguments;
mod choose;
mod launch;
mod quantization;
mod roles;
mod rules;
mod shared_memory;
mod soundness;
mod tile_config;
mod time;

pub use arguments::{Arguments, COPIED_AT_ONCE, NUMBERS};
pub use choose::{candidates, is_candidate};
pub use launch::LaunchConfig;
pub use quantization::{
    CachePriority, QUANTIZE_NUMBERS, QUANTIZE_SHARED_BYTES, QuantizeLaunch, QuantizePlan, QuantizeTuning,
    quantize_numbers,
};
pub use roles::RegisterSplit;
use rules::{
    chunks_per_part, ctas_needed, needs_few_sms, operand_rows, operand_stays, overlaps_stages, release,
    result_path, shares_sm, stores_vectors, touches_three_scales, units, w_scales_per_stage, waves,
    weight_stays,
};
pub use shared_memory::Exchange;
use shared_memory::shared_memory;
pub use tile_config::{ClusterMode, GpuTile, TileConfig};
pub use time::{ExpectedTime, GpuLimit, TimeModel};

use serde::{Deserialize, Serialize};

use super::{MemoryMap, MemorySpace, PlanError, require_countable};
use crate::{ActivationKind, FloatKind, Problem, Strategy, device::hopper::HopperGpu};

/// The epilogue: how results get from registers to global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultPath {
    /// Straight from registers.
    Direct,
    /// Warps transpose subtiles through shared memory and store whole 128-byte lines.
    Lines,
    /// As `Lines` where rows are not aligned: warps store neighbouring results one by one.
    Elements,
    /// Consumers write the tile to shared memory; TMA stores it while the next tile is computed.
    TmaStore,
    /// As `TmaStore` for a CTA's only tile: each wave but the last is stored while the next one is
    /// multiplied.
    TmaStoreByWave,
    /// As `TmaStore`, issued by the producer warp, which interleaves the stores with its loads of the next
    /// tile.
    TmaStoreByProducer,
}

impl ResultPath {
    /// Whether TMA stores the results.
    pub const fn uses_tma_store(self) -> bool {
        matches!(self, Self::TmaStore | Self::TmaStoreByWave | Self::TmaStoreByProducer)
    }
}

/// Which consumer threads arrive on a stage's empty barrier to release it to the producers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Release {
    /// One thread per warp, after a warp barrier.
    Warp,
    /// One thread per warpgroup, after a warpgroup barrier.
    Warpgroup,
    /// Every thread. Slow, but `compute-sanitizer --tool racecheck` cannot see one thread arrive for others.
    Thread,
}

/// Everything that a Hopper kernel is generated from.
///
/// Deserializing a plan rebuilds it and rejects any field that differs, so a plan read from a file is one
/// that the constructors make.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HopperPlan {
    /// What is multiplied.
    pub problem: Problem,
    /// The GPU, by name in a file.
    #[serde(with = "crate::device::hopper::by_name")]
    pub gpu: HopperGpu,
    /// How the data moves.
    pub strategy: Strategy,
    /// Tile, operand order, cluster.
    pub shape: TileConfig,
    /// Cluster tiles along A and B, the units of scheduling: the tile of a CTA, or the two tiles of a
    /// multicast cluster.
    pub units: (usize, usize),
    /// Pipeline stages in shared memory.
    pub stages: usize,
    /// Consumer warpgroups.
    pub consumers: usize,
    /// K elements that wgmma accumulate in the tensor cores before the result is promoted, scaled, to f32.
    pub promote_every: usize,
    /// Whether the wgmma of a stage are in flight while the previous stage is promoted.
    pub overlaps_stages: bool,
    /// Who releases stages.
    pub release: Release,
    /// How results get to global memory.
    pub result_path: ResultPath,
    /// CTAs that are resident on one SM.
    pub blocks_per_sm: usize,
    /// CTAs of the grid.
    pub blocks: usize,
    /// Whether weight loads have L2 priority evict-first: the weight is read once and does not fit.
    pub streams_weight: bool,
    /// Width of a raster group: cluster tiles along A that are scheduled before the next one along B
    /// (Triton's `GROUP_SIZE_M`), so that concurrent CTAs share operand rows in L2.
    pub raster: usize,
    /// Buffers in shared memory.
    pub memory: MemoryMap,
}

/// K elements of a stage: one row of the 128-byte swizzle.
pub const STAGE_K: usize = 128;
/// Supported promotion intervals.
pub const PROMOTIONS: [usize; 5] = [32, 64, STAGE_K, 256, 512];
/// Rows of A of one wgmma. A warpgroup multiplies its rows in waves of so many.
pub const WAVE_ROWS: usize = 64;
/// Most rows of B whose accumulators, wgmma and promoted, fit in a thread's registers.
const WIDEST_WAVE: usize = 192;
/// Rows of the subtiles in which a warp stages results: see [`RESULT_COLUMNS`].
pub const RESULT_ROWS: usize = 16;
/// Columns of those subtiles: a 128-byte line of 16-bit results.
pub const RESULT_COLUMNS: usize = 64;
/// More stages hide no more latency.
const MOST_STAGES: usize = 12;

impl HopperPlan {
    /// The plan with the least expected time.
    pub fn best(problem: &Problem, gpu: &HopperGpu, strategy: Strategy) -> Result<Self, PlanError> {
        match strategy {
            Strategy::Strip => choose::best(problem, gpu),
            _ => Self::new(problem, gpu, strategy, TileConfig::PLAIN, None),
        }
    }

    /// The plans of `strip` that a search tries, the default one first.
    pub fn candidates(problem: &Problem, gpu: &HopperGpu) -> Result<Vec<Self>, PlanError> {
        choose::ranked(problem, gpu)
    }

    /// The time that the model expects, and what limits it.
    pub fn expected_time(&self) -> ExpectedTime {
        TimeModel::H200.expected_time(self, &self.gpu)
    }

    /// A plan with the given shape; `stages: None` takes as many as fit in shared memory.
    pub fn new(
        problem: &Problem,
        gpu: &HopperGpu,
        strategy: Strategy,
        shape: TileConfig,
        stages: Option<usize>,
    ) -> Result<Self, PlanError> {
        if let ActivationKind::Plain(_) = problem.x {
            return Err(PlanError::PlainActivations { device: gpu.name });
        }
        let Problem { m, n, k, .. } = *problem;
        for (what, count) in [("rows of x", m), ("rows of the weight", n), ("columns", k)] {
            require_countable(what, count)?;
        }
        // Two consumer warpgroups alternate on the tensor cores; a tile of 192 rows takes three.
        let consumers = match shape.tile.a / WAVE_ROWS {
            1 => 1,
            3 => 3,
            _ => 2,
        };
        let units = units(problem, shape);
        // A persistent CTA iterates over all tiles with a 31-bit index.
        require_countable("tiles", units.0.saturating_mul(units.1))?;
        let ctas = ctas_needed(units, shape);
        let shares_sm = strategy == Strategy::Strip && shares_sm(problem, shape, consumers, ctas > gpu.sms);
        let blocks_per_sm = if shares_sm { 2 } else { 1 };
        let has_sm_to_itself = blocks_per_sm == 1 || ctas <= gpu.sms;
        let one_tile_each = ctas <= gpu.sms * blocks_per_sm;
        let result_path = result_path(problem, strategy, shape, consumers, one_tile_each);
        let with = |stages: usize| {
            let mut plan = Self {
                problem: *problem,
                gpu: *gpu,
                strategy,
                shape,
                units,
                stages,
                consumers,
                promote_every: STAGE_K,
                overlaps_stages: strategy == Strategy::Strip
                    && overlaps_stages(problem, shape, consumers, has_sm_to_itself),
                release: release(strategy, shape, consumers),
                result_path,
                blocks_per_sm,
                blocks: 0,
                streams_weight: false,
                raster: 1,
                memory: shared_memory(problem, strategy, shape, result_path, consumers, stages),
            };
            plan.schedule(gpu);
            plan
        };
        let available = (gpu.shared_memory_per_sm / blocks_per_sm - HopperGpu::SHARED_RESERVE)
            .min(gpu.shared_memory_per_block);
        let fits = |plan: &Self| plan.memory.require(MemorySpace::Shared, available, strategy, gpu.name);
        let plan = match (strategy, stages) {
            (Strategy::Auto, _) => with(2),
            (_, Some(stages @ ..2)) => return Err(PlanError::TooFewStages { stages }),
            (_, Some(stages)) => with(stages),
            // If not even two stages fit, the error is about two.
            (_, None) => {
                (2..=MOST_STAGES).rev().map(with).find(|plan| fits(plan).is_ok()).unwrap_or_else(|| with(2))
            }
        };
        fits(&plan)?;
        require_countable("blocks", plan.blocks)?;
        if let ClusterMode::SplitK(parts) = shape.cluster
            && parts > plan.k_blocks()
        {
            return Err(PlanError::TooManyParts { parts, blocks: plan.k_blocks() });
        }
        if shape.cluster == ClusterMode::SplitTail && plan.shared_tiles() == 0 {
            return Err(PlanError::NoTail { tiles: units.0 * units.1, ctas: plan.blocks });
        }
        if shape.tile.b > WIDEST_WAVE {
            return Err(PlanError::TooWide { columns: shape.tile.b, most: WIDEST_WAVE });
        }
        if !shape.swapped && touches_three_scales(problem, shape) {
            return Err(PlanError::ThreeScales { columns: shape.tile.b });
        }
        Ok(plan)
    }

    /// The best plan that promotes accumulators every `every` K elements: the more often, the more exact.
    pub fn with_promotion(
        problem: &Problem,
        gpu: &HopperGpu,
        strategy: Strategy,
        every: usize,
    ) -> Result<Self, PlanError> {
        let refuse = |reason| Err(PlanError::Promotion { every, reason });
        if !PROMOTIONS.contains(&every) {
            return refuse("use 32, 64, 128, 256 or 512");
        }
        if every > problem.quant_block.size() {
            return refuse("scales change with every quantization block, so use at most its size");
        }
        let mut plan = Self::best(problem, gpu, strategy)?;
        if every == STAGE_K {
            return Ok(plan);
        }
        if strategy == Strategy::Auto {
            return refuse("`auto` always promotes every 128; choose `dma`, `smem` or `strip`");
        }
        // All waves use the same wgmma accumulators, so only one wave can carry a chain across stages.
        if every > STAGE_K && plan.waves() > 1 {
            plan = Self::new(problem, gpu, strategy, TileConfig::PLAIN, None)?;
        }
        Ok(Self { promote_every: every, overlaps_stages: false, ..plan })
    }

    /// The same plan with [`Release::Thread`], which racecheck can follow.
    pub fn for_racecheck(self) -> Self {
        Self { release: Release::Thread, ..self }
    }

    /// wgmma chains, each ending in a promotion, of a stage and wave.
    pub fn chains_per_stage(&self) -> usize {
        STAGE_K.div_ceil(self.promote_every)
    }

    /// Stages that a wgmma chain spans.
    pub fn stages_per_chain(&self) -> usize {
        self.promote_every.div_ceil(STAGE_K)
    }

    /// Decides the grid, the raster order and the weight's L2 priority.
    fn schedule(&mut self, gpu: &HopperGpu) {
        let (a, b) = self.units;
        let (cluster, per_unit) = (self.shape.cluster.ctas(), self.shape.cluster.ctas_per_unit());
        let slots = gpu.sms * self.blocks_per_sm / cluster * cluster / per_unit;
        let persistent =
            self.strategy == Strategy::Strip && !matches!(self.shape.cluster, ClusterMode::SplitK(_));
        let tiles = a * b;
        let at_once = if !persistent {
            tiles
        } else if needs_few_sms(&self.problem, self.shape.cluster) {
            tiles.div_ceil(tiles.div_ceil(slots))
        } else {
            tiles.min(slots)
        };
        self.blocks = per_unit * at_once;
        let x_units = if self.shape.swapped { b } else { a };
        self.streams_weight = x_units == 1 && !weight_stays(&self.problem, gpu);
        self.raster = if a <= slots && operand_stays(self.operand_rows().0, self.problem.k, gpu) {
            // All of A stays in L2, and B is read from HBM once.
            a
        } else {
            // Concurrent cluster tiles read the fewest rows when they form a square.
            let (unit_a, unit_b) = self.unit_rows();
            let fetched = |raster: usize| raster * unit_a + slots.div_ceil(raster) * unit_b;
            (1..=a.min(slots)).min_by_key(|&raster| fetched(raster)).unwrap_or(1)
        };
    }

    fn unit_rows(&self) -> (usize, usize) {
        let GpuTile { a, b } = self.shape.tile;
        match self.shape.cluster {
            ClusterMode::MulticastA => (a, 2 * b),
            ClusterMode::MulticastB => (2 * a, b),
            ClusterMode::Single | ClusterMode::SplitK(_) | ClusterMode::SplitTail => (a, b),
        }
    }

    /// Tiles that two CTAs share after the last full wave: those of [`ClusterMode::SplitTail`], which needs
    /// a full wave and two CTAs for each tile that is left.
    pub fn shared_tiles(&self) -> usize {
        let (tiles, ctas) = (self.units.0 * self.units.1, self.blocks);
        let left = tiles % ctas;
        let splits = self.shape.cluster == ClusterMode::SplitTail && tiles > ctas && 2 * left <= ctas;
        if splits { left } else { 0 }
    }

    /// Rows of operands A and B.
    pub fn operand_rows(&self) -> (usize, usize) {
        operand_rows(&self.problem, self.shape.swapped)
    }

    /// Rows of the TMA load boxes of A and B: with multicast, half of the shared operand's tile.
    pub fn fetched_rows(&self) -> (usize, usize) {
        let GpuTile { a, b } = self.shape.tile;
        match self.shape.cluster {
            ClusterMode::MulticastA => (a / 2, b),
            ClusterMode::MulticastB => (a, b / 2),
            ClusterMode::Single | ClusterMode::SplitK(_) | ClusterMode::SplitTail => (a, b),
        }
    }

    /// Rows of the TMA store box.
    pub fn stored_rows(&self) -> usize {
        if self.result_path == ResultPath::TmaStoreByProducer { WAVE_ROWS } else { RESULT_ROWS }
    }

    /// Waves of a consumer warpgroup: wgmma along A, 64 rows each, that it issues one after the other.
    pub fn waves(&self) -> usize {
        waves(self.shape, self.consumers)
    }

    /// Stages that cover K.
    pub fn k_blocks(&self) -> usize {
        self.problem.k.div_ceil(STAGE_K)
    }

    /// Rows of the tile that belong to x, and to the weight.
    pub fn x_and_w_rows(&self) -> (usize, usize) {
        let GpuTile { a, b } = self.shape.tile;
        if self.shape.swapped { (b, a) } else { (a, b) }
    }

    /// Weight scales in a stage: one per wave of A, or the two that a tile of B can touch.
    pub fn w_scales_per_stage(&self) -> usize {
        w_scales_per_stage(self.shape)
    }

    /// Columns of a tile at which its second weight scale can start; `None` stands for tiles with one scale.
    pub fn boundaries(&self) -> Vec<Option<usize>> {
        let columns = self.shape.tile.b;
        let quant = self.problem.quant_block.size();
        if self.shape.swapped || quant.is_multiple_of(columns) {
            return vec![None];
        }
        // Tile starts repeat modulo the quantization block after so many tiles at most.
        let tiles = self.operand_rows().1.div_ceil(columns).min(quant);
        let starts = (0..tiles).map(|tile| tile * columns);
        let boundary = |start: usize| Some(quant - start % quant).filter(|&boundary| boundary < columns);
        let mut boundaries: Vec<_> = starts.map(boundary).collect();
        boundaries.sort_unstable();
        boundaries.dedup();
        boundaries
    }

    /// Whether the main loop is specialized for each boundary of [`HopperPlan::boundaries`] instead of
    /// selecting scales at run time. Overlapping stages hide the selection.
    pub fn has_loop_per_boundary(&self) -> bool {
        !self.overlaps_stages && self.boundaries().len() > 2
    }

    /// Unroll factor of the main loop: two stages, four where loops are specialized, or one where there are
    /// so many of them that assembling them takes long.
    pub fn loop_unroll(&self) -> usize {
        match self.boundaries().len() {
            _ if !self.has_loop_per_boundary() => 2,
            ..=4 => 4,
            _ => 1,
        }
    }

    /// Chunks of 8 columns whose results the direct epilogue stores together.
    pub fn chunks_per_part(&self) -> usize {
        chunks_per_part(self.shape)
    }

    /// Whether four neighbouring results can be stored at once.
    pub fn stores_vectors(&self) -> bool {
        stores_vectors(&self.problem)
    }

    /// The element type of the result.
    pub fn out(&self) -> FloatKind {
        self.problem.out
    }
}

#[cfg(test)]
mod tests;
