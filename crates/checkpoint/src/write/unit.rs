//! The pieces that a shard is made in: small enough for memory and caches, each independent of the others.

use std::ops::Range;

use crate::{
    BLOCK, Checkpoint,
    plan::{Job, Matrix},
};

/// Bytes of input of the largest unit. Threads hold one each.
const LARGEST: usize = 4 << 20;

/// Units of small matrices take several rows of blocks, up to so many bytes.
const USUAL: usize = 1 << 20;

/// Side of a unit of a matrix that is transposed: reads and writes of a row are then long enough.
const TRANSPOSED: usize = 1024;

/// A part of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unit {
    /// Bytes to copy.
    Bytes { job: usize, range: Range<u64> },
    /// Scales to copy.
    Scales { job: usize, range: Range<usize> },
    /// Some blocks of a matrix.
    Blocks { job: usize, rows: Range<usize>, cols: Range<usize> },
}

/// All units of some jobs.
pub(super) fn units(checkpoint: &Checkpoint, jobs: &[Job]) -> Vec<Unit> {
    let mut units = Vec::new();
    for (job, work) in jobs.iter().enumerate() {
        match work {
            Job::Copy { from, .. } => {
                let bytes = checkpoint.tensor(*from).bytes;
                let starts = (0..bytes).step_by(LARGEST);
                units.extend(starts.map(|at| Unit::Bytes { job, range: at..bytes.min(at + LARGEST as u64) }));
            }
            Job::Scales { from, .. } => {
                let count: usize = checkpoint.tensor(*from).shape.iter().product();
                let step = LARGEST / 4;
                let starts = (0..count).step_by(step);
                units.extend(starts.map(|at| Unit::Scales { job, range: at..count.min(at + step) }));
            }
            Job::Quantize { from, .. } | Job::Dequantize { from, .. } | Job::Requantize { from, .. } => {
                let (row_step, col_step) = steps(from);
                for row in (0..from.rows).step_by(row_step) {
                    for col in (0..from.cols).step_by(col_step) {
                        let (rows, cols) =
                            (row..from.rows.min(row + row_step), col..from.cols.min(col + col_step));
                        units.push(Unit::Blocks { job, rows, cols });
                    }
                }
            }
        }
    }
    units
}

/// Rows and columns of the units of a matrix, whole blocks.
fn steps(matrix: &Matrix) -> (usize, usize) {
    if matrix.is_transposed {
        return (TRANSPOSED, TRANSPOSED);
    }
    // As if all elements had four bytes, which those have that codes are decoded to.
    let widest = LARGEST / (BLOCK * 4);
    if matrix.cols > widest {
        return (BLOCK, widest);
    }
    let block_row = matrix.cols.max(1) * BLOCK * 2;
    ((USUAL / block_row).max(1) * BLOCK, matrix.cols.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dtype;

    fn matrix(rows: usize, cols: usize, is_transposed: bool) -> Matrix {
        Matrix { shard: 0, dtype: Dtype::BF16, offset: 0, rows, cols, stride: cols, is_transposed }
    }

    #[test]
    fn units_are_whole_blocks_and_small() {
        for (rows, cols) in [(1, 128), (4096, 128), (128, 4096), (512, 1 << 20), (1 << 20, 7168)] {
            for is_transposed in [false, true] {
                let (row_step, col_step) = steps(&matrix(rows, cols, is_transposed));
                assert!(row_step.is_multiple_of(BLOCK));
                assert!(col_step.is_multiple_of(BLOCK) || col_step == cols);
                assert!(row_step * col_step * 4 <= LARGEST, "{rows} x {cols}: {row_step} x {col_step}");
            }
        }
    }
}
