//! Strips that keep codes of few rows of x along the lanes of the MXUs, and stream weights past them.
//!
//! A scale per row is a vector there that all sublanes share, so that a product is scaled and added with two
//! vector operations, not three.

use super::{
    Dims, TpuPlan,
    tile::{CHUNK, FEW_ROWS},
};
use crate::{
    ActivationKind, Problem, QuantBlock, ScaleGranularity, Strategy,
    device::tpu::{Fp8Support, TpuChip},
};

/// Lanes of a vector register.
const LANES: usize = 128;

/// With fewer rows, scaling products beside rows takes no longer than the weights to arrive.
const LEAST: usize = 64;

/// K-blocks that one matmul multiplies.
const K_BLOCKS: usize = 2;

/// Columns that a matmul multiplies besides its own, so that the VPU keeps up with the MXUs.
const MORE: usize = 32;

/// Cycles without VPU work around the wait for a block of weights.
pub(super) const DRAIN: f64 = 450.0;

/// How much longer scaling and adding products takes than its vector operations.
const LOST: f64 = 1.06;

/// Whether a kernel may keep codes of x along the lanes.
pub(super) fn may(problem: &Problem, chip: &TpuChip, strategy: Strategy, tile: Dims) -> bool {
    strategy == Strategy::Strip
        && chip.fp8 == Fp8Support::Native
        && chip.mxu_side == CHUNK
        && problem.quant_block == QuantBlock::B128
        && problem.x == ActivationKind::Fp8(ScaleGranularity::Token)
        && (LEAST + 1..=FEW_ROWS).contains(&tile.m)
}

/// Rows of x and columns of the result in one matmul.
pub(super) fn chunk(tile: Dims) -> (usize, usize) {
    (tile.m, CHUNK.min(tile.n))
}

/// MXU cycles of multiplying some columns: each streams through an MXU once for each matmul along K.
pub(super) fn mxu_cycles(plan: &TpuPlan, columns: usize) -> f64 {
    let matmuls = plan.k_blocks().div_ceil(K_BLOCKS);
    let multiplied = columns.div_ceil(CHUNK) * (CHUNK + MORE);
    (multiplied * CHUNK * CHUNK * matmuls) as f64 / plan.chip.rates.fp8_products
}

/// Vector cycles of scaling and adding the products of some columns.
pub(super) fn vector_cycles(plan: &TpuPlan, columns: usize) -> f64 {
    LOST * 2.0 * (LANES * columns * plan.k_blocks()) as f64 / plan.chip.rates.vector_elements
}

/// Vector cycles of placing the codes of x.
pub(super) fn preparing_x(plan: &TpuPlan) -> f64 {
    2.0 * (CHUNK * plan.tile.k) as f64 / 4096.0
}
