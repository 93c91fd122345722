//! Mosaic kernels: their buffers, DMAs and matmuls, and the races of an execution without data.
//!
//! Text is parsed by `octile_mosaic`; what an operation does comes from the table of its interpreter.

mod execute;
mod kernel;
mod memory_box;
mod operand;
mod program;

pub use execute::{ExecuteError, ExecutedRoute, Execution};
pub(crate) use operand::{OperandShape, operands};

use octile_mosaic::{Module, ParseErrorKind};
use serde::Serialize;

use crate::{
    limits::MAX_MOSAIC_BYTES,
    source::{Damage, Place},
};

/// A memref such as `memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>>`, or a vector, which has no memory
/// space.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TensorType {
    /// Dimensions; empty for a scalar.
    pub dims: Vec<u64>,
    /// For example `f8E4M3FN` or `!tpu.dma_semaphore`; empty if unknown.
    pub element: String,
    /// For example `vmem`; empty for a vector.
    pub space: String,
}

/// How an argument of a kernel is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentRole {
    /// Scalar prefetch: copied to SMEM before the kernel starts.
    Prefetched,
    /// A window of an operand; the compiler issues its DMAs.
    Window,
    /// A whole operand; the kernel issues the DMAs.
    Operand,
    /// Scratch memory.
    Scratch,
}

impl ArgumentRole {
    /// The role of the argument at `index`: scalar prefetch comes first, then operands and windows, then
    /// scratch from `first_scratch` on.
    fn of(index: usize, prefetched: usize, first_scratch: usize, space: &str) -> Self {
        match space {
            _ if index >= first_scratch => Self::Scratch,
            _ if index < prefetched => Self::Prefetched,
            "hbm" | "any" => Self::Operand,
            _ => Self::Window,
        }
    }
}

/// A memref argument of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Argument {
    /// For example `%arg3`.
    pub name: String,
    /// Type and memory space.
    pub memory: TensorType,
    /// How it is filled.
    pub role: ArgumentRole,
    /// Its declaration.
    pub place: Place,
}

/// One end of a DMA, resolved through slices to the argument that it is a part of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct View {
    /// The argument.
    pub root: String,
    /// Index of the first slice, as names or constants; empty without one.
    pub index: Vec<String>,
    /// Type and memory space of the slice.
    pub memory: TensorType,
}

/// `tpu.enqueue_dma` or `tpu.wait_dma2`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DmaOp {
    /// Whether it is a wait.
    pub waits: bool,
    /// Source.
    pub source: Option<View>,
    /// Destination.
    pub target: Option<View>,
    /// Semaphore.
    pub semaphore: Option<View>,
    /// Semaphore that a DMA to another device signals on its own device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_semaphore: Option<View>,
    /// Position in the text.
    pub place: Place,
}

/// `tpu.matmul`, or `tpu.matmul_acc_lhs` with the weights that were pushed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MatmulOp {
    /// Left operand.
    pub lhs: TensorType,
    /// Right operand.
    pub rhs: TensorType,
    /// Accumulator.
    pub accumulator: TensorType,
    /// Position in the text.
    pub place: Place,
}

/// A parsed kernel: its buffers, DMAs and matmuls.
#[derive(Clone, Debug, PartialEq)]
pub struct MosaicKernel {
    /// The name of its function.
    pub name: String,
    /// The grid.
    pub grid: Vec<i64>,
    /// Its memref arguments.
    pub arguments: Vec<Argument>,
    /// Its matmuls.
    pub matmuls: Vec<MatmulOp>,
    /// DMA starts and waits.
    pub dmas: Vec<DmaOp>,
    /// Operations without the operands that they need.
    pub damage: Vec<Damage>,
    module: Module,
}

/// Why Mosaic text could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MosaicError {
    /// The text is malformed or truncated.
    #[error("{0}")]
    Damaged(Damage),
    /// The text may be valid MLIR, but uses a form that the parser does not support.
    #[error("{0}")]
    Unsupported(Damage),
    /// The module has no function.
    #[error("the module defines no kernel")]
    NoKernel,
    /// The text is larger than [`MAX_MOSAIC_BYTES`].
    #[error("the text has {0} bytes; at most {MAX_MOSAIC_BYTES} are read")]
    TooLarge(usize),
}

impl MosaicError {
    /// Line and column of the error, or the first ones.
    pub fn place(&self) -> Place {
        match self {
            Self::Damaged(damage) | Self::Unsupported(damage) => damage.place,
            Self::NoKernel | Self::TooLarge(_) => Place { line: 1, column: 1 },
        }
    }

    /// What is wrong with the text itself, as opposed to what this crate does not support.
    pub fn into_damage(self) -> Option<Damage> {
        match self {
            Self::Damaged(damage) => Some(damage),
            Self::NoKernel => Some(Damage { place: self.place(), what: self.to_string() }),
            Self::Unsupported(_) | Self::TooLarge(_) => None,
        }
    }
}

impl MosaicKernel {
    /// Parses the kernel of a module.
    pub fn parse(text: &str) -> Result<Self, MosaicError> {
        if text.len() > MAX_MOSAIC_BYTES {
            return Err(MosaicError::TooLarge(text.len()));
        }
        let module = octile_mosaic::parse(text).map_err(|error| {
            let damage = Damage { place: error.place.into(), what: error.message };
            match error.kind {
                ParseErrorKind::Unsupported => MosaicError::Unsupported(damage),
                _ => MosaicError::Damaged(damage),
            }
        })?;
        kernel::read(module, text).ok_or(MosaicError::NoKernel)
    }
}
