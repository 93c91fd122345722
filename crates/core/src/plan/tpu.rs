//! Plans for TPU kernels: tiles, grid, buffers and what the compiler is asked for.

mod memory;
mod tile;

use std::{fmt, str::FromStr};

use serde::Serialize;

use super::{MemoryMap, MemorySpace, PlanError};
use crate::{
    ActivationKind, FloatKind, Problem, ScaleGranularity, Strategy,
    device::tpu::{Fp8Support, TpuChip},
};

/// Three extents along M, N and K.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Dims {
    /// Along the rows of x.
    pub m: usize,
    /// Along the rows of w.
    pub n: usize,
    /// Along the columns of both.
    pub k: usize,
}

impl Dims {
    /// Their product.
    pub fn volume(self) -> usize {
        self.m * self.n * self.k
    }
}

impl fmt::Display for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}x{}x{}", self.m, self.n, self.k))
    }
}

/// How large a kernel's block is, measured in quantization blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BlockMode {
    /// A kernel block is a quantization block.
    Aligned,
    /// A kernel block is many quantization blocks, taken one after another.
    Large,
}

impl BlockMode {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Aligned, Self::Large];
}

impl fmt::Display for BlockMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Aligned => "aligned",
            Self::Large => "large",
        })
    }
}

/// A name that is no block mode.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown block mode '{0}': expected aligned or large")]
pub struct UnknownMode(String);

impl FromStr for BlockMode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.to_string().eq_ignore_ascii_case(text))
            .ok_or_else(|| UnknownMode(text.to_owned()))
    }
}

/// What the matrix units multiply, which decides where the scales are applied and what is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arithmetic {
    /// 8-bit codes; the scales are applied to the f32 product of every k-block.
    Fp8,
    /// Wider activations and the codes widened to the same type, which is exact; scales as with `Fp8`.
    Widened,
    /// Both operands scaled in f32 and rounded to bf16 once, then one product over all of a strip's K.
    Dequantized,
}

/// How a kernel for few rows brings in the weights: in pieces of whole-K columns, many of them under way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Ring {
    /// Rows of w in one piece.
    pub columns: usize,
    /// Pieces that vector memory holds.
    pub slots: usize,
}

/// What the compiler is told about the work of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CostEstimate {
    /// Multiplications and additions.
    pub flops: usize,
    /// Bytes between device memory and the chip.
    pub bytes_accessed: usize,
}

/// Everything that a TPU kernel needs to know.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TpuPlan {
    /// What is multiplied.
    pub problem: Problem,
    /// On what.
    pub chip: &'static TpuChip,
    /// How the data moves.
    pub strategy: Strategy,
    /// Aligned or large blocks.
    pub mode: BlockMode,
    /// What the matrix units multiply.
    pub arithmetic: Arithmetic,
    /// The problem, padded to whole tiles.
    pub padded: Dims,
    /// One kernel block.
    pub tile: Dims,
    /// Tiles along each dimension.
    pub grid: Dims,
    /// Rows and columns of one product inside a tile.
    pub chunk: (usize, usize),
    /// How weights come in where rows are few; none where the compiler moves them.
    pub ring: Option<Ring>,
    /// Whether quantized activations stay in vector memory for the whole row of tiles.
    pub keeps_quantized_x: bool,
    /// Buffers.
    pub memory: MemoryMap,
    /// DMA semaphores; the compiler adds its own where it moves the data itself.
    pub semaphores: usize,
    /// Vector memory to ask from the compiler, in bytes.
    pub vmem_limit: usize,
    /// Work.
    pub cost: CostEstimate,
}

impl TpuPlan {
    /// The best plan for a problem.
    pub fn new(
        problem: &Problem,
        chip: &'static TpuChip,
        strategy: Strategy,
        mode: BlockMode,
    ) -> Result<Self, PlanError> {
        refuse_unsupported(problem, chip)?;
        let tile = tile::choose(problem, chip, strategy, mode);
        Self::with_tile(problem, chip, strategy, mode, tile)
    }

    /// A plan with tiles of a given size.
    pub fn with_tile(
        problem: &Problem,
        chip: &'static TpuChip,
        strategy: Strategy,
        mode: BlockMode,
        tile: Dims,
    ) -> Result<Self, PlanError> {
        refuse_unsupported(problem, chip)?;
        refuse_partial_blocks(problem, tile)?;
        let plan = Self::lay_out(problem, chip, strategy, mode, tile);
        let smem = plan.chip.smem;
        plan.memory.require(MemorySpace::Smem, smem, strategy, chip.name)?;
        plan.memory.require(MemorySpace::Vmem, memory::usable_vmem(chip), strategy, chip.name)?;
        Ok(plan)
    }

    /// All figures of a plan, before anyone asks whether it fits.
    fn lay_out(
        problem: &Problem,
        chip: &'static TpuChip,
        strategy: Strategy,
        mode: BlockMode,
        tile: Dims,
    ) -> Self {
        let grid = Dims {
            m: problem.m.div_ceil(tile.m),
            n: problem.n.div_ceil(tile.n),
            k: problem.k.div_ceil(tile.k),
        };
        let padded = Dims { m: grid.m * tile.m, n: grid.n * tile.n, k: grid.k * tile.k };
        let ring = tile::ring(problem, chip, strategy, tile, padded);
        let arithmetic = arithmetic(problem, strategy, ring.is_some());
        let quantizes = matches!(problem.x, ActivationKind::Quantized(..));
        let mut plan = Self {
            problem: *problem,
            chip,
            strategy,
            mode,
            arithmetic,
            padded,
            tile,
            grid,
            chunk: tile::chunk(problem, strategy, arithmetic, tile, ring),
            ring,
            keeps_quantized_x: quantizes && grid.n > 1,
            memory: MemoryMap::default(),
            semaphores: match strategy {
                Strategy::Dma | Strategy::Smem => 2 * 5,
                // One per piece of weights; x, the scales of both operands and the result.
                Strategy::Strip => ring.map_or(0, |ring| ring.slots + 4),
                Strategy::Auto => 0,
            },
            vmem_limit: 0,
            cost: CostEstimate { flops: 2 * padded.volume(), bytes_accessed: 0 },
        };
        plan.memory = memory::map(&plan);
        plan.vmem_limit = memory::vmem_limit(&plan);
        plan.cost.bytes_accessed = memory::traffic(&plan);
        plan
    }

    /// Rows of x that share a scale, as far as a tile is concerned: a tile may be shorter than a block.
    pub fn x_scale_rows(&self) -> usize {
        match self.problem.x.granularity() {
            Some(ScaleGranularity::Token) => 1,
            _ => self.problem.quant_block.size().min(self.tile.m),
        }
    }

    /// Scales of x in one tile: rows and k-blocks.
    pub fn x_scale_tile(&self) -> (usize, usize) {
        (self.tile.m / self.x_scale_rows(), self.k_blocks())
    }

    /// Scales of w in one tile: rows and k-blocks.
    pub fn w_scale_tile(&self) -> (usize, usize) {
        (self.tile.n / self.problem.quant_block.size(), self.k_blocks())
    }

    /// Quantization blocks along K in one tile.
    pub fn k_blocks(&self) -> usize {
        self.tile.k / self.problem.quant_block.size()
    }

    /// Steps of the grid.
    pub fn steps(&self) -> usize {
        self.grid.volume()
    }

    /// The type in which x reaches the kernel; none for 8-bit codes. The kernel has no binary16.
    pub fn wide_x(&self) -> Option<FloatKind> {
        match self.problem.x {
            ActivationKind::Fp8(_) => None,
            ActivationKind::Quantized(float, _) | ActivationKind::Plain(float) => Some(kernel_float(float)),
        }
    }

    /// The type in which the result leaves the kernel.
    pub fn kernel_out(&self) -> FloatKind {
        kernel_float(self.problem.out)
    }
}

/// Binary16 is widened on the way into a kernel and narrowed on the way out of it: vector units lack it.
fn kernel_float(float: FloatKind) -> FloatKind {
    match float {
        FloatKind::F16 => FloatKind::F32,
        float => float,
    }
}

fn refuse_unsupported(problem: &Problem, chip: &'static TpuChip) -> Result<(), PlanError> {
    let multiplies_fp8 = !matches!(problem.x, ActivationKind::Plain(_));
    if multiplies_fp8 && chip.fp8 == Fp8Support::Unsupported {
        return Err(PlanError::NoFp8 { chip: chip.name });
    }
    Ok(())
}

fn refuse_partial_blocks(problem: &Problem, tile: Dims) -> Result<(), PlanError> {
    let qb = problem.quant_block.size();
    let refused = |side, of| Err(PlanError::PartialBlock { side, tile: of, quant_block: qb });
    let one_block_of_rows = tile.m <= qb && tile.m >= problem.m;
    if tile.m == 0 || !(tile.m.is_multiple_of(qb) || one_block_of_rows) {
        return refused("m", tile.m);
    }
    for (side, of) in [("n", tile.n), ("k", tile.k)] {
        if of == 0 || !of.is_multiple_of(qb) {
            return refused(side, of);
        }
    }
    Ok(())
}

/// A product over 128 columns fills half a matrix unit, so there 8-bit codes gain nothing over bf16, and one
/// product over all of K saves scaling every k-block. With few rows the weights are the work, and codes are
/// loaded faster than they are widened.
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
