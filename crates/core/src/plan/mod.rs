//! From a problem, a device and a strategy to every number that a kernel needs. Left of a plan nobody emits
//! text; right of it nobody chooses a tile.

pub mod cpu;
pub mod hopper;
pub mod memory;
pub mod tpu;

pub use memory::{MemoryMap, MemorySpace, Region};

use crate::Strategy;

/// A plan that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The buffers do not fit.
    #[error(
        "strategy {strategy} needs {needed} bytes of {space} on {device}, but {available} are available; \
         the largest buffer is {largest}"
    )]
    DoesNotFit {
        /// What was planned.
        strategy: Strategy,
        /// For which machine.
        device: String,
        /// Where the buffers would live.
        space: MemorySpace,
        /// Bytes asked for.
        needed: usize,
        /// Bytes there are.
        available: usize,
        /// Name and bytes of the largest buffer.
        largest: String,
    },
    /// The chip cannot multiply 8-bit floats.
    #[error(
        "{chip} has no f8e4m3fn matrix product: choose tpu7x, v6e, v5e or v5p, or leave the activations unquantized"
    )]
    NoFp8 {
        /// The chip.
        chip: &'static str,
    },
    /// The kernels multiply 8-bit activations alone.
    #[error("{device} multiplies 8-bit activations only: give fp8, or let bf16, f16 or f32 be quantized")]
    PlainActivations {
        /// For which machine.
        device: &'static str,
    },
    /// Sums cannot be promoted that often, or that rarely.
    #[error("products cannot be added to the f32 sums every {every} of K: {reason}")]
    Promotion {
        /// Length of a chain that was asked for.
        every: usize,
        /// Why not, and what to do.
        reason: &'static str,
    },
    /// The sums of a tile do not fit in the registers of its threads.
    #[error("a tile of {columns} columns needs more registers than threads have: give it at most {most}")]
    TooWide {
        /// Columns asked for.
        columns: usize,
        /// The most there can be.
        most: usize,
    },
    /// Nothing to multiply.
    #[error("the problem has 0 {what}: it needs at least 1")]
    Empty {
        /// Of what there is none.
        what: &'static str,
    },
    /// More than kernels can count.
    #[error("the problem has {count} {what}, and a GPU kernel can have {most}: divide the problem")]
    TooLarge {
        /// Of what there is so much.
        what: &'static str,
        /// How much.
        count: usize,
        /// The most there can be.
        most: usize,
    },
    /// A block would have nothing to multiply.
    #[error(
        "{parts} blocks cannot divide K among them, which has {blocks} stages of 128: give at most so many"
    )]
    TooManyParts {
        /// Blocks asked for.
        parts: usize,
        /// Stages that K has.
        blocks: usize,
    },
    /// The ring cannot turn.
    #[error("a ring of {stages} stages cannot turn while one is read: give at least 2")]
    TooFewStages {
        /// Stages asked for.
        stages: usize,
    },
    /// A tile would cut a quantization block in two.
    #[error("a tile of {tile} along {side} is no multiple of the quantization block {quant_block}")]
    PartialBlock {
        /// Along m, n or k.
        side: &'static str,
        /// The tile's extent.
        tile: usize,
        /// The block's side.
        quant_block: usize,
    },
}
