//! From a plan to code: Mosaic kernels for TPUs, the StableHLO modules around them, and the operation itself as
//! plain StableHLO. Nothing here chooses a tile; nothing here knows of files or compilers.

#![forbid(unsafe_code)]

pub mod hopper;
pub mod reference;
mod stablehlo;
pub mod tpu;
