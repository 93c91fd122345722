//! From a plan to code: Mosaic kernels for TPUs with the StableHLO modules around them, PTX kernels for
//! Hopper GPUs, and the operation as plain StableHLO. Nothing here chooses a tile or knows about files and
//! compilers.

#![warn(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

pub mod hopper;
pub mod reference;
mod stablehlo;
pub mod tpu;
