//! From a problem, a device and a strategy to every number that a kernel needs. Left of a plan nobody emits
//! text; right of it nobody chooses a tile.

pub mod memory;

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
}
