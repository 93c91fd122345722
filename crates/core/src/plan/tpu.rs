//! Plans for TPU kernels: tile, grid, memory map, and what the compiler is told.

mod extents;
mod lanes;
mod memory;
mod mxus;
mod rows;
mod tile;
mod weights;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize};

pub use self::{
    memory::DOUBLE_BUFFERED,
    mxus::{Load, MxuPipeline, Place, Turn},
    rows::RowPipeline,
    weights::WeightPipeline,
};
use super::{
    BufferId, ElementType, MemoryMap, MemorySpace, PlanError, PlannedBuffer, rebuilt, require_countable,
};
use crate::{
    ActivationKind, FloatKind, Problem, ScaleGranularity, Strategy,
    device::tpu::{Fp8Support, TpuChip},
};

/// Extents along M, N and K.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Dims {
    /// Rows of x.
    pub m: usize,
    /// Rows of w.
    pub n: usize,
    /// Columns of both.
    pub k: usize,
}

impl Dims {
    /// The product of the extents. Saturates.
    pub fn volume(self) -> usize {
        self.m.saturating_mul(self.n).saturating_mul(self.k)
    }
}

impl fmt::Display for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}x{}x{}", self.m, self.n, self.k))
    }
}

/// Tile size in quantization blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BlockMode {
    /// Whichever of the others the cycle model prefers. Planning resolves it: no plan has this mode.
    #[default]
    Auto,
    /// A tile is one quantization block (along K, of a strip: all of them).
    Aligned,
    /// A tile is many quantization blocks, processed one after another.
    Large,
}

impl BlockMode {
    /// The modes that a plan can have.
    pub const ALL: [Self; 2] = [Self::Aligned, Self::Large];
}

impl fmt::Display for BlockMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Auto => "auto",
            Self::Aligned => "aligned",
            Self::Large => "large",
        })
    }
}

/// An unknown block mode.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown block mode '{0}': expected auto, aligned or large")]
pub struct UnknownBlockMode(String);

impl FromStr for BlockMode {
    type Err = UnknownBlockMode;

    fn from_str(text: &str) -> Result<Self, UnknownBlockMode> {
        [Self::Auto, Self::Aligned, Self::Large]
            .into_iter()
            .find(|mode| mode.to_string().eq_ignore_ascii_case(text))
            .ok_or_else(|| UnknownBlockMode(text.to_owned()))
    }
}

/// What the MXUs multiply; it decides where scales are applied and what is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arithmetic {
    /// 8-bit codes; the f32 product of every k-block is scaled.
    Fp8,
    /// Unquantized activations and weight codes widened to their type, which is exact; scales as with
    /// `Fp8`.
    Widened,
    /// Both operands scaled in f32, rounded to bf16 once, and multiplied over all of the tile's K.
    Dequantized,
}

/// The cost estimate that the compiler is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostEstimate {
    /// Multiplications and additions.
    pub flops: usize,
    /// Bytes between HBM and the chip.
    pub bytes_accessed: usize,
}

/// Everything that a TPU kernel needs to know.
///
/// Deserializing a plan rebuilds it and rejects any field that differs, so a plan read from a file is one
/// that the constructors make.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TpuPlan {
    /// What is multiplied.
    pub problem: Problem,
    /// The chip.
    pub chip: &'static TpuChip,
    /// How the data moves.
    pub strategy: Strategy,
    /// Aligned or large tiles, never [`BlockMode::Auto`].
    pub mode: BlockMode,
    /// What the MXUs multiply.
    pub arithmetic: Arithmetic,
    /// The problem, padded to whole tiles.
    pub padded: Dims,
    /// Tile of one grid step.
    pub tile: Dims,
    /// Tiles along each dimension.
    pub grid: Dims,
    /// Rows and columns of one matmul inside a tile.
    pub chunk: (usize, usize),
    /// The weight pipeline of a strip kernel that keeps x in VMEM; `None` where the compiler pipelines the
    /// weights.
    pub weight_pipeline: Option<WeightPipeline>,
    /// The pipeline of rows of a strip kernel that keeps w in VMEM instead.
    pub row_pipeline: Option<RowPipeline>,
    /// The pipeline of a strip kernel that assigns matmuls to MXUs.
    pub mxu_pipeline: Option<MxuPipeline>,
    /// Whether activations that the kernel quantizes, or dequantizes slowly, stay in VMEM for the whole row
    /// of tiles.
    pub keeps_quantized_x: bool,
    /// Whether codes of x lie along the lanes of the MXUs, and weights stream past them.
    pub rows_in_lanes: bool,
    /// Buffers in VMEM and SMEM.
    pub memory: MemoryMap,
    /// DMA semaphores of the kernel; the compiler adds its own for the operands that it pipelines.
    pub semaphores: usize,
    /// VMEM to request from the compiler, in bytes.
    pub vmem_limit: usize,
    /// Work.
    pub cost: CostEstimate,
}

/// The fields that all others of a plan follow from.
#[derive(Deserialize)]
struct TpuChoices {
    problem: Problem,
    chip: &'static TpuChip,
    strategy: Strategy,
    mode: BlockMode,
    tile: Dims,
}

impl<'de> Deserialize<'de> for TpuPlan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // With the tile of the document, so that a file cannot ask for a search over tiles.
        rebuilt(deserializer, |TpuChoices { problem, chip, strategy, mode, tile }| {
            Self::with_tile(&problem, chip, strategy, mode, tile).ok()
        })
    }
}

/// What streams past what stays in VMEM.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Streams {
    /// Rows of x past all of w, if the problem allows it.
    Rows,
    /// Weights past x.
    Weights,
    /// Weights past codes of x along the lanes.
    WeightsPastLanes,
    /// Weights past x, with matmuls that the kernel assigns to MXUs.
    WeightsToMxus,
}

impl TpuPlan {
    /// The best plan for a problem.
    pub fn new(
        problem: &Problem,
        chip: &'static TpuChip,
        strategy: Strategy,
        mode: BlockMode,
    ) -> Result<Self, PlanError> {
        if mode == BlockMode::Auto {
            return Self::with_best_mode(problem, chip, strategy);
        }
        require_supported(problem, chip)?;
        let tile = tile::choose(problem, chip, strategy, mode);
        Self::with_tile(problem, chip, strategy, mode, tile)
    }

    /// Every plan that the cycle model chooses among, the default one first.
    pub fn candidates(problem: &Problem, chip: &'static TpuChip, strategy: Strategy) -> Vec<Self> {
        if require_supported(problem, chip).is_err() {
            return Vec::new();
        }
        let default = Self::new(problem, chip, strategy, BlockMode::Auto);
        let tiles = tile::candidates(problem, chip, strategy).into_iter();
        let mut plans: Vec<Self> = default.into_iter().collect();
        for tile in tiles {
            if plans.iter().all(|plan| plan.tile != tile) {
                plans.extend(Self::with_tile(problem, chip, strategy, BlockMode::Auto, tile));
            }
        }
        plans
    }

    /// The plan with the fewest modelled cycles; aligned tiles where large ones gain nothing.
    fn with_best_mode(
        problem: &Problem,
        chip: &'static TpuChip,
        strategy: Strategy,
    ) -> Result<Self, PlanError> {
        let [aligned, large] = BlockMode::ALL.map(|mode| Self::new(problem, chip, strategy, mode));
        match (aligned, large) {
            (Ok(aligned), Ok(large)) => {
                let gains = large.modelled_cycles() < aligned.modelled_cycles();
                Ok(if gains { large } else { aligned })
            }
            (Ok(plan), Err(_)) | (Err(_), Ok(plan)) => Ok(plan),
            (Err(error), Err(_)) => Err(error),
        }
    }

    /// A plan with tiles of a given size. With [`BlockMode::Auto`], the size decides the mode.
    pub fn with_tile(
        problem: &Problem,
        chip: &'static TpuChip,
        strategy: Strategy,
        mode: BlockMode,
        tile: Dims,
    ) -> Result<Self, PlanError> {
        require_supported(problem, chip)?;
        require_whole_blocks(problem, strategy, tile)?;
        let mode = match mode {
            BlockMode::Auto if tile == tile::aligned(problem) => BlockMode::Aligned,
            BlockMode::Auto => BlockMode::Large,
            mode => mode,
        };
        let plan = Self::lay_out(problem, chip, strategy, mode, tile);
        let (budget, usable) = (memory::vmem_budget(&plan), memory::usable_vmem(chip));
        plan.memory.require(MemorySpace::Smem, chip.usable_smem(), strategy, chip.name)?;
        plan.memory.require_budget(MemorySpace::Vmem, budget, usable, strategy, chip.name)?;
        Ok(plan)
    }

    /// All figures of a plan, whether or not it fits. Where one step holds all of x and w, either may stream
    /// past the other; past few rows, weights may stream with the rows along the lanes.
    fn lay_out(
        problem: &Problem,
        chip: &'static TpuChip,
        strategy: Strategy,
        mode: BlockMode,
        tile: Dims,
    ) -> Self {
        let streaming = |streams| Self::streaming(problem, chip, strategy, mode, tile, streams);
        let mut plan = streaming(Streams::Rows);
        let one_step = plan.row_pipeline.is_some() && plan.grid.m == 1;
        let scales_products = plan.arithmetic != Arithmetic::Dequantized && rows::has_small_blocks(problem);
        let others = [
            (one_step && !scales_products, Streams::Weights),
            (lanes::may(problem, chip, strategy, tile), Streams::WeightsPastLanes),
            (tile.m > tile::FEW_ROWS, Streams::WeightsToMxus),
        ];
        for (_, streams) in others.into_iter().filter(|(may, _)| *may) {
            let other = streaming(streams);
            let streams_weights = match streams {
                Streams::WeightsToMxus => other.mxu_pipeline.is_some(),
                _ => other.weight_pipeline.is_some(),
            };
            let fits = memory::vmem_budget(&other) <= memory::usable_vmem(chip);
            if streams_weights && fits && other.modelled_cycles() < plan.modelled_cycles() {
                plan = other;
            }
        }
        plan
    }

    fn streaming(
        problem: &Problem,
        chip: &'static TpuChip,
        strategy: Strategy,
        mode: BlockMode,
        tile: Dims,
        streams: Streams,
    ) -> Self {
        let mut grid = Dims {
            m: problem.m.div_ceil(tile.m),
            n: problem.n.div_ceil(tile.n),
            k: problem.k.div_ceil(tile.k),
        };
        let padded = Dims { m: grid.m * tile.m, n: grid.n * tile.n, k: grid.k * tile.k };
        let row_pipeline = match streams {
            Streams::Rows => rows::pipeline(problem, chip, strategy, tile, padded),
            Streams::Weights | Streams::WeightsPastLanes | Streams::WeightsToMxus => None,
        };
        let mxu_pipeline = match streams {
            Streams::WeightsToMxus => mxus::pipeline(problem, chip, strategy, tile, padded),
            _ => None,
        };
        if let Some(pipeline) = mxu_pipeline {
            grid.n = mxus::steps(problem, tile, pipeline.beside);
        }
        let in_lanes = streams == Streams::WeightsPastLanes;
        let weight_pipeline = match row_pipeline {
            _ if mxu_pipeline.is_some() => None,
            Some(_) => None,
            None => weights::pipeline(problem, chip, strategy, tile, padded, in_lanes),
        };
        let few_rows = weight_pipeline.is_some() && (padded.m <= tile::FEW_ROWS || in_lanes);
        let arithmetic = match (mxu_pipeline, row_pipeline) {
            (Some(_), _) => Arithmetic::Dequantized,
            (None, Some(_)) => rows::arithmetic(problem, tile),
            (None, None) => arithmetic(problem, strategy, few_rows),
        };
        let mut plan = Self {
            problem: *problem,
            chip,
            strategy,
            mode,
            arithmetic,
            padded,
            tile,
            grid,
            chunk: match (mxu_pipeline, row_pipeline) {
                (Some(pipeline), _) => (pipeline.rows, tile::CHUNK),
                (None, Some(_)) => rows::chunk(problem, tile),
                (None, None) if in_lanes => lanes::chunk(tile),
                (None, None) => tile::chunk(problem, strategy, arithmetic, tile, weight_pipeline.is_some()),
            },
            weight_pipeline,
            row_pipeline,
            mxu_pipeline,
            keeps_quantized_x: false,
            rows_in_lanes: in_lanes && weight_pipeline.is_some(),
            memory: MemoryMap::default(),
            semaphores: match strategy {
                // One per buffer and operand: x, w_q, w_scale, x_scale, out.
                Strategy::Dma | Strategy::Smem => DOUBLE_BUFFERED * 5,
                Strategy::Strip | Strategy::Auto => 0,
            },
            vmem_limit: 0,
            cost: CostEstimate { flops: padded.volume().saturating_mul(2), bytes_accessed: 0 },
        };
        // Repeating the scales of rows along the lanes takes longer than the rest of dequantizing.
        let slow = arithmetic == Arithmetic::Dequantized
            && problem.x.granularity() == Some(ScaleGranularity::Token)
            && grid.k == 1
            && weight_pipeline.is_none()
            && mxu_pipeline.is_none()
            && tile.n < tile::HIDES_SCALING;
        plan.keeps_quantized_x = (plan.quantizes_x() || slow) && grid.n > 1;
        weights::cut(&mut plan);
        if let Some(pipeline) = mxu_pipeline {
            plan.semaphores = mxus::semaphores(&plan, pipeline);
        } else if let Some(pipeline) = row_pipeline {
            plan.semaphores = rows::semaphores(&plan, pipeline);
        } else if let Some(pipeline) = plan.weight_pipeline {
            // One per stage; both parts of x, the scales of both operands and the result.
            plan.semaphores = pipeline.stages + 5 + usize::from(plan.short_columns().is_some());
        }
        plan.memory = memory::map(&plan);
        plan.vmem_limit = memory::vmem_limit(&plan);
        plan.cost.bytes_accessed = memory::traffic(&plan);
        plan
    }

    /// Modelled cycles on one core, with DMAs at the chip's rates: what the default plan is chosen by.
    pub fn modelled_cycles(&self) -> f64 {
        tile::modelled_cycles(self).total
    }

    /// Rows of x that a kernel with a weight pipeline prepares before it waits for weights; it dequantizes
    /// the others beside its first matmuls.
    pub fn rows_ahead(&self) -> usize {
        self.first_columns().map_or(0, |columns| weights::rows_ahead(self, columns))
    }

    /// Rows of x that a kernel with a weight pipeline loads first, and begins to prepare while the others
    /// arrive: all, unless preparing them takes longer.
    pub fn rows_first(&self) -> usize {
        self.first_columns().map_or(0, |columns| weights::rows_first(self, columns))
    }

    /// Modelled cycles of padding operands to whole tiles before the kernel, and of slicing its result.
    pub fn padding_cycles(&self) -> f64 {
        tile::padding_cycles(self)
    }

    /// Whether the kernel quantizes the activations.
    pub fn quantizes_x(&self) -> bool {
        matches!(self.problem.x, ActivationKind::Quantized(..))
    }

    /// The buffer of activation scales, or of the largest magnitudes that become scales; `None` without
    /// scales.
    pub fn x_scale(&self) -> Option<&PlannedBuffer> {
        self.memory.get(BufferId::XScale).or_else(|| self.memory.get(BufferId::XAbsMax))
    }

    /// Number of grid steps.
    pub fn steps(&self) -> usize {
        self.grid.volume()
    }

    /// Element type of x in the kernel.
    pub fn x_element(&self) -> ElementType {
        match self.problem.x {
            ActivationKind::Fp8(_) => ElementType::F8E4M3,
            ActivationKind::Quantized(float, _) | ActivationKind::Plain(float) => kernel_float(float).into(),
        }
    }

    /// Element type of the result in the kernel.
    pub fn kernel_out(&self) -> FloatKind {
        kernel_float(self.problem.out)
    }
}

/// The VPU has no binary16: it is widened before the kernel and rounded after it.
fn kernel_float(float: FloatKind) -> FloatKind {
    match float {
        FloatKind::F16 => FloatKind::F32,
        float => float,
    }
}

fn require_supported(problem: &Problem, chip: &'static TpuChip) -> Result<(), PlanError> {
    let Problem { m, n, k, .. } = *problem;
    for (what, count) in [("rows of x", m), ("rows of the weight", n), ("columns", k)] {
        require_countable(what, count)?;
    }
    let multiplies_fp8 = !matches!(problem.x, ActivationKind::Plain(_));
    if multiplies_fp8 && chip.fp8 == Fp8Support::Unsupported {
        return Err(PlanError::NoFp8 { chip: chip.name });
    }
    Ok(())
}

fn require_whole_blocks(problem: &Problem, strategy: Strategy, tile: Dims) -> Result<(), PlanError> {
    let qb = problem.quant_block.size();
    let partial = |side, of| Err(PlanError::PartialBlock { side, tile: of, quant_block: qb });
    // One tile of all rows may end inside a block; so may any tile where rows have scales of their own.
    let whole_words = strategy == Strategy::Strip && tile.m.is_multiple_of(tile::ROW_UNIT);
    let all_rows = tile.m >= problem.m && (tile.m <= qb || whole_words);
    let own_scales = whole_words && tile::per_row(problem);
    if tile.m == 0 || !(tile.m.is_multiple_of(qb) || all_rows || own_scales) {
        return partial("m", tile.m);
    }
    for (side, of) in [("n", tile.n), ("k", tile.k)] {
        if of == 0 || !of.is_multiple_of(qb) {
            return partial(side, of);
        }
    }
    Ok(())
}

/// A matmul over 128 columns fills half an MXU, so fp8 gains nothing over bf16 there, and one matmul over
/// all of K saves scaling every k-block. With few rows the weights are the work, and codes load faster than
/// they are widened.
fn arithmetic(problem: &Problem, strategy: Strategy, few_rows: bool) -> Arithmetic {
    let dequantize = strategy == Strategy::Strip && problem.quant_block.size() < 256 && !few_rows;
    match problem.x {
        ActivationKind::Plain(FloatKind::Bf16) if dequantize => Arithmetic::Dequantized,
        ActivationKind::Plain(_) => Arithmetic::Widened,
        _ if dequantize => Arithmetic::Dequantized,
        _ => Arithmetic::Fp8,
    }
}

#[cfg(test)]
mod tests;
