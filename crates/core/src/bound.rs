//! How far a correct kernel may be from the exact result: derived from the operands before it runs.
//!
//! A k-block of length L is summed with at most L roundings, scaled with at most 3 (two scales multiplied, their
//! product applied, and for unfused arithmetic the product itself), and added to at most B - 1 other blocks. So a
//! term x*w of the sum carries at most t = L + B + 3 roundings, and the error is at most
//! `t u / (1 - t u) * sum |x w|` (Higham, Accuracy and Stability of Numerical Algorithms, 3.1). The sum of
//! magnitudes is bounded block by block with the norms of the two vectors (Cauchy-Schwarz), which costs M*N*B
//! instead of M*N*K.

use crate::FloatKind;

/// What the products of one k-block are added up in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accumulator {
    /// f32, in any order, fused or not: CPUs and TPUs.
    F32,
    /// Hopper tensor cores: about 13 mantissa bits, truncated, inside a chain; promoted to f32 after every
    /// `promote_every` products.
    HopperTensorCore {
        /// Length of a chain.
        promote_every: usize,
    },
    /// f32 over all of K, of operands that were scaled and then rounded to bf16.
    Bf16Operands,
}

const F32_ROUNDOFF: f64 = FloatKind::F32.unit_roundoff();
/// Truncation to 13 bits errs by up to a whole unit in the last place.
const HOPPER_ROUNDOFF: f64 = 1.0 / (1u64 << 13) as f64;

impl Accumulator {
    /// The relative error of a sum of `len` products followed by scaling and the sum over `blocks` blocks, as a
    /// part of the sum of magnitudes.
    pub fn relative_error(self, len: usize, blocks: usize) -> f64 {
        let roundings = (len + blocks + 3) as f64 * F32_ROUNDOFF;
        let f32_part = roundings / (1.0 - roundings);
        match self {
            Self::F32 => f32_part,
            // Every product of a chain is aligned to the largest and truncated once; chains have up to
            // `promote_every / 32` instructions, each of which truncates the running sum again.
            Self::HopperTensorCore { promote_every } => {
                f32_part + HOPPER_ROUNDOFF * (1.0 + promote_every.min(len).div_ceil(32) as f64)
            }
            Self::Bf16Operands => {
                let roundings = (len * blocks + 3) as f64 * F32_ROUNDOFF;
                let operands = (1.0 + FloatKind::Bf16.unit_roundoff()).powi(2) - 1.0;
                operands + (1.0 + operands) * roundings / (1.0 - roundings)
            }
        }
    }
}

/// Collects the bound of every element, one k-block at a time.
#[derive(Debug)]
pub struct ErrorBound {
    accumulator: Accumulator,
    cols: usize,
    longest: usize,
    blocks: usize,
    magnitudes: Vec<f64>,
}

impl ErrorBound {
    /// A bound for `rows x cols` elements.
    pub fn new(rows: usize, cols: usize, accumulator: Accumulator) -> Self {
        Self { accumulator, cols, longest: 0, blocks: 0, magnitudes: vec![0.0; rows * cols] }
    }

    /// Adds a k-block of `len` products, given the scaled norms of its activation and weight rows.
    pub fn add_block(&mut self, len: usize, x_norms: &[f64], w_norms: &[f64]) {
        self.longest = self.longest.max(len);
        self.blocks += 1;
        for (row, x_norm) in self.magnitudes.chunks_mut(self.cols).zip(x_norms) {
            for (magnitude, w_norm) in row.iter_mut().zip(w_norms) {
                *magnitude += x_norm * w_norm;
            }
        }
    }

    /// The bound of every element, once all blocks are in and the result is rounded to `out`.
    pub fn finish(self, values: &[f64], out: FloatKind) -> Vec<f64> {
        let relative = self.accumulator.relative_error(self.longest, self.blocks);
        // Results below the normal range lose precision to absolute steps instead.
        let smallest = match out {
            FloatKind::F32 | FloatKind::Bf16 => f64::from(f32::MIN_POSITIVE),
            FloatKind::F16 => f64::from(half::f16::MIN_POSITIVE),
        };
        let underflow = self.blocks as f64 * f64::from(f32::MIN_POSITIVE) + smallest * out.unit_roundoff();
        let rounding = if out == FloatKind::F32 { 0.0 } else { out.unit_roundoff() };
        let bound = |(magnitude, value): (f64, &f64)| {
            let before = relative * magnitude;
            before + rounding * (value.abs() + before) + underflow
        };
        self.magnitudes.into_iter().zip(values).map(bound).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_grows_with_length_and_a_narrow_accumulator() {
        let f32_error = Accumulator::F32.relative_error(128, 4);
        assert!(f32_error > 128.0 * F32_ROUNDOFF && f32_error < 200.0 * F32_ROUNDOFF);
        assert!(Accumulator::F32.relative_error(512, 4) > 3.0 * f32_error);
        let hopper = Accumulator::HopperTensorCore { promote_every: 128 }.relative_error(128, 4);
        assert!(hopper > 10.0 * f32_error);
    }
}
