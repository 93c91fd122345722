//! Units of work: independent parts of a shard, small enough for caches.

use std::ops::Range;

use crate::{BLOCK, Checkpoint, matrix::Matrix, plan::TensorTask};

/// Largest unit in bytes of input. Each thread holds one.
const LARGEST: usize = 4 << 20;

/// Bytes up to which several rows of blocks are combined into one unit.
const USUAL: usize = 1 << 20;

/// Side of a unit of a transposed matrix: long enough for efficient row reads and writes.
const TRANSPOSED: usize = 1024;

/// A part of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unit {
    /// Bytes to copy.
    Bytes { task: usize, range: Range<u64> },
    /// Scales to copy.
    Scales { task: usize, range: Range<usize> },
    /// Some blocks of a matrix.
    Blocks { task: usize, rows: Range<usize>, cols: Range<usize> },
}

/// Splits tasks into units.
pub(super) fn units(checkpoint: &Checkpoint, tasks: &[TensorTask]) -> Vec<Unit> {
    let mut units = Vec::new();
    for (task, work) in tasks.iter().enumerate() {
        match work {
            TensorTask::Copy { from, .. } => {
                let bytes = checkpoint.tensor(*from).bytes;
                let starts = (0..bytes).step_by(LARGEST);
                units
                    .extend(starts.map(|at| Unit::Bytes { task, range: at..bytes.min(at + LARGEST as u64) }));
            }
            TensorTask::Scales { from, .. } => {
                let count: usize = checkpoint.tensor(*from).shape.iter().product();
                let step = LARGEST / 4;
                let starts = (0..count).step_by(step);
                units.extend(starts.map(|at| Unit::Scales { task, range: at..count.min(at + step) }));
            }
            TensorTask::Quantize { from, .. }
            | TensorTask::Dequantize { from, .. }
            | TensorTask::Requantize { from, .. } => {
                let (row_step, col_step) = steps(from);
                for row in (0..from.rows).step_by(row_step) {
                    for col in (0..from.cols).step_by(col_step) {
                        let (rows, cols) =
                            (row..from.rows.min(row + row_step), col..from.cols.min(col + col_step));
                        units.push(Unit::Blocks { task, rows, cols });
                    }
                }
            }
        }
    }
    units
}

/// Returns rows and columns per unit, in whole blocks.
fn steps(matrix: &Matrix) -> (usize, usize) {
    if matrix.is_transposed {
        return (TRANSPOSED, TRANSPOSED);
    }
    // Assume four bytes per element, the widest type that codes are decoded to.
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
