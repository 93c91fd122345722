//! Mosaic text: what a kernel says about memory, copies and multiplications.
//!
//! It is read through the IR that kernels are built from, and then its control flow can be executed. Text that the
//! parser does not take is read line by line, for what the checks ask about.

mod execute;
mod kernel;
mod program;
mod region;
mod scan;

pub use execute::{ExecuteError, ExecutedRoute, Execution};

use octile_mosaic::Module;
use serde::Serialize;

use crate::source::{Damage, Place};

/// `memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>>`, or a vector without a space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TensorType {
    /// Dimensions; empty for a scalar.
    pub dims: Vec<u64>,
    /// For example `f8E4M3FN` or `!tpu.dma_semaphore`.
    pub element: String,
    /// For example `vmem`; empty for a vector.
    pub space: String,
}

/// How an argument of a kernel gets its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentRole {
    /// Copied to scalar memory before the kernel starts.
    Prefetched,
    /// A window of an operand, which the compiler moves.
    Window,
    /// A whole operand, which the kernel copies from.
    Operand,
    /// Memory of the kernel itself.
    Scratch,
}

impl ArgumentRole {
    /// The role of the argument at `index`: prefetched ones come first, then operands and windows, then from
    /// `first_scratch` on the kernel's own memory. `space` is where the argument is.
    fn of(index: usize, prefetched: usize, first_scratch: usize, space: &str) -> Self {
        match space {
            _ if index >= first_scratch => Self::Scratch,
            _ if index < prefetched => Self::Prefetched,
            "hbm" | "any" => Self::Operand,
            _ => Self::Window,
        }
    }
}

/// An argument of a kernel that is memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Argument {
    /// For example `%arg3`.
    pub name: String,
    /// Type and space.
    pub memory: TensorType,
    /// How it gets its content.
    pub role: ArgumentRole,
    /// Where it is declared.
    pub place: Place,
}

/// One end of a copy, followed back through slices to the argument it is a part of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct View {
    /// The argument, or the name where it could not be followed.
    pub root: String,
    /// The index of the first slice, as names or constants; empty without one.
    pub index: Vec<String>,
    /// Type and space of the part.
    pub memory: TensorType,
}

/// `tpu.enqueue_dma` or `tpu.wait_dma2`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DmaOp {
    /// Whether it waits.
    pub waits: bool,
    /// Where the data comes from.
    pub source: Option<View>,
    /// Where it goes.
    pub target: Option<View>,
    /// The semaphore.
    pub semaphore: Option<View>,
    /// Where the operation is.
    pub place: Place,
}

/// `tpu.matmul`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MatmulOp {
    /// Left operand.
    pub lhs: TensorType,
    /// Right operand.
    pub rhs: TensorType,
    /// Accumulator.
    pub accumulator: TensorType,
    /// Where the operation is.
    pub place: Place,
}

/// What a kernel says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MosaicScan {
    /// The name of the kernel.
    pub kernel: String,
    /// The grid.
    pub iteration_bounds: Vec<u64>,
    /// Its memory.
    pub arguments: Vec<Argument>,
    /// Its multiplications.
    pub matmuls: Vec<MatmulOp>,
    /// Its copies.
    pub dmas: Vec<DmaOp>,
    /// What could not be read.
    pub damage: Vec<Damage>,
}

/// A text beyond this is read line by line only: the tree of a module takes several times its text.
const LARGEST_TREE: usize = 16 << 20;

impl MosaicScan {
    /// Reads a kernel. Never fails: what cannot be read is in [`MosaicScan::damage`].
    pub fn read(text: &str) -> Self {
        Self::with_module(text).0
    }

    /// The same, with the module where the text is one: it can be [executed](Execution::of).
    pub fn with_module(text: &str) -> (Self, Option<Module>) {
        if text.len() > LARGEST_TREE {
            return (scan::scan(text), None);
        }
        match octile_mosaic::parse(text) {
            Ok(module) => match kernel::read(&module, text) {
                Some(scan) => (scan, Some(module)),
                None => (scan::scan(text), None),
            },
            Err(error) => {
                let mut scan = scan::scan(text);
                let place = Place { line: error.place.line, column: error.place.column };
                if scan.damage.is_empty() && !is_beyond_the_parser(&error.message) {
                    scan.damage.push(Damage { place, what: error.message });
                }
                (scan, None)
            }
        }
    }
}

/// Whether the parser refuses what other kernels may well say, as opposed to text that is damaged.
fn is_beyond_the_parser(message: &str) -> bool {
    message.contains("unknown custom form") || message.contains("not supported")
}
