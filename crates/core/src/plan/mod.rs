//! From a problem, a device and a strategy to every number that a kernel needs.
//!
//! The plan is the waist: left of it nobody emits text, right of it nobody chooses a tile. Emitters declare
//! buffers from its memory map, checks compare compiled kernels with its [`Expectations`], and manifests hold
//! it. A plan read from a file is rebuilt and compared, so it is always one that the constructors make.
//!
//! # Room to grow
//!
//! Plans and errors are `#[non_exhaustive]` and problems are built with `Problem::new` and `with_*`, so what
//! comes next adds fields instead of changing signatures:
//!
//! - grouped products (experts): a list of row ranges in `Problem`, a schedule over groups in the plans;
//! - weights that begin inside a scale block: offsets `n0` and `k0` in `Problem`, which shift the scale
//!   indices;
//! - other scale formats (power-of-two, per channel): a variant beside
//!   [`ScaleGranularity`](crate::ScaleGranularity), and another element type of the scale buffers;
//! - fused epilogues (bias, activation function, residual): an epilogue in `Problem`, and its operands in the
//!   memory map.

pub mod cpu;
mod expectations;
pub mod hopper;
pub mod memory;
pub mod tpu;

pub use expectations::{Exemption, Expectations};
pub use memory::{BufferId, ElementType, MemoryMap, MemorySpace, PlannedBuffer};

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned, de::Error};
use serde_json::Value;

use crate::{
    Problem, Strategy,
    device::cpu::Isa,
    plan::cpu::{CpuPlan, WeightPath},
};

/// A kind of device, as far as the choice of a strategy depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A TPU.
    Tpu,
    /// A Hopper GPU.
    Gpu,
    /// A CPU.
    Cpu {
        /// Instruction set.
        isa: Isa,
        /// Threads.
        threads: usize,
        /// Whether the weight is packed, which `strip` needs.
        packed: bool,
    },
}

impl Strategy {
    /// The fastest strategy for a problem.
    ///
    /// `strip` wins every measured shape. A CPU needs a packed weight for it; without one, what counts is
    /// whether decoded weights are reused: if so, decoding the next panel during the current one pays.
    pub fn best_for(problem: &Problem, device: DeviceKind) -> Self {
        match device {
            DeviceKind::Tpu | DeviceKind::Gpu | DeviceKind::Cpu { packed: true, .. } => Self::Strip,
            DeviceKind::Cpu { isa, threads, packed: false } => {
                match CpuPlan::new(*problem, Self::Auto, isa, threads).path {
                    WeightPath::Streamed => Self::Auto,
                    WeightPath::Buffered => Self::Smem,
                }
            }
        }
    }
}

/// A plan in a file that the constructors do not make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the plan is not one that this version of octile makes")]
pub struct OtherPlan;

/// Deserializes the choices that a plan follows from, rebuilds the plan, and rejects a document that differs
/// from it.
fn rebuilt<'de, D: Deserializer<'de>, Choices: DeserializeOwned, Plan: Serialize>(
    deserializer: D,
    rebuild: impl FnOnce(Choices) -> Option<Plan>,
) -> Result<Plan, D::Error> {
    let written = Value::deserialize(deserializer)?;
    let choices = Choices::deserialize(&written).map_err(D::Error::custom)?;
    let plan = rebuild(choices);
    let same = plan.filter(|plan| serde_json::to_value(plan).is_ok_and(|made| made == written));
    same.ok_or_else(|| D::Error::custom(OtherPlan))
}

/// Why a plan cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The buffers do not fit.
    #[error(
        "strategy {strategy} needs {needed} bytes of {space} on {device}, but {available} are available; \
         the largest buffer is {largest}{}",
        if *space == MemorySpace::Smem {
            ": choose another strategy, a larger quantization block, or a smaller N or K"
        } else {
            ""
        }
    )]
    DoesNotFit {
        /// The strategy.
        strategy: Strategy,
        /// The device.
        device: String,
        /// The memory that is too small.
        space: MemorySpace,
        /// Bytes needed.
        needed: usize,
        /// Bytes available.
        available: usize,
        /// Name and bytes of the largest buffer.
        largest: String,
    },
    /// The chip cannot multiply 8-bit floats.
    #[error(
        "{chip} cannot multiply f8e4m3fn: choose tpu7x, v6e, v5e or v5p, or leave the activations unquantized"
    )]
    NoFp8 {
        /// The chip.
        chip: &'static str,
    },
    /// The kernels take 8-bit activations only.
    #[error("{device} multiplies fp8 activations only: pass fp8, or have bf16, f16 or f32 quantized")]
    PlainActivations {
        /// The device.
        device: &'static str,
    },
    /// Unsupported promotion interval.
    #[error("cannot promote accumulators every {every} K elements: {reason}")]
    Promotion {
        /// Requested interval.
        every: usize,
        /// Why not, and what to do.
        reason: &'static str,
    },
    /// The accumulators of a tile do not fit in the registers of its threads.
    #[error("a tile of {columns} columns needs too many registers: use at most {most} columns")]
    TooWide {
        /// Columns requested.
        columns: usize,
        /// Most columns.
        most: usize,
    },
    /// A pipeline stage holds two weight scales.
    #[error("tiles of {columns} columns can touch three quantization blocks: use a width that touches two")]
    ThreeScales {
        /// Columns requested.
        columns: usize,
    },
    /// Nothing to multiply.
    #[error("the problem has 0 {what}: it needs at least 1")]
    Empty {
        /// What is missing.
        what: &'static str,
    },
    /// A count exceeds the kernel's 32-bit indices.
    #[error("the problem has {count} {what}, but a kernel can index {most}: split the problem")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much.
        count: usize,
        /// Most of it.
        most: usize,
    },
    /// A split-K CTA would have no K stage.
    #[error("split-K of {parts} exceeds the {blocks} K stages: use at most {blocks}")]
    TooManyParts {
        /// CTAs requested.
        parts: usize,
        /// K stages.
        blocks: usize,
    },
    /// No tile is left for two CTAs to share.
    #[error("{tiles} tiles leave none for two of {ctas} CTAs to share: use a cluster of one CTA")]
    NoTail {
        /// Tiles of the result.
        tiles: usize,
        /// CTAs of the grid.
        ctas: usize,
    },
    /// The pipeline is too short.
    #[error("a pipeline needs at least 2 stages, got {stages}")]
    TooFewStages {
        /// Stages requested.
        stages: usize,
    },
    /// A tile would split a quantization block.
    #[error("tile extent {tile} along {side} is not a multiple of the quantization block {quant_block}")]
    PartialBlock {
        /// m, n or k.
        side: &'static str,
        /// Extent of the tile.
        tile: usize,
        /// Side of the quantization block.
        quant_block: usize,
    },
}

/// Kernels index with 31 bits.
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
