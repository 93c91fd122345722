//! Codes of few rows of x along the lanes, where a scale per row is one vector for all sublanes: products are
//! computed transposed, `w * x^T`, and scaled with two vector operations. Beside rows, the scale of a row and
//! a block of weights would be a third one, and had to be repeated along the lanes.
//!
//! Up to 128 rows fill half of an MXU's columns, and one k-block half of its rows. So one matmul multiplies
//! weights of two k-blocks with a matrix that has the codes of each in a quarter, and zeros elsewhere.

use octile_core::plan::tpu::TpuPlan;
use octile_mosaic::{Float, FunctionBuilder, Value};

use crate::{
    stablehlo::float,
    tpu::parts::{
        scales::{Scales, scaled, times},
        tile::{Buffer, LANES, Part},
    },
};

/// K-blocks that one matmul multiplies.
const K_BLOCKS: usize = 2;

/// Columns that a matmul multiplies besides its own.
const MORE: usize = 32;

/// Rows of x that the MXUs keep while weights stream past them.
#[derive(Clone)]
pub(super) struct RowsInLanes {
    /// Codes of every two k-blocks in one matrix.
    pub(super) x: Buffer,
    /// One row for each k-block.
    pub(super) x_scale: Buffer,
}

/// Weight codes: of some columns of a tile, the first of which is `begins`.
pub(super) struct Codes<'a> {
    pub(super) codes: &'a Buffer,
    pub(super) begins: usize,
    pub(super) scale: &'a Scales,
}

/// Places the codes of every two k-blocks in one matrix.
pub(super) fn pair(b: &mut FunctionBuilder, plan: &TpuPlan, x: &Buffer, pairs: &Buffer) {
    let qb = plan.problem.quant_block.size();
    let (rows, k) = (plan.held().m, plan.tile.k);
    let zeros = b.splat_of(0.0, [K_BLOCKS * LANES, k], Float::F8E4M3FN);
    pairs.store(b, zeros, (0, 0));
    for k_block in 0..plan.k_blocks() {
        let at = k_block * qb;
        let codes = x.load(b, (0, at), (rows, plan.block_length(k_block)));
        pairs.store(b, codes, (k_block % K_BLOCKS * LANES, at));
    }
}

impl RowsInLanes {
    /// Multiplies some columns, given as first and number.
    pub(super) fn multiply(
        &self,
        b: &mut FunctionBuilder,
        plan: &TpuPlan,
        w: &Codes<'_>,
        (first, columns): (usize, usize),
        mut put: impl FnMut(&mut FunctionBuilder, Part),
    ) {
        let end = first + columns;
        for col in (first..end).step_by(plan.chunk.1) {
            let cols = plan.chunk.1.min(end - col);
            let multiplied = multiplied((first, end), (col, cols));
            for (number, sum) in self.sums(b, plan, w, (col, cols), multiplied).into_iter().enumerate() {
                // Narrow values are transposed faster.
                let result = b.to_float(sum, float(plan.kernel_out()));
                let value = b.transpose(result);
                put(b, Part { at: (0, col + number * plan.problem.quant_block.size()), value });
            }
        }
    }

    /// The transposed results of columns, one part per weight block, of matmuls over `multiplied` columns.
    fn sums(
        &self,
        b: &mut FunctionBuilder,
        plan: &TpuPlan,
        w: &Codes<'_>,
        (col, cols): (usize, usize),
        multiplied: (usize, usize),
    ) -> Vec<Value> {
        let qb = plan.problem.quant_block.size();
        let rows = plan.held().m;
        let mut sums: Vec<Value> = Vec::new();
        for first in (0..plan.k_blocks()).step_by(K_BLOCKS) {
            let k_blocks = first..plan.k_blocks().min(first + K_BLOCKS);
            let length = k_blocks.clone().map(|k_block| plan.block_length(k_block)).sum();
            // Of the last block of an odd number there are no others beside it.
            let lanes = if k_blocks.len() < K_BLOCKS { rows } else { K_BLOCKS * LANES };
            let lhs = w.codes.load(b, (multiplied.0 - w.begins, first * qb), (multiplied.1, length));
            let rhs = self.x.load(b, (0, first * qb), (lanes, length));
            let product = b.matmul(lhs, rhs);
            for k_block in k_blocks {
                let lane = (k_block - first) * LANES;
                let of_rows = self.x_scale.load(b, (k_block, 0), (1, rows));
                for (part, offset) in (0..cols).step_by(qb).enumerate() {
                    let width = qb.min(cols - offset);
                    let of_columns = w.scale.get(b, col + offset, width, k_block);
                    let scale = times(b, of_rows, of_columns);
                    let product = b.slice(product, &[col - multiplied.0 + offset, lane], &[width, rows]);
                    let product = scaled(b, product, scale);
                    match sums.get_mut(part) {
                        None => sums.push(product),
                        Some(sum) => *sum = b.addf(*sum, product),
                    }
                }
            }
        }
        sums
    }
}

/// Columns of a matmul, first and number, for some of those between two others: with a few more, the MXUs
/// take longer than scaling and adding what they deliver. Else products pile up, and the compiler spills
/// them.
fn multiplied((first, end): (usize, usize), (col, cols): (usize, usize)) -> (usize, usize) {
    if col + cols + MORE <= end {
        (col, cols + MORE)
    } else if first + MORE <= col {
        (col - MORE, cols + MORE)
    } else {
        (col, cols)
    }
}
