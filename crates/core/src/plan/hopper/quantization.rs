//! How a quantizing kernel is launched, and with what it is called.

use super::{ScaleLayout, arguments::countable_stride};
use crate::{ActivationKind, Problem, ScaleGranularity};

/// Names of the numbers that a quantizing kernel takes after pointers to x, its codes and its scales. The
/// last three are the number of k-blocks of a row, and what divides by it:
/// `high(2 * n * reciprocal) >> shift`.
pub const QUANTIZE_NUMBERS: [&str; 10] = [
    "m",
    "k",
    "quant_shift",
    "x_stride",
    "codes_stride",
    "scale_row",
    "scale_k",
    "k_groups",
    "k_groups_reciprocal",
    "k_groups_shift",
];

/// Bytes of shared memory of a block of a quantizing kernel.
pub const QUANTIZE_SHARED_BYTES: u32 = 16;

/// How a quantizing kernel divides its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuantizeLaunch {
    /// Threads of a block.
    pub threads: u32,
    /// Token groups that a block takes at a time.
    pub groups_per_block: u32,
    /// Blocks per multiprocessor that take one piece of work after another; `None` for one block per piece.
    pub staying: Option<u32>,
}

impl QuantizeLaunch {
    /// Blocks of the grid for the activations of a problem; `None` where a kernel cannot count them.
    pub fn grid(&self, problem: &Problem, multiprocessors: usize) -> Option<(u32, u32)> {
        let (rows, k_blocks) = problem.x_scale_shape()?;
        let (blocks, rows) = match problem.x.granularity()? {
            ScaleGranularity::Token => {
                let per_block = self.groups_per_block as usize;
                let pieces = rows.checked_mul(k_blocks)?.checked_next_multiple_of(per_block)? / per_block;
                // The kernel divides the indices of groups, which must leave a bit free for that.
                i32::try_from(pieces.checked_mul(per_block)?).ok()?;
                let most = self
                    .staying
                    .map_or(Some(pieces), |blocks| multiprocessors.checked_mul(blocks as usize))?;
                (pieces.min(most), 1)
            }
            ScaleGranularity::Block => (k_blocks, rows),
        };
        Some((u32::try_from(blocks).ok()?, u32::try_from(rows).ok()?))
    }
}

/// The numbers, in the order of [`QUANTIZE_NUMBERS`]; `None` when one, or a stride in bytes, does not fit in
/// 32 bits, or when the activations do not come as floats.
pub fn quantize_numbers(
    problem: &Problem,
    x_stride: usize,
    codes_stride: usize,
    scales: ScaleLayout,
) -> Option<[u32; QUANTIZE_NUMBERS.len()]> {
    let ActivationKind::Quantized(kind, _) = problem.x else { return None };
    let (_, cols) = problem.x_scale_shape()?;
    let x_stride = countable_stride(x_stride, kind.bytes())?;
    let [scale_row, scale_k] = scales.numbers()?;
    let shift = problem.quant_block.size().ilog2() as usize;
    let (reciprocal, reciprocal_shift) = reciprocal(cols);
    let numbers = [
        problem.m,
        problem.k,
        shift,
        x_stride as usize,
        codes_stride,
        scale_row as usize,
        scale_k as usize,
        cols,
        reciprocal,
        reciprocal_shift,
    ];
    let mut narrow = [0; QUANTIZE_NUMBERS.len()];
    for (narrow, number) in narrow.iter_mut().zip(numbers) {
        *narrow = u32::try_from(number).ok()?;
    }
    Some(narrow)
}

/// What a kernel divides a number below 2^31 by `divisor` with, because it has no quick division of its own:
/// a factor, and how far to shift the high half of its product with twice the number.
fn reciprocal(divisor: usize) -> (usize, usize) {
    let shift = divisor.next_power_of_two().ilog2() as usize;
    ((1usize << (31 + shift)) / divisor + 1, shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reciprocals_divide() {
        for divisor in (1..2000).chain([4095, 4096, 4097, 65_535, 1 << 20, (1 << 20) + 1, i32::MAX as usize])
        {
            let (factor, shift) = reciprocal(divisor);
            let factor = u64::from(u32::try_from(factor).expect("a factor has 32 bits"));
            let last = i32::MAX as u64;
            let divisor = divisor as u64;
            let edges = (0..200).flat_map(|at| {
                let multiple = last / divisor / 200 * at * divisor;
                [multiple.saturating_sub(1), multiple, multiple + 1, last - at]
            });
            for number in edges.filter(|number| *number <= last) {
                assert_eq!((2 * number * factor) >> 32 >> shift, number / divisor, "{number} / {divisor}");
            }
        }
    }
}
