//! Plans for NVIDIA Hopper GPUs.
//!
//! The matrix instruction multiplies 64 rows of one operand, A, with up to 256 rows of the other, B. Usually x is A
//! and the weight is B; with few rows of x the plan swaps them, so that the weight fills the 64 rows.

mod arguments;
mod choose;
mod launch;
mod quantization;
mod rules;
mod shared_memory;
mod soundness;

pub use arguments::{Arguments, COPIED_AT_ONCE, NUMBERS, ScaleLayout};
pub use choose::candidates;
pub use launch::LaunchConfig;
pub use quantization::{QUANTIZE_NUMBERS, QUANTIZE_SHARED_BYTES, QuantizeLaunch, quantize_numbers};
use rules::{
    chunks_per_part, operand_rows, operand_stays, overlaps_stages, pieces, release, result_path, shares_sm,
    units, w_scales_per_stage, waves, weight_stays,
};
use shared_memory::shared_memory;

use serde::{Deserialize, Serialize};

use super::{MemoryMap, MemorySpace, PlanError};
use crate::{ActivationKind, FloatKind, Problem, Strategy, device::hopper::HopperGpu};

/// The part of the result that one thread block computes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct GpuTile {
    /// Rows of operand A.
    pub a: usize,
    /// Rows of operand B.
    pub b: usize,
}

/// How results get from the registers to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultPath {
    /// Straight.
    Direct,
    /// Through a piece of shared memory, so that stores cover whole lines.
    Lines,
    /// The tile through shared memory, from where the copy engine fetches it while the next tile is computed.
    TmaStore,
    /// The same for a block's only tile, piece by piece: the copy engine has all waves but the last before the last products are there.
    TmaStoreByWave,
    /// The tile through shared memory, of which the fetching warp has the copy engine take some pieces with every stage of the next tile
    /// that it asks for.
    TmaStoreByProducer,
}

impl ResultPath {
    /// Whether the copy engine stores results.
    pub const fn uses_tma_store(self) -> bool {
        matches!(self, Self::TmaStore | Self::TmaStoreByWave | Self::TmaStoreByProducer)
    }
}

/// What the blocks of a cluster do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClusterMode {
    /// Nothing: every block works alone.
    Single,
    /// Two blocks have the same rows of A: each fetches half of them for both.
    MulticastA,
    /// Two blocks have the same rows of B: each fetches half of them for both.
    MulticastB,
    /// The blocks have the same tile and divide K among them.
    SplitK(usize),
}

impl ClusterMode {
    /// Whether the blocks of a cluster fetch for one another.
    pub const fn is_multicast(self) -> bool {
        matches!(self, Self::MulticastA | Self::MulticastB)
    }

    /// Blocks of a cluster.
    pub const fn ctas(self) -> usize {
        match self {
            Self::Single => 1,
            Self::MulticastA | Self::MulticastB => 2,
            Self::SplitK(blocks) => blocks,
        }
    }
}

/// Which of the multiplying threads tell the fetching warps that a stage was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Release {
    /// One of every warp, for all its lanes.
    Warp,
    /// One of every warpgroup, once its warps have met.
    Warpgroup,
    /// Every one. Slow; `compute-sanitizer --tool racecheck` does not see that one arrives for others.
    Thread,
}

/// The choices that a plan is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct TileConfig {
    /// The tile of a block.
    pub tile: GpuTile,
    /// Whether the weight is operand A.
    pub swapped: bool,
    /// What a cluster is for.
    pub cluster: ClusterMode,
}

impl TileConfig {
    /// The shape that every strategy but `strip` has: its differences from its neighbours are elsewhere.
    pub const PLAIN: Self =
        Self { tile: GpuTile { a: 128, b: 128 }, swapped: false, cluster: ClusterMode::Single };
}

/// Everything that a Hopper kernel needs to know about its shape.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HopperPlan {
    /// What is multiplied.
    pub problem: Problem,
    /// How the data moves.
    pub strategy: Strategy,
    /// Tile, operand order, cluster.
    pub shape: TileConfig,
    /// Units of work along A and B: tiles, or pairs of tiles that a cluster computes.
    pub units: (usize, usize),
    /// Stages of the shared-memory ring.
    pub stages: usize,
    /// Warpgroups that multiply.
    pub consumers: usize,
    /// Products that the tensor cores add up before they are added, scaled, to f32 sums.
    pub promote_every: usize,
    /// Whether the products of a stage are on their way while those of the one before are added to the sums.
    pub overlaps_stages: bool,
    /// How stages are handed back.
    pub release: Release,
    /// How results get to memory.
    pub result_path: ResultPath,
    /// Blocks that share a multiprocessor.
    pub blocks_per_sm: usize,
    /// Blocks that are launched.
    pub blocks: usize,
    /// Whether the weight passes through the second-level cache once and is too large to stay: then its lines are the first to go.
    pub streams_weight: bool,
    /// Units along A that are worked on side by side, so that their rows of B are read from memory once.
    pub raster: usize,
    /// Buffers in shared memory.
    pub memory: MemoryMap,
}

/// Depth of a stage: one row of the 128-byte swizzle.
pub const STAGE_K: usize = 128;
/// How long chains of products can be.
pub const PROMOTIONS: [usize; 5] = [32, 64, STAGE_K, 256, 512];
/// Rows of A that one matrix instruction takes.
pub const WAVE_ROWS: usize = 64;
/// Most rows of B whose sums, twice, fit in a thread's registers.
const WIDEST_WAVE: usize = 192;
/// Rows and columns of the pieces in which a warp has results in shared memory: lines of 128 bytes.
pub const RESULT_ROWS: usize = 16;
/// See [`RESULT_ROWS`].
pub const RESULT_COLUMNS: usize = 64;
/// More stages than this hide no more latency.
const MOST_STAGES: usize = 12;

impl HopperPlan {
    /// The plan that is expected to be fastest.
    pub fn best(problem: &Problem, gpu: &HopperGpu, strategy: Strategy) -> Result<Self, PlanError> {
        match strategy {
            Strategy::Strip => choose::best(problem, gpu),
            _ => Self::new(problem, gpu, strategy, TileConfig::PLAIN, None),
        }
    }

    /// A plan with the given shape. `stages: None` takes as many as fit.
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
        // Two warpgroups multiply in turns, three where that makes a tile of 192 rows.
        let consumers = match shape.tile.a / WAVE_ROWS {
            1 => 1,
            3 => 3,
            _ => 2,
        };
        let units = units(problem, shape);
        // A persistent CTA iterates over all tiles with a 32-bit index.
        require_countable("tiles", units.0.saturating_mul(units.1))?;
        let pieces = pieces(units, shape);
        let shares_sm = strategy == Strategy::Strip && shares_sm(problem, shape, consumers, pieces > gpu.sms);
        let blocks_per_sm = if shares_sm { 2 } else { 1 };
        let has_sm_to_itself = blocks_per_sm == 1 || pieces <= gpu.sms;
        let one_tile_each = pieces <= gpu.sms * blocks_per_sm;
        let result_path = result_path(problem, strategy, shape, consumers, one_tile_each);
        let with = |stages: usize| {
            let mut plan = Self {
                problem: *problem,
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
            // Two stages are the least that overlap; when even they do not fit, the refusal is about them.
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
        if shape.tile.b > WIDEST_WAVE {
            return Err(PlanError::TooWide { columns: shape.tile.b, most: WIDEST_WAVE });
        }
        Ok(plan)
    }

    /// The fastest plan that adds products to the f32 sums every `every` of K: the fewer at a time, the more exact.
    pub fn with_promotion(
        problem: &Problem,
        gpu: &HopperGpu,
        strategy: Strategy,
        every: usize,
    ) -> Result<Self, PlanError> {
        let refuse = |reason| Err(PlanError::Promotion { every, reason });
        if !PROMOTIONS.contains(&every) {
            return refuse("give 32, 64, 128, 256 or 512");
        }
        if every > problem.quant_block.size() {
            return refuse("it is more than the quantization block, and scales change from block to block");
        }
        let mut plan = Self::best(problem, gpu, strategy)?;
        if every == STAGE_K {
            return Ok(plan);
        }
        if strategy == Strategy::Auto {
            return refuse("`auto` does so with every stage of 128: choose `dma`, `smem` or `strip`");
        }
        // Waves take turns in the registers of unfinished chains, so a chain that outlives a stage needs one wave.
        if every > STAGE_K && plan.waves() > 1 {
            plan = Self::new(problem, gpu, strategy, TileConfig::PLAIN, None)?;
        }
        Ok(Self { promote_every: every, overlaps_stages: false, ..plan })
    }

    /// The same plan with every thread handing stages back: what racecheck can follow.
    pub fn for_racecheck(self) -> Self {
        Self { release: Release::Thread, ..self }
    }

    /// Arrivals that hand a stage back to one block: those of the blocks that it fetches for, and of all its own threads where
    /// each arrives for itself.
    pub fn releases_per_stage(&self) -> usize {
        let shares = self.shape.cluster.is_multicast();
        let blocks = if shares { 2 } else { 1 };
        let per_warpgroup = match self.release {
            Release::Warp => 4 * blocks,
            Release::Warpgroup => blocks,
            Release::Thread if shares => 128 + 4 * blocks,
            Release::Thread => 128,
        };
        self.consumers * per_warpgroup
    }

    /// Whether one warp fetches operands and scales. Every warp that waits takes something from those that multiply: beside three
    /// warpgroups that is worth more than stages that are fetched a little sooner, and a weight that is fetched while the kernel before
    /// still runs.
    pub fn fetches_with_one_warp(&self) -> bool {
        self.strategy == Strategy::Strip && self.consumers == 3
    }

    /// Chains of products that a stage has.
    pub fn chains_per_stage(&self) -> usize {
        STAGE_K.div_ceil(self.promote_every)
    }

    /// Stages that a chain of products goes through.
    pub fn stages_per_chain(&self) -> usize {
        self.promote_every.div_ceil(STAGE_K)
    }

    /// Decides how many blocks run and in which order they take their work.
    fn schedule(&mut self, gpu: &HopperGpu) {
        let (a, b) = self.units;
        let cluster = self.shape.cluster.ctas();
        let slots = gpu.sms * self.blocks_per_sm / cluster;
        let persistent =
            self.strategy == Strategy::Strip && !matches!(self.shape.cluster, ClusterMode::SplitK(_));
        self.blocks = cluster * if persistent { (a * b).min(slots) } else { a * b };
        let x_units = if self.shape.swapped { b } else { a };
        self.streams_weight = x_units == 1 && !weight_stays(&self.problem, gpu);
        self.raster = if a <= slots && operand_stays(self.operand_rows().0, self.problem.k, gpu) {
            // Then B is read from memory once.
            a
        } else {
            // The rows that the running units read are fewest when they form a square.
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
            ClusterMode::Single | ClusterMode::SplitK(_) => (a, b),
        }
    }

    /// Rows of operands A and B of the whole problem.
    pub fn operand_rows(&self) -> (usize, usize) {
        operand_rows(&self.problem, self.shape.swapped)
    }

    /// Rows of A and B that a block asks the copy engine for: in a sharing cluster, half of what is shared.
    pub fn fetched_rows(&self) -> (usize, usize) {
        let GpuTile { a, b } = self.shape.tile;
        match self.shape.cluster {
            ClusterMode::MulticastA => (a / 2, b),
            ClusterMode::MulticastB => (a, b / 2),
            ClusterMode::Single | ClusterMode::SplitK(_) => (a, b),
        }
    }

    /// Rows of results that the copy engine stores at a time.
    pub fn stored_rows(&self) -> usize {
        if self.result_path == ResultPath::TmaStoreByProducer { WAVE_ROWS } else { RESULT_ROWS }
    }

    /// Groups of 64 rows of A that each multiplying warpgroup has: it multiplies one after the other.
    pub fn waves(&self) -> usize {
        waves(self.shape, self.consumers)
    }

    /// Stages that cover K.
    pub fn k_blocks(&self) -> usize {
        self.problem.k.div_ceil(STAGE_K)
    }

    /// Threads of a block: the multiplying warpgroups, and those that fetch.
    pub fn threads(&self) -> usize {
        let fetching = match (self.strategy, self.consumers) {
            (Strategy::Auto, _) => 0,
            // A whole warpgroup, because registers are handed over by the warpgroup.
            (_, 2..) => 128,
            _ => 64,
        };
        128 * self.consumers + fetching
    }

    /// Rows of the tile that belong to x, and to the weight.
    pub fn x_and_w_rows(&self) -> (usize, usize) {
        let GpuTile { a, b } = self.shape.tile;
        if self.shape.swapped { (b, a) } else { (a, b) }
    }

    /// Weight scales that a stage holds: one per 64 rows of A, or the two that a tile of B can touch.
    pub fn w_scales_per_stage(&self) -> usize {
        w_scales_per_stage(self.shape)
    }

    /// Where in the tiles of this problem a second weight scale begins, counted in columns from a tile's first: `None` for
    /// tiles that have one scale.
    pub fn boundaries(&self) -> Vec<Option<usize>> {
        let columns = self.shape.tile.b;
        let quant = self.problem.quant_block.size();
        if self.shape.swapped || quant.is_multiple_of(columns) {
            return vec![None];
        }
        // After so many tiles at most, one begins where a quantization block does.
        let tiles = self.operand_rows().1.div_ceil(columns).min(quant);
        let starts = (0..tiles).map(|tile| tile * columns);
        let boundary = |start: usize| Some(quant - start % quant).filter(|&boundary| boundary < columns);
        let mut boundaries: Vec<_> = starts.map(boundary).collect();
        boundaries.sort_unstable();
        boundaries.dedup();
        boundaries
    }

    /// Whether the kernel has a loop for each place where a second weight scale begins, instead of one that chooses: stages that overlap
    /// hide the choice.
    pub fn has_loop_per_boundary(&self) -> bool {
        !self.overlaps_stages && self.boundaries().len() > 2
    }

    /// Stages that a turn of a loop multiplies: two, but one where there are so many loops that compiling them takes long.
    pub fn stages_per_turn(&self) -> usize {
        if self.has_loop_per_boundary() && self.boundaries().len() > 3 { 1 } else { 2 }
    }

    /// Chunks of 8 columns whose results are stored together.
    pub fn chunks_per_part(&self) -> usize {
        chunks_per_part(self.shape)
    }

    /// Whether four neighbouring results can be stored at once.
    pub fn stores_vectors(&self) -> bool {
        self.problem.n.is_multiple_of(4)
    }

    /// The element type of the result.
    pub fn out(&self) -> FloatKind {
        self.problem.out
    }
}

/// Kernels count in 32 bits, and leave one of them free.
fn require_countable(what: &'static str, count: usize) -> Result<(), PlanError> {
    const MOST: usize = i32::MAX as usize;
    if count == 0 {
        Err(PlanError::Empty { what })
    } else if count > MOST {
        Err(PlanError::TooLarge { what, count, most: MOST })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
